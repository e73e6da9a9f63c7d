"""Every timing: when it ran, its verdict, and what the machine did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

import pandas as pd

from fourcells.analysis import commands
from fourcells.report import numbers as n
from fourcells.report.catalogue import LABELS, SOURCES, TEXTS
from fourcells.report.data import Data
from fourcells.report.data_words import said
from fourcells.report.grid import Cell, Grid, columns, drop, drop_empty, figure, text, timing_id

KEYS = ["engine", "workload", "slots", "repeat"]
# Columns of the table of witnesses, and how their numbers are written.
SEEN = {
    "foreign_cpu_s": n.cpu_seconds,
    "foreign_cpu_share": n.percent,
    "steal_s": n.cpu_seconds,
    "pressure_s": n.fine_seconds,
    "involuntary_switches": n.integer,
    "run_queue_max": n.integer,
    "quota_stops": n.integer,
    "swapped_bytes": n.size,
    "foreign_gpu_processes": n.integer,
    "sm_clock_mhz_min": n.integer,
    "sm_clock_mhz_max": n.integer,
    "temperature_c_max": n.integer,
    "power_w_max": n.integer,
    "python_mloops_before": n.rate,
    "python_mloops_after": n.rate,
    "matmul_gflops_before": n.rate,
    "matmul_gflops_after": n.rate,
    "witness_cost_s": n.fine_seconds,
}


def ordered(data: Data) -> pd.DataFrame:
    """The timings in the order they ran, one row per window; `order` counts them from 1."""
    frame = data.timings
    moments = pd.to_datetime(frame.started, utc=True, errors="coerce", format="ISO8601")
    frame = frame.assign(moment=moments).sort_values(["moment", "sample"], kind="stable")
    return frame.assign(order=range(1, len(frame) + 1))


def timings(data: Data) -> Grid:
    """Every window in the order it ran, its verdict beside it."""
    rows = []
    frame = ordered(data)
    for row in frame.itertuples():
        commit = text(row.git_commit).text[:10] + (" *" if row.dirty is True else "")
        rows.append(
            [
                Cell(str(row.order)),
                text(n.date(row.started).removesuffix(" UTC")),
                text(row.engine),
                text(row.workload),
                figure(row.slots, n.integer),
                figure(row.repeat, n.integer),
                figure(row.sample, n.integer),
                figure(row.window_s, n.seconds),
                figure(row.tok_s, n.rate),
                text(", ".join(verdicts(row.verdict))),
                figure(row.foreign_cpu_share, n.percent),
                figure(row.attempt, n.integer),
                figure(row.load_s, n.seconds),
                figure(row.warmup_s, n.seconds),
                text(commit),
            ]
        )
    heads = columns("name:order", "text:started", "text:engine", "text:workload", "slots")
    heads += columns("repeat", "sample", "window_s", "tok_s", "text:verdict")
    heads += columns("foreign_cpu_share", "attempt", "load_s", "warmup_s", "text:commit")
    ids = _anchors(frame)
    grid = Grid(
        TEXTS["timings_caption"], heads, rows, TEXTS["timings_note"], "timings", "timings", ids
    )
    if len(data.timings[["git_commit", "dirty"]].drop_duplicates()) < 2:
        # one code made all: the table of the machine names it
        grid = replace(drop(grid, [LABELS["commit"]]), note="")
    return _without_single_sample(grid, data)


def _anchors(frame: pd.DataFrame) -> list[str]:
    """An anchor for the first repeat's row of every cell, none for the others."""
    repeats = frame.sort_values(["repeat", "sample"], kind="stable")
    firsts = set(repeats.drop_duplicates(KEYS[:3]).index)
    return [
        timing_id(row.engine, row.workload, row.slots) if row.Index in firsts else ""
        for row in frame.itertuples()
    ]


def witness(data: Data) -> Grid | None:
    """What the machine did during every window, and how fast it was before and after; None if
    nobody watched. Columns that no timing can fill are left out."""
    frame = ordered(data)
    if frame[list(SEEN)].isna().all(axis=None):
        return None
    rows = [
        [
            Cell(str(row.order)),
            text(name(row)),
            figure(row.sample, n.integer),
            *(figure(getattr(row, column), write) for column, write in SEEN.items()),
            text(said(row.throttled)),
        ]
        for row in frame.itertuples()
    ]
    heads = columns("name:order", "text:timing", "sample", *SEEN, "text:throttled")
    note = f"{TEXTS['calibration_units']} {missing_sources(data)}".strip()
    grid = Grid(TEXTS["witness_caption"], heads, rows, note, "timings", "timings")
    grid = drop_empty(grid, [LABELS[column] for column in SEEN])
    if frame.throttled.map(n.is_missing).all():
        grid = drop(grid, [LABELS["throttled"]])
    return _without_single_sample(grid, data)


def _without_single_sample(grid: Grid, data: Data) -> Grid:
    return drop(grid, [LABELS["sample"]]) if data.timings["sample"].nunique() < 2 else grid


def missing_sources(data: Data) -> str:
    """One sentence on what no witness could tell, and why; empty if there is nothing."""
    total = len(data.timings.drop_duplicates(KEYS))
    told = []
    for each in data.trust("missing_sources"):
        source = SOURCES.get(each["source"], each["source"])
        some = TEXTS["some_timings"].format(n=each["timings"], total=total)
        told.append(f"{source} ({said(each['reason'])}{'' if each['timings'] == total else some})")
    return TEXTS["missing_sources"].format(sources="; ".join(told)) if told else ""


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
    return dirty.drop_duplicates(KEYS)


def name(row) -> str:
    """'vllm/B/slots16, repeat 2', from anything with these four attributes."""
    return TEXTS["timing_name"].format(
        cell=f"{row.engine}/{row.workload}/slots{int(row.slots)}", repeat=int(row.repeat)
    )


def timing_path(row) -> str:
    """Where the workflow keeps a timing, from its engine, workload, slots and repeat."""
    folder = PurePosixPath("results/timings", str(row.engine), str(row.workload))
    return str(folder / f"slots{int(row.slots)}" / f"{int(row.repeat)}.parquet")


def again_commands(data: Data) -> list[str]:
    """One command per timing that is not clean."""
    return [commands.again(timing_path(row)) for row in unclean(data).itertuples()]


def missing_commands(data: Data) -> list[str]:
    """One command per planned timing that has no file.

    Steps are written by the job that writes their timing, so a timing that is missing already
    brings its steps back.
    """
    missing: Sequence = data.measured.get("missing") or []
    paths = [item if isinstance(item, str) else item.get("path") for item in missing]
    kept = [p for p in paths if p and p.replace("/steps/", "/timings/", 1) not in {*paths} - {p}]
    return [commands.make(path) for path in kept]
