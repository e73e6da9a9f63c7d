"""Tables as the template sees them: a caption, headed columns and rows of written cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from urllib.parse import quote

import pandas as pd

from fourcells.report.catalogue import LABELS, TEXTS
from fourcells.report.numbers import MISSING, is_missing

NUMERIC = {"slots", "repeat", "output_tokens"}
# Columns of numbers that an A4 page holds upright, and on its side.
UPRIGHT, ON_ITS_SIDE = 13, 28


@dataclass(frozen=True)
class Cell:
    """One written cell; `value` is the exact number behind it, for readers of the HTML, `href` the
    name of an anchor of the page that the cell links to."""

    text: str
    value: float | None = None
    href: str = ""


@dataclass(frozen=True)
class Column:
    """A column's heading. `kind`: name (heads its row), text, number, or lesson (set apart)."""

    label: str
    kind: str = "number"


@dataclass(frozen=True)
class Grid:
    """A whole table; `note` is a sentence below it, `name` its class for the style sheet, `table`
    the table of results/tables that it is made of, `row_ids` an anchor per row (or none: "")."""

    caption: str
    columns: list[Column]
    rows: list[list[Cell]] = field(default_factory=list)
    note: str = ""
    name: str = ""
    table: str = ""
    row_ids: list[str] = field(default_factory=list)

    @property
    def width(self) -> str:
        """How it is printed: `wide` on a page that lies on its side, `dense` also in smaller
        letters. A column of words counts twice."""
        columns = len(self.columns) + sum(column.kind == "text" for column in self.columns)
        wide = ["wide"] * (columns > UPRIGHT) + ["dense"] * (columns > ON_ITS_SIDE)
        return " ".join(wide)


def timing_id(engine: object, workload: object, slots: object) -> str:
    """The anchor of a cell's first timing; different cells have different ones."""
    return f"timing-{_slug(engine)}-{_slug(workload)}-slots{int(slots)}"


def _slug(name: object) -> str:
    """Letters, digits, `_` and `.` stay, all else as hexadecimal: 'a b' -> 'a~20b'."""
    escaped = quote(str(name), safe="").replace("~", "%7E").replace("-", "%2D")
    return escaped.replace("%", "~")


def text(value: object) -> Cell:
    """A cell of words."""
    return Cell(MISSING if is_missing(value) else str(value))


def figure(value: object, write: Callable[[object], str]) -> Cell:
    """A cell of one number, written by a function of `numbers`."""
    return Cell(write(value), None if is_missing(value) else float(value))


def drop(grid: Grid, labels: Iterable[str]) -> Grid:
    """The grid without the named columns."""
    gone = set(labels)
    keep = [i for i, column in enumerate(grid.columns) if column.label not in gone]
    rows = [[row[i] for i in keep] for row in grid.rows]
    return replace(grid, columns=[grid.columns[i] for i in keep], rows=rows)


def drop_empty(grid: Grid, labels: Iterable[str]) -> Grid:
    """The grid without those of the named columns that hold no number in any row."""
    at = {column.label: i for i, column in enumerate(grid.columns)}
    empty = [x for x in labels if all(row[at[x]].value is None for row in grid.rows)]
    return drop(grid, empty)


def drop_spread(grid: Grid) -> Grid:
    """With one repeat everywhere: no columns of spread, and a note that says why."""
    at = [column.label for column in grid.columns].index(LABELS["n"])
    if any((row[at].value or 0) > 1 for row in grid.rows):
        return grid
    spread_columns = [LABELS[key] for key in ("min", "max", "interval")]
    return replace(drop(grid, spread_columns), note=TEXTS["one_repeat_note"])


def columns(*names: str) -> list[Column]:
    """Columns by label name; a prefix `name:`, `text:` or `lesson:` says their kind."""
    made = []
    for name in names:
        kind, _, label = name.rpartition(":")
        made.append(Column(LABELS.get(label, label), kind or "number"))
    return made


def groups(frame: pd.DataFrame, keys: list[str]):
    """(key values, rows) per group: numbers ascending, names in order of first appearance."""
    if frame.empty:
        return []
    ranks = {}
    for key in keys:
        values = list(frame[key].dropna().unique())
        if key in NUMERIC:
            values.sort()
        ranks[key] = {value: rank for rank, value in enumerate(values)}
    by = frame[keys].apply(lambda column: column.map(ranks[column.name]).fillna(-1))
    ordered = frame.loc[by.sort_values(keys, kind="stable").index]
    return ordered.groupby(keys, sort=False, dropna=False)


def first(values: pd.Series) -> object:
    """The first value that is not null, else None."""
    values = values.dropna()
    return None if values.empty else values.iloc[0]


def mean(values: pd.Series) -> float | None:
    values = pd.to_numeric(values, errors="coerce").dropna()
    return None if values.empty else float(values.mean())


def spread(values: pd.Series, write) -> list[Cell]:
    """Minimum and maximum; with one repeat there is no spread and the cells say so."""
    values = pd.to_numeric(values, errors="coerce").dropna()
    if len(values) == 1:
        return [text(LABELS["one_repeat"])] * 2
    if values.empty:
        return [text(None)] * 2
    return [figure(values.min(), write), figure(values.max(), write)]


def interval(entry: dict, write) -> Cell:
    """The summary's 95 % interval as one cell."""
    low, high = entry.get("low"), entry.get("high")
    if is_missing(low) or is_missing(high):
        return text(LABELS["one_repeat"] if entry.get("n") == 1 else None)
    return Cell(TEXTS["from_to"].format(low=write(low), high=write(high)))
