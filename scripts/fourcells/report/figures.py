"""The measured figures: throughput of every cell, latency by output length."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fourcells.report import numbers as n
from fourcells.report import wording
from fourcells.report.catalogue import LABELS, TEXTS
from fourcells.report.data import Data
from fourcells.report.grids import workload_pair
from fourcells.report.svg import draw

METRICS = ("ttft_s", "e2e_produced_s", "e2e_returned_s")
MARKERS = "osD^vPX*"
# With more engines than this, a figure shows those that are compared.
MOST_ENGINES = 6


def chosen(data: Data, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that a figure shows: all of few engines; of many, the engines that have a baseline
    or are one, on the workloads that they share, at the slots that the uniform one has too."""
    if frame.engine.nunique() <= MOST_ENGINES:
        return frame
    ratios = data.ratios[data.ratios["name"].astype(str).str.startswith("R_")]
    ratios = ratios[ratios.baseline.notna()]
    engines = {*ratios.engine, *ratios.baseline}
    workloads = set(ratios["name"].str.removeprefix("R_"))
    kept = frame[frame.engine.isin(engines) & frame.workload.isin(workloads)]
    uniform, _ = workload_pair(data)
    cells = data.throughput[data.throughput.workload.eq(uniform)][["engine", "slots"]]
    if uniform is not None:
        known = set(cells.itertuples(index=False, name=None))
        pairs = zip(kept.engine, kept.slots, strict=True)
        kept = kept[[pair in known for pair in pairs]]
    return frame if kept.empty else kept


def _cell_names(frame: pd.DataFrame) -> pd.Series:
    """'engine, 16 slots' over two lines; a long engine name loses its middle if none clashes."""
    engines = [str(engine) for engine in frame.engine.unique()]
    short = {e: e if len(e) <= 30 else f"{e[:18]}\u2026{e[-10:]}" for e in engines}
    if len(set(short.values())) < len(short):
        short = {e: e for e in engines}
    slots = frame.slots.map(wording.slots)
    return frame.engine.astype(str).map(short) + "\n" + slots


def _colours(count: int) -> list:
    return sns.color_palette("colorblind", max(count, 1))


def throughput(frame: pd.DataFrame) -> Markup | None:
    """Bars of mean tok/s, one point per repeat; None without a measured cell."""
    frame = frame[frame.tok_s.notna()]
    if frame.empty:
        return None
    frame = frame.assign(cell=_cell_names(frame), tok_s=frame.tok_s.astype(float))
    means = frame.groupby(["engine", "slots", "workload"], sort=False).tok_s.mean()
    label = TEXTS["throughput_alt"].format(
        cells="; ".join(
            TEXTS["throughput_cell_alt"].format(
                engine=engine, slots=n.integer(slots), workload=workload, value=n.rate(value)
            )
            for (engine, slots, workload), value in means.items()
        )
    )
    return draw("throughput", label, lambda: _throughput(frame))


def _throughput(frame: pd.DataFrame) -> Figure:
    workloads, cells = list(frame.workload.unique()), list(frame.cell.unique())
    colours = dict(zip(workloads, _colours(len(workloads)), strict=True))
    # half an inch per bar keeps names and points apart however many cells there are
    figure = Figure(figsize=(7.2, 1.1 + 0.36 * len(cells) * max(len(workloads), 1.6)))
    ax = figure.subplots()
    shared = {
        "data": frame,
        "x": "tok_s",
        "y": "cell",
        "hue": "workload",
        "order": cells,
        "hue_order": workloads,
        "palette": colours,
        "legend": False,
        "ax": ax,
    }
    pale = {w: [0.55 + 0.45 * part for part in colour] for w, colour in colours.items()}
    sns.barplot(**shared | {"palette": pale}, errorbar=None, width=0.8, saturation=1)
    for bars, workload in zip(ax.containers, workloads, strict=False):
        highest = frame[frame.workload == workload].groupby("cell").tok_s.max()
        _label_bars(ax, bars, highest.reindex(cells))
    sns.stripplot(
        **shared, dodge=len(workloads) > 1, jitter=False, size=5, linewidth=0.8, edgecolor="#1f2933"
    )
    ax.set(xlabel=TEXTS["throughput_axis"], ylabel="", xlim=(0, frame.tok_s.max() * 1.16))
    ax.grid(axis="x")
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_formatter(lambda value, _: n.integer(value))
    _legend(ax, {f"{LABELS['workload']} {w}": pale[w] for w in workloads})
    return figure


def _label_bars(ax, bars, highest: pd.Series) -> None:
    """Write each bar's mean to the right of its last point; `highest` is in order of the cells."""
    for bar in bars:
        if n.is_missing(bar.get_width()):
            continue
        middle = bar.get_y() + bar.get_height() / 2
        at = (max(bar.get_width(), highest.iloc[round(middle)]), middle)
        ax.annotate(
            n.rate(bar.get_width()), at, (6, 0), textcoords="offset points", va="center", size=9
        )


def _legend(ax, colours: dict) -> None:
    """Legend above the axes from patches of our own: matplotlib hides names that begin with _."""
    handles = [Patch(facecolor=c) for c in colours.values()]
    ax.legend(handles, list(colours), loc="lower left", bbox_to_anchor=(0, 1), ncols=3)


def latency(frame: pd.DataFrame, workload: str) -> Markup | None:
    """Three panels of median seconds by output tokens; None when the workload was not measured."""
    frame = frame[(frame.workload == workload) & frame.ttft_s.notna()]
    if frame.empty:
        return None
    frame = frame.assign(cell=_cell_names(frame).str.replace("\n", ", "))
    described = []
    for (engine, slots), part in frame.groupby(["engine", "slots"], sort=False):
        means = part.groupby("output_tokens")[list(METRICS)].mean().sort_index()
        described.append(
            TEXTS["latency_cell_alt"].format(
                engine=engine,
                slots=n.integer(slots),
                short=n.integer(means.index[0]),
                long=n.integer(means.index[-1]),
                **{m: _range(means[m]) for m in METRICS},
            )
        )
    label = TEXTS["latency_alt"].format(workload=workload, cells="; ".join(described))
    return draw("latency", label, lambda: _latency(frame))


def _range(values: pd.Series) -> str:
    low, high = n.seconds(values.iloc[0]), n.seconds(values.iloc[-1])
    return f"{low} s" if low == high else TEXTS["from_to"].format(low=low, high=f"{high} s")


def _latency(frame: pd.DataFrame) -> Figure:
    cells = list(frame.cell.unique())
    colours = dict(zip(cells, _colours(len(cells)), strict=True))
    markers = {cell: MARKERS[i % len(MARKERS)] for i, cell in enumerate(cells)}
    lengths = sorted(frame.output_tokens.unique())
    frame = frame.assign(at=frame.output_tokens.map(lengths.index))
    figure = Figure(figsize=(8.4, 3.1))
    axes = figure.subplots(1, len(METRICS), sharey=True)
    for ax, metric in zip(axes, METRICS, strict=True):
        shared = {
            "data": frame,
            "x": "at",
            "y": metric,
            "hue": "cell",
            "palette": colours,
            "legend": False,
            "ax": ax,
        }
        sns.lineplot(**shared, estimator="mean", errorbar=None, linewidth=1.4)
        for cell, part in frame.groupby("cell", sort=False):
            point = {"marker": markers[cell], "color": colours[cell], "markersize": 6}
            ax.plot(
                part["at"], part[metric], linestyle="", alpha=0.8, mec="white", mew=0.5, **point
            )
        ax.set_title(LABELS[metric], loc="left", fontsize=10.5, fontweight="bold")
        ax.set_xticks(range(len(lengths)), [n.integer(length) for length in lengths])
        ax.set(xlabel=TEXTS["latency_axis"], ylabel=TEXTS["latency_seconds"])
        ax.set_xlim(-0.3, max(len(lengths) - 0.7, 0.3))
        ax.grid(axis="y")
    top = frame[list(METRICS)].max().max()
    axes[0].yaxis.set_major_formatter(lambda value, _: n.tick(value))
    axes[0].set_ylim(-0.04 * top, 1.06 * top)  # a point at zero is drawn whole
    handles = [
        Line2D([], [], color=colours[c], marker=markers[c], markersize=5.5, linewidth=1.4)
        for c in cells
    ]
    # a zero-width space keeps a name that begins with _ in the legend
    names = ["\u200b" + c if c.startswith("_") else c for c in cells]
    figure.legend(handles, names, loc="lower left", bbox_to_anchor=(0.05, 0.96), ncols=3)
    return figure
