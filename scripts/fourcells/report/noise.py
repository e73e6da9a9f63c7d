"""The tables of noise and of what follows from it: cells, ratios, controls, variance, limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pandas as pd

from fourcells.analysis import lesson
from fourcells.report import numbers as n
from fourcells.report import wording
from fourcells.report.catalogue import LABELS, TEXTS
from fourcells.report.data import Data, ratio_interval
from fourcells.report.data_words import said, value
from fourcells.report.grid import (
    Cell,
    Column,
    Grid,
    columns,
    drop,
    drop_empty,
    figure,
    first,
    groups,
    text,
)
from fourcells.report.grids import ratio_meaning
from fourcells.report.wording import bracketed, conclusion, passed

# Of fewer repeats none is called an outlier, by the analysis.
LEAST_FOR_OUTLIERS = 5


def change(value: object) -> str:
    """A relative change with its sign: 0.012 -> '+1.2 %'."""
    return n.percent(value, sign=True)


def between(low: object, high: object, count: object, write: Callable[[object], str]) -> Cell:
    """'1.80x to 2.10x', or why there is no interval."""
    if n.is_missing(low) or n.is_missing(high):
        return text(TEXTS["says_one"] if not n.is_missing(count) and count <= 1 else None)
    return Cell(TEXTS["from_to"].format(low=write(low), high=write(high)))


def cells(data: Data) -> Grid:
    """One row per cell: the three definitions of noise, drift, outliers. With one repeat every
    column of spread says so."""
    rows = []
    frame = data.noise[data.noise.engine.notna()]
    for row in frame.itertuples():
        one = not n.is_missing(row.n) and row.n <= 1
        spread = [
            text(TEXTS["says_one"]) if one else figure(getattr(row, key), n.percent)
            for key in ("cv", "spread", "drop")
        ]
        rows.append(
            [
                text(row.engine),
                figure(row.slots, n.integer),
                text(row.workload),
                figure(row.n, n.integer),
                figure(row.mean_tok_s, n.rate),
                *spread,
                _lesson_drop(row),
                text(_drift(data, row)),
                Cell(_outliers(row)),
            ]
        )
    heads = columns("name:engine", "slots", "text:workload", "n", "mean_tok_s", "cv", "spread")
    heads += columns("drop", "lesson:lesson_drop", "drift_per_hour", "text:outliers")
    grid = Grid(TEXTS["noise_caption"], heads, rows, _note(), "noise", table="noise")
    at = {column.label: i for i, column in enumerate(heads)}
    optional = [LABELS["drift_per_hour"], LABELS["lesson_drop"]]
    unsaid = [x for x in optional if all(row[at[x]].text == n.MISSING for row in rows)]
    return drop(grid, unsaid)


def _lesson_drop(row) -> Cell:
    """What the lesson tells: one value, or from and to."""
    low, high = (getattr(row, f"lesson_drop_{end}", None) for end in ("low", "high"))
    if n.is_missing(low) or n.is_missing(high) or low == high:
        return figure(row.lesson_drop, n.percent)
    return between(low, high, None, n.percent)


def _drift(data: Data, row) -> str | None:
    """The drift with its interval; None where the cell's repeats span less than an hour."""
    frame = data.timings
    for key in ("engine", "workload", "slots"):
        frame = frame[frame[key].eq(getattr(row, key))]
    starts = pd.to_datetime(frame.started, utc=True, format="ISO8601").dropna()
    if starts.empty or starts.max() - starts.min() < pd.Timedelta(hours=1):
        return None
    return bracketed(row.drift_per_hour, row.drift_low, row.drift_high, change)


def _note() -> str:
    """The three definitions, with how far the lesson's two runs were apart by the last one."""
    static, _ = lesson.runs_apart("static_16", "B")
    low, high = map(n.percent, lesson.runs_apart("vllm_16", "B"))
    return TEXTS["noise_note"].format(static=n.percent(static), low=low, high=high)


def _outliers(row) -> str:
    """The repeats that stand out; a dash where there are too few to look."""
    if not n.is_missing(row.outliers):
        return str(row.outliers).replace(",", ", ")
    return TEXTS["no_outlier"] if row.n >= LEAST_FOR_OUTLIERS else n.MISSING


def conclusions(data: Data) -> Grid:
    """One row per ratio: both intervals, the unpaired analysis where repeats cross sessions, and
    what may be said. Latencies have their own table."""
    frame = data.ratios[data.ratios.value.notna()]
    frame = frame[~frame["name"].astype(str).str.startswith("E2E_")]
    # what is asked first, then the losses
    frame = frame.assign(last=frame["name"].astype(str).str.startswith("loss").astype(int))
    frame = frame.sort_values("last", kind="stable")
    rows, crossing = [], False
    keys = ["last", "engine", "slots", "name", "baseline"]
    for (_, engine, slots, name, baseline), part in groups(frame, keys):
        told = ratio_interval(data, part)
        crosses = part.crosses_sessions.eq(True).any()
        crossing = crossing or crosses
        unpaired = first(part.unpaired_estimate), *_pair(part, "unpaired")
        says = conclusion(name, **told)
        otherwise = conclusion(name, *unpaired[1:], told["n"])
        if crosses and otherwise not in (says, TEXTS["says_open"]):
            says = TEXTS["says_unpaired"].format(said=says, unpaired=otherwise)
        rows.append(
            [
                text(_ratio_name(data, name, engine, baseline, slots)),
                figure(first(part.geometric_mean), n.ratio),
                text(says),
                between(told["low"], told["high"], told["n"], n.ratio),
                between(*_pair(part, "boot"), told["n"], n.ratio),
                text(bracketed(*unpaired) if crosses else None),
                figure(told["n"], n.integer),
                figure(first(part.lesson), n.ratio),
            ]
        )
    heads = columns("name:ratio", "estimate", "text:conclusion", "t_interval", "bootstrap")
    heads += columns("unpaired", "n", "lesson:lesson")
    grid = Grid(
        TEXTS["conclusions_caption"],
        heads,
        rows,
        TEXTS["conclusions_note"],
        "noise",
        table="ratios",
    )
    if frame.boot_low.map(n.is_missing).all():
        grid = replace(drop(grid, [LABELS["bootstrap"]]), note="")
    if crossing:
        return replace(grid, note=f"{grid.note} {TEXTS['unpaired_note']}".strip())
    return drop(grid, [LABELS["unpaired"]])


def _ratio_name(data: Data, name: str, engine: str, baseline: object, slots: object) -> str:
    """'R_B: vllm / static on B, 16 slots'; a loss and Q say what they are by themselves."""
    kind = "Q_alone" if name.startswith("Q") else name
    meaning = ratio_meaning(data, name, engine, baseline, kind)
    head = "" if name.startswith("loss") else f"{name}: "
    if name.startswith("Q"):
        meaning = f"{engine} / {baseline}, {meaning}"
    return f"{head}{meaning}, {wording.slots(slots)}"


def _pair(part: pd.DataFrame, kind: str) -> tuple:
    return first(part[f"{kind}_low"]), first(part[f"{kind}_high"])


def controls(data: Data) -> Grid:
    """One row per control, with pass, fail, or why neither can be told."""
    rows = []
    for row in data.controls[data.controls["name"].notna()].itertuples():
        rows.append(
            [
                text(said(row.name)),
                text(value(row.kind)),
                figure(row.n, n.integer),
                figure(row.estimate, n.ratio),
                between(row.low, row.high, row.n, n.ratio),
                figure(row.expected, n.ratio),
                text(passed(row.passed, row.n)),
                text(passed(row.together, row.n)),
                figure(row.noise_floor, n.percent),
            ]
        )
    heads = columns("name:control", "text:kind", "n", "estimate", "interval", "expected")
    heads += columns("text:result", "text:together", "noise_floor")
    return Grid(
        TEXTS["controls_caption"], heads, rows, TEXTS["controls_note"], "noise", table="controls"
    )


def variance(data: Data) -> Grid:
    """Between processes and within one, cell by cell, with the advice that follows."""
    rows = []
    for row in data.variance[data.variance.engine.notna()].itertuples():
        rows.append(
            [
                text(row.engine),
                figure(row.slots, n.integer),
                text(row.workload),
                figure(row.repeats, n.integer),
                figure(row.samples, n.integer),
                figure(row.total_sd, n.percent),
                figure(row.between_sd, n.percent),
                figure(row.within_sd, n.percent),
                figure(row.repeat_s, n.seconds),
                figure(row.sample_s, n.seconds),
                figure(row.best_samples, n.integer),
                text(said(row.advice)),
            ]
        )
    heads = columns("name:engine", "slots", "text:workload", "repeats", "samples", "total_sd")
    heads += columns(
        "between_sd", "within_sd", "repeat_s", "sample_s", "best_samples", "text:advice"
    )
    grid = Grid(TEXTS["variance_caption"], heads, rows, name="noise", table="variance")
    return drop_empty(grid, [LABELS[k] for k in ("between_sd", "within_sd", "best_samples")])


def left_out(limits: Mapping) -> Grid:
    """Every headline ratio without each repeat, of clean timings only, and in the worst pairing
    of the repeats; one column per ratio that was measured more than once."""
    named = limits.get("by_ratio") or {"Q": limits}
    ways = {name: _ways(each) for name, each in named.items() if each.get("leave_one_out")}
    rows = [
        [text(what), *(by_way.get(what, text(None)) for by_way in ways.values())]
        for what in dict.fromkeys(what for by_way in ways.values() for what in by_way)
    ]
    heads = columns("name:counted") + [Column(name) for name in ways]
    return Grid(TEXTS["left_out_caption"], heads, rows, table="summary")


def _ways(limits: Mapping) -> dict[str, Cell]:
    """One ratio counted in other ways, as '1.90x [1.50x, 2.40x]'."""
    ways = {
        TEXTS["left_out_repeat"].format(repeat=each.get("repeat")): each
        for each in limits["leave_one_out"]
    }
    ways[TEXTS["left_out_clean"]] = limits.get("clean_only") or {}
    ways[TEXTS["left_out_worst"]] = limits.get("worst_pairing") or {}
    ends = ("estimate", "low", "high")
    return {what: text(bracketed(*map(each.get, ends))) for what, each in ways.items()}


def cost(limits: Mapping) -> Grid:
    """Repeats and minutes that a narrower interval of Q needs."""
    rows = []
    for percent in (5, 10):
        repeats = limits.get(f"repeats_for_{percent}_percent")
        if n.is_missing(repeats):
            continue
        minutes = figure(limits.get(f"minutes_for_{percent}_percent"), n.rate)
        target = text(TEXTS["cost_target"].format(percent=percent))
        rows.append([target, figure(repeats, n.integer), minutes])
    each = limits.get("minutes_per_repeat")
    note = "" if n.is_missing(each) else TEXTS["cost_note"].format(minutes=n.number(each, 1))
    heads = columns("name:target", "needed_repeats", "needed_minutes")
    return Grid(TEXTS["cost_caption"], heads, rows, note, table="summary")
