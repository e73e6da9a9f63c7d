"""The section on the end of a block: what more slots lose, and that few lose the same way."""

from __future__ import annotations

from collections.abc import Iterator

from fourcells.analysis import commands
from fourcells.report import drain_said as said
from fourcells.report import numbers as n
from fourcells.report import wording
from fourcells.report.blocks import Commands, Figure, Listing, Section
from fourcells.report.catalogue import LABELS, TEXTS
from fourcells.report.data import Data
from fourcells.report.drain import Drain, drains, subject
from fourcells.report.drain_facts import Facts, facts, lesson_facts
from fourcells.report.drain_figure import drain_figure
from fourcells.report.grid import Cell, Column, Grid, figure, text

ARRIVALS = "arrivals"
# The quantities of the table, and how they are written.
WRITE = {
    "requests": n.integer,
    "steps_uniform": n.integer,
    "steps": n.integer,
    "empty_from": n.integer,
    "drain_steps": n.integer,
    "drain_share": n.percent,
    "drain_time": n.percent,
    "last_steps": n.integer,
    "last_share": n.percent,
    "last_time": n.percent,
    "slot_use": n.percent,
    "loss_steps": said.change,
    "loss": said.change,
    "window_s": n.seconds,
    "alone_s": n.seconds,
    "longest_e2e_s": n.seconds,
}


def drain(data: Data) -> Section:
    """The whole section. What is missing leaves its reason and the command that makes it."""
    blocks = list(_blocks(data))
    return Section("drain", TEXTS[_head(data)], "5", TEXTS["drain_intro"], blocks)


def _head(data: Data) -> str:
    """A heading claims only what this run shows."""
    chosen = subject(data)
    more = chosen is not None and said.loses_more(data, drains(data, *chosen))
    return "drain_head" if more else "drain_head_open"


def _blocks(data: Data) -> Iterator:
    chosen = subject(data)
    if chosen is None:
        yield _absent("drain_what", "why_no_drain", commands.MEASURE)
        return
    cells = drains(data, *chosen)
    yield Listing(said.sentences(data, cells))
    svg = drain_figure(cells)
    if svg:
        words = {"engine": chosen[0], "workload": chosen[1]}
        yield Figure("drain", svg, TEXTS["drain_figure"].format(**words), "occupancy")
    yield table(data, cells)
    if len(cells) < 2:
        yield _absent("drain_slots_what", "why_no_drain_slots", commands.MEASURE)
    coming = said.arrivals(data, chosen[0])
    yield coming or _absent("drain_arrivals_what", "why_no_arrivals", commands.make(ARRIVALS))


def _absent(what: str, why: str, command: str) -> Commands:
    return Commands(TEXTS["absent"].format(what=TEXTS[what], why=TEXTS[why]), [command])


def table(data: Data, cells: list[Drain]) -> Grid:
    """One row per quantity; a column per slot count, the lesson's beside it."""
    heads, columns = [Column(LABELS["quantity"], "name")], []
    for cell in cells:
        slots = wording.slots(cell.slots)
        heads.append(Column(slots))
        columns.append(facts(data, cell))
        theirs = lesson_facts(cell)
        if theirs is not None:
            heads.append(Column(TEXTS["drain_lesson_column"].format(slots=slots), "lesson"))
            columns.append(theirs)
    named = {name: [_cell(each, name) for each in columns] for name in WRITE}
    rows = [
        [text(LABELS[f"drain_{name}"]), *written]
        for name, written in named.items()
        if any(cell.text != n.MISSING for cell in written)
    ]
    begin = cells[0]
    caption = TEXTS["drain_caption"].format(engine=begin.engine, workload=begin.workload)
    note = TEXTS["drain_note"]
    if not all(each.empty_exactly for each in columns):
        note = f"{note} {TEXTS['drain_latest_note']}"
    note = " ".join(filter(None, [note, said.gap(begin, columns[0])]))
    return Grid(caption, heads, rows, note, "noise", "occupancy")


def _cell(of: Facts, name: str) -> Cell:
    written = figure(getattr(of, name), WRITE[name])
    if name == "empty_from" and not of.empty_exactly:
        return Cell(TEXTS["drain_latest"].format(step=written.text), written.value)
    return written
