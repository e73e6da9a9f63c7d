"""Two sources of variance told apart: between processes (repeats) and within one (samples).

Kalibera and Jones, Rigorous Benchmarking in Reasonable Time (ISMM 2013): a one-way random effects
model of the log throughputs, and the number of samples that gives the narrowest interval for the
time spent, sqrt(cost of a repeat / cost of a sample * variance within / variance between).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from fourcells.analysis.load import Timings
from fourcells.analysis.timings import windows

CELL = ["engine", "workload", "slots"]
COLUMNS = [
    *CELL, "repeats", "samples", "between_sd", "within_sd", "total_sd", "repeat_s", "sample_s",
    "best_samples", "advice",
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(["engine", "workload", "advice"], "str"),
    **dict.fromkeys(["slots", "repeats", "samples"], "int64"),
    **dict.fromkeys(COLUMNS[5:10], "float64"),
    "best_samples": "Int64",
}


def variance_table(timings: Timings) -> pd.DataFrame:
    """One row per cell, of so many `repeats` with at most `samples` windows each.

    `within_sd`: deviation of log tok/s between the windows of one process. `between_sd`: that
    between repeats with the windows' share taken out, 0 when nothing is left of it. Null where it
    cannot be estimated: one sample has no within, and what repeats then differ by, `total_sd` (of
    the repeats' mean logs), is both together.

    `repeat_s`: mean seconds of load and warm-up, what a repeat costs beside its windows;
    `sample_s`: mean seconds of one more window. Null where not recorded.
    """
    table = windows(timings).join(timings.plan[CELL], on="timing")
    rates = table["tokens"] / table["window_s"]
    table["log"] = np.log(rates)
    overhead = [_overhead(meta["provenance"]) for meta in timings.metadata]
    table["repeat_s"] = table["timing"].map(dict(enumerate(overhead))).astype("float64")
    rows = []
    for key, cell in table.groupby(CELL, sort=False):
        groups = [g.to_numpy() for _, g in cell.groupby("timing")["log"]]
        repeat_s = cell.drop_duplicates("timing")["repeat_s"].mean()
        sample_s = cell["window_s"].mean()
        between, within = components(groups)
        best = best_samples(between, within, repeat_s, sample_s)
        means = [group.mean() for group in groups]
        repeats, samples = len(groups), max(map(len, groups))
        rows.append(
            {
                **dict(zip(CELL, key, strict=True)),
                "repeats": repeats,
                "samples": samples,
                "between_sd": between,
                "within_sd": within,
                "total_sd": np.std(means, ddof=1) if repeats > 1 else None,
                "repeat_s": repeat_s,
                "sample_s": sample_s,
                "best_samples": best,
                "advice": advice(repeats, samples, between, best),
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def _overhead(provenance: dict) -> float | None:
    """Seconds of load and warm-up; None if neither is recorded."""
    parts = [s for key in ("load_s", "warmup_s") if (s := provenance.get(key)) is not None]
    return sum(parts) if parts else None


def components(groups: Sequence[np.ndarray]) -> tuple[float | None, float | None]:
    """(between, within): deviations by the analysis of variance, also for unequal groups.

    Args:
        groups: the logs of the samples of each repeat.
    """
    sizes = np.array([len(group) for group in groups])
    count, repeats = sizes.sum(), len(groups)
    if count == repeats:
        return None, None
    means = np.array([group.mean() for group in groups])
    within = sum(((group - group.mean()) ** 2).sum() for group in groups) / (count - repeats)
    if repeats == 1:
        return None, math.sqrt(within)
    grand = (sizes * means).sum() / count
    among = (sizes * (means - grand) ** 2).sum() / (repeats - 1)
    # The size of a group, when all are equal.
    typical = (count - (sizes**2).sum() / count) / (repeats - 1)
    return math.sqrt(max(0.0, (among - within) / typical)), math.sqrt(within)


def best_samples(
    between: float | None, within: float | None, repeat_s: float, sample_s: float
) -> int | None:
    """Samples per repeat that narrow the interval most for the time spent, at least 1.

    Null where a deviation or a cost is not known, or where repeats differ by nothing of their
    own: then no number of samples is too many.
    """
    known = None not in (between, within) and math.isfinite(repeat_s) and sample_s > 0
    if not known or between == 0:
        return None
    return max(1, math.ceil(math.sqrt(repeat_s / sample_s) * within / between))


def advice(repeats: int, samples: int, between: float | None, best: int | None) -> str:
    """One sentence: what to spend time on."""
    if repeats == 1 and samples == 1:
        return "More repeats: one window tells nothing about noise."
    if repeats == 1:
        return "More repeats: one repeat tells nothing about the noise between processes."
    if samples == 1:
        return (
            "More repeats: with one sample per repeat the two sources cannot be told apart; "
            "measure once with samples: 2 or more to learn them."
        )
    if between == 0:
        return "More samples: repeats differ by no more than the windows of one process do."
    if best is None:
        return "More repeats: what a repeat costs is not recorded."
    if best > samples:
        return f"More samples: {best} per repeat, not {samples}, narrow the interval fastest."
    if best == samples:
        return f"More repeats: {samples} samples per repeat are the right number."
    few = "1 sample per repeat is" if best == 1 else f"{best} samples per repeat are"
    return f"More repeats: {few} enough."
