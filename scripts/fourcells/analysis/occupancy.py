"""How many rows each step has: one window of every cell, and the schedule computed beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from fourcells.analysis.load import Timings
from fourcells.analysis.schedules import block, simulation
from fourcells.schedule import ADMISSIONS
from fourcells.simulator import Step
from fourcells.spec import memory_limited

MEASURED, SIMULATED = "measured", "simulated"
CELL = ["engine", "workload", "slots"]
COLUMNS = [
    *CELL, "admission", "source", "step_from", "step_to", "t_from_s", "t_to_s", "rows",
    "useful_rows", "waiting",
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(["engine", "workload", "admission", "source"], "str"),
    **dict.fromkeys(
        ["slots", "step_from", "step_to", "rows", "useful_rows", "waiting"], "int64"
    ),
    **dict.fromkeys(["t_from_s", "t_to_s"], "float64"),
}  # fmt: skip


def occupancy_table(timings: Timings) -> pd.DataFrame:
    """One row per run of steps with equal `rows` and `useful_rows`, somebody waiting in all of them
    or in none, of every cell with a known admission whose requests are all there at t0.

    `measured`: the first window of the first repeat that has steps. `simulated`: the schedule of
    the same lengths, whose times (seconds from t0) are null; none where an option limits the KV
    cache, which it does not know. A run is the steps from `step_from`
    up to, not including, `step_to`; `waiting` requests had no slot in its first step.
    """
    stepped = set(timings.steps["timing"].unique())
    rows = []
    for cell, group in timings.plan.groupby(CELL, sort=False):
        timing = next((t for t in group.index if t in stepped), group.index[0])
        admission, spec = group["admission"].iloc[0], timings.metadata[timing]["spec"]
        if admission not in ADMISSIONS or not block(spec):
            continue
        key = {**dict(zip(CELL, cell, strict=True)), "admission": admission}
        if timing in stepped:
            rows += _runs(key | {"source": MEASURED}, *_measured(timings, timing))
        if not memory_limited(spec):
            counts = _counts(simulation(timings.metadata[timing], admission).steps)
            rows += _runs(key | {"source": SIMULATED}, counts, None)
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def _measured(timings: Timings, timing: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows, useful rows and waiting of each step [steps, 3] of a timing's first window, and the
    times at which its steps begin and the last one ends [steps + 1]."""
    steps, requests = (_of(frame, timing) for frame in (timings.steps, timings.requests))
    sample = steps["sample"].min()
    steps = steps[steps["sample"] == sample].sort_values("step")
    end = requests.loc[requests["sample"] == sample, "returned_s"].max()
    counts = steps[["rows", "useful_rows", "waiting"]].to_numpy()
    return counts, np.append(steps["t_s"].to_numpy(), end)


def _counts(steps: Sequence[Step]) -> np.ndarray:
    """Rows, useful rows and waiting of each step [steps, 3]."""
    return np.array([(step.rows, step.useful_rows, step.waiting) for step in steps])


def _of(frame: pd.DataFrame, timing: int) -> pd.DataFrame:
    """The rows of one timing: they lie together, timings in ascending order."""
    start, end = frame["timing"].searchsorted([timing, timing + 1])
    return frame.iloc[start:end]


def _runs(key: Mapping, counts: np.ndarray, times: np.ndarray | None) -> Iterator[dict]:
    # how many wait changes with nearly every admission; what matters is from when nobody does
    told = np.column_stack([counts[:, :2], counts[:, 2] > 0])
    changes = np.flatnonzero((told[1:] != told[:-1]).any(axis=1)) + 1
    edges = [0, *changes.tolist(), len(counts)]
    for start, end in pairwise(edges):
        rows, useful, waiting = counts[start].tolist()
        yield {
            **key,
            "step_from": start,
            "step_to": end,
            "t_from_s": None if times is None else times[start],
            "t_to_s": None if times is None else times[end],
            "rows": rows,
            "useful_rows": useful,
            "waiting": waiting,
        }
