"""How long requests wait for memory before they are admitted, by output length."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fourcells.analysis import ranks
from fourcells.analysis.load import Timings
from fourcells.analysis.reservations import CELL, cells

COLUMNS = [*CELL, "output_tokens", "n", "wait_median_s", "wait_p90_s"]
_TYPES = {
    **dict.fromkeys(["engine", "workload"], "str"),
    **dict.fromkeys(["slots", "output_tokens", "n"], "int64"),
    **dict.fromkeys(["wait_median_s", "wait_p90_s"], "float64"),
}


def reservation_waits_table(timings: Timings) -> pd.DataFrame:
    """One row per cell of a limited KV cache and output length, over all repeats and samples.

    Seconds from a request's arrival to its first admission, `n` requests; what it loses when it is
    preempted later is no part of it. p90 is null where the count does not allow it.
    """
    rows = []
    for cell, of_cell in cells(timings):
        requests = timings.requests[timings.requests["timing"].isin(of_cell)]
        waits = requests["admitted_s"] - requests["arrival_s"]
        for tokens, of_length in waits.groupby(requests["output_tokens"]):
            values = of_length.to_numpy()
            ordered = ranks.sorted_groups(values, np.zeros(len(values), dtype="int64"), 1)
            rows.append(
                {
                    **cell,
                    "output_tokens": tokens,
                    "n": len(values),
                    "wait_median_s": np.median(values),
                    "wait_p90_s": ranks.quantiles(ordered, 0.9)[0],
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)
