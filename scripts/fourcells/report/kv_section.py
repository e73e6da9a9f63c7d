"""The section on the KV cache: sentences, figure and tables of the rules of reservation, then the
lesson's arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from fourcells.analysis import commands
from fourcells.report import kv_reported
from fourcells.report import kv_tables as tables
from fourcells.report.blocks import Commands, Details, Figure, Listing, Section, or_reason
from fourcells.report.catalogue import TEXTS
from fourcells.report.data import Data
from fourcells.report.kv_figure import kv_figure
from fourcells.report.kv_findings import blocks_told, findings, lengths_told
from fourcells.report.kv_rules import Rule, rules

# The sets of config.yaml that measure the rules, and the sweeps beside them.
SET, LENGTHS, BLOCKS = "kv", "kv_lengths", "kv_blocks"


def kv(data: Data) -> Section:
    """The whole section. What is missing leaves its reason and the command that makes it."""
    known = rules(data)
    blocks = [*_rules(data, known), *_sweeps(data, known), *_arithmetic(data)]
    return Section("kv", TEXTS["kv_head"], "6", TEXTS["kv_intro"], blocks)


def _rules(data: Data, known: list[Rule]) -> Iterator:
    if not known:
        sentence = TEXTS["absent"].format(what=TEXTS["kv_what"], why=TEXTS["why_no_reservations"])
        yield Commands(sentence, [commands.make(SET)])
        return
    yield Listing(findings(data, known))
    svg = kv_figure(data, known)
    if svg:
        yield Figure("kv", svg, TEXTS["kv_figure"], "reservation_timeline")
    else:
        yield or_reason(None, TEXTS["kv_figure_what"], "why_no_timeline")
    yield tables.reservations(data, known)
    yield Details(TEXTS["beforehand_head"], [tables.beforehand(known)])
    yield tables.ladder(data, known)
    yield or_reason(tables.waits(data, known), TEXTS["waits_head"], "why_no_waits")


def _sweeps(data: Data, known: list[Rule]) -> Iterator:
    """Other maximum lengths and block sizes, folded away below what they say."""
    told = {LENGTHS: lengths_told(data, known), BLOCKS: blocks_told(data, known)}
    said = [sentence for sentences in told.values() for sentence in sentences]
    if said:
        yield Listing(said)
    grid = tables.others(data, known)
    if grid.rows:
        yield Details(TEXTS["rest_caption"], [grid])
    missing = [name for name, sentences in told.items() if not sentences]
    if known and missing:
        sentence = TEXTS["absent"].format(what=TEXTS["rest_what"], why=TEXTS["why_no_rest"])
        yield Commands(sentence, [commands.make(name) for name in missing])


def _arithmetic(data: Data) -> Iterator:
    said = kv_reported.arithmetic_told(data)
    if said:
        yield Listing(said)
    grid = kv_reported.computed(data)
    if grid.rows:
        yield grid
    yield or_reason(kv_reported.reported(data), TEXTS["kv_arithmetic_head"], "why_no_table")
    if not kv_reported.sources(data):
        yield TEXTS["kv_missing"]
