"""Useful output tokens per second, and the loss when the lengths are mixed."""

from __future__ import annotations

import pandas as pd

from fourcells.analysis import lesson
from fourcells.analysis.load import Timings
from fourcells.analysis.timings import windows

COLUMNS = [
    "engine", "slots", "workload", "repeat", "window_s", "tokens", "tok_s", "compare_with",
    "loss_when_mixed", "lesson_tok_s", "lesson_loss",
]  # fmt: skip


def throughput_table(timings: Timings) -> pd.DataFrame:
    """One row per timing, its samples added up.

    `loss_when_mixed` is T / T(compare_with) - 1 with the same engine, slots and repeat; null when
    the workload is compared with none or that timing is missing. The lesson's figures stand
    beside the cells that it measured.
    """
    totals = windows(timings).groupby("timing")[["window_s", "tokens"]].sum()
    table = timings.plan.join(totals)
    table["tok_s"] = table["tokens"] / table["window_s"]
    keys = ["engine", "slots", "repeat"]
    other = table[[*keys, "workload", "tok_s"]].rename(
        columns={"workload": "compare_with", "tok_s": "other_tok_s"}
    )
    table = table.merge(other, on=[*keys, "compare_with"], how="left")
    table["loss_when_mixed"] = table["tok_s"] / table["other_tok_s"] - 1
    cells = table["lesson_cell"] = [
        lesson.cell(engine, slots)
        for engine, slots in zip(table["lesson_engine"], table["slots"], strict=True)
    ]
    workloads, others = table["workload"], table["compare_with"]
    table["lesson_tok_s"] = _floats(map(lesson.tok_s, cells, workloads))
    table["lesson_loss"] = _floats(map(lesson.loss, cells, workloads, others))
    return table[COLUMNS]


def _floats(values) -> pd.Series:
    return pd.Series(list(values), dtype="float64")
