"""The page's figures as SVG files that stand alone, and their captions as reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from fourcells.report.blocks import Details, Figure, Section

SVG = "http://www.w3.org/2000/svg"
# The figures are drawn for the light page.
PAPER = "#ffffff"


def figures(sections: Iterable[Section]) -> list[Figure]:
    """All figures of the sections in reading order, those that are folded away included.

    Raises:
        ValueError: two of them have one name.
    """
    found = [figure for section in sections for figure in _within(section.blocks)]
    names = [figure.name for figure in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"figures of the same name: {', '.join(twice)}")
    return found


def _within(blocks: Iterable) -> Iterator[Figure]:
    for block in blocks:
        if isinstance(block, Figure):
            yield block
        elif isinstance(block, Details):
            yield from _within(block.blocks)


def document(figure: Figure) -> str:
    """The figure as a whole SVG document: its caption as title, on white, in points."""
    root = ElementTree.fromstring(figure.svg)
    x, y, width, height = root.get("viewBox").split()
    root.attrib.update({"xmlns": SVG, "width": f"{width}pt", "height": f"{height}pt"})
    root.set("font-family", "sans-serif")
    title = ElementTree.Element("title")
    title.text = figure.caption
    paper = {"x": x, "y": y, "width": width, "height": height, "fill": PAPER}
    root[:0] = [title, ElementTree.Element("rect", paper)]
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def caption(figure: Figure) -> str:
    """The caption as reStructuredText, in which no sign of it is markup."""
    return re.sub(r"([^\w\s]|_)", r"\\\1", figure.caption) + "\n"
