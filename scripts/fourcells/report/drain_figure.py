"""The picture of the end of a block: rows over seconds, one panel per slot count."""

from __future__ import annotations

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fourcells.report import numbers as n
from fourcells.report.catalogue import TEXTS
from fourcells.report.drain import Drain
from fourcells.report.svg import draw

ROWS, INK = "#4c78a8", "#1f2933"
UNUSED = {"facecolor": "#eef1f4", "edgecolor": "#9aa3ad", "hatch": "/////", "linewidth": 0.4}


def drain_figure(cells: list[Drain]) -> Markup | None:
    """The picture; None where the steps have no times."""
    shown = [cell for cell in cells if cell.window_s]
    if not shown:
        return None
    panels = "; ".join(title(cell) for cell in shown)
    words = {"engine": shown[0].engine, "workload": shown[0].workload, "panels": panels}
    return draw("drain", TEXTS["drain_alt"].format(**words), lambda: _draw(shown))


def title(cell: Drain) -> str:
    """'16 slots: 2.40 s, draining for 0.76 s'."""
    return TEXTS["drain_panel"].format(
        slots=n.integer(cell.slots),
        window=n.seconds(cell.window_s),
        drain=n.seconds(cell.drain.seconds),
    )


def _draw(cells: list[Drain]) -> Figure:
    height = 0.9 + 1.3 * len(cells)
    figure = Figure(figsize=(7.2, height))
    axes = figure.subplots(len(cells), 1, sharex=True, squeeze=False, gridspec_kw={"hspace": 0.55})
    longest = max(cell.window_s for cell in cells)
    for ax, cell in zip(axes[:, 0], cells, strict=True):
        _fill(ax, cell)
        ax.set_title(title(cell), loc="left", fontsize=10, fontweight="bold", pad=5)
        ax.set_xlim(0, longest * 1.01)
        ax.set_ylim(0, 1.08 * cell.usable)
        ax.set_ylabel(TEXTS["occupancy_rows"], fontsize=9)
        ax.tick_params(labelsize=9)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(lambda value, _: n.tick(value))
    axes[-1, 0].set_xlabel(TEXTS["drain_axis"])
    figure.legend(
        handles=[
            Patch(facecolor=ROWS, label=TEXTS["occupancy_useful"]),
            Patch(label=TEXTS["drain_unused"], **UNUSED),
        ],
        loc="lower left",
        # above the first panel's title
        bbox_to_anchor=(0.11, figure.subplotpars.top + 0.2 / height),
        ncols=2,
        fontsize=9,
    )
    return figure


def _fill(ax, cell: Drain) -> None:
    """Rows, and above them what nobody is left to use."""
    x = [t for run in cell.runs.itertuples() for t in (run.t_from_s, run.t_to_s)]
    rows = [run.rows for run in cell.runs.itertuples() for _ in range(2)]
    waiting = [run.waiting for run in cell.runs.itertuples() for _ in range(2)]
    top = [row if some else cell.usable for row, some in zip(rows, waiting, strict=True)]
    ax.fill_between(x, rows, top, zorder=2, **UNUSED)
    ax.fill_between(x, 0, rows, color=ROWS, linewidth=0, zorder=2)
