"""The few statistics used: geometric mean and a t interval, both on logs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from scipy.stats import t as student

CONFIDENCE = 0.95


def logs(values: Sequence[float]) -> list[float]:
    """Natural logs. A zero or missing value fails: skipping it would shift the mean unseen."""
    if not values or not all(math.isfinite(v) and v > 0 for v in values):
        raise ValueError(f"a geometric mean needs positive values, got {list(values)}")
    return [math.log(v) for v in values]


def geometric_mean(values: Sequence[float]) -> float:
    """exp of the mean log.

    Raises:
        ValueError: no value, or one that is not positive and finite.
    """
    return math.exp(fmean(logs(values)))


def t_interval(
    values: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float | None, float | None]:
    """exp(mean +- t(n-1) * s / sqrt(n)) of the logs; (None, None) for one value.

    For paired ratios pass the ratios themselves, one per repeat: the log of a ratio is the
    difference of the two logs.

    Raises:
        ValueError: no value, or one that is not positive and finite.
    """
    d = logs(values)
    if len(d) < 2:
        return None, None
    half = float(student.ppf((1 + confidence) / 2, len(d) - 1)) * stdev(d) / math.sqrt(len(d))
    return math.exp(fmean(d) - half), math.exp(fmean(d) + half)
