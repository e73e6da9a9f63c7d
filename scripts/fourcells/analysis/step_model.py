"""How long a step takes, fitted on the uniform workload alone, to predict the mixed one.

    seconds(step) = a + c * rows + p * [some prompt is computed] + d * (tokens - rows)

All engines of a machine group run the same forward, so they share one model. Where CUDA graphs
hold steps with prompts, p is what a step costs that is too large for them, and counts there only.

Equal requests leave some terms together: with one number of rows in every step, c cannot be told
from a, and with one size of admission, d cannot be told from p. Then the first of the two holds
both, and the model speaks for steps of that number or size only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from fourcells.analysis import lesson
from fourcells.analysis.groups import Engine, engines_of, representative
from fourcells.analysis.load import Timings
from fourcells.analysis.schedules import block
from fourcells.analysis.timings import WINDOW, served
from fourcells.workload import lengths

COLUMNS = [
    "engine", "engines", "a_s", "c_s", "p_s", "d_s", "a_over_c", "c_known", "p_known", "d_known",
    "rows_known", "extra_known", "graph_tokens", "steps", "cells", "lesson_a_s", "lesson_c_s",
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(["engine", "engines", "cells"], "str"),
    **dict.fromkeys(["a_s", "c_s", "p_s", "d_s", "a_over_c"], "float64"),
    **dict.fromkeys(["c_known", "p_known", "d_known"], "bool"),
    **dict.fromkeys(["rows_known", "extra_known", "graph_tokens"], "Int64"),
    "steps": "int64",
    **dict.fromkeys(["lesson_a_s", "lesson_c_s"], "float64"),
}


# vLLM's graphs that may hold prompts; others hold decode steps only, or nothing.
HOLD_PROMPTS = ("FULL", "PIECEWISE", "FULL_AND_PIECEWISE")


@dataclass(frozen=True)
class StepModel:
    """Seconds of a step; a term that is None is unknown.

    Attributes:
        rows_known: with c unknown, the one number of rows that a speaks for.
        extra_known: with p known and d not, the one number of tokens beyond one per row.
        graph_tokens: the most tokens of a step that a graph holds, prompts or not; None without.
    """

    a: float
    c: float | None
    p: float | None
    d: float | None
    rows_known: int | None
    extra_known: int | None
    graph_tokens: int | None

    @property
    def whole(self) -> bool:
        """Every step can be told."""
        return None not in (self.c, self.p, self.d)

    def decode(self, rows: int, extra: int) -> float | None:
        """Without what prompts cost."""
        if self.c is not None:
            return self.a + self.c * rows
        return self.a if rows == self.rows_known else None

    def seconds(self, rows: int, extra: int) -> float | None:
        """Of a step of `rows` rows that computes `extra` tokens beyond one per row."""
        decode = self.decode(rows, extra)
        if not extra or decode is None:
            return decode
        outside = rows + extra > (self.graph_tokens or 0)
        if self.d is None:
            # p holds the tokens too
            return decode + self.p if outside and extra == self.extra_known else None
        if outside and self.p is None:
            return None
        return decode + (self.p if outside else 0.0) + self.d * extra


def graph_tokens(applied: Mapping) -> int | None:
    """The most tokens of a step that a captured CUDA graph holds, prompts or not; None where no
    graph holds prompts.

    Args:
        applied: of a timing. vLLM pads a step to the next size that it captured, and runs larger
            ones without a graph.
    """
    sizes = applied.get("cudagraph_capture_sizes")
    return max(sizes) if sizes and applied.get("graphs") in HOLD_PROMPTS else None


def fit(steps: pd.DataFrame) -> StepModel | None:
    """Non-negative least squares over steps (`rows`, `extra` tokens, `graph_tokens`, which is 0
    without graphs, and `seconds`), each counted once; None when none of them only decodes."""
    # equal steps are one equation, weighted by their number: the same solution, far fewer rows
    kinds = ["rows", "extra", "graph_tokens"]
    cells = steps.groupby(kinds)["seconds"].agg(["mean", "size"]).reset_index()
    rows, extra, held = (cells[name].to_numpy("float64") for name in kinds)
    prefills = extra > 0
    outside = prefills & (rows + extra > held)
    row_counts, sizes = np.unique(rows[~prefills]), np.unique(extra[prefills])
    if not len(row_counts):
        return None
    c_known, p_known = len(row_counts) > 1, bool(outside.any())
    # what a graph holds has d without p
    d_known = len(sizes) > 1 or bool((prefills & ~outside).any())
    terms = {"a": np.ones(len(cells))}
    if c_known:
        terms["c"] = rows
    if p_known:
        terms["p"] = outside.astype(float)
    if d_known:
        terms["d"] = extra
    design = np.column_stack(list(terms.values()))
    # columns of one size: tokens are counted in thousands, seconds in thousandths
    scale, weight = design.max(axis=0), np.sqrt(cells["size"].to_numpy())
    solution, _ = nnls(design / scale * weight[:, None], cells["mean"].to_numpy() * weight)
    found = dict(zip(terms, (solution / scale).tolist(), strict=True))
    return StepModel(
        **{name: found.get(name) for name in ("a", "c", "p", "d")},
        rows_known=None if c_known else int(row_counts[0]),
        extra_known=int(sizes[0]) if p_known and not d_known else None,
        graph_tokens=int(held.max()) or None,
    )


def durations(timings: Timings, keep: set[int]) -> pd.DataFrame:
    """`timing`, `rows`, `extra` (tokens beyond one per row), `graph_tokens` (0 without) and
    `seconds` of every step of the timings to keep. A step lasts until the next one starts, the
    last one of a window until its last request is returned."""
    steps = timings.steps[timings.steps["timing"].isin(keep)].sort_values([*WINDOW, "step"])
    ends = steps.groupby(WINDOW)["t_s"].shift(-1)
    windows = steps[WINDOW].join(served(timings.requests)["window_s"], on=WINDOW)["window_s"]
    held = {timing: graph_tokens(timings.metadata[timing]["applied"]) or 0 for timing in keep}
    return pd.DataFrame(
        {
            "timing": steps["timing"],
            "rows": steps["rows"],
            "extra": steps["tokens"] - steps["rows"],
            "graph_tokens": steps["timing"].map(held),
            "seconds": ends.fillna(windows) - steps["t_s"],
        }
    )


def uniform(spec: Mapping) -> bool:
    """Whether a timing's requests are all equal and all there at t0."""
    return block(spec) and len(set(lengths(spec["requests"], spec["seed"]))) == 1


def uniform_timings(timings: Timings) -> set[int]:
    """The timings of uniform workloads; one name is one list of requests."""
    first = timings.plan.drop_duplicates("workload")
    named = {row.workload for row in first.itertuples() if uniform(_spec(timings, row.Index))}
    return set(timings.plan.index[timings.plan["workload"].isin(named)])


def step_model_table(timings: Timings) -> pd.DataFrame:
    """One row per machine group with a uniform workload, over all its repeats and samples.

    `engine` stands for the group, `engines` lists it, `cells` what was fitted. Terms in seconds per
    step (`a_s`, `p_s`), per row (`c_s`) and per token beyond one per row (`d_s`); `a_over_c` in
    rows. A term that is not known is null; see the module, `rows_known` and `extra_known` for what
    stands in. `graph_tokens`: p counts for steps of more tokens only (of the largest graphs, where
    they differ between the cells). The lesson's terms follow from its figures on workload A.
    """
    engines = engines_of(timings)
    steps = durations(timings, uniform_timings(timings))
    groups: dict[str, list[Engine]] = {}
    for engine in engines.values():
        groups.setdefault(engine.group, []).append(engine)
    group_of = timings.plan["engine"].map({e.name: e.group for e in engines.values()})
    lesson_engines = timings.plan.drop_duplicates("engine").set_index("engine")["lesson_engine"]
    rows = []
    for group, of_group in steps.groupby(steps["timing"].map(group_of)):
        model = fit(of_group)
        if model is None:
            continue
        fitted = timings.plan.loc[of_group["timing"].unique()]
        rows.append(_row(model, groups[group], fitted, lesson_engines) | {"steps": len(of_group)})
    place = {name: number for number, name in enumerate(engines)}
    rows.sort(key=lambda row: place[row["engine"]])
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def _row(
    model: StepModel, members: list[Engine], fitted: pd.DataFrame, lesson_engines: pd.Series
) -> dict:
    first = representative(members)
    slots = sorted(set(fitted["slots"]))
    known = (lesson.cell(lesson_engines[first.name], s) for s in slots)
    lesson_a, lesson_c = lesson.step_model(next(filter(None, known), None))
    cells = fitted[["engine", "workload", "slots"]].drop_duplicates()
    return {
        "engine": first.name,
        "engines": ", ".join(engine.name for engine in members),
        "a_s": model.a,
        "c_s": model.c,
        "p_s": model.p,
        "d_s": model.d,
        "a_over_c": model.a / model.c if model.c else None,
        "c_known": model.c is not None,
        "p_known": model.p is not None,
        "d_known": model.d is not None,
        "rows_known": model.rows_known,
        "extra_known": model.extra_known,
        "graph_tokens": model.graph_tokens,
        "cells": ", ".join(f"{e} {w} {s}" for e, w, s in cells.itertuples(index=False)),
        "lesson_a_s": lesson_a,
        "lesson_c_s": lesson_c,
    }


def models(step_model: pd.DataFrame, timings: Timings) -> dict[str, StepModel]:
    """The model of every engine whose machine group has one."""
    engines = engines_of(timings)
    found = {
        engines[row.engine].group: StepModel(
            *(_known(getattr(row, name)) for name in ("a_s", "c_s", "p_s", "d_s")),
            *(_known(getattr(row, name)) for name in ("rows_known", "extra_known", "graph_tokens")),
        )
        for row in step_model.itertuples()
    }
    return {name: found[e.group] for name, e in engines.items() if e.group in found}


def _known(value):
    return None if pd.isna(value) else value


def _spec(timings: Timings, timing: int) -> Mapping:
    return timings.metadata[timing]["spec"]
