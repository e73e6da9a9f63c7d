"""Numbers as they stand on the page, and values as they would stand there.

A number is read in the form of its language and written down in one plain form ('1.262,5' ->
'1262.5', '2,98x' -> '2.98x'), in which the values of the tables are written too.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache

# What separates the digits of a number: decimals, thousands.
SIGNS = {"en": (".", ","), "vi": (",", ".")}
MINUS = "\u2212"
# Stands before the plain form of a number whose thousands are not set apart.
UNGROUPED = "ungrouped "


@dataclass(frozen=True)
class Token:
    """A number of a text: as it stands there, and in the plain form."""

    shown: str
    plain: str


def tokens(text: str, language: str) -> list[Token]:
    """Every number in a text that is in the form of the language.

    What is not ('1,262.5' in Vietnamese) falls into pieces, of which the values know nothing.
    """
    return [_token(found, language) for found in _pattern(language).finditer(text)]


@cache
def _pattern(language: str) -> re.Pattern:
    decimal, group = map(re.escape, SIGNS[language])
    number = rf"(?:\d{{1,3}}(?:{group}\d{{3}})+|\d+)(?:{decimal}\d+)?(?:e[+-]?\d+)?"
    unit = r"(?:\s?%|x(?!\w)|\s(?:KiB|MiB|GiB)\b)?"
    # a sign belongs to the number unless it joins two of them
    return re.compile(rf"(?P<sign>(?<![\w)\]%])[-{MINUS}])?(?P<number>{number})(?P<unit>{unit})")


def _token(found: re.Match, language: str) -> Token:
    decimal, group = SIGNS[language]
    number = found["number"].replace(group, "").replace(decimal, ".")
    sign = "-" if found["sign"] and number.strip("0.") else ""
    ungrouped = UNGROUPED if re.match(r"\d{4}", found["number"]) else ""
    return Token(found[0], ungrouped + sign + number + found["unit"].strip())


def number_in(text: str, language: str) -> int:
    """The last whole number in a text: '16 slots' -> 16."""
    return int(re.search(r"\d+", tokens(text, language)[-1].plain)[0])


# The plain forms of a value, by its kind: how `report/numbers.py` and the sentences write it.


def plain(kind: str, value: float | str) -> set[str]:
    """Every plain form in which a value of a kind may stand on the page; what is taken from a text
    of the tables, kind 'as written', is in that form already."""
    if kind == "as written":
        return {value}
    made = _FORMS[kind](float(value))
    return {form.removeprefix("-") if not re.search("[1-9]", form) else form for form in made}


def _ratio(value: float) -> set[str]:
    if value and not 0.01 <= abs(value) < 1e6:
        return {f"{value:.1e}x".replace("e+0", "e").replace("e+", "e")}
    return {f"{value:.2f}x"}


def _bare_ratio(value: float) -> set[str]:
    if value >= 1e6 or value < 0.01:
        return {f"{value:.1e}"}
    return {f"{value:.0f}" if value >= 100 else f"{value:.2f}"}


def _seconds(value: float) -> set[str]:
    return {f"{value:.3f}" if 0 < abs(value) < 0.1 else f"{value:.2f}"}


def _bytes(value: float) -> set[str]:
    if abs(value) < 1024:
        return {f"{value:.0f}"}
    power = min(int(math.log(abs(value), 1024)), 3)
    return {f"{value / 1024**power:.2f}{['', 'KiB', 'MiB', 'GiB'][power]}"}


def _quantity(value: float) -> set[str]:
    return {f"{value:.0f}" if value.is_integer() or abs(value) >= 1000 else f"{value:.2f}"}


def _general(value: float) -> set[str]:
    """A setting or a number of a formula: as Python writes it."""
    return {(UNGROUPED if abs(value) >= 1000 else "") + f"{value:.15g}"}


def _mean_count(value: float) -> set[str]:
    return {f"{value:.0f}" if value.is_integer() else f"{value:.1f}"}


_FORMS = {
    "count": lambda value: {f"{value:.0f}"},
    "mean count": _mean_count,
    "rate": lambda value: {f"{value:.1f}"},
    "ratio": _ratio,
    "bare ratio": _bare_ratio,
    "share": lambda value: {f"{100 * value:.1f}%"},
    "whole ratio": lambda value: {f"{value:.0f}x"},
    "whole share": lambda value: {f"{100 * value:.0f}%"},
    "seconds": _seconds,
    "hundredths": lambda value: {f"{value:.2f}"},
    "thousandths": lambda value: {f"{value:.3f}"},
    "fine": lambda value: {f"{value:.4f}"},
    "bytes": _bytes,
    "quantity": _quantity,
    "general": _general,
}
