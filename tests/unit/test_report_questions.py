"""The answers to the lesson's questions, from timings with known step times."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from test_report_content import FOUR, MORE, TWINS, arrivals, control, measured
from test_report_page import HOSTILE, hostile

from fourcells.analysis import lesson
from fourcells.report.blocks import Question
from fourcells.report.catalogue import speaking
from fourcells.report.data import Data, complete, make_data
from fourcells.report.questions import ANSWERS, questions

MEASURE = "snakemake -j1 --use-conda"
SECTIONS = {"answer", "slots", "cells", "throughput", "ratios", "latency", "drain", "kv", "ideas"}
SECTIONS |= {"noise", "machine", "timings", "history"}


def reservations(ratio=(2.5, 2.4, 2.6)) -> pd.DataFrame:
    estimate, low, high = ratio
    shared = {"workload": "B4", "slots": 256, "usable_tokens": 8192, "n": 2}
    rules = [("max", 14.6, 16, 1.0), ("exact", 44.6, 93, 2.0), ("on_demand", 59.5, 160, estimate)]
    rows = [
        shared | {"engine": f"kv_{rule}", "reservation": rule, "repeat": repeat, "tok_s": 1000 * to,
                  "rows_mean_time": mean, "rows_mean": mean - 10, "rows_max": most,
                  "ratio_to_max": to, "ratio_estimate": to,
                  "ratio_low": low if rule == "on_demand" else to,
                  "ratio_high": high if rule == "on_demand" else to}
        for rule, mean, most, to in rules
        for repeat in (1, 2)
    ]  # fmt: skip
    return complete(pd.DataFrame(rows), "reservations")


def kv() -> pd.DataFrame:
    known = {"requests_by_use": 105.4, "requests_on_demand": 84.1}
    return pd.DataFrame(
        {"source": "kv_on_demand/256", "quantity": name, "value": value, "unit": "requests"}
        for name, value in known.items()
    )


def whole() -> Data:
    """Everything that an answer may speak of."""
    return replace(measured(), arrivals=arrivals(), reservations=reservations(), kv=kv())


def answers(data: Data) -> list[Question]:
    return questions(data).blocks


def answer(number: int, data: Data | None = None) -> str:
    return " ".join(ANSWERS[number - 1](data or whole()).paragraphs)


def told(data: Data, name: str) -> str:
    """A ratio of the pair as the page writes it."""
    frame = data.ratios[data.ratios["name"].eq(name) & data.ratios.engine.eq("vllm")]
    row = frame[frame.slots.eq(16)].iloc[0]
    interval = f"95 % interval {row.low:.2f}x to {row.high:.2f}x, 3 repeats"
    given = f"; lesson {row.lesson:.2f}x" if pd.notna(row.lesson) else ""
    return f"{row.geometric_mean:.2f}x ({interval}{given})"


def factor(data: Data, path: str, name: str) -> str:
    frame = data.attribution
    same = frame.path.eq(path) & frame.factor.eq(name) & frame.engine.eq("vllm")
    row = frame[same & frame.workload.eq("B")].iloc[0]
    return f"{row.estimate:.2f}x"


def test_there_are_eight_each_with_where_to_check_it():
    found = answers(whole())
    assert [question.head[:2] for question in found] == [f"{number}." for number in range(1, 9)]
    assert all(question.see and set(question.see) <= SECTIONS for question in found)
    assert all(2 <= len(question.paragraphs) <= 5 for question in found)
    assert "Not measured here" not in " ".join(answer(number) for number in range(1, 9))


def test_1_each_idea_without_the_other():
    data = whole()
    text = answer(1, data)
    # 11,776 tokens in 16 x 2,048 and in 16 x 1,056
    assert "64.1 % of slots × steps of static made no useful token" in text
    assert "of those of vllm, which admits at every step, 30.3 %" in text
    scheduling = factor(data, "between", "scheduling_scheduling_first")
    assert f"one contiguous region of memory per slot, made {scheduling}" in text
    assert "With 8,192 tokens of cache".lower() in text.lower()
    assert "held 59.5 requests at once on average and the maximum length 14.6" in text
    assert "2.50x (95 % interval 2.40x to 2.60x from only 2 repeats)" in text
    assert "vllm_padded has it" in text


def test_2_the_share_that_is_not_scheduling():
    data = whole()
    text = answer(2, data)
    assert f"vllm made {told(data, 'R_B')} the tokens per second of static" in text
    assert f"{told(data, 'R_A')}: vllm is faster even where refilling has nothing to do" in text
    code = factor(data, "engine_first", "engine")
    whole_ratio = told(data, "R_B").split()[0]
    other = factor(data, "scheduling_first", "engine")
    assert code != other
    assert f"So a factor {code} ({other} by the other way) of the {whole_ratio} is not" in text


def test_2_without_an_interval_nothing_is_claimed():
    data = measured((*FOUR, *TWINS), 1)
    text = answer(2, data)
    assert "one repeat: no interval" in text
    assert "is faster even" not in text and "is not scheduling" not in text


def test_2_a_code_like_the_baselines_is_not_told_from_nothing():
    data = whole()
    frame = data.attribution.copy()
    frame.loc[frame.factor.eq("engine"), ["estimate", "low", "high"]] = [1.01, 0.95, 1.07]
    text = answer(2, replace(data, attribution=frame))
    assert "does not tell the code’s share from nothing" in text
    assert "is not scheduling" not in text


def test_3_what_the_uniform_workload_removes():
    data = replace(whole(), controls=pd.DataFrame([control()]))
    text = answer(3, data)
    assert "the same total, 11,776 output tokens in 64 requests" in text
    assert "On A both took 736 steps" in text
    # 11,776 tokens in 1,056 steps
    assert "at 16.0 rows a step, while vllm on B has 11.2 on average" in text
    assert "it is 1.01x (95 % interval 0.98x to 1.04x, 3 repeats): pass." in text
    failed = control(estimate=1.06, low=1.03, high=1.09, passed=False)
    text = answer(3, replace(data, controls=pd.DataFrame([failed])))
    assert "fail by itself; corrected for the number of controls: pass" in text


def test_3_another_schedule_or_another_total_is_said():
    data = whole()
    frame = data.occupancy.copy()
    cell = frame.engine.eq("vllm") & frame.workload.eq("A") & frame.slots.eq(16)
    frame.loc[cell, ["step_to"]] += 1
    text = answer(3, replace(data, occupancy=frame))
    assert "the totals are not equal" in text
    assert "the two took 736 and 737 steps" in text


def test_4_the_quotient_beside_what_was_switched():
    data = whole()
    text = answer(4, data)
    given = lesson.ratios()
    assert answers(data)[
        3
    ].head == f"4. Why is {given['R_B']:.2f} / {given['R_A']:.2f} only an " + (
        "estimate of what scheduling is worth?"
    )
    assert f"Here the quotient is {told(data, 'Q')}" in text
    scheduling, off = (factor(data, "estimate", name) for name in ("scheduling", "off"))
    assert f"({scheduling} [" in text and f"is {off} (95 %" in text
    assert "the interaction between the two is" in text
    claim = data.summary["lesson_claim"]
    assert f"could claim {claim['low']:.2f}x to {claim['high']:.2f}x" in text
    assert "if its cells on A are as noisy as those on B" in text


def test_4_the_words_follow_the_intervals():
    data = whole()
    frame = data.attribution.copy()
    frame.loc[frame.factor.eq("off"), ["estimate", "low", "high"]] = [1.2, 1.1, 1.3]
    frame.loc[frame.factor.eq("interaction"), ["estimate", "low", "high"]] = [0.9, 0.85, 0.95]
    text = answer(4, replace(data, attribution=frame))
    assert "the estimate is too high by 20.0 %" in text
    assert "So scheduling has no single worth" in text
    frame.loc[frame.factor.eq("interaction"), ["low", "high"]] = [0.8, 1.02]
    assert "no single worth" not in answer(4, replace(data, attribution=frame))


def test_4_what_the_noise_floor_hides_is_not_claimed():
    data = whole()
    frame = data.attribution.copy()
    frame.loc[frame.factor.eq("interaction"), ["estimate", "low", "high"]] = [0.9, 0.85, 0.95]
    floor = pd.DataFrame([control(kind="A/A", noise_floor=0.2)])
    text = answer(4, replace(data, attribution=frame, controls=floor))
    assert (
        "0.90x (95 % interval 0.85x to 0.95x, 3 repeats; within the noise floor of 20.0 %)" in text
    )
    assert "no single worth" not in text


def test_5_static_returns_all_lengths_together():
    data = whole()
    text = answer(5, data)
    frame = data.latency[data.latency.workload.eq("B")]

    def median(engine, slots, tokens, column="e2e_returned_s"):
        cell = frame.engine.eq(engine) & frame.slots.eq(slots) & frame.output_tokens.eq(tokens)
        return f"{frame[cell][column].mean():.2f} s"

    short, long = median("static", 16, 32), median("static", 16, 512)
    assert short == long
    assert f"{short} for requests of 32 tokens and {long} for those of 512" in text
    assert "(lesson: 27.83 s and 27.83 s)" in text
    assert f"existed after {median('static', 16, 32, 'e2e_produced_s')}" in text
    few, many = (median("vllm", slots, 32) for slots in (16, 256))
    assert f"vllm with 16 slots returns each at its own end: {few} and" in text
    assert f"vllm with 256 slots returns each at its own end: {many} and" in text
    assert "with 256 nobody waits, and after the common first step it grows" in text
    sooner = data.ratios[data.ratios["name"].eq("E2E_32") & data.ratios.engine.eq("vllm")]
    for slots, value in sooner.groupby("slots").geometric_mean.first().items():
        assert f"{value:.2f}x (95 %" in text and f"with {slots} slots" in text


def test_5_is_not_said_to_wait_where_nobody_does():
    text = answer(5, measured((*FOUR,)))
    assert "nobody waits" not in text and "returns each at its own end" in text


def test_6_the_same_end_of_the_block():
    text = answer(6)
    assert "A goes from 736 to 184 steps, but B only from 1,056 to 512" in text
    assert "in the last 384 of 512 steps only the 16 longest requests run" in text
    assert "in the last 480 of 1,056 steps nobody is left" in text
    assert "(lesson: −26.6 % and −53.3 %)" in text
    assert "with 256 slots, over what they leave with 16: " in text
    assert "at 18.50 requests per second 94.0 % of the freed slots" in text


def test_7_the_division_its_ceiling_and_what_was_measured():
    text = answer(7)
    assert "100,000 / 4,096 = 24 requests fit; by mean use, 100,000 / 500 = 200" in text
    assert "321 tokens against 312, so that 682 fit where the division says 702" in text
    assert "by mean use 105 requests would fit, by the running ones’ length 84" in text
    assert "on demand held 59.5 on average over time (49.5 a step) and 160 at most" in text
    assert "the maximum length 14.6 over time" in text
    assert "More than by mean use fit for a moment (160)" in text


def test_8_how_far_apart_and_how_to_say_it():
    data = whole()
    text = answer(8, data)
    assert "17.2 % apart between two runs, vLLM 3 to 4 %." in answers(data)[7].head
    noise = data.noise[data.noise.workload.eq("B") & data.noise.slots.eq(16)]
    drop = noise.set_index("engine")["drop"]
    assert f"static on B was {100 * drop['static']:.1f} % apart" in text
    assert f"vllm {100 * drop['vllm']:.1f} % (1 − min/max" in text
    assert "took at most 0.5 % of the CPU, and 33 of 33 timings are clean" in text
    assert "The others keep" not in text
    frame = data.timings.copy()
    frame.loc[frame.index[0], "verdict"] = "contended"
    text = answer(8, replace(data, timings=frame))
    assert "32 of 33 timings are clean. The others keep their numbers" in text


def test_8_the_worst_pairing_is_that_of_the_same_ratio():
    data = whole()
    frame = data.ratios[data.ratios["name"].eq("R_B") & data.ratios.engine.eq("vllm")]
    estimate = frame.geometric_mean.iloc[0]

    def limits(of: float) -> Data:
        worst = {"estimate": of, "n": 3, "worst_pairing": {"low": 1.11, "high": 9.99}}
        return replace(data, summary=data.summary | {"limits": {"by_ratio": {"R_B": worst}}})

    assert "would have given 1.11x and 9.99x" in answer(8, limits(estimate))
    # the summary may speak of another pair
    assert "would have given" not in answer(8, limits(estimate * 1.1))


def test_8_one_repeat_cannot_show_it():
    text = answer(8, measured((*FOUR,), 1))
    assert "One repeat cannot show" in text and "make precise" in text and "apart and" not in text


@pytest.mark.parametrize(
    ("cells", "number", "lacks", "command"),
    [
        (FOUR, 1, "rules of reservation", f"{MEASURE} kv"),
        (FOUR, 1, "own loop with continuous", MEASURE),
        (FOUR, 2, "with padded and with waving", MEASURE),
        (FOUR, 4, "with padded and with waving", MEASURE),
        (FOUR, 6, "two slot counts", MEASURE),
        (FOUR, 6, "keep coming", f"{MEASURE} arrivals"),
        (FOUR, 7, "rules of reservation", f"{MEASURE} kv"),
        ([("static", "B", 16), ("vllm", "B", 16)], 3, "workload of equal lengths", MEASURE),
        ([("vllm", "A", 16), ("vllm", "B", 16)], 2, "an engine and its baseline", MEASURE),
        ([("vllm", "A", 16), ("vllm", "B", 16)], 5, "latencies of a padded engine", MEASURE),
        ([("static", "A", 16)], 8, "an engine and its baseline", MEASURE),
    ],
)
def test_what_an_answer_lacks_is_said_with_its_command(cells, number, lacks, command):
    text = answer(number, measured(tuple(cells), 1))
    (sentence,) = [s for s in text.split("Not measured here: ")[1:] if lacks in s]
    assert f"`{command}` measures it." in sentence


VARIANTS = {
    "whole": whole,
    "slots": lambda: measured((*FOUR, *MORE)),
    "one": lambda: measured((*FOUR,), 1),
    "engine": lambda: measured((("vllm", "A", 16), ("vllm", "B", 16)), 1),
    "nothing": lambda: make_data({}, {}),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_answer_is_there_in_vietnamese(name):
    data = VARIANTS[name]()
    english = answers(data)
    with speaking("vi"):
        spoken = answers(data)
    for one, other in zip(english, spoken, strict=True):
        assert len(one.paragraphs) == len(other.paragraphs) >= 1
        assert not set(one.paragraphs) & set(other.paragraphs) and one.head != other.head
        assert one.see == other.see


def test_hostile_names_are_words():
    text = " ".join(answer(number, hostile(whole())) for number in range(1, 9))
    assert text.count(HOSTILE + "vllm") > 3 and "{engine}" in text
