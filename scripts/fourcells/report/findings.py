"""The section's sentences: what each idea was worth, and where the lesson's quotient errs.

The wording follows the intervals, by the rules of `wording`.
"""

from __future__ import annotations

from fourcells.report import numbers as n
from fourcells.report.catalogue import FACTORS, TEXTS
from fourcells.report.chains import Factor, Pair, factors
from fourcells.report.data import Data, noise_floor
from fourcells.report.data_words import said
from fourcells.report.grid import first
from fourcells.report.grids import workload_pair
from fourcells.report.wording import direction, sureness, within_floor

# Ways beside the first one, and what is said of them.
OTHER_WAYS = {
    "scheduling_first": "ideas_scheduling_first",
    "compiled_first": "ideas_compiled_first",
}


def findings(data: Data, pair: Pair) -> list[str]:
    """Up to nine sentences; what was not measured is left out."""
    whole = factors(data, pair, "total")
    chain = factors(data, pair, "engine_first")
    made = [_total(data, pair, whole[0], chain)] if whole else []
    made += _placebo(data, pair, chain)
    for way, key in OTHER_WAYS.items():
        other = factors(data, pair, way)
        if other:
            made.append(TEXTS[key].format(baseline=pair.baseline, product=written(other)))
    made += _interaction(data, pair)
    if chain:
        made.append(_apart(data, chain))
        made += _predicted(data, pair, chain)
    return made + _quotient(data, pair)


def written(chain: list[Factor]) -> str:
    """'engine 5.10x [4.90x, 5.31x] × early exit 1.00x [...]'."""
    return TEXTS["times"].join(
        TEXTS["factor_told"].format(name=FACTORS.get(f.name, f.name), value=f.bracketed())
        for f in chain
    )


def way_of(data: Data, factor: Factor) -> str:
    """'above', 'below', 'unsure' or 'open', as `wording.direction` decides."""
    floor = noise_floor(data)
    return direction(factor.low, factor.high, factor.n, factor.estimate, floor)


def _sure(data: Data, factor: Factor, lesson: object = None) -> str:
    """The interval in words, and the noise floor where that is what decides."""
    sure = sureness(factor.low, factor.high, factor.n, lesson)
    return "; ".join(filter(None, [sure, _floor_decides(data, factor)]))


def _floor_decides(data: Data, factor: Factor) -> str:
    """'within the noise floor of 5.0 %' where the interval alone would have excluded 1."""
    if direction(factor.low, factor.high, factor.n) not in ("above", "below"):
        return ""
    floor = noise_floor(data)
    within = within_floor(factor.estimate, floor)
    return TEXTS["within_floor"].format(floor=n.percent(floor)) if within else ""


def lesson_ratio(data: Data, pair: Pair, name: str) -> object:
    """The lesson's value of a ratio of this pair, if it has one."""
    frame = data.ratios
    same = frame["name"].eq(name) & frame.engine.eq(pair.engine)
    same &= frame.baseline.eq(pair.baseline) & frame.slots.eq(pair.slots)
    return first(frame[same].lesson)


def _total(data: Data, pair: Pair, whole: Factor, chain: list[Factor]) -> str:
    head = TEXTS["ideas_total"].format(
        workload=pair.workload,
        slots=n.integer(pair.slots),
        engine=pair.engine,
        baseline=pair.baseline,
        value=n.ratio(whole.estimate),
        sure=_sure(data, whole, lesson_ratio(data, pair, f"R_{pair.workload}")),
    )
    if not chain:
        return head + TEXTS["ideas_no_product"].format(engine=pair.engine)
    return head + TEXTS["ideas_product"].format(product=written(chain))


def _placebo(data: Data, pair: Pair, chain: list[Factor]) -> list[str]:
    """The pair of engines that refilling is told by, on a workload where it must be 1 and was
    not."""
    refill = next((factor for factor in chain if factor.name == "refill"), None)
    if refill is None:
        return []
    frame = data.controls[data.controls.kind.eq("placebo") & data.controls.passed.eq(False)]
    frame = frame[frame.slots.eq(pair.slots)]
    same = {refill.above, refill.below}
    return [
        TEXTS["ideas_placebo"].format(
            control=said(row.name),
            value=n.ratio(row.estimate),
            sure=sureness(row.low, row.high, int(row.n)),
        )
        for row in frame.itertuples()
        if {row.engine, row.other} == same
    ]


def _interaction(data: Data, pair: Pair) -> list[str]:
    named = {factor.name: factor for factor in factors(data, pair, "between")}
    if "interaction" not in named:
        return []
    between = named["interaction"]
    sentence = TEXTS["ideas_interaction"].format(
        above=named["scheduling_engine_first"].bracketed(),
        below=named["scheduling_scheduling_first"].bracketed(),
        engine=pair.engine,
        baseline=pair.baseline,
        value=n.ratio(between.estimate),
        sure=_sure(data, between),
        says=TEXTS[f"interaction_{way_of(data, between)}"].format(engine=pair.engine),
    )
    return [sentence]


def _apart(data: Data, chain: list[Factor]) -> str:
    """Which factors their intervals tell apart from 1."""
    told = [(_name(data, factor), way_of(data, factor)) for factor in chain]
    if any(way == "open" for _, way in told):
        why = TEXTS["says_one" if chain[0].n == 1 else "says_open"]
        return TEXTS["ideas_no_interval"].format(why=why)
    apart = [name for name, way in told if way != "unsure"]
    alike = [name for name, way in told if way == "unsure"]
    if not apart:
        parts = [TEXTS["ideas_none_apart"]]
    else:
        parts = [TEXTS["ideas_distinct"].format(apart=", ".join(apart))]
    if apart and alike:
        parts.append(TEXTS["ideas_not_distinct"].format(alike=", ".join(alike)))
    if chain[0].n == 2:
        parts.append(TEXTS["ideas_of_two"])
    return " ".join(parts)


def _name(data: Data, factor: Factor) -> str:
    """The factor's name, with the reason where the noise floor hides it."""
    name, why = FACTORS.get(factor.name, factor.name), _floor_decides(data, factor)
    return f"{name} ({why})" if why else name


def _predicted(data: Data, pair: Pair, chain: list[Factor]) -> list[str]:
    """Factors that the step model of the engine's group predicts, beside the measured ones."""
    known = [factor for factor in chain if factor.predicted is not None]
    model = _model(data, pair.engine)
    if not known or model is None:
        return []
    key = "ideas_model_no_c" if n.is_missing(model.a_over_c) else "ideas_model"
    sentence = TEXTS[key].format(
        engine=pair.engine,
        a_over_c=n.number(model.a_over_c, 0),
        predicted=_list(known, lambda f: n.ratio(f.predicted)),
        measured=_list(known, lambda f: n.ratio(f.estimate)),
    )
    return [sentence]


def _list(chain: list[Factor], write) -> str:
    return ", ".join(
        TEXTS["factor_told"].format(name=FACTORS.get(f.name, f.name), value=write(f)) for f in chain
    )


def _model(data: Data, engine: str):
    """The row of the step model that holds for an engine."""
    for row in data.step_model[data.step_model.engines.notna()].itertuples():
        if engine in {name.strip() for name in str(row.engines).split(",")}:
            return row
    return None


def _quotient(data: Data, pair: Pair) -> list[str]:
    """The lesson's quotient beside the scheduling that was measured, and why it is off."""
    named = {factor.name: factor for factor in factors(data, pair, "estimate")}
    uniform, _ = workload_pair(data)
    if "off" not in named or uniform is None:
        return []
    quotient, off = named["quotient"], named["off"]
    wrong = n.percent(abs(off.estimate - 1))
    sentence = TEXTS["ideas_quotient"].format(
        mixed=pair.workload,
        uniform=uniform,
        engine=pair.engine,
        value=n.ratio(quotient.estimate),
        sure=_sure(data, quotient, lesson_ratio(data, pair, "Q")),
        scheduling=named["scheduling"].bracketed(),
        off=n.ratio(off.estimate),
        off_sure=_sure(data, off),
        says=TEXTS[f"off_{way_of(data, off)}"].format(percent=wrong),
    )
    return [sentence, *_why(data, pair, uniform)]


def _why(data: Data, pair: Pair, uniform: str) -> list[str]:
    """Q / scheduling = engine factor on the padded mixed workload / engine factor on the uniform
    one: both from the table, and from the step models where they know all four windows."""
    even = Pair(pair.engine, pair.baseline, uniform, pair.slots)
    above = {f.name: f for f in factors(data, pair, "engine_first")}.get("engine")
    below = factors(data, even, "total")
    if above is None or not below:
        return []
    told = TEXTS["ideas_why"].format(
        mixed=pair.workload,
        uniform=uniform,
        above=above.bracketed(),
        below=below[0].bracketed(),
    )
    cells = [
        (pair.baseline, pair.workload),
        (above.above, pair.workload),
        (pair.engine, uniform),
        (pair.baseline, uniform),
    ]
    ways = [
        _of_windows([_window(data, *cell, pair.slots, column) for cell in cells])
        for column in ("predicted_s", "decode_only_s")
    ]
    if None not in ways:
        both, decode = map(n.ratio, ways)
        told += " " + TEXTS["ideas_why_model"].format(both=both, decode=decode)
    return [told]


def _of_windows(windows: list) -> float | None:
    """(baseline / padded engine on the mixed workload) x (engine / baseline on the uniform one),
    windows in seconds in this order; None where one is not known."""
    if None in windows:
        return None
    one, two, three, four = map(float, windows)
    return one / two * three / four


def _window(data: Data, engine: str, workload: str, slots: int, column: str) -> object:
    frame = data.prediction
    same = frame.engine.eq(engine) & frame.workload.eq(workload) & frame.slots.eq(slots)
    return first(frame[same][column])
