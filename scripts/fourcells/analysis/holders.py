"""Who holds which slot from when to when: every request of one window of every cell."""

from __future__ import annotations

import math

import pandas as pd

from fourcells.analysis.load import Timings
from fourcells.analysis.schedules import block
from fourcells.schedule import ADMISSIONS
from fourcells.spec import MAIN

CELL = ["engine", "workload", "slots"]
_TIMES = ["admitted_s", "first_token_s", "finished_s", "returned_s"]
COLUMNS = [*CELL, "admission", "repeat", "request", "slot", "output_tokens", *_TIMES]
MICROSECONDS = 6
_TYPES = {
    **dict.fromkeys(["engine", "workload", "admission"], "str"),
    **dict.fromkeys(["slots", "repeat", "request", "slot", "output_tokens"], "int64"),
    **dict.fromkeys(_TIMES, "float64"),
}


def holders_table(timings: Timings) -> pd.DataFrame:
    """One row per request of the first window of the first repeat of every cell of the set main
    with a known admission whose requests are all there at t0; in order of admission.

    Seconds from t0, as measured. `slot`, from 0, is not measured but assigned: see `slots_of`.
    """
    frames = []
    plan = timings.plan[timings.plan["set"].eq(MAIN)]
    for _, group in plan.groupby(CELL, sort=False):
        timing, cell = group.index[0], group.iloc[0]
        if cell["admission"] not in ADMISSIONS or not block(timings.metadata[timing]["spec"]):
            continue
        requests = timings.requests[timings.requests["timing"].eq(timing)]
        requests = requests[requests["sample"].eq(requests["sample"].min())]
        requests = requests.sort_values(["admitted_s", "request"], kind="stable")
        slot = slots_of(requests, cell["slots"])
        told = {key: cell[key] for key in (*CELL, "admission", "repeat")}
        frames.append(requests.assign(**told, slot=slot)[COLUMNS])
    whole = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=COLUMNS)
    # no clock is better, and the page carries this table
    return whole.astype(_TYPES).round(MICROSECONDS)


def slots_of(requests: pd.DataFrame, slots: int) -> list[int]:
    """The slot of each request: the lowest that is free when it is admitted.

    A slot is free again from the instant at which its request is finished, for a padded or waving
    engine when the next batch begins, where all are. An engine may stamp an admission before the
    end that made room for it: then nobody is turned away, but takes the slot that is freed first,
    and the two overlap by that difference of stamps.

    Args:
        requests: of one window, in order of admission.
        slots: how many there are.
    """
    # refilled slots know no waves: all requests are one
    batches = requests["wave"].fillna(0)
    taken, batch = [], None
    ends = zip(batches, requests["admitted_s"], requests["finished_s"], strict=True)
    for number, admitted, finished in ends:
        if number != batch:
            # slots beyond the number of requests are never taken
            batch, free_from = number, [-math.inf] * min(slots, len(requests))
        free = [slot for slot, since in enumerate(free_from) if since <= admitted]
        slot = free[0] if free else free_from.index(min(free_from))
        free_from[slot] = finished
        taken.append(slot)
    return taken
