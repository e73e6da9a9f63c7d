"""KV memory over one window of every cell with a limited cache: taken, used, and by how many."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fourcells.analysis.load import Timings
from fourcells.analysis.reservations import CELL, cells, limits

POINTS = 200
COLUMNS = [*CELL, "t_s", "reserved", "held", "rows", "preempted"]
_TYPES = {
    **dict.fromkeys(["engine", "workload"], "str"),
    **dict.fromkeys(["slots", "rows", "preempted"], "int64"),
    **dict.fromkeys(["t_s", "reserved", "held"], "float64"),
}


def reservation_timeline_table(timings: Timings) -> pd.DataFrame:
    """At most `POINTS` rows per cell: the first window of the first repeat that has steps.

    Each is a step, at evenly spaced places, and what holds until the next row: `t_s` its start,
    seconds from t0; `reserved` and `held`, shares of the usable tokens in blocks that are taken and
    with keys and values; `rows`; and `preempted`, a sum over the steps up to the next row. The last
    row of a cell is the window's end, where nothing is held.
    """
    stepped = set(timings.steps["timing"].unique())
    tables = []
    for cell, of_cell in cells(timings):
        timing = next((t for t in of_cell if t in stepped), None)
        if timing is not None:
            usable = limits(timings.metadata[timing])["usable_tokens"]
            tables.append(_points(timings, timing, usable).assign(**cell))
    table = pd.concat(tables) if tables else pd.DataFrame(columns=COLUMNS)
    return table[COLUMNS].reset_index(drop=True).astype(_TYPES)


def _points(timings: Timings, timing: int, usable: int) -> pd.DataFrame:
    steps = timings.steps[timings.steps["timing"] == timing]
    sample = steps["sample"].min()
    steps = steps[steps["sample"] == sample].sort_values("step")
    requests = timings.requests[timings.requests["timing"] == timing]
    end = requests.loc[requests["sample"] == sample, "returned_s"].max()
    # one point is the end
    count = min(len(steps), POINTS - 1)
    places = np.arange(count) * len(steps) // count
    chosen = steps.iloc[places]
    held = chosen["kv_tokens"].to_numpy("float64", na_value=np.nan) / usable
    return pd.DataFrame(
        {
            "t_s": [*chosen["t_s"], end],
            "reserved": [*chosen["kv_used"], 0.0],
            "held": [*held, 0.0],
            "rows": [*chosen["rows"], 0],
            "preempted": [*np.add.reduceat(steps["preempted"].to_numpy(), places), 0],
        }
    )
