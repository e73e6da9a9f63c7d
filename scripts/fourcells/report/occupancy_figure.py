"""The timeline of occupancy: rows in every step, one panel per admission, all on one scale."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fourcells.report import numbers as n
from fourcells.report.catalogue import ADMISSIONS, TEXTS
from fourcells.report.chains import Pair, group_of
from fourcells.report.data import Data
from fourcells.report.svg import draw

USEFUL, INK, OUTLINE, LIMIT = "#4c78a8", "#1f2933", "#e3a857", "#6b7280"
USELESS = {"facecolor": "#eef1f4", "edgecolor": "#9aa3ad", "hatch": "/////", "linewidth": 0.4}
MEASURED, SIMULATED = "measured", "simulated"


@dataclass(frozen=True)
class Panel:
    """One cell: its run-length coded steps, measured and simulated (either may be empty)."""

    engine: str
    admission: str
    slots: int
    measured: pd.DataFrame
    simulated: pd.DataFrame

    @property
    def shown(self) -> pd.DataFrame:
        return self.simulated if self.measured.empty else self.measured

    @property
    def steps(self) -> int:
        return int(self.shown.step_to.max())

    @property
    def idle(self) -> float:
        """Share of slots x steps without a useful token."""
        useful = (self.shown.useful_rows * (self.shown.step_to - self.shown.step_from)).sum()
        return 1 - float(useful) / (self.slots * self.steps)

    def title(self) -> str:
        return TEXTS["occupancy_title"].format(
            admission=ADMISSIONS[self.admission], slots=n.integer(self.slots), told=self._told()
        )

    def _told(self) -> str:
        key = "occupancy_simulated" if self.measured.empty else "occupancy_told"
        return TEXTS[key].format(steps=n.integer(self.steps), idle=n.percent(self.idle))


def panels(data: Data, pair: Pair) -> list[Panel]:
    """Padded, wave and continuous of the engine's group at the pair's slots, then the engine at
    its most slots; what is not in the table is left out."""
    frame = data.occupancy[data.occupancy.workload.eq(pair.workload)]
    frame = frame[frame.engine.isin(group_of(data, pair.engine))]
    made = []
    for admission in ADMISSIONS:
        cells = frame[frame.admission.eq(admission) & frame.slots.eq(pair.slots)]
        if len(cells):
            names = sorted(cells.engine.unique(), key=lambda name: (name != pair.engine, name))
            made.append(_panel(cells, names[0], admission, pair.slots))
    own = frame[frame.engine.eq(pair.engine)]
    if len(own) and own.slots.max() > pair.slots:
        most = int(own.slots.max())
        own = own[own.slots.eq(most)]
        made.append(_panel(own, pair.engine, own.admission.iloc[0], most))
    return made


def _panel(frame: pd.DataFrame, engine: str, admission: str, slots: int) -> Panel:
    own = frame[frame.engine.eq(engine)].sort_values("step_from")
    measured, simulated = (own[own.source.eq(source)] for source in (MEASURED, SIMULATED))
    return Panel(engine, admission, slots, measured, simulated)


def occupancy_figure(data: Data, pair: Pair) -> Markup | None:
    """The picture; None without a cell of the engine's group."""
    made = panels(data, pair)
    if not made:
        return None
    words = "; ".join(f"{panel.engine}: {panel.title()}" for panel in made)
    label = TEXTS["occupancy_alt"].format(workload=pair.workload, panels=words)
    return draw("occupancy", label, lambda: _draw(made))


def _draw(made: list[Panel]) -> Figure:
    figure = Figure(figsize=(7.2, 0.9 + 1.25 * len(made)))
    axes = figure.subplots(len(made), 1, sharex=True, squeeze=False, gridspec_kw={"hspace": 0.5})
    axes = axes[:, 0]
    longest = max(panel.steps for panel in made)
    for ax, panel in zip(axes, made, strict=True):
        _fill(ax, panel)
        ax.set_title(panel.title(), loc="left", fontsize=10, fontweight="bold", pad=5)
        ax.set_title(panel.engine, loc="right", fontsize=9, pad=5)
        ax.set_xlim(0, longest * 1.01)
        ax.set_ylabel(TEXTS["occupancy_rows"], fontsize=9)
        ax.tick_params(labelsize=9)
    axes[-1].set_xlabel(TEXTS["occupancy_axis"])
    axes[-1].xaxis.set_major_formatter(lambda value, _: n.integer(value))
    figure.legend(
        handles=[
            Patch(facecolor=USEFUL, label=TEXTS["occupancy_useful"]),
            Patch(label=TEXTS["occupancy_useless"], **USELESS),
            Line2D([], [], color=OUTLINE, linewidth=2.4, label=TEXTS["occupancy_outline"]),
            Line2D(
                [], [], color=LIMIT, linestyle=":", linewidth=1.2, label=TEXTS["occupancy_slots"]
            ),
        ],
        loc="upper left",
        bbox_to_anchor=(0.1, 0.995),
        ncols=4,
        fontsize=9,
        columnspacing=1.2,
        handlelength=1.6,
    )
    return figure


def _fill(ax, panel: Panel) -> None:
    """Rows of one cell; the schedule's outline lies behind and shows as a rim."""
    highest = 1
    if len(panel.simulated):
        x, rows = _stairs(panel.simulated, "rows")
        ax.plot([0, *x, x[-1]], [0, *rows, 0], color=OUTLINE, linewidth=2.8, zorder=1)
        highest = max(rows)
    if len(panel.measured):
        x, rows = _stairs(panel.measured, "rows")
        _, useful = _stairs(panel.measured, "useful_rows")
        if any(more > less for more, less in zip(rows, useful, strict=True)):
            ax.fill_between(x, useful, rows, zorder=2, **USELESS)
        ax.fill_between(x, 0, useful, color=USEFUL, linewidth=0, zorder=2)
        highest = max(*rows, highest)
    if panel.slots <= 1.5 * highest:
        ax.axhline(panel.slots, color=LIMIT, linestyle=":", linewidth=1.2, zorder=3)
    ax.set_ylim(0, 1.12 * highest)


def _stairs(runs: pd.DataFrame, column: str) -> tuple[list[int], list[int]]:
    """Corners of the steps of run-length coded values."""
    x = [int(end) for row in runs.itertuples() for end in (row.step_from, row.step_to)]
    return x, [int(value) for value in runs[column] for _ in range(2)]
