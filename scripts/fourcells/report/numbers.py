"""How every number of the page is written: one place, so that one value never has two spellings.

Digits are grouped and divided as the language does that is being spoken.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

from fourcells.report.catalogue import DIGITS, TEXTS

MISSING = "\u2013"  # en dash: nothing was measured or computed here
MINUS = "\u2212"


def is_missing(value: object) -> bool:
    """Whether a value is null (None, NaN, NaT, pandas.NA, infinity, no text). The word "none" is
    text: graphs may be none, and an engine may be called so."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    try:
        return not math.isfinite(value)
    except TypeError:
        # pandas.NA and NaT are no numbers, and neither equals itself
        return type(value).__name__ in ("NAType", "NaTType")


def number(value: object, digits: int = 1, sign: bool = False) -> str:
    """1262.5 -> '1,262.5'; a negative number gets a true minus sign; null -> en dash."""
    if is_missing(value):
        return MISSING
    text = f"{float(value):+,.{digits}f}" if sign else f"{float(value):,.{digits}f}"
    if not any(c in "123456789" for c in text):
        text = text.lstrip("+-")  # never "-0.0"
    return in_signs(text).replace("-", MINUS)


def in_signs(text: str) -> str:
    """Digits as Python writes them, in the signs of the language: '1,262.5' -> '1.262,5'."""
    return text.translate(str.maketrans({".": DIGITS["decimal"], ",": DIGITS["group"]}))


def tick(value: float) -> str:
    """A number on an axis, with the digits it needs: 0.5 -> '0.5', 2000.0 -> '2,000'."""
    return in_signs(f"{value:,g}").replace("-", MINUS)


def integer(value: object) -> str:
    """11776 -> '11,776'."""
    return number(value, 0)


def rate(value: object) -> str:
    """Tokens per second: 1262.5 -> '1,262.5'."""
    return number(value, 1)


def ratio(value: object) -> str:
    """2.981 -> '2.98x'; what two digits cannot hold, as '4.1e-05x'."""
    if is_missing(value):
        return MISSING
    if float(value) and not 0.01 <= abs(float(value)) < 1e6:
        return in_signs(f"{float(value):.1e}x".replace("e+0", "e").replace("e+", "e"))
    return number(value, 2) + "x"


def percent(value: object, sign: bool = False) -> str:
    """A share as percent: 0.641 -> '64.1 %'."""
    return MISSING if is_missing(value) else number(100 * float(value), 1, sign) + " %"


def seconds(value: object) -> str:
    """Seconds, with a third digit below a tenth: 16.38 -> '16.38', 0.0213 -> '0.021'."""
    if is_missing(value):
        return MISSING
    return number(value, 3 if abs(float(value)) < 0.1 and float(value) != 0 else 2)


def cpu_seconds(value: object) -> str:
    """Seconds as the kernel counts them, in hundredths: 0.01 -> '0.01'."""
    return number(value, 2)


def fine_seconds(value: object) -> str:
    """Seconds of something very short: 0.0034 -> '0.0034'."""
    return number(value, 4)


def size(value: object) -> str:
    """Bytes in the largest binary unit that leaves at least 1: 28672 -> '28.00 KiB'."""
    if is_missing(value):
        return MISSING
    amount = float(value)
    if abs(amount) < 1024:
        return TEXTS["bytes"].format(n=number(amount, 0))
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if abs(amount) < 1024 or unit == "GiB":
            return f"{number(amount, 2)} {unit}"
    raise AssertionError("unreachable")


def date(value: object) -> str:
    """An ISO time of any zone as '2026-11-29 14:00:00 UTC'; what is no time stays as it is."""
    if is_missing(value):
        return MISSING
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        return str(value)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def with_unit(value: object, unit: object) -> str:
    """A value by its unit: bytes as KiB or GiB, factors as ratios, counts without fraction."""
    if is_missing(value):
        return MISSING
    unit = "" if is_missing(unit) else str(unit)
    if isinstance(value, str):
        return value
    if unit.startswith(("byte", "B/")) or unit == "B":
        return size(value)
    if unit in ("x", "factor", "ratio"):
        return ratio(value)
    if unit in ("KiB", "MiB", "GiB"):
        return f"{number(value, 2)} {unit}"
    whole = float(value).is_integer()
    return number(value, 0 if whole or abs(float(value)) >= 1000 else 2)
