"""Quantiles by order statistics: what a count of requests allows, whatever their distribution.

Of n values, the number below the p-quantile is binomial(n, p); hence the ranks between which the
quantile lies with at least 95 % (Conover, Practical Nonparametric Statistics, 3.2; Hahn and
Meeker, Statistical Intervals, 5.2). Requests of one cell share steps and are not independent:
these intervals are optimistic.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.stats import binom

from fourcells.analysis.stats import CONFIDENCE

TAIL = (1 - CONFIDENCE) / 2


@cache
def ranks(n: int, p: float) -> tuple[int | None, int | None]:
    """Ranks (1 is the smallest of n) of the 95 % interval of the p-quantile.

    None where no rank is low or high enough: of 16 values not even the largest is surely above
    the 95th percentile.
    """
    low, high = int(binom.ppf(TAIL, n, p)), int(binom.ppf(1 - TAIL, n, p)) + 1
    return low if low >= 1 else None, high if high <= n else None


@cache
def least_count(p: float) -> int:
    """The fewest values that have both ranks: 6 for p50, 36, 72 and 368 for p90, p95, p99."""
    # Both ends exist when all n values lie on one side with a probability of at most the tail.
    return math.ceil(math.log(TAIL) / math.log(max(p, 1 - p)))


def refused(n: int, p: float) -> str | None:
    """Why n values do not allow the p-quantile to be stated; None when they do."""
    if None not in ranks(n, p):
        return None
    name = "an interval of the median" if p == 0.5 else f"p{100 * p:g}"
    have = "1 request" if n == 1 else f"{n} requests"
    return f"{name} needs at least {least_count(p)} requests, here are {have}"


def sorted_groups(values: np.ndarray, group: np.ndarray, count: int):
    """The values of groups 0 to count - 1, each sorted, one group after the other.

    Returns:
        (values, start of each group, size of each group).
    """
    order = np.lexsort((values, group))
    sizes = np.bincount(group, minlength=count)
    return values[order], np.cumsum(sizes) - sizes, sizes


def intervals(groups: tuple, p: float) -> tuple[np.ndarray, np.ndarray]:
    """Low and high end of the p-quantile's interval per group, NaN where the count is too small.

    Args:
        groups: as `sorted_groups` gives them.
    """
    values, start, sizes = groups
    ends = np.full((2, len(sizes)), np.nan)
    for n in np.unique(sizes):
        if refused(int(n), p) is None:
            same = sizes == n
            ends[:, same] = [values[start[same] + rank - 1] for rank in ranks(int(n), p)]
    return ends[0], ends[1]


def quantiles(groups: tuple, p: float) -> np.ndarray:
    """The p-quantile per group, between the two nearest values; NaN where the count refuses it."""
    values, start, sizes = groups
    found = np.full(len(sizes), np.nan)
    allowed = np.isin(sizes, [n for n in np.unique(sizes) if refused(int(n), p) is None])
    place = (sizes[allowed] - 1) * p
    below = place.astype("int64")
    first = start[allowed] + below
    low, high = values[first], values[np.minimum(first + 1, start[allowed] + sizes[allowed] - 1)]
    found[allowed] = low + (high - low) * (place - below)
    return found
