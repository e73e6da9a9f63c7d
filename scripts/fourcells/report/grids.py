"""The tables of results: frames in, `Grid`s out. A null shows as an en dash, never as zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fourcells.report import numbers as n
from fourcells.report.catalogue import LABELS, RATIO_NAMES, TEXTS
from fourcells.report.data import Data, ratio_interval
from fourcells.report.grid import (
    Cell,
    Column,
    Grid,
    columns,
    drop,
    drop_spread,
    figure,
    first,
    groups,
    interval,
    mean,
    spread,
    text,
)

CELL = ["engine", "slots", "workload"]


def throughput(data: Data) -> Grid:
    """One row per cell: mean, spread and n over repeats beside the lesson's figure."""
    rows = []
    for (engine, slots, workload), part in groups(data.throughput, CELL):
        entry = data.summary_cell(engine, workload, slots)
        rows.append(
            [
                text(engine),
                figure(slots, n.integer),
                text(workload),
                figure(mean(part.tok_s), n.rate),
                *spread(part.tok_s, n.rate),
                figure(part.tok_s.count(), n.integer),
                interval(entry, n.rate),
                figure(first(part.lesson_tok_s), n.rate),
            ]
        )
    heads = columns(
        "name:engine", "slots", "text:workload", "mean", "min", "max", "n", "interval"
    ) + columns("lesson:lesson")
    return drop_spread(Grid(TEXTS["throughput_caption"], heads, rows, table="throughput"))


def loss(data: Data) -> Grid:
    """Loss on the mixed workload, one row per engine and slot count."""
    rows = []
    frame = data.throughput[data.throughput.loss_when_mixed.notna()]
    for (engine, slots, workload, against), part in groups(frame, [*CELL, "compare_with"]):
        rows.append(
            [
                text(engine),
                figure(slots, n.integer),
                text(workload),
                text(against),
                figure(mean(part.loss_when_mixed), _signed),
                *spread(part.loss_when_mixed, _signed),
                figure(part.loss_when_mixed.count(), n.integer),
                _loss_interval(data, engine, slots, workload),
                figure(first(part.lesson_loss), _signed),
            ]
        )
    heads = columns("name:engine", "slots", "text:workload", "text:compared", "loss", "min", "max")
    heads += columns("n", "interval", "lesson:lesson")
    grid = Grid(TEXTS["loss_caption"], heads, rows, table="throughput")
    at = heads.index(columns("interval")[0])
    if all(row[at].text == n.MISSING for row in rows):
        grid = drop(grid, [LABELS["interval"]])
    return drop_spread(grid)


def _loss_interval(data: Data, engine: str, slots: int, workload: str) -> Cell:
    """The interval of T(mixed) / T(uniform), written as a change like the loss itself."""
    _, mixed = workload_pair(data)
    frame = data.ratios
    names = [f"loss_when_mixed_{workload}"] + ["loss_when_mixed"] * (workload == mixed)
    same = frame.engine.eq(engine) & frame.slots.eq(slots) & frame["name"].isin(names)
    if not same.any():
        return text(None)
    return interval(ratio_interval(data, frame[same]), lambda value: _signed(value - 1))


def _signed(value: object) -> str:
    return n.percent(value, sign=True)


def workload_pair(data: Data) -> tuple[str | None, str | None]:
    """(uniform, mixed): the first workload that is compared with another, and that other."""
    pairs = data.throughput[data.throughput.compare_with.notna()]
    if pairs.empty:
        return None, None
    return str(pairs.compare_with.iloc[0]), str(pairs.workload.iloc[0])


def ratio_meaning(
    data: Data, name: str, engine: str, baseline: object, words: str | None = None
) -> str:
    """What a ratio divides, e.g. 'vllm / static on A'; a dash for a ratio not known here.

    Args:
        words: the name of the words for it, where they are not those of its own name.
    """
    uniform, mixed = workload_pair(data)
    kind, _, workload = name.partition("_")
    if name.startswith("Q_"):
        mixed = workload
    pattern = RATIO_NAMES.get(words or name) or RATIO_NAMES.get(kind, n.MISSING)
    return pattern.format(
        engine=engine,
        baseline=baseline,
        workload=workload,
        uniform=uniform or n.MISSING,
        mixed=mixed or n.MISSING,
    )


def ratios(data: Data) -> Grid:
    """One row per ratio, one column per repeat, then the estimate beside the lesson's.

    The loss when mixed and the ratios of latencies have tables of their own.
    """
    frame = main_ratios(data)
    repeats = sorted(frame.repeat.dropna().unique())
    rows = []
    keys = ["engine", "slots", "name", "baseline"]
    for (engine, slots, name, baseline), part in groups(frame, keys):
        by_repeat = part.set_index("repeat")
        crossing = by_repeat.crosses_sessions.eq(True)
        single = n.is_missing(first(part.n)) or int(first(part.n)) == 1
        ends = (
            [text(LABELS["one_repeat"])] * 2
            if single
            else [figure(first(part[key]), n.ratio) for key in ("min", "max")]
        )
        rows.append(
            [
                text(name),
                text(ratio_meaning(data, name, engine, baseline)),
                figure(slots, n.integer),
                figure(first(part.geometric_mean), _marked(crossing.any())),
                *ends,
                figure(first(part.n), n.integer),
                interval(ratio_interval(data, part), n.ratio),
                figure(first(part.lesson), n.ratio),
                *(figure(by_repeat.value.get(r), _marked(crossing.get(r))) for r in repeats),
            ]
        )
    heads = columns("name:ratio", "text:meaning", "slots", "geometric_mean", "min", "max", "n")
    heads += columns("interval", "lesson:lesson")
    heads += [Column(LABELS["repeat_n"].format(n=n.integer(r))) for r in repeats]
    at = [column.label for column in heads].index(LABELS["interval"])
    given = sum(row[at].text != n.MISSING for row in rows)
    note = TEXTS["ratios_note"] if 0 < given < len(rows) else ""
    grid = Grid(TEXTS["ratios_caption"], heads, rows, note, name="ratios", table="ratios")
    grid = drop_spread(grid)
    if frame.crosses_sessions.eq(True).any():
        grid = replace(grid, note=f"{grid.note} {TEXTS['crossing_mark']}".strip())
    return grid


def main_ratios(data: Data):
    """The rows of R, Q and the ratio of slots."""
    return data.ratios[data.ratios["name"].astype(str).str.match(r"R_|Q$|Q_|slots_ratio$")]


def _marked(mark: object) -> Callable[[object], str]:
    """How a ratio is written: with a dagger if it is made of timings of several sessions."""
    return (lambda value: f"{n.ratio(value)}\u2009\u2020") if mark else n.ratio


def idle(data: Data) -> Grid:
    """Idle share by cell, measured (mean over repeats) beside what the schedule says."""
    rows = []
    shares = ["computed_idle_rows", "idle_rows", "computed_idle_slots", "idle_slots"]
    for (engine, slots, workload), part in groups(data.idle, CELL):
        rows.append(
            [
                text(engine),
                figure(slots, n.integer),
                text(workload),
                text(first(part.admission)),
                figure(mean(part.computed_steps), n.integer),
                figure(mean(part.steps), n.integer),
                *(figure(mean(part[key]), n.percent) for key in shares),
                figure(first(part.lesson_idle), n.percent),
            ]
        )
    heads = columns("name:engine", "slots", "text:workload", "text:admission", "computed_steps")
    heads += columns("steps", *shares, "lesson:lesson_idle")
    return Grid(TEXTS["idle_caption"], heads, rows, TEXTS["idle_note"], table="idle")
