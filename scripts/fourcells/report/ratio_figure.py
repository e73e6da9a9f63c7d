"""The figure of ratios: every repeat a point, the interval a bar, the lesson's value a diamond."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from fourcells.report import numbers as n
from fourcells.report import wording
from fourcells.report.catalogue import LABELS, TEXTS
from fourcells.report.data import Data, ratio_interval
from fourcells.report.grid import first, groups
from fourcells.report.grids import main_ratios
from fourcells.report.svg import draw
from fourcells.report.wording import conclusion

POINT, BAR, LESSON = "#0173b2", "#1f2933", "#b07d2b"
# An interval of two repeats may reach over many powers of ten: it is cut this factor beyond the
# points and marked with an arrow, so that they stay apart.
CUT = 2.0


@dataclass(frozen=True)
class Row:
    """One ratio as it is drawn."""

    label: str
    values: list[float]
    estimate: float
    low: float | None
    high: float | None
    lesson: float | None
    says: str


def ratio_figure(data: Data) -> Markup | None:
    """The picture; None without a ratio."""
    frame = main_ratios(data)
    frame = frame[frame.value.notna() & (frame.value > 0)]
    rows = []
    for (engine, slots, name, baseline), part in groups(
        frame, ["engine", "slots", "name", "baseline"]
    ):
        told = ratio_interval(data, part)
        pair = engine if n.is_missing(baseline) else f"{engine} / {baseline}"
        given = first(part.lesson)
        rows.append(
            Row(
                label=f"{name}\n{_short(pair)}, {wording.slots(slots)}",
                values=part.value.astype(float).tolist(),
                estimate=float(first(part.geometric_mean)),
                low=None if n.is_missing(told["low"]) else float(told["low"]),
                high=None if n.is_missing(told["high"]) else float(told["high"]),
                lesson=None if n.is_missing(given) else float(given),
                says=conclusion(name, **told),
            )
        )
    if not rows:
        return None
    described = "; ".join(
        f"{row.label.replace(chr(10), ' ')}: {n.ratio(row.estimate)}, {row.says}" for row in rows
    )
    return draw("conclusions", TEXTS["ratio_alt"].format(rows=described), lambda: _draw(rows))


def _short(words: str) -> str:
    return words if len(words) <= 34 else f"{words[:20]}\u2026{words[-12:]}"


def _limits(rows: list[Row]) -> tuple[float, float]:
    """Where the axis ends: around all points, the lesson and 1, and not far beyond."""
    marks = [1.0, *(v for row in rows for v in (*row.values, row.estimate))]
    marks += [row.lesson for row in rows if row.lesson]
    low, high = min(marks) / CUT, max(marks) * CUT
    ends = [e for row in rows for e in (row.low, row.high) if e]
    return max(low, min([*marks, *ends]) / 1.1), min(high, max([*marks, *ends]) * 1.1)


def _draw(rows: list[Row]) -> Figure:
    figure = Figure(figsize=(7.2, 0.9 + 0.52 * len(rows)))
    ax = figure.subplots()
    ax.set_xscale("log")
    left, right = _limits(rows)
    ax.set_xlim(left, right)
    ax.axvline(1, color="#6b7280", linewidth=1, linestyle=(0, (4, 3)))
    for y, row in enumerate(rows):
        if row.low and row.high:
            low, high = max(row.low, left), min(row.high, right)
            ax.plot([low, high], [y, y], color=BAR, linewidth=1.8, solid_capstyle="butt")
            for end, cut, arrow in ((low, row.low < left, "<"), (high, row.high > right, ">")):
                marker = arrow if cut else "|"
                ax.plot([end], [y], marker=marker, color=BAR, markersize=7, clip_on=False)
        ax.plot([row.estimate], [y], marker="s", color=BAR, markersize=6)
        # the points stand a little above the bar, so that neither hides the other
        above = [y - 0.2] * len(row.values)
        ax.plot(row.values, above, "o", color=POINT, alpha=0.75, markersize=4.5, mew=0)
        if row.lesson:
            ax.plot([row.lesson], [y + 0.24], marker="D", color=LESSON, markersize=5.5)
            _label(ax, row.lesson, y + 0.24, n.ratio(row.lesson))
    ax.set_yticks(range(len(rows)), [row.label for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(TEXTS["ratio_axis"])
    # 1, 2, 5 of every power of ten; within less than one of them, every digit
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if right / left > 8 else range(1, 10)))
    ax.xaxis.set_major_formatter(lambda value, _: f"{n.tick(value)}x")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(axis="x")
    _legend(ax, rows)
    return figure


def _label(ax, x: float, y: float, words: str) -> None:
    """Words beside a mark, on the side where there is room."""
    left, right = ax.get_xlim()
    side = 1 if x * x < left * right else -1
    align = "left" if side > 0 else "right"
    at = (7 * side, 0)
    ax.annotate(words, (x, y), at, textcoords="offset points", va="center", ha=align, size=8.5)


def _legend(ax, rows: list[Row]) -> None:
    marks = [
        (LABELS["repeat"], {"marker": "o", "color": POINT, "linestyle": "", "markersize": 5}),
        (LABELS["estimate"], {"marker": "s", "color": BAR, "linestyle": "", "markersize": 6}),
    ]
    if any(row.low and row.high for row in rows):
        marks.append((LABELS["interval"], {"color": BAR, "linewidth": 1.8}))
    if any(row.lesson for row in rows):
        diamond = {"marker": "D", "color": LESSON, "linestyle": "", "markersize": 5.5}
        marks.append((LABELS["lesson"], diamond))
    handles = [Line2D([], [], **style) for _, style in marks]
    names = [name for name, _ in marks]
    ax.legend(handles, names, loc="lower left", bbox_to_anchor=(0, 1), ncols=4)
