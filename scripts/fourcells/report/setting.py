"""What was measured on what: settings, machine, options applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fourcells.report import data_words
from fourcells.report import numbers as n
from fourcells.report.catalogue import FACT_NAMES, LABELS, TEXTS
from fourcells.report.data import Data
from fourcells.report.grid import Column, Grid, columns, text


def written(value: object) -> str:
    """A setting in words: yes and no, numbers with their digits, lists joined, null as a dash."""
    if isinstance(value, bool):
        return LABELS["yes" if value else "no"]
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {written(v)}" for k, v in value.items()) or n.MISSING
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(written(v) for v in value) or n.MISSING
    if n.is_missing(value):
        return n.MISSING
    if isinstance(value, int):
        # no thousands mark: a seed or a year is no quantity
        return str(value)
    if isinstance(value, float):
        return n.number(value, 0 if value.is_integer() else 2)
    return str(data_words.value(value))


def facts(caption: str, values: Mapping) -> Grid:
    """A table of two columns, setting and value."""
    rows = []
    for key, value in values.items():
        words = n.date(value) if key in ("started", "ended") else written(value)
        rows.append([text(FACT_NAMES.get(key, str(key))), text(words)])
    return Grid(caption, columns("name:setting", "text:value"), rows, name="facts", table="summary")


def settings(data: Data) -> Grid:
    """What the run measured: scale, model, seed, when."""
    skip = ("missing", "versions", "applied")
    measured = {key: value for key, value in data.measured.items() if key not in skip}
    return facts(TEXTS["setting_caption"], measured)


def machine(data: Data) -> Grid:
    """Machine, commit and the versions of what ran on it."""
    known = {k: v for k, v in (data.summary.get("machine") or {}).items() if k != "applied"}
    commits = [str(c)[:12] for c in data.timings.git_commit.dropna().unique()]
    dirty = data.timings.dirty.dropna()
    known |= {"git_commit": commits, "dirty": bool(dirty.any()) if len(dirty) else None}
    return facts(TEXTS["machine_caption"], known | (data.measured.get("versions") or {}))


def applied(data: Data) -> Grid:
    """Options as the engines reported them: one row per option, one column per engine and slots.

    The summary's `applied` is looked for beside, in `machine` and in `measured`.
    """
    places = (data.summary, data.summary.get("machine") or {}, data.measured)
    by_cell = next((place["applied"] for place in places if place.get("applied")), {})
    options = dict.fromkeys(option for values in by_cell.values() for option in values)
    rows = [
        [
            text(option),
            *(text(written(values.get(option))) for values in by_cell.values()),
        ]
        for option in options
    ]
    heads = columns("name:setting") + [Column(cell, "text") for cell in by_cell]
    return Grid(TEXTS["applied_caption"], heads, rows, table="summary")
