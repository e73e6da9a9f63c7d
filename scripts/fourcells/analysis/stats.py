"""The few statistics used, all on logs: geometric mean, intervals, and how many repeats they need.

The main interval is Student's t: on normal logs it covers 95 % at every n. The percentile
bootstrap (Efron 1979) stands beside it as a check; it covers 74 % at n = 3, 85 % at 5, 92 % at 20.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, stdev, variance

import numpy as np
from scipy.stats import bootstrap
from scipy.stats import t as student

CONFIDENCE = 0.95
RESAMPLES = 9999
# Rows of one call to SciPy's bootstrap, and numbers held at once in one of its batches.
_ROWS, _NUMBERS = 100, 2_000_000
# Intervals of equal values are a point; rounding moves it by less than this.
_ROUNDING = 1e-9
# exp of more than 709 is no double: an interval that wide says nothing and stays a number.
_LARGEST = 700.0
_MOST_REPEATS = 10**9

Interval = tuple[float | None, float | None]


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


def t_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """exp(mean +- t(n-1) * s / sqrt(n)) of the logs; (None, None) for one value.

    For paired ratios pass the ratios themselves, one per repeat: the log of a ratio is the
    difference of the two logs.

    Raises:
        ValueError: no value, or one that is not positive and finite.
    """
    d = logs(values)
    if len(d) < 2:
        return None, None
    return around(fmean(d), half_width(stdev(d), len(d), confidence))


def around(mean: float, half: float) -> tuple[float, float]:
    """exp(mean - half) and exp(mean + half)."""
    return exp(mean - half), exp(mean + half)


def exp(x: float) -> float:
    """exp that is never infinite."""
    return math.exp(min(x, _LARGEST))


def half_width(sd: float, n: int, confidence: float = CONFIDENCE) -> float:
    """t(n-1) * sd / sqrt(n): half the interval of a mean of n >= 2 values, on their scale."""
    return t_quantile(n - 1, confidence) * sd / math.sqrt(n)


@cache
def t_quantile(df: float, confidence: float = CONFIDENCE) -> float:
    """The two-sided quantile of Student's t."""
    return float(student.ppf((1 + confidence) / 2, df))


def repeats_for(sd: float, share: float) -> int:
    """The fewest repeats, at least 2, whose interval ends within `share` above the estimate.

    Args:
        sd: of the log ratio between repeats. As it is estimated from few repeats, so is the answer.
        share: half-width wanted, 0.05 for 5 %.
    """

    def enough(n: int) -> bool:
        return half_width(sd, n) <= math.log1p(share)

    high = 2
    while not enough(high) and high < _MOST_REPEATS:
        high *= 2
    low = max(high // 2, 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high


def holds(low: float, high: float, value: float = 1.0) -> bool:
    """Whether an interval contains a value, its ends included."""
    return low <= value * (1 + _ROUNDING) and value <= high * (1 + _ROUNDING)


def p_value(values: Sequence[float]) -> float | None:
    """Two-sided p of Student's t test that the geometric mean is 1; None for one value."""
    d = logs(values)
    if len(d) < 2:
        return None
    mean, error = fmean(d), stdev(d) / math.sqrt(len(d))
    if error == 0:
        return 1.0 if abs(mean) < _ROUNDING else 0.0
    return float(2 * student.sf(abs(mean) / error, len(d) - 1))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p values corrected for their number (Holm 1979): with all hypotheses true, the chance
    that any of them falls below 0.05 is at most 0.05, however they hang together."""
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, place) in enumerate(order):
        highest = max(highest, min(1.0, p * (len(order) - rank)))
        corrected[place] = highest
    return corrected


def unpaired(above: Sequence[Sequence[float]], below: Sequence[Sequence[float]]):
    """A product of cells' geometric means over another, the cells' repeats not belonging together.

    Args:
        above, below: the values of each cell, not necessarily equally many.

    Returns:
        (estimate, low, high) by Welch's t on logs; the degrees of freedom are those of Welch (1947)
        and Satterthwaite (1946) for any number of cells. Without an interval for a cell of one
        value, whose spread nobody knows.
    """
    cells = [logs(values) for values in (*above, *below)]
    sign = [1] * len(above) + [-1] * len(below)
    mean = sum(s * fmean(d) for s, d in zip(sign, cells, strict=True))
    if min(map(len, cells)) < 2:
        return exp(mean), None, None
    of_mean = [variance(d) / len(d) for d in cells]
    total = sum(of_mean)
    if total == 0:
        return exp(mean), exp(mean), exp(mean)
    # Shares first: the square of a tiny variance would be 0.
    df = 1 / sum((v / total) ** 2 / (len(d) - 1) for v, d in zip(of_mean, cells, strict=True))
    return exp(mean), *around(mean, t_quantile(df) * math.sqrt(total))


def bootstrap_intervals(series: Sequence[Sequence[float]], seed: int) -> list[Interval]:
    """Percentile bootstrap of each geometric mean over its repeats; (None, None) for one value.

    The same seed and values give the same interval, whatever their order and whatever else is
    asked for. At n = 5 there are only 126 different resamples.
    """
    found: list[Interval] = [(None, None)] * len(series)
    by_size: dict[int, list[int]] = {}
    for place, values in enumerate(series):
        by_size.setdefault(len(values), []).append(place)
    for n, places in by_size.items():
        for start in range(0, len(places) if n > 1 else 0, _ROWS):
            part = places[start : start + _ROWS]
            data = np.sort(np.log([series[place] for place in part]), axis=1)
            ends = bootstrap(
                (data,),
                np.mean,
                axis=-1,
                n_resamples=RESAMPLES,
                batch=max(1, _NUMBERS // data.size),
                confidence_level=CONFIDENCE,
                method="percentile",
                rng=np.random.default_rng(seed),
            ).confidence_interval
            # Sorted: of equal values rounding may leave the low end above the high one.
            pairs = np.exp(np.sort([ends.low, ends.high], axis=0)).T.tolist()
            for place, (low, high) in zip(part, pairs, strict=True):
                found[place] = low, high
    return found
