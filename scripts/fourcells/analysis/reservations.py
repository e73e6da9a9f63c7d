"""How KV memory is reserved, measured where it is scarce: rows at once, speed, and what is used.

The engines differ in the rule by which a request takes its blocks, or in the size of a block; all
may use the same number of tokens, so few that memory and not the slots says who runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import pandas as pd

from fourcells.analysis.kv_arithmetic import running_tokens
from fourcells.analysis.kv_simulator import serve
from fourcells.analysis.load import KEYS, Timings
from fourcells.analysis.pairs import by_cell, paired
from fourcells.analysis.schedules import block
from fourcells.analysis.stats import geometric_mean, t_interval
from fourcells.analysis.step_model import durations
from fourcells.schedule import RESERVATIONS, least_tokens
from fourcells.spec import memory_limited
from fourcells.workload import lengths

ONE_BLOCK = "one block"
CELL = ["engine", "workload", "slots"]
_MEASURED = [
    "rows_max", "rows_mean", "rows_mean_time", "steps", "reserved_mean", "held_mean",
    "used_of_reserved", "preemptions", "recomputed_tokens",
]  # fmt: skip
COLUMNS = [
    *KEYS, "reservation", "block_size", "usable_tokens", "reserve_tokens", *_MEASURED[:4], "tok_s",
    "estimate", "low", "high", "n", *_MEASURED[4:], "ratio_to_max", "ratio_estimate", "ratio_low",
    "ratio_high", "rows_computed", "steps_computed",
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(COLUMNS, "float64"),
    **dict.fromkeys(["engine", "workload", "reservation"], "str"),
    **dict.fromkeys(["slots", "repeat", "block_size", "usable_tokens", "n"], "int64"),
    **dict.fromkeys(
        ["reserve_tokens", "rows_max", "steps", "preemptions", "recomputed_tokens"], "Int64"
    ),
    "steps_computed": "Int64",
}


def reservations_table(timings: Timings, throughput: pd.DataFrame) -> pd.DataFrame:
    """One row per timing of an engine whose KV cache an option limits (`kv_tokens`).

    Args:
        timings: those that count.
        throughput: as `throughput_table` gives it.

    `reservation`: as applied, or `one block` where a block has the maximum length.
    `reserve_tokens`: what a request takes under `max` and `one block`, else null. `steps`,
    `preemptions` and `recomputed_tokens` (computed beyond every token once) are sums over the
    samples, `rows_mean` the mean over their steps, `rows_mean_time` over the window's time.
    `reserved_mean`: share of the usable tokens in blocks that are taken, `held_mean` share whose
    keys and values exist, both means over the window's time; `used_of_reserved` their quotient.
    `estimate`, `low`, `high`: tokens per second over the `n` repeats, geometric mean and 95 % t
    interval on logs; `ratio_*` the same of T / T(`max`) with the same workload, slots and memory,
    paired by repeat (of several `max`, the one that reserves most).
    `rows_computed`: usable tokens / what a running request takes on average while others wait, or
    the slots or requests if those are fewer; so more than the measured mean, which has a beginning
    and an end. `steps_computed`: by `kv_simulator`. Null: a source that is missing.
    """
    steps = with_seconds(timings)
    rates = by_cell(throughput)
    keys = timings.plan[KEYS]
    memory = {timing: limits(timings.metadata[timing]) for timing in limited(timings)}
    references = _references(timings, memory)
    rows = []
    for timing, limit in memory.items():
        meta = timings.metadata[timing]
        engine, workload, slots, repeat = keys.loc[timing]
        own = rates[engine, workload, slots]
        reference = references.get((workload, slots, limit["usable_tokens"]))
        of_max = rates.get((reference, workload, slots), {})
        ratios = paired(own, of_max)
        requests = timings.requests[timings.requests["timing"] == timing]
        rows.append(
            {
                **keys.loc[timing],
                **limit,
                **_measured(steps[steps["timing"] == timing], requests, limit["usable_tokens"]),
                "tok_s": own[repeat],
                "n": len(own),
                **_pooled("", list(own.values())),
                "ratio_to_max": ratios.get(repeat),
                **_pooled("ratio_", list(ratios.values())),
                "rows_computed": _rows_computed(meta, limit),
                "steps_computed": _steps_computed(timings, timing, limit),
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def limited(timings: Timings) -> list[int]:
    """The timings whose spec limits the KV cache by its option `kv_tokens`."""
    specs = (meta["spec"] for meta in timings.metadata)
    return [timing for timing, spec in enumerate(specs) if memory_limited(spec)]


def cells(timings: Timings) -> Iterator[tuple[dict, list[int]]]:
    """Engine, workload and slots of every limited cell, and its timings by repeat."""
    plan = timings.plan.loc[limited(timings)]
    for cell, group in plan.groupby(CELL, sort=False):
        yield dict(zip(CELL, cell, strict=True)), group.index.tolist()


def limits(meta: Mapping) -> dict:
    """`reservation`, `block_size`, `usable_tokens` and `reserve_tokens`, as applied."""
    applied = meta["applied"]
    longest = applied.get("max_model_len") or meta["spec"]["max_model_len"]
    size, reservation = applied["block_size"], applied["reservation"]
    if size == longest:
        reservation, reserved = ONE_BLOCK, size
    elif reservation == "max":
        reserved = applied.get("reserve_tokens") or longest
    else:
        reserved = None
    return {
        "reservation": reservation,
        "block_size": size,
        "usable_tokens": applied["kv_tokens"],
        "reserve_tokens": reserved,
    }


def with_seconds(timings: Timings) -> pd.DataFrame:
    """The steps of the limited timings and how long each took, `seconds`."""
    keep = set(limited(timings))
    steps = timings.steps[timings.steps["timing"].isin(keep)]
    return steps.assign(seconds=durations(timings, keep)["seconds"])


def _references(timings: Timings, memory: Mapping[int, Mapping]) -> dict[tuple, str]:
    """The engine that reserves by maximum length, per workload, slots and usable tokens."""
    found: dict[tuple, tuple] = {}
    for timing, limit in memory.items():
        if limit["reservation"] == "max":
            engine, workload, slots, _ = timings.plan.loc[timing, KEYS]
            rank = -limit["reserve_tokens"], engine
            key = workload, slots, limit["usable_tokens"]
            found[key] = min(found.get(key, rank), rank)
    return {key: engine for key, (_, engine) in found.items()}


def _measured(steps: pd.DataFrame, requests: pd.DataFrame, usable: int) -> dict:
    """What the steps tell; nulls without a steps file."""
    if steps.empty:
        return dict.fromkeys(_MEASURED)
    seconds = steps["seconds"].to_numpy()
    reserved = seconds @ steps["kv_used"].to_numpy("float64", na_value=float("nan"))
    held = seconds @ steps["kv_tokens"].to_numpy("float64", na_value=float("nan")) / usable
    # every token is computed once, but for the last one of each request
    once = (requests["prompt_tokens"] + requests["produced_tokens"] - 1).sum()
    return {
        "rows_max": steps["rows"].max(),
        "rows_mean": steps["rows"].mean(),
        "rows_mean_time": seconds @ steps["rows"].to_numpy("float64") / seconds.sum(),
        "steps": len(steps),
        "reserved_mean": reserved / seconds.sum(),
        "held_mean": held / seconds.sum(),
        "used_of_reserved": held / reserved if reserved else None,
        "preemptions": steps["preempted"].sum(),
        "recomputed_tokens": steps["tokens"].sum() - once,
    }


def _pooled(prefix: str, values: list[float]) -> dict:
    if not values:
        return {}
    low, high = t_interval(values)
    pooled = {"estimate": geometric_mean(values), "low": low, "high": high}
    return {prefix + name: value for name, value in pooled.items()}


def _rule(limit: Mapping, longest: int) -> tuple[str, int]:
    """The reservation by its name in the arithmetic, and the length that it never exceeds."""
    reservation = limit["reservation"]
    # a block of the maximum length is taken whole, whatever is asked for
    name = reservation if reservation in RESERVATIONS else "on_demand"
    return name, limit["reserve_tokens"] or longest


def _rows_computed(meta: Mapping, limit: Mapping) -> float:
    spec = meta["spec"]
    pairs = lengths(spec["requests"], spec["seed"])
    rule = _rule(limit, spec["max_model_len"])
    taken = running_tokens(pairs, *rule, limit["block_size"])
    return min(limit["usable_tokens"] / taken, spec["slots"], len(pairs))


def _steps_computed(timings: Timings, timing: int, limit: Mapping) -> int | None:
    """Steps of all samples; None where requests come later or another admission holds them."""
    meta = timings.metadata[timing]
    spec = meta["spec"]
    if timings.plan["admission"][timing] != "continuous" or not block(spec):
        return None
    pairs = tuple(lengths(spec["requests"], spec["seed"]))
    name, longest = _rule(limit, spec["max_model_len"])
    least = tuple(least_tokens(name, *pair, longest) for pair in pairs)
    size = limit["block_size"]
    steps = _count_steps(
        pairs,
        least,
        spec["slots"],
        limit["usable_tokens"] // size,
        size,
        spec["options"].get("max_num_batched_tokens"),
        # a request's end is seen one step late
        int(bool(meta["applied"].get("async_scheduling"))),
    )
    return steps and steps * spec["samples"]


@cache
def _count_steps(pairs, least, slots, blocks, size, budget, delay) -> int | None:
    """Every repeat of a cell asks for the same; None if a request does not fit at all."""
    try:
        return len(
            serve(
                pairs,
                least,
                slots=slots,
                blocks=blocks,
                block_size=size,
                budget=budget,
                release_delay=delay,
            )
        )
    except ValueError:
        return None
