"""The tables of the section on the KV cache."""

from __future__ import annotations

from fourcells.report import numbers as n
from fourcells.report.catalogue import LABELS, RULES, TEXTS
from fourcells.report.data import Data
from fourcells.report.evidence import Ratio
from fourcells.report.grid import (
    Cell,
    Column,
    Grid,
    columns,
    drop_empty,
    figure,
    first,
    groups,
    mean,
    text,
)
from fourcells.report.kv_findings import MAX, says
from fourcells.report.kv_reported import LESSON, PAPER, by_rule
from fourcells.report.kv_rules import Rule, count, rest
from fourcells.report.noise import between

GEOMETRIC = "tok_s_geometric"


def reservations(data: Data, rules: list[Rule]) -> Grid:
    """One row per rule: requests at once, steps and throughput, against the maximum rule."""
    rows = [_reservation(data, rule) for rule in rules]
    heads = columns("name:rule", "rows_max", "rows_mean_time", "steps", GEOMETRIC, "interval")
    heads += columns("ratio_to_max", "text:conclusion", "n")
    caption = TEXTS["reservations_caption"].format(
        workload=rules[0].first("workload"),
        slots=n.integer(rules[0].first("slots")),
        usable=n.integer(rules[0].first("usable_tokens")),
    )
    grid = Grid(
        caption, heads, rows, TEXTS["reservations_note"], "noise nowrap", table="reservations"
    )
    return drop_empty(grid, [LABELS["ratio_to_max"]])


def _reservation(data: Data, rule: Rule) -> list[Cell]:
    ratio = rule.to_max()
    # the rule that the others are divided by
    base = rule.name == MAX
    return [
        text(rule.words),
        figure(rule.mean("rows_max"), n.integer),
        figure(rule.mean("rows_mean_time"), n.rate),
        figure(rule.mean("steps"), n.integer),
        figure(rule.first("estimate"), n.rate),
        between(rule.first("low"), rule.first("high"), rule.n, n.rate),
        figure(ratio and ratio.estimate, n.ratio) if base else _ratio(ratio),
        text(None if ratio is None or base else says(data, ratio)),
        figure(rule.n, n.integer),
    ]


def beforehand(rules: list[Rule]) -> Grid:
    """One row per rule: its engine, what a request takes, and what the schedule says."""
    rows = [
        [
            text(rule.words),
            text(rule.engine),
            figure(rule.first("block_size"), n.integer),
            figure(rule.first("reserve_tokens"), n.integer),
            figure(rule.mean("rows_computed"), n.rate),
            figure(rule.mean("rows_mean"), n.rate),
            figure(rule.mean("steps_computed"), n.integer),
            figure(rule.mean("steps"), n.integer),
        ]
        for rule in rules
    ]
    heads = columns("name:rule", "text:engine", "block_size", "reserve_tokens", "rows_computed")
    heads += columns("rows_mean", "steps_computed", "steps")
    grid = Grid(
        TEXTS["beforehand_caption"],
        heads,
        rows,
        TEXTS["beforehand_note"],
        "noise nowrap",
        table="reservations",
    )
    return drop_empty(grid, [LABELS["reserve_tokens"]])


def _ratio(ratio: Ratio | None) -> Cell:
    return text(None) if ratio is None else Cell(ratio.bracketed(), ratio.estimate)


def ladder(data: Data, rules: list[Rule]) -> Grid:
    """One row per rule: reserved and used memory, preemptions, beside arithmetic and paper."""
    lesson, paper = (by_rule(data, source, "used_share") for source in (LESSON, PAPER))
    rows = [
        [
            text(rule.words),
            *(figure(rule.mean(key), n.percent) for key in _SHARES),
            figure(lesson.get(rule.name), n.percent),
            figure(paper.get(rule.name), n.percent),
            figure(rule.mean("preemptions"), count),
            figure(rule.mean("recomputed_tokens"), n.integer),
        ]
        for rule in rules
    ]
    heads = columns("name:rule", *_SHARES, "lesson:used_lesson", "lesson:used_paper")
    heads += columns("preemptions", "recomputed_tokens")
    grid = Grid(
        TEXTS["ladder_caption"],
        heads,
        rows,
        TEXTS["ladder_note"],
        "noise nowrap",
        table="reservations",
    )
    return drop_empty(grid, [LABELS[key] for key in ("used_lesson", "used_paper")])


_SHARES = ("reserved_mean", "held_mean", "used_of_reserved")


def waits(data: Data, rules: list[Rule]) -> Grid:
    """One row per rule, one column per output length: median seconds and 90th percentile."""
    frame = data.reservation_waits[data.reservation_waits.engine.notna()]
    by_rule = {
        rule.words: {
            row.output_tokens: row
            for row in frame[
                frame.engine.eq(rule.engine)
                & frame.workload.eq(rule.first("workload"))
                & frame.slots.eq(rule.first("slots"))
            ].itertuples()
        }
        for rule in rules
    }
    lengths = sorted({length for by_length in by_rule.values() for length in by_length})
    rows = [
        [text(words), *(_wait(by_length.get(length)) for length in lengths)]
        for words, by_length in by_rule.items()
        if by_length
    ]
    heads = columns("name:rule")
    heads += [Column(TEXTS["waits_of"].format(tokens=n.integer(length))) for length in lengths]
    return Grid(
        TEXTS["waits_caption"],
        heads,
        rows,
        TEXTS["waits_note"],
        "noise nowrap",
        table="reservation_waits",
    )


def _wait(row) -> Cell:
    if row is None or n.is_missing(row.wait_median_s):
        return text(None)
    written = n.seconds(row.wait_median_s)
    if not n.is_missing(row.wait_p90_s):
        written = TEXTS["waits_cell"].format(median=written, p90=n.seconds(row.wait_p90_s))
    return Cell(written, float(row.wait_median_s))


def others(data: Data, rules: list[Rule]) -> Grid:
    """One row per cell outside the main comparison: other maximum lengths, other blocks."""
    rows = []
    for (engine, slots, workload), part in groups(rest(data, rules), _CELL):
        ratio = Rule(str(first(part.reservation)), engine, part).to_max()
        name = first(part.reservation)
        rows.append(
            [
                text(engine),
                text(RULES.get(name, name)),
                text(workload),
                figure(slots, n.integer),
                figure(first(part.usable_tokens), n.integer),
                figure(first(part.block_size), n.integer),
                figure(first(part.reserve_tokens), n.integer),
                figure(mean(part.rows_max), n.integer),
                figure(mean(part.rows_mean_time), n.rate),
                figure(mean(part.steps), n.integer),
                figure(first(part.estimate), n.rate),
                between(first(part.low), first(part.high), part.repeat.nunique(), n.rate),
                _ratio(ratio),
                figure(mean(part.preemptions), count),
                figure(part.repeat.nunique(), n.integer),
            ]
        )
    heads = columns("name:engine", "text:rule", "text:workload", "slots", "usable", "block_size")
    heads += columns("reserve_tokens", "rows_max", "rows_mean_time", "steps", GEOMETRIC, "interval")
    heads += columns("ratio_to_max", "preemptions", "n")
    grid = Grid(TEXTS["rest_caption"], heads, rows, name="noise nowrap", table="reservations")
    return drop_empty(grid, [LABELS[key] for key in ("reserve_tokens", "ratio_to_max")])


_CELL = ["engine", "slots", "workload"]
