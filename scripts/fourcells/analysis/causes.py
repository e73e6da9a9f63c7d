"""The summary's account of which idea does what, and of the step model."""

from __future__ import annotations

import pandas as pd

MIXED = "B"
# The factors that stand at the top of the summary, and the path that they belong to.
PATH = "engine_first"
FACTORS = ("engine", "early_exit", "refill")
PATHS = (PATH, "scheduling_first", "compiled_first")
POOLED = ["estimate", "low", "high", "n"]


def attribution(table: pd.DataFrame, pair: tuple | None) -> dict:
    """The attribution of one pair on the mixed workload.

    Args:
        table: as `attribution_table` gives it.
        pair: (name, engine, baseline, slots) of the pair's ratio on the mixed workload, as
            `Ratio.key`; None without one.

    Returns:
        `workload` and `pair` (engine, baseline, slots); one object per factor (`estimate`, `low`,
        `high`, `n`, `predicted`, `above`, `below`, `per_repeat`) under `engine`, `early_exit`,
        `refill`, `total` and `interaction`; objects by factor under `between` and `estimate`; and
        `paths`, a list of them by path. What was not measured is null with n = 0, such a path is
        empty.
    """
    _, engine, baseline, slots = pair or (None, None, None, None)
    rows = table[(table["workload"] == MIXED) & (table["engine"] == engine)]
    rows = rows[(rows["baseline"] == baseline) & (rows["slots"] == slots)]
    found = {
        path: [_factor(factor) for _, factor in of_path.groupby("place")]
        for path, of_path in rows.groupby("path")
    }
    by_name = {path: {f["factor"]: f for f in factors} for path, factors in found.items()}
    chain, between = by_name.get(PATH, {}), by_name.get("between", {})
    return {
        "workload": MIXED,
        "pair": {"engine": engine, "baseline": baseline, "slots": slots},
        **{name: chain.get(name, _NOTHING) for name in FACTORS},
        "total": by_name.get("total", {}).get("total", _NOTHING),
        "paths": {path: found.get(path, []) for path in PATHS},
        "interaction": between.get("interaction", _NOTHING),
        "between": between,
        "estimate": by_name.get("estimate", {}),
    }


_NOTHING = {"estimate": None, "low": None, "high": None, "n": 0}


def _factor(rows: pd.DataFrame) -> dict:
    """One factor of one path, from the rows of its repeats."""
    first = rows.iloc[0]
    return {
        **{key: first[key] for key in ("factor", "above", "below", *POOLED, "predicted")},
        "per_repeat": dict(zip(rows["repeat"], rows["value"], strict=True)),
    }


def step_models(models: pd.DataFrame, prediction: pd.DataFrame) -> list[dict]:
    """One object per machine group: seconds `a, c, p, d`, and of each cell what they predict.

    `predicted`, `measured` (tokens per second) and `residual` (of the window) are those of the
    group's representative on the mixed workload with the fewest slots; null without it. `cells`
    has all cells of the group.
    """
    found = []
    for row in models.to_dict("records"):
        members = row["engines"].split(", ")
        cells = prediction[prediction["engine"].isin(members)].to_dict("records")
        mine = [c for c in cells if (c["engine"], c["workload"]) == (row["engine"], MIXED)]
        main = min(mine, key=lambda cell: cell["slots"], default={})
        found.append(
            {
                "engine": row["engine"],
                "engines": members,
                **{term: row[f"{term}_s"] for term in "acpd"},
                **{key: row[key] for key in ("a_over_c", "rows_known", "graph_tokens", "steps")},
                "lesson": {"a": row["lesson_a_s"], "c": row["lesson_c_s"]},
                "predicted": main.get("predicted_tok_s"),
                "measured": main.get("measured_tok_s"),
                "residual": main.get("residual"),
                "cells": [_cell(cell) for cell in cells],
            }
        )
    return found


def _cell(row: dict) -> dict:
    """A cell of the prediction, in the summary's words."""
    return {
        **{key: row[key] for key in ("engine", "workload", "slots", "admission", "fitted")},
        "predicted": row["predicted_tok_s"],
        "measured": row["measured_tok_s"],
        "residual": row["residual"],
        "decode_only_residual": row["decode_only_residual"],
    }
