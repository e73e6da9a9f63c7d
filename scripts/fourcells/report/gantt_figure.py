"""Who held which slot from when to when: the compared engines on the mixed workload, measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from fourcells.report import blocks
from fourcells.report import numbers as n
from fourcells.report.answer import main_group
from fourcells.report.catalogue import ADMISSIONS, TEXTS
from fourcells.report.data import Data
from fourcells.report.grids import workload_pair
from fourcells.report.svg import draw

# By output length, shortest first; neighbours differ in lightness, whatever the eye tells of hue.
COLOURS = ("#3f97c9", "#3f52ad", "#c78918", "#b5473c", "#4f9a78", "#8a5aa8")
# More lengths than colours are drawn as so many groups of lengths.
GROUPS = 4
PALE = 0.4
HELD = {"facecolor": "none", "edgecolor": "#6b7280", "hatch": "//////", "linewidth": 0.4}
SOFT = "#6b7280"
# Windows further apart than this factor would leave nothing to see on one time axis.
APART = 4
# A bar ends this share of the axis early, so that the next one in its slot stands apart.
HAIR = 0.0015


@dataclass(frozen=True)
class Panel:
    """One cell: its rows of the table `holders`."""

    engine: str
    admission: str
    slots: int
    rows: pd.DataFrame

    @property
    def used(self) -> int:
        """How many of its slots anybody held."""
        return int(self.rows.slot.max()) + 1

    @property
    def window(self) -> float:
        return float(self.rows.returned_s.max())

    @property
    def idle(self) -> float:
        """Share of slots x window in which no unfinished request held the slot."""
        return 1 - float((self.rows.finished_s - self.rows.admitted_s).sum()) / self._area

    @property
    def held(self) -> float:
        """Share of slots x window in which a finished request held the slot."""
        if self.admission != "padded":
            return 0.0
        return float((self.rows.returned_s - self.rows.finished_s).sum()) / self._area

    @property
    def _area(self) -> float:
        return self.slots * self.window

    def title(self) -> str:
        return TEXTS["gantt_title"].format(
            admission=ADMISSIONS.get(self.admission, self.admission),
            seconds=n.seconds(self.window),
            idle=n.percent(self.idle),
        )

    def alt(self) -> str:
        told = TEXTS["gantt_panel_alt"].format(
            engine=self.engine,
            title=self.title(),
            requests=n.integer(len(self.rows)),
            used=n.integer(self.used),
            slots=n.integer(self.slots),
            last=n.seconds(self.rows.admitted_s.max()),
        )
        return told + (TEXTS["gantt_held_alt"].format(held=n.percent(self.held)) * bool(self.held))


def gantt(data: Data) -> list[blocks.Figure]:
    """The figure, the baseline's panel above the engine's; none without a measured cell."""
    made = panels(data)
    if not made:
        return []
    workload = made[0].rows.workload.iloc[0]
    together = _together(made)
    alt = TEXTS["gantt_alt"].format(workload=workload, panels="; ".join(p.alt() for p in made))
    svg = draw("gantt", alt, lambda: _draw(made, together))
    return [blocks.Figure("gantt", svg, _caption(made, workload, together), "holders")]


def panels(data: Data) -> list[Panel]:
    """The two engines that the answer compares, on the mixed workload; where nothing is compared,
    a padded and a continuous one at the fewest slots."""
    frame = data.holders[data.holders.slot.notna()]
    if frame.empty:
        return []
    _, mixed = workload_pair(data)
    known = list(frame.workload.unique())
    frame = frame[frame.workload.eq(mixed if mixed in known else known[-1])]
    told = main_group(data)
    if len(told):
        engines, slots = [told.baseline.iloc[0], told.engine.iloc[0]], told.slots.iloc[0]
        frame = frame[frame.slots.eq(slots)]
    else:
        frame = frame[frame.slots.eq(frame.slots.min())]
        firsts = frame.drop_duplicates("admission").set_index("admission").engine
        engines = [firsts[a] for a in ADMISSIONS if a in firsts]
        engines = engines if len(engines) < 3 else [engines[0], engines[-1]]
    made = []
    for engine in engines:
        rows = frame[frame.engine.eq(engine)]
        if len(rows):
            slots = int(rows.slots.iloc[0])
            made.append(Panel(str(engine), str(rows.admission.iloc[0]), slots, rows))
    return made


def _together(made: Sequence[Panel]) -> bool:
    windows = [panel.window for panel in made]
    return max(windows) <= APART * min(windows)


def _caption(made: Sequence[Panel], workload: str, together: bool) -> str:
    repeats = sorted({int(r) for panel in made for r in panel.rows.repeat})
    said = [
        TEXTS["gantt_figure"].format(
            workload=workload,
            requests=n.integer(max(len(panel.rows) for panel in made)),
            slots=n.integer(made[0].slots),
            repeat=", ".join(n.integer(repeat) for repeat in repeats),
        )
    ]
    if any(panel.held for panel in made):
        said.append(TEXTS["gantt_held_told"])
    said.append(TEXTS["gantt_idle_told"])
    if len(made) > 1:
        said.append(TEXTS["gantt_one_axis" if together else "gantt_own_axes"])
    if any(panel.used < panel.slots for panel in made):
        used = max(panel.used for panel in made)
        said.append(TEXTS["gantt_unused"].format(used=n.integer(used)))
    return " ".join(said)


def groups_of(lengths: Sequence[int]) -> list[list[int]]:
    """The lengths in ascending groups, one per colour."""
    known = sorted(set(lengths))
    if len(known) <= len(COLOURS):
        return [[length] for length in known]
    return [part.tolist() for part in np.array_split(known, GROUPS)]


def _draw(made: Sequence[Panel], together: bool) -> Figure:
    heights = [min(max(0.15 * panel.used, 1.0), 3.2) for panel in made]
    figure = Figure(
        figsize=(7.2, 0.6 + sum(heights) + (0.5 if together else 0.7) * (len(made) - 1))
    )
    axes = figure.subplots(
        len(made),
        1,
        squeeze=False,
        sharex=together,
        gridspec_kw={"height_ratios": heights, "hspace": 0.28 if together else 0.5},
    )[:, 0]
    groups = groups_of([int(x) for panel in made for x in panel.rows.output_tokens])
    longest = max(panel.window for panel in made)
    for ax, panel in zip(axes, made, strict=True):
        end = longest if together else panel.window
        _bars(ax, panel, groups, HAIR * end)
        ax.set_xlim(0, end * 1.005)
        ax.set_ylim(panel.used - 0.4, -0.6)
        marks = sorted({0, *range(3, panel.used, 4 * (1 + panel.used // 32)), panel.used - 1})
        ax.set_yticks(marks, [n.integer(slot + 1) for slot in marks])
        ax.tick_params(axis="y", length=0)
        ax.tick_params(labelsize=9)
        ax.set_ylabel(TEXTS["gantt_slot"], fontsize=9)
        ax.set_title(panel.title(), loc="left", fontsize=10, fontweight="bold", pad=5)
        ax.set_title(_short(panel.engine), loc="right", fontsize=9, pad=5)
        ax.xaxis.set_major_formatter(lambda value, _: n.tick(value))
        ax.grid(axis="x")
        if not together:
            ax.set_xlabel(TEXTS["gantt_axis_own"], fontsize=9)
    if together:
        axes[-1].set_xlabel(TEXTS["gantt_axis"], fontsize=9)
    _legend(axes[0], heights[0], groups, any(panel.held for panel in made))
    return figure


def _bars(ax, panel: Panel, groups: list[list[int]], hair: float) -> None:
    """All bars of one colour are one path: a picture of a tenth of the size."""
    rows = panel.rows
    for group, colour in zip(groups, COLOURS, strict=False):
        own = rows[rows.output_tokens.isin(group)]
        if own.empty:
            continue
        first, last = own.first_token_s, np.maximum(own.first_token_s, own.finished_s - hair)
        for start, end, alpha in ((own.admitted_s, first, PALE), (first, last, 1)):
            path = _boxes(own.slot, start, end)
            ax.add_patch(PathPatch(path, facecolor=colour, alpha=alpha, linewidth=0))
    if panel.held:
        left = rows[rows.returned_s - rows.finished_s > hair]
        ax.add_patch(PathPatch(_boxes(left.slot, left.finished_s, left.returned_s - hair), **HELD))


def _boxes(slot: pd.Series, start: pd.Series, end: pd.Series) -> Path:
    """A rectangle per row, over time and around its slot."""
    top, bottom = slot.astype(float) - 0.4, slot.astype(float) + 0.4
    corners = [(start, top), (end, top), (end, bottom), (start, bottom), (start, top)]
    points = np.array([[x.to_numpy(float), y.to_numpy(float)] for x, y in corners])
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(slot)
    return Path(points.transpose(2, 0, 1).reshape(-1, 2), codes)


def _legend(ax, height: float, groups: list[list[int]], held: bool) -> None:
    handles = []
    for group, colour in zip(groups, COLOURS, strict=False):
        told = "–".join(dict.fromkeys(n.integer(length) for length in (group[0], group[-1])))
        handles.append(Patch(facecolor=colour, label=TEXTS["gantt_tokens"].format(n=told)))
    handles.append(Patch(facecolor=SOFT, alpha=PALE, label=TEXTS["gantt_first"]))
    if held:
        handles.append(Patch(label=TEXTS["gantt_held"], **HELD))
    # above the title of a panel of this height, inches
    ax.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1 + 0.28 / height),
        borderaxespad=0,
        ncols=3,
        fontsize=9,
        columnspacing=1.4,
        handlelength=1.5,
    )


def _short(words: str) -> str:
    return words if len(words) <= 24 else f"{words[:12]}\u2026{words[-10:]}"
