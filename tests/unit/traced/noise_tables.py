"""Noise, and what it does to each conclusion."""

from __future__ import annotations

import re

import pandas as pd

from traced.numbers import number_in
from traced.rows import (
    Expected,
    Row,
    Some,
    bounds,
    cell_of,
    floors,
    matched,
    one,
    pooled,
    rates,
    shown,
)
from traced.speed_tables import named_ratio, ratio_values
from traced.truth import geometric_mean, interval


def noise(row: Row) -> Expected:
    key = cell_of(row)
    values = row.truth.rows("throughput", **key).tok_s
    (table,) = row.truth.rows("noise", **key).to_dict("records")
    lesson_drop = sorted({table["lesson_drop_low"], table["lesson_drop_high"]})
    starts = pd.to_datetime(row.truth.rows("timings", **key).started, utc=True, format="ISO8601")
    hours = (starts.max() - starts.min()).total_seconds() / 3600
    return {
        "slots": [("count", key["slots"])],
        "n": [("count", values.count())],
        "mean_tok_s": [("rate", values.mean())],
        "cv": [("share", values.std(ddof=1) / values.mean())],
        "spread": [("share", values.max() / values.min() - 1)],
        "drop": [("share", 1 - values.min() / values.max())],
        "lesson_drop": [("share", end) for end in lesson_drop],
        "drift_per_hour": [
            ("share", table[column]) for column in ("drift_per_hour", "drift_low", "drift_high")
        ]
        if hours >= 1
        else [],
    }


def conclusions(row: Row) -> Expected:
    meaning, _, slots = row["ratio"].rpartition(", ")
    slots = number_in(slots, row.table.language)
    name, colon, rest = meaning.partition(": ")
    if not (colon and name in set(row.truth.tables["ratios"]["name"])):
        name, rest = "loss_when_mixed", meaning
    if name == "Q":
        # 'Q: vllm / static, R_B / R_A (mixed lengths)'
        rest = rest.partition(", ")[0]
    engine, baseline = named_ratio(row, name, rest, slots)
    values = ratio_values(row.truth, name, engine, baseline, slots)
    table = row.truth.rows("ratios", name=name, slots=slots, engine=engine)
    crosses = table.crosses_sessions.any()
    three = ("unpaired_estimate", "unpaired_low", "unpaired_high")
    return pooled(values) | {
        "ratio": [("count", slots)],
        "t_interval": bounds("ratio", values),
        "bootstrap": [("ratio", one(table[f"boot_{end}"])) for end in ("low", "high")],
        "unpaired": [("ratio", one(table[column])) for column in three] if crosses else [],
        "conclusion": floors(row),
        "lesson": [("ratio", one(table.lesson))],
    }


def left_out(row: Row) -> Expected:
    """The headline ratios without a repeat, without doubtful timings, and paired in other ways."""
    found = {}
    by_ratio = row.truth.summary["limits"]["by_ratio"]
    without = matched(row.words("texts")["left_out_repeat"], row["counted"])
    for name, told in by_ratio.items():
        of = row.truth.summary["ratios"][name]
        values = ratio_values(row.truth, name, of["engine"], of["baseline"], of["slots"])
        if without:
            values = values.drop(int(without["repeat"]))
            each = [geometric_mean(values), *interval(values)]
        elif row["counted"] == row.words("texts")["left_out_clean"]:
            each = [told["clean_only"][end] for end in ("estimate", "low", "high")]
        else:
            each = [told["worst_pairing"][end] for end in ("low", "high")]
        found[name] = [("ratio", value) for value in each]
    return found | {"counted": [("count", int(without["repeat"]))] if without else []}


def cost(row: Row) -> Expected:
    limits = row.truth.summary["limits"]
    percent = number_in(row["target"], row.table.language)
    return {
        "target": [("whole share", percent / 100)],
        "needed_repeats": [("count", limits[f"repeats_for_{percent}_percent"])],
        "needed_minutes": [("rate", limits[f"minutes_for_{percent}_percent"])],
    }


def controls(row: Row) -> Expected:
    slots = number_in(row["control"].rpartition(", ")[2], row.table.language)
    frame = row.truth.rows("controls", slots=slots)
    ((_, table),) = [
        (at, control)
        for at, control in frame.iterrows()
        if row["control"].startswith(f"{control.engine} / {control.other} ")
        and re.search(rf" {control.workload}\b", row["control"])
    ]
    one_of, other = (
        rates(row.truth, engine, table.workload, slots) for engine in (table.engine, table.other)
    )
    return pooled((one_of / other).dropna()) | {
        "control": Some([("count", slots)]),
        "expected": [("ratio", 1)],
        "noise_floor": [("share", table.noise_floor)],
    }


def variance(row: Row) -> Expected:
    (table,) = row.truth.rows("variance", **cell_of(row)).to_dict("records")
    kinds = {
        **dict.fromkeys(["slots", "repeats", "samples", "best_samples"], "count"),
        **dict.fromkeys(["total_sd", "between_sd", "within_sd"], "share"),
        **dict.fromkeys(["repeat_s", "sample_s"], "seconds"),
    }
    advice = Some(("count", table[column]) for column in ("best_samples", "samples"))
    return shown(kinds, table) | {"advice": advice}
