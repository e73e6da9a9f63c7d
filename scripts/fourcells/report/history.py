"""What was measured more than once, and what was measured in another session than its repeat."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd

from fourcells.report import numbers as n
from fourcells.report.blocks import Commands
from fourcells.report.catalogue import LABELS, TEXTS
from fourcells.report.data import Data
from fourcells.report.data_words import said
from fourcells.report.grid import Grid, columns, drop_empty, figure, mean, text
from fourcells.report.timings import KEYS, name, verdicts

CALIBRATIONS = [
    "python_mloops_before",
    "python_mloops_after",
    "matmul_gflops_before",
    "matmul_gflops_after",
]


def crossing(data: Data) -> list:
    """Blocks on the repeats that mix sessions: both calibrations, and the commands that measure
    whole repeats again. Empty if every repeat is of one session."""
    mixed = data.trust("mixed_sessions")
    if not mixed:
        return []
    frame = data.timings.drop_duplicates(KEYS)
    frame = frame.assign(mixed=["mixed_session" in verdicts(v) for v in frame.verdict])
    rows = []
    for each in mixed:
        repeat = each["repeat"]
        block = frame[(frame.repeat == repeat) & frame.stale_key.isna()]
        block = block[block["set"].isna() | block["set"].eq(each.get("set"))]
        rest = block[~block.mixed]
        rows += [
            [text(name(row)), *_when(row.started), *_calibrations(block.loc[[row.Index]])]
            for row in block[block.mixed].itertuples()
        ]
        head = TEXTS["rest_of_repeat"].format(repeat=repeat, n=len(rest))
        first = rest.started.dropna().min() if len(rest) else None
        rows.append([text(head), *_when(first), *_calibrations(rest)])
    heads = columns("name:timing", "text:started", *CALIBRATIONS)
    grid = Grid(TEXTS["crossing_caption"], heads, rows, TEXTS["crossing_note"], table="timings")
    lines = [each["again"] for each in mixed]
    return [
        drop_empty(grid, [LABELS[column] for column in CALIBRATIONS]),
        Commands(TEXTS["crossing_commands"], lines),
    ]


def _when(started: object) -> list:
    return [text(n.date(started).removesuffix(" UTC"))]


def _calibrations(rows: pd.DataFrame) -> list:
    return [figure(mean(rows[column]), n.rate) for column in CALIBRATIONS]


def attempts(data: Data) -> Grid | None:
    """Every attempt at the timings that have several, beside the one that counts; else None."""
    frame = data.attempts
    several = frame.groupby(KEYS, sort=False).attempt.transform("size") > 1
    frame = frame[several.astype(bool)]
    if frame.empty:
        return None
    current = data.timings.groupby(KEYS)[["tokens", "window_s"]].sum()
    current = (current.tokens / current.window_s).to_dict()
    rows = []
    for row in frame.itertuples():
        counts = row.counts is True
        now = current.get(tuple(getattr(row, key) for key in KEYS))
        known = not (counts or n.is_missing(now) or n.is_missing(row.tok_s))
        rows.append(
            [
                text(name(row)),
                figure(row.attempt, n.integer),
                text(n.date(row.started).removesuffix(" UTC")),
                figure(row.tok_s, n.rate),
                figure(row.tok_s / now - 1 if known else None, lambda v: n.percent(v, sign=True)),
                text(", ".join(verdicts(row.verdict))),
                text(_state(row, counts)),
                text(said(row.reason)),
            ]
        )
    heads = columns("name:timing", "attempt", "text:started", "tok_s", "against_current")
    heads += columns("text:verdict", "text:state", "text:reason")
    note = TEXTS["attempts_note"]
    return Grid(TEXTS["attempts_caption"], heads, rows, note, "attempts", "attempts")


def _state(row, counts: bool) -> str:
    if counts:
        return LABELS["counts"]
    if not n.is_missing(row.problem):
        return TEXTS["unusable"].format(problem=said(row.problem))
    return LABELS["superseded"]


def one_way(data: Data) -> list[str]:
    """One sentence per engine whose reruns went one way only."""
    return [TEXTS[f"one_way_{each['direction']}"].format(**each) for each in data.trust("one_way")]


def without_reason(data: Data) -> list[str]:
    """A sentence on reruns that no verdict asked for, if there are any."""
    reruns = data.trust("without_reason")
    if not reruns:
        return []
    names = "; ".join(
        TEXTS["attempt_name"].format(timing=name(SimpleNamespace(**each)), n=each["attempt"])
        for each in reruns
    )
    return [TEXTS["without_reason"].format(names=names)]
