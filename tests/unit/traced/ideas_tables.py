"""Factors, step model, predictions, ablations, dose and arrivals."""

from __future__ import annotations

import pandas as pd

from traced.rows import (
    Expected,
    Row,
    bounds,
    cell_of,
    floors,
    matched,
    means,
    one,
    pooled,
    rates,
    shown,
)
from traced.truth import Value, geometric_mean, is_number


def paths(row: Row) -> Expected:
    """A factor of the attribution: throughputs divided, repeat by repeat."""
    of = row.caption("paths_caption") | {"slots": row.caption_number("paths_caption", "slots")}
    values = divided(row, row["meaning"], of["workload"], of["slots"])
    frame = row.truth.rows("attribution", **of)
    same = frame[frame.value.sub(frame.repeat.map(values)).abs() < 1e-9]
    headline = {"total": f"R_{of['workload']}", "quotient": "Q"}
    names = {path_name(row, factor): ratio for factor, ratio in headline.items()}
    lesson = row.truth.rows(
        "ratios", engine=of["engine"], baseline=of["baseline"], slots=of["slots"]
    )
    lesson = lesson[lesson["name"].eq(names.get(row["way"]))]
    return (
        pooled(values)
        | row.by_repeat(values)
        | {
            "predicted": [("ratio", one(same.predicted))],
            "conclusion": floors(row),
            "lesson": [("ratio", one(lesson.lesson))],
        }
    )


def divided(row: Row, words: str, workload: str, slots: int) -> pd.Series:
    """'(vllm x static on A) / (static x vllm on A)', by repeat."""
    values = None
    for names, way in zip(words.split(" / "), (1, -1), strict=True):
        for name in names.strip("()").split(row.words("texts")["times"].strip()):
            on = matched(row.words("texts")["engine_on"], name.strip())
            engine, where = (on["engine"], on["workload"]) if on else (name.strip(), workload)
            each = rates(row.truth, engine, where, slots) ** way
            values = each if values is None else values * each
    return values.dropna()


def path_name(row: Row, factor: str) -> str:
    name = row.words("factors")[factor]
    if factor == "total":
        return name
    path = row.words("paths")["estimate"]
    return row.words("texts")["path_row"].format(path=path, factor=name)


def everywhere(row: Row) -> Expected:
    """The factors of one pair on one workload, each with its interval."""
    engine, baseline = row["ratio"].split(" / ")
    slots = row.number("slots")
    frame = row.truth.rows(
        "attribution", engine=engine, baseline=baseline, workload=row["workload"], slots=slots
    )
    found: Expected = {"slots": [("count", slots)]}
    for name in ("total", "engine", "early_exit", "refill"):
        way = frame[frame.path.eq("total" if name == "total" else "engine_first")]
        part = way[way.factor.eq(name)]
        above, below = one(part.above), one(part.below)
        values = rates(row.truth, above, row["workload"], slots) / rates(
            row.truth, below, row["workload"], slots
        )
        values = values.dropna()
        found[f"factor_{name}"] = [("ratio", geometric_mean(values)), *bounds("ratio", values)]
        found["n"] = [("count", len(values))]
    return found


def step_model(row: Row) -> Expected:
    """The costs of a step in milli- and microseconds."""
    (table,) = row.truth.rows("step_model", engines=row["group"]).to_dict("records")
    times = {"a_ms": ("a_s", 1e3), "c_us": ("c_s", 1e6), "p_ms": ("p_s", 1e3), "d_us": ("d_s", 1e6)}
    times |= {"lesson_a": ("lesson_a_s", 1e3), "lesson_c": ("lesson_c_s", 1e6)}
    found = {
        label: [("hundredths" if by == 1e3 else "rate", table[column] * by)]
        for label, (column, by) in times.items()
    }
    found["a_ms"].append(("count", table["rows_known"]))
    found["p_ms"].append(("count", table["extra_known"]))
    if pd.isna(table["lesson_c_s"]) and pd.notna(table["lesson_a_s"]):
        # the lesson ran this engine with one slot count: its a is a step of that many rows
        cells = row.truth.lesson["throughput_tok_s"]
        (slots,) = {int(c.split("_")[1]) for c in cells if c.startswith("static")}
        found["lesson_a"].append(("count", slots))
    return found | {
        "a_over_c": [("count", table["a_over_c"])],
        "steps": [("count", table["steps"])],
        "fitted_on": table["cells"],
    }


def prediction(row: Row) -> Expected:
    key = cell_of(row)
    (table,) = row.truth.rows("prediction", **key).to_dict("records")
    windows = row.truth.rows("timings", **key)
    measured = windows.groupby("repeat").window_s.mean().mean()
    tokens_each = windows.groupby("repeat").tokens.mean().mean()
    predicted, decode = table["predicted_s"], table["decode_only_s"]
    counts = ["steps_computed", "steps_measured", "bound_longest", "bound_share", "bound_graham"]
    return shown(dict.fromkeys(counts, "count"), table) | {
        "slots": [("count", key["slots"])],
        "predicted_s": [("seconds", predicted)],
        "measured_s": [("seconds", measured)],
        "residual": [("share", predicted / measured - 1)],
        "decode_only_residual": [("share", decode / measured - 1)],
        "rows_mean_computed": [("rate", table["rows_mean_computed"])],
        "predicted_tok_s": [("rate", tokens_each / predicted)],
        "measured_tok_s": [("rate", tokens_each / measured)],
    }


def ablations(row: Row) -> Expected:
    engine, reference = row["ratio"].split(" / ")
    (table,) = row.truth.rows(
        "ablations", engine=engine, reference=reference, workload=row["workload"],
        slots=row.number("slots"), option=row["option"],
    ).to_dict("records")  # fmt: skip
    kinds = dict.fromkeys(["estimate", "min", "max"], "ratio") | {"n": "count", "slots": "count"}
    return shown(kinds, table) | {
        "interval": [("ratio", table["low"]), ("ratio", table["high"])],
        "conclusion": floors(row),
        **{key: as_written(table[key]) for key in ("value", "reference_value")},
    }


def as_written(value: object) -> list[Value]:
    """An option: a number, or words without one."""
    return [("general", float(value))] if is_number(str(value)) else []


def dose(row: Row) -> Expected:
    pair = row.caption("dose_caption")["pair"]
    engine, other = (row["pair"] if "," in pair else pair).split(" / ")
    (table,) = row.truth.rows(
        "dose", kind=row.key_of("kinds", "dose"), engine=engine, other=other,
        workload=row["workload"], slots=row.number("slots"),
    ).to_dict("records")  # fmt: skip
    counts = dict.fromkeys(["slots", "steps_other", "steps_engine", "n"], "count")
    ratio_columns = dict.fromkeys(["step_ratio_computed", "step_ratio_measured"], "ratio")
    return shown(counts | ratio_columns, table) | {
        "value": as_written(table["label"]),
        "throughput_ratio": [("ratio", table["estimate"])],
        "interval": [("ratio", table["low"]), ("ratio", table["high"])],
        "conclusion": floors(row),
    }


def arrivals(row: Row) -> Expected:
    key = cell_of(row)
    part = row.truth.rows("arrivals", **key)
    times = ["window_s", "ttft_median_s", "ttft_p90_s", "e2e_median_s", "e2e_p90_s", "late_max_s"]
    kinds = dict.fromkeys(times, "seconds") | {"freed": "count"}
    return means(kinds | dict.fromkeys(["slot_use", "refilled_share"], "share"), part) | {
        "slots": [("count", key["slots"])],
        "arrival": [("quantity", one(part.rate))],
        "n": [("count", part.repeat.nunique())],
    }
