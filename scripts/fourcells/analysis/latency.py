"""Median latencies by output length, with their intervals, and percentiles where the count allows.

`ranks.refused` tells why a percentile is null.
"""

from __future__ import annotations

import pandas as pd

from fourcells.analysis import lesson, ranks
from fourcells.analysis.load import KEYS, Timings

_LATENCIES = ["ttft_s", "service_ttft_s", "e2e_produced_s", "e2e_returned_s"]
_INTERVALS = {"ttft": "ttft_s", "e2e_returned": "e2e_returned_s"}
PERCENTILES = {"p90": 0.90, "p95": 0.95, "p99": 0.99}
COLUMNS = [
    *KEYS, "output_tokens", "n", *_LATENCIES, "lesson_ttft_s", "lesson_e2e_s",
    *(f"{name}_{end}" for name in _INTERVALS for end in ("low", "high")),
    *(f"e2e_returned_{p}" for p in PERCENTILES),
]  # fmt: skip


def latency_table(timings: Timings, requests: pd.DataFrame) -> pd.DataFrame:
    """One row per timing and output length: medians in seconds over n requests (all samples).

    Args:
        requests: as `requests_table` returns it.

    The lesson reports the first token produced (`ttft_s`) and the request returned
    (`e2e_returned_s`); its figures are matched by the rank of the length on workload B. `ttft_low`
    to `e2e_returned_high` are the ends of a distribution-free 95 % interval of the median,
    `e2e_returned_p90` to `_p99` percentiles, all seconds; null where n does not allow them.
    """
    by = [*KEYS, "output_tokens"]
    groups = requests.groupby(by, sort=True)
    table = groups[_LATENCIES].median()
    table.insert(0, "n", groups.size())
    number = groups.ngroup().to_numpy()
    for name, column in _INTERVALS.items():
        sorted_values = ranks.sorted_groups(requests[column].to_numpy(), number, len(table))
        table[f"{name}_low"], table[f"{name}_high"] = ranks.intervals(sorted_values, 0.5)
        if name == "e2e_returned":
            for percentile, p in PERCENTILES.items():
                table[f"{name}_{percentile}"] = ranks.quantiles(sorted_values, p)
    # In the order of the timings, lengths ascending.
    table = timings.plan[[*KEYS, "lesson_engine"]].merge(table.reset_index(), on=KEYS)
    within = table.groupby(KEYS, sort=False)["output_tokens"]
    table["rank"] = within.cumcount()
    table["lengths"] = within.transform("size")
    figures = [
        lesson.latency(lesson.cell(row.lesson_engine, row.slots), *where)
        for row, where in zip(
            table.itertuples(),
            zip(table["workload"], table["rank"], table["lengths"], strict=True),
            strict=True,
        )
    ]
    reference = ["lesson_ttft_s", "lesson_e2e_s"]
    table[reference] = pd.DataFrame(figures, columns=reference, dtype="float64")
    return table[COLUMNS]
