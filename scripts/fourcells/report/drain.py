"""The end of a block: when nobody waits any more, and what the last requests leave unused.

A block is a workload whose requests are all there at the start. Steps and seconds are those of one
window, as the table of occupancy has it; the lesson's are computed from its lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pandas as pd

from fourcells.analysis import lesson
from fourcells.report import numbers as n
from fourcells.report.answer import main_group
from fourcells.report.data import Data
from fourcells.report.grids import workload_pair
from fourcells.simulator import simulate

MEASURED, CONTINUOUS = "measured", "continuous"
# The workloads of the lesson, by the names that they have here.
LESSON_MIXED, LESSON_UNIFORM = "B", "A"


@dataclass(frozen=True)
class Part:
    """Some of a window's steps. `seconds` is None where steps have no times."""

    steps: int
    seconds: float | None


@dataclass(frozen=True)
class Drain:
    """One cell. `runs`: its steps in order, run-length coded [step_from, step_to, t_from_s, t_to_s,
    rows, useful_rows, waiting]. `longest`: how many requests have the greatest length."""

    engine: str
    workload: str
    slots: int
    runs: pd.DataFrame
    longest: int

    @property
    def steps(self) -> int:
        return int(self.runs.step_to.max())

    @property
    def window_s(self) -> float | None:
        end = self.runs.t_to_s.max()
        return None if n.is_missing(end) else float(end)

    @property
    def requests(self) -> int:
        """All of them are in the first step or wait."""
        begin = self.runs.iloc[0]
        return int(begin.rows + begin.waiting)

    @property
    def usable(self) -> int:
        """Rows that the slots and the requests allow."""
        return min(self.slots, self.requests)

    @property
    def binds(self) -> bool:
        """Whether some request had to wait for a slot."""
        return self.slots < self.requests

    @property
    def empty_from(self) -> int | None:
        """The first step in which nobody waits, as far as the runs tell; None if there is none."""
        free = self.runs[self.runs.waiting.eq(0)]
        return None if free.empty else int(free.step_from.iloc[0])

    @property
    def empty_exactly(self) -> bool:
        """Whether the queue was empty no sooner than `empty_from`: a run tells who waits in its
        first step, so it may become empty inside a run."""
        at = self.empty_from
        if not at:
            return True
        last = self.runs[self.runs.step_to.eq(at)].iloc[0]
        begins = self.runs[self.runs.step_from.eq(at)].iloc[0]
        alike = (last.rows, last.useful_rows) == (begins.rows, begins.useful_rows)
        return bool(alike or last.step_to - last.step_from == 1)

    @property
    def drain(self) -> Part:
        """The steps in which nobody waits and rows are fewer than could be."""
        return _part(self.runs[self.runs.waiting.eq(0) & (self.runs.rows < self.usable)])

    @property
    def only_longest(self) -> Part | None:
        """The steps in which the longest requests alone are left; None where the slots bind, since
        the number of rows does not say who holds them."""
        if self.binds:
            return None
        return _part(self.runs[self.runs.waiting.eq(0) & (self.runs.rows <= self.longest)])

    @property
    def slot_use(self) -> float:
        """Share of slots x steps that made a useful token."""
        return self.tokens / (self.slots * self.steps)

    @property
    def tokens(self) -> int:
        """Useful output tokens of the window."""
        return int(self._summed("useful_rows"))

    @property
    def rows_mean(self) -> float:
        """Rows in a step, mean over the steps."""
        return self._summed("rows") / self.steps

    def _summed(self, column: str) -> float:
        return float((self.runs[column] * (self.runs.step_to - self.runs.step_from)).sum())


def _part(runs: pd.DataFrame) -> Part:
    seconds = (runs.t_to_s - runs.t_from_s).sum(skipna=False) if len(runs) else 0.0
    steps = int((runs.step_to - runs.step_from).sum())
    return Part(steps, None if n.is_missing(seconds) else float(seconds))


def lengths(data: Data, workload: str) -> dict[int, int]:
    """Output tokens -> how many requests ask for them, in one timing; ascending."""
    frame = data.latency[data.latency.workload.eq(workload) & data.latency.n.notna()]
    if frame.empty:
        return {}
    head = frame.iloc[0]
    same = (
        frame.engine.eq(head.engine) & frame.slots.eq(head.slots) & frame.repeat.eq(head["repeat"])
    )
    counts = zip(frame[same].output_tokens, frame[same].n, strict=True)
    return {int(tokens): int(count) for tokens, count in sorted(counts)}


def subject(data: Data) -> tuple[str, str] | None:
    """(engine, workload) whose end is looked at: continuous, of mixed lengths, not short of memory;
    the workload and the engine of the answer first, then the engine with most slot counts."""
    frame = _steps(data)
    frame = frame[frame.admission.eq(CONTINUOUS)]
    # where memory is short it says who waits, and not the slots
    frame = frame[~frame.engine.isin(data.reservations.engine.dropna())]
    mixed = [w for w in frame.workload.unique() if len(lengths(data, w)) > 1]
    frame = frame[frame.workload.isin(mixed)]
    if frame.empty:
        return None
    _, asked = workload_pair(data)
    told = main_group(data)
    answered = None if told.empty else told.engine.iloc[0]

    def rank(key: tuple[str, str]) -> tuple:
        engine, workload = key
        own = frame[frame.engine.eq(engine) & frame.workload.eq(workload)]
        return workload == asked, engine == answered, own.slots.nunique()

    pairs = frame[["engine", "workload"]].drop_duplicates().itertuples(index=False, name=None)
    return max(pairs, key=rank)


def drain_of(data: Data, engine: str, workload: str, slots: int) -> Drain | None:
    """One cell; None without its steps."""
    return next((d for d in drains(data, engine, workload) if d.slots == slots), None)


def drains(data: Data, engine: str, workload: str) -> list[Drain]:
    """Its cells, fewest slots first."""
    frame = _steps(data)
    frame = frame[frame.engine.eq(engine) & frame.workload.eq(workload)]
    counts = lengths(data, workload)
    made = []
    for slots, runs in frame.groupby("slots"):
        runs = runs.sort_values("step_from").reset_index(drop=True)
        begin = runs.iloc[0]
        # a timing of several windows has its lengths several times
        share = counts[max(counts)] / sum(counts.values()) if counts else 0.0
        longest = round(share * float(begin.rows + begin.waiting))
        made.append(Drain(engine, workload, int(slots), runs, longest))
    return made


def never_bind(data: Data) -> list[Drain]:
    """The measured cells with at least as many slots as requests, not short of memory."""
    frame = _steps(data)
    frame = frame[~frame.engine.isin(data.reservations.engine.dropna())]
    keys = frame[["engine", "workload"]].drop_duplicates().itertuples(index=False, name=None)
    return [cell for key in keys for cell in drains(data, *key) if not cell.binds]


def _steps(data: Data) -> pd.DataFrame:
    """Measured steps, their numbers as numbers."""
    frame = data.occupancy[data.occupancy.source.eq(MEASURED)]
    counted = ["slots", "step_from", "step_to", "t_from_s", "t_to_s", "rows", "useful_rows"]
    return frame.astype(dict.fromkeys([*counted, "waiting"], "float64"))


def has_lesson(workload: str, slots: int) -> bool:
    """Whether the lesson served a workload of this name with so many slots, continuously."""
    known = lesson.cell(lesson.engine("vllm", CONTINUOUS), slots)
    return workload in (LESSON_MIXED, LESSON_UNIFORM) and known is not None


@cache
def of_lesson(workload: str, slots: int) -> Drain:
    """The lesson's cell, computed from its lengths, one run per step, without times."""
    tokens = lesson.output_tokens(workload)
    steps = simulate(tokens, slots, CONTINUOUS).steps
    runs = pd.DataFrame(
        {
            "step_from": at,
            "step_to": at + 1,
            "t_from_s": None,
            "t_to_s": None,
            "rows": step.rows,
            "useful_rows": step.useful_rows,
            "waiting": step.waiting,
        }
        for at, step in enumerate(steps)
    )
    runs = runs.astype({"t_from_s": "float64", "t_to_s": "float64"})
    return Drain("vllm", workload, slots, runs, tokens.count(max(tokens)))
