"""The lesson's figures, and everything that follows from them by arithmetic; one paper's beside."""

from __future__ import annotations

from functools import cache
from itertools import cycle, islice
from pathlib import Path

import yaml

from fourcells.analysis.kv_arithmetic import running_tokens, used_share
from fourcells.model import bytes_per_token
from fourcells.schedule import RESERVATIONS
from fourcells.simulator import simulate

GIB = 2**30


@cache
def figures() -> dict:
    """The raw figures of lesson.yaml, units as commented there. Not to be changed by callers."""
    return yaml.safe_load(Path(__file__).with_name("lesson.yaml").read_text(encoding="utf-8"))


def engine(backend: str, admission: str | None) -> str | None:
    """The lesson's engine that serves so; None when it is neither of the two."""
    return {("torch", "padded"): "static", ("vllm", "continuous"): "vllm"}.get((backend, admission))


def cell(lesson_engine: str | None, slots: int) -> str | None:
    """The lesson's cell of one of its engines; None when it measured none with these slots."""
    key = f"{lesson_engine}_{slots}"
    return key if key in figures()["throughput_tok_s"] else None


def tok_s(cell_name: str | None, workload: str | None) -> float | None:
    """Output tokens per second that the lesson measured; None where it has no figure."""
    return figures()["throughput_tok_s"].get(cell_name, {}).get(workload)


def loss(cell_name: str | None, workload: str, compare_with: str | None) -> float | None:
    """T(workload) / T(compare_with) - 1 of one of the lesson's cells; None without a figure."""
    mixed, uniform = tok_s(cell_name, workload), tok_s(cell_name, compare_with)
    if workload == compare_with or mixed is None or uniform is None:
        return None
    return mixed / uniform - 1


def latency(
    cell_name: str | None, workload: str, rank: int, lengths: int
) -> tuple[float | None, float | None]:
    """(TTFT, E2E) in seconds of the request length of a rank (0: the shortest) on workload B.

    Ranks, not token counts, are matched: a smaller scale keeps the mix and divides the lengths.
    None, None where the lesson has no figure or the workload has another number of lengths.
    """
    table = figures()["latency_s"].get(cell_name)
    if table is None or workload != "B" or lengths != len(table["ttft"]):
        return None, None
    return table["ttft"][rank], table["e2e"][rank]


def output_tokens(workload: str) -> list[int]:
    """Output tokens of each request of the lesson's workload, in its order."""
    given = figures()["workloads"][workload]
    return list(islice(cycle(given["output_tokens"]), given["requests"]))


def lengths(workload: str) -> list[tuple[int, int]]:
    """Prompt and output tokens of each request of the lesson's workload, in its order."""
    prompt = figures()["workloads"][workload]["prompt_tokens"]
    return [(prompt, output) for output in output_tokens(workload)]


def mean_tokens(workload: str) -> float:
    """Prompt plus output tokens, mean over the requests."""
    totals = [prompt + output for prompt, output in lengths(workload)]
    return sum(totals) / len(totals)


@cache
def ratios() -> dict[str, float]:
    """R_A, R_B, Q and slots_ratio as the lesson's throughput table gives them."""
    table = figures()["throughput_tok_s"]
    r_a = table["vllm_16"]["A"] / table["static_16"]["A"]
    r_b = table["vllm_16"]["B"] / table["static_16"]["B"]
    slots_ratio = table["vllm_256"]["A"] / table["vllm_16"]["A"]
    return {"R_A": r_a, "R_B": r_b, "Q": r_b / r_a, "slots_ratio": slots_ratio}


@cache
def static_idle() -> float:
    """Share of the rows that a static batch of 16 computes for nothing on B: 1 - 184/512."""
    steps = simulate(output_tokens("B"), 16, "padded").steps
    return 1 - sum(s.useful_rows for s in steps) / sum(s.rows for s in steps)


@cache
def step_model(cell_name: str | None) -> tuple[float | None, float | None]:
    """(a, c) of the cell's engine: a step of n rows takes a + c * n seconds, from the throughput on
    A alone. Of an engine with one slot count c is None, and a is the whole step; of no cell both
    are None."""
    if cell_name is None:
        return None, None
    requests = output_tokens("A")
    seconds = {}
    for name, row in figures()["throughput_tok_s"].items():
        if name.split("_")[0] == cell_name.split("_")[0]:
            # equal lengths: every admission takes the same steps
            rows = min(int(name.split("_")[1]), len(requests))
            steps = len(simulate(requests, rows, "continuous").steps)
            seconds[rows] = sum(requests) / row["A"] / steps
    few, many = min(seconds), max(seconds)
    if few == many:
        return seconds[few], None
    c = (seconds[many] - seconds[few]) / (many - few)
    return seconds[few] - c * few, c


def sooner(cell_name: str) -> float:
    """How many times sooner than in a static batch the shortest request of B is returned."""
    table = figures()["latency_s"]
    return table["static_16"]["e2e"][0] / table[cell_name]["e2e"][0]


def kv() -> dict[str, float]:
    """Section 6's arithmetic: tokens, requests, bytes. `factor_printed` rounds as the lesson did
    (about 700 by 107); unrounded it is `factor`, 2048 / 312 = 6.56. `memory_left_bytes`: what
    cache and weights leave of the budget, for activations and graphs."""
    given, model, machine = figures()["kv"], figures()["model"], figures()["machine"]
    capacity, longest, mean = given["capacity_tokens"], given["max_model_len"], mean_tokens("B")
    shape = (model[key] for key in ("layers", "kv_heads", "head_dim", "dtype_bytes"))
    per_token = bytes_per_token(*shape)
    by_max, by_use = capacity / longest, capacity / mean
    cache_bytes, weights = capacity * per_token, round(model["weights_gib"] * GIB)
    budget = round(machine["memory_use"] * machine["usable_gib"] * GIB)
    return {
        "capacity_tokens": capacity,
        "max_model_len": longest,
        "mean_tokens": mean,
        "requests_by_max": by_max,
        "requests_by_use": by_use,
        "factor": by_use / by_max,
        "factor_printed": round(by_use, -2) / int(by_max),
        "kv_bytes_per_token": per_token,
        "kv_bytes": cache_bytes,
        "engine_max_concurrency": given["engine_max_concurrency"],
        "weights_bytes": weights,
        "memory_budget_bytes": budget,
        "memory_left_bytes": budget - cache_bytes - weights,
    }


def reservations() -> dict[str, float]:
    """What a running request of B takes under each reservation (`running_*`, tokens), how many fit
    into the lesson's cache (`requests_*`), and the share of it that they use (`used_share_*`);
    tokens counted singly, without blocks."""
    given = figures()["kv"]
    pairs, longest = lengths("B"), given["max_model_len"]
    taken = {name: running_tokens(pairs, name, longest) for name in RESERVATIONS}
    return {
        **{f"running_{name}": tokens for name, tokens in taken.items()},
        **{f"requests_{name}": given["capacity_tokens"] / n for name, n in taken.items()},
        **{f"used_share_{name}": used_share(pairs, name, longest) for name in RESERVATIONS},
    }


def exercise() -> tuple[float, float]:
    """Requests that fit in the exercise's cache: reserved by maximum length, and by mean use."""
    given = figures()["exercise"]
    capacity = given["capacity_tokens"]
    return capacity / given["max_model_len"], capacity / given["mean_tokens"]


def paper_used_share() -> dict[str, float]:
    """Share of the KV memory that holds tokens, by reservation, as the PagedAttention paper
    measured it on another model, another load and other engines."""
    share = figures()["paged_attention_paper"]["used_share"]
    return {name: share[name] for name in RESERVATIONS}


def static_runs_apart() -> float:
    """1 - min/max of the static cell on B over the lesson's two runs."""
    runs = figures()["static_b_runs_tok_s"]
    return 1 - min(runs) / max(runs)


def runs_apart(cell_name: str | None, workload: str) -> tuple[float, float] | None:
    """1 - min/max over the lesson's two runs, from and to; None where it tells none."""
    if cell_name is None or workload != "B":
        return None
    if cell_name.startswith("static"):
        return static_runs_apart(), static_runs_apart()
    low, high = figures()["vllm_b_runs_apart"]
    return low, high


def reserved_idle() -> float:
    """Share of a region reserved by maximum length that one short request leaves idle."""
    given = figures()["reservation"]
    return 1 - given["used_tokens"] / given["reserved_tokens"]
