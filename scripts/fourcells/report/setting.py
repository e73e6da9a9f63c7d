"""What was measured on what: settings, machine, options applied, every timing, the commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import pandas as pd

from fourcells.report import numbers as n
from fourcells.report.data import Data
from fourcells.report.grid import Cell, Column, Grid, columns, drop, figure, text
from fourcells.report.texts import EN
from fourcells.report.words import FACT_NAMES, LABELS

MEASURE = "snakemake -j1 --use-conda"
AGAIN = f"{MEASURE} --forcerun"
PATTERN = f"{AGAIN} results/timings/ENGINE/WORKLOAD/slotsN/R.parquet"


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
    return str(value)


def facts(caption: str, values: Mapping) -> Grid:
    """A table of two columns, setting and value."""
    rows = []
    for key, value in values.items():
        words = n.date(value) if key in ("started", "ended") else written(value)
        rows.append([text(FACT_NAMES.get(key, str(key).replace("_", " "))), text(words)])
    return Grid(caption, columns("name:setting", "text:value"), rows, name="facts")


def settings(data: Data) -> Grid:
    """What the run measured: scale, model, seed, when."""
    skip = ("missing", "versions", "applied")
    measured = {key: value for key, value in data.measured.items() if key not in skip}
    return facts(EN["setting_caption"], measured)


def machine(data: Data) -> Grid:
    """Machine, commit and the versions of what ran on it."""
    known = {k: v for k, v in (data.summary.get("machine") or {}).items() if k != "applied"}
    commits = [str(c)[:12] for c in data.timings.git_commit.dropna().unique()]
    dirty = data.timings.dirty.dropna()
    known |= {"git_commit": commits, "dirty": bool(dirty.any()) if len(dirty) else None}
    return facts(EN["machine_caption"], known | (data.measured.get("versions") or {}))


def applied(data: Data) -> Grid:
    """Options as the engines reported them: one row per option, one column per engine and slots.

    The summary's `applied` is looked for beside, in `machine` and in `measured`.
    """
    places = (data.summary, data.summary.get("machine") or {}, data.measured)
    by_cell = next((place["applied"] for place in places if place.get("applied")), {})
    options = dict.fromkeys(option for values in by_cell.values() for option in values)
    rows = [
        [
            text(FACT_NAMES.get(option, option.replace("_", " "))),
            *(text(written(values.get(option))) for values in by_cell.values()),
        ]
        for option in options
    ]
    heads = columns("name:setting") + [Column(cell, "text") for cell in by_cell]
    return Grid(EN["applied_caption"], heads, rows)


def ordered(data: Data) -> pd.DataFrame:
    """The timings in the order they ran."""
    frame = data.timings
    moments = pd.to_datetime(frame.started, utc=True, errors="coerce", format="ISO8601")
    return frame.assign(moment=moments).sort_values(["moment", "sample"], kind="stable")


def timings(data: Data) -> Grid:
    """Every window in the order it ran, its verdict beside it."""
    rows = []
    for order, row in enumerate(ordered(data).itertuples(), start=1):
        commit = text(row.git_commit).text[:10] + (" *" if row.dirty is True else "")
        rows.append(
            [
                Cell(str(order)),
                text(n.date(row.started).removesuffix(" UTC")),
                text(row.engine),
                text(row.workload),
                figure(row.slots, n.integer),
                figure(row.repeat, n.integer),
                figure(row.sample, n.integer),
                figure(row.window_s, n.seconds),
                figure(row.tok_s, n.rate),
                text(", ".join(verdicts(row.verdict))),
                figure(row.load_s, n.seconds),
                figure(row.warmup_s, n.seconds),
                figure(row.attempt, n.integer),
                text(commit),
            ]
        )
    heads = columns("name:order", "text:started", "text:engine", "text:workload", "slots")
    heads += columns("repeat", "sample", "window_s", "tok_s", "text:verdict", "load_s")
    heads += columns("warmup_s", "attempt", "text:commit")
    grid = Grid(EN["timings_caption"], heads, rows, EN["timings_note"], "timings")
    one_sample = data.timings["sample"].nunique() < 2
    return drop(grid, [LABELS["sample"]]) if one_sample else grid


def verdicts(value: object) -> list[str]:
    """The words of a verdict, stored as a list or joined by commas; none is not clean."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    if value is None or isinstance(value, float):
        return []
    return [str(word) for word in value]


def unclean(data: Data) -> pd.DataFrame:
    """Timings whose verdict is anything but clean, one row each (not one per sample)."""
    dirty = data.timings[[verdicts(v) != ["clean"] for v in data.timings.verdict]]
    return dirty.drop_duplicates(["engine", "workload", "slots", "repeat"])


def timing_path(row) -> str:
    """Where the workflow keeps a timing, from its engine, workload, slots and repeat."""
    folder = PurePosixPath("results/timings", str(row.engine), str(row.workload))
    return str(folder / f"slots{int(row.slots)}" / f"{int(row.repeat)}.parquet")


def command(path: str, again: bool = False) -> str:
    """The shell command that makes one file, quoted."""
    return f"{AGAIN if again else MEASURE} {shlex.quote(path)}"


def again_commands(data: Data) -> list[str]:
    return [command(timing_path(row), again=True) for row in unclean(data).itertuples()]


def missing_commands(data: Data) -> list[str]:
    """One command per planned timing that has no file.

    Steps are written by the job that writes their timing, so a timing that is missing already
    brings its steps back.
    """
    paths = [item if isinstance(item, str) else item.get("path") for item in _missing(data)]
    kept = [p for p in paths if p and p.replace("/steps/", "/timings/", 1) not in {*paths} - {p}]
    return [command(path) for path in kept]


def _missing(data: Data) -> list:
    return data.measured.get("missing") or []
