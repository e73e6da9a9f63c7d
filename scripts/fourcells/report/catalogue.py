"""Every text of the page, by language: the folder `text/LANGUAGE/`, files of several parts each.

A part (`TEXTS`, `LABELS`, ...) is looked up in the language that is being spoken, so that the code
that makes the page names texts and never a language:

    with speaking("vi"):
        TEXTS["answer"]

A new language is a new folder with the same files and keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent / "text"
LANGUAGES = ("en", "vi")

_spoken: ContextVar[str] = ContextVar("language", default="en")


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Inside, all parts are in this language.

    Raises:
        KeyError: there is no such language.
    """
    catalogue(language)
    token = _spoken.set(language)
    try:
        yield
    finally:
        _spoken.reset(token)


def language() -> str:
    """The language that is being spoken."""
    return _spoken.get()


@cache
def catalogue(language: str) -> dict[str, dict]:
    """part -> key -> text of one language, from all its files.

    Raises:
        KeyError: there is no such language.
        ValueError: a key stands twice.
    """
    if language not in LANGUAGES:
        raise KeyError(f"language: {language!r} is not one of: {', '.join(LANGUAGES)}")
    parts: dict[str, dict] = {}
    for file in sorted((FOLDER / language).glob("*.yaml")):
        for part, texts in yaml.safe_load(file.read_text(encoding="utf-8")).items():
            known = parts.setdefault(part, {})
            twice = known.keys() & texts.keys()
            if twice:
                raise ValueError(f"{file.name}: {part}: a second time: {', '.join(sorted(twice))}")
            known.update(texts)
    return parts


class Part(Mapping):
    """One part of the catalogue, in the language that is being spoken."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, key: str) -> str:
        return catalogue(language())[self._name][key]

    def __iter__(self) -> Iterator[str]:
        return iter(catalogue(language())[self._name])

    def __len__(self) -> int:
        return len(catalogue(language())[self._name])


# sentences, headings, captions
TEXTS = Part("texts")
# headings of columns, and other short words of tables
LABELS = Part("labels")
# key -> {word, meaning}
GLOSSARY = Part("glossary")
# what ratios are called, by the start of their name
RATIO_NAMES = Part("ratio_names")
# what the witness watches
SOURCES = Part("sources")
# settings, facts of the machine and options
FACT_NAMES = Part("fact_names")
# ways from a baseline to an engine, and their factors
PATHS = Part("paths")
FACTORS = Part("factors")
# what a set of cells varies, in a sentence and above a panel
KINDS = Part("kinds")
KIND_TITLES = Part("kind_titles")
ADMISSIONS = Part("admissions")
# rules of reservation, from the most reserved to the least
RULES = Part("rules")
# quantities of the KV arithmetic
KV_NAMES = Part("kv_names")
# what separates digits: decimal, group
DIGITS = Part("digits")
