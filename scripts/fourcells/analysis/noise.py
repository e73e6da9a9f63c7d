"""The noise of each cell: how far its repeats differ, whether they drift, which stand out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import linregress, median_abs_deviation

from fourcells.analysis import lesson
from fourcells.analysis.load import KEYS, Timings
from fourcells.analysis.stats import t_quantile
from fourcells.analysis.verdicts import started

CELL = ["engine", "workload", "slots"]
COLUMNS = [
    *CELL, "n", "mean_tok_s", "sd_tok_s", "cv", "spread", "drop", "lesson_drop", "lesson_drop_low",
    "lesson_drop_high", "drift_per_hour", "drift_low", "drift_high", "outliers",
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(COLUMNS[4:-1], "float64"),
    **dict.fromkeys(["engine", "workload", "outliers"], "str"),
    **dict.fromkeys(["slots", "n"], "int64"),
    "mean_tok_s": "float64",
}
# Modified z score from which Iglewicz and Hoaglin (1993) call a value an outlier. Of normal noise
# it flags a repeat in 20 % of the cells at n = 5 and in 13 % at n = 10; 1.5 interquartile ranges
# flag one in 33 % and 28 %.
MODIFIED_Z = 3.5
# Of fewer values the median absolute deviation is that of one neighbour.
LEAST_FOR_OUTLIERS = 5
# Logs that differ by less are equal: rounding is no outlier.
_EQUAL = 1e-9


def noise_table(timings: Timings, throughput: pd.DataFrame) -> pd.DataFrame:
    """One row per cell, n repeats of it; everything but the mean is null for one repeat.

    `cv` is sd / mean, `spread` max / min - 1 and `drop` 1 - min / max, three names for one noise:
    the lesson's two static runs are 17 % apart as a drop, 21 % as a spread. `lesson_drop` is the
    middle of what the lesson tells, from `lesson_drop_low` to `lesson_drop_high`.

    `drift_per_hour`: slope of log tok/s over the hour of the start, least squares, which for a
    small slope is the relative change per hour; ends of its 95 % t interval; null for n < 3 or
    without starts. Over a few minutes the interval is wide.

    `outliers`: numbers of the repeats whose modified z score, by the median absolute deviation of
    the logs, is above 3.5, from 5 repeats on; null without one. Flagged, and kept in every figure.
    """
    # Hours on one clock; only differences count.
    moments = [started(meta) for meta in timings.metadata]
    hours = [moment.timestamp() / 3600 if moment else math.nan for moment in moments]
    table = throughput.merge(timings.plan[[*KEYS, "lesson_engine"]].assign(hours=hours), on=KEYS)
    rows = []
    for (engine, workload, slots), cell in table.groupby(CELL, sort=False):
        rates = cell["tok_s"].to_numpy()
        name = lesson.cell(cell["lesson_engine"].iloc[0], slots)
        rows.append(
            {"engine": engine, "workload": workload, "slots": slots}
            | _spread(rates)
            | _of_lesson(name, workload)
            | drift(cell["hours"].to_numpy(), np.log(rates))
            | {"outliers": ",".join(map(str, outliers(rates, cell["repeat"].tolist()))) or None}
        )
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def _spread(rates: np.ndarray) -> dict:
    found = {"n": len(rates), "mean_tok_s": rates.mean()}
    if len(rates) < 2:
        return found
    sd, low, high = rates.std(ddof=1), rates.min(), rates.max()
    return found | {
        "sd_tok_s": sd,
        "cv": sd / rates.mean(),
        "spread": high / low - 1,
        "drop": 1 - low / high,
    }


def _of_lesson(cell: str | None, workload: str) -> dict:
    apart = lesson.runs_apart(cell, workload)
    if apart is None:
        return {}
    return {
        "lesson_drop": sum(apart) / 2,
        "lesson_drop_low": apart[0],
        "lesson_drop_high": apart[1],
    }


def drift(hours: np.ndarray, logs: np.ndarray) -> dict:
    """Slope of the logs over the hours with its 95 % t interval; empty where nothing tells it."""
    if len(logs) < 3 or np.isnan(hours).any() or hours.min() == hours.max():
        return {}
    line = linregress(hours - hours.min(), logs)
    half = t_quantile(len(logs) - 2) * line.stderr
    return {
        "drift_per_hour": line.slope,
        "drift_low": line.slope - half,
        "drift_high": line.slope + half,
    }


def outliers(rates: np.ndarray, repeats: Sequence[int]) -> list[int]:
    """The repeats whose throughput stands out, ascending."""
    if len(rates) < LEAST_FOR_OUTLIERS:
        return []
    logs = np.log(rates)
    away = np.abs(logs - np.median(logs))
    far = away > np.maximum(MODIFIED_Z * median_abs_deviation(logs, scale="normal"), _EQUAL)
    return sorted(repeat for repeat, is_far in zip(repeats, far, strict=True) if is_far)
