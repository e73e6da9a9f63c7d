"""The tables, the summary and the lesson's figures that a page is compared with."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
import yaml
from scipy.stats import t as student

from fourcells.analysis import lesson as lesson_module

LESSON = Path(lesson_module.__file__).with_name("lesson.yaml")
CELL = ["engine", "workload", "slots"]
# Sentences of the analysis, whose numbers are traced one by one like those of the page.
SENTENCES = {"sentences", "sentence"}
# (kind, number); the kinds are those of `traced.plain`.
Value = tuple[str, float | None]


@dataclass(frozen=True)
class Truth:
    """The tables by name, the summary, the lesson's figures, and the sizes of the files."""

    tables: dict[str, pd.DataFrame]
    summary: dict
    lesson: dict
    sizes: list[int]

    @classmethod
    def load(cls, tables: Path, summary: Path) -> Truth:
        frames = {file.stem: pd.read_parquet(file) for file in tables.glob("*.parquet")}
        sizes = [file.stat().st_size for file in (*tables.glob("*.csv"), summary)]
        given = yaml.safe_load(LESSON.read_text())
        return cls(frames, json.loads(summary.read_text()), given, sizes)

    def rows(self, table: str, **same: object) -> pd.DataFrame:
        """The rows of a table with these values."""
        frame = self.tables[table]
        for column, value in same.items():
            frame = frame[frame[column].eq(value)]
        return frame

    @cached_property
    def pair(self) -> tuple[str, str]:
        """The mixed workload and the uniform one that it is compared with."""
        compared = self.tables["throughput"].dropna(subset=["compare_with"]).iloc[0]
        return compared.workload, compared.compare_with

    @cached_property
    def names(self) -> set[str]:
        """Every string of tables and summary that holds a digit and is no number by itself, and
        the paths and moments that are written from them."""
        found = {
            str(value)
            for frame in self.tables.values()
            for column in frame.select_dtypes(["object", "string"])
            for value in frame[column].dropna().unique()
        }
        found |= set(_strings(self.summary))
        for row in self.tables["timings"].itertuples():
            cell = f"{row.engine}/{row.workload}/slots{row.slots}"
            found |= {cell, f"{cell}/{row.repeat}.parquet", f"{row.engine}/{row.slots}"}
        found |= {_moment(value) for value in self._moments()}
        found = {name for name in found if re.search(r"\d", name) and not is_number(name)}
        commits = self.tables["timings"].git_commit.dropna().astype(str)
        return found | {commit[:length] for commit in commits for length in (10, 12)}

    def _moments(self) -> Iterator[str]:
        yield from self.tables["timings"].started.dropna()
        yield from self.tables["attempts"].started.dropna()
        for key in ("started", "ended"):
            yield self.summary["measured"][key]


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in SENTENCES:
                yield str(name)
                yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
    elif isinstance(value, str):
        yield value


def _moment(value: str) -> str:
    return pd.Timestamp(value).tz_convert("UTC").strftime("%Y-%m-%d %H:%M:%S")


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def interval(values: Iterable[float]) -> tuple[float, float] | tuple[None, None]:
    """The 95 % interval of a geometric mean: Student's t on the logs."""
    logs = pd.Series([math.log(value) for value in values])
    if len(logs) < 2:
        return None, None
    half = student.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    return math.exp(logs.mean() - half), math.exp(logs.mean() + half)


def values_of(kind: str, values: Iterable) -> Iterator[Value]:
    """The values that are no null."""
    for value in pd.to_numeric(pd.Series(list(values)), errors="coerce").dropna().unique():
        if math.isfinite(value):
            yield kind, float(value)


def columns_of(frame: pd.DataFrame, kind: str, columns: str) -> Iterator[Value]:
    for column in columns.split():
        yield from values_of(kind, frame[column])


def means_of(frame: pd.DataFrame, keys: list[str], kind: str, columns: str) -> Iterator[Value]:
    """Means over the repeats of every group."""
    for column in columns.split():
        numbers = frame.assign(number=pd.to_numeric(frame[column]).astype(float))
        yield from values_of(kind, numbers.groupby(keys, dropna=False).number.mean())


def main_factors(truth: Truth) -> pd.DataFrame:
    """The attribution between the engines that the summary speaks of, on its workload."""
    told = truth.summary["attribution"]
    return truth.rows("attribution", workload=told["workload"], **told["pair"])


def main_rules(truth: Truth) -> pd.DataFrame:
    """The requests and the memory that were measured under most rules of reservation."""
    groups = truth.tables["reservations"].groupby(["workload", "slots", "usable_tokens"])
    return max((part for _, part in groups), key=lambda part: part.reservation.nunique())
