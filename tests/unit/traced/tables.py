"""Every table of the page, by its caption: what its rows show, and how many there must be."""

from __future__ import annotations

from collections.abc import Callable

from traced.block_end import end_facts
from traced.ideas_tables import ablations, arrivals, dose, everywhere, paths, prediction, step_model
from traced.kv_tables import (
    beforehand,
    computed_requests,
    kv_quantities,
    ladder,
    other_reservations,
    reservations,
    waits,
)
from traced.noise_tables import conclusions, controls, cost, left_out, noise, variance
from traced.numbers import number_in
from traced.rows import Expected, Row, matched
from traced.run_tables import applied, attempt, crossing, machine, setting, timing, witness
from traced.speed_tables import four_cells, idle, latency, loss, medians, ratios, sooner, throughput
from traced.truth import CELL, Truth, main_rules


def block_end(row: Row) -> Expected:
    """A quantity of the end of a block: a column per slot count, the lesson's beside it."""
    of = row.caption("drain_caption")
    labels = row.words("labels")
    name = next(
        key.removeprefix("drain_")
        for key, words in labels.items()
        if key.startswith("drain_") and words == row["quantity"]
    )
    found = {}
    for heading in row.table.headings[1:]:
        slots = number_in(heading, row.table.language)
        of_lesson = matched(row.words("texts")["drain_lesson_column"], heading) is not None
        facts = end_facts(row.truth, of["engine"], of["workload"], slots, of_lesson)
        found[heading] = [facts[name]] if name in facts else []
    return found


Expect = Callable[[Row], Expected]


def groups(table: str, keys: list[str], only: str = "") -> Callable[[Truth], int]:
    """How many groups a table has, of the rows whose name fits."""

    def count(truth: Truth) -> int:
        frame = truth.tables[table]
        if only:
            frame = frame[frame["name"].str.match(only)]
        return frame.groupby(keys, dropna=False).ngroups

    return count


def lines(table: str) -> Callable[[Truth], int]:
    return lambda truth: len(truth.tables[table])


def main_count(truth: Truth) -> int:
    return main_rules(truth).reservation.nunique()


RATIO = ["name", "engine", "slots", "baseline"]
# Caption in the catalogue -> what its rows show, and how many rows there must be (None: the page
# chooses). Tables of one caption count together.
TABLES: dict[str, tuple[Expect, Callable[[Truth], int] | None]] = {
    "cells_caption": (four_cells, None),
    "throughput_caption": (throughput, groups("throughput", CELL)),
    "loss_caption": (loss, groups("ratios", RATIO, "loss")),
    "ratios_caption": (ratios, groups("ratios", RATIO, "R_|Q|slots_ratio")),
    "crossing_caption": (crossing, None),
    "idle_caption": (idle, groups("idle", CELL)),
    "latency_caption": (latency, None),
    "medians_caption": (medians, lines("latency")),
    "e2e_caption": (sooner, groups("ratios", RATIO, "E2E")),
    "drain_caption": (block_end, None),
    "reservations_caption": (reservations, main_count),
    "beforehand_caption": (beforehand, main_count),
    "ladder_caption": (ladder, main_count),
    "waits_caption": (waits, main_count),
    "rest_caption": (other_reservations, None),
    "computed_caption": (computed_requests, None),
    "kv_caption": (kv_quantities, None),
    "paths_caption": (paths, None),
    "everywhere_caption": (everywhere, None),
    "model_caption": (step_model, lines("step_model")),
    "prediction_caption": (prediction, None),
    "prediction_caption_all": (prediction, lines("prediction")),
    "ablations_caption": (ablations, lines("ablations")),
    "dose_caption": (dose, lines("dose")),
    "arrivals_caption": (arrivals, groups("arrivals", CELL)),
    "conclusions_caption": (conclusions, groups("ratios", RATIO, "R_|Q|slots_ratio|loss")),
    "left_out_caption": (left_out, None),
    "cost_caption": (cost, None),
    "noise_caption": (noise, lines("noise")),
    "controls_caption": (controls, lines("controls")),
    "variance_caption": (variance, lines("variance")),
    "setting_caption": (setting, None),
    "machine_caption": (machine, None),
    "applied_caption": (applied, None),
    "timings_caption": (timing, lines("timings")),
    "witness_caption": (witness, lines("timings")),
    "attempts_caption": (attempt, None),
}
