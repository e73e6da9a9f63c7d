"""Steps and idle shares: measured, and computed beforehand from the lengths alone."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from fourcells.analysis import lesson
from fourcells.analysis.load import KEYS, Timings
from fourcells.analysis.schedules import memory_limited
from fourcells.schedule import ADMISSIONS
from fourcells.simulator import simulate

COLUMNS = [
    *KEYS, "admission", "samples", "steps", "rows", "useful_rows", "idle_rows", "idle_slots",
    "computed_steps", "computed_idle_rows", "computed_idle_slots", "lesson_idle",
]  # fmt: skip


def idle_table(timings: Timings) -> pd.DataFrame:
    """One row per timing that has steps; counts are sums over its samples.

    `idle_rows` = 1 - useful / rows: rows computed for nothing. `idle_slots` = 1 - useful /
    (slots * steps): slots that nobody used, so 256 slots with 64 requests are never full. The
    computed columns follow from the schedule; null for an admission that it does not know, when
    requests arrive during the window, or where an option limits the KV cache.
    """
    sums = timings.steps.groupby("timing").agg(
        samples=("sample", "nunique"),
        steps=("step", "size"),
        rows=("rows", "sum"),
        useful_rows=("useful_rows", "sum"),
    )
    table = timings.plan.join(sums, how="inner")
    table["idle_rows"] = 1 - table["useful_rows"] / table["rows"]
    table["idle_slots"] = 1 - table["useful_rows"] / (table["slots"] * table["steps"])
    lengths = lengths_of(timings)
    computed = pd.DataFrame(
        [
            (None, None, None)
            if memory_limited(timings.metadata[row.Index]["spec"])
            else _computed(lengths[row.Index], row.slots, row.admission)
            for row in table.itertuples()
        ],
        index=table.index,
        columns=["computed_steps", "computed_idle_rows", "computed_idle_slots"],
        dtype="float64",
    )
    table = table.join(computed)
    table["computed_steps"] = (table["computed_steps"] * table["samples"]).astype("Int64")
    # The lesson computed one idle share: its static batch on the mixed workload.
    where = zip(
        table["backend"], table["admission"], table["slots"], table["workload"], strict=True
    )
    table["lesson_idle"] = pd.Series(
        [
            lesson.static_idle() if (lesson.cell(*cell), w) == ("static_16", "B") else None
            for *cell, w in where
        ],
        index=table.index,
        dtype="float64",
    )
    return table[COLUMNS].reset_index(drop=True)


def lengths_of(timings: Timings) -> list[tuple[int, ...] | None]:
    """Output tokens per request of each timing, in order; None when some request came later."""
    first = timings.requests[timings.requests["sample"] == timings.requests["sample"].min()]
    first = first.sort_values(["timing", "request"], kind="stable")
    ends = first["timing"].searchsorted(range(1, len(timings.plan)))
    outputs = np.split(first["output_tokens"].to_numpy(), ends)
    arrivals = np.split(first["arrival_s"].to_numpy(), ends)
    return [
        None if late.max(initial=0.0) > 0 else tuple(tokens.tolist())
        for tokens, late in zip(outputs, arrivals, strict=True)
    ]


def _computed(lengths: tuple[int, ...] | None, slots: int, admission: str) -> tuple:
    """(steps of one window, idle rows, idle slots), or three nulls."""
    if lengths is None or admission not in ADMISSIONS:
        return None, None, None
    # Slots beyond the number of requests are never taken: leave them out, they cost time.
    steps, rows = _simulated(lengths, min(slots, len(lengths)), admission)
    useful = sum(lengths)
    return steps, 1 - useful / rows, 1 - useful / (slots * steps)


@cache
def _simulated(lengths: tuple[int, ...], slots: int, admission: str) -> tuple[int, int]:
    """Steps and rows; every repeat of a cell asks for the same."""
    steps = simulate(lengths, slots, admission).steps
    return len(steps), sum(step.rows for step in steps)
