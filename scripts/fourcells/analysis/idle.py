"""Steps and idle shares: measured, and computed beforehand from what the specs ask for."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from fourcells.analysis import lesson
from fourcells.analysis.load import KEYS, Timings
from fourcells.analysis.schedules import block, simulation
from fourcells.schedule import ADMISSIONS
from fourcells.spec import memory_limited

CELL = ["engine", "workload", "slots"]
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
    # Every repeat of a cell asks for the same.
    first = table.drop_duplicates(CELL)
    computed = pd.DataFrame(
        [_computed(timings.metadata[row.Index], row.admission) for row in first.itertuples()],
        index=pd.MultiIndex.from_frame(first[CELL]),
        columns=["computed_steps", "computed_idle_rows", "computed_idle_slots"],
        dtype="float64",
    )
    table = table.join(computed, on=CELL)
    table["computed_steps"] = (table["computed_steps"] * table["samples"]).astype("Int64")
    # The lesson computed one idle share: its static batch on the mixed workload.
    where = zip(table["lesson_engine"], table["slots"], table["workload"], strict=True)
    table["lesson_idle"] = pd.Series(
        [
            lesson.static_idle() if (lesson.cell(*cell), w) == ("static_16", "B") else None
            for *cell, w in where
        ],
        index=table.index,
        dtype="float64",
    )
    return table[COLUMNS].reset_index(drop=True)


def _computed(meta: Mapping, admission: str | None) -> tuple:
    """(steps of one window, idle rows, idle slots), or three nulls."""
    spec = meta["spec"]
    if admission not in ADMISSIONS or not block(spec) or memory_limited(spec):
        return None, None, None
    steps = simulation(meta, admission).steps
    rows, useful = sum(step.rows for step in steps), sum(step.useful_rows for step in steps)
    return len(steps), 1 - useful / rows, 1 - useful / (spec["slots"] * len(steps))
