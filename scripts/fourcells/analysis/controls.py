"""Ratios that must be 1: what this machine makes of two cells that do the same work.

A/A: one engine under two names. Placebo: two engines that differ in their admission alone, on
cells where the schedule is the same under both: equal lengths, requests sorted by length in full
batches, or slots for everyone. Found in the plan, not declared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache

import pandas as pd

from fourcells.analysis.groups import engines_of
from fourcells.analysis.idle import lengths_of
from fourcells.analysis.load import Timings
from fourcells.analysis.pairs import Cell, Series, by_cell
from fourcells.analysis.stats import geometric_mean, holds, t_interval
from fourcells.schedule import ADMISSIONS
from fourcells.simulator import simulate

AA, PLACEBO = "A/A", "placebo"
EXPECTED = 1.0
COLUMNS = [
    "name", "kind", "engine", "other", "workload", "slots", "n", "estimate", "low", "high",
    "expected", "passed", "noise_floor",
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(["name", "kind", "engine", "other", "workload"], "str"),
    **dict.fromkeys(["slots", "n"], "int64"),
    **dict.fromkeys(["estimate", "low", "high", "expected", "noise_floor"], "float64"),
    "passed": "boolean",
}


def controls_table(timings: Timings, throughput: pd.DataFrame) -> pd.DataFrame:
    """One row per pair and cell: T(engine) / T(other), paired by repeat, 95 % t interval on logs.

    `passed`: the interval contains 1; null for one repeat. Of controls in which nothing is wrong
    one in twenty fails. `noise_floor`: half the interval, as a share; a difference between
    engines that is smaller is not distinguishable here.
    """
    cells = by_cell(throughput)
    rows = []
    for kind, engine, other, workload, slots in _pairs(timings, cells):
        ours, theirs = cells[engine, workload, slots], cells[other, workload, slots]
        values = [ours[r] / theirs[r] for r in sorted(ours.keys() & theirs.keys())]
        if not values:
            continue
        low, high = t_interval(values)
        several = low is not None
        rows.append(
            {
                "name": f"{engine} / {other} on {workload}, {slots} slots",
                "kind": kind,
                "engine": engine,
                "other": other,
                "workload": workload,
                "slots": slots,
                "n": len(values),
                "estimate": geometric_mean(values),
                "low": low,
                "high": high,
                "expected": EXPECTED,
                "passed": holds(low, high, EXPECTED) if several else None,
                "noise_floor": math.sqrt(high / low) - 1 if several else None,
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def _pairs(timings: Timings, cells: Mapping[Cell, Series]) -> Iterator[tuple]:
    """(kind, engine, other, workload, slots) of every control."""
    plan = timings.plan
    engines = sorted(engines_of(timings).values(), key=lambda e: (_place(e.admission), e.name))
    lengths: dict[tuple, tuple | None] | None = None
    for place, one in enumerate(engines):
        for two in engines[place + 1 :]:
            if one.group != two.group:
                continue
            engine, other, admissions = one.name, two.name, (one.admission, two.admission)
            for name, workload, slots in cells:
                if name != engine or (other, workload, slots) not in cells:
                    continue
                if one.admission == two.admission:
                    yield AA, engine, other, workload, slots
                    continue
                if lengths is None:
                    keys = plan[["engine", "workload", "slots"]].itertuples(index=False, name=None)
                    lengths = dict(zip(keys, lengths_of(timings), strict=True))
                served = lengths[engine, workload, slots]
                if _same_schedule(served, slots, admissions):
                    yield PLACEBO, engine, other, workload, slots


def _place(admission: str | None) -> int:
    return ADMISSIONS.index(admission) if admission in ADMISSIONS else len(ADMISSIONS)


def _same_schedule(lengths: tuple | None, slots: int, admissions: tuple[str | None, ...]) -> bool:
    """Whether both admissions compute the same rows in every step."""
    if lengths is None or not set(admissions) <= set(ADMISSIONS):
        return False
    one, two = (_rows(lengths, min(slots, len(lengths)), admission) for admission in admissions)
    return one == two


@cache
def _rows(lengths: tuple[int, ...], slots: int, admission: str) -> tuple[int, ...]:
    return tuple(step.rows for step in simulate(lengths, slots, admission).steps)
