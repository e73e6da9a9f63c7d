"""Reads a page back: its words by place, its tables and its downloads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr", "col"}
# Elements that stand inside a sentence.
INLINE = {"a", "span", "bdi", "b", "strong", "i", "em", "small", "sup", "sub", "abbr", "button"}
INLINE |= {"code", "time"}
# What is no text of the page.
SILENT = {"style", "script"}
# Groups of a figure that hold the marks of an axis.
TICK = re.compile(r"[xy]tick_\d+$")


@dataclass
class Node:
    """An element: its children are nodes and texts in order."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list = field(default_factory=list)

    def all(self, *tags: str) -> Iterator[Node]:
        """Every element below this one with one of the tags, in reading order."""
        for child in self.children:
            if isinstance(child, Node):
                if child.tag in tags:
                    yield child
                yield from child.all(*tags)

    def text(self) -> str:
        """All text below this element, spaces as one."""
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            elif child.tag not in SILENT:
                yield from child._texts()


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Node("page")]

    def handle_starttag(self, tag, attributes):
        node = Node(tag, {key: value or "" for key, value in attributes})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag, attributes):
        self.open[-1].children.append(Node(tag, {k: v or "" for k, v in attributes}))

    def handle_endtag(self, tag):
        if any(node.tag == tag for node in self.open[1:]):
            while self.open.pop().tag != tag:
                pass

    def handle_data(self, data):
        self.open[-1].children.append(data)


def parse(source: str) -> Node:
    """The page's elements."""
    builder = _Builder()
    builder.feed(source)
    return builder.open[0]


@dataclass(frozen=True)
class Words:
    """A piece of text: where it stands and what kind of piece it is."""

    language: str
    section: str
    kind: str  # p, li, caption, heading, cell, alt, figure, tick, pre, ...
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.language}: {self.section}: {self.place}"


@dataclass(frozen=True)
class Cell:
    """A written cell and the exact number behind it."""

    text: str
    value: float | None


@dataclass(frozen=True)
class Table:
    """A table of the page; a row is a cell per heading, by the heading."""

    language: str
    section: str
    caption: str
    headings: list[str]
    rows: list[dict[str, Cell]]


@dataclass
class Page:
    """All words, tables and downloads (file name -> address) of a page."""

    words: list[Words] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    downloads: dict[str, str] = field(default_factory=dict)

    def table(self, language: str, caption: str) -> Table:
        """The only table of a language whose caption starts so."""
        found = [
            table
            for table in self.tables
            if table.language == language and table.caption.startswith(caption)
        ]
        assert len(found) == 1, (language, caption, [table.caption for table in self.tables])
        return found[0]


def read(source: str) -> Page:
    """The page of an HTML document."""
    page = Page()
    _read(parse(source), page, "en", "page", "page")
    return page


def _read(node: Node, page: Page, language: str, section: str, place: str) -> None:
    """Collect what is below an element; `place` names the last thing with a name above it."""
    language = node.attributes.get("lang") or language
    name = node.attributes.get("id", "").removeprefix(f"{language}-")
    if node.tag in ("section", "header", "nav", "footer", "main"):
        section = place = name or node.tag
    elif "notice" in node.attributes.get("class", "").split():
        section = place = "notice"
    elif node.tag == "figure":
        place = name
    elif node.tag == "table":
        place = next((caption.text() for caption in node.all("caption")), "table")
        table = _table(node, language, section, place)
        page.tables.append(table)
        page.words += _words_of(table)
        return
    elif node.tag == "a" and "download" in node.attributes:
        page.downloads[node.attributes["download"]] = node.attributes.get("href", "")

    def add(kind: str, text: str, where: str = place) -> None:
        if text := " ".join(text.split()):
            page.words.append(Words(language, section, kind, where, text))

    for key in ("aria-label", "title", "alt"):
        add("alt", node.attributes.get(key, ""), f"{place}, {key} of {node.tag}")
    if node.tag == "svg":
        _figure(node, add, place, tick=False)
        return
    run = ""
    for child in node.children:
        if isinstance(child, str):
            run += child
        elif child.tag in INLINE and child.attributes.get("lang", language) == language:
            run += child.text()
            _downloads(child, page)
        elif child.tag not in SILENT:
            add(_kind(node), run, f"{place}, {node.tag}")
            run = ""
            _read(child, page, language, section, place)
    add(_kind(node), run, f"{place}, {node.tag}")


def _downloads(node: Node, page: Page) -> None:
    for link in (node, *node.all("a")):
        if link.tag == "a" and "download" in link.attributes:
            page.downloads[link.attributes["download"]] = link.attributes.get("href", "")


def _kind(node: Node) -> str:
    return "eyebrow" if node.attributes.get("class") == "eyebrow" else node.tag


def _figure(node: Node, add, place: str, tick: bool) -> None:
    """The texts of a picture; those that mark an axis apart."""
    tick = tick or bool(TICK.search(node.attributes.get("id", "")))
    if node.tag == "text":
        add("tick" if tick else "figure", node.text(), f"{place}, picture")
        return
    for child in node.children:
        if isinstance(child, Node):
            _figure(child, add, place, tick)


def _table(node: Node, language: str, section: str, caption: str) -> Table:
    headings = [head.text() for row in node.all("thead") for head in row.all("th", "td")]
    rows = []
    for body in node.all("tbody"):
        for row in body.all("tr"):
            cells = [_cell(cell) for cell in row.all("th", "td")]
            assert len(cells) == len(headings), (caption, cells)
            rows.append(dict(zip(headings, cells, strict=True)))
    assert len(set(headings)) == len(headings), (caption, headings)
    return Table(language, section, caption, headings, rows)


def _words_of(table: Table) -> Iterator[Words]:
    def words(kind: str, place: str, text: str) -> Words:
        return Words(table.language, table.section, kind, place, text)

    yield words("caption", f"{table.caption}, caption", table.caption)
    for heading in table.headings:
        yield words("heading", f"{table.caption}, heading", heading)
    for row in table.rows:
        name = row[table.headings[0]].text
        for heading, cell in row.items():
            yield words("cell", f"{table.caption}, {name}, {heading}", cell.text)


def _cell(node: Node) -> Cell:
    value = node.attributes.get("data-value")
    return Cell(node.text(), None if value is None else float(value))
