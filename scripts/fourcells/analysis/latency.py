"""Median latencies by output length."""

from __future__ import annotations

import pandas as pd

from fourcells.analysis import lesson
from fourcells.analysis.load import KEYS, Timings

_LATENCIES = ["ttft_s", "service_ttft_s", "e2e_produced_s", "e2e_returned_s"]
COLUMNS = [*KEYS, "output_tokens", "n", *_LATENCIES, "lesson_ttft_s", "lesson_e2e_s"]


def latency_table(timings: Timings, requests: pd.DataFrame) -> pd.DataFrame:
    """One row per timing and output length: medians in seconds over n requests (all samples).

    Args:
        requests: as `requests_table` returns it.

    The lesson reports the first token produced (`ttft_s`) and the request returned
    (`e2e_returned_s`); its figures are matched by the rank of the length on workload B.
    """
    by = [*KEYS, "output_tokens"]
    groups = requests.groupby(by, sort=True)
    table = groups[_LATENCIES].median()
    table.insert(0, "n", groups.size())
    # In the order of the timings, lengths ascending.
    table = timings.plan[[*KEYS, "backend", "admission"]].merge(table.reset_index(), on=KEYS)
    within = table.groupby(KEYS, sort=False)["output_tokens"]
    table["rank"] = within.cumcount()
    table["lengths"] = within.transform("size")
    figures = [
        lesson.latency(lesson.cell(row.backend, row.admission, row.slots), *where)
        for row, where in zip(
            table.itertuples(),
            zip(table["workload"], table["rank"], table["lengths"], strict=True),
            strict=True,
        )
    ]
    reference = ["lesson_ttft_s", "lesson_e2e_s"]
    table[reference] = pd.DataFrame(figures, columns=reference, dtype="float64")
    return table[COLUMNS]
