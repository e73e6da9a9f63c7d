"""Put the page together: both languages, each with answer, notices and sections; the files."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jinja2
from markupsafe import Markup

from fourcells.analysis import commands
from fourcells.report import answer, limits_said, names, numbers, published_notice, timings
from fourcells.report.banner import banner
from fourcells.report.blocks import KINDS
from fourcells.report.catalogue import GLOSSARY, LANGUAGES, TEXTS, catalogue, speaking
from fourcells.report.data import Data
from fourcells.report.downloads import Download
from fourcells.report.notices import notices
from fourcells.report.sections import sections
from fourcells.report.svg import dark_rules

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Body:
    """What the document holds in one language. `prefix` stands before its ids: none before those of
    the language that was asked for. `sizes` are those of the files, written out, by table."""

    language: str
    prefix: str
    html: Markup
    texts: dict[str, str]
    sizes: dict[str, str]

    @property
    def role(self) -> str:
        """Its class: shown at first or not."""
        return "other" if self.prefix else "asked"


def render(data: Data, language: str = "en", files: Sequence[Download] = ()) -> str:
    """The whole page as HTML.

    Args:
        language: the one that is shown at first; the others are there to switch to.
        files: to be had from the page.

    Raises:
        KeyError: there is no such language.
    """
    environment = _environment()
    spoken = [language, *(each for each in LANGUAGES if each != language)]
    bodies = [_body(environment, data, each, language, files) for each in spoken]
    style = _read("style.css") + _dark_figures("".join(body.html for body in bodies))
    script = _read("script.js")
    return environment.get_template("template.html.j2").render(
        bodies=bodies,
        files=files,
        style=Markup(style),
        script=Markup(script),
        hashes={"style": _hash(style), "script": _hash(script)},
    )


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    for name, kind in KINDS.items():
        environment.tests[name] = partial(_is, kind)
    environment.filters["marked"] = names.marked
    environment.filters["breakable"] = names.breakable
    return environment


def _body(
    environment: jinja2.Environment,
    data: Data,
    language: str,
    asked: str,
    files: Sequence[Download],
) -> Body:
    prefix = "" if language == asked else f"{language}-"
    with speaking(language):
        made = sections(data)
        heads = {"answer": TEXTS["answer"], **{section.name: section.head for section in made}}
        heads |= {name: TEXTS[f"{name}_head"] for name in ("reproduce", "glossary")}
        html = environment.get_template("body.html.j2").render(
            t=TEXTS,
            spoken=language,
            pre=prefix,
            role="other" if prefix else "asked",
            languages={each: catalogue(each)["texts"]["language_name"] for each in LANGUAGES},
            answer=answer.sentences(data),
            banner=banner(data),
            notices=[*published_notice.notices(data), *limits_said.limits(data), *notices(data)],
            heads=heads,
            sections=made,
            glossary=list(GLOSSARY.values()),
            files={file.table: file for file in files},
            size=numbers.size,
            commands={
                "all": commands.MEASURE,
                "one": f"{commands.AGAIN} results/timings/ENGINE/WORKLOAD/slotsN/R.parquet",
                "again": timings.again_commands(data),
            },
        )
        sizes = {file.table: numbers.size(file.size) for file in files}
        return Body(language, prefix, Markup(html), dict(TEXTS), sizes)


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _dark_figures(html: str) -> str:
    return f"@media screen and (prefers-color-scheme: dark) {{\n{dark_rules(html)}\n}}\n"


def _hash(text: str) -> str:
    """What the content policy calls a style or a script by."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _is(kind: type, block: object) -> bool:
    return isinstance(block, kind)
