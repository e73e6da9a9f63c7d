"""Section 5: the end of a block, from the occupancy; the lesson's from its lengths alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from traced.truth import CELL, Truth, Value, geometric_mean, interval, values_of


def ends(truth: Truth) -> Iterator[Value]:
    """Section 5: the end of a block, of the engine that the page speaks of, and of the lesson."""
    engine, workload = truth.summary["attribution"]["pair"]["engine"], truth.pair[0]
    counts = sorted(truth.rows("throughput", engine=engine, workload=workload).slots.unique())
    yield from more_lost(truth, engine, workload, counts[0], counts[-1])
    for slots in counts:
        yield from end_facts(truth, engine, workload, slots, True).values()
        own = end_facts(truth, engine, workload, slots, False)
        yield from own.values()
        # throughput is tokens over steps and their mean time
        yield "ratio", (1 + own["loss_steps"][1]) / (1 + own["loss"][1])
        steps = steps_of(truth, engine, workload, slots)
        yield "count", _longest(truth, steps)
        begin = steps.iloc[0]
        unused = steps[steps.waiting.eq(0) & (steps.rows < min(slots, begin.rows + begin.waiting))]
        yield "seconds", (unused.t_to_s - unused.t_from_s).sum()
        # the picture is of the first window
        yield "seconds", steps.t_to_s.max()


def more_lost(truth: Truth, engine: str, workload: str, few: int, many: int) -> Iterator[Value]:
    """What mixed lengths leave with many slots over what they leave with few, and its like by
    steps alone and in the lesson; by how many steps the queue empties before a slot stays free."""
    rates = [
        truth.rows("throughput", engine=engine, workload=each, slots=slots).set_index("repeat")
        for slots in (many, few)
        for each in (workload, truth.pair[1])
    ]
    mixed, even, mixed_few, even_few = (frame.tok_s for frame in rates)
    values = mixed / even / (mixed_few / even_few)
    yield from values_of("ratio", [geometric_mean(values), *interval(values)])
    for of_lesson in (False, True):
        one, other = (end_facts(truth, engine, workload, slots, of_lesson) for slots in (few, many))
        for name in ("loss", "loss_steps"):
            yield "ratio", (1 + other[name][1]) / (1 + one[name][1])
        yield "count", one["steps"][1] - one["drain_steps"][1] - one["empty_from"][1]


def end_facts(
    truth: Truth, engine: str, workload: str, slots: int, of_lesson: bool
) -> dict[str, Value]:
    """The quantities of section 5 by their names; the lesson's are computed from its lengths."""
    even = truth.pair[1]
    if of_lesson:
        steps, uniform = _lesson_steps(truth, workload, slots), _lesson_steps(truth, even, slots)
        measured = _lesson_ends(truth, slots)
        tokens = _lesson_tokens(truth, workload)
        longest = tokens.count(max(tokens))
    else:
        steps = steps_of(truth, engine, workload, slots)
        uniform = steps_of(truth, engine, even, slots)
        measured = _measured_ends(truth, engine, workload, slots)
        longest = _longest(truth, steps)
    total, window = steps.step_to.max(), steps.t_to_s.max()
    present = steps.rows.iloc[0] + steps.waiting.iloc[0]
    free = steps[steps.waiting.eq(0)]
    made = (steps.useful_rows * (steps.step_to - steps.step_from)).sum()
    found = {
        "requests": ("count", present),
        "steps_uniform": ("count", uniform.step_to.max()),
        "steps": ("count", total),
        "empty_from": ("count", free.step_from.min()),
        "slot_use": ("share", made / (slots * total)),
        "loss_steps": ("share", uniform.step_to.max() / total - 1),
    }
    parts = {"drain": free[free.rows < min(slots, present)]}
    if slots >= present:
        parts["last"] = free[free.rows <= longest]
    for name, part in parts.items():
        count = (part.step_to - part.step_from).sum()
        found[f"{name}_steps"] = ("count", count)
        found[f"{name}_share"] = ("share", count / total)
        if window == window:
            found[f"{name}_time"] = ("share", (part.t_to_s - part.t_from_s).sum() / window)
    return {k: v for k, v in (found | measured).items() if v[1] is not None and v[1] == v[1]}


def steps_of(truth: Truth, engine: str, workload: str, slots: int) -> pd.DataFrame:
    frame = truth.rows("occupancy", engine=engine, workload=workload, slots=slots)
    return frame[frame.source.eq("measured")].sort_values("step_from")


def _longest(truth: Truth, steps: pd.DataFrame) -> int:
    """How many requests of a window have the greatest length."""
    key = {name: steps[name].iloc[0] for name in CELL}
    counts = truth.rows("latency", **key, repeat=1).set_index("output_tokens").n
    begin = steps.iloc[0]
    return round(counts[counts.index.max()] / counts.sum() * (begin.rows + begin.waiting))


def _measured_ends(truth: Truth, engine: str, workload: str, slots: int) -> dict[str, Value]:
    key = {"engine": engine, "workload": workload, "slots": slots}
    latency = truth.rows("latency", **key)
    longest = latency.output_tokens.max()
    (model,) = [
        m for m in truth.tables["step_model"].itertuples() if engine in m.engines.split(", ")
    ]
    last = latency[latency.output_tokens.eq(longest)]
    return {
        "loss": ("share", truth.rows("throughput", **key).loss_when_mixed.astype(float).mean()),
        "window_s": ("seconds", truth.rows("timings", **key).window_s.mean()),
        "alone_s": ("seconds", longest * (model.a_s + model.c_s)),
        "longest_e2e_s": ("seconds", last.e2e_returned_s.mean()),
    }


def _lesson_ends(truth: Truth, slots: int) -> dict[str, Value]:
    """What the lesson measured; the step from the throughput on A at two slot counts."""
    rates = truth.lesson["throughput_tok_s"]
    cell = rates[f"vllm_{slots}"]
    tokens = _lesson_tokens(truth, "A")
    seconds = {}
    for each in (16, 256):
        steps = _lesson_steps(truth, "A", each)
        seconds[steps.rows.max()] = sum(tokens) / rates[f"vllm_{each}"]["A"] / len(steps)
    (few, one), (many, other) = sorted(seconds.items())
    per_row = (other - one) / (many - few)
    longest = max(_lesson_tokens(truth, "B"))
    return {
        "loss": ("share", cell["B"] / cell["A"] - 1),
        "alone_s": ("seconds", longest * (one - per_row * few + per_row)),
        "longest_e2e_s": ("seconds", truth.lesson["latency_s"][f"vllm_{slots}"]["e2e"][-1]),
    }


def _lesson_tokens(truth: Truth, workload: str) -> list[int]:
    given = truth.lesson["workloads"][workload]
    return (given["output_tokens"] * given["requests"])[: given["requests"]]


def _lesson_steps(truth: Truth, workload: str, slots: int) -> pd.DataFrame:
    """The lesson's requests in so many slots, refilled at once; one row per step."""
    waiting, left, made = _lesson_tokens(truth, workload), [], []
    while waiting or left:
        while waiting and len(left) < slots:
            left.append(waiting.pop(0))
        step = len(made)
        made.append((step, step + 1, math.nan, math.nan, len(left), len(left), len(waiting)))
        left = [tokens - 1 for tokens in left if tokens > 1]
    names = ["step_from", "step_to", "t_from_s", "t_to_s", "rows", "useful_rows", "waiting"]
    return pd.DataFrame(made, columns=names)
