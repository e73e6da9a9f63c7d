"""What a ratio can carry: the smallest difference it shows, what a narrower interval costs, and
what it would be without one repeat, without doubtful timings, or with other luck."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from math import prod
from statistics import fmean, stdev

import numpy as np

from fourcells.analysis.load import KEYS, Timings
from fourcells.analysis.pairs import Ratio, Series
from fourcells.analysis.stats import (
    around,
    exp,
    geometric_mean,
    half_width,
    holds,
    logs,
    repeats_for,
    t_interval,
)
from fourcells.analysis.verdicts import ended, started
from fourcells.verdict import CLEAN

WIDTHS = {"5_percent": 0.05, "10_percent": 0.10}
WORDS = {
    "R_A": "the gain on A",
    "R_B": "the gain on B",
    "Q": "the extra gain",
    "slots_ratio": "the gain from more slots",
}


def summary_limits(
    headline: Mapping[str, Ratio | None], unclean: Container[tuple], minutes: float | None
) -> dict:
    """The limits of Q, and under `by_ratio` those of every headline ratio.

    Args:
        headline: name -> the ratio that the summary gives, None where there is none.
        unclean: (engine, workload, slots, repeat) of the timings that are not clean.
        minutes: as `minutes_per_repeat` gives it.
    """
    found = {name: limits(name, ratio, unclean, minutes) for name, ratio in headline.items()}
    return found["Q"] | {"by_ratio": found}


def limits(
    name: str, ratio: Ratio | None, unclean: Container[tuple], minutes: float | None
) -> dict:
    """The limits of one ratio; null where so few repeats do not tell.

    `smallest_quotient`: the smallest ratio whose interval would exclude 1, with the spread and
    the number of repeats at hand. `repeats_for_*`: repeats whose interval ends within 5 or 10 %
    above the estimate, if the spread stays; `minutes_for_*`: the cost of those still missing.
    `leave_one_out`: the ratio without each repeat. `clean_only`: without the repeats in which one
    of its timings is not clean. `worst_pairing`: the least and the greatest ratio that the same
    timings give when each may be paired with one of any repeat. The geometric mean is the same
    for every pairing; what a single run might have shown is not.
    """
    values = ratio.values if ratio else {}
    n, measured = len(values), list(values.values())
    sd = stdev(logs(measured)) if n > 1 else None
    found = {
        "name": name,
        "n": n,
        **_pooled(measured),
        "sd_log": sd,
        "smallest_quotient": exp(half_width(sd, n)) if n > 1 else None,
        "minutes_per_repeat": minutes,
    }
    for width, share in WIDTHS.items():
        needed = repeats_for(sd, share) if n > 1 else None
        found[f"repeats_for_{width}"] = needed
        known = needed is not None and minutes is not None
        found[f"minutes_for_{width}"] = max(0, needed - n) * minutes if known else None
    found["leave_one_out"] = _leave_one_out(values)
    clean = {
        r: v for r, v in values.items() if not any((*cell, r) in unclean for cell in ratio.cells)
    }
    found["clean_only"] = {"n": len(clean), **_pooled(list(clean.values()))}
    found["worst_pairing"] = _worst_pairing(ratio)
    found["sentences"] = sentences(found)
    return found


def _pooled(values: Sequence[float]) -> dict:
    low, high = t_interval(values) if values else (None, None)
    return {"estimate": geometric_mean(values) if values else None, "low": low, "high": high}


def _leave_one_out(values: Series) -> list[dict]:
    """The ratio without each repeat; from sums, since there may be thousands of repeats."""
    n = len(values)
    if n < 2:
        return []
    d = np.array(logs(list(values.values())))
    away = d - d.mean()
    means = d.mean() - away / (n - 1)
    squares = np.maximum(0.0, (away**2).sum() - away**2 * n / (n - 1))
    found = []
    for repeat, mean, square in zip(values, means.tolist(), squares.tolist(), strict=True):
        low = high = None
        if n > 2:
            low, high = around(mean, half_width(math.sqrt(square / (n - 2)), n - 1))
        left_out = {"repeat": repeat, "n": n - 1, "estimate": exp(mean), "low": low, "high": high}
        found.append(left_out)
    return found


def _worst_pairing(ratio: Ratio | None) -> dict:
    if ratio is None or not ratio.values:
        return {"low": None, "high": None}
    above, below = (
        [[series[repeat] for repeat in ratio.values] for _, series in side]
        for side in (ratio.above, ratio.below)
    )
    return {
        "low": prod(map(min, above)) / prod(map(max, below)),
        "high": prod(map(max, above)) / prod(map(min, below)),
    }


def minutes_per_repeat(timings: Timings) -> float | None:
    """Minutes that one more repeat of all measured cells takes, as recorded; None if nothing is.

    The mean of each cell's timings from start to end, else its load, warm-up and windows.
    """
    seconds: dict[tuple, list[float]] = {}
    for row, meta in zip(
        timings.plan[KEYS].itertuples(index=False, name=None), timings.metadata, strict=True
    ):
        begun, done = started(meta), ended(meta)
        if begun and done:
            seconds.setdefault(row[:3], []).append((done - begun).total_seconds())
    return sum(map(fmean, seconds.values())) / 60 if seconds else None


def unclean_timings(timings: Timings, verdicts: Sequence[Sequence[str]]) -> set[tuple]:
    """(engine, workload, slots, repeat) of the timings that are not clean."""
    keys = timings.plan[KEYS].itertuples(index=False, name=None)
    return {key for key, words in zip(keys, verdicts, strict=True) if list(words) != [CLEAN]}


def sentences(found: Mapping) -> list[str]:
    """The limits in plain English; only what is known is said."""
    what, n = WORDS.get(found["name"], found["name"]), found["n"]
    if n == 0:
        return [f"No repeat has all the timings that {what} is made of: nothing can be said."]
    value = figure(found["estimate"])
    if n == 1:
        return ["One repeat: no interval.", f"In it {what} is {value}x; the next may differ."]
    said = [_with_and_without(found, what)]
    if n == 2:
        said.append(
            "Two repeats: a warning. The interval rests on a single difference; measure more."
        )
    smallest = figure(found["smallest_quotient"])
    if holds(found["low"], found["high"]):
        verdict = f"{_upper(what)} is not distinguishable from 1"
    else:
        verdict = f"{_upper(what)} is {'above' if found['low'] > 1 else 'below'} 1"
    said.append(
        f"{verdict}: with {n} repeats of this noise the smallest that shows is {smallest}x (by its "
        "own noise; nothing under the noise floor is claimed)."
    )
    said += [_cost(found, width, share) for width, share in WIDTHS.items()]
    clean = found["clean_only"]
    if clean["n"] == 0:
        said.append("No repeat has clean timings alone.")
    elif clean["n"] < n:
        repeats = "the 1 clean repeat" if clean["n"] == 1 else f"the {clean['n']} clean repeats"
        said.append(f"From {repeats} alone it is {_bracketed(clean)}.")
    worst = found["worst_pairing"]
    said.append(
        f"With its timings paired in the least and the most favourable way it is "
        f"{figure(worst['low'])}x and {figure(worst['high'])}x."
    )
    return said


def _with_and_without(found: Mapping, what: str) -> str:
    """The ratio, and how it is without the repeat that moves it most."""
    whole = math.log(found["estimate"])
    without = max(found["leave_one_out"], key=lambda each: abs(math.log(each["estimate"]) - whole))
    return (
        f"With {found['n']} repeats {what} is {_bracketed(found)}; without repeat "
        f"{without['repeat']} it is {_bracketed(without)}."
    )


def _cost(found: Mapping, width: str, share: float) -> str:
    needed, n = found[f"repeats_for_{width}"], found["n"]
    if needed <= n:
        return f"Its interval is within {100 * share:.0f} %; {needed} repeats would do."
    minutes = found[f"minutes_for_{width}"]
    takes = "" if minutes is None else f", about {_minutes(minutes)}"
    more = f"{needed - n:,} more{takes}"
    return f"An interval within {100 * share:.0f} % takes about {needed:,} repeats: {more}."


def _minutes(minutes: float) -> str:
    if minutes < 1.5:
        return "1 minute"
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:,.0f} hours"


def _bracketed(pooled: Mapping) -> str:
    value = figure(pooled["estimate"])
    if pooled["low"] is None:
        return f"{value}x (one repeat)"
    return f"{value}x [{figure(pooled['low'])}x, {figure(pooled['high'])}x]"


def figure(value: float) -> str:
    """A ratio as text: two decimals where they say something, never an endless row of digits."""
    if value >= 1e6 or value < 0.01:
        return f"{value:.1e}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
