"""Noise, ratios, controls, sources of variance and limits, as tables and summary give them."""

from __future__ import annotations

import json
import math
import os

import numpy as np
import pandas as pd
import pytest
import synthetic
import tables
from synthetic import find

from fourcells.analysis import ranks, stats
from fourcells.analysis.load import load
from fourcells.analysis.noise import drift, outliers

PAIR = [(e, w, 16) for e in ("static", "vllm") for w in ("A", "B")]
FLAT = {"static": (0.02, 0.0), "vllm": (0.01, 0.0)}
SORTED = {
    "A": synthetic.DEMO["A"],
    "B": synthetic.DEMO["B"] | {"order": "sorted"},
}


def analyse(plan):
    return tables.make_tables(load(plan), plan)


def row(table, **wanted):
    (found,) = table[(table[list(wanted)] == list(wanted.values())).all(axis=1)].to_dict("records")
    return found


def no_gaps(summary):
    """The summary is JSON without NaN, and no sentence has a hole."""
    text = json.dumps(summary, allow_nan=False)
    said = json.dumps([e["sentences"] for e in summary["limits"]["by_ratio"].values()])
    assert "nan" not in said.lower() and "None" not in said
    return text


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """The lesson's cells at the lesson's lengths, six repeats with noise."""
    plan = synthetic.write_timings(
        tmp_path_factory.mktemp("noisy"), repeats=6, noise=0.1, workloads=synthetic.LESSON
    )
    return analyse(plan)


# ---- noise


def test_noise_of_known_throughputs(tmp_path):
    plan = synthetic.write_timings(tmp_path, repeats=3, cells=PAIR, step_times=FLAT)
    for repeat, faster in ((2, 1.1), (3, 1.25)):
        synthetic.remeasure(find(plan, "static", "B", repeat=repeat), faster, run="first")
    found = row(analyse(plan)[0]["noise"], engine="static", workload="B")
    rates = 64 * 46 / (512 * 0.02) * np.array([1, 1.1, 1.25])
    assert found["n"] == 3
    assert found["mean_tok_s"] == pytest.approx(rates.mean())
    assert found["sd_tok_s"] == pytest.approx(rates.std(ddof=1))
    assert found["cv"] == pytest.approx(rates.std(ddof=1) / rates.mean())
    assert found["spread"] == pytest.approx(0.25)
    assert found["drop"] == pytest.approx(0.2)


def test_the_lessons_noise_stands_beside_its_cells_on_b(noisy):
    table = noisy[0]["noise"]
    static = row(table, engine="static", workload="B")
    assert static["lesson_drop"] == pytest.approx(1 - 257.3 / 310.9)
    for slots in (16, 256):
        vllm = row(table, engine="vllm", workload="B", slots=slots)
        assert [vllm[f"lesson_drop{end}"] for end in ("", "_low", "_high")] == [
            pytest.approx(0.035), 0.03, 0.04
        ]  # fmt: skip
    assert table[table["workload"] == "A"]["lesson_drop"].isna().all()


def test_drift_is_the_slope_over_the_starts(tmp_path):
    """One repeat per hour, each faster than the one before by the same factor."""
    plan = synthetic.write_timings(tmp_path, repeats=4, cells=[("vllm", "B", 16)])
    start = synthetic.START.timestamp()
    for entry in plan:
        hours = entry["repeat"] - 1
        synthetic.remeasure(entry, faster=math.exp(0.02 * hours), run="first")

        def at(meta, hours=hours):
            moment = pd.Timestamp(start + 3600 * hours, unit="s", tz="UTC").isoformat()
            meta["provenance"]["started"] = moment

        synthetic.rewrite(entry["path"], metadata=at)
        synthetic.rewrite(entry["steps"], metadata=at)
    found = analyse(plan)[0]["noise"].iloc[0]
    for column in ("drift_per_hour", "drift_low", "drift_high"):
        assert found[column] == pytest.approx(0.02, abs=1e-6)


def test_drift_needs_three_repeats_and_their_starts(tmp_path):
    drift = ["drift_per_hour", "drift_low", "drift_high"]
    two = analyse(synthetic.write_timings(tmp_path / "2", repeats=2, noise=0.1))[0]["noise"]
    assert two[drift].isna().all(axis=None) and two["cv"].notna().all()
    plan = synthetic.write_timings(tmp_path / "3", repeats=3, noise=0.1, cells=PAIR)
    for key in ("path", "steps"):
        synthetic.rewrite(plan[0][key], metadata=lambda m: m["provenance"].update(started=None))
    three = analyse(plan)[0]["noise"]
    assert row(three, engine="static", workload="A")["n"] == 3
    assert three[three["drift_per_hour"].isna()][["engine", "workload"]].values.tolist() == [
        ["static", "A"]
    ]
    assert (three.dtypes == two.dtypes).all()


def test_the_interval_of_the_drift_is_that_of_least_squares():
    from statsmodels.api import OLS, add_constant

    draw = np.random.default_rng(1)
    for n in (3, 5, 10):
        hours, logs = draw.uniform(0, 2, n), draw.normal(0, 0.17, n)
        fit = OLS(logs, add_constant(hours)).fit()
        found = drift(hours + 500_000, logs)
        assert found["drift_per_hour"] == pytest.approx(fit.params[1], rel=1e-6)
        ends = [found["drift_low"], found["drift_high"]]
        assert ends == pytest.approx(fit.conf_int()[1].tolist(), rel=1e-6)


def test_outliers_are_flagged_and_kept(tmp_path):
    plan = synthetic.write_timings(tmp_path, repeats=6, noise=0.01, cells=[("vllm", "B", 16)])
    synthetic.remeasure(find(plan, "vllm", "B", repeat=4), faster=0.6, run="first")
    made, summary = analyse(plan)
    assert made["noise"]["outliers"].tolist() == ["4"]
    assert made["noise"]["n"].tolist() == [6] == [summary["cells"][0]["n"]]


def test_what_is_no_outlier():
    repeats = [1, 2, 3, 4, 5]
    assert outliers(np.array([1.0, 1.0, 1.0, 5.0]), repeats[:4]) == []  # too few
    assert outliers(np.full(5, 3.0) * (1 + 1e-14 * np.arange(5)), repeats) == []  # rounding
    assert outliers(np.array([1.0, 1.01, 5.0, 0.99, 1.02]), [5, 4, 3, 2, 1]) == [3]


def test_an_outlier_is_3_5_deviations_away():
    # the median absolute deviation of the logs is 0.5, that of normal values of deviation 0.74
    for last, flagged in ((2.55, []), (2.65, [5])):
        assert outliers(np.exp([-1.0, -0.5, 0.0, 0.5, last]), [1, 2, 3, 4, 5]) == flagged


def test_one_repeat_has_no_noise_but_every_column(tmp_path, noisy):
    made, summary = analyse(synthetic.write_timings(tmp_path, repeats=1))
    table = made["noise"]
    spread = ["sd_tok_s", "cv", "spread", "drop", "drift_per_hour", "drift_low", "drift_high"]
    assert table[[*spread, "outliers"]].isna().all(axis=None)
    assert (table["n"] == 1).all() and table["mean_tok_s"].notna().all()
    for name in ("noise", "ratios", "variance", "controls", "latency"):
        assert (made[name].dtypes == noisy[0][name].dtypes).all(), name
    assert all(cell["sd"] is None and cell["drop"] is None for cell in summary["cells"])
    ends = ["low", "high", "boot_low", "boot_high", "unpaired_low", "unpaired_high"]
    assert made["ratios"][ends].isna().all(axis=None)
    assert made["ratios"]["unpaired_estimate"].notna().all()
    limits = summary["limits"]
    assert limits["sentences"][0] == "One repeat: no interval."
    assert limits["minutes_per_repeat"] > 0 and limits["minutes_for_5_percent"] is None
    no_gaps(summary)


def test_two_repeats_are_warned_of(tmp_path):
    summary = analyse(synthetic.write_timings(tmp_path, repeats=2, noise=0.1))[1]
    assert summary["ratios"]["Q"]["low"] is not None
    assert any("warning" in sentence for sentence in summary["limits"]["sentences"])
    no_gaps(summary)


# ---- ratios


def test_pooled_columns_are_those_of_the_repeats(noisy):
    table = noisy[0]["ratios"]
    seed = 1  # of the specs
    for _, rows in table.groupby(["name", "engine", "slots"]):
        values = rows["value"].tolist()
        first = rows.iloc[0]
        assert rows[["low", "boot_high", "unpaired_low"]].nunique().eq(1).all()
        assert (first["low"], first["high"]) == stats.t_interval(values)
        boot = stats.bootstrap_intervals([values], seed)[0]
        assert (first["boot_low"], first["boot_high"]) == pytest.approx(boot)
        # all repeats are there: the unpaired estimate is the paired one
        assert first["unpaired_estimate"] == pytest.approx(first["geometric_mean"])
        assert first["unpaired_low"] < first["unpaired_estimate"] < first["unpaired_high"]
    ours = noisy[1]["ratios"]["Q"]
    first = row(table, name="Q", repeat=1)
    assert all(ours[key] == pytest.approx(first[key]) for key in ("low", "boot_low", "high"))


def test_the_quotient_unpaired_is_welchs_of_four_cells(noisy):
    rates = noisy[0]["throughput"].groupby(["engine", "workload", "slots"])["tok_s"].apply(list)
    above = [rates["vllm", "B", 16], rates["static", "A", 16]]
    below = [rates["static", "B", 16], rates["vllm", "A", 16]]
    first = row(noisy[0]["ratios"], name="Q", repeat=1)
    assert [first[f"unpaired_{k}"] for k in ("estimate", "low", "high")] == pytest.approx(
        stats.unpaired(above, below)
    )


def test_names_and_the_lessons_figures(noisy):
    table = noisy[0]["ratios"].drop_duplicates(["name", "engine", "slots"])
    assert set(table["name"]) == {
        "R_A", "R_B", "Q", "slots_ratio", "loss_when_mixed",
        *(f"E2E_{length}" for length in (32, 64, 128, 512)),
    }  # fmt: skip
    loss = table[table["name"] == "loss_when_mixed"].set_index(["engine", "slots"])["lesson"]
    assert loss.round(2).to_dict() == {
        ("static", 16): 0.36, ("vllm", 16): 0.73, ("vllm", 256): 0.47
    }  # fmt: skip
    e2e = table[table["name"] == "E2E_32"].set_index("slots")
    assert e2e["lesson"].round(1).to_dict() == {16: 12.3, 256: 33.5}
    # a static batch has 16 slots: it is what 256 are compared with
    assert e2e["baseline_slots"].tolist() == [16, 16]
    longest = row(table, name="E2E_512", slots=256)
    assert longest["lesson"] == pytest.approx(27.83 / 7.08)


def test_ratios_of_known_steps(tmp_path):
    made, _ = analyse(synthetic.write_timings(tmp_path, repeats=2, step_times=FLAT))
    table = made["ratios"]
    loss = row(table, name="loss_when_mixed", engine="static", repeat=1)
    assert loss["value"] == pytest.approx(184 / 512)
    assert (loss["low"], loss["high"]) == pytest.approx((184 / 512, 184 / 512))
    e2e = made["latency"].set_index(["engine", "workload", "slots", "output_tokens", "repeat"])
    e2e = e2e["e2e_returned_s"]
    for slots in (16, 256):
        for tokens in (8, 16, 32, 128):
            found = row(table, name=f"E2E_{tokens}", slots=slots, repeat=2)
            theirs, ours = e2e["static", "B", 16, tokens, 2], e2e["vllm", "B", slots, tokens, 2]
            assert found["value"] == pytest.approx(theirs / ours)
    # a static batch of 16 returns after 128 to 512 steps, 256 slots after the length in steps
    assert row(table, name="E2E_8", slots=256, repeat=2)["value"] == pytest.approx(320 * 2 / 8)


def test_latencies_are_compared_at_the_same_slots_or_the_next_fewer(tmp_path):
    cells = [("static", w, s) for w in "AB" for s in (8, 16)]
    cells += [("vllm", w, s) for w in "AB" for s in (4, 8, 16, 64)]
    table = analyse(synthetic.write_timings(tmp_path, repeats=1, cells=cells))[0]["ratios"]
    found = table[table["name"] == "E2E_8"].set_index("slots")["baseline_slots"]
    assert found.to_dict() == {4: 8, 8: 8, 16: 16, 64: 16}


def test_a_missing_timing_costs_its_repeat_only_where_pairs_are_needed(tmp_path):
    plan = synthetic.write_timings(tmp_path, repeats=4, noise=0.1)
    os.remove(find(plan, "static", "A", repeat=2)["path"])
    made, summary = analyse(plan)
    table = made["ratios"]
    q = table[table["name"] == "Q"]
    assert q["repeat"].tolist() == [1, 3, 4] and q["n"].eq(3).all()
    # Welch takes the four repeats of the other cells all the same
    rates = made["throughput"].groupby(["engine", "workload", "slots"])["tok_s"].apply(list)
    assert [len(rates[e, w, 16]) for e, w in (("static", "A"), ("vllm", "B"))] == [3, 4]
    assert q["unpaired_estimate"].iloc[0] != pytest.approx(q["geometric_mean"].iloc[0], rel=1e-6)
    assert [each["repeat"] for each in summary["limits"]["leave_one_out"]] == [1, 3, 4]
    assert row(made["noise"], engine="static", workload="A")["n"] == 3
    no_gaps(summary)


def test_repeats_of_two_sessions_keep_both_analyses(tmp_path):
    """The second session is 30 % slower for the static cells: pairs that cross it are spread out,
    and the marked rows carry the unpaired interval beside."""
    plan = synthetic.write_timings(tmp_path, repeats=4, noise=0.02, cells=PAIR)
    for repeat in (3, 4):
        synthetic.remeasure(find(plan, "static", "B", repeat=repeat), faster=0.7)
    table = analyse(plan)[0]["ratios"]
    rows = table[table["name"] == "R_B"]
    assert rows["crosses_sessions"].tolist() == [False, False, True, True]
    first = rows.iloc[0]
    assert first["unpaired_low"] < first["unpaired_estimate"] < first["unpaired_high"]
    assert first["unpaired_estimate"] == pytest.approx(first["geometric_mean"])
    mine = table[table["name"] == "R_A"]
    assert not mine["crosses_sessions"].any()


def test_the_same_data_gives_the_same_tables_whatever_the_order(tmp_path):
    plan = synthetic.write_timings(tmp_path, repeats=3, noise=0.1)
    made, summary = analyse(plan)
    again, same = analyse(plan[::-1])
    assert same == summary
    for name in ("noise", "ratios", "controls", "variance"):
        pd.testing.assert_frame_equal(made[name], again[name])


# ---- controls

TORCH = ("torch_wave", "torch_continuous")


def test_pairs_are_found_by_themselves(tmp_path):
    engines = ("static", "static_again", *TORCH)
    cells = [(e, w, 16) for e in engines for w in ("A", "B")]
    cells += [(e, "B", 64) for e in TORCH]
    made, summary = analyse(synthetic.write_timings(tmp_path, repeats=3, noise=0.05, cells=cells))
    table = made["controls"]
    found = {(r.kind, r.engine, r.other, r.workload, r.slots) for r in table.itertuples()}
    admissions = {
        ("placebo", one, two, "A", 16)
        for one in ("static", "static_again", "torch_wave")
        for two in TORCH
        if one != two
    }
    assert (
        found
        == {
            ("A/A", "static", "static_again", "A", 16),
            ("A/A", "static", "static_again", "B", 16),
            ("placebo", "torch_wave", "torch_continuous", "B", 64),
        }
        | admissions
    )
    assert len(table) == len(found)
    first = row(table, kind="A/A", workload="B")
    rates = made["throughput"].set_index(["engine", "workload", "slots"])["tok_s"]
    values = (rates["static", "B", 16].to_numpy() / rates["static_again", "B", 16]).tolist()
    assert (first["low"], first["high"]) == pytest.approx(stats.t_interval(values))
    assert first["estimate"] == pytest.approx(stats.geometric_mean(values))
    assert first["passed"] is (first["low"] <= 1 <= first["high"])
    assert first["noise_floor"] == pytest.approx(first["high"] / first["estimate"] - 1)
    assert first["expected"] == 1.0
    told = {each["name"]: each["pass"] for each in summary["controls"]}
    assert told[first["name"]] is first["passed"]
    assert set(told.values()) <= {True, False}


def test_requests_sorted_by_length_are_a_placebo(tmp_path):
    cells = [(e, w, 16) for e in TORCH for w in ("A", "B")]
    plan = synthetic.write_timings(tmp_path, repeats=2, cells=cells, workloads=SORTED)
    made, summary = analyse(plan)
    table = made["controls"]
    assert table["workload"].tolist() == ["A", "B"]
    # without noise both do the very same
    assert table["estimate"].tolist() == [1.0, 1.0] and table["passed"].tolist() == [True, True]
    assert summary["publishable"]["value"] is True
    cyclic = synthetic.write_timings(tmp_path / "cyclic", repeats=2, cells=cells)
    assert analyse(cyclic)[0]["controls"]["workload"].tolist() == ["A"]


@pytest.mark.parametrize(
    ("options", "placebos"),
    [
        ({}, ["A"]),
        ({"async_scheduling": True}, ["A"]),
        # 16 prompts of 32 tokens, and fewer: a wave sets off with four rows, and nobody joins it
        ({"max_num_batched_tokens": 512}, ["A"]),
        ({"max_num_batched_tokens": 128}, []),
    ],
)
def test_schedules_are_compared_under_the_options_in_force(tmp_path, options, placebos):
    engines = {
        name: {"backend": "vllm", "options": options | admission, "baseline": None}
        for name, admission in (("vllm", {}), ("vllm_wave", {"admission": "wave"}))
    }
    cells = [(e, w, 16) for e in engines for w in ("A", "B")]
    plan = synthetic.write_timings(tmp_path, repeats=1, cells=cells, engines=engines)
    assert analyse(plan)[0]["controls"]["workload"].tolist() == placebos


def test_later_arrivals_are_no_placebo(tmp_path):
    later = synthetic.DEMO["A"] | {"arrival": {"process": "poisson", "rate": 50.0, "seed": 1}}
    cells = [(e, "A", 16) for e in TORCH]
    plan = synthetic.write_timings(tmp_path, repeats=1, cells=cells, workloads={"A": later})
    assert len(analyse(plan)[0]["controls"]) == 0


def test_a_control_that_fails_is_a_reason_against_publishing(tmp_path):
    cells = [(e, "A", 16) for e in ("static", "static_again")]
    times = synthetic.STEP_TIMES | {"static_again": (20e-3, 124e-6)}
    plan = synthetic.write_timings(tmp_path, repeats=3, cells=cells, step_times=times)
    made, summary = analyse(plan)
    assert made["controls"]["passed"].tolist() == [False]
    assert made["controls"]["together"].tolist() == [False]
    assert summary["controls"][0]["pass"] is False
    (reason,) = summary["publishable"]["reasons"]
    assert "static / static_again on A, 16 slots" in reason and "must be 1" in reason


def test_one_repeat_neither_passes_nor_fails(tmp_path):
    cells = [(e, "A", 16) for e in ("static", "static_again")]
    made, summary = analyse(synthetic.write_timings(tmp_path, repeats=1, cells=cells))
    (found,) = made["controls"].to_dict("records")
    assert pd.isna(found["passed"]) and math.isnan(found["noise_floor"])
    assert summary["controls"][0]["pass"] is None
    assert not any("control" in reason for reason in summary["publishable"]["reasons"])
    no_gaps(summary)


def test_other_options_are_no_control(tmp_path):
    cells = [(e, "A", 16) for e in ("static", "static_again")]
    plan = synthetic.write_timings(tmp_path, repeats=2, cells=cells)
    for entry in plan:
        if entry["engine"] == "static_again":
            entry["spec"]["options"] = {"admission": "padded", "mode": "compiled"}
            for key in ("path", "steps"):
                synthetic.rewrite(
                    entry[key],
                    metadata=lambda m: m["spec"]["options"].update(mode="compiled"),
                )
    assert len(analyse(plan)[0]["controls"]) == 0


def test_without_a_pair_the_table_is_empty_and_whole(noisy):
    table = noisy[0]["controls"]
    assert len(table) == 0
    assert list(table) == [
        "name", "kind", "engine", "other", "workload", "slots", "n", "estimate", "low", "high",
        "expected", "passed", "p", "p_together", "together", "noise_floor",
    ]  # fmt: skip
    assert noisy[1]["controls"] == []


# ---- two sources of variance


def test_variance_is_told_apart_when_timings_hold_samples(tmp_path):
    plan = synthetic.write_timings(
        tmp_path, repeats=40, samples=4, noise=0.05, sample_noise=0.10, cells=[("vllm", "A", 256)]
    )
    found = analyse(plan)[0]["variance"].iloc[0]
    assert (found["repeats"], found["samples"]) == (40, 4)
    assert found["within_sd"] == pytest.approx(0.10, rel=0.15)
    assert found["between_sd"] == pytest.approx(0.05, rel=0.5)
    # load 3.1 s and warm-up 5.2 s
    assert found["repeat_s"] == pytest.approx(8.3)
    assert found["sample_s"] == pytest.approx(0.8, rel=0.1)
    ratio = math.sqrt(found["repeat_s"] / found["sample_s"])
    best = math.ceil(ratio * found["within_sd"] / found["between_sd"])
    assert found["best_samples"] == best > 4
    assert found["advice"].startswith(f"More samples: {best} per repeat, not 4")


def test_one_sample_tells_nothing_of_what_is_within(tmp_path):
    found = analyse(synthetic.write_timings(tmp_path, noise=0.1, cells=PAIR))[0]["variance"]
    assert found[["between_sd", "within_sd", "best_samples"]].isna().all(axis=None)
    assert found["total_sd"].notna().all() and found["sample_s"].notna().all()
    assert found["advice"].str.contains("samples: 2").all()


def test_costs_that_were_not_recorded_are_null(tmp_path):
    plan = synthetic.write_timings(tmp_path, samples=2, noise=0.1, sample_noise=0.1, cells=PAIR)
    gone = {"load_s": None, "warmup_s": None}
    for entry in plan:
        for key in ("path", "steps"):
            synthetic.rewrite(entry[key], metadata=lambda m: m["provenance"].update(gone))
    found = analyse(plan)[0]["variance"]
    assert found[["repeat_s", "best_samples"]].isna().all(axis=None)
    assert found["between_sd"].notna().all()


# ---- limits


def test_limits_of_the_headline(noisy):
    _, summary = noisy
    limits, ratio = summary["limits"], summary["ratios"]["Q"]
    assert {k: limits[k] for k in ("n", "estimate", "low", "high")} == {
        k: pytest.approx(ratio[k]) for k in ("n", "estimate", "low", "high")
    }
    assert limits["smallest_quotient"] == pytest.approx(ratio["high"] / ratio["estimate"])
    assert limits["repeats_for_5_percent"] > limits["repeats_for_10_percent"]
    assert len(limits["leave_one_out"]) == 6
    assert limits["clean_only"]["n"] == 6
    worst = limits["worst_pairing"]
    assert worst["low"] < ratio["min"] < ratio["max"] < worst["high"]
    assert set(limits["by_ratio"]) == {"R_A", "R_B", "Q", "slots_ratio"}
    assert limits["sentences"][0].startswith(
        f"With 6 repeats the extra gain is {ratio['estimate']:.2f}x ["
    )
    no_gaps(summary)


def test_limits_count_the_minutes_of_all_cells(tmp_path):
    plan = synthetic.write_timings(tmp_path, repeats=3, noise=0.1)
    made, summary = analyse(plan)
    cells = ["engine", "workload", "slots"]
    windows = made["throughput"].groupby(cells)["window_s"].mean().sum()
    limits = summary["limits"]
    assert limits["minutes_per_repeat"] == pytest.approx((windows + 6 * 8.3) / 60)
    more = max(0, limits["repeats_for_5_percent"] - 3)
    assert limits["minutes_for_5_percent"] == pytest.approx(more * limits["minutes_per_repeat"])


def test_limits_without_the_repeats_that_are_not_clean(tmp_path):
    plan = synthetic.write_timings(tmp_path, repeats=4, noise=0.1)
    synthetic.contend(find(plan, "static", "A", repeat=3))
    _, summary = analyse(plan)
    values = [v for r, v in summary["ratios"]["Q"]["per_repeat"].items() if r != "3"]
    clean = summary["limits"]["clean_only"]
    assert clean["n"] == 3
    assert clean["estimate"] == pytest.approx(stats.geometric_mean(values))
    assert any("3 clean repeats" in sentence for sentence in summary["limits"]["sentences"])
    # a timing outside the ratio takes nothing from it
    assert summary["limits"]["by_ratio"]["R_B"]["clean_only"]["n"] == 4


def test_limits_without_a_quotient(tmp_path):
    _, summary = analyse(synthetic.write_timings(tmp_path, repeats=2, cells=[("static", "A", 16)]))
    limits = summary["limits"]
    assert limits["n"] == 0 and limits["estimate"] is None
    assert len(limits["sentences"]) == 1
    no_gaps(summary)


def test_the_lessons_claim_stands_in_the_summary(noisy):
    claim = noisy[1]["lesson_claim"]
    assert claim["estimate"] == pytest.approx(noisy[1]["ratios"]["Q"]["lesson"])
    assert (round(claim["low"], 1), round(claim["high"], 1)) == (1.4, 3.0)


# ---- latency


def test_medians_have_intervals_by_rank(tmp_path):
    made, _ = analyse(synthetic.write_timings(tmp_path, repeats=1, cells=PAIR))
    requests, table = made["requests"], made["latency"]
    for each in table.to_dict("records"):
        same = (requests["engine"] == each["engine"]) & (requests["workload"] == each["workload"])
        same &= requests["output_tokens"] == each["output_tokens"]
        low, high = ranks.ranks(each["n"], 0.5)
        for name in ("ttft", "e2e_returned"):
            values = sorted(requests.loc[same, f"{name}_s"])
            assert (each[f"{name}_low"], each[f"{name}_high"]) == (
                values[low - 1],
                values[high - 1],
            )
            assert each[f"{name}_low"] <= each[f"{name}_s"] <= each[f"{name}_high"]


def test_percentiles_only_where_the_count_allows(tmp_path):
    columns = [f"e2e_returned_p{p}" for p in (90, 95, 99)]
    shown = {}
    for samples in (1, 4, 16):
        plan = synthetic.write_timings(
            tmp_path / str(samples), repeats=1, samples=samples, cells=[("vllm", "A", 16)]
        )
        (found,) = analyse(plan)[0]["latency"].to_dict("records")
        shown[found["n"]] = [not math.isnan(found[column]) for column in columns]
    assert shown == {64: [True, False, False], 256: [True, True, False], 1024: [True, True, True]}
    # 16 of each length
    plan = synthetic.write_timings(tmp_path / "B", repeats=1, cells=[("vllm", "B", 16)])
    found = analyse(plan)[0]["latency"]
    assert found["n"].eq(16).all() and found[columns].isna().all(axis=None)
    assert found["ttft_low"].notna().all()


def test_too_few_requests_have_no_interval(tmp_path):
    few = {"A": synthetic.DEMO["A"] | {"count": 5}}
    plan = synthetic.write_timings(tmp_path, repeats=1, cells=[("vllm", "A", 16)], workloads=few)
    found = analyse(plan)[0]["latency"]
    assert found["ttft_s"].notna().all()
    assert found[["ttft_low", "e2e_returned_high"]].isna().all(axis=None)
