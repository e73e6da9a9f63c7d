"""What one option is worth: two engines of one backend and admission that differ in it alone.

Two options count as one where the second has to follow the first (`COUPLED`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from fourcells.analysis.groups import Engine, engines_of, representative
from fourcells.analysis.load import Timings
from fourcells.analysis.pairs import by_cell, paired
from fourcells.analysis.stats import geometric_mean, t_interval

COLUMNS = [
    "engine", "reference", "option", "value", "reference_value", "workload", "slots", "n",
    "estimate", "low", "high", "min", "max",
]  # fmt: skip
# vLLM cuts its usual graphs out of the compiled model: without compilation they must be others.
COUPLED = {"compilation", "graphs"}
_TYPES = {
    **dict.fromkeys(
        ["engine", "reference", "option", "value", "reference_value", "workload"], "str"
    ),
    **dict.fromkeys(["slots", "n"], "int64"),
    **dict.fromkeys(["estimate", "low", "high", "min", "max"], "float64"),
}


def ablations_table(timings: Timings, throughput: pd.DataFrame) -> pd.DataFrame:
    """One row per pair, workload and slots: T(engine) / T(reference), paired by repeat, with a
    95 % t interval on logs (null for one repeat).

    Args:
        timings: those that count.
        throughput: as `throughput_table` gives it.

    An option that only one of the two specs names counts as a difference. `value` and
    `reference_value` are what was in force, as text: numbers, true and false as in JSON; null
    where neither the engine reports the option nor its spec names it. Equal ones tell that the
    option changed nothing here. Coupled options are joined by commas, and so are their values.
    """
    cells = by_cell(throughput)
    rows = []
    for engine, reference, options in _pairs(engines_of(timings)):
        for name, workload, slots in cells:
            if name != engine.name:
                continue
            theirs = cells.get((reference.name, workload, slots), {})
            values = list(paired(cells[name, workload, slots], theirs).values())
            if not values:
                continue
            low, high = t_interval(values)
            rows.append(
                {
                    "engine": engine.name,
                    "reference": reference.name,
                    "option": ", ".join(options),
                    "value": _in_force(engine, options),
                    "reference_value": _in_force(reference, options),
                    "workload": workload,
                    "slots": slots,
                    "n": len(values),
                    "estimate": geometric_mean(values),
                    "low": low,
                    "high": high,
                    "min": min(values),
                    "max": max(values),
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def _pairs(engines: Mapping[str, Engine]) -> Iterator[tuple[Engine, Engine, list[str]]]:
    """(engine, reference, options); of engines that are alike in everything one stands for all."""
    alike: dict[tuple, list[Engine]] = {}
    for engine in engines.values():
        # what limited memory does has a table of its own, `reservations`
        if engine.options.get("kv_tokens"):
            continue
        alike.setdefault((engine.group, engine.admission), []).append(engine)
    chosen = [representative(twins) for twins in alike.values()]
    for place, one in enumerate(chosen):
        for two in chosen[place + 1 :]:
            differing = _differing(one.options, two.options)
            if (one.backend, one.admission) != (two.backend, two.admission):
                continue
            if len(differing) == 1 or set(differing) == COUPLED:
                reference = representative([one, two])
                yield two if reference is one else one, reference, differing


def _differing(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    """The options that one has and the other has not, or has with another value."""
    absent = object()
    return [n for n in sorted(one.keys() | two.keys()) if one.get(n, absent) != two.get(n, absent)]


def _in_force(engine: Engine, options: list[str]) -> str | None:
    values = [engine.applied.get(name, engine.options.get(name)) for name in options]
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return None if values == [None] else ", ".join(texts)
