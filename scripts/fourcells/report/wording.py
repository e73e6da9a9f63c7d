"""What may be said of an estimate: decided by its interval and the number of repeats alone.

`faster` and its like need an interval that excludes 1. One repeat has no interval, and that of two
is said with a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fourcells.analysis.stats import holds
from fourcells.report.catalogue import TEXTS
from fourcells.report.numbers import integer, is_missing, percent, ratio

# What a ratio above and below 1 means, by the start of its name.
MEANINGS = {
    "R": ("faster", "slower"),
    "Q": ("more", "less"),
    "slots": ("faster", "slower"),
    "loss": ("faster", "slower"),
    "E2E": ("sooner", "later"),
    "off": ("high", "low"),
}


def direction(
    low: object, high: object, n: int, estimate: object = None, floor: object = None
) -> str:
    """'above', 'below' or 'unsure' by where the interval lies from 1; 'open' without one. What
    lies within the noise floor is 'unsure', whatever its interval."""
    if n <= 1 or is_missing(low) or is_missing(high):
        return "open"
    if holds(low, high) or within_floor(estimate, floor):
        return "unsure"
    return "above" if low > 1 else "below"


def within_floor(estimate: object, floor: object) -> bool:
    """Whether a ratio is nearer to 1 than two identical engines may be; False if not known."""
    if is_missing(estimate) or is_missing(floor):
        return False
    return abs(math.log(estimate)) < math.log1p(floor)


def sureness(low: object, high: object, n: int, lesson: object = None) -> str:
    """'95 % interval 2.90x to 3.07x, 5 repeats; lesson 2.98x', or why there is no interval."""
    if n <= 1:
        sure = TEXTS["one_repeat"]
    elif is_missing(low) or is_missing(high):
        sure = TEXTS["repeats_only"].format(n=n)
    else:
        key = "interval_of_two" if n == 2 else "interval"
        sure = TEXTS[key].format(low=ratio(low), high=ratio(high), n=n)
    if not is_missing(lesson):
        sure += "; " + TEXTS["lesson_value"].format(value=ratio(lesson))
    return sure


def conclusion(
    name: str, low: object, high: object, n: int, estimate: object = None, floor: object = None
) -> str:
    """'faster', 'not distinguishable', 'one repeat' and so on, for a ratio of this name."""
    if n <= 1:
        return TEXTS["says_one"]
    way = direction(low, high, n, estimate, floor)
    if way == "open":
        return TEXTS["says_open"]
    above, below = MEANINGS.get(name.partition("_")[0], ("greater", "smaller"))
    said = TEXTS["says_" + {"above": above, "below": below, "unsure": "unsure"}[way]]
    if way == "unsure" and not holds(low, high):
        said = TEXTS["says_floor"].format(floor=percent(floor))
    return TEXTS["says_of_two"].format(said=said) if n == 2 else said


def ends(low: object, high: object, write: Callable[[object], str]) -> str:
    """'[1.50x, 2.40x]'; nothing where either end is not known."""
    if is_missing(low) or is_missing(high):
        return ""
    return TEXTS["ends"].format(low=write(low), high=write(high))


def bracketed(
    value: object, low: object, high: object, write: Callable[[object], str] = ratio
) -> str:
    """'1.90x [1.50x, 2.40x]', or what of it there is."""
    value = "" if is_missing(value) else write(value)
    return f"{value} {ends(low, high, write)}".strip()


def slots(value: object) -> str:
    """'16 slots'."""
    return TEXTS["n_slots"].format(n=integer(value))


def passed(value: object, n: object) -> str:
    """'pass', 'fail', or 'one repeat' where no interval can tell."""
    if is_missing(n) or n <= 1:
        return TEXTS["says_one"]
    if is_missing(value):
        return TEXTS["says_open"]
    said = TEXTS["says_pass" if bool(value) else "says_fail"]
    return TEXTS["says_of_two"].format(said=said) if n == 2 else said
