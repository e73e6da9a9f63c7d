"""What a section of the page is made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from markupsafe import Markup

from fourcells.report.catalogue import TEXTS
from fourcells.report.grid import Grid


@dataclass(frozen=True)
class Figure:
    """A drawn figure: `name` is its anchor, `table` the table of results/tables that it shows."""

    name: str
    svg: Markup
    caption: str
    table: str = ""


@dataclass(frozen=True)
class Commands:
    """Commands below a sentence."""

    sentence: str
    lines: list[str]


@dataclass(frozen=True)
class Listing:
    """Sentences one below the other."""

    sentences: list[str]


@dataclass(frozen=True)
class Details:
    """Blocks that are folded away below a line that says what they are."""

    head: str
    blocks: list


@dataclass(frozen=True)
class Question:
    """A question as a heading, its answer, and the names of sections to see."""

    head: str
    paragraphs: list[str]
    see: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Section:
    """One section. `blocks` are blocks of this module, grids and plain paragraphs (str), in
    reading order."""

    name: str
    head: str
    lesson: str = ""
    intro: str = ""
    blocks: list = field(default_factory=list)


KINDS = {
    "grid": Grid,
    "figure": Figure,
    "commands": Commands,
    "listing": Listing,
    "details": Details,
    "question": Question,
}


def or_reason(block: Grid | None, what: str, why: str) -> Grid | str:
    """The table, or the sentence that says why it is not there.

    Args:
        what: the words for the table.
        why: name of the reason in the texts.
    """
    if block is not None and block.rows:
        return block
    return TEXTS["absent"].format(what=what, why=TEXTS[why])
