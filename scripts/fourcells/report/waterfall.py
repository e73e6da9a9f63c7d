"""The waterfall: from the baseline's throughput to the engine's, one bar per idea."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import Locator, LogLocator, MaxNLocator, NullFormatter

from fourcells.report import numbers as n
from fourcells.report.catalogue import FACTORS, PATHS, TEXTS
from fourcells.report.chains import WAYS, Factor, Pair, factors, product, start_tok_s
from fourcells.report.data import Data
from fourcells.report.svg import draw

COLOURS = {
    "engine": "#8fb8de",
    "compile": "#c3aed6",
    "early_exit": "#f5c98a",
    "refill": "#9ccfa0",
}
INK, POINT, THREAD = "#1f2933", "#374151", "#6b7280"
# An interval of two repeats may reach over many powers of ten: it is cut this factor beyond the
# bars and points.
CUT = 1.6
# A bar longer than this share of the axis holds its label, a shorter one has it beside.
LONG = 0.42


@dataclass(frozen=True)
class Way:
    """One panel: the chain, and the throughput at its start (tok/s)."""

    path: str
    chain: list[Factor]
    start: float

    def levels(self) -> list[float]:
        """Throughput before the first factor and after each one."""
        made = [self.start]
        for factor in self.chain:
            made.append(made[-1] * factor.estimate)
        return made


def waterfall(data: Data, pair: Pair) -> Markup | None:
    """The picture, one panel per way; None without a whole chain and the baseline's throughput."""
    ways = []
    for path in WAYS:
        chain = factors(data, pair, path)
        start = start_tok_s(data, pair, chain) if chain else None
        if start is not None:
            ways.append(Way(path, chain, start))
    if not ways:
        return None
    label = TEXTS["waterfall_alt"].format(panels="; ".join(_alt(way, pair) for way in ways))
    return draw("waterfall", label, lambda: _draw(ways, pair))


def _alt(way: Way, pair: Pair) -> str:
    return TEXTS["waterfall_panel_alt"].format(
        path=PATHS[way.path],
        baseline=pair.baseline,
        engine=pair.engine,
        start=n.rate(way.start),
        end=n.rate(way.levels()[-1]),
        factors=", ".join(f"{_name(f)} {f.bracketed()}" for f in way.chain),
    )


def _name(factor: Factor) -> str:
    return FACTORS.get(factor.name, factor.name)


def _draw(ways: list[Way], pair: Pair) -> Figure:
    rows = [len(way.chain) + 2 for way in ways]
    figure = Figure(figsize=(6.1, 0.7 + sum(0.43 * count + 0.55 for count in rows)))
    axes = figure.subplots(
        len(ways), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": rows, "hspace": 0.3}
    )[:, 0]
    limits = _limits(ways)
    for ax, way in zip(axes, ways, strict=True):
        ax.set_xscale("log")
        ax.set_xlim(*limits)
        _panel(ax, way, pair, limits)
    axes[-1].xaxis.set_major_locator(_ticks(limits))
    axes[-1].xaxis.set_major_formatter(lambda value, _: n.tick(value))
    axes[-1].xaxis.set_minor_formatter(NullFormatter())
    axes[-1].set_xlabel(TEXTS["waterfall_axis"])
    return figure


def _ticks(limits: tuple[float, float]) -> Locator:
    """As many ticks as have room for their numbers."""
    reach = limits[1] / limits[0]
    if reach < 2:
        return MaxNLocator(5)
    return LogLocator(subs=(1, 2, 5) if reach > 8 else (1, 2, 3, 4, 5, 7))


def _limits(ways: list[Way]) -> tuple[float, float]:
    """Where the axis ends: around all levels and points, with a margin for the labels."""
    marks, ends = [], []
    for way in ways:
        levels = way.levels()
        marks += levels
        for level, factor in zip(levels, way.chain, strict=False):
            marks += [level * value for value in factor.values.values()]
            ends += [level * end for end in (factor.low, factor.high) if end]
    low = max(min([*marks, *ends]), min(marks) / CUT)
    high = min(max([*marks, *ends]), max(marks) * CUT)
    margin = 0.06 * math.log(high / low) if high > low else 0.1
    return low * math.exp(-margin), high * math.exp(2.5 * margin)


def _panel(ax, way: Way, pair: Pair, limits: tuple[float, float]) -> None:
    levels, last = way.levels(), len(way.chain) + 1
    ax.set_title(_title(way), loc="left", fontsize=10.5, fontweight="bold")
    for y, factor in enumerate(way.chain, start=1):
        _bar(ax, y, levels[y - 1], factor, limits)
    for y, level in enumerate(levels):
        ax.plot([level, level], [y, y + 1], color=THREAD, linewidth=0.8, linestyle=(0, (2, 2)))
    for y, level, side in ((0, levels[0], 1), (last, levels[-1], -1)):
        ax.plot([level], [y], marker="D", color=INK, markersize=5.5)
        _beside(ax, level, y, TEXTS["tok_s"].format(value=n.rate(level)), side)
    words = [f"{_name(f)}\n{_short(f.above)} / {_short(f.below)}" for f in way.chain]
    ax.set_yticks(range(last + 1), [_short(pair.baseline), *words, _short(pair.engine)])
    ax.set_ylim(last + 0.55, -0.55)
    ax.tick_params(axis="y", length=0, labelsize=9)
    ax.grid(axis="x")


def _title(way: Way) -> str:
    times = TEXTS["times"].join(n.ratio(factor.estimate) for factor in way.chain)
    path = PATHS[way.path]
    return TEXTS["waterfall_title"].format(
        path=path[0].upper() + path[1:], product=times, total=n.ratio(product(way.chain))
    )


def _short(words: str) -> str:
    return words if len(words) <= 18 else f"{words[:9]}\u2026{words[-8:]}"


def _bar(ax, y: int, start: float, factor: Factor, limits: tuple[float, float]) -> None:
    """One factor: bar, interval, points above it, and its value where there is room."""
    end = start * factor.estimate
    style = {"hatch": "////"} if end < start else {}
    colour = COLOURS.get(factor.name, "#d1d5db")
    ax.barh(y, end - start, left=start, height=0.5, color=colour, edgecolor=INK, lw=0.7, **style)
    points = [start * value for value in factor.values.values()]
    ax.plot(points, [y - 0.36] * len(points), "o", color=POINT, alpha=0.75, markersize=4, mew=0)
    marks = [start, end]
    if factor.low and factor.high:
        for value, cut in ((start * factor.low, "<"), (start * factor.high, ">")):
            inside = min(max(value, limits[0]), limits[1])
            ax.plot([inside], [y], marker="|" if inside == value else cut, color=INK, markersize=8)
            marks.append(inside)
        ax.plot(marks[2:], [y, y], color=INK, linewidth=1.6, solid_capstyle="butt")
    left, right = math.log(limits[0]), math.log(limits[1])
    if math.log(end / start) > LONG * (right - left):
        _beside(ax, start, y, factor.bracketed(), 1)
    elif right - math.log(max(marks)) > math.log(min(marks)) - left:
        _beside(ax, max(marks), y, factor.bracketed(), 1)
    else:
        _beside(ax, min(marks), y, factor.bracketed(), -1)


def _beside(ax, x: float, y: float, words: str, side: int) -> None:
    """Words to the right (1) or the left (-1) of a point."""
    align = "left" if side > 0 else "right"
    at = (8 * side, 0)
    ax.annotate(words, (x, y), at, textcoords="offset points", va="center", ha=align, size=9.5)
