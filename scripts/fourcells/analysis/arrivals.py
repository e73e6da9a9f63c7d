"""Requests that keep coming: does a freed slot find somebody who waits?

The lesson says that it usually does at high load and stays empty at low load.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pandas as pd

from fourcells.analysis import ranks
from fourcells.analysis.load import KEYS, Timings
from fourcells.analysis.schedules import block

BLOCK = "block"
_SECONDS = [
    "ttft_median_s", "ttft_p90_s", "e2e_median_s", "e2e_p90_s", "late_max_s", "late_mean_s",
]  # fmt: skip
COLUMNS = [
    *KEYS, "process", "rate", "requests", "window_s", "slot_use", "freed", "refilled",
    "refilled_share", *_SECONDS,
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(["engine", "workload", "process"], "str"),
    **dict.fromkeys(["slots", "repeat", "requests"], "int64"),
    **dict.fromkeys(["freed", "refilled"], "Int64"),
    **dict.fromkeys(["rate", "window_s", "slot_use", "refilled_share", *_SECONDS], "float64"),
}


def arrivals_table(timings: Timings, requests: pd.DataFrame) -> pd.DataFrame:
    """One row per timing of a continuous engine and a workload whose requests keep coming; and,
    beside it, one with the same lengths and slots whose requests are all there at t0.

    Args:
        timings: those that count.
        requests: as `requests_table` gives it.

    Counts and `window_s` are sums over the samples. `rate`: requests per second, null for a block.
    `slot_use`: mean over the window of the share of slots that hold a request. `freed`: requests
    that finished before the last step began; `refilled` of their slots were taken in the very next
    step, by a request that had arrived by then. Both are null without steps. TTFT and E2E
    (returned) count from a request's own arrival; `late_*`: how late the sender was.
    """
    specs = [meta["spec"] for meta in timings.metadata]
    continuous = timings.plan.index[timings.plan["admission"] == "continuous"]
    served = {timing: _served(specs[timing]) for timing in continuous}
    wanted = {served[timing] for timing in continuous if not block(specs[timing])}
    chosen = [timing for timing in continuous if served[timing] in wanted]
    keys = timings.plan.loc[chosen, KEYS]
    requests = requests[requests["workload"].isin(keys["workload"])]
    groups = requests.groupby(KEYS, sort=False)
    rows = [
        dict(zip(KEYS, key, strict=True))
        | _row(groups.get_group(tuple(key)), _steps(timings, timing), specs[timing])
        for timing, *key in keys.itertuples(name=None)
    ]
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def _served(spec: Mapping) -> str:
    """Equal for the same lengths by the same engine and slots, whenever the requests arrive."""
    requests = {key: value for key, value in spec["requests"].items() if key != "arrival"}
    return json.dumps([spec["engine"], spec["slots"], requests], sort_keys=True)


def _steps(timings: Timings, timing: int) -> pd.DataFrame:
    start, end = timings.steps["timing"].searchsorted([timing, timing + 1])
    return timings.steps.iloc[start:end]


def _row(requests: pd.DataFrame, steps: pd.DataFrame, spec: Mapping) -> dict:
    windows = [window for _, window in requests.groupby("sample")]
    starts = {sample: np.sort(s["t_s"].to_numpy()) for sample, s in steps.groupby("sample")}
    window_s = sum(window["returned_s"].max() for window in windows)
    held_s = (requests["finished_s"] - requests["admitted_s"]).sum()
    counts = [refills(window, starts.get(window["sample"].iloc[0])) for window in windows]
    freed, refilled = (None, None) if None in counts else map(sum, zip(*counts, strict=True))
    arrival = spec["requests"].get("arrival") or {"process": BLOCK, "rate": None}
    times = {
        f"{name}_{end}_s": value
        for name, column in (("ttft", "ttft_s"), ("e2e", "e2e_returned_s"))
        for end, value in _percentiles(requests[column].to_numpy()).items()
    }
    return {
        "process": arrival["process"],
        "rate": arrival["rate"],
        "requests": len(requests),
        "window_s": window_s,
        "slot_use": held_s / (window_s * spec["slots"]),
        "freed": freed,
        "refilled": refilled,
        "refilled_share": refilled / freed if freed else None,
        **times,
        "late_max_s": requests["late_s"].max(),
        "late_mean_s": requests["late_s"].mean(),
    }


def refills(requests: pd.DataFrame, starts: np.ndarray | None) -> tuple[int, int] | None:
    """(freed, refilled) of one window, None without steps.

    Args:
        requests: `arrival_s`, `admitted_s` and `finished_s` of each.
        starts: of its steps, ascending, on the same clock.
    """
    if starts is None:
        return None
    columns = ["arrival_s", "admitted_s", "finished_s"]
    arrival, admitted, finished = (requests[column].to_numpy() for column in columns)
    # the first step that begins once the slot is free; a step begins where the one before ends
    after = np.searchsorted(starts, finished, side="left")
    entered = _nearest(starts, admitted)
    freed = refilled = 0
    for step in np.unique(after[after < len(starts)]):
        left = after == step
        # Who came only after the slot was free did not wait for it: it stood empty.
        there = (entered == step) & (arrival <= finished[left].max())
        freed += int(left.sum())
        refilled += int(min(left.sum(), there.sum()))
    return freed, refilled


def _nearest(starts: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The step that begins nearest to each time: engines note an admission a little before or
    after the step that it belongs to."""
    right = np.searchsorted(starts, times).clip(1, max(1, len(starts) - 1))
    left = right - 1
    right = right.clip(max=len(starts) - 1)
    return np.where(times - starts[left] <= starts[right] - times, left, right)


def _percentiles(values: np.ndarray) -> dict[str, float | None]:
    """Median and 90th percentile; null where the count does not allow it."""
    ordered = ranks.sorted_groups(values, np.zeros(len(values), dtype="int64"), 1)
    return {"median": float(np.median(values)), "p90": ranks.quantiles(ordered, 0.9)[0]}
