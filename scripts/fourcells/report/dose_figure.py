"""The dose: where the schedule has more to gain, does the engine gain more?"""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fourcells.report import numbers as n
from fourcells.report.catalogue import KIND_TITLES, KINDS, TEXTS
from fourcells.report.chains import Pair
from fourcells.report.data import Data
from fourcells.report.data_words import value
from fourcells.report.svg import draw

COMPUTED, MEASURED, INK = "#0173b2", "#0173b2", "#1f2933"
# An interval of two repeats is cut this factor beyond the highest estimate.
CUT = 1.35


def main_dose(data: Data, pair: Pair | None) -> pd.DataFrame:
    """The rows of one pair of engines, that of the section's engine, else the table's first; of
    each kind one series, that of the section's workload and slots, else the first."""
    frame = data.dose[data.dose.kind.notna()]
    if frame.empty:
        return frame
    own = frame[frame.engine.eq(pair.engine)] if pair else frame[:0]
    rest = frame if own.empty else own
    same = rest.engine.eq(rest.engine.iloc[0]) & rest.other.eq(rest.other.iloc[0])
    rest = rest[same].sort_values(["kind", "x"], kind="stable")
    series = []
    for kind, part in rest.groupby("kind", sort=False):
        # what stays the same within a series
        key = "workload" if kind == "slots" else "slots"
        wanted = getattr(pair, key) if pair else None
        known = part[key].eq(wanted)
        series.append(part[known if known.any() else part[key].eq(part[key].iloc[0])])
    return pd.concat(series)


def pair_words(frame: pd.DataFrame) -> str:
    """'vllm / vllm_wave'."""
    return f"{frame.engine.iloc[0]} / {frame.other.iloc[0]}"


def point_words(label: object) -> str:
    """What a point is called: its number in the digits of the language, or the order in words."""
    return n.in_signs(str(value(label)))


def dose_figure(frame: pd.DataFrame) -> Markup | None:
    """The picture of one pair's rows, a panel per kind; None without any."""
    kinds = [kind for kind in KINDS if frame.kind.eq(kind).any()]
    if not kinds:
        return None
    described = "; ".join(
        f"{KINDS[kind]}: {', '.join(_point(row) for row in part.itertuples())}"
        for kind in kinds
        for part in [frame[frame.kind.eq(kind)]]
    )
    label = TEXTS["dose_alt"].format(pair=pair_words(frame), panels=described)
    return draw("dose", label, lambda: _draw(frame, kinds))


def _point(row) -> str:
    return TEXTS["dose_point_alt"].format(
        label=point_words(row.label),
        steps=n.ratio(row.step_ratio_computed),
        value=n.ratio(row.estimate),
    )


def _draw(frame: pd.DataFrame, kinds: list[str]) -> Figure:
    # a panel is as wide as the names of its points
    widths = [
        sum(max(len(point_words(label)), 4) for label in frame[frame.kind.eq(kind)].label)
        for kind in kinds
    ]
    figure = Figure(figsize=(7.2, 3.2))
    axes = figure.subplots(
        1,
        len(kinds),
        sharey=True,
        squeeze=False,
        gridspec_kw={"width_ratios": widths, "wspace": 0.12},
    )[0]
    marks = frame[["step_ratio_computed", "step_ratio_measured", "estimate"]].astype(float)
    top, bottom = max(marks.max().max(), 1) * CUT, min(marks.min().min(), 1) / CUT
    for ax, kind in zip(axes, kinds, strict=True):
        _panel(ax, frame[frame.kind.eq(kind)], bottom, top)
        ax.set_title(KIND_TITLES[kind], loc="left", fontsize=10, fontweight="bold")
    highest = frame.high.astype(float).clip(upper=top).max()
    lowest = frame.low.astype(float).clip(lower=bottom).min()
    axes[0].set_ylim(
        min(x for x in (lowest, marks.min().min(), 1) if x == x) - 0.12,
        max(x for x in (highest, marks.max().max(), 1) if x == x) + 0.12,
    )
    axes[0].yaxis.set_major_formatter(lambda value, _: f"{n.tick(value)}x")
    axes[0].set_ylabel(TEXTS["dose_axis"])
    _legend(figure)
    return figure


def _panel(ax, part: pd.DataFrame, bottom: float, top: float) -> None:
    at = list(range(len(part)))
    ax.axhline(1, color="#6b7280", linewidth=1, linestyle=(0, (4, 3)))
    ax.plot(at, part.step_ratio_computed.astype(float), color=COMPUTED, linewidth=1.4)
    ring = {"mfc": "white", "color": MEASURED, "linestyle": "", "markersize": 6.5}
    ax.plot(at, part.step_ratio_measured.astype(float), marker="o", **ring)
    # the throughputs stand a little to the right, so that neither hides the other
    for x, row in zip(at, part.itertuples(), strict=True):
        if not (n.is_missing(row.low) or n.is_missing(row.high)):
            ends = [max(row.low, bottom), min(row.high, top)]
            ax.plot([x + 0.16] * 2, ends, color=INK, linewidth=1.6, marker="_", markersize=6)
    aside = [x + 0.16 for x in at]
    ax.plot(aside, part.estimate.astype(float), "s", color=INK, markersize=5)
    ax.set_xticks(at, [point_words(label) for label in part.label])
    ax.set_xlim(-0.4, len(at) - 0.45)
    ax.tick_params(labelsize=9)
    ax.grid(axis="y")


def _legend(figure: Figure) -> None:
    ring = {"mfc": "white", "color": MEASURED, "linestyle": "", "marker": "o", "markersize": 6.5}
    handles = [
        Line2D([], [], color=COMPUTED, linewidth=1.4, label=TEXTS["dose_computed"]),
        Line2D([], [], label=TEXTS["dose_measured"], **ring),
        Line2D([], [], color=INK, marker="s", markersize=5, lw=1.6, label=TEXTS["dose_throughput"]),
    ]
    figure.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.06, 0.97), ncols=3)
