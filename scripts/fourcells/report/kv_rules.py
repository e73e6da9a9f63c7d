"""The rules of reservation that were measured, as the section on the KV cache reads them."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from fourcells.analysis.stats import geometric_mean, t_interval
from fourcells.report import numbers as n
from fourcells.report.catalogue import RULES
from fourcells.report.data import Data
from fourcells.report.evidence import Ratio
from fourcells.report.grid import first, mean

ONE_BLOCK = "one block"
# Timings of one group had the same requests and the same memory.
KEYS = ["workload", "slots", "usable_tokens"]


@dataclass(frozen=True)
class Rule:
    """One rule of reservation and the engine that ran it; `rows`: its timings, one per repeat."""

    name: str
    engine: str
    rows: pd.DataFrame

    @property
    def words(self) -> str:
        return RULES.get(self.name, self.name)

    @property
    def n(self) -> int:
        return int(self.rows.repeat.nunique())

    def mean(self, column: str) -> float | None:
        """Mean over the repeats; None where no repeat has it."""
        return mean(self.rows[column])

    def first(self, column: str) -> object:
        """A value that all repeats share; None where no repeat has it."""
        return first(self.rows[column])

    def to_max(self) -> Ratio | None:
        """Throughput over that of the maximum rule, as the table has it."""
        estimate = self.first("ratio_estimate")
        if estimate is None:
            return None
        ends = (self.first(key) for key in ("ratio_low", "ratio_high"))
        return Ratio(float(estimate), *ends, int(self.rows.ratio_to_max.count()))


def count(value: object) -> str:
    """A mean of counts: 55.0 -> '55', 55.3 -> '55.3'."""
    return n.number(value, 0 if n.is_missing(value) or float(value).is_integer() else 1)


def measured(data: Data) -> pd.DataFrame:
    """The timings of the table of reservations."""
    return data.reservations[data.reservations.engine.notna()]


def rules(data: Data) -> list[Rule]:
    """The rules of the main comparison, from the most reserved to the least: those of the group
    that has most of them. Empty where no group has two; one block per request is no rule of its
    own, and beside one other it is a size of block."""
    groups = [part for _, part in measured(data).groupby(KEYS, sort=False, dropna=False)]
    if not groups:
        return []
    chosen = max(groups, key=lambda part: part.reservation.nunique())
    names = list(chosen.reservation.dropna().unique())
    if len(set(names) - {ONE_BLOCK}) < 2:
        return []
    ordered = [name for name in RULES if name in names]
    ordered += [name for name in names if name not in RULES]
    return [_rule(name, chosen[chosen.reservation.eq(name)]) for name in ordered]


def _rule(name: str, rows: pd.DataFrame) -> Rule:
    """The rule's engine; of several, the one that reserves most, by which the ratios divide: the
    others are a sweep of it."""
    ranked = rows.assign(most=rows.reserve_tokens.astype(float).fillna(0))
    engine = ranked.sort_values(["most", "engine"], ascending=[False, True]).engine.iloc[0]
    return Rule(name, str(engine), rows[rows.engine.eq(engine)])


def rest(data: Data, shown: list[Rule]) -> pd.DataFrame:
    """The timings that belong to no rule of the main comparison."""
    frame = measured(data)
    known = [index for rule in shown for index in rule.rows.index]
    return frame[~frame.index.isin(known)]


def paired(above: Rule, below: Rule) -> Ratio | None:
    """Throughput of one rule over another's, repeat by repeat; None without a common repeat."""
    one, two = (rule.rows.set_index("repeat").tok_s.astype(float) for rule in (above, below))
    values = (one / two).dropna().tolist()
    if not values:
        return None
    return Ratio(geometric_mean(values), *t_interval(values), len(values))
