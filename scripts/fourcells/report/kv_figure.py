"""The KV cache over time: reserved and used memory, and requests at once, per rule."""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fourcells.report import numbers as n
from fourcells.report.catalogue import TEXTS
from fourcells.report.data import Data
from fourcells.report.kv_rules import Rule
from fourcells.report.svg import draw

RESERVED, HELD, ROWS, PREEMPTED = "#c9dcef", "#2f6ca3", "#d9822b", "#b3261e"


def kv_figure(data: Data, rules: list[Rule]) -> Markup | None:
    """The picture, one row of panels per rule that has a timeline; None without any."""
    shown = [(rule, runs) for rule in rules if len(runs := timeline(data, rule))]
    if not shown:
        return None
    words = "; ".join(_alt(rule, runs) for rule, runs in shown)
    label = TEXTS["kv_alt"].format(workload=rules[0].first("workload"), panels=words)
    return draw("kv", label, lambda: _draw(shown))


def timeline(data: Data, rule: Rule) -> pd.DataFrame:
    """The rule's points in time."""
    frame = data.reservation_timeline
    same = frame.engine.eq(rule.engine) & frame.t_s.notna()
    for key in ("workload", "slots"):
        same &= frame[key].eq(rule.first(key))
    return frame[same].sort_values("t_s", kind="stable")


def _alt(rule: Rule, runs: pd.DataFrame) -> str:
    return TEXTS["kv_panel_alt"].format(
        rule=rule.words,
        reserved=n.percent(rule.mean("reserved_mean")),
        held=n.percent(rule.mean("held_mean")),
        most=n.integer(rule.mean("rows_max")),
        end=n.seconds(runs.t_s.max()),
    )


def _draw(shown: list[tuple[Rule, pd.DataFrame]]) -> Figure:
    figure = Figure(figsize=(7.2, 0.8 + 1.2 * len(shown)))
    axes = figure.subplots(
        len(shown),
        2,
        sharex=True,
        sharey="col",
        squeeze=False,
        gridspec_kw={"hspace": 0.55, "wspace": 0.16, "width_ratios": [1.35, 1]},
    )
    for (memory, requests), (rule, runs) in zip(axes, shown, strict=True):
        _memory(memory, rule, runs)
        _requests(requests, rule, runs)
    longest = max(float(runs.t_s.max()) for _, runs in shown)
    axes[0][0].set_xlim(0, longest * 1.01 if longest > 0 else 1)
    axes[0][0].set_ylim(0, 1.18)
    axes[0][0].set_yticks([0, 0.5, 1])
    axes[0][0].yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes[0][1].set_ylim(bottom=0)
    axes[-1][0].xaxis.set_major_formatter(lambda value, _: n.tick(value))
    for ax in axes[-1]:
        ax.set_xlabel(TEXTS["kv_axis"], fontsize=9)
    _legend(figure, any(runs.preempted.astype(float).sum() > 0 for _, runs in shown))
    return figure


def _memory(ax, rule: Rule, runs: pd.DataFrame) -> None:
    for column, colour in (("reserved", RESERVED), ("held", HELD)):
        values, edges = _stairs(runs, column)
        ax.stairs(values, edges, fill=True, color=colour, linewidth=0)
    lost = runs[runs.preempted.astype(float).gt(0)]
    marks = {"marker": "v", "color": PREEMPTED, "markersize": 3.5, "linestyle": ""}
    ax.plot(lost.t_s.astype(float), [1.09] * len(lost), **marks)
    told = TEXTS["kv_panel_memory"].format(used=n.percent(rule.mean("used_of_reserved")))
    _titles(ax, rule.words[0].upper() + rule.words[1:], told)


def _stairs(runs: pd.DataFrame, column: str) -> tuple[list[float], list[float]]:
    """Values, and the times [values + 1] from which and to which each holds; equal ones in a row
    are one, which halves the picture."""
    values, times = runs[column].astype(float).tolist(), runs.t_s.astype(float).tolist()
    starts = [i for i in range(len(values)) if not i or values[i] != values[i - 1]]
    return [values[i] for i in starts], [*(times[i] for i in starts), times[-1]]


def _requests(ax, rule: Rule, runs: pd.DataFrame) -> None:
    values, edges = _stairs(runs, "rows")
    ax.stairs(values, edges, fill=True, color=ROWS, alpha=0.25, linewidth=0)
    ax.stairs(values, edges, color=ROWS, linewidth=1.3)
    _titles(ax, "", TEXTS["kv_panel_rows"].format(mean=n.rate(rule.mean("rows_mean_time"))))


def _titles(ax, left: str, right: str) -> None:
    ax.set_title(left, loc="left", fontsize=10, fontweight="bold", pad=4)
    ax.set_title(right, loc="right", fontsize=9, pad=4)
    ax.tick_params(labelsize=9)
    ax.grid(axis="y")


def _legend(figure: Figure, preempted: bool) -> None:
    """Above the panels; the triangle only where somebody was preempted."""
    handles = [
        Patch(facecolor=RESERVED, label=TEXTS["kv_reserved"]),
        Patch(facecolor=HELD, label=TEXTS["kv_held"]),
        Line2D([], [], color=ROWS, linewidth=1.6, label=TEXTS["kv_in_flight"]),
    ]
    marks = {"marker": "v", "color": PREEMPTED, "markersize": 5, "linestyle": ""}
    if preempted:
        handles.append(Line2D([], [], label=TEXTS["kv_preempted"], **marks))
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.1, 0.88 + 0.3 / figure.get_figheight()),
        borderaxespad=0,
        ncols=4,
        fontsize=9,
        columnspacing=1.2,
        handlelength=1.5,
    )
