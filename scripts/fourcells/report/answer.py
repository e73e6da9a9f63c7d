"""The answer in three sentences. The wording follows the numbers and how sure they are."""

from __future__ import annotations

import pandas as pd

from fourcells.report import numbers as n
from fourcells.report import wording
from fourcells.report.catalogue import TEXTS
from fourcells.report.data import Data, ratio_interval, summary_ratio
from fourcells.report.grid import first, mean
from fourcells.report.grids import workload_pair
from fourcells.report.wording import direction, sureness, within_floor


def main_group(data: Data) -> pd.DataFrame:
    """The ratios of one engine, baseline and slot count that the answer speaks of.

    The group with most of R_A, R_B and Q, then the one whose values the summary carries, then the
    first. Ratios of slots, workloads and latencies belong to no such group.
    """
    headline = data.ratios["name"].astype(str).str.match(r"R_|Q$|Q_")
    frame = data.ratios[data.ratios.value.notna() & headline]
    if frame.empty:
        return frame
    groups = [g for _, g in frame.groupby(["engine", "baseline", "slots"], sort=False)]
    return max(groups, key=lambda g: (g["name"].nunique(), _in_summary(data, g)))


def _in_summary(data: Data, group: pd.DataFrame) -> int:
    return sum(bool(summary_ratio(data, part)) for _, part in group.groupby("name"))


def sentences(data: Data) -> list[str]:
    """Three sentences: the engines compared, what mixed lengths add, what is lost and idle."""
    group = main_group(data)
    named = {name: rows for name, rows in group.groupby("name", sort=False)}
    uniform, mixed = workload_pair(data)
    ratios = [name for name in named if name.startswith("R_")]
    # the mixed workload is the question; without it any measured one
    lead = f"R_{mixed}" if f"R_{mixed}" in named else (ratios or [None])[-1]
    rest = [name for name in ratios if name != lead]
    second = f"R_{uniform}" if f"R_{uniform}" in rest else (rest or [None])[0]
    return [
        _compared(data, named[lead]) if lead else TEXTS["no_ratio"],
        _mixed(data, named, second) if second else _range(data, lead),
        _lost(data, group),
    ]


def _facts(data: Data, rows: pd.DataFrame) -> tuple[str, dict]:
    """(direction, words) of one ratio."""
    told = ratio_interval(data, rows)
    low, high, count = told["low"], told["high"], told["n"]
    sure = sureness(low, high, count, first(rows.lesson))
    way = direction(**told)
    if way == "unsure" and within_floor(told["estimate"], told["floor"]):
        sure += "; " + TEXTS["within_floor"].format(floor=n.percent(told["floor"]))
    words = {
        "value": n.ratio(first(rows.geometric_mean)),
        "sure": sure,
    }
    return way, words


def _compared(data: Data, rows: pd.DataFrame) -> str:
    way, words = _facts(data, rows)
    key = {"above": "faster", "below": "slower", "unsure": "no_difference", "open": "as_measured"}
    row = rows.iloc[0]
    return TEXTS[key[way]].format(
        **words,
        engine=row.engine,
        baseline=row.baseline,
        slots=n.integer(row.slots),
        workload=row["name"].removeprefix("R_"),
    )


def _mixed(data: Data, named: dict, second: str) -> str:
    workload = second.removeprefix("R_")
    lengths = data.latency[data.latency.workload == workload].output_tokens.nunique()
    head = TEXTS["uniform" if lengths == 1 else "other"]
    sentence = head.format(workload=workload, **_facts(data, named[second])[1])
    if "Q" not in named:
        return sentence + TEXTS["q_missing"]
    way, words = _facts(data, named["Q"])
    key = {"above": "q_above", "below": "q_below", "unsure": "q_unsure", "open": "q_as_measured"}
    return sentence + TEXTS[key[way]].format(**words)


def _range(data: Data, lead: str | None) -> str:
    """What stands in for the second sentence when fewer than two ratios were measured."""
    means = data.throughput.groupby(["engine", "slots", "workload"], sort=False).tok_s.mean()
    means = means.dropna().sort_values()
    if means.empty:
        return TEXTS["no_timing"]
    if lead:
        return TEXTS["no_second_ratio"]

    def cell(key: tuple) -> str:
        return f"{key[0]}, {wording.slots(key[1])}, {key[2]}"

    return TEXTS["range" if len(means) > 1 else "one_cell"].format(
        low=n.rate(means.iloc[0]),
        low_cell=cell(means.index[0]),
        high=n.rate(means.iloc[-1]),
        high_cell=cell(means.index[-1]),
    )


def _lost(data: Data, group: pd.DataFrame) -> str:
    """Loss when mixed and idle rows of the compared engines, or of all when none is compared."""
    uniform, mixed = workload_pair(data)
    losses = _of_group(data.throughput[data.throughput.loss_when_mixed.notna()], group)
    idle = _of_group(data.idle[data.idle.idle_rows.notna()], group)
    if mixed is not None and (idle.workload == mixed).any():
        idle = idle[idle.workload == mixed]
    elif len(idle):
        idle = idle[idle.workload == idle.workload.iloc[-1]]
    parts = []
    if len(losses):
        changes = _each(losses, "loss_when_mixed", lambda v: n.percent(v, sign=True))
        parts.append(TEXTS["loss"].format(uniform=uniform, mixed=mixed, changes=changes))
    if len(idle):
        shares = _each(idle, "idle_rows", n.percent)
        parts.append(TEXTS["idle"].format(workload=idle.workload.iloc[0], shares=shares))
    if not parts:
        return TEXTS["no_third"]
    sentence = TEXTS["join"].join(parts) + "."
    return sentence[0].upper() + sentence[1:]


def _of_group(frame: pd.DataFrame, group: pd.DataFrame) -> pd.DataFrame:
    if group.empty:
        return frame
    engines = {group.engine.iloc[0], group.baseline.iloc[0]}
    return frame[frame.engine.isin(engines) & (frame.slots == group.slots.iloc[0])]


def _each(frame: pd.DataFrame, column: str, write) -> str:
    """'-64.0 % (static) and -26.6 % (vllm)'; slots are named where an engine has several."""
    keys = ["engine", "slots"]
    several = frame.groupby("engine").slots.nunique().max() > 1
    words = []
    for (engine, slots), part in frame.groupby(keys, sort=False):
        name = f"{engine}, {wording.slots(slots)}" if several else engine
        words.append(TEXTS["share"].format(engine=name, value=write(mean(part[column]))))
    head, last = words[:-1], words[-1]
    return TEXTS["list_and"].join(filter(None, [", ".join(head), last]))
