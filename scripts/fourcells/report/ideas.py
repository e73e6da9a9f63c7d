"""The section "Which idea does what": sentences first, then the pictures, then the reckoning."""

from __future__ import annotations

from collections.abc import Iterator

from fourcells.analysis import commands
from fourcells.report import dose_tables
from fourcells.report import ideas_tables as tables
from fourcells.report import numbers as n
from fourcells.report.blocks import Commands, Details, Figure, Listing, Section
from fourcells.report.catalogue import TEXTS
from fourcells.report.chains import Pair, main_pair
from fourcells.report.data import Data
from fourcells.report.dose_figure import dose_figure, main_dose, pair_words
from fourcells.report.findings import findings
from fourcells.report.grid import Grid
from fourcells.report.occupancy_figure import occupancy_figure
from fourcells.report.waterfall import waterfall


def ideas(data: Data) -> Section:
    """The whole section. What is missing leaves its reason and the command that makes it."""
    pair = main_pair(data)
    blocks = [
        *_factors(data, pair),
        *_occupancy(data, pair),
        *_model(data, pair),
        *_ablations(data),
        *_dose(data, pair),
        *_arrivals(data, pair),
    ]
    return Section("ideas", TEXTS["ideas_head"], "3", TEXTS["ideas_intro"], blocks)


def _or_command(grid: Grid | None, what: str, why: str, command: str) -> Grid | Commands:
    """The table, or why it is not there and the command that makes it."""
    if grid is not None and grid.rows:
        return grid
    return Commands(TEXTS["absent"].format(what=what, why=TEXTS[why]), [command])


def _factors(data: Data, pair: Pair | None) -> Iterator:
    if pair is None:
        yield _or_command(None, TEXTS["waterfall_what"], "why_no_paths", commands.MEASURE)
        return
    yield Listing(findings(data, pair))
    svg = waterfall(data, pair)
    words = {"engine": pair.engine, "baseline": pair.baseline, "workload": pair.workload}
    if svg:
        caption = TEXTS["waterfall_figure"].format(**words, slots=n.integer(pair.slots))
        yield Figure("waterfall", svg, caption, "attribution")
    else:
        yield _or_command(None, TEXTS["waterfall_what"], "why_no_paths", commands.MEASURE)
    yield tables.paths(data, pair)
    everywhere = tables.everywhere(data)
    if len(everywhere.rows) > 1:
        yield Details(TEXTS["everywhere_head"], [everywhere])


def _occupancy(data: Data, pair: Pair | None) -> Iterator:
    svg = occupancy_figure(data, pair) if pair else None
    if svg:
        caption = TEXTS["occupancy_figure"].format(workload=pair.workload)
        yield Figure("occupancy", svg, caption, "occupancy")
    else:
        yield _or_command(None, TEXTS["occupancy_what"], "why_no_occupancy", commands.MEASURE)


def _model(data: Data, pair: Pair | None) -> Iterator:
    model = tables.step_model(data)
    yield _or_command(model, TEXTS["model_head"], "why_no_model", commands.MEASURE)
    if pair:
        yield from tables.residual_told(data, pair)
    shown, every = tables.prediction(data, pair), tables.predictions(data)
    if not shown.rows:
        shown = every
    what = TEXTS["prediction_caption"]
    yield _or_command(shown, what, "why_no_prediction", commands.MEASURE)
    if every.rows and shown is not every:
        yield Details(TEXTS["prediction_head"], [every])


def _ablations(data: Data) -> Iterator:
    grid = dose_tables.ablations(data)
    yield _or_command(grid, TEXTS["ablations_head"], "why_no_ablations", commands.MEASURE)


def _dose(data: Data, pair: Pair | None) -> Iterator:
    main = main_dose(data, pair)
    told = dose_tables.dose_told(main)
    if told:
        yield Listing(told)
    svg = dose_figure(main)
    if svg:
        caption = TEXTS["dose_figure"].format(pair=pair_words(main))
        yield Figure("dose", svg, caption, "dose")
    grid = dose_tables.dose(data)
    yield _or_command(grid, TEXTS["dose_head"], "why_no_dose", commands.make("dose"))
    if grid is not None and grid.rows and "copies" not in set(data.dose.kind):
        yield _or_command(None, TEXTS["dose_more"], "why_no_more", commands.make("dose"))


def _arrivals(data: Data, pair: Pair | None) -> Iterator:
    told = dose_tables.arrivals_told(data, pair)
    if told:
        yield Listing(told)
    grid = dose_tables.arrivals(data, pair) if told else None
    yield _or_command(grid, TEXTS["arrivals_head"], "why_no_arrivals", commands.make("arrivals"))
