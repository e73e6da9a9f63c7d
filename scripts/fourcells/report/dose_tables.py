"""The tables and sentences of ablations, dose and arrivals."""

from __future__ import annotations

import pandas as pd

from fourcells.report import numbers as n
from fourcells.report.catalogue import KINDS, LABELS, TEXTS
from fourcells.report.chains import Pair
from fourcells.report.data import Data, noise_floor
from fourcells.report.dose_figure import pair_words, point_words
from fourcells.report.grid import (
    Grid,
    columns,
    drop,
    drop_empty,
    drop_spread,
    figure,
    groups,
    mean,
    text,
)
from fourcells.report.noise import between
from fourcells.report.setting import written
from fourcells.report.wording import conclusion

BLOCK = "block"


def ablations(data: Data) -> Grid:
    """One row per pair of engines, workload and slot count."""
    rows, floor = [], noise_floor(data)
    for row in data.ablations[data.ablations.engine.notna()].itertuples():
        one = row.n <= 1
        ends = [text(LABELS["one_repeat"])] * 2 if one else [figure(row.min, n.ratio)]
        ends += [] if one else [figure(row.max, n.ratio)]
        rows.append(
            [
                text(f"{row.engine} / {row.reference}"),
                text(row.option),
                text(written(row.value)),
                text(written(row.reference_value)),
                text(row.workload),
                figure(row.slots, n.integer),
                figure(row.estimate, n.ratio),
                between(row.low, row.high, row.n, n.ratio),
                text(conclusion("R", row.low, row.high, row.n, row.estimate, floor)),
                *ends,
                figure(row.n, n.integer),
            ]
        )
    heads = columns("name:ratio", "text:option", "text:value", "text:reference_value")
    heads += columns("text:workload", "slots", "estimate", "interval")
    heads += columns("text:conclusion", "min", "max", "n")
    return drop_spread(
        Grid(
            TEXTS["ablations_caption"],
            heads,
            rows,
            TEXTS["ablations_note"],
            "noise pairs",
            table="ablations",
        )
    )


def dose(data: Data) -> Grid:
    """One row per point, kinds in order."""
    rows, floor = [], noise_floor(data)
    frame = data.dose[data.dose.kind.notna()]
    frame = frame.assign(rank=frame.kind.map({kind: i for i, kind in enumerate(KINDS)}))
    frame = frame.sort_values(["rank", "engine", "other", "x"], kind="stable")
    for row in frame.itertuples():
        rows.append(
            [
                text(KINDS.get(row.kind, row.kind)),
                text(f"{row.engine} / {row.other}"),
                text(point_words(row.label)),
                text(row.workload),
                figure(row.slots, n.integer),
                figure(row.steps_other, n.integer),
                figure(row.steps_engine, n.integer),
                figure(row.step_ratio_computed, n.ratio),
                figure(row.step_ratio_measured, n.ratio),
                figure(row.estimate, n.ratio),
                between(row.low, row.high, row.n, n.ratio),
                text(conclusion("R", row.low, row.high, row.n, row.estimate, floor)),
                figure(row.n, n.integer),
            ]
        )
    heads = columns("name:dose", "text:pair", "text:value", "text:workload", "slots")
    heads += columns("steps_other", "steps_engine", "step_ratio_computed", "step_ratio_measured")
    heads += columns("throughput_ratio", "interval", "text:conclusion", "n")
    pairs = [pair_words(part) for _, part in groups(frame, ["engine", "other"])]
    caption = TEXTS["dose_caption"].format(pair=", ".join(pairs))
    grid = Grid(caption, heads, rows, name="noise nowrap dose", table="dose")
    # one pair is named by the caption
    return drop(grid, [LABELS["pair"]]) if len(pairs) == 1 else grid


def dose_told(frame: pd.DataFrame) -> list[str]:
    """One sentence per kind of one pair: from the first point to the last."""
    made = []
    for kind, words in KINDS.items():
        part = frame[frame.kind.eq(kind)]
        if len(part) < 2:
            continue
        begin, end = part.iloc[0], part.iloc[-1]
        made.append(
            TEXTS["dose_told"].format(
                kind=words[0].upper() + words[1:],
                first=point_words(begin.label),
                last=point_words(end.label),
                pair=pair_words(part),
                step_first=n.ratio(begin.step_ratio_computed),
                step_last=n.ratio(end.step_ratio_computed),
                first_value=n.ratio(begin.estimate),
                last_value=n.ratio(end.estimate),
            )
        )
    return made


ARRIVAL_KEYS = ["engine", "slots", "workload"]


def arrivals(data: Data, pair: Pair | None) -> Grid:
    """One row per cell, means over repeats."""
    rows = []
    shares = ["slot_use", "refilled_share"]
    times = ["ttft_median_s", "ttft_p90_s", "e2e_median_s", "e2e_p90_s", "late_max_s"]
    for (engine, slots, workload), part in groups(_by_rate(data, pair), ARRIVAL_KEYS):
        rows.append(
            [
                text(engine),
                figure(slots, n.integer),
                text(workload),
                text(_process(part)),
                figure(mean(part.window_s), n.seconds),
                *(figure(mean(part[key]), n.percent) for key in shares),
                figure(mean(part.freed), n.integer),
                *(figure(mean(part[key]), n.seconds) for key in times),
                figure(part.repeat.nunique(), n.integer),
            ]
        )
    heads = columns("name:engine", "slots", "text:workload", "text:arrival", "window_s", *shares)
    heads += columns("freed", *times, "n")
    grid = Grid(
        TEXTS["arrivals_caption"],
        heads,
        rows,
        TEXTS["arrivals_note"],
        "noise nowrap",
        table="arrivals",
    )
    return drop_empty(grid, [LABELS["late_max_s"]])


def _by_rate(data: Data, pair: Pair | None) -> pd.DataFrame:
    """The section's engine first; waiting at the start first, then by the rate of arrivals."""
    frame = data.arrivals[data.arrivals.engine.notna()]
    others = frame.engine.ne(pair.engine if pair else None)
    frame = frame.assign(others=others, rate=frame.rate.astype(float))
    return frame.sort_values(["others", "rate"], na_position="first", kind="stable")


def _process(part: pd.DataFrame) -> str:
    if part.process.iloc[0] == BLOCK:
        return TEXTS["process_block"]
    return TEXTS["process_poisson"].format(rate=n.with_unit(mean(part.rate), None))


def arrivals_told(data: Data, pair: Pair | None) -> list[str]:
    """One sentence per engine: slots in use and refilled, waiting at the start and coming."""
    made = []
    for (engine, slots), part in groups(_by_rate(data, pair), ["engine", "slots"]):
        coming = part[part.process.ne(BLOCK)]
        if coming.empty:
            continue
        each = TEXTS["join"].join(
            TEXTS["arrivals_each"].format(
                rate=n.with_unit(rate, None),
                ttft=n.seconds(mean(rows.ttft_median_s)),
                **_shares(rows),
            )
            for rate, rows in coming.groupby("rate", sort=False)
        )
        one = part.repeat.nunique() == 1
        repeats = LABELS["one_repeat"] if one else TEXTS["arrivals_mean"]
        words = {"engine": engine, "slots": n.integer(slots), "each": each, "repeats": repeats}
        block = part[part.process.eq(BLOCK)]
        if block.empty:
            made.append(TEXTS["arrivals_first"].format(**words))
            continue
        block = block[block.workload.eq(block.workload.iloc[0])]
        head = TEXTS["arrivals_block"].format(
            engine=engine, slots=n.integer(slots), **_shares(block)
        )
        made.append(head + TEXTS["arrivals_told"].format(**words))
    return made


def _shares(rows: pd.DataFrame) -> dict[str, str]:
    return {
        "use": n.percent(mean(rows.slot_use)),
        "refilled": n.percent(mean(rows.refilled_share)),
    }
