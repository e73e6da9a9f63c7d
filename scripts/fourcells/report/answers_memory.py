"""Questions 1 and 7: slots and memory."""

from __future__ import annotations

from collections.abc import Iterator

from fourcells.analysis import commands, lesson
from fourcells.report import kv_reported
from fourcells.report import numbers as n
from fourcells.report.blocks import Question
from fourcells.report.catalogue import TEXTS
from fourcells.report.chains import Pair
from fourcells.report.data import Data, noise_floor
from fourcells.report.evidence import (
    Ratio,
    backend,
    cell_mean,
    factor,
    factor_ratio,
    missing,
    pair,
)
from fourcells.report.kv_findings import MAX, ON_DEMAND
from fourcells.report.kv_rules import Rule, rules

KV = commands.make("kv")


def two_problems(data: Data) -> Question:
    """1: continuous batching and paged KV cache, each without the other."""
    told = [*_slots(data), *_memory(data), *_padded(data), TEXTS["q1_together"]]
    return Question(TEXTS["q1_head"], told, ["ideas", "kv"])


def _slots(data: Data) -> Iterator[str]:
    own = pair(data)
    if own is None:
        yield missing("pair", commands.MEASURE)
        return
    idle, busy = (_idle(data, own, e, "idle_slots") for e in (own.baseline, own.engine))
    if None not in (idle, busy):
        words = {"idle": n.percent(idle), "own": n.percent(busy)}
        words |= {"engine": own.engine, "baseline": own.baseline, "workload": own.workload}
        yield TEXTS["q1_slots"].format(**words)
    alone = factor(data, own, "between", "scheduling_scheduling_first")
    if alone is None:
        yield missing("loop", commands.MEASURE)
    else:
        plain = "" if backend(data, alone.above) == "torch" else "_plain"
        told = factor_ratio(data, alone).told()
        yield TEXTS[f"q1_loop{plain}"].format(above=alone.above, below=alone.below, told=told)


def _padded(data: Data) -> Iterator[str]:
    """Paging without continuous batching: the padded twin of a vLLM engine."""
    own = pair(data)
    code = factor(data, own, "engine_first", "engine") if own else None
    padded = None if code is None else _idle(data, own, code.above)
    if padded is not None and backend(data, code.above) == "vllm":
        yield TEXTS["q1_padded"].format(
            padded=code.above, idle=n.percent(padded), baseline=own.baseline
        )


def _idle(data: Data, own: Pair, engine: str, of: str = "idle_rows") -> float | None:
    return cell_mean(data.idle, of, engine, own.workload, own.slots)


def _known(data: Data) -> tuple[Rule | None, Rule | None]:
    """The measured rules on demand and of maximum length."""
    named = {rule.name: rule for rule in rules(data)}
    return named.get(ON_DEMAND), named.get(MAX)


def _memory(data: Data) -> Iterator[str]:
    own, most = _known(data)
    rows = [None if rule is None else rule.mean("rows_mean_time") for rule in (own, most)]
    if None in rows:
        yield missing("kv", KV)
        return
    ratio, speed = own.to_max(), ""
    if ratio is not None:
        told = Ratio(ratio.estimate, ratio.low, ratio.high, ratio.n, floor=noise_floor(data)).told()
        speed = TEXTS["q1_memory_speed"].format(told=told)
    yield TEXTS["q1_memory"].format(
        usable=n.integer(own.first("usable_tokens")),
        rows=n.rate(rows[0]),
        rows_max=n.rate(rows[1]),
        speed=speed,
    )


def exercise(data: Data) -> Question:
    """7: the division, why its second number is a ceiling, and what was measured."""
    given = lesson.figures()["exercise"]
    words = {
        "capacity": n.integer(given["capacity_tokens"]),
        "longest": n.integer(given["max_model_len"]),
        "mean": n.integer(given["mean_tokens"]),
    }
    told = [_division(words), _ceiling(), *_measured(data)]
    return Question(TEXTS["q7_head"].format(**words), told, ["kv"])


def _division(words: dict[str, str]) -> str:
    by_max, by_use = (n.integer(int(requests)) for requests in lesson.exercise())
    return TEXTS["q7_exercise"].format(by_max=by_max, by_use=by_use, **words)


def _ceiling() -> str:
    """Length bias, on the lesson's workload."""
    given, running = lesson.kv(), lesson.reservations()
    return TEXTS["q7_ceiling"].format(
        running=n.integer(running["running_on_demand"]),
        request=n.integer(given["mean_tokens"]),
        on_demand=n.integer(int(running["requests_on_demand"])),
        divided=n.integer(int(given["requests_by_use"])),
    )


def _measured(data: Data) -> Iterator[str]:
    own, most = _known(data)
    if own is None or most is None:
        yield missing("kv", KV)
        return
    source = f"{own.engine}/{int(own.first('slots'))}"
    computed = kv_reported.quantities(data, source)
    rows = [own.mean("rows_mean_time"), own.mean("rows_max"), most.mean("rows_mean_time")]
    a_step = own.mean("rows_mean")
    if None in (*rows, a_step) or not {"requests_by_use", "requests_on_demand"} <= set(computed):
        return
    said = TEXTS["q7_measured"].format(
        usable=n.integer(own.first("usable_tokens")),
        workload=own.first("workload"),
        by_use=n.integer(int(computed["requests_by_use"])),
        on_demand=n.integer(int(computed["requests_on_demand"])),
        rows=n.rate(rows[0]),
        a_step=n.rate(a_step),
        most=n.integer(rows[1]),
        rows_max=n.rate(rows[2]),
    )
    if rows[1] > computed["requests_by_use"]:
        said += " " + TEXTS["q7_moment"].format(most=n.integer(rows[1]))
    # the arithmetic counts steps
    if a_step < computed["requests_on_demand"]:
        said += " " + TEXTS["q7_end"]
    yield said
