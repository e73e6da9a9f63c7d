"""The numbers of the end of a block, one cell at a time, and the lesson's beside them."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from fourcells.analysis import lesson, stats
from fourcells.report import numbers as n
from fourcells.report.data import Data, noise_floor
from fourcells.report.drain import (
    CONTINUOUS,
    LESSON_MIXED,
    LESSON_UNIFORM,
    Drain,
    Part,
    drain_of,
    has_lesson,
    lengths,
    of_lesson,
)
from fourcells.report.evidence import Ratio, cell_mean
from fourcells.report.grid import first


@dataclass(frozen=True)
class Facts:
    """Of one cell; None is not known. `steps_uniform`: of the workload it is compared with.
    `*_share`: of the steps. `*_time`: of the first window. `loss_steps`: what the steps alone would
    lose against the uniform workload, if all took the same time. Times in seconds, `window_s` as a
    mean over the windows."""

    requests: int
    steps_uniform: int | None
    steps: int
    empty_from: int | None
    drain_steps: int
    drain_share: float
    drain_time: float | None
    last_steps: int | None
    last_share: float | None
    last_time: float | None
    slot_use: float
    loss_steps: float | None
    loss: float | None
    window_s: float | None
    alone_s: float | None
    longest_e2e_s: float | None
    empty_exactly: bool = True

    @property
    def gap(self) -> int | None:
        """Steps in which nobody waits and every slot is still held; None where they are not known
        or nothing stays free."""
        if self.empty_from is None or not self.drain_steps or not self.empty_exactly:
            return None
        return self.steps - self.drain_steps - self.empty_from


@dataclass(frozen=True)
class MoreLost:
    """What mixed lengths leave of the throughput with many slots, over what they leave with few:
    below 1, more slots lose more. `by_steps`: the same if all steps took the same time."""

    measured: Ratio
    by_steps: float | None


def more_lost(data: Data, few: Drain, many: Drain) -> MoreLost | None:
    """Formed inside the repeats that have both losses; None without one."""
    kept = _kept(data, many) / _kept(data, few)
    values = kept.dropna().tolist()
    if not values:
        return None
    low, high = stats.t_interval(values)
    one, other = facts(data, few), facts(data, many)
    known = None not in (one.loss_steps, other.loss_steps)
    theirs = [lesson_facts(cell) for cell in (few, many)]
    return MoreLost(
        Ratio(
            stats.geometric_mean(values),
            low,
            high,
            len(values),
            None if None in theirs else (1 + theirs[1].loss) / (1 + theirs[0].loss),
            noise_floor(data),
        ),
        (1 + other.loss_steps) / (1 + one.loss_steps) if known else None,
    )


def _kept(data: Data, cell: Drain) -> pd.Series:
    """T(mixed) / T(uniform) of the cell, by repeat."""
    frame = data.throughput
    same = frame.engine.eq(cell.engine) & frame.workload.eq(cell.workload)
    own = frame[same & frame.slots.eq(cell.slots)].set_index("repeat")
    return 1 + own.loss_when_mixed.astype("float64")


def uniform_of(data: Data, workload: str) -> str | None:
    """The workload that this one is compared with."""
    found = first(data.throughput[data.throughput.workload.eq(workload)].compare_with)
    return None if found is None else str(found)


def facts(data: Data, cell: Drain) -> Facts:
    """What the tables say of a cell."""
    key = (cell.engine, cell.workload, cell.slots)
    uniform = uniform_of(data, cell.workload)
    even = None if uniform is None else drain_of(data, cell.engine, uniform, cell.slots)
    longest = max(lengths(data, cell.workload))
    own = data.latency[data.latency.output_tokens.eq(longest)]
    return _facts(
        cell,
        None if even is None else even.steps,
        loss=cell_mean(data.throughput, "loss_when_mixed", *key),
        window_s=cell_mean(data.timings, "window_s", *key),
        alone_s=_alone(data, cell.engine, longest),
        longest_e2e_s=cell_mean(own, "e2e_returned_s", *key),
    )


def lesson_facts(cell: Drain) -> Facts | None:
    """The lesson's cell with as many slots: steps computed from its lengths, the rest as it
    measured; None where it has none. Its window is of another run than its latencies."""
    if cell.workload != LESSON_MIXED or not has_lesson(cell.workload, cell.slots):
        return None
    name = lesson.cell(lesson.engine("vllm", CONTINUOUS), cell.slots)
    given = lesson.figures()["workloads"][LESSON_MIXED]["output_tokens"]
    a, c = lesson.step_model(name)
    return _facts(
        of_lesson(LESSON_MIXED, cell.slots),
        of_lesson(LESSON_UNIFORM, cell.slots).steps,
        loss=lesson.loss(name, LESSON_MIXED, LESSON_UNIFORM),
        window_s=None,
        alone_s=None if c is None else max(given) * (a + c),
        longest_e2e_s=lesson.latency(name, LESSON_MIXED, len(given) - 1, len(given))[1],
    )


def _facts(cell: Drain, steps_uniform: int | None, **measured: float | None) -> Facts:
    drain, last = cell.drain, cell.only_longest
    return Facts(
        requests=cell.requests,
        steps_uniform=steps_uniform,
        steps=cell.steps,
        empty_from=cell.empty_from,
        drain_steps=drain.steps,
        drain_share=drain.steps / cell.steps,
        drain_time=_time(drain, cell.window_s),
        last_steps=None if last is None else last.steps,
        last_share=None if last is None else last.steps / cell.steps,
        last_time=None if last is None else _time(last, cell.window_s),
        slot_use=cell.slot_use,
        loss_steps=None if steps_uniform is None else steps_uniform / cell.steps - 1,
        empty_exactly=cell.empty_exactly,
        **measured,
    )


def _time(part: Part, window_s: float | None) -> float | None:
    return None if part.seconds is None or not window_s else part.seconds / window_s


def _alone(data: Data, engine: str, tokens: int) -> float | None:
    """Seconds of so many steps with one row, by the engine's step model; None where the model does
    not know what a row costs."""
    for row in data.step_model[data.step_model.engines.notna()].itertuples():
        if engine in {name.strip() for name in str(row.engines).split(",")}:
            known = not (n.is_missing(row.a_s) or n.is_missing(row.c_s))
            return tokens * float(row.a_s + row.c_s) if known else None
    return None
