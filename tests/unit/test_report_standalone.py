"""Figures as files of their own: whole SVG documents, captions as reStructuredText."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from docutils.core import publish_parts
from markupsafe import Markup

from fourcells.report.blocks import Details, Figure, Section
from fourcells.report.standalone import caption, document, figures

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = Markup(
    '<svg viewBox="0 -5 70.5 20" width="71pt"><text fill="#1f2933">a &amp; b</text></svg>'
)
# Each would be markup in a caption.
SIGNS = "*a* **b** `c` _d_ |e| f_ [1]_ 1. g:: \\h http://i.j – 95 % <b> k: l"


def figure(name: str, words: str = "c") -> Figure:
    return Figure(name, DRAWN, words)


def test_figures_come_in_reading_order_the_folded_ones_too():
    folded = Details("more", ["words", figure("b"), Details("still more", [figure("c")])])
    sections = [Section("one", "One", blocks=[figure("a"), folded]),
                Section("two", "Two", blocks=[figure("d")])]  # fmt: skip
    assert [each.name for each in figures(sections)] == ["a", "b", "c", "d"]


def test_two_figures_of_one_name_would_be_one_file():
    with pytest.raises(ValueError, match="same name: a"):
        figures([Section("one", "One", blocks=[figure("a"), figure("a")])])


def test_a_document_stands_alone():
    root = ElementTree.fromstring(document(figure("a", "x < y & z")))
    title, paper, text = root
    assert root.tag == f"{SVG}svg" and (root.get("width"), root.get("height")) == ("70.5pt", "20pt")
    assert (title.tag, title.text) == (f"{SVG}title", "x < y & z")
    assert paper.attrib == {"x": "0", "y": "-5", "width": "70.5", "height": "20", "fill": "#ffffff"}
    assert text.text == "a & b"


def test_no_sign_of_a_caption_is_markup():
    parts = publish_parts(caption(figure("a", SIGNS)), writer="docutils_xml")
    (paragraph,) = ElementTree.fromstring(parts["whole"])
    assert paragraph.tag == "paragraph" and len(paragraph) == 0
    assert paragraph.text == SIGNS
