"""Verdicts are judged anew, and what they mean for the figures."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pandas as pd
import pytest
import synthetic
import tables
from synthetic import find

from fourcells.analysis.load import load
from fourcells.analysis.verdicts import judge, usual


@pytest.fixture
def plan(tmp_path):
    return synthetic.write_timings(tmp_path, repeats=2)


def analyse(plan, thresholds=None):
    return tables.make_tables(load(plan), plan, thresholds)


def verdicts(plan, thresholds=None):
    """Path -> verdicts, of the timings that are not clean."""
    timings = load(plan)
    words = judge(timings, thresholds)
    return {p: w for p, w in zip(timings.plan["path"], words, strict=True) if w != ["clean"]}


def see(entry, **changes):
    """Changes what the witness of a timing saw."""
    synthetic.rewrite(
        entry["path"], metadata=lambda meta: meta["witness"]["windows"][0].update(changes)
    )


def row(table, entry):
    keys = ("engine", "workload", "slots", "repeat")
    (found,) = table[(table[list(keys)] == [entry[key] for key in keys]).all(axis=1)].to_dict(
        "records"
    )
    return found


def test_the_stored_verdict_gives_way_to_what_the_witness_saw(plan):
    entry = find(plan, "static", "B")
    synthetic.rewrite(entry["path"], metadata=lambda meta: meta.update(verdict=["contended"]))
    assert verdicts(plan) == {}
    synthetic.contend(entry)
    synthetic.rewrite(entry["path"], metadata=lambda meta: meta.update(verdict=["clean"]))
    assert verdicts(plan) == {entry["path"]: ["contended"]}


def test_other_thresholds_judge_the_same_windows_otherwise(plan):
    entry = find(plan, "static", "B")
    synthetic.contend(entry, share=0.1)
    assert verdicts(plan, {"foreign_cpu_share": 0.2}) == {}
    assert verdicts(plan, {"foreign_cpu_share": 0.05}) == {entry["path"]: ["contended"]}
    # 5 thousandths of the machine, everywhere
    assert len(verdicts(plan, {"foreign_cpu_share": 0.001})) > 1
    assert row(analyse(plan)[0]["timings"], entry)["verdict"] == "contended"
    made = analyse(plan, {"foreign_cpu_share": 0.2})
    assert row(made[0]["timings"], entry)["verdict"] == "clean"
    assert {tuple(cell["verdicts"]) for cell in made[1]["cells"]} == {("clean",)}


def test_without_a_witness_the_stored_verdict_stays(plan):
    entry = find(plan, "static", "B")
    old = {"verdict": ["cache_hit", "throttled"], "witness": None}
    synthetic.rewrite(entry["path"], metadata=lambda meta: meta.update(old))
    # what the rows say is judged from the rows
    assert verdicts(plan) == {entry["path"]: ["throttled"]}


def test_rows_tell_of_preemption_and_cache_hits(plan):
    one, two = find(plan, "vllm", "B"), find(plan, "vllm", "A", repeat=2)
    for entry, column in ((one, "preemptions"), (two, "cached_tokens")):
        synthetic.rewrite(
            entry["path"],
            rows=lambda rows, column=column: [*rows[:-1], rows[-1] | {column: 1}],
        )
    assert verdicts(plan) == {one["path"]: ["preempted"], two["path"]: ["cache_hit"]}


def test_preemption_where_memory_is_limited_on_purpose_is_no_verdict(plan):
    entry = find(plan, "vllm", "B")
    entry["spec"]["options"]["kv_tokens"] = 4096
    for key in ("path", "steps"):
        synthetic.rewrite(
            entry[key], metadata=lambda meta: meta["spec"]["options"].update(kv_tokens=4096)
        )
    synthetic.rewrite(entry["path"], rows=lambda rows: [r | {"preemptions": 1} for r in rows])
    assert verdicts(plan) == {}


def test_nulls_are_no_preemption(plan):
    entry = find(plan, "vllm", "B")
    nulls = {"preemptions": None, "cached_tokens": None}
    synthetic.rewrite(entry["path"], rows=lambda rows: [r | nulls for r in rows])
    assert verdicts(plan) == {}


def test_one_window_of_several_is_enough(tmp_path):
    plan = synthetic.write_timings(tmp_path, repeats=1, samples=2)
    see(plan[0], foreign_cpu_share=0.3, foreign_cpu_s=2.0)
    assert verdicts(plan) == {plan[0]["path"]: ["contended"]}
    table = analyse(plan)[0]["timings"]
    table = table[(table["engine"] == "static") & (table["workload"] == "A")]
    assert table["foreign_cpu_s"].iloc[0] == 2.0 > table["foreign_cpu_s"].iloc[1]
    assert table["verdict"].tolist() == ["contended"] * 2


def test_a_timing_of_another_session_than_most_of_its_repeat_is_mixed(plan):
    entry = find(plan, "static", "B", repeat=2)
    synthetic.remeasure(entry)
    assert verdicts(plan) == {entry["path"]: ["mixed_session"]}
    summary = analyse(plan)[1]
    (mixed,) = summary["trust"]["mixed_sessions"]
    block = [e["path"] for e in plan if e["repeat"] == 2]
    assert (mixed["repeat"], mixed["timings"]) == (2, [entry["path"]])
    assert mixed["again"] == "snakemake -j1 --use-conda --forcerun " + " ".join(block)
    assert any("several sessions: 2" in r for r in summary["publishable"]["reasons"])


def test_repeats_of_different_sessions_are_fine(plan):
    for entry in plan:
        if entry["repeat"] == 2:
            synthetic.remeasure(entry)
    made, summary = analyse(plan)
    assert made["timings"]["session"].nunique() == 2
    assert set(made["timings"]["verdict"]) == {"clean"}
    assert not made["ratios"]["crosses_sessions"].any()
    assert summary["trust"]["mixed_sessions"] == []


def test_a_set_that_is_measured_later_is_of_one_session_too(plan):
    later = [entry for entry in plan if entry["workload"] == "B"]
    for entry in later:
        entry["set"] = "dose"
        synthetic.remeasure(entry)
    assert verdicts(plan) == {}
    synthetic.remeasure(later[0], run="third")
    assert verdicts(plan) == {later[0]["path"]: ["mixed_session"]}
    (mixed,) = analyse(plan)[1]["trust"]["mixed_sessions"]
    assert (mixed["set"], mixed["repeat"]) == ("dose", later[0]["repeat"])
    again = [entry["path"] for entry in later if entry["repeat"] == later[0]["repeat"]]
    assert mixed["again"].split()[-len(again) - 1 :] == ["--forcerun", *again]


def test_of_equally_many_the_session_that_started_first_is_the_repeats(tmp_path):
    cells = [("static", "B", 16), ("vllm", "B", 16)]
    plan = synthetic.write_timings(tmp_path, repeats=1, cells=cells)
    synthetic.remeasure(plan[0], hours=-1, run="another")
    assert verdicts(plan) == {plan[1]["path"]: ["mixed_session"]}
    moments = [datetime(2026, 1, day, tzinfo=UTC) for day in (2, 1, 3, 4)]
    assert usual(["a", "b", "b", "a"], moments) == "b"
    assert usual(["a", "b", "a", None], moments) == "a"
    assert usual(["a", "b"], [None, moments[0]]) == "b"


@pytest.mark.parametrize("engine", ["static", "vllm"])
def test_the_quotient_crosses_sessions_if_its_uniform_ratio_does(plan, engine):
    synthetic.remeasure(find(plan, engine, "A", repeat=1))
    made = analyse(plan)[0]["ratios"]
    crossing = made[made["crosses_sessions"] & (made["name"] != "slots_ratio")]
    names = {("R_A", 1), ("Q", 1), ("loss_when_mixed", 1)}
    assert set(zip(crossing["name"], crossing["repeat"], strict=True)) == names


def test_ratios_that_cross_sessions_are_marked(plan):
    synthetic.remeasure(find(plan, "static", "B", repeat=2))
    made, summary = analyse(plan)
    crossing = made["ratios"][made["ratios"]["crosses_sessions"]]
    names = {"R_B", "Q", "loss_when_mixed", *(f"E2E_{length}" for length in (8, 16, 32, 128))}
    assert set(zip(crossing["name"], crossing["repeat"], strict=True)) == {(n, 2) for n in names}
    assert made["ratios"]["crosses_sessions"].dtype == bool
    marked = {name: entry["crosses_sessions"] for name, entry in summary["ratios"].items()}
    assert marked == {"R_A": [], "R_B": [2], "Q": [2], "slots_ratio": []}
    synthetic.remeasure(find(plan, "vllm", "A", slots=256, repeat=1))
    made = analyse(plan)[0]["ratios"]
    slots = made[(made["name"] == "slots_ratio") & made["crosses_sessions"]]
    assert slots["repeat"].tolist() == [1]


def test_a_stale_timing_is_shown_and_enters_no_figure(plan):
    entry = find(plan, "vllm", "B", repeat=2)
    before, _ = analyse(plan)
    entry["spec"]["options"]["enforce_eager"] = True
    made, summary = analyse(plan)

    shown = row(made["timings"], entry)
    assert (shown["verdict"], shown["stale_key"]) == ("stale_spec", "options.enforce_eager")
    assert shown["tok_s"] == row(before["timings"], entry)["tok_s"]
    keys = made["requests"].groupby(["engine", "workload", "slots", "repeat"])["stale_key"].first()
    assert keys["vllm", "B", 16, 2] == "options.enforce_eager"
    assert keys.notna().sum() == 1 and len(made["requests"]) == len(before["requests"])

    for name in ("throughput", "latency", "idle"):
        table = made[name]
        assert len(table) < len(before[name])
        assert table[(table["engine"] == "vllm") & (table["workload"] == "B")
                     & (table["slots"] == 16)]["repeat"].unique().tolist() == [1]  # fmt: skip
    n = {name: ratio["n"] for name, ratio in summary["ratios"].items()}
    assert n == {"R_A": 2, "R_B": 1, "Q": 1, "slots_ratio": 2}
    (stale,) = summary["trust"]["stale"]
    assert stale == {
        "timing": entry["path"],
        "what": "its spec differs at options.enforce_eager",
        "again": f"snakemake -j1 --use-conda --forcerun {entry['path']}",
    }
    assert "timings of another spec than today's: 1" in summary["publishable"]["reasons"]


def test_a_stale_timing_lends_the_kv_table_nothing(plan):
    for entry in (
        find(plan, "vllm", w, r_slots, r) for w in "AB" for r_slots in (16,) for r in (1, 2)
    ):
        entry["spec"]["max_model_len"] = 1024
    assert "vllm/16" not in analyse(plan)[1]["kv"]
    assert "vllm/256" in analyse(plan)[1]["kv"]


def test_a_stale_timing_has_no_say_in_its_repeats_session(tmp_path):
    cells = [("static", "B", 16), ("vllm", "A", 16), ("vllm", "B", 16)]
    plan = synthetic.write_timings(tmp_path, repeats=1, cells=cells)
    for entry in plan[:2]:
        entry["spec"]["seed"] = 2
    synthetic.remeasure(plan[2])
    assert verdicts(plan) == {entry["path"]: ["stale_spec"] for entry in plan[:2]}


def test_when_everything_is_stale_the_tables_are_empty_and_whole(plan):
    for entry in plan:
        entry["spec"]["seed"] = 2
    made, summary = analyse(plan)
    assert len(made["timings"]) == 12
    for name in ("throughput", "ratios", "latency", "idle"):
        assert len(made[name]) == 0, name
    assert len(summary["trust"]["stale"]) == 12
    assert summary["cells"] == [] and summary["ratios"]["Q"]["n"] == 0
    assert summary["measured"]["scale"] == "demo"


def test_another_host_or_version_is_named(plan):
    host, version = find(plan, "static", "A"), find(plan, "vllm", "B", repeat=2)
    synthetic.rewrite(host["path"], metadata=lambda m: m["provenance"].update(host="other"))
    newer = {"torch": "2.11.0", "vllm": "0.25.0"}
    synthetic.rewrite(version["path"], metadata=lambda m: m["provenance"].update(versions=newer))
    summary = analyse(plan)[1]
    named = {each["timing"]: each["what"] for each in summary["trust"]["elsewhere"]}
    assert named == {
        host["path"]: "its host is other, not synthetic",
        version["path"]: "its version of vllm is 0.25.0, not 0.24.0",
    }
    for path, what in named.items():
        assert f"{path}: {what}" in summary["publishable"]["reasons"]


def test_engines_that_nothing_links_may_be_of_different_hosts(plan):
    for entry in plan:
        entry["baseline"] = None
        if entry["engine"] == "static":
            for key in ("path", "steps"):
                synthetic.rewrite(
                    entry[key], metadata=lambda m: m["provenance"].update(host="other")
                )
    assert analyse(plan)[1]["trust"]["elsewhere"] == []


def test_what_the_witness_saw_stands_in_the_table(plan):
    gpu = {
        "sm_clock_mhz_min": 1200,
        "sm_clock_mhz_max": 1980,
        "temperature_c_max": 61,
        "power_w_max": 512.5,
        "throttled": ["hardware slowdown", "hardware power brake"],
        "clock_reasons": 0x88,
        "foreign_processes": 1,
        "error": None,
    }
    entry = find(plan, "vllm", "B")
    see(entry, gpu=gpu, foreign_cpu_s=0.25, run_queue_max=3, pressure_s=None, cost_s=0.004)
    table = analyse(plan)[0]["timings"]
    found = row(table, entry)
    assert {key: found[key] for key in (
        "foreign_cpu_s", "run_queue_max", "witness_cost_s", "sm_clock_mhz_min", "power_w_max",
        "throttled", "foreign_gpu_processes", "involuntary_switches", "python_mloops_before",
        "python_mloops_after", "matmul_gflops_before", "matmul_gflops_after", "reason", "verdict",
    )} == {
        "foreign_cpu_s": 0.25, "run_queue_max": 3, "witness_cost_s": 0.004,
        "sm_clock_mhz_min": 1200, "power_w_max": 512.5,
        "throttled": "hardware slowdown; hardware power brake", "foreign_gpu_processes": 1,
        "involuntary_switches": 17, "python_mloops_before": 24.0, "python_mloops_after": 23.9,
        "matmul_gflops_before": 61.0, "matmul_gflops_after": 60.8, "reason": "first attempt",
        "verdict": "contended,throttled",
    }  # fmt: skip
    # null, not 0, where nothing told
    assert math.isnan(found["pressure_s"])
    other = row(table, find(plan, "vllm", "A"))
    for column in ("sm_clock_mhz_max", "temperature_c_max", "throttled", "quota_stops"):
        assert pd.isna(other[column]), column


@pytest.mark.parametrize(
    ("gpu", "says"),
    [
        ({"throttled": [], "clock_reasons": 1, "error": None}, "no"),
        ({"throttled": [], "clock_reasons": 4, "error": "no power reading"}, "no"),
        ({"throttled": [], "clock_reasons": 0, "error": "driver not loaded"}, None),
    ],
)
def test_an_error_of_the_driver_is_not_told_as_no_throttling(plan, gpu, says):
    see(plan[0], gpu=gpu)
    told = row(analyse(plan)[0]["timings"], plan[0])["throttled"]
    assert told == says if says else pd.isna(told)


def test_without_witness_and_calibration_every_figure_is_null(plan):
    for entry in plan:
        synthetic.rewrite(
            entry["path"], metadata=lambda m: m.update(witness=None, calibration=None, reason=None)
        )
    table = analyse(plan)[0]["timings"]
    columns = ["foreign_cpu_s", "involuntary_switches", "witness_cost_s", "throttled",
               "python_mloops_before", "matmul_gflops_after", "reason"]  # fmt: skip
    assert table[columns].isna().all(axis=None)
    before = analyse(synthetic.write_timings(plan[0]["path"] + ".more", repeats=1))[0]["timings"]
    assert (table.dtypes == before.dtypes).all()


def test_missing_sources_are_told_once_with_their_reason(plan):
    see(plan[0], pressure_s=None, missing={"pressure_s": "the kernel has no /proc/pressure/cpu"})
    told = analyse(plan)[1]["trust"]["missing_sources"]
    assert {each["source"]: each["timings"] for each in told} == {
        "frequency_mhz_min": 11, "gpu": 11, "quota_stops": 11, "pressure_s": 1
    }  # fmt: skip
    (one,) = [each for each in told if each["source"] == "pressure_s"]
    assert one["reason"] == "the kernel has no /proc/pressure/cpu"
