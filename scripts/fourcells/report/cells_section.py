"""The section on the design: four cells, what each is for, and what each comparison removes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from fourcells.analysis import commands
from fourcells.report import cells_said as said
from fourcells.report import numbers as n
from fourcells.report import wording
from fourcells.report.blocks import Commands, Listing, Section
from fourcells.report.catalogue import LABELS, TEXTS
from fourcells.report.data import Data
from fourcells.report.design import CellFacts, Design, cell, design
from fourcells.report.evidence import pair, ratio
from fourcells.report.grid import Cell, Column, Grid, columns, figure, text, timing_id


def cells(data: Data) -> Section:
    """The whole section. A cell that is missing is named with the command that measures it."""
    blocks = list(_blocks(data))
    return Section("cells", TEXTS["cells_head"], "2", TEXTS["cells_intro"], blocks)


def _blocks(data: Data) -> Iterator:
    chosen = design(data)
    if chosen is None:
        sentence = TEXTS["absent"].format(what=TEXTS["cells_what"], why=TEXTS["why_no_cells"])
        yield Commands(sentence, [commands.MEASURE])
        return
    yield table(data, chosen)
    yield from _missing(data, chosen)
    yield TEXTS["cells_each"]
    yield Listing(said.each(data, chosen))
    compared = said.comparisons(data, chosen)
    if compared:
        yield TEXTS["cells_compared"]
        yield Listing(compared)


def table(data: Data, of: Design) -> Grid:
    """Engines x workloads, the ratios of both along the margins, further slot counts below."""
    rows = [_row(data, of, engine, of.slots) for engine in of.engines]
    if of.whole:
        rows.append(_ratios(data, of))
    rows += [_row(data, of, engine, slots) for engine, slots in of.further]
    heads = columns("name:cells")
    heads += [Column(said.workload_words(data, each), "text") for each in of.workloads]
    if len(of.workloads) == 2:
        words = {"mixed": of.workloads[1], "uniform": of.workloads[0]}
        heads.append(Column(TEXTS["cells_along_head"].format(**words)))
    caption = TEXTS["cells_caption"].format(slots=n.integer(of.slots))
    return Grid(caption, heads, rows, TEXTS["cells_note"], "noise", "throughput")


def _row(data: Data, of: Design, engine: str, slots: int) -> list[Cell]:
    facts = [cell(data, engine, workload, slots) for workload in of.workloads]
    row = [text(f"{engine}, {wording.slots(slots)}"), *map(_cell, facts)]
    if len(facts) == 2:
        kept = said.along(data, of, engine, slots)
        row.append(figure(kept and kept.estimate, n.ratio))
    return row


def _cell(facts: CellFacts) -> Cell:
    """Mean, repeats and verdict, linked to the first of the cell's timings."""
    if not facts.n:
        return Cell(TEXTS["cells_empty"])
    repeats = LABELS["one_repeat"]
    if facts.n > 1:
        repeats = TEXTS["cells_repeats"].format(n=n.integer(facts.n))
    words = {"rate": n.rate(facts.tok_s), "repeats": repeats}
    words["verdict"] = ", ".join(facts.verdicts) or n.MISSING
    href = timing_id(facts.engine, facts.workload, facts.slots)
    return Cell(TEXTS["cells_cell"].format(**words), facts.tok_s, href)


def _ratios(data: Data, of: Design) -> list[Cell]:
    """R on both workloads, and Q in the corner."""
    baseline, engine = of.engines
    own = pair(data)
    names = [f"R_{workload}" for workload in of.workloads]
    found = [ratio(data, own, name) if own else None for name in names]
    q = said.quotient(data, own) if own else None
    name = TEXTS["cells_down_head"].format(engine=engine, baseline=baseline)
    row = [text(name)]
    for each in found:
        row.append(text(None) if each is None else Cell(each.bracketed(), each.estimate))
    return [*row, figure(q and q.estimate, n.ratio)]


def _missing(data: Data, of: Design) -> Iterator[Commands]:
    """The cells that were not measured; and a second engine or workload, if there is none."""
    known = [cell(data, e, w, of.slots) for e in of.engines for w in of.workloads]
    empty = [each for each in known if not each.n]
    if empty:
        names = [TEXTS["engine_on"].format(engine=e.engine, workload=e.workload) for e in empty]
        words = {"names": ", ".join(names), "slots": n.integer(of.slots)}
        lines = [commands.make(_path(each)) for each in empty]
        yield Commands(TEXTS["cells_missing"].format(**words), lines)
    for what, there in (("engine", of.engines), ("workload", of.workloads)):
        if len(there) < 2:
            sentence = TEXTS[f"cells_one_{what}"].format(name=there[0])
            yield Commands(sentence, [commands.MEASURE])


def _path(of: CellFacts) -> str:
    """The cell's first timing, as the workflow keeps it."""
    folder = PurePosixPath("results/timings", of.engine, of.workload, f"slots{of.slots}")
    return str(folder / "1.parquet")
