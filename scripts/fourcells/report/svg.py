"""A matplotlib figure as inline SVG: selectable text, no namespaces, ids that cannot clash.

Its colours are those of the light page. `dark_rules` turns them for the dark one by style rules,
so that the same SVG can also stand alone.
"""

from __future__ import annotations

import colorsys
import io
import re
import warnings
from collections.abc import Callable
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from fourcells.report.catalogue import language
from fourcells.report.names import isolated

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
# Colours of the figures that the page has too, by their variable in the style sheet.
PAGE_COLOURS = {
    "#000000": "--ink",
    "#1f2933": "--ink",
    "#374151": "--ink",
    "#4b5563": "--soft",
    "#e5e7eb": "--grid",
    "#ffffff": "--paper",
}
# Lightness that white and black turn into on the dark page.
DARKEST, LIGHTEST = 0.1, 0.92
# Attributes that hold lengths, in points: two digits are a fiftieth of a pixel.
LENGTHS = {"x", "y", "x1", "x2", "y1", "y2", "width", "height", "points", "transform", "viewBox"}
# The groups that mark an axis keep their ids, so that a reader of the HTML can tell them.
TICK = re.compile(r"[xy]tick_\d+$")


def draw(name: str, label: str, make: Callable[[], Figure]) -> Markup:
    """Make a figure and return its SVG element.

    Args:
        name: put before every id of the figure, behind the language, so that several figures in
            several languages share a page.
        label: what the picture shows, read aloud in its place.
        make: returns the figure; called under `SETTINGS`.
    """
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        # a sign may have no glyph here, or be of a script that matplotlib cannot set; the browser
        # draws the text, so it needs neither
        warnings.filterwarnings("ignore", message=".*([Gg]lyph|does not support).*")
        figure = make()
        FigureCanvasSVG(figure)
        buffer = io.StringIO()
        figure.savefig(
            buffer, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None}
        )
    return Markup(clean(buffer.getvalue(), f"{language()}-{name}", label))


def clean(source: str, name: str, label: str) -> str:
    """The SVG element of a matplotlib document, ready to stand inside HTML.

    Matplotlib's style element would reach the whole page, the page's policy forbids style
    attributes, its ids repeat in every figure, and its namespaces are addresses that HTML does not
    need. The tree is changed, not the text: a name in the picture may look like an attribute.
    """
    root = ElementTree.fromstring(source)
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = {_local(key): value for key, value in element.attrib.items()}
        attributes |= _declared(attributes.pop("style", ""))
        element.attrib.clear()
        element.attrib.update({k: _written(k, v, name) for k, v in attributes.items()})
        if element.tag == "text":
            element.attrib.setdefault("fill", SETTINGS["text.color"])
            element.text = isolated(element.text or "")
        else:
            # line breaks between elements
            element.text = None
        element.tail = None
    _drop_idle_ids(root)
    for key in ("version", "height"):
        root.attrib.pop(key, None)
    # one user unit is a point; the page may shrink the picture but never blows it up
    width = float(root.get("viewBox").split()[2])
    root.attrib.update({"role": "img", "aria-label": label, "width": f"{width:.0f}pt"})
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _declared(style: str) -> dict[str, str]:
    """The declarations of a style attribute as attributes. Of the font, size and weight: the page's
    own family is used."""
    pairs = (part.partition(":") for part in style.split(";"))
    declared = {key.strip(): value.strip() for key, _, value in pairs if value}
    declared.pop("font-family", None)
    font = declared.pop("font", "")  # matplotlib before 3.11 writes all in one
    if size := re.search(r"[\d.]+px", font):
        declared["font-size"] = size[0]
    if re.search(r"\b(bold|600|700)\b", font):
        declared["font-weight"] = "700"
    return declared


def _written(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href" and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    if key == "d":
        return _path(value)
    if key in LENGTHS and "scale" not in value:
        return re.sub(r"-?\d+\.\d+", lambda number: _short(number[0]), value)
    return re.sub(r"url\(#", f"url(#{name}-", value)


def _path(path: str) -> str:
    """The same path in short numbers, with H and V along an axis: that halves a staircase."""
    made, x, y = [], None, None
    for command, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        at = [_short(number) for number in numbers.split()]
        if command == "L" and at[0] == x:
            made.append(f"V{at[1]}")
        elif command == "L" and at[1] == y:
            made.append(f"H{at[0]}")
        else:
            made.append(command + " ".join(at))
        if at:
            x, y = at[-2:]
    return "".join(made)


def _short(number: str) -> str:
    return f"{float(number):.2f}".rstrip("0").rstrip(".")


def _drop_idle_ids(root: ElementTree.Element) -> None:
    """Take away the ids that nothing refers to: they are most of them."""
    used = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "href":
                used.add(value[1:])
            used.update(re.findall(r"url\(#([^)]+)\)", value))
    for element in root.iter():
        name = element.get("id", "")
        if name not in used and not TICK.search(name):
            element.attrib.pop("id", None)


def dark_rules(page: str) -> str:
    """Style rules that turn every colour of the page's figures for a dark page.

    Args:
        page: HTML with figures made by `draw`.
    """
    colours = sorted(set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', page)))
    return "\n".join(
        f'figure svg [{key}="{colour}"] {{ {key}: {dark(colour)} }}'
        for colour in colours
        for key in ("fill", "stroke")
        if f'{key}="{colour}"' in page
    )


def dark(colour: str) -> str:
    """A colour for the dark page, '#rrggbb' or a variable: one of the page's own, else the same hue
    with its lightness turned round. Pale bars get dark and keep light words readable; dark lines
    get light."""
    if colour in PAGE_COLOURS:
        return f"var({PAGE_COLOURS[colour]})"
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    turned = LIGHTEST - (LIGHTEST - DARKEST) * lightness
    rgb = colorsys.hls_to_rgb(hue, turned, saturation)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)
