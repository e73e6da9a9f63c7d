"""What the page says of noise: the wording follows the numbers, and nothing is made up."""

from __future__ import annotations

import pandas as pd
import pytest
from test_report_page import Page, assert_no_null_shown

from fourcells.report import grids, latency, noise
from fourcells.report.data import make_data
from fourcells.report.page import render
from fourcells.report.wording import conclusion, direction, passed, sureness

PAIR = {"engine": "vllm", "baseline": "static", "slots": 16}
NO_FAST = ("faster", "slower", "sooner", "later", "more gain", "less gain")


@pytest.mark.parametrize(
    ("name", "low", "high", "n", "says"),
    [
        ("R_B", 1.2, 1.5, 3, "faster"),
        ("R_B", 0.7, 0.9, 3, "slower"),
        ("R_B", 0.9, 1.2, 3, "not distinguishable"),
        ("R_B", 1.0, 1.2, 3, "not distinguishable"),
        ("R_B", 0.8, 1.0, 3, "not distinguishable"),
        # equal values: the interval is a point, and rounding is no difference
        ("R_B", 1 + 2e-16, 1 + 2e-16, 3, "not distinguishable"),
        ("R_B", 1.2, 1.5, 2, "faster (2 repeats only)"),
        ("R_B", 0.1, 9.0, 2, "not distinguishable (2 repeats only)"),
        ("R_B", None, None, 1, "one repeat"),
        ("R_B", 1.2, 1.5, 1, "one repeat"),
        ("R_B", None, None, 4, "no interval"),
        ("R_B", float("nan"), float("nan"), 4, "no interval"),
        ("Q", 1.2, 1.5, 5, "more gain when mixed"),
        ("Q_C", 0.7, 0.9, 5, "less gain when mixed"),
        ("slots_ratio", 2.0, 3.0, 5, "faster"),
        ("loss_when_mixed", 0.3, 0.4, 5, "slower"),
        ("E2E_32", 10.0, 14.0, 5, "sooner"),
        ("E2E_C_32", 0.5, 0.9, 5, "later"),
        ("unheard_of", 2.0, 3.0, 5, "above 1"),
    ],
)
def test_a_difference_is_claimed_only_if_the_interval_excludes_1(name, low, high, n, says):
    assert conclusion(name, low, high, n) == says
    if direction(low, high, n) in ("open", "unsure"):
        assert not any(word in says for word in NO_FAST)


@pytest.mark.parametrize(
    ("value", "n", "says"),
    [
        (True, 3, "pass"),
        (False, 3, "fail"),
        (True, 2, "pass (2 repeats only)"),
        (None, 1, "one repeat"),
        (False, 1, "one repeat"),
        (pd.NA, 3, "no interval"),
        (None, None, "one repeat"),
    ],
)
def test_a_control_passes_fails_or_cannot_tell(value, n, says):
    assert passed(value, n) == says


def test_two_repeats_come_with_a_warning():
    assert "only 2 repeats" in sureness(0.1, 9.0, 2)
    assert "only" not in sureness(0.1, 9.0, 3)
    assert sureness(None, None, 1) == "one repeat: no interval"


def ratio(name, values, low=None, high=None, **more):
    """The rows of one ratio."""
    pooled = PAIR | {"geometric_mean": values[0], "n": len(values), "low": low, "high": high}
    rows = [{"name": name, "repeat": r, "value": v} for r, v in enumerate(values, start=1)]
    return [pooled | more | row for row in rows]


def page(tables, summary=None) -> Page:
    frames = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    made = Page(render(make_data(frames, summary or {})))
    assert_no_null_shown(made)
    return made


def words(made: Page) -> str:
    return " ".join("".join(made.text).split())


THREE = [
    *ratio("R_A", [1.5, 1.4, 1.6], 1.3, 1.7, boot_low=1.4, boot_high=1.6, lesson=1.466),
    *ratio("R_B", [3.0, 2.9, 3.1], 2.7, 3.3, boot_low=2.9, boot_high=3.1, lesson=2.981),
    *ratio("Q", [2.0, 2.1, 1.9], 0.9, 2.3, boot_low=1.9, boot_high=2.1, lesson=2.034),
    *ratio("loss_when_mixed", [0.7, 0.7, 0.7], 0.65, 0.75, baseline=None, lesson=0.73),
    *ratio("E2E_8", [12.0, 11.0, 13.0], 10.0, 14.0, baseline_slots=16, lesson=12.3),
    *ratio("E2E_128", [1.1, 0.9, 1.0], 0.8, 1.3, baseline_slots=16),
]
CELL = {"engine": "static", "workload": "B", "slots": 16}
NOISE = [
    CELL | {"n": 5, "mean_tok_s": 300.0, "sd_tok_s": 9.0, "cv": 0.03, "spread": 0.08,
            "drop": 0.074, "lesson_drop": 0.172, "drift_per_hour": 0.021, "drift_low": -0.01,
            "drift_high": 0.052, "outliers": "3,4"},
    CELL | {"engine": "vllm", "n": 5, "mean_tok_s": 900.0, "sd_tok_s": 9.0, "cv": 0.01,
            "spread": 0.02, "drop": 0.0196, "outliers": ""},
]  # fmt: skip
CONTROLS = [
    {"name": "a / b on A, 16 slots", "kind": "A/A", "n": 3, "estimate": 1.01, "low": 0.98,
     "high": 1.04, "expected": 1.0, "passed": True, "together": True, "noise_floor": 0.03},
    {"name": "a / b on B, 16 slots", "kind": "A/A", "n": 3, "estimate": 1.11, "low": 1.08,
     "high": 1.14, "expected": 1.0, "passed": False, "together": True,
     "noise_floor": 0.027},
    {"name": "a / c on A, 16 slots", "kind": "placebo", "n": 1, "estimate": 1.11,
     "expected": 1.0, "passed": None},
]  # fmt: skip
LIMITS = {
    "smallest_quotient": 1.12,
    "repeats_for_5_percent": 14,
    "repeats_for_10_percent": 6,
    "minutes_per_repeat": 2.5,
    "minutes_for_5_percent": 35.0,
    "minutes_for_10_percent": None,
    "leave_one_out": [{"repeat": 1, "estimate": 1.9, "low": 1.5, "high": 2.4}],
    "clean_only": {"n": 1, "estimate": 2.0, "low": None, "high": None},
    "worst_pairing": {"low": 1.2, "high": 2.9},
    "sentences": ["With 3 repeats the extra gain is 2.00 [0.90, 2.30]."],
}
SUMMARY = {
    "limits": LIMITS,
    "lesson_claim": {"estimate": 2.03, "low": 1.4, "high": 3.0, "sentence": "The lesson says so."},
}


@pytest.fixture(scope="module")
def full() -> Page:
    return page({"ratios": THREE, "noise": NOISE, "controls": CONTROLS}, SUMMARY)


def test_every_ratio_has_both_intervals_and_a_conclusion(full):
    table = {row["ratio"]: row for row in full.table("Every ratio")}
    assert list(table) == [
        "R_A: vllm / static on A, 16 slots",
        "R_B: vllm / static on B, 16 slots",
        "Q: vllm / static, R_\u2013 / R_\u2013 (mixed lengths), 16 slots",
        "vllm: \u2013 / \u2013 (loss when mixed), 16 slots",
    ]
    rows = dict(zip(["R_A", "R_B", "Q", "loss"], table.values(), strict=True))
    assert rows["R_B"]["95 % interval (t)"] == "2.70x to 3.30x"
    assert rows["R_B"]["bootstrap"] == "2.90x to 3.10x"
    says = {name: row["conclusion"] for name, row in rows.items()}
    assert says == {
        "R_A": "faster",
        "R_B": "faster",
        "Q": "not distinguishable",
        "loss": "slower",
    }
    assert "unpaired" not in rows["R_A"]
    assert "a further factor for mixed lengths is not distinguishable from 1" in words(full)


def test_the_three_definitions_of_noise_stand_beside_the_lesson(full):
    static, vllm = full.table("Noise of every cell")
    given = ("CV", "max/min \u2212 1", "1 \u2212 min/max", "1 \u2212 min/max, lesson")
    assert [static[key] for key in given] == ["3.0 %", "8.0 %", "7.4 %", "17.2 %"]
    assert (static["outliers"], vllm["outliers"]) == ("3, 4", "none")


def noise_cells(**changes) -> list[dict]:
    """The rows of the table of noise, static timed over two hours and vllm over half of one."""
    started = {"static": ["10:00", "12:00"], "vllm": ["10:00", "10:30"]}
    timings = [
        CELL | {"engine": engine, "started": f"2026-11-29T{at}:00+00:00"}
        for engine, times in started.items()
        for at in times
    ]
    drift = {"drift_per_hour": 0.021, "drift_low": -0.01, "drift_high": 0.052}
    rows = [row | drift | changes for row in NOISE]
    tables = {"noise": pd.DataFrame(rows), "timings": pd.DataFrame(timings)}
    grid = noise.cells(make_data(tables, {}))
    heads = [column.label for column in grid.columns]
    return [dict(zip(heads, (cell.text for cell in row), strict=True)) for row in grid.rows]


def test_an_hour_of_repeats_tells_the_drift_of_an_hour():
    static, vllm = noise_cells()
    assert static["drift per hour"] == "+2.1 % [\u22121.0 %, +5.2 %]"
    assert vllm["drift per hour"] == "\u2013"


def test_the_lesson_tells_a_range():
    row, _ = noise_cells(lesson_drop=0.035, lesson_drop_low=0.03, lesson_drop_high=0.04)
    assert row["1 \u2212 min/max, lesson"] == "3.0 % to 4.0 %"


def test_controls_pass_fail_or_are_of_one_repeat(full):
    rows = full.table("Controls")
    assert [row["result"] for row in rows] == ["pass", "fail", "one repeat"]
    assert rows[2]["95 % interval"] == "one repeat"


def test_limits_are_said_and_what_more_repeats_would_cost(full):
    text = words(full)
    assert LIMITS["sentences"][0] in text and "The lesson says so." in text
    ways = {row["counted"]: row["Q"] for row in full.table("Ratios, counted in other ways")}
    assert ways["without repeat 1"] == "1.90x [1.50x, 2.40x]"
    assert ways["clean timings only"] == "2.00x"
    assert ways["worst pairing: each timing with one of any repeat"] == "[1.20x, 2.90x]"
    cost = full.table("Repeats and minutes")
    assert [row["repeats in all"] for row in cost] == ["14", "6"]
    assert [row["minutes for those still missing"] for row in cost] == ["35.0", "\u2013"]
    assert "make precise TARGET=0.05" in text


def test_latency_ratios_stand_at_the_latencies_and_not_among_the_ratios(full):
    assert all(not row["ratio"].startswith("E2E") for row in full.table("Ratios"))
    short, long = full.table("How many times sooner")
    assert (short["output tokens"], short["conclusion"]) == ("8", "sooner")
    assert (short["against"], short["lesson (RTX 3060)"]) == ("static, 16 slots", "12.30x")
    assert (long["output tokens"], long["conclusion"]) == ("128", "not distinguishable")


def test_a_further_mixed_workload_names_itself():
    rows = ratio("E2E_C_d_8", [2.0, 2.1, 2.2], 1.5, 2.5)
    (row,) = latency.ratios(make_data({"ratios": pd.DataFrame(rows)}, {})).rows
    assert row[3].text == "8"
    rows += ratio("E2E_8", [2.0, 2.1, 2.2], 1.5, 2.5)
    _, usual = latency.ratios(make_data({"ratios": pd.DataFrame(rows)}, {})).rows
    assert [cell.text for cell in usual[3:5]] == ["B", "8"]


def test_what_lies_within_the_noise_floor_is_no_difference():
    rows = ratio("R_A", [1.5] * 3, 1.4, 1.6) + ratio("R_B", [1.02, 1.02, 1.02], 1.01, 1.03)
    control = CONTROLS[0] | {"n": 3, "noise_floor": 0.03}
    made = page({"ratios": rows, "controls": [control]})
    says = [row["conclusion"] for row in made.table("Every ratio")]
    assert says == ["faster", "not distinguishable: within the noise floor of 3.0 %"]
    answer = "3 repeats; within the noise floor of 3.0 %)"
    assert answer in words(made) and "vllm was faster" not in words(made)
    # two repeats tell no floor, and a placebo pair is no A/A pair
    for other in ({"n": 2}, {"kind": "placebo"}):
        made = page({"ratios": rows, "controls": [control | other]})
        assert {row["conclusion"] for row in made.table("Every ratio")} == {"faster"}


def test_the_unpaired_analysis_is_shown_where_repeats_cross_sessions():
    more = {"unpaired_estimate": 3.02, "unpaired_low": 2.0, "unpaired_high": 4.5}
    rows = ratio("R_B", [3.0, 2.9, 3.1], 2.7, 3.3, crosses_sessions=True, **more)
    rows += ratio("R_A", [1.5, 1.4, 1.6], 1.3, 1.7, crosses_sessions=False, **more)
    shown = {row["ratio"][:3]: row for row in page({"ratios": rows}).table("Every ratio")}
    assert shown["R_B"]["unpaired"] == "3.02x [2.00x, 4.50x]"
    assert shown["R_A"]["unpaired"] == "\u2013"
    assert {row["conclusion"] for row in shown.values()} == {"faster"}
    rows = [row | {"unpaired_low": 0.9} for row in rows]
    shown = [row["conclusion"] for row in page({"ratios": rows}).table("Every ratio")]
    assert sorted(shown) == ["faster", "faster; unpaired: not distinguishable"]


def test_the_loss_has_its_interval_as_a_change():
    throughput = [
        CELL | {"engine": "vllm", "repeat": r, "tok_s": 70.0, "compare_with": "A",
                "loss_when_mixed": -0.3}
        for r in (1, 2, 3)
    ]  # fmt: skip
    tables = {"ratios": pd.DataFrame(THREE), "throughput": pd.DataFrame(throughput)}
    grid = grids.loss(make_data(tables, {}))
    assert "\u221235.0 % to \u221225.0 %" in [cell.text for cell in grid.rows[0]]


def test_one_repeat_is_never_a_difference():
    rows = [*ratio("R_A", [1.5]), *ratio("R_B", [3.0]), *ratio("E2E_8", [12.0])]
    noise = [CELL | {"n": 1, "mean_tok_s": 300.0}]
    made = page({"ratios": rows, "noise": noise})
    text = words(made)
    assert not any(word in text for word in ("faster", "slower", "sooner than"))
    assert {row["conclusion"] for row in made.table("Every ratio")} == {"one repeat"}
    assert made.table("Noise of every cell")[0]["CV"] == "one repeat"


def test_without_its_tables_the_section_says_why():
    made = page({})
    text = words(made)
    assert "Noise, and what it does to each conclusion" in text
    assert "Noise of every cell over its repeats: not in this run." in text
    assert "Controls: comparisons whose true value is known: not in this run." in text
    assert "What this data can carry: not in this run." in text


def test_advice_is_said_once_if_it_is_the_same_for_all():
    rows = [CELL | {"repeats": 3, "samples": 1, "total_sd": 0.02, "advice": "More repeats: so."}]
    rows.append(rows[0] | {"engine": "vllm"})
    made = page({"variance": rows})
    assert words(made).count("More repeats: so.") == 1
    assert made.table("Deviation")[0]["between repeats"] == "2.0 %"
    rows[1] = rows[1] | {"advice": "More samples: so.", "between_sd": 0.0, "within_sd": 0.01}
    shown = page({"variance": rows}).table("Deviation")
    assert [row["advice"] for row in shown] == ["More repeats: so.", "More samples: so."]


def test_the_figure_draws_what_no_interval_and_no_lesson_leaves():
    for rows in (ratio("R_A", [1.5]), ratio("R_A", [1.5, 1.6], 1e-3, 1e5), THREE):
        made = page({"ratios": rows})
        labels = [v for tag, key, v in made.attributes if (tag, key) == ("svg", "aria-label")]
        assert any("Ratios on a log axis" in label for label in labels)


def test_percentiles_stand_only_where_there_are_any():
    row = CELL | {"repeat": 1, "output_tokens": 8, "n": 16, "ttft_s": 1.0, "e2e_returned_s": 2.0,
                  "ttft_low": 0.9, "ttft_high": 1.1}  # fmt: skip
    (grid,) = latency.intervals(make_data({"latency": pd.DataFrame([row])}, {}))
    heads = [column.label for column in grid.columns]
    assert not any("p9" in head for head in heads)
    assert [cell.text for cell in grid.rows[0]][-2:] == ["1.00 [0.90, 1.10]", "2.00"]
    row |= {"e2e_returned_p90": 2.5}
    (grid,) = latency.intervals(make_data({"latency": pd.DataFrame([row])}, {}))
    assert "E2E returned, p90" in [column.label for column in grid.columns]
