"""Which part of an engine's gain over its baseline comes from which idea.

    engine / baseline =  padded / baseline  x  wave / padded  x  continuous / wave
                      =       engine        x   early exit    x      refill

exactly, repeat by repeat: each factor changes one thing, and the members of a path cancel. Another
path changes the same things in another order; the factors that carry one name in both differ by
the interaction. Members are found by what they do (machine group and admission), not by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import pandas as pd

from fourcells.analysis.groups import Engine, engines_of
from fourcells.analysis.load import Timings
from fourcells.analysis.machines import group_of
from fourcells.analysis.pairs import Cell, Series, by_cell
from fourcells.analysis.stats import geometric_mean, t_interval

COLUMNS = [
    "engine", "baseline", "workload", "slots", "path", "place", "factor", "above", "below",
    "repeat", "value", "estimate", "low", "high", "n", "predicted",
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(["engine", "baseline", "workload", "path", "factor", "above", "below"], "str"),
    **dict.fromkeys(["slots", "place", "repeat", "n"], "int64"),
    **dict.fromkeys(["value", "estimate", "low", "high", "predicted"], "float64"),
}
# The option that tells a strong static loop from a plain one of the same backend.
MODE, COMPILED = "mode", "compiled"


@dataclass(frozen=True)
class Factor:
    """Throughputs above, over throughputs below."""

    name: str
    above: tuple[Cell, ...]
    below: tuple[Cell, ...]

    def value(self, cells: Mapping[Cell, Series], repeat: int) -> float:
        above, below = ([cells[c][repeat] for c in side] for side in (self.above, self.below))
        return prod(above) / prod(below)


@dataclass(frozen=True)
class Members:
    """The engines of a pair's paths; None where the plan has none or it has no timing.

    `engine_*` are of the engine's machine group, `baseline_*` of the baseline's.
    """

    engine: Engine
    baseline: Engine
    engine_padded: Engine | None
    engine_wave: Engine | None
    baseline_wave: Engine | None
    baseline_continuous: Engine | None
    compiled: Engine | None


def attribution_table(
    timings: Timings, throughput: pd.DataFrame, predicted_s: Mapping[Cell, float]
) -> pd.DataFrame:
    """One row per engine with a baseline, workload, slots, path, factor and repeat.

    Args:
        timings: those that count.
        throughput: as `throughput_table` gives it.
        predicted_s: window of each cell by the step model, seconds, as
            `prediction.predicted_seconds` gives it.

    A repeat enters a path only if it has the path's every cell, so that within one repeat the
    factors of a path multiply to engine / baseline. `estimate`, `low`, `high`: geometric mean and
    95 % t interval on logs over the path's repeats, the interval null for one. `predicted`: the
    same factor by the step model; null between machine groups, which share no model. `above` and
    `below` name the engines, with the workload where it is another than the row's.

    Paths `engine_first`, `scheduling_first`, `compiled_first` and `total` are such products, for a
    continuous engine over a padded baseline (`total`: for any). `between`: scheduling's whole gain
    in either group, and their quotient, the interaction. `estimate`, for a mixed workload: the
    lesson's quotient Q, what it estimates, and how far it is off.
    """
    cells = by_cell(throughput)
    engines = engines_of(timings)
    mixed = timings.plan.dropna(subset="compare_with").drop_duplicates("workload")
    compare_with = dict(zip(mixed["workload"], mixed["compare_with"], strict=True))
    rows = []
    for engine in engines.values():
        baseline = engines.get(engine.baseline)
        for cell in [c for c in cells if baseline and c[0] == engine.name]:
            _, workload, slots = cell
            members = _members(engine, baseline, engines.values(), cells, workload, slots)
            for path, factors in _paths(members, workload, slots, compare_with.get(workload)):
                key = {"engine": engine.name, "baseline": baseline.name, "path": path}
                key |= {"workload": workload, "slots": slots}
                rows += _rows(key, factors, cells, engines, predicted_s)
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def _members(engine, baseline, engines, cells, workload: str, slots: int) -> Members:
    """The members that have a timing of the workload with these slots."""
    served = [e for e in engines if (e.name, workload, slots) in cells]

    def find(group: str, admission: str) -> Engine | None:
        alike = [e for e in served if (e.group, e.admission) == (group, admission)]
        # the pair itself, before engines that do the same under another name
        own = [e for e in (engine, baseline) if e in alike]
        return own[0] if own else min(alike, key=lambda e: e.name, default=None)

    compiled = group_of(baseline.backend, {**baseline.options, MODE: COMPILED})
    apart = engine.group != baseline.group
    return Members(
        engine,
        baseline,
        engine_padded=find(engine.group, "padded"),
        engine_wave=find(engine.group, "wave"),
        baseline_wave=find(baseline.group, "wave"),
        baseline_continuous=find(baseline.group, "continuous"),
        # it is a step towards another engine, not away from the loop and back
        compiled=find(compiled, "padded") if apart and compiled != baseline.group else None,
    )


def _paths(
    m: Members, workload: str, slots: int, uniform: str | None
) -> Iterator[tuple[str, list[Factor]]]:
    """Every path whose members exist, with its factors in order."""

    def at(engine: Engine, where: str = workload) -> Cell:
        return engine.name, where, slots

    def chain(names: str, *members: Engine | None) -> list[Factor]:
        """Factors between neighbours, from the baseline on."""
        if None in members:
            return []
        steps = zip(names.split(), members, members[1:], strict=False)
        return [Factor(name, (at(above),), (at(below),)) for name, below, above in steps]

    total = chain("total", m.baseline, m.engine)
    found = {}
    if (m.baseline.admission, m.engine.admission) == ("padded", "continuous"):
        ours = m.engine_padded, m.engine_wave, m.engine
        theirs = m.baseline, m.baseline_wave, m.baseline_continuous
        found["engine_first"] = chain("engine early_exit refill", m.baseline, *ours)
        found["scheduling_first"] = chain("early_exit refill engine", *theirs, m.engine)
        names = "compile engine early_exit refill"
        found["compiled_first"] = chain(names, m.baseline, m.compiled, *ours)
        found["total"] = total
        here = chain("scheduling_engine_first", m.engine_padded, m.engine)
        there = chain("scheduling_scheduling_first", m.baseline, m.baseline_continuous)
        if here and there:
            (ours,), (theirs,) = here, there
            by = Factor("interaction", ours.above + theirs.below, ours.below + theirs.above)
            found["between"] = [ours, theirs, by]
        if here and uniform:
            above = at(m.engine), at(m.baseline, uniform)
            below = at(m.baseline), at(m.engine, uniform)
            (scheduling,) = chain("scheduling", m.engine_padded, m.engine)
            # what the engine itself gives on both workloads has cancelled
            over = at(m.engine_padded), at(m.baseline, uniform)
            under = at(m.baseline), at(m.engine, uniform)
            quotient, off = Factor("quotient", above, below), Factor("off", over, under)
            found["estimate"] = [quotient, scheduling, off]
    else:
        found["total"] = total
    yield from found.items()


def _rows(
    key: Mapping,
    factors: list[Factor],
    cells: Mapping[Cell, Series],
    engines: Mapping[str, Engine],
    predicted_s: Mapping[Cell, float],
) -> Iterator[dict]:
    """The rows of one path, from the repeats that have all its cells."""
    needed = {cell for factor in factors for cell in factor.above + factor.below}
    repeats = sorted(set.intersection(*(set(cells.get(c, {})) for c in needed))) if needed else []
    for place, factor in enumerate(factors if repeats else []):
        values = [factor.value(cells, repeat) for repeat in repeats]
        low, high = t_interval(values)
        pooled = {
            "place": place,
            "factor": factor.name,
            "above": _names(factor.above, key["workload"]),
            "below": _names(factor.below, key["workload"]),
            "estimate": geometric_mean(values),
            "low": low,
            "high": high,
            "n": len(values),
            "predicted": _predicted(factor, engines, predicted_s),
        }
        for repeat, value in zip(repeats, values, strict=True):
            yield {**key, **pooled, "repeat": repeat, "value": value}


def _names(cells: tuple[Cell, ...], workload: str) -> str:
    return ", ".join(name if w == workload else f"{name} on {w}" for name, w, _ in cells)


def _predicted(
    factor: Factor, engines: Mapping[str, Engine], predicted_s: Mapping[Cell, float]
) -> float | None:
    """The ratio of two windows of one machine group on one workload, by its step model."""
    if len(factor.above) > 1:
        return None
    (above,), (below,) = factor.above, factor.below
    seconds = [predicted_s.get(cell) for cell in (below, above)]
    if engines[above[0]].group != engines[below[0]].group:
        return None
    if not all(s is not None and math.isfinite(s) and s > 0 for s in seconds):
        return None
    return seconds[0] / seconds[1]
