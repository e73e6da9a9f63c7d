"""The verdict, what speaks against the page, the four cells and the end of a block, from timings
with known step times."""

from __future__ import annotations

import math
import re
import shlex
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from synthetic import DEMO, LESSON, STEP_TIMES
from test_report_page import HOSTILE, hostile, make

from fourcells.report.banner import banner
from fourcells.report.blocks import Commands, Figure, Listing, Section
from fourcells.report.catalogue import speaking
from fourcells.report.cells_section import cells
from fourcells.report.data import Data, complete, make_data
from fourcells.report.drain import Drain, drain_of, drains, of_lesson, subject
from fourcells.report.drain_section import drain
from fourcells.report.grid import Grid
from fourcells.report.limits_said import limits

FOUR = [(engine, workload, 16) for engine in ("static", "vllm") for workload in "AB"]
TWINS = [("vllm_padded", "B", 16), ("vllm_wave", "A", 16), ("vllm_wave", "B", 16)]
LOOPS = [(f"torch_{admission}", "B", 16) for admission in ("wave", "continuous")]
MORE = [("vllm", "A", 256), ("vllm", "B", 256)]


WHOLE = (*FOUR, *MORE, *TWINS, *LOOPS)


@cache
def measured(cells=WHOLE, repeats=3) -> Data:
    """Data of engines of known step times: the whole of the lesson's workloads, parts of the
    demo's, which are smaller."""
    workloads = LESSON if cells == WHOLE else DEMO
    with tempfile.TemporaryDirectory() as folder:
        return make(
            Path(folder),
            cells=list(cells),
            repeats=repeats,
            noise=0.01,
            workloads=workloads,
            max_model_len=2048,
        )


def arrivals(engine="vllm") -> pd.DataFrame:
    kinds = [("B", "block", None, 0.70, 0.72), ("B_low", "poisson", 4.0, 0.22, 0.08)]
    kinds.append(("B_high", "poisson", 18.5, 0.91, 0.94))
    return pd.DataFrame(
        {"engine": engine, "workload": workload, "slots": 16, "repeat": repeat, "process": process,
         "rate": rate, "slot_use": use, "refilled_share": refilled}
        for workload, process, rate, use, refilled in kinds
        for repeat in (1, 2)
    )  # fmt: skip


def control(**changes) -> dict:
    row = {
        "name": "vllm_wave / vllm on A, 16 slots", "kind": "placebo", "engine": "vllm_wave",
        "other": "vllm", "workload": "A", "slots": 16, "n": 3, "estimate": 1.01, "low": 0.98,
        "high": 1.04, "expected": 1.0, "passed": True, "together": True, "p_together": 0.4,
        "noise_floor": 0.03,
    }  # fmt: skip
    return row | changes


def with_controls(*rows: dict, data: Data | None = None) -> Data:
    return replace(data or measured(), controls=pd.DataFrame(rows))


def sentences(section: Section) -> list[str]:
    """Every sentence, outside the tables."""
    found = [section.intro]
    for block in section.blocks:
        if isinstance(block, str):
            found.append(block)
        elif isinstance(block, Listing):
            found += block.sentences
        elif isinstance(block, Commands):
            found += [block.sentence, *block.lines]
        elif isinstance(block, Figure):
            found += [block.caption, str(block.svg)]
    return found


def said(section: Section) -> str:
    return "\n".join(sentences(section))


def grid(section: Section) -> Grid:
    return next(block for block in section.blocks if isinstance(block, Grid))


def rows(section: Section) -> list[list[str]]:
    return [[cell.text for cell in row] for row in grid(section).rows]


def notices(data: Data) -> list[str]:
    return [notice.sentence for notice in limits(data)]


def has(data: Data, words: str) -> bool:
    return any(words in sentence for sentence in notices(data))


# the verdict


def test_a_run_that_nothing_speaks_against_is_publishable():
    data = measured()
    found = banner(replace(data, summary={"publishable": {"value": True, "reasons": []}}))
    assert found.publishable and found.reasons == []
    assert "33 of 33 timings are clean" in found.sentence


def test_every_reason_is_told_in_the_language():
    reasons = ["timings of several commits are mixed", "the commit is not known"]
    data = make_data({}, {"publishable": {"value": False, "reasons": reasons}})
    found = banner(data)
    assert not found.publishable and found.reasons == reasons
    assert "for 2 reasons" in found.sentence
    with speaking("vi"):
        spoken = banner(data)
    assert len(spoken.reasons) == 2 and not set(spoken.reasons) & set(reasons)


@pytest.mark.parametrize(
    "judged", [None, {}, {"value": None}, {"value": True, "reasons": ["no"]}, {"value": False}]
)
def test_without_a_clear_yes_it_is_no(judged):
    found = banner(make_data({}, {"publishable": judged}))
    assert not found.publishable and found.sentence


# what speaks against the page


def test_slots_that_never_bind_are_named_with_both_counts():
    (sentence,) = [s for s in notices(measured()) if "never bind" in s]
    assert "With 256 slots" in sentence and "only 64 requests" in sentence
    assert "(vllm on A and B)" in sentence
    assert not has(measured(tuple(FOUR)), "never bind")


def test_as_many_slots_as_requests_do_not_bind_either():
    assert has(measured((*FOUR, ("vllm", "B", 64))), "With 64 slots the slots never bind")


def test_where_memory_is_short_the_slots_need_not_bind():
    kv = pd.DataFrame([{"engine": "vllm", "workload": "B", "slots": 256}])
    short = replace(measured(), reservations=complete(kv, "reservations"))
    assert not has(short, "never bind")


def test_few_repeats_are_said():
    one, two = measured(tuple(FOUR), 1), measured(tuple(FOUR), 2)
    assert has(one, "One repeat: nothing on this page has an interval")
    # t(1) / sqrt 2 over t(4) / sqrt 5: 8.985 / 1.241
    assert has(two, "is 7.2 times as wide as 5 repeats")
    assert not has(one, "have one repeat only")
    for words in ("One repeat", "Two repeats", "have one repeat only"):
        assert not has(measured(), words)


def test_cells_of_one_repeat_among_others_are_named():
    data = measured()
    frame = data.throughput
    lone = frame.engine.eq("vllm") & frame.workload.eq("B") & frame.repeat.gt(1)
    data = replace(data, throughput=frame[~lone | frame.slots.ne(256)])
    assert has(data, "1 of 11 cells have one repeat only and no interval: vllm/B/slots256.")


def test_a_failed_control_is_told_with_its_interval():
    fail = control(name="static / torch_wave on A, 16 slots", estimate=1.06, low=1.04, high=1.08)
    fail["passed"] = False
    (found,) = [n for n in limits(with_controls(control(), fail)) if "are not" in n.sentence]
    assert "1 of 2 controls that must be 1 are not" in found.sentence
    assert "none fails" in found.sentence
    told = "static / torch_wave on A, 16 slots: 1.06x (95 % interval 1.04x to 1.08x, 3 repeats)"
    assert found.items == [told + "; p = 0.400 corrected for their number"]
    data = with_controls(fail | {"p_together": None})
    (found,) = [n for n in limits(data) if "are not" in n.sentence]
    assert found.items == [told]
    data = with_controls(control(), fail | {"together": False})
    assert has(data, "Corrected for their number 1 still fail")
    assert not has(with_controls(control()), "controls")


def test_controls_that_nobody_can_judge_or_that_are_missing():
    one = control(n=1, low=None, high=None, passed=None, together=None, noise_floor=None)
    assert has(with_controls(one, control()), "1 of 2 controls have one repeat")
    assert has(
        replace(measured(), controls=measured().controls.iloc[:0]), "No control was measured"
    )


def test_the_noise_floor_stands_beside_the_smallest_claim():
    def floor(of: float) -> Data:
        return with_controls(control(kind="A/A", noise_floor=of))

    low = floor(0.02)
    (sentence,) = [s for s in notices(low) if "two names, a difference of up to 2.0 %" in s]
    value = float(re.search(r"smallest effect that the page claims is ([\d.]+)x", sentence)[1])
    frame = low.ratios[low.ratios["name"].ne("E2E_32") & low.ratios["name"].str.len().lt(5)]
    assert abs(math.log(value)) < abs(frame.geometric_mean.map(math.log)).median()
    # so high a floor hides a ratio whose interval excludes 1
    (hidden,) = [n for n in limits(floor(0.6)) if "two names" in n.sentence]
    assert "Within the floor" in hidden.sentence
    assert any("vllm / static on A, 16 slots" in item for item in hidden.items)
    assert has(measured(), "no noise floor")


def test_many_intervals_are_counted():
    (sentence,) = [s for s in notices(measured()) if "intervals of 95 %" in s]
    total = int(sentence.split()[0])
    assert total >= 20 and f"{0.05 * total:.1f} would exclude 1 by chance" in sentence
    assert not has(measured(tuple(FOUR)), "intervals of 95 %")


def test_what_is_missing_for_a_conclusion_has_its_command():
    (found,) = [n for n in limits(measured(tuple(FOUR))) if "Not measured" in n.sentence]
    text = " ".join(found.items)
    for words in ("which idea does what", "more slots", "keep coming", "paging"):
        assert words in text
    assert "baseline" not in text and "mixed lengths add" not in text
    assert {command.split()[-1] for command in found.commands} == {"--use-conda", "arrivals", "kv"}
    (rest,) = [
        n for n in limits(replace(measured(), arrivals=arrivals())) if "Not measured" in n.sentence
    ]
    assert len(rest.items) == 1 and rest.commands == ["snakemake -j1 --use-conda kv"]


def test_reruns_are_left_to_the_notices():
    trust = {"one_way": [{"engine": "vllm", "timings": 3, "direction": "up"}]}
    data = replace(measured(), summary=measured().summary | {"trust": trust})
    assert notices(data) == notices(measured())


def test_without_any_data_only_the_missing_is_said():
    found = limits(make_data({}, {}))
    assert [notice.sentence[:12] for notice in found] == ["No control w", "Not measured"]


# the four cells


def test_the_design_is_two_by_two_with_its_ratios():
    data = measured()
    section = cells(data)
    table = rows(section)
    assert [row[0] for row in table] == [
        "static, 16 slots", "vllm, 16 slots", "vllm / static", "vllm, 256 slots"
    ]  # fmt: skip
    heads = [column.label for column in grid(section).columns[1:]]
    assert heads == ["A (184 output tokens)", "B (32, 64, 128, 512 output tokens)", "B / A"]
    frame = data.throughput
    mean = frame[frame.engine.eq("static") & frame.workload.eq("B")].tok_s.mean()
    assert table[0][2] == f"{mean:,.1f} tok/s (3 repeats, clean)"
    own = data.ratios[data.ratios.engine.eq("vllm") & data.ratios.slots.eq(16)]
    found = own.groupby("name").geometric_mean.first()
    assert table[2][2].startswith(f"{found['R_B']:.2f}x [")
    assert table[2][3] == f"{found['Q']:.2f}x"
    links = [cell.href for cell in grid(section).rows[1]]
    assert links == ["", "timing-vllm-A-slots16", "timing-vllm-B-slots16", ""]


def test_a_verdict_stands_in_its_cell():
    data = measured()
    told = [
        cell | {"verdicts": ["clean", "contended"]} if cell["engine"] == "static" else cell
        for cell in data.summary["cells"]
    ]
    table = rows(cells(replace(data, summary=data.summary | {"cells": told})))
    assert "(3 repeats, clean, contended)" in table[0][1] and "(3 repeats, clean)" in table[1][1]


def test_what_the_uniform_workload_removes_follows_from_the_steps():
    text = said(cells(measured()))
    assert "Both took 736 steps and neither computed a row in vain" in text
    assert "a step on A has 16.0 rows on average" in text
    assert "64.1 % of the computed rows were for finished requests" in text
    # one step more of one engine, and the argument is gone
    frame = measured().occupancy.copy()
    cell = frame.engine.eq("vllm") & frame.workload.eq("A") & frame.slots.eq(16)
    frame.loc[cell, "step_to"] += 1
    text = said(cells(replace(measured(), occupancy=frame)))
    assert "static took 736 steps and vllm 737" in text and "neither" not in text


def test_the_corner_is_tested_by_the_padded_twin_or_said_to_be_untested():
    assert "vllm_padded, with the code of vllm and the schedule of static" in said(
        cells(measured())
    )
    text = said(cells(measured(tuple(FOUR))))
    assert "these cells cannot say: that takes vllm with padded batches" in text


def test_a_missing_cell_is_named_with_its_command():
    data = measured(tuple(cell for cell in FOUR if cell != ("vllm", "A", 16)))
    section = cells(data)
    assert rows(section)[1][1] == "not measured"
    (missing,) = [b for b in section.blocks if isinstance(b, Commands)]
    assert "vllm on A" in missing.sentence
    path = "results/timings/vllm/A/slots16/1.parquet"
    assert missing.lines == [f"snakemake -j1 --use-conda {path}"]


@pytest.mark.parametrize("cell", FOUR)
def test_one_cell_alone_is_a_section(cell):
    engine, workload, _ = cell
    section = cells(measured((cell,), 1))
    text, (row,) = said(section), rows(section)
    assert row[0] == f"{engine}, 16 slots"
    assert "(one repeat, clean)" in row[-2 if workload == "B" else -1]
    assert f"Only one engine was measured ({engine})" in text
    if workload == "A":
        assert "Only one workload was measured (A)" in text
    else:
        # the config compares B with A: it is planned, and missing
        assert f"Missing at 16 slots: {engine} on A." in text and row[1] == "not measured"


def test_two_engines_without_a_ratio_are_still_a_design():
    data = measured((("static", "A", 16), ("vllm", "A", 256)))
    assert rows(cells(data))[0][0] == "static, 16 slots"


# the end of a block


def test_the_lessons_end_is_its_arithmetic():
    few, many = of_lesson("B", 16), of_lesson("B", 256)
    assert (few.empty_from, few.steps, few.drain.steps) == (544, 1056, 480)
    assert round(few.slot_use, 3) == 0.697 and few.only_longest is None
    assert (many.empty_from, many.steps, many.only_longest.steps) == (0, 512, 384)
    assert many.longest == 16 and not many.binds and few.binds


def test_the_measured_end_is_that_of_the_schedule():
    """The synthetic engines follow the lesson's schedule."""
    for slots in (16, 256):
        found, lesson = drain_of(measured(), "vllm", "B", slots), of_lesson("B", slots)
        for key in ("steps", "requests", "tokens", "slot_use", "rows_mean", "longest"):
            assert getattr(found, key) == pytest.approx(getattr(lesson, key)), key
        assert found.drain.steps == lesson.drain.steps
    many = drain_of(measured(), "vllm", "B", 256)
    assert many.only_longest.steps == 384
    a, c = STEP_TIMES["vllm"]
    # steps of 16 rows, as slow as the first repeat was
    slow = many.window_s / (512 * a + c * many.tokens)
    assert many.only_longest.seconds == pytest.approx(384 * (a + 16 * c) * slow)


def run(start, end, rows, waiting) -> dict:
    return {
        "step_from": start, "step_to": end, "t_from_s": 0.1 * start, "t_to_s": 0.1 * end,
        "rows": rows, "useful_rows": rows, "waiting": waiting,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "empty", "exact"),
    [
        ([(0, 10, 4, 2), (10, 20, 3, 0)], 10, False),
        ([(0, 10, 4, 2), (10, 14, 4, 0), (14, 20, 3, 0)], 10, True),
        ([(0, 9, 4, 2), (9, 10, 3, 1), (10, 20, 2, 0)], 10, True),
        ([(0, 20, 3, 0)], 0, True),
        ([(0, 20, 4, 2)], None, True),
    ],
)
def test_a_queue_that_empties_inside_a_run_is_known_to_its_end_only(runs, empty, exact):
    cell = Drain("vllm", "B", 4, pd.DataFrame([run(*each) for each in runs]), 1)
    assert (cell.empty_from, cell.empty_exactly) == (empty, exact)


@pytest.mark.parametrize(
    ("ends", "says", "shown"),
    [
        ([576], "empty at the latest from step 576 of 1,056", "≤ 576"),
        ([544, 576], "the queue is empty from step 544 of 1,056", "544"),
    ],
)
def test_only_a_known_step_is_said_to_be_the_first(ends, says, shown):
    frame = measured().occupancy
    cell = frame.engine.eq("vllm") & frame.workload.eq("B") & frame.slots.eq(16)
    full = cell & frame.source.eq("measured") & frame.step_to.le(576)
    first = frame[full].iloc[0]
    made = [
        first.to_dict() | {"step_from": start, "step_to": end, "waiting": 0 if start else 48}
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
    data = replace(measured(), occupancy=pd.concat([frame[~full], pd.DataFrame(made)]))
    section = drain(data)
    assert says in said(section)
    table = {row[0]: row[1:] for row in rows(section)}
    assert table["queue empty from step"] == [shown, "544", "0", "0"]
    assert ("≤" in grid(section).note) == (shown[0] == "≤")


def test_the_section_says_what_is_lost_and_why():
    text = said(drain(measured()))
    assert "With 256 slots all 64 requests of B are admitted at once and nobody waits" in text
    assert "In the last 384 of 512 steps (75.0 %" in text and "only the 16 longest" in text
    assert "fewer steps than its longest request has tokens: 512. This one took 512." in text
    assert "lesson’s lengths 544 of 1,056" in text and "69.7 % of slots × steps" in text
    assert "A shrinks from 736 to 184 steps, B only from 1,056 to 512" in text
    assert "takes 480 of 1,056 steps with 16 slots, and 480 of 512 with 256" in text
    assert "by −30.3 % and −64.1 %" in text and "(lesson: −26.6 % and −53.3 %)" in text
    frame = measured().throughput
    for slots in (16, 256):
        loss = frame[frame.engine.eq("vllm") & frame.slots.eq(slots)].loss_when_mixed.mean()
        assert f"−{-100 * loss:.1f} %" in text
    # steps of 16 rows on A; on B of 11.2 and, with 256 slots, 64 and 23: a + c x rows
    a, c = STEP_TIMES["vllm"]
    for steps, tokens, rows in ((1056, 11_776, 16), (512, 11_776, 64)):
        assert (a + c * tokens / steps) / (a + c * rows) == pytest.approx(
            _times(text)[rows > 16], rel=0.03
        )


def with_losses(few: list[float], many: list[float]) -> Data:
    """vllm loses these shares on B with 16 and with 256 slots, repeat by repeat."""
    frame = measured().throughput.copy()
    for slots, losses in ((16, few), (256, many)):
        cell = frame.engine.eq("vllm") & frame.workload.eq("B") & frame.slots.eq(slots)
        for repeat, loss in enumerate(losses, 1):
            frame.loc[cell & frame.repeat.eq(repeat), "loss_when_mixed"] = loss
    return replace(measured(), throughput=frame)


MORE_LOST = {
    # 0.50, 0.49 and 0.51 of what is left with few slots
    "below": ([-0.2, -0.2, -0.2], [-0.6, -0.608, -0.592], "0.50x (95 %", "256 slots lose more"),
    "above": ([-0.6, -0.608, -0.592], [-0.2, -0.2, -0.2], "2.00x (95 %", "256 slots lose less"),
    "unsure": ([-0.2, -0.2, -0.2], [-0.2, -0.3, -0.1], "0.99x (95 %", "not distinguishable"),
    "open": ([-0.2, None, None], [-0.6, -0.6, -0.6], "0.50x (one repeat", "nothing can be conclu"),
}


@pytest.mark.parametrize("way", MORE_LOST)
def test_more_slots_lose_more_only_where_the_repeats_show_it(way):
    few, many, value, says = MORE_LOST[way]
    section = drain(with_losses(few, many))
    first = section.blocks[0].sentences[0]
    assert f"(B / A) with 256 slots, over what they leave with 16: {value}" in first
    assert says in first
    assert section.head == (
        "Why more slots lose more" if way == "below" else "What more slots lose, and why"
    )
    # 184 / 512 over 736 / 1,056
    assert "By steps alone it would be 0.52x" in first
    # of 0.50x the steps leave nothing to explain
    assert ("steps with fewer rows are shorter here" in first) == (way not in ("below", "open"))
    # the lesson's 1,731.9 / 3,707.1 over 926.8 / 1,262.5
    assert "lesson 0.64x" in first


def test_a_loss_within_the_noise_floor_is_not_more():
    few, many, *_ = MORE_LOST["below"]
    data = with_controls(control(kind="A/A", noise_floor=1.5), data=with_losses(few, many))
    section = drain(data)
    assert "within the noise floor of 150.0 %" in section.blocks[0].sentences[0]
    assert section.head == "What more slots lose, and why"


def test_the_queue_empties_before_a_slot_stays_free():
    """1,056 steps, of which 480 drain, and an empty queue from 544 on."""
    assert (
        "the queue empties 32 steps before the first slot stays free"
        in grid(drain(measured())).note
    )


def test_the_window_of_the_table_is_the_mean_over_the_repeats():
    frame = measured().timings
    cell = frame.engine.eq("vllm") & frame.workload.eq("B") & frame.slots.eq(16)
    windows = frame[cell].window_s
    assert f"{windows.mean():.2f}" != f"{windows.iloc[0]:.2f}"
    table = {row[0]: row[1:] for row in rows(drain(measured()))}
    assert table["window, s"][0] == f"{windows.mean():.2f}"


def _times(text: str) -> list[float]:
    found = re.search(r"mean time of a step, on B ([\d.]+)x and ([\d.]+)x of that on A", text)
    return [float(value) for value in found.groups()]


def test_the_table_has_the_lesson_beside_each_slot_count():
    section = drain(measured())
    assert [column.label for column in grid(section).columns] == [
        "quantity", "16 slots", "16 slots, lesson", "256 slots", "256 slots, lesson"
    ]  # fmt: skip
    table = {row[0]: row[1:] for row in rows(section)}
    assert table["steps, mixed workload"] == ["1,056", "1,056", "512", "512"]
    assert table["drain, steps"] == ["480", "480", "480", "480"]
    assert table["only the longest left, steps"] == ["–", "–", "384", "384"]
    assert table["slots used, of the steps"][:2] == ["69.7 %", "69.7 %"]
    assert table["queue empty from step"][1:] == ["544", "0", "0"]
    assert table["E2E of the longest, median, s"][1::2] == ["8.51", "7.08"]
    # 512 steps of one row; the lesson's, 512 x (11.14 + 0.0956) ms
    model = measured().step_model.set_index("engine").loc["vllm"]
    own = f"{512 * (model.a_s + model.c_s):.2f}"
    assert own != f"{512 * model.a_s:.2f}"
    assert table["longest request alone, by the step model, s"] == [own, "5.75", own, "5.75"]


def test_arrivals_are_told_or_have_their_command():
    missing = [b for b in drain(measured()).blocks if isinstance(b, Commands)]
    assert [b.lines for b in missing] == [["snakemake -j1 --use-conda arrivals"]]
    text = said(drain(replace(measured(), arrivals=arrivals())))
    assert "at 4 requests per second 8.0 % of the freed slots were taken again" in text
    assert "at 18.50 requests per second 94.0 %" in text and "22.0 % of the 16 slots" in text
    assert "Of the block of B, where all wait at the start, 72.0 %" in text
    # 91 % of the slots, 70 % where all wait: this rate is a high load
    assert "saturate" not in text
    other = replace(measured(), arrivals=arrivals("torch_continuous"))
    assert "requests per second" not in said(drain(other))


def test_a_rate_that_does_not_saturate_the_engine_is_said_to_be_no_high_load():
    own, busy = arrivals(), arrivals("torch_continuous")
    own.loc[own.workload.eq("B_high"), ["slot_use", "refilled_share"]] = [0.64, 0.34]
    text = said(drain(replace(measured(), arrivals=pd.concat([own, busy]))))
    assert "18.50 requests per second do not saturate vllm" in text
    assert "They do saturate torch_continuous: 94.0 % of its freed slots" in text
    assert "91.0 % of its 16 slots were in use (of the time)" in text
    alone = said(drain(replace(measured(), arrivals=own)))
    assert "do not saturate vllm" in alone and "They do" not in alone
    # without the block nobody knows
    unknown = own[own.process.ne("block")]
    assert "saturate" not in said(drain(replace(measured(), arrivals=unknown)))


@pytest.mark.parametrize(
    "chosen", [[("static", "B", 16)], [("vllm", "A", 16)], [("static", "A", 16)]]
)
def test_without_a_continuous_engine_on_mixed_lengths_the_reason_is_said(chosen):
    section = drain(measured(tuple(chosen), 1))
    (block,) = section.blocks
    assert isinstance(block, Commands) and block.lines == ["snakemake -j1 --use-conda"]


def test_one_slot_count_asks_for_another():
    text = said(drain(measured(tuple(FOUR), 1)))
    assert "More slots beside few: not in this run." in text
    assert "admitted at once" not in text and "–" not in text
    assert "with 16 slots the queue is empty" in text.lower()


def test_the_engine_of_the_answer_is_looked_at():
    assert subject(measured()) == ("vllm", "B")
    cells = [d.slots for d in drains(measured(), "vllm", "B")]
    assert cells == [16, 256]


def test_several_windows_in_a_timing_change_no_count(tmp_path):
    data = make(tmp_path, repeats=1, samples=2, cells=[*FOUR, *MORE])
    many = drain_of(data, "vllm", "B", 256)
    assert (many.requests, many.longest, many.only_longest.steps) == (64, 16, 96)
    assert "only 64 requests" in " ".join(notices(data))


# the language, and names that are not meant well

VARIANTS = {
    "whole": lambda: replace(measured(), arrivals=arrivals()),
    "four": lambda: measured(tuple(FOUR)),
    "two": lambda: measured(tuple(FOUR), 2),
    "one": lambda: measured((("vllm", "B", 16),), 1),
    "nothing": lambda: make_data({}, {}),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_text_is_there_in_vietnamese(name):
    data = VARIANTS[name]()

    def everything() -> list[str]:
        found = [notice.sentence for notice in limits(data)]
        found += [item for notice in limits(data) for item in notice.items]
        for section in (cells(data), drain(data)):
            found += [section.head, *sentences(section)]
            for block in section.blocks:
                if isinstance(block, Grid):
                    found += [block.caption, block.note]
        return [text for text in found if not text.startswith("snakemake")]

    english = everything()
    with speaking("vi"):
        spoken = everything()
    assert len(spoken) == len(english)
    assert not {text for text in spoken if text} & set(english)


def test_numbers_are_written_as_the_language_does():
    with speaking("vi"):
        text = said(drain(measured()))
    assert "544 trên 1.056" in text and "−30,3 %" in text


def test_hostile_names_are_words_and_commands_are_quoted():
    data = hostile(measured())
    name = HOSTILE + "vllm"
    text = said(cells(data)) + said(drain(data)) + " ".join(notices(data))
    assert text.count(name) > 3 and "49" not in text.split("{{ 7")[1][:8]
    frame = data.throughput
    gone = frame.engine.eq(name) & frame.workload.eq("A")
    (missing,) = [
        b
        for b in cells(replace(data, throughput=frame[~gone])).blocks
        if isinstance(b, Commands) and name in b.sentence
    ]
    paths = [shlex.split(line)[-1] for line in missing.lines]
    assert f"results/timings/{name}/A/slots16/1.parquet" in paths
