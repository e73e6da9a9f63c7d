"""What the step model and the simulator say beforehand of every cell, beside what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from fourcells.analysis.load import Timings
from fourcells.analysis.pairs import Cell
from fourcells.analysis.schedules import block, simulation
from fourcells.analysis.step_model import StepModel, graph_tokens, models, uniform_timings
from fourcells.analysis.timings import windows
from fourcells.schedule import ADMISSIONS
from fourcells.simulator import bounds
from fourcells.spec import memory_limited
from fourcells.workload import lengths

COLUMNS = [
    "engine", "workload", "slots", "admission", "fitted", "steps_computed", "steps_measured",
    "rows_mean_computed", "predicted_s", "measured_s", "predicted_tok_s", "measured_tok_s",
    "residual", "decode_only_s", "decode_only_residual", "bound_longest", "bound_share",
    "bound_graham",
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(COLUMNS, "float64"),
    **dict.fromkeys(["engine", "workload", "admission"], "str"),
    "slots": "int64",
    "fitted": "bool",
    **dict.fromkeys(["steps_computed", "bound_longest", "bound_share"], "Int64"),
}


@dataclass(frozen=True)
class Expected:
    """Of one window: the schedule's steps and mean rows, and the model's seconds with and without
    what prompts cost. None where it cannot be told."""

    steps: int | None = None
    rows_mean: float | None = None
    seconds: float | None = None
    decode_only: float | None = None


def prediction_table(timings: Timings, step_model: pd.DataFrame) -> pd.DataFrame:
    """One row per cell; windows in seconds and steps are means over its repeats and samples.

    Args:
        step_model: as `step_model_table` makes it.

    `fitted`: its own steps are part of the fit. `residual` = predicted / measured seconds - 1, and
    `decode_only_residual` the same of a model without the terms of prompts. The bounds are in
    steps; under later arrivals or a limited KV cache there is no upper one. Null: an admission
    that the simulator does not know, a KV cache that an option limits, or a model that does not
    speak for the cell's steps.
    """
    model_of = models(step_model, timings)
    measured = windows(timings).groupby("timing")[["window_s", "steps"]].mean()
    measured = timings.plan.join(measured.astype("float64"))
    with_steps = set(timings.steps["timing"].unique())
    fitted = uniform_timings(timings) & with_steps
    rows = []
    for cell, repeats in measured.groupby(["engine", "workload", "slots"], sort=False):
        engine, workload, slots = cell
        first = repeats.index[0]
        meta, admission = timings.metadata[first], repeats["admission"].iloc[0]
        requests, seed = meta["spec"]["requests"], meta["spec"]["seed"]
        outputs = [output for _, output in lengths(requests, seed)]
        found = expected(meta, admission, model_of.get(engine))
        limits = bounds(outputs, slots)
        seconds = repeats["window_s"].mean()
        rows.append(
            {
                "engine": engine,
                "workload": workload,
                "slots": slots,
                "admission": admission,
                "fitted": engine in model_of and not fitted.isdisjoint(repeats.index),
                "steps_computed": found.steps,
                "steps_measured": repeats["steps"].mean(),
                "rows_mean_computed": found.rows_mean,
                "predicted_s": found.seconds,
                "measured_s": seconds,
                "predicted_tok_s": found.seconds and sum(outputs) / found.seconds,
                "measured_tok_s": sum(outputs) / seconds,
                "residual": found.seconds and found.seconds / seconds - 1,
                "decode_only_s": found.decode_only,
                "decode_only_residual": found.decode_only and found.decode_only / seconds - 1,
                "bound_longest": limits.longest,
                "bound_share": limits.share,
                "bound_graham": limits.graham if _free(meta["spec"]) else None,
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def predicted_seconds(prediction: pd.DataFrame) -> dict[Cell, float]:
    """The predicted window of every cell that has one."""
    known = prediction.dropna(subset="predicted_s")
    columns = ["engine", "workload", "slots", "predicted_s"]
    return {tuple(cell): s for *cell, s in known[columns].itertuples(index=False, name=None)}


def expected(meta: Mapping, admission: str | None, model: StepModel | None) -> Expected:
    """What is known of a cell beforehand.

    Args:
        meta: of one of its timings.
        model: that of its machine group, if there is one.
    """
    if admission not in ADMISSIONS or memory_limited(meta["spec"]):
        return Expected()
    if model:
        # graphs may be captured anew for each number of slots
        model = replace(model, graph_tokens=graph_tokens(meta["applied"]))
    if not block(meta["spec"]):
        # who waits at which step follows from the clock
        if model is None or not model.whole:
            return Expected()
        served = simulation(meta, admission, model.seconds)
        decode_only = simulation(meta, admission, model.decode).window_s
        window = served.window_s
    else:
        served = simulation(meta, admission)
        steps = Counter((step.rows, step.tokens - step.rows) for step in served.steps)
        window = model and _total(model.seconds, steps)
        decode_only = model and _total(model.decode, steps)
    rows_mean = sum(step.rows for step in served.steps) / len(served.steps)
    return Expected(len(served.steps), rows_mean, window, decode_only)


def _free(spec: Mapping) -> bool:
    """Whether a slot that is free is taken while there are requests left."""
    return block(spec) and not memory_limited(spec)


def _total(seconds: Callable[[int, int], float | None], steps: Mapping) -> float | None:
    """Seconds of all steps; None when one of them cannot be told."""
    each = {step: seconds(*step) for step in steps}
    if None in each.values():
        return None
    return sum(count * each[step] for step, count in steps.items())
