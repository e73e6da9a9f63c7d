"""Words that the analysis writes into tables and summary, in the language being spoken.

They are English there. The catalogue's part `said` knows their sentences as templates, of which
the English ones find what a sentence says and those of the language say it again; what it does
not know is shown as it is.
"""

from __future__ import annotations

import re
from functools import cache
from string import Formatter

from fourcells.report.catalogue import Part, catalogue
from fourcells.report.numbers import in_signs, is_missing

SAID = Part("said")
# values of settings that are words and no names
VALUES = Part("values")
# What stands there as it was read, even where it looks like a number: a version, an option.
AS_READ = {"found", "usual", "was", "now", "why", "engine", "other", "workload", "key", "path"}
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?%?")


def value(word: object) -> object:
    """The value of a setting: 'none' and its like in the language, all else as it is."""
    return VALUES.get(word, word) if isinstance(word, str) else word


def said(words: object) -> object:
    """A sentence of the analysis in the language being spoken; several joined by '; ' each."""
    if is_missing(words) or not isinstance(words, str):
        return words
    found = match(words)
    if found:
        key, values = found
        return SAID[key].format(**{name: _spoken(name, text) for name, text in values.items()})
    return "; ".join(map(said, words.split("; "))) if "; " in words else words


def known(words: str) -> bool:
    """Whether the catalogue knows a sentence, or each of several joined by '; '."""
    return all(match(part) for part in ([words] if match(words) else words.split("; ")))


def match(words: str) -> tuple[str, dict[str, str]] | None:
    """(key of its template, what its placeholders hold) of a sentence, the first that fits."""
    for key, pattern in _patterns():
        found = pattern.fullmatch(words)
        if found:
            return key, found.groupdict()
    return None


def _spoken(name: str, text: str) -> str:
    if name in AS_READ:
        return text
    return in_signs(text) if _NUMBER.fullmatch(text) else said(text)


@cache
def _patterns() -> list[tuple[str, re.Pattern]]:
    """(key, pattern) of every template, in the order of the English file: the special before the
    general."""
    return [(key, _pattern(template)) for key, template in catalogue("en")["said"].items()]


def _pattern(template: str) -> re.Pattern:
    parts = []
    for literal, name, _, _ in Formatter().parse(template):
        # no placeholder reaches over the sign that joins sentences
        parts += [re.escape(literal), f"(?P<{name}>(?:(?!; ).)+?)" if name else ""]
    return re.compile("".join(parts), re.DOTALL)
