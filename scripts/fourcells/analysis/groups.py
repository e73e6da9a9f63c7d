"""Which engines of the plan share a machine group, and which one stands for its twins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from fourcells.analysis.load import Timings
from fourcells.analysis.machines import group_of, options_of


@dataclass(frozen=True)
class Engine:
    """An engine of the plan.

    Attributes:
        options: those of its spec without the admission; its threads count as one.
        applied: what its first timing reported as in force.
        paired: it has a baseline, or is one.
    """

    name: str
    backend: str
    admission: str | None
    baseline: str | None
    options: Mapping[str, Any] = field(repr=False)
    applied: Mapping[str, Any] = field(repr=False)
    paired: bool

    @cached_property
    def group(self) -> str:
        """Equal for the engines of one machine group."""
        return group_of(self.backend, self.options)


def engines_of(timings: Timings) -> dict[str, Engine]:
    """Every engine by name, in the order of the plan."""
    first = timings.plan.drop_duplicates("engine")
    baselines = set(first["baseline"].dropna())
    found = {}
    for row in first.itertuples():
        meta = timings.metadata[row.Index]
        found[row.engine] = Engine(
            row.engine,
            row.backend,
            None if pd.isna(row.admission) else row.admission,
            None if pd.isna(row.baseline) else row.baseline,
            options_of(meta["spec"]),
            meta["applied"],
            paired=not pd.isna(row.baseline) or row.engine in baselines,
        )
    return found


def representative(engines: Iterable[Engine]) -> Engine | None:
    """The one that stands for engines that serve alike: one that has a baseline, else one that is
    a baseline, else the first by name; None of none."""
    return min(engines, key=lambda e: (e.baseline is None, not e.paired, e.name), default=None)
