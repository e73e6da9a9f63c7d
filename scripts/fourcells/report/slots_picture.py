"""The picture of section 1: who holds which slot at which step, under two admissions."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from fourcells.report import numbers as n
from fourcells.report.catalogue import TEXTS
from fourcells.report.svg import draw
from fourcells.simulator import Step, simulate

COLOURS = ["#4c78a8", "#f2a541", "#59a14f", "#c85a54", "#8c6bb1", "#3aa6a6"]
IDLE = {"facecolor": "#ffffff", "edgecolor": "#9aa3ad", "linewidth": 0.8}
PANELS = (("padded", "slots_static"), ("continuous", "slots_continuous"))


def slots_picture(lengths: Mapping[str, int], slots: int) -> tuple[Markup, str]:
    """(SVG, caption) of the requests `lengths` (name -> output tokens) served by `slots` slots."""
    runs = {a: simulate(list(lengths.values()), slots, a).steps for a, _ in PANELS}
    names = list(lengths)
    label = TEXTS["slots_alt"].format(
        slots=slots,
        panels=" ".join(_panel_alt(TEXTS[key], runs[a], names, slots) for a, key in PANELS),
    )
    caption = TEXTS["slots_caption"].format(
        useful=sum(lengths.values()),
        padded=len(runs["padded"]),
        continuous=len(runs["continuous"]),
    )
    return draw("slots", label, lambda: _figure(runs, names, slots)), caption


def _idle(steps: list[Step], slots: int) -> tuple[int, int]:
    """(idle squares, all squares)."""
    total = slots * len(steps)
    return total - sum(step.useful_rows for step in steps), total


def _panel_alt(title: str, steps: list[Step], names: list[str], slots: int) -> str:
    idle, total = _idle(steps, slots)
    holders = []
    for slot in range(slots):
        held = dict.fromkeys(s.holders[slot] for s in steps if s.holders[slot] is not None)
        served = ", ".join(names[h] for h in held)
        holders.append(TEXTS["slots_holder_alt"].format(slot=slot + 1, names=served or n.MISSING))
    return TEXTS["slots_panel_alt"].format(
        name=title, steps=len(steps), idle=idle, all=total, holders="; ".join(holders)
    )


def _figure(runs: Mapping[str, list[Step]], names: list[str], slots: int) -> Figure:
    longest = max(len(steps) for steps in runs.values())
    figure = Figure(figsize=(6.2, 0.42 * 2 * slots + 1.7), layout="constrained")
    axes = figure.subplots(len(PANELS), 1, sharex=True)
    for ax, (admission, key) in zip(axes, PANELS, strict=True):
        steps = runs[admission]
        idle, total = _idle(steps, slots)
        title = TEXTS["slots_title"].format(
            name=TEXTS[key], steps=len(steps), idle=idle, all=total, share=n.percent(idle / total)
        )
        ax.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
        _squares(ax, steps, names)
        ax.set(xlim=(0, longest), ylim=(slots, 0), aspect="equal")
        ax.set_yticks([s + 0.5 for s in range(slots)])
        ax.set_yticklabels([TEXTS["slots_slot"].format(n=s + 1) for s in range(slots)])
        ax.set_xticks([s + 0.5 for s in range(longest)], [str(s + 1) for s in range(longest)])
        ax.tick_params(length=0, labelbottom=True)
        ax.spines[:].set_visible(False)
    axes[-1].set_xlabel(TEXTS["slots_step"])
    figure.legend(
        handles=[
            Patch(hatch="////", label=TEXTS["slots_done"], **IDLE),
            Patch(linestyle=":", label=TEXTS["slots_empty"], **IDLE),
        ],
        loc="outside lower center",
        ncols=2,
    )
    return figure


def _squares(ax, steps: list[Step], names: list[str]) -> None:
    for x, step in enumerate(steps):
        for slot, (holder, useful) in enumerate(zip(step.holders, step.useful, strict=True)):
            box = (x + 0.05, slot + 0.05), 0.9, 0.9
            if holder is None:
                ax.add_patch(Rectangle(*box, linestyle=":", **IDLE))
            elif not useful:
                ax.add_patch(Rectangle(*box, hatch="////", **IDLE))
            else:
                colour = COLOURS[holder % len(COLOURS)]
                ax.add_patch(Rectangle(*box, facecolor=colour, alpha=0.35, edgecolor=colour))
                ax.text(x + 0.5, slot + 0.5, names[holder], ha="center", va="center")
