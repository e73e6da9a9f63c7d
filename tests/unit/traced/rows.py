"""A row of a table of the page, and what its cells must show.

That is: heading (its name in the catalogue, or as it stands there) -> values with their kinds, or
words. Where the repeats are at hand, means, ratios and intervals are reckoned from them, not read
from the tables' own summaries of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import pandas as pd

from fourcells.report.catalogue import catalogue
from traced.numbers import number_in
from traced.page import Table
from traced.truth import Truth, Value, geometric_mean, interval


@cache
def said(language: str, part: str) -> dict:
    """A part of the catalogue, spaces as the page's text has them."""
    texts = catalogue(language)[part].items()
    return {key: " ".join(text.split()) if isinstance(text, str) else text for key, text in texts}


class Some(list):
    """Values of which a cell shows some or none, in any order."""


Expected = dict[str, str | list[Value]]
# What stands for the caption of the table among the headings of a row.
CAPTION = "(caption)"
LATENCIES = ["ttft_s", "service_ttft_s", "e2e_produced_s", "e2e_returned_s"]


@dataclass(frozen=True)
class Row:
    """A row of a table of the page, by the catalogue's names of its headings."""

    table: Table
    cells: dict
    truth: Truth

    def __getitem__(self, label: str) -> str:
        """The text of a cell."""
        return self.cells[self.words("labels")[label]].text

    def number(self, label: str) -> int:
        """The whole number of a cell."""
        return number_in(self[label], self.table.language)

    def words(self, part: str) -> dict:
        return said(self.table.language, part)

    def key_of(self, part: str, label: str) -> str:
        """The key of a text of a part."""
        return next(key for key, words in self.words(part).items() if words == self[label])

    def caption(self, template: str) -> dict[str, str]:
        """What the caption holds in the places of its template."""
        return matched(self.words("texts")[template], self.table.caption)

    def caption_number(self, template: str, place: str) -> int:
        return number_in(self.caption(template)[place], self.table.language)

    def by_repeat(self, values: pd.Series) -> Expected:
        """The columns of single repeats."""
        repeats = sorted(self.truth.tables["throughput"].repeat.unique())
        heading = self.words("labels")["repeat_n"]
        return {heading.format(n=r): [("ratio", values.get(r))] for r in repeats}


def matched(template: str, text: str) -> dict[str, str] | None:
    """placeholder -> what a text holds for it; None if it is no such text."""
    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", re.escape(template))
    found = re.fullmatch(pattern, text)
    return found and found.groupdict()


def one(values: pd.Series) -> object:
    """The one value that all rows share, None if they have none."""
    known = values.dropna().unique()
    assert len(known) < 2, values
    return known[0] if len(known) else None


def bounds(kind: str, values: Iterable[float], less: float = 0) -> list[Value]:
    return [(kind, end - less) for end in interval(values) if end is not None]


def cell_of(row: Row) -> dict:
    return {
        "engine": row["engine"],
        "slots": row.number("slots"),
        "workload": row["workload"],
    }


def shown(kinds: dict[str, str], of: pd.Series | dict) -> Expected:
    """heading -> (kind, value): values that stand in the table as they are."""
    return {key: [(kind, of[key])] for key, kind in kinds.items()}


def means(kinds: dict[str, str], part: pd.DataFrame) -> Expected:
    return {
        key: [(kind, pd.to_numeric(part[key]).astype(float).mean())] for key, kind in kinds.items()
    }


def spread(kind: str, values: pd.Series, middle: str) -> Expected:
    """Mean, least, greatest and number of the repeats."""
    return {
        middle: [(kind, values.mean())],
        "min": [(kind, values.min())],
        "max": [(kind, values.max())],
        "n": [("count", values.count())],
    }


def pooled(values: pd.Series, middle: str = "estimate") -> Expected:
    """Geometric mean, interval and number of a ratio's repeats."""
    return {
        middle: [("ratio", geometric_mean(values))],
        "interval": bounds("ratio", values),
        "n": [("count", len(values))],
    }


def rates(truth: Truth, engine: str, workload: str, slots: int) -> pd.Series:
    """Throughput by repeat."""
    part = truth.rows("throughput", engine=engine, workload=workload, slots=slots)
    return part.set_index("repeat").tok_s


def floors(row: Row) -> Some:
    """The noise floor, which a conclusion names where it decides."""
    frame = row.truth.rows("controls", kind="A/A")
    return Some([("share", frame[frame.n.gt(2)].noise_floor.max())])
