"""The four cells of the comparison: which engines, workloads and slot counts stand in them."""

from __future__ import annotations

from dataclasses import dataclass

from fourcells.report.data import Data
from fourcells.report.drain import CONTINUOUS, drain_of, lengths
from fourcells.report.evidence import pair
from fourcells.report.grid import first, mean
from fourcells.report.grids import workload_pair

PADDED = "padded"


@dataclass(frozen=True)
class Design:
    """A cell is one of `engines` (the baseline first) on one of `workloads` (the uniform one
    first) at `slots`. `further`: (engine, slots) measured beside them, on one of the workloads.
    Of engines and workloads there may be one or two."""

    engines: list[str]
    workloads: list[str]
    slots: int
    further: list[tuple[str, int]]

    @property
    def whole(self) -> bool:
        return len(self.engines) == len(self.workloads) == 2


@dataclass(frozen=True)
class CellFacts:
    """What is known of one cell; `n` counts its repeats, 0 when it was not measured. `steps` and
    `rows_mean` (rows in a step) are those of one window."""

    engine: str
    workload: str
    slots: int
    n: int
    tok_s: float | None
    verdicts: list[str]
    admission: str | None
    steps: int | None
    rows_mean: float | None
    idle_rows: float | None
    computed_idle_rows: float | None


def design(data: Data) -> Design | None:
    """The cells of the page's main pair; without a pair, those of what was measured. None without
    any timing."""
    frame = data.throughput[data.throughput.tok_s.notna()]
    if frame.empty:
        return None
    of = pair(data)
    workloads = _workloads(data, frame)
    if of is not None:
        engines, slots = [of.baseline, of.engine], of.slots
    else:
        engines = _engines(data, frame)
        own = frame[frame.engine.eq(engines[0]) & frame.workload.isin(workloads)]
        slots = int(own.slots.min())
    other = frame[frame.engine.isin(engines) & frame.workload.isin(workloads)]
    other = other[other.slots.ne(slots)][["engine", "slots"]].drop_duplicates()
    further = [(str(engine), int(count)) for engine, count in other.itertuples(index=False)]
    return Design(engines, workloads, slots, sorted(further, key=lambda key: key[1]))


def _workloads(data: Data, frame) -> list[str]:
    """The uniform and the mixed one; of a single kind the first, of neither the first measured."""
    uniform, mixed = workload_pair(data)
    if uniform is not None:
        return [uniform, mixed]
    measured = [str(workload) for workload in frame.workload.unique()]
    even = [w for w in measured if len(lengths(data, w)) == 1][:1]
    uneven = [w for w in measured if len(lengths(data, w)) > 1][:1]
    return even + uneven or measured[:1]


def _engines(data: Data, frame) -> list[str]:
    """A padded and a continuous one without a ratio between them, or the first measured."""
    admission = {engine: cell_admission(data, engine) for engine in frame.engine.unique()}
    padded = [engine for engine, kind in admission.items() if kind == PADDED][:1]
    others = [engine for engine, kind in admission.items() if kind == CONTINUOUS][:1]
    return [str(engine) for engine in padded + others or list(admission)[:1]]


def cell_admission(data: Data, engine: str) -> str | None:
    found = first(data.idle[data.idle.engine.eq(engine)].admission)
    return None if found is None else str(found)


def cell(data: Data, engine: str, workload: str, slots: int) -> CellFacts:
    """The facts of one cell, measured or not."""

    def own(frame):
        same = frame.engine.eq(engine) & frame.workload.eq(workload)
        return frame[same & frame.slots.eq(slots)]

    rates, idle = own(data.throughput), own(data.idle)
    window = drain_of(data, engine, workload, slots)
    return CellFacts(
        engine=engine,
        workload=workload,
        slots=slots,
        n=int(rates.tok_s.count()),
        tok_s=mean(rates.tok_s),
        verdicts=list(data.summary_cell(engine, workload, slots).get("verdicts") or []),
        admission=cell_admission(data, engine),
        steps=None if window is None else window.steps,
        rows_mean=None if window is None else window.rows_mean,
        idle_rows=mean(idle.idle_rows),
        computed_idle_rows=mean(idle.computed_idle_rows),
    )
