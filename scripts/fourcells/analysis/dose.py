"""Dose and response: the more there is to refill, the more continuous admission brings.

Three doses of one pair, a continuous engine and a wave engine of one machine group: the number of
slots, how often the workload's lengths are repeated, and the order of its requests. The step ratio
that the schedule predicts stands beside the one that was measured and beside the throughputs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from fourcells.analysis.groups import Engine, engines_of, representative
from fourcells.analysis.load import Timings
from fourcells.analysis.pairs import Cell, Series, by_cell, paired
from fourcells.analysis.schedules import block, simulation
from fourcells.analysis.stats import geometric_mean, t_interval

SLOTS, COPIES, ORDER = "slots", "copies", "order"
# From the order that suits batches best to the one that suits them least.
RANKS = {"sorted": 0, "cyclic": 1, "shuffled": 2}
COLUMNS = [
    "kind", "engine", "other", "workload", "slots", "x", "label", "steps_other", "steps_engine",
    "step_ratio_computed", "step_ratio_measured", "n", "estimate", "low", "high",
]  # fmt: skip
_FIGURES = ["steps_other", "steps_engine", "step_ratio_computed", "step_ratio_measured"]
_TYPES = {
    **dict.fromkeys(["kind", "engine", "other", "workload", "label"], "str"),
    **dict.fromkeys(["slots", "n"], "int64"),
    **dict.fromkeys(["x", *_FIGURES, "estimate", "low", "high"], "float64"),
}


@dataclass(frozen=True)
class Served:
    """A workload with a number of slots that both engines of a pair have a timing of."""

    workload: str
    slots: int
    requests: Mapping

    @cached_property
    def lists(self) -> str:
        """Equal for workloads that repeat the same lengths."""
        return json.dumps([self.requests[key] for key in ("prompt_tokens", "output_tokens")])


def dose_table(timings: Timings, throughput: pd.DataFrame) -> pd.DataFrame:
    """One row per kind, pair and point; a kind of fewer than two points has none.

    Args:
        timings: those that count.
        throughput: as `throughput_table` gives it.

    `slots`: one workload with several numbers of slots, `x` the number. `copies`: cyclic workloads
    that repeat the same lengths with the same slots, `x` = requests / requests of the smallest.
    `order`: the same requests in another order, `x` by `RANKS`. Requests are all there at t0.

    `steps_other` and `steps_engine`: measured, mean per window; their ratio beside the computed
    one. `estimate`, `low`, `high`: T(engine) / T(other), paired by repeat, 95 % t interval on logs.
    """
    cells = by_cell(throughput)
    steps = _steps_per_window(timings)
    first = timings.plan.drop_duplicates(["engine", "workload", "slots"])
    metadata = {
        (r.engine, r.workload, r.slots): timings.metadata[r.Index] for r in first.itertuples()
    }
    rows = []
    for engine, other in _pairs(engines_of(timings)):
        both = [
            Served(workload, slots, metadata[engine.name, workload, slots]["spec"]["requests"])
            for name, workload, slots in cells
            if name == engine.name
            and (other.name, workload, slots) in cells
            and block(metadata[engine.name, workload, slots]["spec"])
        ]
        for kind, served, x, label in _points(both):
            ours, theirs = ((e.name, served.workload, served.slots) for e in (engine, other))
            response = _response(cells[ours], cells[theirs])
            if response:
                key = {"kind": kind, "engine": engine.name, "other": other.name, "x": x}
                key |= {"workload": served.workload, "slots": served.slots, "label": label}
                rows.append(key | _ratios(ours, theirs, steps, metadata) | response)
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def _steps_per_window(timings: Timings) -> dict[Cell, float]:
    """Mean over the windows of each cell's timings that have steps; nan without one."""
    counts = timings.steps["timing"].value_counts()
    samples = [meta["spec"]["samples"] for meta in timings.metadata]
    plan = timings.plan.assign(steps=counts.reindex(timings.plan.index) / samples)
    return plan.groupby(["engine", "workload", "slots"])["steps"].mean().to_dict()


def _pairs(engines: Mapping[str, Engine]) -> Iterator[tuple[Engine, Engine]]:
    """(continuous, wave) of every machine group."""
    groups: dict[str, list[Engine]] = {}
    for engine in engines.values():
        groups.setdefault(engine.group, []).append(engine)
    for members in groups.values():
        pair = [
            representative(e for e in members if e.admission == admission)
            for admission in ("continuous", "wave")
        ]
        if None not in pair:
            yield tuple(pair)


def _points(both: list[Served]) -> Iterator[tuple[str, Served, float, str]]:
    """(kind, served, x, label) of every dose that has at least two, in ascending order."""
    series: dict[tuple, list[tuple[float, str, Served]]] = {}
    for s in both:
        order, count = s.requests["order"], s.requests["count"]
        by_order = series.setdefault((ORDER, s.slots, s.lists, count), [])
        series.setdefault((SLOTS, s.workload), []).append((s.slots, str(s.slots), s))
        by_order.append((RANKS[order], order, s))
        if order == "cyclic":
            series.setdefault((COPIES, s.slots, s.lists), []).append((count, "", s))
    for kind in (SLOTS, COPIES, ORDER):
        for key, points in series.items():
            points.sort(key=lambda point: (point[0], point[2].workload))
            if key[0] != kind or len({x for x, _, _ in points}) < 2:
                continue
            for x, label, served in points:
                if kind == COPIES:
                    x /= points[0][0]
                    label = f"{x:g}"
                yield kind, served, x, label


def _ratios(ours: Cell, theirs: Cell, steps: Mapping, metadata: Mapping) -> dict:
    measured = steps[theirs], steps[ours]
    computed = [
        len(simulation(metadata[cell], admission).steps)
        for cell, admission in ((theirs, "wave"), (ours, "continuous"))
    ]
    return {
        "steps_other": measured[0],
        "steps_engine": measured[1],
        "step_ratio_computed": computed[0] / computed[1],
        "step_ratio_measured": measured[0] / measured[1],
    }


def _response(ours: Series, theirs: Series) -> dict:
    """The pooled ratio of throughputs; nothing without a repeat that has both."""
    values = list(paired(ours, theirs).values())
    if not values:
        return {}
    low, high = t_interval(values)
    return {"n": len(values), "estimate": geometric_mean(values), "low": low, "high": high}
