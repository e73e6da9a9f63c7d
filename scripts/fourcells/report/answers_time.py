"""Questions 5 and 6: when requests are returned, and the end of a block."""

from __future__ import annotations

from collections.abc import Iterator

from fourcells.analysis import commands, lesson
from fourcells.report import drain_said
from fourcells.report import numbers as n
from fourcells.report.blocks import Question
from fourcells.report.catalogue import TEXTS
from fourcells.report.data import Data
from fourcells.report.design import PADDED, cell_admission
from fourcells.report.drain import Drain, drains, lengths, subject
from fourcells.report.drain_facts import facts, lesson_facts, uniform_of
from fourcells.report.evidence import cell_mean, listed, missing, pair, ratio_of
from fourcells.report.grid import first


def equal_latency(data: Data) -> Question:
    """5: why all lengths of a static batch have the same E2E."""
    given = lesson.figures()["workloads"]["B"]["output_tokens"]
    words = {"short": n.integer(min(given)), "long": n.integer(max(given))}
    return Question(TEXTS["q5_head"].format(**words), list(_equal_latency(data)), ["latency"])


def _equal_latency(data: Data) -> Iterator[str]:
    key = _padded(data)
    if key is None:
        yield missing("latency", commands.MEASURE)
    else:
        produced = _median(data, "e2e_produced_s", *key, min(lengths(data, key[1])))
        words = {"produced": ""}
        if produced is not None:
            words["produced"] = TEXTS["q5_produced"].format(produced=n.seconds(produced))
        yield _returned(data, "q5_returned", *key, **words)
    chosen = subject(data)
    if chosen is None:
        return
    cells = drains(data, *chosen)
    for cell in cells:
        told = _returned(data, "q5_own", cell.engine, cell.workload, cell.slots)
        if told:
            yield told
    if cells[0].binds and not cells[-1].binds:
        words = {"few": n.integer(cells[0].slots), "many": n.integer(cells[-1].slots)}
        yield TEXTS["q5_queue"].format(**words)
    yield from _sooner(data, cells)


def _padded(data: Data) -> tuple[str, str, int] | None:
    """(engine, workload, slots) of a padded engine on mixed lengths, the baseline first."""
    own = pair(data)
    frame = data.latency[data.latency.e2e_returned_s.notna()]
    keys = frame[["engine", "workload", "slots"]].drop_duplicates()
    found = [
        (str(engine), str(workload), int(slots))
        for engine, workload, slots in keys.itertuples(index=False)
        if cell_admission(data, engine) == PADDED and len(lengths(data, workload)) > 1
    ]
    if own is None:
        return found[0] if found else None
    wanted = (own.baseline, own.workload, own.slots)
    return max(found, key=lambda key: sum(map(str.__eq__, key[:2], wanted[:2])), default=None)


def _median(data: Data, column: str, engine: str, workload: str, slots: int, tokens: int):
    """Median of one output length, mean over the repeats."""
    own = data.latency[data.latency.output_tokens.eq(tokens)]
    return cell_mean(own, column, engine, workload, slots)


def _returned(data: Data, key: str, engine: str, workload: str, slots: int, **words: str) -> str:
    """E2E of the shortest and the longest beside the lesson's; nothing where it is not known."""
    known = lengths(data, workload)
    short, long = min(known), max(known)
    cell = (engine, workload, slots)
    ends = [_median(data, "e2e_returned_s", *cell, tokens) for tokens in (short, long)]
    if None in ends:
        return ""
    rows = data.latency[data.latency.engine.eq(engine) & data.latency.workload.eq(workload)]
    rows = rows[rows.slots.eq(slots)]
    given = [first(rows[rows.output_tokens.eq(t)].lesson_e2e_s) for t in (short, long)]
    beside = ""
    if None not in given:
        theirs = {"short": n.seconds(given[0]), "long": n.seconds(given[1])}
        beside = TEXTS["q5_lesson"].format(**theirs)
    return TEXTS[key].format(
        engine=engine,
        slots=n.integer(slots),
        short=n.integer(short),
        long=n.integer(long),
        short_s=n.seconds(ends[0]),
        long_s=n.seconds(ends[1]),
        ttft=n.seconds(_median(data, "ttft_s", *cell, long)),
        lesson=beside,
        **words,
    )


def _sooner(data: Data, cells: list[Drain]) -> Iterator[str]:
    """How many times sooner the shortest are returned than by the baseline."""
    short = min(lengths(data, cells[0].workload))
    names = [f"E2E_{short}", f"E2E_{cells[0].workload}_{short}"]
    frame = data.ratios[data.ratios["name"].isin(names) & data.ratios.engine.eq(cells[0].engine)]
    each, baseline = [], None
    for cell in cells:
        rows = frame[frame.slots.eq(cell.slots) & frame.value.notna()]
        found = ratio_of(data, rows)
        if found is not None:
            baseline = first(rows.baseline)
            words = {"slots": n.integer(cell.slots), "told": found.told()}
            each.append(TEXTS["q5_sooner_each"].format(**words))
    if each:
        words = {"short": n.integer(short), "baseline": baseline, "each": listed(each)}
        yield TEXTS["q5_sooner"].format(**words)


def more_slots(data: Data) -> Question:
    """6: what more slots lose, and what arrivals change."""
    slots = max(int(name.rpartition("_")[2]) for name in lesson.figures()["throughput_tok_s"])
    told = list(_more_slots(data))
    return Question(TEXTS["q6_head"].format(slots=n.integer(slots)), told, ["drain", "ideas"])


def _more_slots(data: Data) -> Iterator[str]:
    chosen = subject(data)
    cells = drains(data, *chosen) if chosen else []
    if len(cells) < 2:
        yield missing("slots", commands.MEASURE)
    else:
        yield from _ends(data, cells[0], cells[-1])
    coming = drain_said.coming(data, chosen[0]) if chosen else ""
    yield coming or missing("arrivals", commands.make("arrivals"))


def _ends(data: Data, few: Drain, many: Drain) -> Iterator[str]:
    one, other = facts(data, few), facts(data, many)
    given = [lesson_facts(cell) for cell in (few, many)]
    if None not in (one.loss, other.loss):
        each = listed([_loss(few, one.loss), _loss(many, other.loss)])
        beside = ""
        if None not in given:
            words = {"few": drain_said.change(given[0].loss)}
            words["many"] = drain_said.change(given[1].loss)
            beside = TEXTS["drain_loss_lesson"].format(**words)
        said = TEXTS["q6_loss"].format(engine=few.engine, each=each, lesson=beside)
        yield " ".join(filter(None, [said, drain_said.more(data, few, many)]))
    if None not in (one.steps_uniform, other.steps_uniform):
        yield TEXTS["q6_shorter"].format(
            few=n.integer(few.slots),
            many=n.integer(many.slots),
            uniform=uniform_of(data, few.workload),
            mixed=few.workload,
            even_few=n.integer(one.steps_uniform),
            even_many=n.integer(other.steps_uniform),
            steps_few=n.integer(one.steps),
            steps_many=n.integer(other.steps),
            longest=n.integer(max(lengths(data, few.workload))),
        )
    if other.last_steps is not None:
        theirs = given[1]
        yield TEXTS["q6_last"].format(
            many=n.integer(many.slots),
            last=n.integer(other.last_steps),
            steps=n.integer(other.steps),
            longest=n.integer(many.longest),
            lesson=drain_said.of_lesson(theirs and theirs.last_steps, theirs and theirs.steps),
        )
    if few.binds and one.drain_steps:
        words = {"drain": n.integer(one.drain_steps), "steps": n.integer(one.steps)}
        yield TEXTS["q6_same"].format(few=n.integer(few.slots), **words)


def _loss(cell: Drain, loss: float) -> str:
    words = {"slots": n.integer(cell.slots), "loss": drain_said.change(loss)}
    return TEXTS["q6_loss_each"].format(**words)
