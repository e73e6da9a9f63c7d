"""Ratios that must be 1: what this machine makes of two cells that do the same work.

A/A: one engine under two names. Placebo: two engines that differ in their admission alone, on
cells where the schedule is the same under both: equal lengths, requests sorted by length in full
batches, or slots for everyone. Found in the plan, not declared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import pandas as pd

from fourcells.analysis.groups import engines_of
from fourcells.analysis.load import Timings
from fourcells.analysis.pairs import Cell, Series, by_cell, paired
from fourcells.analysis.schedules import block, simulation
from fourcells.analysis.stats import CONFIDENCE, geometric_mean, holds, holm, p_value, t_interval
from fourcells.schedule import ADMISSIONS

AA, PLACEBO = "A/A", "placebo"
EXPECTED = 1.0
COLUMNS = [
    "name", "kind", "engine", "other", "workload", "slots", "n", "estimate", "low", "high",
    "expected", "passed", "p", "p_together", "together", "noise_floor",
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(["name", "kind", "engine", "other", "workload"], "str"),
    **dict.fromkeys(["slots", "n"], "int64"),
    **dict.fromkeys(["estimate", "low", "high", "expected", "noise_floor"], "float64"),
    **dict.fromkeys(["p", "p_together"], "float64"),
    **dict.fromkeys(["passed", "together"], "boolean"),
}


def controls_table(timings: Timings, throughput: pd.DataFrame) -> pd.DataFrame:
    """One row per pair and cell: T(engine) / T(other), paired by repeat, 95 % t interval on logs.

    `passed`: the interval contains 1; null for one repeat. Of controls in which nothing is wrong
    one in twenty fails, and there are many: `together` is whether it passes among all of them, by
    Holm's correction (`p_together` of `p`), under which 5 % is the chance that any fails for
    nothing. `noise_floor`: half the interval, as a share; a difference between
    engines that is smaller is not distinguishable here.
    """
    cells = by_cell(throughput)
    rows = []
    for kind, engine, other, workload, slots in _pairs(timings, cells):
        ours, theirs = cells[engine, workload, slots], cells[other, workload, slots]
        values = list(paired(ours, theirs).values())
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
                "p": p_value(values),
                "noise_floor": math.sqrt(high / low) - 1 if several else None,
            }
        )
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row |= {"p_together": p, "together": None if p is None else p >= 1 - CONFIDENCE}
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def _pairs(timings: Timings, cells: Mapping[Cell, Series]) -> Iterator[tuple]:
    """(kind, engine, other, workload, slots) of every control."""
    engines = sorted(engines_of(timings).values(), key=lambda e: (_place(e.admission), e.name))
    first = timings.plan.drop_duplicates(["engine", "workload", "slots"])
    metadata = {
        (r.engine, r.workload, r.slots): timings.metadata[r.Index] for r in first.itertuples()
    }
    for place, one in enumerate(engines):
        for two in engines[place + 1 :]:
            if one.group != two.group:
                continue
            for name, workload, slots in cells:
                if name != one.name or (two.name, workload, slots) not in cells:
                    continue
                if one.admission == two.admission:
                    yield AA, one.name, two.name, workload, slots
                elif _same_schedule(
                    *((metadata[e.name, workload, slots], e.admission) for e in (one, two))
                ):
                    yield PLACEBO, one.name, two.name, workload, slots


def _place(admission: str | None) -> int:
    return ADMISSIONS.index(admission) if admission in ADMISSIONS else len(ADMISSIONS)


def _same_schedule(*served: tuple[Mapping, str | None]) -> bool:
    """Whether two timings, by metadata and admission, compute the same rows and tokens in every
    step."""
    if not all(a in ADMISSIONS and block(meta["spec"]) for meta, a in served):
        return False
    one, two = (
        [(step.rows, step.tokens) for step in simulation(meta, admission).steps]
        for meta, admission in served
    )
    return one == two
