"""The table of ratios: repeat by repeat, and pooled with their intervals.

A ratio of timings from several sessions is marked: the machine may have changed between them, and
the unpaired interval is the one to read. `pairs` tells what each ratio is made of.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fourcells.analysis.load import Timings
from fourcells.analysis.pairs import Ratio
from fourcells.analysis.stats import bootstrap_intervals, geometric_mean, t_interval, unpaired
from fourcells.analysis.verdicts import session

POOLED = [
    "low", "high", "boot_low", "boot_high", "unpaired_estimate", "unpaired_low", "unpaired_high",
]  # fmt: skip
COLUMNS = [
    "name", "engine", "baseline", "slots", "repeat", "value", "geometric_mean", "min", "max", "n",
    "lesson", "crosses_sessions", *POOLED, "baseline_slots",
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(["name", "engine", "baseline"], "str"),
    **dict.fromkeys(["slots", "repeat", "n"], "int64"),
    **dict.fromkeys(["value", "geometric_mean", "min", "max", "lesson", *POOLED], "float64"),
    "crosses_sessions": "bool",
    "baseline_slots": "Int64",
}


def ratios_table(timings: Timings, ratios: Sequence[Ratio]) -> pd.DataFrame:
    """One row per ratio and repeat; the pooled columns repeat over its rows.

    Order: engines by name, then slots, fewest first. `slots` of a slots_ratio is the greater
    number, its `baseline` is null. `crosses_sessions`: the timings that this repeat's ratio is
    made of are not all of one session.

    Pooled: `geometric_mean`, `min`, `max`, `n`; `low` and `high` of the t interval on logs, the
    main one, and `boot_low`, `boot_high` of the bootstrap over repeats, seeded by the spec's seed;
    `unpaired_*`: the same ratio by Welch's t as if repeats did not belong together, from all
    repeats of each cell. Null for one repeat, but `unpaired_estimate`.
    """
    sessions = {
        (row.engine, row.workload, row.slots, row.repeat): session(timings.metadata[row.Index])
        for row in timings.plan.itertuples()
    }
    seed = next((meta["spec"].get("seed") for meta in timings.metadata), None) or 0
    ratios = [ratio for ratio in ratios if ratio.values]
    boots = bootstrap_intervals([list(ratio.values.values()) for ratio in ratios], seed)
    rows = []
    for ratio, boot in zip(ratios, boots, strict=True):
        pooled = _pooled(ratio) | {"boot_low": boot[0], "boot_high": boot[1]}
        for repeat, value in ratio.values.items():
            several = len({sessions[*cell, repeat] for cell in ratio.cells}) > 1
            rows.append(pooled | {"repeat": repeat, "value": value, "crosses_sessions": several})
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def _pooled(ratio: Ratio) -> dict:
    values = list(ratio.values.values())
    low, high = t_interval(values)
    sides = ([list(series.values()) for _, series in side] for side in (ratio.above, ratio.below))
    estimate, unpaired_low, unpaired_high = unpaired(*sides)
    return {
        "name": ratio.name,
        "engine": ratio.engine,
        "baseline": ratio.baseline,
        "slots": ratio.slots,
        "baseline_slots": ratio.baseline_slots,
        "geometric_mean": geometric_mean(values),
        "min": min(values),
        "max": max(values),
        "n": len(values),
        "lesson": ratio.lesson,
        "low": low,
        "high": high,
        "unpaired_estimate": estimate,
        "unpaired_low": unpaired_low,
        "unpaired_high": unpaired_high,
    }
