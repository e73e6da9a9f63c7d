"""Questions 2 to 4: what a comparison can say about the cause."""

from __future__ import annotations

from collections.abc import Iterator

from fourcells.analysis import commands, lesson
from fourcells.report import numbers as n
from fourcells.report.blocks import Question
from fourcells.report.catalogue import TEXTS
from fourcells.report.cells_said import quotient, workload_words
from fourcells.report.chains import Factor, Pair
from fourcells.report.data import Data
from fourcells.report.data_words import said
from fourcells.report.design import cell
from fourcells.report.drain import LESSON_MIXED, LESSON_UNIFORM, drain_of
from fourcells.report.drain_facts import uniform_of
from fourcells.report.evidence import Ratio, factor, factor_ratio, missing, pair, ratio
from fourcells.report.wording import passed


def one_comparison(data: Data) -> Question:
    """2: why one mixed comparison proves nothing about scheduling."""
    return Question(TEXTS["q2_head"], list(_one_comparison(data)), ["ratios", "ideas"])


def _one_comparison(data: Data) -> Iterator[str]:
    own = pair(data)
    whole = ratio(data, own, f"R_{own.workload}") if own else None
    if whole is None:
        yield missing("pair", commands.MEASURE)
        return
    words = {"engine": own.engine, "baseline": own.baseline, "workload": own.workload}
    yield TEXTS["q2_whole"].format(told=whole.told(), **words)
    uniform, even = _even(data, own)
    if even is not None:
        key = "q2_uniform_above" if even.way == "above" else "q2_uniform"
        yield TEXTS[key].format(uniform=uniform, told=even.told(), **words)
    else:
        yield missing("uniform", commands.MEASURE)
    code = factor(data, own, "engine_first", "engine")
    inside = factor(data, own, "between", "scheduling_engine_first")
    if code is None or inside is None:
        yield missing("padded", commands.MEASURE)
        return
    yield TEXTS["q2_padded"].format(
        padded=code.above,
        engine_factor=factor_ratio(data, code).told(),
        scheduling=factor_ratio(data, inside).told(),
        **words,
    )
    sure = factor_ratio(data, code).way in ("above", "below")
    if sure:
        other = factor(data, own, "scheduling_first", "engine")
        way = "" if other is None else TEXTS["q2_other_way"].format(value=n.ratio(other.estimate))
        value = n.ratio(code.estimate)
        yield TEXTS["q2_share"].format(value=value, other=way, whole=whole.value)
    elif code.n > 1:
        yield TEXTS["q2_unsure"]


def _even(data: Data, own: Pair) -> tuple[str | None, Ratio | None]:
    """The uniform workload, and the pair's ratio on it."""
    uniform = uniform_of(data, own.workload)
    return uniform, None if uniform is None else ratio(data, own, f"R_{uniform}")


def four_cells(data: Data) -> Question:
    """3: the logic of the four cells."""
    return Question(TEXTS["q3_head"], list(_four_cells(data)), ["cells", "ratios", "noise"])


def _four_cells(data: Data) -> Iterator[str]:
    own = pair(data)
    if own is None:
        yield missing("pair", commands.MEASURE)
        return
    uniform, even = _even(data, own)
    if even is None:
        yield missing("uniform", commands.MEASURE)
        return
    yield from _totals(data, own, uniform)
    one, other = (cell(data, e, uniform, own.slots) for e in (own.baseline, own.engine))
    words = {"uniform": uniform, "mixed": own.workload, "told": even.told()}
    if None not in (one.steps, other.steps):
        same = one.steps == other.steps and not one.idle_rows and not other.idle_rows
        counted = {"one": n.integer(one.steps), "other": n.integer(other.steps)}
        key = "q3_removes" if same else "q3_removes_not"
        yield TEXTS[key].format(steps=counted["one"], **counted, **words)
    mixed = cell(data, own.engine, own.workload, own.slots)
    if None not in (other.rows_mean, mixed.rows_mean):
        rows = {"rows": n.rate(other.rows_mean), "rows_mixed": n.rate(mixed.rows_mean)}
        yield TEXTS["q3_keeps"].format(engine=own.engine, mixed=own.workload, **rows)
    yield from _control(data, own, uniform)


def _totals(data: Data, own: Pair, uniform: str) -> Iterator[str]:
    """Whether the two workloads ask for the same."""
    windows = [drain_of(data, own.engine, w, own.slots) for w in (uniform, own.workload)]
    if None in windows:
        return
    even, mixed = windows
    words = {
        "uniform": workload_words(data, uniform),
        "mixed": workload_words(data, own.workload),
        "tokens": n.integer(even.tokens),
        "others": n.integer(mixed.tokens),
        "requests": n.integer(even.requests),
    }
    same = (even.tokens, even.requests) == (mixed.tokens, mixed.requests)
    yield TEXTS["q3_equal" if same else "q3_unequal"].format(**words)


def _control(data: Data, own: Pair, uniform: str) -> Iterator[str]:
    """The placebo on the uniform workload that holds the engine itself."""
    frame = data.controls[data.controls.workload.eq(uniform) & data.controls.kind.eq("placebo")]
    frame = frame[frame.engine.eq(own.engine) | frame.other.eq(own.engine)]
    for row in frame.head(1).itertuples():
        result = passed(row.passed, row.n)
        if not n.is_missing(row.passed) and not row.passed:
            together = passed(row.together, row.n)
            result = TEXTS["q3_control_together"].format(result=result, together=together)
        yield TEXTS["q3_control"].format(
            control=said(row.name),
            told=Ratio(row.estimate, row.low, row.high, int(row.n)).told(),
            result=result,
        )


def estimate(data: Data) -> Question:
    """4: why the quotient is an estimate."""
    given = lesson.ratios()
    words = {"mixed": n.number(given["R_B"], 2), "uniform": n.number(given["R_A"], 2)}
    return Question(TEXTS["q4_head"].format(**words), list(_estimate(data)), ["ideas", "noise"])


def _estimate(data: Data) -> Iterator[str]:
    own = pair(data)
    found = quotient(data, own) if own else None
    uniform = uniform_of(data, own.workload) if own else None
    if found is None or uniform is None:
        yield missing("uniform" if own else "pair", commands.MEASURE)
    else:
        words = {"uniform": uniform, "mixed": own.workload}
        yield TEXTS["q4_value"].format(told=found.told(), **words)
        yield from _tested(data, own, words)
        yield from _interaction(data, own)
    claim = data.summary.get("lesson_claim") or {}
    if not n.is_missing(claim.get("low")):
        ends = {end: n.ratio(claim[end]) for end in ("low", "high")}
        yield TEXTS["q4_noise"].format(uniform=LESSON_UNIFORM, mixed=LESSON_MIXED, **ends)


def _tested(data: Data, own: Pair, words: dict) -> Iterator[str]:
    """The quotient beside scheduling as it was switched inside the engine."""
    off = factor(data, own, "estimate", "off")
    scheduling = factor(data, own, "estimate", "scheduling")
    code = factor(data, own, "engine_first", "engine")
    _, even = _even(data, own)
    if None in (off, scheduling, code, even):
        yield TEXTS["q4_untested"].format(engine=own.engine, mixed=own.workload)
        yield missing("padded", commands.MEASURE)
        return
    wrong = n.percent(abs(off.estimate - 1))
    yield TEXTS["q4_tested"].format(
        above=code.bracketed(),
        below=even.bracketed(),
        engine=own.engine,
        scheduling=scheduling.bracketed(),
        says=TEXTS[f"off_{factor_ratio(data, off).way}"].format(percent=wrong),
        **_value(data, off, "off"),
        **words,
    )


def _interaction(data: Data, own: Pair) -> Iterator[str]:
    """Scheduling is not worth the same in both codes."""
    names = ("scheduling_engine_first", "scheduling_scheduling_first", "interaction")
    above, below, between = (factor(data, own, "between", name) for name in names)
    if None in (above, below, between):
        return
    way = factor_ratio(data, between).way
    told = TEXTS["q4_interaction"].format(
        above=above.bracketed(),
        below=below.bracketed(),
        engine=own.engine,
        baseline=own.baseline,
        says=TEXTS[f"interaction_{way}"].format(engine=own.engine),
        **_value(data, between, "interaction"),
    )
    single = way not in ("above", "below")
    yield told if single else f"{told} {TEXTS['q4_no_single']}"


def _value(data: Data, of: Factor, name: str) -> dict[str, str]:
    told = factor_ratio(data, of)
    return {name: told.value, "sure": told.sure}
