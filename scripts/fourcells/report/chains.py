"""The factors between a baseline and an engine, as the section on ideas reads them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from fourcells.analysis.stats import geometric_mean
from fourcells.report import numbers as n
from fourcells.report.data import Data
from fourcells.report.grid import first
from fourcells.report.grids import workload_pair
from fourcells.report.main_group import main_group
from fourcells.report.wording import bracketed

# Ways from the baseline to the engine; the factors of each multiply up to the total.
WAYS = ("engine_first", "scheduling_first", "compiled_first")
KEYS = ["engine", "baseline", "workload", "slots"]


@dataclass(frozen=True)
class Pair:
    """An engine and its baseline on one workload, at one slot count."""

    engine: str
    baseline: str
    workload: str
    slots: int


@dataclass(frozen=True)
class Factor:
    """One factor: throughput of `above` / throughput of `below`. `values` by repeat."""

    name: str
    above: str
    below: str
    values: dict[int, float]
    estimate: float
    low: float | None
    high: float | None
    predicted: float | None

    @property
    def n(self) -> int:
        return len(self.values)

    def bracketed(self) -> str:
        """'1.54x [1.40x, 1.70x]', or the estimate alone."""
        return bracketed(self.estimate, self.low, self.high)


def pairs(data: Data) -> list[Pair]:
    """Every pair of the attribution, in its order."""
    frame = data.attribution[data.attribution.value.notna()][KEYS].drop_duplicates()
    return [
        Pair(row.engine, row.baseline, row.workload, int(row.slots)) for row in frame.itertuples()
    ]


def main_pair(data: Data) -> Pair | None:
    """The pair that the section speaks of: mixed workload, the answer's engines, most ways."""
    known = pairs(data)
    if not known:
        return None
    _, mixed = workload_pair(data)
    told = main_group(data)
    answered = None if told.empty else (*told.iloc[0][["engine", "baseline", "slots"]],)

    def rank(pair: Pair) -> tuple:
        ways = sum(bool(factors(data, pair, way)) for way in WAYS)
        same = (pair.engine, pair.baseline, pair.slots) == answered
        return pair.workload == mixed, same, ways

    return max(known, key=rank)


def factors(data: Data, pair: Pair, path: str) -> list[Factor]:
    """The factors of one path, in order; empty if no repeat has them."""
    frame = data.attribution
    same = frame.path.eq(path) & frame.value.notna()
    for key in KEYS:
        same &= frame[key].eq(getattr(pair, key))
    made = []
    for _, part in frame[same].sort_values("place", kind="stable").groupby("place", sort=False):
        low, high, predicted = (first(part[key]) for key in ("low", "high", "predicted"))
        made.append(
            Factor(
                name=str(part.factor.iloc[0]),
                above=_text(part.above),
                below=_text(part.below),
                values={int(r): float(v) for r, v in zip(part.repeat, part.value, strict=True)},
                estimate=float(part.estimate.iloc[0]),
                low=None if low is None else float(low),
                high=None if high is None else float(high),
                predicted=None if predicted is None else float(predicted),
            )
        )
    return made


def _text(values: pd.Series) -> str:
    value = first(values)
    return n.MISSING if value is None else str(value)


def start_tok_s(data: Data, pair: Pair, chain: list[Factor]) -> float | None:
    """Geometric mean of the baseline's tok/s over the repeats of a chain: times the estimates it
    is the engine's. None where the table of throughputs lacks one."""
    frame = data.throughput
    same = frame.engine.eq(pair.baseline) & frame.workload.eq(pair.workload)
    same &= frame.slots.eq(pair.slots) & frame.repeat.isin(chain[0].values)
    rates = frame[same].tok_s.dropna().astype(float).tolist()
    return geometric_mean(rates) if len(rates) == chain[0].n else None


def product(chain: list[Factor]) -> float:
    """The factors multiplied up."""
    return math.prod(factor.estimate for factor in chain)


def group_of(data: Data, engine: str) -> set[str]:
    """The engines that differ from this one in their admission alone, itself included."""
    for engines in data.step_model.engines.dropna():
        members = {name.strip() for name in str(engines).split(",")}
        if engine in members:
            return members
    return {engine}
