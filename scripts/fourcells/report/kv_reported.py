"""The lesson's arithmetic on the KV cache, beside what this machine's engines reported."""

from __future__ import annotations

from fourcells.report import numbers as n
from fourcells.report.catalogue import KV_NAMES, LABELS, RULES, TEXTS
from fourcells.report.data import Data
from fourcells.report.data_words import said
from fourcells.report.grid import Cell, Column, Grid, columns, figure, text
from fourcells.report.grids import main_ratios

LESSON, PAPER = "lesson", "paper"
# Quantities that a table of their own holds, by rule.
BY_RULE = ("running", "requests", "used_share")


def sources(data: Data) -> list[str]:
    """The sources ("vllm/16") of the engines that have a baseline, else those of the first."""
    engines = {s: s.rpartition("/")[0] for s in data.kv.source.dropna().unique() if "/" in s}
    compared = set(main_ratios(data).dropna(subset=["baseline"]).engine)
    if compared.isdisjoint(engines.values()):
        compared = set(list(engines.values())[:1])
    return [source for source, engine in engines.items() if engine in compared]


def quantities(data: Data, source: str) -> dict[str, float]:
    """The values of one source by quantity."""
    frame = data.kv[data.kv.source.eq(source) & data.kv.value.notna()]
    return {name: float(value) for name, value in zip(frame.quantity, frame.value, strict=True)}


def by_rule(data: Data, source: str, quantity: str) -> dict[str, float]:
    """The values of one source and one of `BY_RULE`, by rule."""
    found = quantities(data, source)
    return {rule: found[key] for rule in RULES if (key := f"{quantity}_{rule}") in found}


def reported(data: Data) -> Grid:
    """One row per quantity, one column per source; the lesson's columns come last."""
    shown = sources(data)
    own = {f"{quantity}_{rule}" for quantity in BY_RULE for rule in RULES}
    frame = data.kv[data.kv.source.isin([*shown, LESSON]) & ~data.kv.quantity.isin(own)]
    known = [q for q in KV_NAMES if q in set(frame.quantity)]
    rows = []
    for quantity in known + [q for q in frame.quantity.unique() if q not in KV_NAMES]:
        by_source = {row.source: row for row in frame[frame.quantity == quantity].itertuples()}
        formula = by_source[shown[0]].formula if shown and shown[0] in by_source else None
        given = by_source.get(LESSON)
        rows.append(
            [
                text(KV_NAMES.get(quantity, quantity)),
                *(_quantity(by_source.get(source)) for source in shown),
                *([text(said(formula))] if shown else []),
                _quantity(given),
                text(said(given.formula) if given else None),
            ]
        )
    heads = columns("name:quantity") + [Column(source) for source in shown]
    if shown:
        heads.append(Column(LABELS["formula_of"].format(source=shown[0]), "text"))
    heads += [Column(LABELS["lesson"], "lesson"), Column(LABELS["lesson_formula"], "lesson-text")]
    return Grid(TEXTS["kv_caption"], heads, rows, TEXTS["kv_note"], "kv", table="kv")


def _quantity(row) -> Cell:
    return text(None) if row is None else figure(row.value, lambda v: n.with_unit(v, row.unit))


def computed(data: Data) -> Grid:
    """One row per rule: what a running request takes and how many fit, here and in the lesson."""
    shown = [*sources(data)[:1], LESSON]
    shown = [source for source in shown if by_rule(data, source, "requests")]
    rows = [
        [text(words), *(cell for source in shown for cell in _computed(data, source, rule))]
        for rule, words in RULES.items()
        if any(rule in by_rule(data, source, "requests") for source in shown)
    ]
    heads = columns("name:rule")
    for source in shown:
        kind = "lesson" if source == LESSON else "number"
        words = {"source": LABELS["lesson"] if source == LESSON else source}
        heads += [Column(TEXTS[f"kv_of_{key}"].format(**words), kind) for key in _COMPUTED]
    return Grid(
        TEXTS["computed_caption"], heads, rows, TEXTS["computed_note"], "noise nowrap", table="kv"
    )


_COMPUTED = (*BY_RULE, "gain")


def _computed(data: Data, source: str, rule: str) -> list[Cell]:
    running, requests, used = (by_rule(data, source, quantity) for quantity in BY_RULE)
    gain = None
    if {rule, "max"} <= set(requests):
        gain = requests[rule] / requests["max"]
    return [
        figure(running.get(rule), n.integer),
        # part of a request does not fit
        figure(int(requests[rule]) if rule in requests else None, n.integer),
        figure(used.get(rule), n.percent),
        figure(gain, n.ratio),
    ]


def arithmetic_told(data: Data) -> list[str]:
    """The lesson's division, what length bias makes of it, and its exercise."""
    given, fit = quantities(data, LESSON), by_rule(data, LESSON, "requests")
    made = []
    if {"on_demand", "exact", "pow2", "max"} <= set(fit) and "requests_by_use" in given:
        made.append(
            TEXTS["kv_ladder_told"].format(
                by_use=n.integer(int(given["requests_by_use"])),
                by_max=n.integer(int(given["requests_by_max"])),
                factor=n.ratio(given["factor"]),
                mean=n.integer(given["mean_tokens"]),
                running=n.integer(given["running_on_demand"]),
                gain=n.ratio(fit["on_demand"] / fit["max"]),
                known=n.ratio(fit["exact"] / fit["max"]),
                **{rule: n.integer(int(requests)) for rule, requests in fit.items()},
            )
        )
    if "exercise_by_use" in given:
        made.append(
            TEXTS["kv_exercise"].format(
                capacity=n.integer(given["exercise_capacity_tokens"]),
                by_max=n.integer(int(given["exercise_by_max"])),
                by_use=n.integer(int(given["exercise_by_use"])),
            )
        )
    return made
