"""What a section of the page is made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from markupsafe import Markup

from fourcells.report.grid import Grid
from fourcells.report.texts import EN


@dataclass(frozen=True)
class Figure:
    """A drawn figure: `name` is its anchor."""

    name: str
    svg: Markup
    caption: str


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
class Section:
    """One section. `blocks` are blocks of this module, grids and plain paragraphs (str), in
    reading order."""

    name: str
    head: str
    lesson: str = ""
    intro: str = ""
    blocks: list = field(default_factory=list)


KINDS = {"grid": Grid, "figure": Figure, "commands": Commands, "listing": Listing}
KINDS["details"] = Details


def or_reason(block: Grid | None, what: str, why: str) -> Grid | str:
    """The table, or the sentence that says why it is not there.

    Args:
        what: the words for the table.
        why: name of the reason in the texts.
    """
    if block is not None and block.rows:
        return block
    return EN["absent"].format(what=what, why=EN[why])
