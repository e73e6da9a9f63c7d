"""A matplotlib figure as inline SVG: selectable text, no namespaces, ids that cannot clash."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

SETTINGS = {
    "svg.fonttype": "none",  # text stays text: it can be selected, searched and read aloud
    "svg.hashsalt": "fourcells",  # the same data gives the same bytes
    "text.parse_math": False,  # a config name may hold dollar signs
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#6b7280",
    "axes.labelcolor": "#1f2933",
    "text.color": "#1f2933",
    "xtick.color": "#4b5563",
    "ytick.color": "#4b5563",
    "grid.color": "#e5e7eb",
    "axes.axisbelow": True,
    "legend.frameon": False,
}


def draw(name: str, label: str, make: Callable[[], Figure]) -> Markup:
    """Make a figure and return its SVG element.

    Args:
        name: put before every id of the figure, so that several figures share a page.
        label: what the picture shows, read aloud in its place.
        make: returns the figure; called under `SETTINGS`.
    """
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        # an emoji in a name has no glyph here; the browser draws the text, so it needs none
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        figure = make()
        FigureCanvasSVG(figure)
        buffer = io.StringIO()
        figure.savefig(
            buffer, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None}
        )
    return Markup(clean(buffer.getvalue(), name, label))


def clean(source: str, name: str, label: str) -> str:
    """The SVG element of a matplotlib document, ready to stand inside HTML.

    Matplotlib's style element would reach the whole page, its ids repeat in every figure, and its
    namespaces are addresses that HTML does not need. The tree is changed, not the text: a name in
    the picture may look like an attribute.
    """
    root = ElementTree.fromstring(source)
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = {_local(key): value for key, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update({k: _renamed(k, v, name) for k, v in attributes.items()})
        if element.tag == "text":
            element.set("style", re.sub(r"font:[^;]*px[^;]*;?", _font, element.get("style", "")))
    for key in ("version", "width", "height"):
        root.attrib.pop(key, None)
    width = float(root.get("viewBox").split()[2])
    # one user unit is a point; the page may shrink the picture but never blows it up
    root.attrib.update({"role": "img", "aria-label": label, "style": f"max-width:{width:.0f}pt"})
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _renamed(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href" and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return re.sub(r"url\(#", f"url(#{name}-", value)


def _font(match: re.Match) -> str:
    """Keep size and weight, drop the family: the page's own font is used."""
    found = re.search(r"([\d.]+px)", match[0])
    weight = "font-weight:bold;" if re.search(r"\b(bold|700|600)\b", match[0]) else ""
    return f"font-size:{found[1]};{weight}" if found else ""
