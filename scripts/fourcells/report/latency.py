"""The tables of latency: medians by output length, their intervals, ratios of E2E."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from fourcells.analysis import lesson
from fourcells.report import numbers as n
from fourcells.report import wording
from fourcells.report.catalogue import LABELS, TEXTS
from fourcells.report.data import Data, ratio_interval
from fourcells.report.grid import (
    Cell,
    Grid,
    columns,
    drop,
    drop_empty,
    drop_spread,
    figure,
    first,
    groups,
    interval,
    mean,
    text,
)
from fourcells.report.wording import bracketed, conclusion


def medians(latency: pd.DataFrame) -> list[Grid]:
    """One table per workload: medians by output length, mean over repeats, all four metrics.

    Args:
        latency: the table of that name, or the rows of it to show.
    """
    metrics = ["ttft_s", "service_ttft_s", "e2e_produced_s", "e2e_returned_s"]
    made = []
    for (workload,), frame in groups(latency, ["workload"]):
        rows = []
        for (engine, slots, tokens), part in groups(frame, ["engine", "slots", "output_tokens"]):
            rows.append(
                [
                    text(engine),
                    figure(slots, n.integer),
                    figure(tokens, n.integer),
                    figure(first(part.n), n.integer),
                    *(figure(mean(part[key]), n.seconds) for key in metrics),
                    figure(first(part.lesson_ttft_s), n.seconds),
                    figure(first(part.lesson_e2e_s), n.seconds),
                ]
            )
        heads = columns("name:engine", "slots", "output_tokens", "requests", *metrics)
        heads += columns("lesson:lesson_ttft_s", "lesson:lesson_e2e_s")
        repeats = frame.repeat.nunique()
        caption = TEXTS["latency_caption"] if repeats > 1 else TEXTS["latency_caption_one"]
        caption = caption.format(workload=workload, n=repeats)
        beside = frame[["lesson_ttft_s", "lesson_e2e_s"]].notna().any(axis=None)
        note = TEXTS["latency_note"] if beside else ""
        grid = Grid(caption, heads, rows, note, table="latency")
        made.append(drop_empty(grid, (LABELS["lesson_ttft_s"], LABELS["lesson_e2e_s"])))
    return made


def ratios(data: Data) -> Grid:
    """How many times sooner requests are returned than by the baseline, by output length."""
    frame = data.ratios[data.ratios["name"].astype(str).str.match(r"E2E_(.*_)?\d+$")]
    parts = frame["name"].astype(str).str.rsplit("_", n=1)
    # the usual mixed workload is not named, a further one is: E2E_32, E2E_C_32
    frame = frame.assign(kind=parts.str[0], output_tokens=parts.str[-1].astype(int))
    rows = []
    keys = ["kind", "engine", "slots", "baseline", "output_tokens"]
    for (kind, engine, slots, baseline, tokens), part in groups(frame, keys):
        workload = kind.partition("_")[2] or "B"
        told = ratio_interval(data, part)
        rows.append(
            [
                text(engine),
                figure(slots, n.integer),
                text(_beside(baseline, first(part.baseline_slots))),
                text(workload),
                figure(tokens, n.integer),
                figure(first(part.geometric_mean), n.ratio),
                figure(told["n"], n.integer),
                interval(told, n.ratio),
                text(conclusion("E2E", **told)),
                figure(first(part.lesson), n.ratio),
            ]
        )
    heads = columns("name:engine", "slots", "text:compared", "text:workload")
    heads += columns("output_tokens", "estimate", "n", "interval", "text:conclusion")
    heads += columns("lesson:lesson")
    grid = drop_spread(Grid(TEXTS["e2e_caption"], heads, rows, name="noise", table="ratios"))
    grid = drop_empty(grid, [LABELS["lesson"]])
    if frame.kind.nunique() < 2:
        grid = drop(grid, [LABELS["workload"]])
    return replace(grid, note=f"{_note()} {grid.note}".strip())


def _note() -> str:
    """What is divided, and what the lesson found for its shortest requests."""
    few, many = (n.ratio(lesson.sooner(cell)) for cell in ("vllm_16", "vllm_256"))
    return TEXTS["e2e_note"].format(few=few, many=many)


def _beside(baseline: str, slots: object) -> str:
    """'static, 16 slots'."""
    if n.is_missing(slots):
        return baseline
    return f"{baseline}, {wording.slots(slots)}"


def intervals(data: Data) -> list[Grid]:
    """One table per workload: intervals of the medians, and percentiles; none without any."""
    bounds = ["ttft_low", "ttft_high", "e2e_returned_low", "e2e_returned_high"]
    percentiles = [f"e2e_returned_p{p}" for p in (90, 95, 99)]
    made = []
    for (workload,), frame in groups(data.latency, ["workload"]):
        if frame[[*bounds, *percentiles]].isna().all(axis=None):
            continue
        rows = []
        keys = ["engine", "slots", "output_tokens", "repeat"]
        for (engine, slots, tokens, repeat), part in groups(frame, keys):
            rows.append(
                [
                    text(engine),
                    figure(slots, n.integer),
                    figure(tokens, n.integer),
                    figure(repeat, n.integer),
                    figure(first(part.n), n.integer),
                    *(_median(part, metric) for metric in ("ttft", "e2e_returned")),
                    *(figure(first(part[key]), n.seconds) for key in percentiles),
                ]
            )
        heads = columns("name:engine", "slots", "output_tokens", "repeat", "requests")
        heads += columns("ttft_interval", "e2e_returned_interval", *percentiles)
        caption = TEXTS["medians_caption"].format(workload=workload)
        grid = Grid(caption, heads, rows, TEXTS["medians_note"], table="latency")
        if frame.repeat.nunique() < 2:
            grid = drop(grid, [LABELS["repeat"]])
        made.append(drop_empty(grid, [LABELS[key] for key in percentiles]))
    return made


def _median(part, metric: str) -> Cell:
    """'1.88 [1.80, 1.95]' of one repeat."""
    ends = (first(part[f"{metric}_{end}"]) for end in ("s", "low", "high"))
    return text(bracketed(*ends, n.seconds))
