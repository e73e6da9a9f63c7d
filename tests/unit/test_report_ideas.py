"""The section "Which idea does what": sentences, pictures and tables from frames with known
answers."""

from __future__ import annotations

import math
import random

import pandas as pd
import pytest
from synthetic import DEMO, STEP_TIMES
from synthetic import ENGINES as SYNTHETIC
from test_report_page import HOSTILE, Page, assert_no_null_shown, hostile, make

from fourcells.analysis.stats import geometric_mean, t_interval
from fourcells.report import chains, figures, waterfall
from fourcells.report.answer import sentences
from fourcells.report.blocks import Commands
from fourcells.report.catalogue import FACTORS
from fourcells.report.data import COLUMNS, Data, make_data
from fourcells.report.dose_figure import main_dose
from fourcells.report.findings import findings
from fourcells.report.ideas import ideas
from fourcells.report.occupancy_figure import panels
from fourcells.report.page import render

A = [184] * 64
B = [32, 64, 128, 512] * 16
WORKLOADS = {"A": A, "B": B, "B_sorted": sorted(B)}
# Seconds: per step, per row, per step that takes requests in.
COSTS = {"torch": (20e-3, 200e-6, 30e-3), "vllm": (2.0e-3, 6e-6, 26e-3)}
ENGINES = {
    "static": ("torch", "padded"),
    "torch_wave": ("torch", "wave"),
    "torch_continuous": ("torch", "continuous"),
    "static_compiled": ("compiled", "padded"),
    "vllm": ("vllm", "continuous"),
    "vllm_again": ("vllm", "continuous"),
    "vllm_padded": ("vllm", "padded"),
    "vllm_wave": ("vllm", "wave"),
}
COSTS["compiled"] = (4e-3, 40e-6, 6e-3)
PAIR = {"engine": "vllm", "baseline": "static"}


def schedule(lengths, slots, admission):
    """(rows, useful rows, entering, waiting) of every step."""
    left, held, made = list(lengths), [], []
    waiting = list(range(len(lengths)))
    while waiting or held:
        free = slots - len(held) if admission == "continuous" or not held else 0
        entering, waiting = waiting[:free], waiting[free:]
        held = held + entering
        useful = [h for h in held if left[h] > 0]
        made.append((len(held), len(useful), len(entering), len(waiting)))
        for h in useful:
            left[h] -= 1
        alive = [h for h in held if left[h] > 0]
        held = (held if alive else []) if admission == "padded" else alive
    return made


def window(engine, workload, slots, prompts=True):
    """Seconds, by the step costs."""
    group, admission = ENGINES[engine]
    a, c, p = COSTS[group]
    steps = schedule(WORKLOADS[workload], slots, admission)
    return sum(a + c * rows + p * prompts * (entering > 0) for rows, _, entering, _ in steps)


def cells():
    for workload in WORKLOADS:
        yield from ((engine, workload, 16) for engine in ENGINES)
    yield "vllm", "A", 256
    yield "vllm", "B", 256


def rates(repeats, noise):
    """tok/s by cell and repeat."""
    chance = random.Random(1)
    return {
        (cell, r): sum(WORKLOADS[cell[1]]) / window(*cell) * math.exp(chance.gauss(0, noise))
        for cell in cells()
        for r in range(1, repeats + 1)
    }


def pooled(values):
    low, high = t_interval(values)
    return {"estimate": geometric_mean(values), "low": low, "high": high, "n": len(values)}


CHAINS = {
    "total": [("total", "vllm", "static")],
    "engine_first": [
        ("engine", "vllm_padded", "static"),
        ("early_exit", "vllm_wave", "vllm_padded"),
        ("refill", "vllm", "vllm_wave"),
    ],
    "scheduling_first": [
        ("early_exit", "torch_wave", "static"),
        ("refill", "torch_continuous", "torch_wave"),
        ("engine", "vllm", "torch_continuous"),
    ],
    "compiled_first": [
        ("compile", "static_compiled", "static"),
        ("engine", "vllm_padded", "static_compiled"),
        ("early_exit", "vllm_wave", "vllm_padded"),
        ("refill", "vllm", "vllm_wave"),
    ],
    "between": [
        ("scheduling_engine_first", "vllm", "vllm_padded"),
        ("scheduling_scheduling_first", "torch_continuous", "static"),
    ],
}


def attribution(by_cell, repeats):
    rows = []

    def add(workload, path, place, factor, above, below, values):
        group = ENGINES.get(above, (0,))[0] == ENGINES.get(below, (1,))[0]
        predicted = None
        if group and factor != "engine":
            predicted = window(below, workload, 16) / window(above, workload, 16)
        shared = PAIR | {"workload": workload, "slots": 16, "path": path, "place": place}
        shared |= {"factor": factor, "above": above, "below": below, "predicted": predicted}
        each = enumerate(values, start=1)
        rows.extend(shared | pooled(values) | {"repeat": r, "value": v} for r, v in each)

    def ratio(above, below, workload):
        return [
            by_cell[(above, workload, 16), r] / by_cell[(below, workload, 16), r]
            for r in range(1, repeats + 1)
        ]

    def over(one, two):
        return [x / y for x, y in zip(one, two, strict=True)]

    for workload in WORKLOADS:
        for path, chain in CHAINS.items():
            for place, (factor, above, below) in enumerate(chain):
                values = ratio(above, below, workload)
                add(workload, path, place, factor, above, below, values)
        inside = ratio("vllm", "vllm_padded", workload)
        outside = ratio("torch_continuous", "static", workload)
        names = ("vllm, static", "vllm_padded, torch_continuous")
        add(workload, "between", 2, "interaction", *names, over(inside, outside))
    quotient = over(ratio("vllm", "static", "B"), ratio("vllm", "static", "A"))
    inside = ratio("vllm", "vllm_padded", "B")
    add("B", "estimate", 0, "quotient", "vllm, static on A", "static, vllm on A", quotient)
    add("B", "estimate", 1, "scheduling", "vllm", "vllm_padded", inside)
    names = ("vllm_padded, static on A", "static, vllm on A")
    add("B", "estimate", 2, "off", *names, over(quotient, inside))
    return rows


def ratios(by_cell, repeats):
    rows = []
    for name, workload, lesson in (("R_A", "A", 1.466), ("R_B", "B", 2.981)):
        values = [
            by_cell[("vllm", workload, 16), r] / by_cell[("static", workload, 16), r]
            for r in range(1, repeats + 1)
        ]
        told = pooled(values)
        told["geometric_mean"] = told.pop("estimate")
        for r, value in enumerate(values, start=1):
            rows.append({"name": name, **PAIR, "slots": 16, "repeat": r, "value": value, **told})
            rows[-1]["lesson"] = lesson
    return rows


def runs(steps):
    """Run-length coded (from, to, rows, useful rows, waiting)."""
    made = []
    for at, (rows, useful, _, waiting) in enumerate(steps):
        if made and (made[-1]["rows"], made[-1]["useful_rows"]) == (rows, useful):
            made[-1]["step_to"] = at + 1
        else:
            made.append({"step_from": at, "step_to": at + 1, "rows": rows, "useful_rows": useful})
            made[-1]["waiting"] = waiting
    return made


def occupancy():
    made = []
    for engine, workload, slots in cells():
        if workload == "B_sorted":
            continue
        admission = ENGINES[engine][1]
        coded = runs(schedule(WORKLOADS[workload], slots, admission))
        shared = {"engine": engine, "workload": workload, "slots": slots, "admission": admission}
        for source in ("measured", "simulated"):
            made += [shared | {"source": source} | run for run in coded]
    return made


def step_model():
    shared = {"c_known": True, "p_known": True, "d_known": False, "steps": 11_040}
    shared |= {"cells": "vllm A 16, vllm A 256", "lesson_a_s": 11.14e-3}
    shared |= {"lesson_c_s": 95.6e-6}
    (a, c, p), (other, _, q) = COSTS["vllm"], COSTS["torch"]
    members = "vllm, vllm_again, vllm_padded, vllm_wave"
    rows = [shared | {"engine": "vllm", "engines": members, "a_s": a, "c_s": c, "p_s": p}]
    rows[0]["a_over_c"] = a / c
    rows.append(
        {"engine": "static", "engines": "static, torch_continuous, torch_wave", "a_s": other,
         "c_known": False, "rows_known": 16, "p_s": q, "p_known": True, "d_known": False,
         "extra_known": 2032, "steps": 3680, "cells": "static A 16"}
    )  # fmt: skip
    return rows


def prediction(by_cell, repeats):
    rows = []
    for cell in cells():
        engine, workload, slots = cell
        steps = schedule(WORKLOADS[workload], slots, ENGINES[engine][1])
        total = sum(WORKLOADS[workload])
        measured = sum(total / by_cell[cell, r] for r in range(1, repeats + 1)) / repeats
        said, decode = window(*cell), window(*cell, prompts=False)
        rows.append(
            {"engine": engine, "workload": workload, "slots": slots,
             "admission": ENGINES[engine][1], "fitted": workload == "A",
             "steps_computed": len(steps), "steps_measured": float(len(steps)),
             "rows_mean_computed": sum(s[0] for s in steps) / len(steps),
             "predicted_s": said, "measured_s": measured, "predicted_tok_s": total / said,
             "measured_tok_s": total / measured, "residual": said / measured - 1,
             "decode_only_s": decode, "decode_only_residual": decode / measured - 1,
             "bound_longest": max(WORKLOADS[workload]), "bound_share": -(-total // slots),
             "bound_graham": total / slots + (1 - 1 / slots) * max(WORKLOADS[workload])}
        )  # fmt: skip
    return rows


def ablations(repeats):
    chance = random.Random(2)
    options = [
        ("vllm_eager", "enforce_eager", "true", "false", 0.16),
        ("vllm_sync", "async_scheduling", "false", "true", 0.93),
        ("vllm_small_budget", "max_num_batched_tokens", "512", "8192", 0.99),
        ("vllm_graphs_only", "compilation", "NONE", "VLLM_COMPILE", 0.97),
    ]
    rows = []
    for engine, option, value, reference, factor in options:
        for workload in ("A", "B"):
            values = [factor * math.exp(chance.gauss(0, 0.02)) for _ in range(repeats)]
            rows.append(
                {"engine": engine, "reference": "vllm", "option": option, "value": value,
                 "reference_value": reference, "workload": workload, "slots": 16,
                 "min": min(values), "max": max(values), **pooled(values)}
            )  # fmt: skip
    return rows


def dose(repeats):
    points = [("slots", s, str(s), B, s, "B") for s in (4, 8, 16, 32, 64)]
    points += [("copies", k, str(k), B * k, 16, f"B{k}" if k > 1 else "B") for k in (1, 2, 4, 8)]
    points += [
        ("order", 0, "sorted", sorted(B), 16, "B_sorted"),
        ("order", 1, "cyclic", B, 16, "B"),
    ]
    shuffled = random.Random(3).sample(B, len(B))
    points.append(("order", 2, "shuffled", shuffled, 16, "B_shuffled"))
    chance, rows = random.Random(4), []
    for kind, x, label, lengths, slots, workload in points:
        wave, own = (len(schedule(lengths, slots, a)) for a in ("wave", "continuous"))
        gain = (wave / own) ** 0.75
        values = [gain * math.exp(chance.gauss(0, 0.03)) for _ in range(repeats)]
        rows.append(
            {"kind": kind, "engine": "vllm", "other": "vllm_wave", "workload": workload,
             "slots": slots, "x": x, "label": label, "steps_other": wave, "steps_engine": own,
             "step_ratio_computed": wave / own, "step_ratio_measured": wave / (own + 2),
             **pooled(values)}
        )  # fmt: skip
    return rows


def arrivals(repeats):
    kinds = [
        ("B", "block", None, 0.70, 0.72, 0.61, 1.30),
        ("B_low", "poisson", 4.0, 0.22, 0.08, 0.03, 0.05),
        ("B_high", "poisson", 18.5, 0.91, 0.94, 1.9, 4.1),
    ]
    return [
        {"engine": engine, "workload": workload, "slots": 16, "repeat": r, "process": process,
         "rate": rate, "requests": 64, "window_s": 3.1, "slot_use": use, "freed": 60,
         "refilled": 60 * refilled, "refilled_share": refilled, "ttft_median_s": ttft,
         "ttft_p90_s": p90, "e2e_median_s": ttft + 0.4, "e2e_p90_s": p90 + 1,
         "late_max_s": 0.002 if rate else None, "late_mean_s": 0.0003 if rate else None}
        for engine in ("vllm", "torch_continuous")
        for workload, process, rate, use, refilled, ttft, p90 in kinds
        for r in range(1, repeats + 1)
    ]  # fmt: skip


def frames(repeats=5, noise=0.015):
    """Every table of the section, and those it stands beside, of one made-up machine."""
    by_cell = rates(repeats, noise)
    throughput = [
        {"engine": cell[0], "workload": cell[1], "slots": cell[2], "repeat": r, "tok_s": rate,
         "window_s": sum(WORKLOADS[cell[1]]) / rate, "tokens": sum(WORKLOADS[cell[1]]),
         "compare_with": "A" if cell[1] == "B" else None}
        for (cell, r), rate in by_cell.items()
    ]  # fmt: skip
    tables = {
        "throughput": sorted(throughput, key=lambda row: row["workload"]),
        "ratios": ratios(by_cell, repeats),
        "attribution": attribution(by_cell, repeats),
        "step_model": step_model(),
        "prediction": prediction(by_cell, repeats),
        "ablations": ablations(repeats),
        "occupancy": occupancy(),
        "dose": dose(repeats),
        "arrivals": arrivals(repeats),
    }
    return {name: pd.DataFrame(rows) for name, rows in tables.items()}


CHOSEN = chains.Pair("vllm", "static", "B", 16)
FAST = ("faster", "slower", "too high", "too low", "gains more", "gains less")


def told(data: Data) -> list[str]:
    """The sentences on top of the section."""
    return findings(data, chains.main_pair(data))


def shown(data: Data) -> Page:
    page = Page(render(data))
    assert_no_null_shown(page)
    return page


def words(page: Page) -> str:
    return " ".join("".join(page.text).split())


def without(tables, *names):
    return make_data({name: t for name, t in tables.items() if name not in names}, {})


@pytest.fixture(scope="module")
def tables():
    return frames()


@pytest.fixture(scope="module")
def data(tables):
    return make_data(tables, {})


@pytest.fixture(scope="module")
def page(data):
    return shown(data)


def factor(tables, name, path="engine_first", workload="B"):
    frame = tables["attribution"]
    same = frame.path.eq(path) & frame.factor.eq(name) & frame.workload.eq(workload)
    return frame[same].iloc[0]


def bracketed(row) -> str:
    return f"{row.estimate:.2f}x [{row.low:.2f}x, {row.high:.2f}x]"


def test_the_total_is_told_as_the_product_of_its_factors(tables, data):
    first = told(data)[0]
    total = factor(tables, "total", "total")
    assert f"vllm made {total.estimate:.2f}x the tokens per second of static" in first
    assert "5 repeats; lesson 2.98x)" in first
    parts = [factor(tables, name) for name in ("engine", "early_exit", "refill")]
    names = ("engine", "early exit", "refill")
    assert (
        " \u00d7 ".join(f"{n} {bracketed(p)}" for n, p in zip(names, parts, strict=True)) in first
    )
    assert math.prod(p.estimate for p in parts) == pytest.approx(total.estimate)


def test_the_other_ways_and_the_interaction_are_told(tables, data):
    second, third, fourth = told(data)[1:4]
    assert bracketed(factor(tables, "engine", "scheduling_first")) in second
    assert bracketed(factor(tables, "compile", "compiled_first")) in third
    between = factor(tables, "interaction", "between")
    assert between.high < 1 and f"the interaction, is {between.estimate:.2f}x" in fourth
    assert "scheduling gains less in the code of vllm" in fourth


def test_the_lessons_quotient_is_explained_by_the_two_engine_factors(tables, data):
    quotient, why = told(data)[-2:]
    off = factor(tables, "off", "estimate")
    assert off.low > 1 and f"too high by {100 * (off.estimate - 1):.1f} %" in quotient
    padded, uniform = factor(tables, "engine"), factor(tables, "total", "total", "A")
    assert bracketed(padded) in why and bracketed(uniform) in why
    assert padded.estimate / uniform.estimate == pytest.approx(off.estimate)

    def model(prompts):
        (sb, eb), (ea, sa) = (
            [window(e, w, 16, prompts) for e in pair]
            for w, pair in (("B", ("static", "vllm_padded")), ("A", ("vllm", "static")))
        )
        return sb / eb * ea / sa

    assert (
        f"put it at {model(True):.2f}x; without their terms for prompts, at {model(False):.2f}x"
        in why
    )
    assert model(True) > 1.02 > model(False)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "Distinguishable from 1, by their intervals: engine, refill. "
         "Not distinguishable from 1: early exit."),
        ({"early_exit": (1.02, 1.04)}, "by their intervals: engine, early exit, refill."),
        ({"engine": (0.9, 1.1), "refill": (0.5, 2)}, "No factor is distinguishable from 1."),
        ({"engine": (None, None)}, "Without an interval (no interval) no factor can be called"),
    ],
)  # fmt: skip
def test_a_factor_is_different_from_1_only_if_its_interval_excludes_1(tables, changes, says):
    frame = tables["attribution"].copy()
    for name, (low, high) in changes.items():
        same = frame.factor.eq(name) & frame.path.eq("engine_first")
        frame.loc[same, ["low", "high"]] = low, high
    assert says in " ".join(told(make_data(tables | {"attribution": frame}, {})))


def test_within_the_noise_floor_nothing_is_distinguishable(tables):
    frame = tables["attribution"].copy()
    same = frame.factor.eq("early_exit") & frame.path.eq("engine_first")
    frame.loc[same, ["estimate", "low", "high"]] = 1.03, 1.02, 1.04
    floor = {"name": "a / b", "kind": "A/A", "n": 5, "noise_floor": 0.05, "passed": True}
    noisy = {"attribution": frame, "controls": pd.DataFrame([floor])}
    said = " ".join(told(make_data(tables | noisy, {})))
    assert "Not distinguishable from 1: early exit (within the noise floor of 5.0 %)." in said
    off = factor(tables, "off", "estimate")
    assert off.low > 1 and "within the noise floor of 5.0 %): not distinguishable" in said


def test_a_placebo_that_failed_is_told_of_the_refilling_it_doubts(tables):
    placebo = {
        "name": "vllm_wave / vllm on A, 16 slots", "kind": "placebo", "engine": "vllm_wave",
        "other": "vllm", "slots": 16, "n": 5, "estimate": 1.06, "low": 1.04, "high": 1.08,
        "passed": False,
    }  # fmt: skip
    says = "vllm_wave / vllm on A, 16 slots gave 1.06x (95 % interval 1.04x to 1.08x, 5 repeats)"

    def doubted(**changes) -> bool:
        controls = pd.DataFrame([placebo | changes])
        return says in " ".join(told(make_data(tables | {"controls": controls}, {})))

    assert doubted()
    assert not doubted(passed=True)
    assert not doubted(other="vllm_padded") and not doubted(slots=256)


def test_the_answer_gives_each_idea_by_itself(tables, data):
    third = sentences(data)[2]
    for name in ("engine", "early_exit", "refill"):
        assert f"{FACTORS[name]} {factor(tables, name).estimate:.2f}x" in third
    assert "the other way round: early exit" in third
    assert "of which not distinguishable from 1: early exit" in third
    # without the ideas, what is lost and idle
    assert "Switched" not in sentences(without(tables, "attribution"))[2]
    assert "(one repeat)" in sentences(make_data(frames(repeats=1), {}))[2]


def test_one_repeat_makes_no_claim():
    one = make_data(frames(repeats=1), {})
    page = shown(one)
    text = words(page)
    assert not any(word in text for word in FAST)
    assert "Without an interval (one repeat) no factor can be called different from 1." in text
    ways = page.table("From static to vllm on B")
    assert {row["conclusion"] for row in ways} == {"one repeat"}
    assert {row["95 % interval"] for row in ways} == {"one repeat"}
    assert "min" not in page.table("Engines that differ")[0]


def test_two_repeats_come_with_a_warning():
    assert "Two repeats only" in " ".join(told(make_data(frames(repeats=2), {})))


def test_the_table_of_ways_holds_every_factor_and_repeat(tables, page):
    rows = page.table("From static to vllm on B, 16 slots")
    frame = tables["attribution"].query("workload == 'B'")
    assert len(rows) == len(frame.groupby(["path", "place"])) == 17
    (row,) = [r for r in rows if r["way and factor"] == "engine first: refill"]
    given = factor(tables, "refill")
    assert (row["what is divided"], row["conclusion"]) == ("vllm / vllm_wave", "faster")
    assert row["predicted"] == f"{given.predicted:.2f}x"
    values = frame.query("path == 'engine_first' and factor == 'refill'").set_index("repeat").value
    assert [row[f"repeat {r}"] for r in range(1, 6)] == [f"{values[r]:.2f}x" for r in range(1, 6)]
    (row,) = [r for r in rows if r["way and factor"].endswith("quotient Q")]
    assert row["what is divided"] == "(vllm \u00d7 static on A) / (static \u00d7 vllm on A)"
    (row,) = [r for r in rows if r["way and factor"].endswith("Q / scheduling")]
    assert row["conclusion"] == "too high"


def test_factors_stand_for_every_workload(page):
    rows = page.table("Factors, engine first")
    assert [row["workload"] for row in rows] == ["A", "B", "B_sorted"]


@pytest.mark.parametrize("path", chains.WAYS)
def test_the_waterfall_leads_from_the_baseline_to_the_engine(tables, data, path):
    chain = chains.factors(data, CHOSEN, path)
    way = waterfall.Way(path, chain, chains.start_tok_s(data, CHOSEN, chain))
    rates = tables["throughput"].query("workload == 'B' and slots == 16").groupby("engine").tok_s
    ends = [geometric_mean(rates.get_group(e).tolist()) for e in ("static", "vllm")]
    assert [way.levels()[0], way.levels()[-1]] == pytest.approx(ends, rel=1e-9)


def svg(page: Page, name: str) -> str:
    labels = [v for tag, key, v in page.attributes if (tag, key) == ("svg", "aria-label")]
    (label,) = [label for label in labels if label.startswith(name)]
    return label


def test_the_pictures_say_what_they_show(tables, page):
    text = words(page)
    fall = svg(page, "Waterfall")
    assert f"refill {bracketed(factor(tables, 'refill'))}" in fall
    # the text of a picture is text
    assert text.count(bracketed(factor(tables, "refill"))) >= 4
    occupied = svg(page, "Rows over steps")
    for words_ in (
        "vllm_padded: Padded, 16 slots: 2,048 steps, 64.1 % of slot steps idle",
        "vllm_wave: Wave, 16 slots: 2,048 steps, 64.1 % of slot steps idle",
        "vllm: Continuous, 16 slots: 1,056 steps, 30.3 % of slot steps idle",
        "vllm: Continuous, 256 slots: 512 steps, 91.0 % of slot steps idle",
    ):
        assert words_ in occupied and words_.partition(": ")[2] in text
    assert "slots: 4: steps 2.56x" in svg(page, "Ratios of continuous to wave")


def test_a_factor_below_1_and_a_wide_interval_are_drawn(tables):
    frame = tables["attribution"].copy()
    frame.loc[frame.factor.eq("early_exit"), ["estimate", "low", "high"]] = 0.7, 1e-4, 1e5
    page = shown(make_data(tables | {"attribution": frame}, {}))
    assert "early exit 0.70x" in svg(page, "Waterfall")


def test_what_was_only_computed_is_drawn_as_such(tables):
    simulated = tables["occupancy"].query("source == 'simulated'")
    page = shown(make_data(tables | {"occupancy": simulated}, {}))
    assert "2,048 steps, 64.1 % of slot steps idle, computed only" in svg(page, "Rows over steps")


def test_panels_are_of_the_engines_group(data, tables):
    assert [p.engine for p in panels(data, CHOSEN)] == ["vllm_padded", "vllm_wave", "vllm", "vllm"]
    # without a step model nothing tells the group
    assert [p.slots for p in panels(without(tables, "step_model"), CHOSEN)] == [16, 256]


def test_the_step_model_says_what_it_does_not_know(page):
    ours, theirs = page.table("Step model")
    assert [ours[key] for key in ("a, ms", "c, \u00b5s per row", "p, ms", "a/c, rows")] == [
        "2.00", "6.0", "26.00", "333",
    ]  # fmt: skip
    assert (ours["a, ms, lesson"], ours["c, \u00b5s per row, lesson"]) == ("11.14", "95.6")
    assert (theirs["a, ms"], theirs["p, ms"]) == ("20.00 at 16 rows", "30.00 with 2,032 tokens")
    assert theirs["c, \u00b5s per row"] == theirs["a/c, rows"] == "\u2013"


def test_the_step_model_says_where_p_counts(tables, page):
    said = "CUDA graphs hold steps of up to"
    assert said not in words(page)
    held = tables["step_model"].assign(graph_tokens=[512, None])
    captured = shown(make_data(tables | {"step_model": held}, {}))
    assert f"vllm: {said} 512 tokens, with prompts or without;" in words(captured)


def test_predictions_stand_beside_what_was_measured(tables, page):
    rows = page.table("Predicted and measured windows")
    assert {row["workload"] for row in rows} == {"A", "B"}
    assert "static_compiled" not in {row["engine"] for row in rows}
    assert len(page.table("Predicted and measured, every cell")) == len(tables["prediction"])
    given = tables["prediction"].query("engine == 'vllm' and workload == 'B' and slots == 16")
    said, bare = (100 * given[k].iloc[0] for k in ("residual", "decode_only_residual"))
    sign = "+" if said > 0 else "\u2212"
    assert f"({sign}{abs(said):.1f} %). Without the terms for prompts" in words(page)
    assert bare < -10 and f"(\u2212{-bare:.1f} %)" in words(page)
    assert "vllm on B with 16 slots, not fitted on it:" in words(page)


def test_ablations_conclude_by_their_intervals(page):
    rows = page.table("Engines that differ in one option")
    assert len(rows) == 8
    assert (rows[0]["ratio"], rows[0]["value"]) == ("vllm_eager / vllm", "true")
    assert rows[0]["conclusion"] == "slower"


def test_the_dose_is_told_drawn_and_tabled(page, tables):
    text = words(page)
    assert "Slots, from 4 to 64: the ratio of steps goes from 2.56x to 1.00x" in text
    assert (
        "Copies of the workload, from 1 to 8: the ratio of steps goes from 1.94x to 2.65x" in text
    )
    rows = page.table("Dose")
    assert len(rows) == len(tables["dose"])
    ratios = [row["step ratio, computed"] for row in rows if row["dose"] == "slots"]
    assert ratios == ["2.56x", "2.33x", "1.94x", "1.60x", "1.00x"]


def test_one_series_of_each_kind_is_drawn(tables):
    again = tables["dose"].query("kind == 'slots'").assign(workload="A")
    both = make_data({"dose": pd.concat([again, tables["dose"]])}, {})
    assert set(main_dose(both, CHOSEN).query("kind == 'slots'").workload) == {"B"}
    assert set(main_dose(both, None).query("kind == 'slots'").workload) == {"A"}


def test_what_changes_when_requests_keep_coming(page):
    text = words(page)
    assert (
        "With all requests waiting at the start, vllm had 70.0 % of its 16 slots in use, and "
        "72.0 % of those freed were taken again in the next step; when requests keep coming: "
        "22.0 % in use and 8.0 % taken again at 4 requests per second" in text
    )
    rows = page.table("Requests that all wait")
    assert [row["arrival"] for row in rows[:3]] == [
        "all at the start", "4 per second", "18.50 per second",
    ]  # fmt: skip
    assert rows[0]["n"] == "5" and rows[0]["engine"] == "vllm"


NEW = {
    "attribution": "What each idea was worth",
    "step_model": "What a step costs, and what follows from it",
    "prediction": "Predicted and measured windows",
    "ablations": "One option at a time",
    "occupancy": "Who held the slots, step by step",
    "dose": "More of the cause, more of the effect",
    "arrivals": "When requests keep coming",
}


def reasons(data: Data) -> dict[str, list[str]]:
    """The commands of what is missing, by its name."""
    blocks = [block for block in ideas(data).blocks if isinstance(block, Commands)]
    assert all(": not in this run. It needs" in block.sentence for block in blocks)
    return {block.sentence.partition(":")[0]: block.lines for block in blocks}


@pytest.mark.parametrize("name", NEW)
def test_a_missing_table_leaves_its_reason_and_command(tables, name):
    found = reasons(without(tables, name))
    target = f" {name}" if name in ("dose", "arrivals") else ""
    assert found.pop(NEW[name]) == ["snakemake -j1 --use-conda" + target]
    # whose steps to draw follows from the pair
    assert set(found) == ({NEW["occupancy"]} if name == "attribution" else set())


def test_without_any_table_every_part_says_why():
    empty = make_data({}, {})
    assert set(reasons(empty)) == set(NEW.values())
    shown(empty)


def test_where_nothing_is_missing_no_reason_is_given(data):
    assert reasons(data) == {}


def test_a_chain_that_is_not_whole_leaves_the_total(tables):
    frame = tables["attribution"].query("path == 'total'")
    page = shown(make_data(tables | {"attribution": frame}, {}))
    text = words(page)
    assert "its engine factor needs a padded and a waving twin of vllm." in text
    assert "What each idea was worth: not in this run." in text
    assert len(page.table("From static to vllm")) == 1


def test_figures_of_many_engines_show_those_that_are_compared(tables, data, page):
    kept = figures.chosen(data, data.throughput)
    assert set(kept.engine) == {"static", "vllm"} and set(kept.workload) == {"A", "B"}
    assert set(kept.slots) == {16, 256}
    # a slot count that the uniform workload lacks is a dose, not a cell of the comparison
    more = tables["throughput"].query("engine == 'vllm' and workload == 'B'").assign(slots=4)
    more = make_data(tables | {"throughput": pd.concat([tables["throughput"], more])}, {})
    assert set(figures.chosen(more, more.throughput).slots) == {16, 256}
    few = data.throughput[data.throughput.engine.isin(list(ENGINES)[:6])]
    assert len(figures.chosen(data, few)) == len(few)
    assert "vllm_wave, 16 slots" not in svg(page, "Bars of mean output")
    assert "vllm_wave" in {row["engine"] for row in page.table("Tokens per second")}
    assert words(page).count("stand in the tables only.") == 1


def test_names_in_the_section_are_text(data):
    source = render(hostile(data))
    assert source.count("<script") == 1 and "script" not in Page(source).tags  # the page's own
    assert "".join(Page(source).text).count(HOSTILE) > 10


def test_the_tables_of_the_analysis_fill_the_section(tmp_path):
    """What the analysis writes has the columns that the section reads."""
    engines = {
        name: engine | {"baseline": "static" if name == "vllm" else None}
        for name, engine in SYNTHETIC.items()
    }
    poisson = {"process": "poisson", "rate": 40, "seed": 1}
    workloads = DEMO | {"B_high": DEMO["B"] | {"arrival": poisson}}
    cells = [(engine, workload, 16) for engine in engines for workload in "AB"]
    cells += [("vllm", w, 256) for w in "AB"] + [("vllm_wave", "B", 8), ("vllm", "B", 8)]
    cells.append(("vllm", "B_high", 16))
    given = {"engines": engines, "workloads": workloads, "step_times": STEP_TIMES}
    data = make(tmp_path, repeats=2, noise=0.01, cells=cells, **given)
    for name in NEW:
        assert not getattr(data, name)[COLUMNS[name].split()].isna().all(axis=1).any(), name
        assert len(getattr(data, name)), name
    more = "More slots, copies of the workload and its order"
    assert reasons(data) == {more: ["snakemake -j1 --use-conda dose"]}
    text = words(shown(data))
    assert "Padded, 16 slots: 512 steps, 64.1 % of slot steps idle" in text
