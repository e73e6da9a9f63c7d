"""Throughput, ratios, idle shares, latencies, and the four cells."""

from __future__ import annotations

import re

import pandas as pd

from traced.numbers import number_in
from traced.rows import (
    CAPTION,
    LATENCIES,
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
    spread,
)
from traced.truth import Truth, geometric_mean


def throughput(row: Row) -> Expected:
    key = cell_of(row)
    part = row.truth.rows("throughput", **key)
    return spread("rate", part.tok_s, "mean") | {
        "slots": [("count", key["slots"])],
        "interval": bounds("rate", part.tok_s),
        "lesson": [("rate", one(part.lesson_tok_s))],
    }


def kept_when_mixed(truth: Truth, engine: str, slots: int, workload: str, even: str) -> pd.Series:
    """T(mixed) / T(uniform) by repeat."""
    return (rates(truth, engine, workload, slots) / rates(truth, engine, even, slots)).dropna()


def loss(row: Row) -> Expected:
    key = cell_of(row)
    part = row.truth.rows("throughput", **key)
    kept = kept_when_mixed(row.truth, key["engine"], key["slots"], key["workload"], row["compared"])
    return spread("share", kept - 1, "loss") | {
        "slots": [("count", key["slots"])],
        "interval": bounds("share", kept, 1),
        "lesson": [("share", one(part.lesson_loss))],
    }


def ratio_values(truth: Truth, name: str, engine: str, baseline: object, slots: int) -> pd.Series:
    """A ratio by repeat, from the throughputs."""
    mixed, uniform = truth.pair

    def over(workload: str) -> pd.Series:
        return rates(truth, engine, workload, slots) / rates(truth, baseline, workload, slots)

    if name == "slots_ratio":
        few = truth.rows("throughput", engine=engine, workload=uniform).slots.min()
        values = rates(truth, engine, uniform, slots) / rates(truth, engine, uniform, few)
    elif name == "Q":
        values = over(mixed) / over(uniform)
    elif name.startswith("loss"):
        values = kept_when_mixed(truth, engine, slots, mixed, uniform)
    else:
        values = over(name.removeprefix("R_"))
    return values.dropna()


def named_ratio(row: Row, name: str, meaning: str, slots: int) -> tuple[str, object]:
    """(engine, baseline) of a ratio, by what is said to be divided."""
    table = row.truth.rows("ratios", name=name, slots=slots)
    pairs = table[["engine", "baseline"]].drop_duplicates().itertuples(index=False, name=None)
    (found,) = [
        (engine, baseline)
        for engine, baseline in pairs
        if re.match(rf"{engine}( / {baseline}\b|:)", meaning)
    ]
    return found


def ratios(row: Row) -> Expected:
    name, slots = row["ratio"], row.number("slots")
    engine, baseline = named_ratio(row, name, row["meaning"], slots)
    values = ratio_values(row.truth, name, engine, baseline, slots)
    table = row.truth.rows("ratios", name=name, slots=slots, engine=engine)
    return (
        pooled(values, "geometric_mean")
        | row.by_repeat(values)
        | {
            "slots": [("count", slots)],
            "min": [("ratio", values.min())],
            "max": [("ratio", values.max())],
            "lesson": [("ratio", one(table.lesson))],
        }
    )


def idle(row: Row) -> Expected:
    key = cell_of(row)
    part = row.truth.rows("idle", **key)
    kinds = dict.fromkeys(["computed_steps", "steps"], "count")
    columns = ["computed_idle_rows", "idle_rows", "computed_idle_slots", "idle_slots"]
    return means(kinds | dict.fromkeys(columns, "share"), part) | {
        "slots": [("count", key["slots"])],
        "lesson_idle": [("share", one(part.lesson_idle))],
    }


def latency_key(row: Row, caption: str) -> dict:
    return {
        "workload": row.caption(caption)["workload"],
        "engine": row["engine"],
        "slots": row.number("slots"),
        "output_tokens": row.number("output_tokens"),
    }


def latency(row: Row) -> Expected:
    key = latency_key(row, "latency_caption")
    part = row.truth.rows("latency", **key)
    return means(dict.fromkeys(LATENCIES, "seconds"), part) | {
        CAPTION: [("count", part.repeat.nunique())],
        "slots": [("count", key["slots"])],
        "output_tokens": [("count", key["output_tokens"])],
        "requests": [("count", one(part.n))],
        "lesson_ttft_s": [("seconds", one(part.lesson_ttft_s))],
        "lesson_e2e_s": [("seconds", one(part.lesson_e2e_s))],
    }


def medians(row: Row) -> Expected:
    """Of one repeat: medians with their intervals, and percentiles."""
    key = latency_key(row, "medians_caption") | {"repeat": row.number("repeat")}
    (part,) = row.truth.rows("latency", **key).to_dict("records")
    percentiles = [f"e2e_returned_p{p}" for p in (90, 95, 99)]
    kinds = {"slots": "count", "output_tokens": "count", "repeat": "count"}
    return shown(kinds | dict.fromkeys(percentiles, "seconds"), part) | {
        "requests": [("count", part["n"])],
        **{
            f"{name}_interval": [("seconds", part[f"{name}_{end}"]) for end in ("s", "low", "high")]
            for name in ("ttft", "e2e_returned")
        },
    }


def sooner(row: Row) -> Expected:
    """E2E of the baseline over that of the engine."""
    baseline, _, slots = row["compared"].partition(", ")
    slots = number_in(slots, row.table.language)
    key = {"workload": row.truth.pair[0], "output_tokens": row.number("output_tokens")}
    own = {"engine": row["engine"], "slots": row.number("slots")}
    above = row.truth.rows("latency", engine=baseline, slots=slots, **key)
    below = row.truth.rows("latency", **own, **key)
    each = above.set_index("repeat").e2e_returned_s / below.set_index("repeat").e2e_returned_s
    table = row.truth.rows("ratios", name=f"E2E_{key['output_tokens']}", baseline=baseline, **own)
    return pooled(each.dropna()) | {
        "slots": [("count", own["slots"])],
        "compared": [("count", slots)],
        "output_tokens": [("count", key["output_tokens"])],
        "conclusion": floors(row),
        "lesson": [("ratio", one(table.lesson))],
    }


def four_cells(row: Row) -> Expected:
    """Means of cells, ratios along the margins."""
    mixed, uniform = row.truth.pair
    name = row["cells"]
    heads = [heading for heading in row.table.headings if heading != row.words("labels")["cells"]]
    pair = matched(row.words("texts")["cells_down_head"], name)
    slots = row.caption_number("cells_caption", "slots")
    if pair:
        names = ("R_" + uniform, "R_" + mixed, "Q")
        each = [
            ratio_values(row.truth, ratio, pair["engine"], pair["baseline"], slots)
            for ratio in names
        ]
        cells = [[("ratio", geometric_mean(v)), *bounds("ratio", v)] for v in each]
        return dict(zip(heads, [*cells[:2], cells[2][:1]], strict=True))
    engine, _, words = name.rpartition(", ")
    slots = number_in(words, row.table.language)
    each = [rates(row.truth, engine, workload, slots) for workload in (uniform, mixed)]
    kept = (each[1] / each[0]).dropna()
    cells = [[("rate", v.mean()), ("count", len(v))] for v in each]
    along = [("ratio", geometric_mean(kept))]
    return dict(zip(heads, [*cells, along], strict=True)) | {"cells": [("count", slots)]}
