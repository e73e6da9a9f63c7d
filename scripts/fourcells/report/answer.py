"""The answer in three sentences. The wording follows the numbers and how sure they are."""

from __future__ import annotations

import pandas as pd

from fourcells.report import numbers as n
from fourcells.report import wording
from fourcells.report.catalogue import FACTORS, TEXTS
from fourcells.report.chains import Factor, factors, main_pair
from fourcells.report.data import Data, ratio_interval
from fourcells.report.findings import way_of
from fourcells.report.grid import first, mean
from fourcells.report.grids import workload_pair
from fourcells.report.main_group import main_group
from fourcells.report.wording import direction, sureness, within_floor


def sentences(data: Data) -> list[str]:
    """Three sentences: the engines compared, what mixed lengths add, and each idea by itself, or
    what is lost and idle where the ideas were not measured."""
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
        _ideas(data, group) or _lost(data),
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


def _ideas(data: Data, group: pd.DataFrame) -> str:
    """The factors between the compared engines, each idea switched on by itself, both ways round.
    Empty where they were not measured."""
    pair = main_pair(data)
    if pair is None or group.empty:
        return ""
    compared = (*group.iloc[0][["engine", "baseline", "slots"]],)
    chain = factors(data, pair, "engine_first")
    if not chain or (pair.engine, pair.baseline, pair.slots) != compared:
        return ""
    ways = [_way(data, chain)]
    other = factors(data, pair, "scheduling_first")
    if other:
        ways.append(TEXTS["answer_other_way"].format(way=_way(data, other)))
    return TEXTS["answer_ideas"].format(ways=TEXTS["join"].join(ways))


def _way(data: Data, chain: list[Factor]) -> str:
    """'engine 1.90x × early exit 1.44x', and which of them may as well be 1."""
    each = [
        TEXTS["factor_told"].format(name=_factor_name(f), value=n.ratio(f.estimate)) for f in chain
    ]
    way = TEXTS["times"].join(each)
    told = [way_of(data, factor) for factor in chain]
    if "open" in told:
        why = TEXTS["says_one" if chain[0].n == 1 else "says_open"]
        return TEXTS["answer_open"].format(way=way, why=why)
    alike = [
        _factor_name(f) for f, way_told in zip(chain, told, strict=True) if way_told == "unsure"
    ]
    return TEXTS["answer_alike"].format(way=way, alike=", ".join(alike)) if alike else way


def _factor_name(factor: Factor) -> str:
    return FACTORS.get(factor.name, factor.name)


def _lost(data: Data) -> str:
    """Loss when mixed and idle slots, as far as they were measured."""
    parts = [*_loss(data), *_idle(data)]
    return _sentence(TEXTS["join"].join(parts)) if parts else TEXTS["no_third"]


def loss(data: Data) -> list[str]:
    """One sentence: what mixed lengths cost the compared engines, or all when none is compared.
    Empty where no loss was measured."""
    return [_sentence(part) for part in _loss(data)]


def idle(data: Data) -> list[str]:
    """One sentence: the share of slots x steps without a useful token of the same engines."""
    return [_sentence(part) for part in _idle(data)]


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:] + "."


def _loss(data: Data) -> list[str]:
    uniform, mixed = workload_pair(data)
    losses = _of_group(data.throughput[data.throughput.loss_when_mixed.notna()], main_group(data))
    if losses.empty:
        return []
    changes = _each(losses, "loss_when_mixed", lambda v: n.percent(v, sign=True))
    return [TEXTS["loss"].format(uniform=uniform, mixed=mixed, changes=changes)]


def _idle(data: Data) -> list[str]:
    """Slots, not rows: rows that left early are no longer computed, and their slots are idle
    all the same until somebody takes them."""
    _, mixed = workload_pair(data)
    frame = _of_group(data.idle[data.idle.idle_slots.notna()], main_group(data))
    if frame.empty:
        return []
    workload = mixed if (frame.workload == mixed).any() else frame.workload.iloc[-1]
    shares = _each(frame[frame.workload == workload], "idle_slots", n.percent)
    return [TEXTS["idle"].format(workload=workload, shares=shares)]


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
