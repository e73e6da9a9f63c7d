"""Every timing when it ran: its speed against its own cell's mean, and the witness below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fourcells.report import blocks
from fourcells.report import numbers as n
from fourcells.report import timings as table
from fourcells.report.answer import main_group
from fourcells.report.catalogue import TEXTS
from fourcells.report.data import Data
from fourcells.report.svg import draw

BASELINE, ENGINE, OTHERS = "#0173b2", "#de8f05", "#8b95a1"
FIRST, SECOND = "#b34a8c", "#1f9e89"
SOFT = "#6b7280"
# Marks a timing that is not clean.
DOUBT = {"color": "#d92d20", "linewidth": 1.2, "alpha": 0.6}
CELL = ["engine", "workload", "slots"]
# The axis leaves out a pause of at least so many seconds, if it is also that many times as long as
# the usual time from one start to the next: a timing may itself take many minutes.
PAUSE_S, PAUSES = 600, 6
# What stands for a pause, and the least distance of two marks, as shares of the axis.
GAP, APART = 0.05, 0.12
STEPS_S = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


@dataclass(frozen=True)
class Series:
    """Points of one kind: a value per timing, null where there is none. `limit`: the threshold."""

    label: str
    values: pd.Series
    colour: str
    marker: str
    limit: float | None = None
    size: float = 4.5


@dataclass(frozen=True)
class Panel:
    """One panel; `write` writes its values."""

    title: str
    series: list[Series]
    write: Callable[[object], str]

    def alt(self) -> str:
        told = [
            TEXTS["repeats_series_alt"].format(
                name=each.label,
                low=self.write(each.values.min()),
                high=self.write(each.values.max()),
            )
            for each in self.series
        ]
        return f"{self.title}: {', '.join(told)}"


@dataclass(frozen=True)
class Axis:
    """Real time without its long pauses. `stretches`: (first, last) start of each, in seconds since
    1970."""

    stretches: list[tuple[float, float]]

    @property
    def gap(self) -> float:
        """How long a pause is drawn, seconds."""
        return GAP * (sum(last - first for first, last in self.stretches) or 1.0)

    def offsets(self) -> list[float]:
        """Where each stretch begins on the axis."""
        made = [0.0]
        for first, last in self.stretches[:-1]:
            made.append(made[-1] + last - first + self.gap)
        return made

    @property
    def length(self) -> float:
        first, last = self.stretches[-1]
        return self.offsets()[-1] + (last - first) or 1.0

    def place(self, at: float) -> float:
        """Where a moment is drawn."""
        stretches = zip(self.offsets(), self.stretches, strict=True)
        offset, (first, _) = max(s for s in stretches if s[1][0] <= at)
        return offset + at - first

    @property
    def breaks(self) -> list[float]:
        """The middle of each pause, as drawn."""
        return [offset - self.gap / 2 for offset in self.offsets()[1:]]

    @property
    def left_out(self) -> list[float]:
        """How long each pause was, seconds."""
        return [later[0] - earlier[1] for earlier, later in pairwise(self.stretches)]

    def marks(self) -> list[float]:
        """Moments that are written below the axis: the start of each stretch, then round times
        between, as far as there is room."""
        step = next((s for s in STEPS_S if 8 * s >= self.length), STEPS_S[-1])
        round_times = [
            float(at)
            for first, last in self.stretches
            for at in range(int(first // step + 1) * step, int(last) + 1, step)
        ]
        kept: list[float] = []
        for at in [*(first for first, _ in self.stretches), *round_times]:
            near = (abs(self.place(at) - self.place(other)) for other in kept)
            if all(distance >= APART * self.length for distance in near):
                kept.append(at)
        return sorted(kept)


def axis_of(moments: Sequence[float]) -> Axis:
    """The axis of starts, in seconds since 1970, in ascending order."""
    between = [later - earlier for earlier, later in pairwise(moments)]
    pause = max(PAUSE_S, PAUSES * median(between)) if between else PAUSE_S
    ends = [i for i, seconds in enumerate(between) if seconds >= pause]
    firsts, lasts = [0, *(i + 1 for i in ends)], [*ends, len(moments) - 1]
    return Axis([(moments[a], moments[b]) for a, b in zip(firsts, lasts, strict=True)])


def repeats(data: Data) -> blocks.Figure | None:
    """The figure; None where no cell was timed twice."""
    frame = _timings(data)
    if frame.change.isna().all():
        return None
    panels = _panels(data, frame)
    axis = axis_of(frame["at"].tolist())
    unclean = frame[~frame.clean].drop_duplicates(table.KEYS)
    names = "; ".join(table.name(row) for row in unclean.itertuples())
    alt = TEXTS["repeats_alt"].format(
        timings=n.integer(len(frame.drop_duplicates(table.KEYS))),
        first=n.date(frame.moment.iloc[0]),
        last=n.date(frame.moment.iloc[-1]),
        panels="; ".join(panel.alt() for panel in panels),
        unclean=TEXTS["repeats_unclean_alt"].format(names=names) if names else "",
    )
    svg = draw("repeats", alt, lambda: _draw(panels, axis, frame))
    return blocks.Figure("repeats", svg, _caption(panels, axis, frame), "timings")


def _timings(data: Data) -> pd.DataFrame:
    """Every window that counts, in the order they ran: its start `at` (seconds since 1970), whether
    it is `clean`, its `change` against the mean of its cell (null where that is its own)."""
    frame = table.ordered(data)
    frame = frame[frame.moment.notna() & frame.stale_key.isna() & frame.tok_s.notna()]
    rates = frame.tok_s.astype(float)
    cells = rates.groupby([frame[key] for key in CELL])
    return frame.assign(
        at=(frame.moment - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1),
        change=(rates / cells.transform("mean") - 1).where(cells.transform("size") > 1),
        clean=[table.verdicts(verdict) == ["clean"] for verdict in frame.verdict],
    )


def _panels(data: Data, frame: pd.DataFrame) -> list[Panel]:
    """The speed, and what the witness can tell of on this machine."""
    limits = data.summary.get("thresholds") or {}
    foreign, steal = "foreign_cpu_share", "steal_share"
    cpu = [
        Series(TEXTS["repeats_foreign"], frame[foreign], FIRST, "o", limits.get(foreign)),
        Series(TEXTS["repeats_stolen"], frame[steal], SECOND, "^", limits.get(steal)),
    ]
    fixed = [
        Series(TEXTS["repeats_python"], _against_median(frame, "python_mloops"), FIRST, "o"),
        Series(TEXTS["repeats_matrix"], _against_median(frame, "matmul_gflops"), SECOND, "^"),
    ]
    clock = Series(TEXTS["repeats_gpu"], frame.sm_clock_mhz_min, FIRST, "o")
    heat = Series(TEXTS["repeats_gpu"], frame.temperature_c_max, SECOND, "^")
    panels = [
        Panel(TEXTS["repeats_speed"], _speeds(data, frame), _signed),
        Panel(TEXTS["repeats_cpu"], cpu, n.percent),
        Panel(TEXTS["repeats_fixed"], fixed, _signed),
        Panel(TEXTS["repeats_clock"], [clock], n.integer),
        Panel(TEXTS["repeats_heat"], [heat], n.integer),
    ]
    known = [
        Panel(panel.title, [s for s in panel.series if s.values.notna().any()], panel.write)
        for panel in panels
    ]
    return [panel for panel in known if panel.series]


def _speeds(data: Data, frame: pd.DataFrame) -> list[Series]:
    """The compared engines, and in grey all others; where nothing is compared, the first two."""
    told = main_group(data)
    pair = list(frame.engine.unique()[:2])
    if len(told):
        pair = [told.baseline.iloc[0], told.engine.iloc[0]]
    made = []
    for engine, colour, marker in zip(pair, (BASELINE, ENGINE), "os", strict=False):
        own = frame.change.where(frame.engine.eq(engine))
        made.append(Series(str(engine), own, colour, marker))
    others = frame.change.where(~frame.engine.isin(pair))
    return [*made, Series(TEXTS["repeats_others"], others, OTHERS, "o", size=3.2)]


def _against_median(frame: pd.DataFrame, rate: str) -> pd.Series:
    """The mean of a calibration before and after each timing, against the median of all."""
    both = frame[[f"{rate}_before", f"{rate}_after"]].astype(float).mean(axis=1)
    return both / both.median() - 1


def _signed(value: object) -> str:
    return n.percent(value, sign=True)


def _caption(panels: Sequence[Panel], axis: Axis, frame: pd.DataFrame) -> str:
    words = {
        "timings": n.integer(len(frame.drop_duplicates(table.KEYS))),
        "sessions": n.integer(frame.session.nunique()),
    }
    said = [TEXTS["repeats_figure"]]
    several = frame.session.nunique() > 1
    said.append(TEXTS["repeats_sessions" if several else "repeats_session"].format(**words))
    if axis.breaks:
        minutes = n.integer(min(axis.left_out) // 60)
        said.append(TEXTS["repeats_breaks"].format(minutes=minutes))
    if any(each.limit is not None for panel in panels for each in panel.series):
        said.append(TEXTS["repeats_limits"])
    unclean = len(frame[~frame.clean].drop_duplicates(table.KEYS))
    key = "repeats_unclean_told" if unclean else "repeats_all_clean"
    said.append(TEXTS[key].format(n=n.integer(unclean)))
    return " ".join(said)


def _draw(panels: list[Panel], axis: Axis, frame: pd.DataFrame) -> Figure:
    heights = [2.0, *[0.85] * (len(panels) - 1)]
    figure = Figure(figsize=(7.2, 0.7 + sum(heights) + 0.38 * (len(panels) - 1)))
    axes = figure.subplots(
        len(panels),
        1,
        sharex=True,
        squeeze=False,
        gridspec_kw={"height_ratios": heights, "hspace": 0.4},
    )[:, 0]
    x = [axis.place(at) for at in frame["at"]]
    unclean = sorted({axis.place(at) for at in frame[~frame.clean]["at"]})
    for ax, panel in zip(axes, panels, strict=True):
        _panel(ax, panel, x)
        for at in unclean:
            ax.axvline(at, **DOUBT, zorder=1)
        for at in axis.breaks:
            ax.axvline(at, color=SOFT, linewidth=1, linestyle=":", zorder=1)
    handles = [_handle(each) for each in panels[0].series]
    if unclean:
        handles.append(Line2D([], [], label=TEXTS["repeats_unclean"], **DOUBT))
    # above the title: names of engines may be long
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1 + 0.26 / heights[0]), "borderaxespad": 0}
    axes[0].legend(handles=handles, ncols=4, fontsize=9, **place)
    for ax, panel in zip(axes[1:], panels[1:], strict=True):
        if len(panel.series) < 2 and panel.series[0].limit is None:
            continue  # the title says it
        place = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.1}
        handles = [_handle(each) for each in panel.series]
        ax.legend(handles=handles, ncols=2, fontsize=9, columnspacing=1.2, **place)
    margin = 0.02 * axis.length
    axes[-1].set_xlim(-margin, axis.length + margin)
    marks = axis.marks()
    axes[-1].set_xticks([axis.place(at) for at in marks], clock_times(marks))
    axes[-1].set_xlabel(TEXTS["repeats_axis"], fontsize=9)
    return figure


def _panel(ax, panel: Panel, x: list[float]) -> None:
    ax.set_title(panel.title, loc="left", fontsize=10, fontweight="bold", pad=5)
    ax.tick_params(labelsize=9)
    ax.yaxis.set_major_formatter(lambda value, _: panel.write(value))
    ax.yaxis.set_major_locator(MaxNLocator(4, min_n_ticks=2))
    ax.grid(axis="y")
    # the first lies on top
    for each in reversed(panel.series):
        ax.plot(x, each.values.astype(float), **_points(each))
        if each.limit is not None:
            ax.axhline(each.limit, color=each.colour, linewidth=1.2, linestyle=(0, (5, 3)))


def _points(each: Series) -> dict:
    return {
        "marker": each.marker,
        "color": each.colour,
        "linestyle": "",
        "markersize": each.size,
        "markeredgewidth": 0,
    }


def _handle(each: Series) -> Line2D:
    # a zero-width space keeps a name that begins with _ in the legend
    return Line2D(
        [], [], label="\u200b" * each.label.startswith("_") + _short(each.label), **_points(each)
    )


def _short(words: str) -> str:
    return words if len(words) <= 24 else f"{words[:12]}\u2026{words[-10:]}"


def clock_times(moments: Sequence[float]) -> list[str]:
    """'14:05' in UTC, with the date below the first and wherever it changes."""
    made, date = [], None
    for at in moments:
        moment = datetime.fromtimestamp(at, UTC)
        known, date = date, f"{moment:%Y-%m-%d}"
        made.append(f"{moment:%H:%M}" + (f"\n{date}" if date != known else ""))
    return made
