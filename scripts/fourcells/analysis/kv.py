"""How many requests the KV cache holds, by how their memory is reserved.

Arithmetic on what an engine reported, as in the lesson's section 6: a ceiling, not a measured
gain of paging.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from fourcells.analysis import lesson
from fourcells.analysis.kv_arithmetic import per_token_formula, running_tokens, used_share
from fourcells.analysis.lesson import GIB
from fourcells.analysis.load import Timings
from fourcells.model import DTYPE_BYTES, bytes_per_token
from fourcells.schedule import RESERVATIONS
from fourcells.workload import lengths

COLUMNS = ["source", "quantity", "value", "unit", "formula"]
LESSON, PAPER = "lesson", "paper"
UNITS = {
    "capacity_tokens": "tokens",
    "usable_tokens": "tokens",
    "max_model_len": "tokens",
    "mean_tokens": "tokens",
    "requests_by_max": "requests",
    "requests_by_use": "requests",
    "factor": "x",
    "factor_printed": "x",
    "engine_max_concurrency": "requests",
    "kv_bytes_per_token": "bytes",
    "kv_bytes": "bytes",
    "weights_bytes": "bytes",
    "memory_budget_bytes": "bytes",
    "memory_left_bytes": "bytes",
    "kv_budget_bytes": "bytes",
    **{f"running_{name}": "tokens" for name in RESERVATIONS},
    **{f"requests_{name}": "requests" for name in RESERVATIONS},
    **{f"used_share_{name}": "share" for name in RESERVATIONS},
    "exercise_capacity_tokens": "tokens",
    "exercise_by_max": "requests",
    "exercise_by_use": "requests",
}
_RULES = {
    "on_demand": "the tokens it has so far",
    "exact": "prompt + output",
    "pow2": "the next power of two of prompt + output",
    "max": "the maximum length",
}


def kv_table(timings: Timings) -> pd.DataFrame:
    """Rows of the lesson, its exercise too, of every engine and slots ("vllm/16") with a paged
    cache, and of the PagedAttention paper (`paper`).

    `running_*`: tokens that a running request of B takes under each reservation, over all steps;
    `requests_*`: so many run at once; `used_share_*`: of what they take, the share that holds
    tokens. Of an engine in its blocks and of its usable tokens, whatever it reserves itself.

    A quantity that the engine does not report, or that needs workload B where B was not measured,
    has no row.
    """
    table = [_row(LESSON, *row) for row in _of_lesson()]
    pairs = _lengths(timings)
    for (engine, slots), group in timings.plan.groupby(["engine", "slots"], sort=False):
        reports = [timings.metadata[i] for i in group.index]
        # Without blocks a region belongs to its slot: how much of it is used changes nothing.
        needed = ("kv_capacity_tokens", "kv_blocks", "block_size")
        reports = [m for m in reports if all(m["applied"].get(key) for key in needed)]
        if reports:
            # Engines size the cache by the memory that is free when they start, so it may differ
            # between repeats: the smallest was there in all of them.
            smallest = min(reports, key=lambda m: m["applied"]["kv_capacity_tokens"])
            table += [_row(f"{engine}/{slots}", *row) for row in _measured(smallest, pairs)]
    for name, share in lesson.paper_used_share().items():
        table.append(_row(PAPER, share, f"used_share_{name}", "PagedAttention paper, SOSP 2023"))
    return pd.DataFrame(table, columns=COLUMNS)


def _row(source: str, value: float, quantity: str, formula: str) -> dict:
    return {
        "source": source,
        "quantity": quantity,
        "value": float(value),
        "unit": UNITS[quantity],
        "formula": formula,
    }


def _lengths(timings: Timings) -> list[tuple[int, int]] | None:
    """Prompt and output tokens of the requests of B; None without B."""
    on_b = timings.plan.index[timings.plan["workload"] == "B"]
    if on_b.empty:
        return None
    spec = timings.metadata[on_b[0]]["spec"]
    return lengths(spec["requests"], spec["seed"])


def _of_lesson() -> list[tuple[float, str, str]]:
    """(value, quantity, formula) of the lesson's figures."""
    found = [(value, name, _LESSON_FORMULAS[name]) for name, value in lesson.kv().items()]
    given = lesson.figures()["kv"]
    found += _ladder(lesson.reservations(), given["capacity_tokens"])
    exercise = lesson.figures()["exercise"]
    capacity, by_max, by_use = exercise["capacity_tokens"], *lesson.exercise()
    return [
        *found,
        (capacity, "exercise_capacity_tokens", "question 7, as given"),
        (by_max, "exercise_by_max", f"{capacity} / {exercise['max_model_len']}"),
        (by_use, "exercise_by_use", f"{capacity} / {exercise['mean_tokens']}, a ceiling"),
    ]


def _ladder(found: Mapping[str, float], capacity: int) -> list[tuple[float, str, str]]:
    """(value, quantity, formula) by reservation, from `running_*`, `requests_*`, `used_share_*`."""
    rows = []
    for name, rule in _RULES.items():
        taken = found[f"running_{name}"]
        rows.append((taken, f"running_{name}", f"{rule}, mean over the steps of all requests of B"))
        formula = f"{capacity} / {taken:.6g}, while others wait"
        rows.append((found[f"requests_{name}"], f"requests_{name}", formula))
        formula = f"{rule}: the share that holds tokens"
        rows.append((found[f"used_share_{name}"], f"used_share_{name}", formula))
    return rows


def _measured(
    meta: Mapping, pairs: Sequence[tuple[int, int]] | None
) -> list[tuple[float, str, str]]:
    """(value, quantity, formula) of what one timing's engine reported.

    Args:
        pairs: prompt and output tokens of the requests of B.
    """
    applied, model = meta["applied"], meta["provenance"].get("model") or {}
    capacity, blocks, size = (
        applied.get(k) for k in ("kv_capacity_tokens", "kv_blocks", "block_size")
    )
    longest = applied.get("max_model_len") or meta["spec"]["max_model_len"]
    # vLLM keeps its first block as the null block; no request ever gets it.
    kept = 1 if meta["spec"]["backend"] == "vllm" else 0
    usable = (blocks - kept) * size
    rows = [
        (capacity, "capacity_tokens", "as the engine reports it"),
        (usable, "usable_tokens", f"({blocks} - {kept}) blocks x {size}"),
        (longest, "max_model_len", "as the engine applies it"),
        (capacity / longest, "requests_by_max", f"{capacity} / {longest}"),
    ]
    if pairs:
        mean = sum(prompt + output for prompt, output in pairs) / len(pairs)
        rows.append((mean, "mean_tokens", "prompt + output, mean over the requests of B"))
        rows.append((capacity / mean, "requests_by_use", f"{capacity} / {mean:g}"))
        rows.append((longest / mean, "factor", f"{longest} / {mean:g}"))
    if applied.get("max_concurrency"):
        rows.append(
            (applied["max_concurrency"], "engine_max_concurrency", "as the engine reports it")
        )
    if pairs:
        found = {}
        for name in RESERVATIONS:
            taken = running_tokens(pairs, name, longest, size)
            found[f"running_{name}"], found[f"requests_{name}"] = taken, usable / taken
            found[f"used_share_{name}"] = used_share(pairs, name, longest, size)
        rows += _ladder(found, usable)
    width = DTYPE_BYTES.get(applied.get("dtype"))
    shape = [model.get(k) for k in ("layers", "kv_heads", "head_dim")]
    if width and all(shape):
        per_token = bytes_per_token(*shape, width)
        rows.append((per_token, "kv_bytes_per_token", per_token_formula(*shape, width)))
        rows.append((capacity * per_token, "kv_bytes", f"{capacity} x {per_token}"))
    # told in tokens, the cache is not what its memory would hold
    if applied.get("kv_cache_gib") and not meta["spec"]["options"].get("kv_tokens"):
        gib = applied["kv_cache_gib"]
        rows.append((gib * GIB, "kv_budget_bytes", f"{gib:g} GiB for the cache, as applied"))
    if model.get("bytes"):
        rows.append((model["bytes"], "weights_bytes", "size of the checkpoint"))
    return rows


_LESSON_FORMULAS = {
    "capacity_tokens": "as vLLM reported it",
    "max_model_len": "as given",
    "mean_tokens": "128 + 184",
    "requests_by_max": "219328 / 2048",
    "requests_by_use": "219328 / 312",
    "factor": "2048 / 312",
    "factor_printed": "700 / 107",
    "kv_bytes_per_token": "2 x 28 layers x 2 KV heads x 128 x 2 bytes",
    "kv_bytes": "219328 x 28672",
    "engine_max_concurrency": "as vLLM reported it",
    "weights_bytes": "2.89 GiB as given",
    "memory_budget_bytes": "0.8 x 11.63 GiB as given",
    "memory_left_bytes": "budget - cache - weights",
}
