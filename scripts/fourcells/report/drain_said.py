"""What the section on the end of a block says, from its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from fourcells.report import numbers as n
from fourcells.report.catalogue import TEXTS
from fourcells.report.data import Data
from fourcells.report.drain import Drain, lengths
from fourcells.report.drain_facts import Facts, facts, lesson_facts, more_lost, uniform_of
from fourcells.report.grid import groups, mean

BLOCK = "block"


def change(value: object) -> str:
    """A relative change with its sign."""
    return n.percent(value, sign=True)


def sentences(data: Data, cells: list[Drain]) -> list[str]:
    """Up to six sentences on one engine's cells, fewest slots first."""
    told = {cell.slots: facts(data, cell) for cell in cells}
    few, many = cells[0], cells[-1]
    found = more(data, few, many)
    made = [found] if found else []
    if not many.binds:
        made += [_at_once(many, told[many.slots]), _bound(data, many, told[many.slots])]
    made += [_queue(cell, told[cell.slots]) for cell in cells if cell.binds]
    if few.slots < many.slots:
        made += same_tail(data, few, many)
    return made


def more(data: Data, few: Drain, many: Drain) -> str:
    """Whether many slots lose more than few; empty where either loss is missing."""
    found = more_lost(data, few, many) if few.slots < many.slots else None
    if found is None:
        return ""
    words = {"few": n.integer(few.slots), "many": n.integer(many.slots)}
    words |= {"mixed": few.workload, "uniform": uniform_of(data, few.workload)}
    says = TEXTS[f"drain_more_{found.measured.way}"].format(**words)
    said = TEXTS["drain_more"].format(told=found.measured.told(), says=says, **words)
    if found.by_steps is None:
        return said
    key = "drain_more_shorter" if found.by_steps < found.measured.estimate else "drain_more_steps"
    return said + " " + TEXTS[key].format(by_steps=n.ratio(found.by_steps))


def loses_more(data: Data, cells: list[Drain]) -> bool:
    """Whether the most slots are shown to lose more than the fewest."""
    found = more_lost(data, cells[0], cells[-1]) if len(cells) > 1 else None
    return found is not None and found.measured.way == "below"


def gap(cell: Drain, own: Facts) -> str:
    """By how much the queue empties before a slot stays free, here or else on the lesson's lengths;
    empty where it does not or neither is known."""
    theirs = lesson_facts(cell)
    for key, each in (("drain_gap", own), ("drain_gap_lesson", theirs)):
        if each is not None and each.gap:
            return TEXTS[key].format(slots=n.integer(cell.slots), gap=n.integer(each.gap))
    return ""


def _at_once(cell: Drain, own: Facts) -> str:
    """All enter at once, and what is left when the shorter ones have gone."""
    theirs = lesson_facts(cell)
    said = TEXTS["drain_at_once"].format(
        slots=n.integer(cell.slots),
        requests=n.integer(own.requests),
        workload=cell.workload,
        last=n.integer(own.last_steps),
        steps=n.integer(own.steps),
        share=n.percent(own.last_share),
        lesson=of_lesson(theirs and theirs.last_steps, theirs and theirs.steps),
        longest=n.integer(cell.longest),
    )
    if own.last_time is None:
        return said
    key = "drain_at_once_shorter" if own.last_time < own.last_share else "drain_at_once_time"
    return said + " " + TEXTS[key].format(share=n.percent(own.last_time))


def of_lesson(some: int | None, of: int | None) -> str:
    """' (lesson’s lengths: 384 of 512)', or nothing."""
    if some is None or of is None:
        return ""
    return TEXTS["drain_of_lesson"].format(some=n.integer(some), steps=n.integer(of))


def _bound(data: Data, cell: Drain, own: Facts) -> str:
    """The longest request is what no schedule can beat."""
    said = TEXTS["drain_bound"].format(
        longest=n.integer(max(lengths(data, cell.workload))), steps=n.integer(own.steps)
    )
    if own.alone_s is None or own.window_s is None:
        return said
    return (
        said
        + " "
        + TEXTS["drain_alone"].format(alone=n.seconds(own.alone_s), window=n.seconds(own.window_s))
    )


def _queue(cell: Drain, own: Facts) -> str:
    """From when on nobody waits, and what the drain leaves unused."""
    if own.empty_from is None or not own.drain_steps:
        words = {"slots": n.integer(cell.slots), "use": n.percent(own.slot_use)}
        return TEXTS["drain_never"].format(**words)
    theirs = lesson_facts(cell)
    key = "drain_queue" if own.empty_exactly else "drain_queue_latest"
    said = TEXTS[key].format(
        slots=n.integer(cell.slots),
        empty=n.integer(own.empty_from),
        steps=n.integer(own.steps),
        lesson=of_lesson(theirs and theirs.empty_from, theirs and theirs.steps),
        drain=n.integer(own.drain_steps),
        share=n.percent(own.drain_share),
        use=n.percent(own.slot_use),
    )
    if theirs is None:
        return said
    return said + " " + TEXTS["drain_use_lesson"].format(use=n.percent(theirs.slot_use))


def same_tail(data: Data, few: Drain, many: Drain) -> list[str]:
    """Few slots lose by the same end as many: the steps say how much of the loss is theirs."""
    one, other = facts(data, few), facts(data, many)
    if None in (one.loss_steps, other.loss_steps, one.loss, other.loss):
        return []
    theirs = [lesson_facts(cell) for cell in (few, many)]
    words = {
        "few": n.integer(few.slots),
        "many": n.integer(many.slots),
        "mixed": few.workload,
        "uniform": uniform_of(data, few.workload),
        "even_few": n.integer(one.steps_uniform),
        "even_many": n.integer(other.steps_uniform),
        "steps_few": n.integer(one.steps),
        "steps_many": n.integer(other.steps),
        "by_steps_few": change(one.loss_steps),
        "by_steps_many": change(other.loss_steps),
        "drain_few": n.integer(one.drain_steps),
        "drain_many": n.integer(other.drain_steps),
        "loss_few": change(one.loss),
        "loss_many": change(other.loss),
        "lesson": "",
    }
    if None not in theirs:
        words["lesson"] = TEXTS["drain_loss_lesson"].format(
            few=change(theirs[0].loss), many=change(theirs[1].loss)
        )
    # throughput is tokens over steps times their mean time, so the two shares make up the loss
    times = [(1 + each.loss_steps) / (1 + each.loss) for each in (one, other)]
    words["time_few"], words["time_many"] = map(n.ratio, times)
    keys = ("drain_same", "drain_rest")
    return [
        TEXTS["drain_shorter"].format(**words),
        " ".join(TEXTS[key].format(**words) for key in keys),
    ]


def coming(data: Data, engine: str) -> str:
    """How often a freed slot of the engine finds someone waiting, by the rate of arrivals; empty
    when no requests that keep coming were measured."""
    frame = data.arrivals[data.arrivals.engine.eq(engine) & data.arrivals.process.ne(BLOCK)]
    frame = frame[frame.rate.notna()].assign(rate=frame.rate.astype(float))
    each = [
        TEXTS["drain_coming_each"].format(rate=n.with_unit(rate, None), **_slots(slots, part))
        for (slots, rate), part in frame.groupby(["slots", "rate"])
    ]
    if not each:
        return ""
    said = TEXTS["drain_coming"].format(each=TEXTS["join"].join(each))
    return " ".join([said, *_saturated(data, engine)])


def _saturated(data: Data, engine: str) -> Iterator[str]:
    """Where the highest rate leaves the engine more idle than a block does, that it is no high load
    for it, and what the busiest engine does that the same rate saturates."""
    frame = data.arrivals[data.arrivals.process.ne(BLOCK) & data.arrivals.rate.notna()]
    own = frame[frame.engine.eq(engine)]
    rate = own.rate.max()
    at = own[own.rate.eq(rate)]
    if _saturates(data, at) is not False:
        return
    words = {"rate": n.with_unit(rate, None), "engine": engine}
    yield TEXTS["drain_coming_unsaturated"].format(**words)
    others = [
        (other, slots, part)
        for (other, slots), part in groups(frame[frame.rate.eq(rate)], ["engine", "slots"])
        if _saturates(data, part)
    ]
    if others:
        other, slots, part = max(others, key=lambda each: mean(each[2].slot_use))
        yield TEXTS["drain_coming_saturated"].format(engine=other, **_slots(slots, part))


def _saturates(data: Data, rows) -> bool | None:
    """Whether these arrivals keep at least as many slots in use as a block of the same engine and
    slots, where all wait at the start; None where that is not known."""
    engine, slots = rows.engine.iloc[0], rows.slots.iloc[0]
    frame = data.arrivals[data.arrivals.process.eq(BLOCK)]
    block = mean(frame[frame.engine.eq(engine) & frame.slots.eq(slots)].slot_use)
    own = mean(rows.slot_use)
    return None if None in (block, own) else own >= block


def arrivals(data: Data, engine: str) -> str:
    """The same, and the block of the same lengths beside it."""
    said = coming(data, engine)
    block = data.arrivals[data.arrivals.engine.eq(engine) & data.arrivals.process.eq(BLOCK)]
    for (slots, workload), part in groups(block, ["slots", "workload"]) if said else ():
        words = {"workload": workload, **_slots(slots, part)}
        said += " " + TEXTS["drain_coming_block"].format(**words)
    return said


def _slots(slots: object, rows) -> dict[str, str]:
    return {
        "slots": n.integer(slots),
        "refilled": n.percent(mean(rows.refilled_share)),
        "use": n.percent(mean(rows.slot_use)),
    }
