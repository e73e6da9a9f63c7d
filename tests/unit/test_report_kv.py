"""The section on the KV cache: sentences, picture and tables from frames with known answers."""

from __future__ import annotations

import math
import random

import pandas as pd
import pytest
import test_kv_reservations as measured
from test_report_ideas import shown, svg, words
from test_report_page import HOSTILE, Page

from fourcells.analysis.reservation_timeline import reservation_timeline_table
from fourcells.analysis.reservation_waits import reservation_waits_table
from fourcells.analysis.reservations import reservations_table
from fourcells.analysis.stats import geometric_mean, t_interval
from fourcells.report import kv_reported
from fourcells.report.blocks import Commands
from fourcells.report.data import COLUMNS, Data, make_data
from fourcells.report.kv_findings import blocks_told, findings, lengths_told
from fourcells.report.kv_rules import paired, rest, rules
from fourcells.report.kv_section import kv
from fourcells.report.page import render

USABLE, LONGEST, SLOTS, PROMPT = 32_768, 2_048, 256, 128
B4 = [32, 64, 128, 512] * 64
ENGINES = {
    "kv_on_demand": ("on_demand", 16),
    "kv_exact": ("exact", 16),
    "kv_pow2": ("pow2", 16),
    "kv_max": ("max", 16),
    "kv_one_block": ("one block", LONGEST),
}
PAPER = {"max": 0.204, "pow2": 0.268, "exact": 0.382, "on_demand": 0.963}
LESSON = {"max": 0.157, "pow2": 0.406, "exact": 0.626, "on_demand": 0.977}


def reserved(rule, output, longest):
    """Tokens taken at admission."""
    total = PROMPT + output
    return {
        "on_demand": PROMPT,
        "exact": total,
        "pow2": 1 << (total - 1).bit_length(),
    }.get(rule, longest)


def schedule(rule, block, longest=LONGEST):
    """Per step (rows, tokens in blocks taken, tokens held, preempted): first come, first served;
    whoever came last gives way."""
    waiting, running, made = list(range(len(B4))), [], []
    done, blocks, free = [0] * len(B4), {}, USABLE // block
    while waiting or running:
        lost = 0
        for request in list(running):
            while request in blocks:
                more = -(-(PROMPT + done[request] + 1) // block) - blocks[request]
                if more <= free:
                    blocks[request] += max(more, 0)
                    free -= max(more, 0)
                    break
                last = running.pop()
                waiting.insert(0, last)
                free += blocks.pop(last)
                lost += 1
        while waiting and not lost and len(running) < SLOTS:
            request = waiting[0]
            tokens = max(reserved(rule, B4[request], longest), PROMPT + done[request])
            if -(-tokens // block) > free:
                break
            running.append(waiting.pop(0))
            blocks[request] = -(-tokens // block)
            free -= blocks[request]
        held = sum(PROMPT + done[request] for request in running)
        made.append((len(running), sum(blocks.values()) * block, held, lost))
        for request in list(running):
            done[request] += 1
            if done[request] == B4[request]:
                running.remove(request)
                free += blocks.pop(request)
    return made


STEPS = {name: schedule(*rule) for name, rule in ENGINES.items()}
SHORT = schedule("max", 16, 640)


def seconds(rows):
    return 2e-3 + 30e-6 * rows


def in_time(steps):
    """Rows, weighted by the time of their steps."""
    times = [seconds(rows) for rows, *_ in steps]
    return sum(rows * t for (rows, *_), t in zip(steps, times, strict=True)) / sum(times)


def cell(engine, rule, steps, **changes):
    """What one timing of a schedule has in the table, but for its throughput."""
    times = [seconds(rows) for rows, *_ in steps]
    window = sum(times)

    def share(at):
        return sum(step[at] * t for step, t in zip(steps, times, strict=True)) / window / USABLE

    longest = LONGEST if rule in ("max", "one block") else None
    made = {
        "engine": engine, "workload": "B4", "slots": SLOTS, "reservation": rule, "block_size": 16,
        "usable_tokens": USABLE, "reserve_tokens": longest,
        "rows_max": max(rows for rows, *_ in steps), "rows_mean": sum(B4) / len(steps),
        "rows_mean_time": in_time(steps),
        "steps": len(steps), "steps_computed": len(steps), "reserved_mean": share(1),
        "held_mean": share(2), "used_of_reserved": share(2) / share(1),
        "preemptions": sum(lost for *_, lost in steps),
        "rows_computed": USABLE / {"max": 2048, "one block": 2048, "pow2": 790, "exact": 513}.get(
            rule, 329),
        "tok": sum(B4) / window,
    }  # fmt: skip
    return made | {"recomputed_tokens": 200 * made["preemptions"]} | changes


def reservations(repeats, noise, cells):
    """One row per timing; ratios to kv_max, pooled over the repeats."""
    chance = random.Random(5)
    rates = {
        made["engine"]: [made["tok"] * math.exp(chance.gauss(0, noise)) for _ in range(repeats)]
        for made in cells
    }
    rows = []
    for made in cells:
        own = rates[made["engine"]]
        low, high = t_interval(own)
        pooled = {"estimate": geometric_mean(own), "low": low, "high": high, "n": repeats}
        ratios = [None] * repeats
        if made["workload"] == "B4":
            ratios = [a / b for a, b in zip(own, rates["kv_max"], strict=True)]
            low, high = t_interval(ratios)
            pooled |= {"ratio_estimate": geometric_mean(ratios)}
            pooled |= {"ratio_low": low, "ratio_high": high}
        for repeat, (rate, ratio) in enumerate(zip(own, ratios, strict=True), start=1):
            rows.append(made | pooled | {"repeat": repeat, "tok_s": rate, "ratio_to_max": ratio})
    return pd.DataFrame(rows).drop(columns="tok")


def main_cells():
    return [
        cell(name, rule, STEPS[name], block_size=block) for name, (rule, block) in ENGINES.items()
    ]


def sweep_cells():
    made = [cell("kv_max_640", "max", SHORT, reserve_tokens=640)]
    for name, block in (("kv_block_32", 32), ("kv_block_256", 256), ("kv_block_whole", LONGEST)):
        rule = "one block" if block == LONGEST else "on_demand"
        small = {"workload": "B", "slots": 16, "usable_tokens": 2 * USABLE, "preemptions": 0}
        made.append(cell(name, rule, STEPS["kv_max"], block_size=block, tok=530 + block, **small))
    return made


def timeline():
    """Every tenth step of each main engine."""
    rows = []
    for engine, steps in STEPS.items():
        at = 0.0
        for i, (count, blocks, held, lost) in enumerate(steps):
            if i % 10 == 0 or lost:
                rows.append(
                    {"engine": engine, "workload": "B4", "slots": SLOTS, "t_s": at,
                     "reserved": blocks / USABLE, "held": held / USABLE, "rows": count,
                     "preempted": lost}
                )  # fmt: skip
            at += seconds(count)
    return pd.DataFrame(rows)


def waits():
    return pd.DataFrame(
        {"engine": engine, "workload": "B4", "slots": SLOTS, "output_tokens": tokens, "n": 320,
         "wait_median_s": len(STEPS[engine]) / 1000, "wait_p90_s": len(STEPS[engine]) / 500}
        for engine in ENGINES
        for tokens in (32, 64, 128, 512)
    )  # fmt: skip


def arithmetic():
    rows = [("lesson", f"used_share_{rule}", share, "share") for rule, share in LESSON.items()]
    rows += [("paper", f"used_share_{rule}", share, "share") for rule, share in PAPER.items()]
    rows += [(f"{e}/{s}", "capacity_tokens", 32_784, "tokens") for e, s in SOURCES]
    rows += [("lesson", name, value, unit) for name, (value, unit) in GIVEN.items()]
    kv = pd.DataFrame(rows, columns=["source", "quantity", "value", "unit"])
    return kv.assign(formula="as reported")


GIVEN = {
    "capacity_tokens": (219_328, "tokens"),
    "mean_tokens": (312, "tokens"),
    "requests_by_max": (219_328 / 2048, "requests"),
    "requests_by_use": (219_328 / 312, "requests"),
    "factor": (2048 / 312, "x"),
    "running_on_demand": (321.3, "tokens"),
    "requests_on_demand": (682.84, "requests"),
    "requests_exact": (427.21, "requests"),
    "requests_pow2": (277.54, "requests"),
    "requests_max": (107.09, "requests"),
    "exercise_capacity_tokens": (100_000, "tokens"),
    "exercise_by_max": (24.4, "requests"),
    "exercise_by_use": (200, "requests"),
}
SOURCES = [("kv_max", 256), ("vllm_again", 16), ("vllm", 16), ("vllm", 256), ("kv_exact", 256)]


def frames(repeats=5, noise=0.01, sweep=True):
    cells = (sweep_cells() if sweep else []) + main_cells()
    ratio = {"name": "R_B", "engine": "vllm", "baseline": "static", "slots": 16, "repeat": 1}
    return {
        "reservations": reservations(repeats, noise, cells),
        "reservation_waits": waits(),
        "reservation_timeline": timeline(),
        "kv": arithmetic(),
        "ratios": pd.DataFrame([ratio | {"value": 3.0, "geometric_mean": 3.0, "n": 1}]),
    }


@pytest.fixture(scope="module")
def tables():
    return frames()


@pytest.fixture(scope="module")
def data(tables):
    return make_data(tables, {})


@pytest.fixture(scope="module")
def page(data):
    return shown(data)


def told(data: Data) -> list[str]:
    return findings(data, rules(data))


def rows_mean(engine):
    return in_time(STEPS[engine])


def rates(tables, engine):
    frame = tables["reservations"]
    return frame[frame.engine.eq(engine)].set_index("repeat").tok_s


def test_the_rules_stand_from_the_most_reserved_to_the_least(data):
    found = rules(data)
    assert [rule.name for rule in found] == ["max", "one block", "pow2", "exact", "on_demand"]
    # the reservation of 640 tokens is a sweep of the maximum rule
    assert found[0].engine == "kv_max"
    assert found[0].first("reserve_tokens") == LONGEST
    assert set(rest(data, found).engine) == {made["engine"] for made in sweep_cells()}


def test_what_needs_no_paging_is_told_apart(data):
    first, second = told(data)[:2]
    on_demand, exact, most = map(rows_mean, ("kv_on_demand", "kv_exact", "kv_max"))
    assert f"on demand held {on_demand:.1f} requests at once" in first
    assert f"{on_demand / most:.2f}x as many as reserving by maximum length" in first
    assert "With 32,768 tokens of KV cache on workload B4" in first and "16 at most" in first
    steps = len(STEPS["kv_on_demand"]), len(STEPS["kv_max"])
    fewer = f"It needed {steps[1] / steps[0]:.2f}x fewer steps: {steps[0]:,} against {steps[1]:,}."
    # long steps hold more rows, so that the two factors differ
    assert first.endswith(fewer) and f"{steps[1] / steps[0]:.2f}" != f"{on_demand / most:.2f}"
    assert f"Of that factor, {exact / most:.2f}x needs no paging" in second
    assert f"On demand holds {on_demand / exact:.2f}x as many as that." in second


def test_speed_is_told_by_its_interval(tables, data):
    third, fourth = told(data)[2:4]
    ratios = (rates(tables, "kv_on_demand") / rates(tables, "kv_max")).tolist()
    low, high = t_interval(ratios)
    sure = f"95 % interval {low:.2f}x to {high:.2f}x, 5 repeats"
    assert f"on demand {geometric_mean(ratios):.2f}x ({sure}; faster)" in third
    assert "one block" not in third
    beyond = (rates(tables, "kv_on_demand") / rates(tables, "kv_exact")).tolist()
    assert f"On demand over exact length: {geometric_mean(beyond):.2f}x" in fourth
    assert t_interval(beyond)[0] > 1 and "paging adds speed" in fourth


def test_a_wide_interval_does_not_show_that_paging_is_faster():
    wide = make_data(frames(noise=0.5), {})
    found = {rule.name: rule for rule in rules(wide)}
    ratio = paired(found["on_demand"], found["exact"])
    assert ratio.low < 1 < ratio.high
    assert "does not show that paging is faster than knowing the length" in told(wide)[3]


def test_within_the_noise_floor_nothing_is_distinguishable(tables):
    floor = {"name": "a / b", "kind": "A/A", "n": 5, "noise_floor": 9.0, "passed": True}
    noisy = make_data(tables | {"controls": pd.DataFrame([floor])}, {})
    assert "not distinguishable" in told(noisy)[3] and "; faster" not in told(noisy)[2]
    # an interval that excludes 1 is not left to stand as an error
    assert "repeats; within the noise floor of 900.0 %): not" in told(noisy)[3]


def test_only_repeats_that_both_have_are_paired(tables):
    frame = tables["reservations"]
    gone = frame.engine.eq("kv_exact") & frame.repeat.eq(2)
    found = {r.name: r for r in rules(make_data(tables | {"reservations": frame[~gone]}, {}))}
    assert paired(found["on_demand"], found["exact"]).n == 4


def test_memory_price_and_cross_check_are_told(data):
    memory, price, check = told(data)[4:7]
    found = {rule.name: rule for rule in rules(data)}
    used = found["max"].mean("used_of_reserved")
    assert f"{100 * used:.1f} % (maximum length)" in memory
    lost = sum(lost for *_, lost in STEPS["kv_on_demand"])
    assert lost and f"{lost} preemptions a repeat, and {200 * lost:,} tokens" in price
    assert price.endswith("No other rule preempted.")
    steps = f"{len(STEPS['kv_max']):,}"
    assert f"in {steps} steps, against" in check and "The two agree" in check
    assert "Over the speed of that rule: one block per request" in check


def change(tables, engine, **values):
    frame = tables["reservations"].copy()
    for key, value in values.items():
        frame.loc[frame.engine.eq(engine), key] = value
    return make_data(tables | {"reservations": frame}, {})


def test_without_a_preemption_there_is_no_price(tables):
    said = " ".join(told(change(tables, "kv_on_demand", preemptions=0, recomputed_tokens=0)))
    assert "on demand never ran out of blocks" in said and "preemptions a repeat" not in said


def test_rules_that_the_slots_stopped_are_named(tables):
    assert "did not bind" not in " ".join(told(make_data(tables, {})))
    said = told(change(tables, "kv_exact", rows_max=SLOTS))[-1]
    assert "all 256 slots were taken without one preemption by exact length." in said


def test_two_ways_of_one_reservation_may_differ(tables):
    said = " ".join(told(change(tables, "kv_one_block", steps=4_000.0)))
    assert "The two differ" in said and "The two agree" not in said


FAST = ("; faster", "; slower", "adds speed", "was slower")


def test_one_repeat_makes_no_claim():
    one = make_data(frames(repeats=1), {})
    page = shown(one)
    assert not any(word in words(page) for word in FAST)
    assert "one repeat: no interval" in told(one)[2]
    rows = page.table("Rules of reservation")
    assert {row["95 % interval"] for row in rows} == {"one repeat"}
    assert [row["conclusion"] for row in rows] == ["\u2013"] + ["one repeat"] * 4
    assert "[" not in "".join(row["ratio to maximum"] for row in rows)


def test_two_repeats_come_with_a_warning():
    two = make_data(frames(repeats=2), {})
    shown(two)
    assert "from only 2 repeats" in told(two)[2]


def test_the_table_of_rules_holds_every_number(tables, page):
    rows = page.table("Rules of reservation on B4, 256 slots, 32,768 tokens of KV cache")
    assert [row["rule"] for row in rows][0::4] == ["maximum length", "on demand"]
    row, frame = rows[-1], tables["reservations"].query("engine == 'kv_on_demand'").iloc[0]
    assert row["n"] == "5"
    assert row["tok/s, geometric mean"] == f"{frame.estimate:,.1f}"
    assert row["rows, mean in time"] == f"{frame.rows_mean_time:.1f}"
    assert row["95 % interval"] == f"{frame.low:,.1f} to {frame.high:,.1f}"
    ends = f"[{frame.ratio_low:.2f}x, {frame.ratio_high:.2f}x]"
    assert row["ratio to maximum"] == f"{frame.ratio_estimate:.2f}x {ends}"
    assert row["conclusion"] == "faster"
    assert row["rows, most"] == str(frame.rows_max) and row["steps"] == f"{frame.steps:,}"
    assert (rows[0]["ratio to maximum"], rows[0]["conclusion"]) == ("1.00x", "\u2013")
    asked = page.table("Rows and steps, computed and measured")
    assert [row["engine"] for row in asked][0::4] == ["kv_max", "kv_on_demand"]
    assert [row["reserves, tokens"] for row in asked][0::4] == ["2,048", "\u2013"]
    assert asked[0]["steps, computed"] == asked[0]["steps"] == f"{len(STEPS['kv_max']):,}"


def test_the_ladder_stands_beside_the_papers(page):
    rows = {row["rule"]: row for row in page.table("The ladder")}
    paper = {rule: row["PagedAttention paper"] for rule, row in rows.items()}
    assert paper == {
        "maximum length": "20.4 %",
        "one block per request": "\u2013",
        "next power of two": "26.8 %",
        "exact length": "38.2 %",
        "on demand": "96.3 %",
    }
    used = [float(row["used of reserved"].split()[0]) for row in rows.values()]
    assert used == sorted(used)


def test_waits_stand_by_length(page):
    rows = page.table("Waiting for memory")
    assert list(rows[0]) == ["rule", "32 tokens", "64 tokens", "128 tokens", "512 tokens"]
    steps = len(STEPS["kv_max"])
    assert rows[0]["512 tokens"] == f"{steps / 1000:.2f} ({steps / 500:.2f})"


def test_sweeps_are_told_and_tabled(data, page):
    (lengths,), (blocks,) = (tell(data, rules(data)) for tell in (lengths_told, blocks_told))
    short, most = in_time(SHORT), rows_mean("kv_max")
    assert f"{short:.1f} requests at once on average where 640 tokens are reserved" in lengths
    assert f"{most:.1f} requests at once on average where 2,048 tokens" in lengths
    assert "By arithmetic, 4,096 tokens, more than vLLM ever reserves, would leave 8." in lengths
    assert "(B, 16 slots)" in blocks and "with blocks of 2,048" in blocks
    rows = page.table("Other maximum lengths")
    assert {row["engine"] for row in rows} == {made["engine"] for made in sweep_cells()}


def test_the_picture_says_what_it_shows(page):
    label = svg(page, "Reserved and used share")
    lasted = sum(seconds(rows) for rows, *_ in STEPS["kv_max"])
    assert "maximum length:" in label and "16 requests at most" in label
    assert float(label.split("16 requests at most, ")[1].split(" s")[0]) <= lasted
    assert "preempted" in words(page)


def test_the_arithmetic_speaks_of_the_compared_engines(tables, data):
    assert kv_reported.sources(data) == ["vllm/16", "vllm/256"]
    # without a ratio, of the first engine
    alone = make_data({"kv": tables["kv"]}, {})
    assert kv_reported.sources(alone) == ["kv_max/256"]


def test_the_lessons_division_and_what_length_bias_makes_of_it(data, page):
    ladder, exercise = kv_reported.arithmetic_told(data)
    assert "702 requests by mean use against 107 by maximum length, 6.56x" in ladder
    assert "a running one has 321 tokens on average and not 312" in ladder
    assert "682 requests on demand, 427 by exact length, 277 by the next power of two" in ladder
    assert "6.38x, of which 3.99x needs no paging" in ladder
    assert "100,000 tokens hold 24 requests by maximum length and 200 by mean use" in exercise
    rows = {row["rule"]: row for row in page.table("Running requests by arithmetic")}
    assert list(rows) == ["maximum length", "next power of two", "exact length", "on demand"]
    assert rows["exact length"]["over maximum, lesson (RTX 3060)"] == "3.99x"
    # each number stands once
    shown = [row["quantity"] for row in page.table("KV cache: reported")]
    assert "question 7: capacity, tokens" in shown
    assert not [name for name in shown if name.startswith(("requests_", "used_share_"))]


MISSING = {
    "reservations": ("What each rule of reservation was worth", ["kv"]),
    "rest": ("Other maximum lengths and block sizes", ["kv_lengths", "kv_blocks"]),
}


def reasons(data: Data) -> dict[str, list[str]]:
    blocks = [block for block in kv(data).blocks if isinstance(block, Commands)]
    return {block.sentence.partition(":")[0]: block.lines for block in blocks}


def test_what_was_not_measured_leaves_its_reason_and_command(tables, data):
    assert reasons(data) == {}
    what, sets = MISSING["rest"]
    without = make_data(frames(sweep=False), {})
    lines = [f"snakemake -j1 --use-conda {name}" for name in sets]
    assert reasons(without) == {what: lines}
    shown(without)
    frame = tables["reservations"]
    lengths = make_data(tables | {"reservations": frame[frame.workload.eq("B4")]}, {})
    assert reasons(lengths) == {what: lines[1:]}
    for empty in (make_data({}, {}), make_data({"kv": tables["kv"]}, {})):
        assert reasons(empty) == {MISSING["reservations"][0]: ["snakemake -j1 --use-conda kv"]}
        shown(empty)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("reservation_timeline", "Reserved and used memory over time"),
        ("reservation_waits", "Waits by output length"),
    ],
)
def test_a_missing_table_is_said(tables, name, what):
    page = shown(make_data({k: v for k, v in tables.items() if k != name}, {}))
    assert f"{what}: not in this run." in words(page)


@pytest.mark.parametrize("names", [("kv_on_demand", "kv_exact"), ("kv_max", "kv_pow2")])
def test_a_part_of_the_rules_is_told_as_far_as_it_goes(tables, names):
    frame = tables["reservations"]
    frame = frame[frame.engine.isin(names)].assign(ratio_to_max=None, ratio_estimate=None)
    part = make_data(tables | {"reservations": frame}, {})
    page = shown(part)
    assert "requests at once on average: " in told(part)[0]
    assert len(page.table("Rules of reservation")) == 2
    assert "ratio to maximum" not in page.table("Rules of reservation")[0]


def test_one_rule_alone_is_no_comparison(tables):
    frame = tables["reservations"]
    for names in (["kv_max", "kv_max_640"], ["kv_max", "kv_one_block"]):
        part = make_data({"reservations": frame[frame.engine.isin(names)]}, {})
        assert rules(part) == []
        shown(part)


def test_names_in_the_section_are_text(tables):
    spoiled = {
        name: frame.replace({"kv_on_demand": HOSTILE, "B4": HOSTILE + "4"})
        for name, frame in tables.items()
    }
    source = render(make_data(spoiled, {}))
    assert source.count("<script") == 1 and "script" not in Page(source).tags  # the page's own
    assert "".join(Page(source).text).count(HOSTILE) > 2


def test_the_tables_of_the_analysis_fill_the_section():
    """What the analysis writes has the columns that the section reads."""
    made = measured.timings(measured.ENGINES, repeats=2)
    rate = {"kv_on_demand": 300.0, "kv_exact": 280.0, "kv_pow2": 200.0}
    rates = {e: [rate.get(e, 100.0), rate.get(e, 100.0) * 1.1] for e in measured.ENGINES}
    own = {
        "reservations": reservations_table(made, measured.throughput(made, rates)),
        "reservation_waits": reservation_waits_table(made),
        "reservation_timeline": reservation_timeline_table(made),
    }
    for name, frame in own.items():
        assert set(COLUMNS[name].split()) == set(frame.columns), name
    data = make_data(own, {})
    assert [rule.engine for rule in rules(data)] == [
        "kv_max", "kv_one_block", "kv_pow2", "kv_exact", "kv_on_demand",
    ]  # fmt: skip
    page = shown(data)
    assert "on demand 3.00x" in told(data)[2]
    assert len(page.table("Rules of reservation on B4")) == 5
    assert len(page.table("Other maximum lengths")) == 1
    assert svg(page, "Reserved and used share")
    assert reasons(data) == {MISSING["rest"][0]: ["snakemake -j1 --use-conda kv_blocks"]}
