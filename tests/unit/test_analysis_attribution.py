"""Which part of the gain comes from which idea, and what single options are worth."""

import json
import math

import pandas as pd
import pytest
import synthetic
import tables
from hypothesis import given, settings
from hypothesis import strategies as st

from fourcells.analysis.ablations import ablations_table
from fourcells.analysis.attribution import attribution_table
from fourcells.analysis.load import PLAN_COLUMNS, Timings, load
from fourcells.analysis.stats import geometric_mean, t_interval
from fourcells.analysis.throughput import throughput_table

ENGINES = synthetic.ENGINES | {
    "vllm_again": {"backend": "vllm", "options": {}, "baseline": None},
    "another_wave": {"backend": "vllm", "options": {"admission": "wave"}, "baseline": None},
}
MEMBERS = (
    *("static", "torch_wave", "torch_continuous", "static_compiled"),
    *("vllm", "vllm_padded", "vllm_wave"),
)
PATHS = {
    "engine_first": ["engine", "early_exit", "refill"],
    "scheduling_first": ["early_exit", "refill", "engine"],
    "compiled_first": ["compile", "engine", "early_exit", "refill"],
    "total": ["total"],
    "between": ["scheduling_engine_first", "scheduling_scheduling_first", "interaction"],
    "estimate": ["quotient", "scheduling", "off"],
}
PRODUCTS = ("engine_first", "scheduling_first", "compiled_first")


def timings(cells, engines=ENGINES, repeats=(1,)):
    """Timings without requests, of (engine, workload, slots) in every repeat."""
    plan, metadata = [], []
    for engine, workload, slots in cells:
        for repeat in repeats:
            kind = engines[engine]
            admission = kind["options"].get("admission", "continuous")
            row = {"engine": engine, "workload": workload, "slots": slots, "repeat": repeat}
            row |= {"backend": kind["backend"], "admission": admission, "path": "none"}
            row |= {"baseline": kind["baseline"], "compare_with": "A" if workload == "B" else None}
            plan.append(row)
            spec = synthetic.make_spec(engine, workload, slots, repeat, {}, engines)
            metadata.append({"spec": spec, "applied": {"admission": admission, **spec["options"]}})
    frame = pd.DataFrame(plan)[PLAN_COLUMNS].astype({"baseline": "str", "compare_with": "str"})
    return Timings(frame, pd.DataFrame(), pd.DataFrame(), metadata, [None] * len(plan), [])


def rates(found, values):
    """Throughputs in the order of the plan; `values` by (engine, workload) or one for each row."""
    frame = found.plan[["engine", "workload", "slots", "repeat"]].copy()
    keys = zip(frame["engine"], frame["workload"], strict=True)
    frame["tok_s"] = [values[k] for k in keys] if isinstance(values, dict) else list(values)
    return frame


def attribute(cells, values, predicted_s=None, **more):
    found = timings(cells, **more)
    return attribution_table(found, rates(found, values), predicted_s or {})


def factors(table, path, **wanted):
    """Factor -> its rows' values by repeat."""
    rows = table[table["path"] == path]
    for column, value in wanted.items():
        rows = rows[rows[column] == value]
    return {
        factor: dict(zip(part["repeat"], part["value"], strict=True))
        for factor, part in rows.groupby("factor", sort=False)
    }


def both(members):
    return [(engine, workload, 16) for engine in members for workload in ("A", "B")]


RATE = {
    **{("static", w): r for w, r in (("A", 800.0), ("B", 300.0))},
    **{("torch_wave", w): r for w, r in (("A", 800.0), ("B", 320.0))},
    **{("torch_continuous", w): r for w, r in (("A", 810.0), ("B", 560.0))},
    **{("static_compiled", w): r for w, r in (("A", 1100.0), ("B", 400.0))},
    **{("vllm", w): r for w, r in (("A", 1200.0), ("B", 900.0))},
    **{("vllm_padded", w): r for w, r in (("A", 1200.0), ("B", 440.0))},
    **{("vllm_wave", w): r for w, r in (("A", 1190.0), ("B", 480.0))},
}


def test_every_path_by_hand():
    table = attribute(both(MEMBERS), RATE)
    on_b = table[(table["workload"] == "B") & (table["engine"] == "vllm")]
    assert {p: list(factors(on_b, p)) for p in PATHS} == PATHS
    known = {
        "engine_first": [440 / 300, 480 / 440, 900 / 480],
        "scheduling_first": [320 / 300, 560 / 320, 900 / 560],
        "compiled_first": [400 / 300, 440 / 400, 480 / 440, 900 / 480],
        "total": [3.0],
        "between": [900 / 440, 560 / 300, (900 / 440) / (560 / 300)],
        "estimate": [3.0 / 1.5, 900 / 440, 2.0 / (900 / 440)],
    }
    for path, values in known.items():
        assert [v[1] for v in factors(on_b, path).values()] == pytest.approx(values), path
    assert on_b.groupby("path")["place"].apply(list)["compiled_first"] == [0, 1, 2, 3]
    names = on_b.set_index(["path", "factor"])[["above", "below"]]
    assert names.loc[("engine_first", "early_exit")].tolist() == ["vllm_wave", "vllm_padded"]
    assert names.loc[("estimate", "quotient")].tolist() == [
        "vllm, static on A",
        "static, vllm on A",
    ]
    # A is compared with no other workload, and nothing else is missing there
    assert set(table[table["workload"] == "A"]["path"]) == set(PATHS) - {"estimate"}


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_factors_multiply_to_the_total_in_every_repeat(data):
    cells = both(MEMBERS)
    positive = st.floats(1e-3, 1e6)
    values = data.draw(st.lists(positive, min_size=3 * len(cells), max_size=3 * len(cells)))
    table = attribute(cells, values, repeats=(1, 2, 3))
    for engine in ("vllm", "torch_continuous"):
        for workload in ("A", "B"):
            where = {"engine": engine, "workload": workload}
            total = factors(table, "total", **where)["total"]
            # nothing is compiled over the loop's own continuous admission
            paths = [p for p in PRODUCTS if factors(table, p, **where)]
            assert len(paths) == (3 if engine == "vllm" else 2)
            for path in paths:
                chain = factors(table, path, **where)
                for repeat in (1, 2, 3):
                    product = math.prod(series[repeat] for series in chain.values())
                    assert product == pytest.approx(total[repeat], rel=1e-9)
            between = factors(table, "between", **where)
            first, other, interaction = (between[factor][2] for factor in PATHS["between"])
            assert first == pytest.approx(other * interaction, rel=1e-9)
    quotient, scheduling, off = (
        factors(table, "estimate", engine="vllm")[factor][3] for factor in PATHS["estimate"]
    )
    assert quotient == pytest.approx(scheduling * off, rel=1e-9)


def test_pooled_are_the_repeats_and_one_has_no_interval():
    values = [float(v) for v in range(100, 100 + 3 * 2 * len(MEMBERS))]
    table = attribute(both(MEMBERS), values, repeats=(1, 2, 3))
    for _, rows in table.groupby(["engine", "workload", "path", "factor"]):
        assert rows["n"].tolist() == [3, 3, 3]
        assert rows["estimate"].iloc[0] == pytest.approx(geometric_mean(rows["value"].tolist()))
        low, high = t_interval(rows["value"].tolist())
        assert (rows["low"].iloc[2], rows["high"].iloc[2]) == pytest.approx((low, high))
    once = attribute(both(MEMBERS), RATE)
    assert once["low"].isna().all() and once["high"].isna().all()
    assert once["estimate"].tolist() == pytest.approx(once["value"].tolist())


@pytest.mark.parametrize(
    ("absent", "gone"),
    [
        ("vllm_padded", {"engine_first", "compiled_first", "between", "estimate"}),
        ("vllm_wave", {"engine_first", "compiled_first"}),
        ("torch_wave", {"scheduling_first"}),
        ("torch_continuous", {"scheduling_first", "between"}),
        ("static_compiled", {"compiled_first"}),
        ("static", set(PATHS)),
    ],
)
def test_a_missing_member_removes_the_paths_that_need_it(absent, gone):
    table = attribute(both(m for m in MEMBERS if m != absent), RATE)
    found = table[(table["workload"] == "B") & (table["engine"] == "vllm")]
    assert set(found["path"]) == set(PATHS) - gone


def test_a_missing_timing_removes_its_repeat_from_the_paths_that_need_it():
    found = timings(both(MEMBERS), repeats=(1, 2))
    throughput = rates(found, RATE)
    gone = (throughput["engine"] == "vllm_wave") & (throughput["repeat"] == 2)
    table = attribution_table(found, throughput[~gone], {})
    n = table[table["engine"] == "vllm"].groupby("path")["repeat"].unique().map(list)
    assert n["engine_first"] == n["compiled_first"] == [1]
    assert n["total"] == n["scheduling_first"] == n["between"] == [1, 2]


def test_names_say_nothing():
    """The same engines under other names, and in another order, give the same factors."""
    other = dict(zip(MEMBERS, ["z", "wave", "b", "vllm", "a", "continuous", "padded"], strict=True))
    engines = {
        other[name]: kind | {"baseline": other.get(kind["baseline"])}
        for name, kind in synthetic.ENGINES.items()
        if name in other
    }
    renamed = {(other[engine], workload): rate for (engine, workload), rate in RATE.items()}
    table = attribute(both(reversed(engines)), renamed, engines=engines)
    expected = attribute(both(MEMBERS), RATE)
    for path in PATHS:
        assert factors(table, path, engine="a", workload="B") == factors(
            expected, path, engine="vllm", workload="B"
        )


def test_twins_are_not_confused_with_the_pair():
    """Engines that do the same under another name come before the pair in the alphabet."""
    twins = {"aaa": ENGINES["vllm"] | {"baseline": None}, "aab": ENGINES["static"]}
    rate = RATE | {("aaa", w): 1.0 for w in "AB"} | {("aab", w): 1.0 for w in "AB"}
    table = attribute(both((*MEMBERS, *twins)), rate, engines=ENGINES | twins)
    expected = attribute(both(MEMBERS), RATE)
    pd.testing.assert_frame_equal(table, expected)


def test_of_two_members_the_first_by_name_counts():
    rate = RATE | {("another_wave", w): 470.0 for w in "AB"}
    table = attribute(both((*MEMBERS, "another_wave")), rate)
    refill = factors(table, "engine_first", engine="vllm", workload="B")["refill"]
    assert refill == {1: pytest.approx(900 / 470)}


def test_within_one_machine_group_the_engine_is_one():
    table = attribute(both(MEMBERS), RATE)
    found = factors(table, "engine_first", engine="torch_continuous", workload="B")
    assert found == {
        "engine": {1: 1.0},
        "early_exit": {1: pytest.approx(320 / 300)},
        "refill": {1: pytest.approx(560 / 320)},
    }


def test_another_admission_than_continuous_has_a_total_alone():
    table = attribute(both(("static", "torch_wave", "torch_continuous")), RATE)
    assert set(table[table["engine"] == "torch_wave"]["path"]) == {"total"}


def test_threads_make_another_machine():
    """An engine with other threads is no member of the group."""
    found = timings(both(MEMBERS))
    for meta in found.metadata:
        if meta["spec"]["engine"] == "vllm_padded":
            meta["spec"]["threads"] = 2
    table = attribution_table(found, rates(found, RATE), {})
    paths = set(table[table["engine"] == "vllm"]["path"])
    assert "engine_first" not in paths and "scheduling_first" in paths


# ---- theory


def theory(a_over_c):
    """Early exit and refill of B at 16 slots: 2048 steps of a batch, 1056 of continuous admission,
    11776 tokens."""
    a, c, tokens = a_over_c, 1.0, 64 * 184
    padded, wave, continuous = (2048 * (a + 16 * c), 2048 * a + c * tokens, 1056 * a + c * tokens)
    return padded / wave, wave / continuous


@pytest.mark.parametrize(
    ("a_over_c", "early_exit", "refill"), [(1, 2.52, 1.08), (16, 1.47, 1.55), (117, 1.08, 1.86)]
)
def test_a_machine_of_known_step_times(tmp_path, a_over_c, early_exit, refill):
    members = ("static", "vllm", "vllm_padded", "vllm_wave")
    times = dict.fromkeys(members, (a_over_c * 1e-4, 1e-4))
    plan = synthetic.write_timings(
        tmp_path,
        repeats=1,
        cells=[(engine, "B", 16) for engine in members],
        workloads=synthetic.LESSON,
        step_times=times | {"static": (a_over_c * 3e-4, 3e-4)},
        max_model_len=2048,
    )
    found = load(plan)
    throughput = throughput_table(found)
    windows = {("vllm_wave", "B", 16): 3.0, ("vllm", "B", 16): 2.0, ("static", "B", 16): 9.0}
    table = attribution_table(found, throughput, windows)
    chain = factors(table, "engine_first")
    # one engine is three times as fast as the other, step by step
    assert chain["engine"][1] == pytest.approx(3.0)
    exact = theory(a_over_c)
    assert (chain["early_exit"][1], chain["refill"][1]) == pytest.approx(exact)
    assert (round(exact[0], 2), round(exact[1], 2)) == (early_exit, refill)
    predicted = table.set_index(["path", "factor"])["predicted"].dropna()
    # only where both windows are known, and never between machine groups
    assert predicted.to_dict() == {("engine_first", "refill"): 1.5}


# ---- the summary


def summarised(folder, members, repeats=2):
    plan = synthetic.write_timings(folder, repeats, noise=0.05, cells=both(members))
    made, summary = tables.make_tables(load(plan), plan)
    # it is JSON without NaN
    return made, json.loads(json.dumps(summary, allow_nan=False))


def test_the_summary_has_both_paths_of_the_main_pair(tmp_path):
    made, summary = summarised(tmp_path, MEMBERS)
    found, table = summary["attribution"], made["attribution"]
    assert found["pair"] == {"engine": "vllm", "baseline": "static", "slots": 16}
    assert found["workload"] == "B"
    rows = table[(table["engine"] == "vllm") & (table["workload"] == "B")]
    for path in PRODUCTS:
        assert [f["factor"] for f in found["paths"][path]] == PATHS[path]
        for factor in found["paths"][path]:
            mine = rows[(rows["path"] == path) & (rows["factor"] == factor["factor"])]
            assert factor["per_repeat"] == dict(zip(("1", "2"), mine["value"], strict=True))
            assert [factor[k] for k in ("estimate", "low", "high", "n")] == (
                mine[["estimate", "low", "high", "n"]].iloc[0].tolist()
            )
    headline = [found[name] for name in PATHS["engine_first"]]
    assert headline == found["paths"]["engine_first"]
    product = math.prod(factor["estimate"] for factor in headline)
    assert product == pytest.approx(found["total"]["estimate"])
    assert product == pytest.approx(summary["ratios"]["R_B"]["estimate"])
    assert list(found["between"]) == PATHS["between"]
    assert found["interaction"] == found["between"]["interaction"]
    assert list(found["estimate"]) == PATHS["estimate"]
    quotient = found["estimate"]["quotient"]["estimate"]
    assert quotient == pytest.approx(summary["ratios"]["Q"]["estimate"])


def test_what_was_not_measured_is_null_in_the_summary(tmp_path):
    found = summarised(tmp_path, ("static", "vllm"))[1]["attribution"]
    nothing = {"estimate": None, "low": None, "high": None, "n": 0}
    assert [found[name] for name in PATHS["engine_first"]] == [nothing] * 3
    assert found["interaction"] == nothing and found["total"]["n"] == 2
    assert found["paths"] == {path: [] for path in PRODUCTS}
    assert found["estimate"] == found["between"] == {}
    alone = summarised(tmp_path / "alone", ("static",))[1]["attribution"]
    assert alone["total"] == nothing
    assert alone["pair"] == {"engine": None, "baseline": None, "slots": None}


def test_the_step_models_of_the_summary(tmp_path):
    """Without noise the model predicts the mixed workload to the last digit."""
    cells = [*both(("static", "torch_continuous", "vllm")), ("torch_continuous", "A", 4)]
    cells.append(("torch_continuous", "B", 64))
    plan = synthetic.write_timings(tmp_path, repeats=1, cells=cells)
    made, summary = tables.make_tables(load(plan), plan)
    loop, vllm = summary["step_model"]
    assert set(loop["engines"]) == {"static", "torch_continuous"} and vllm["engines"] == ["vllm"]
    assert (loop["a"], loop["c"]) == pytest.approx(synthetic.STEP_TIMES["static"])
    assert loop["a_over_c"] == pytest.approx(16.6e-3 / 124e-6)
    rates = made["throughput"].query("engine == 'torch_continuous' and workload == 'B'")
    # of the fewest slots
    (rate,) = rates[rates["slots"] == 16]["tok_s"]
    assert loop["predicted"] == pytest.approx(loop["measured"]) == rate
    assert loop["residual"] == pytest.approx(0.0, abs=1e-9)
    assert {(c["engine"], c["workload"], c["slots"]) for c in loop["cells"]} == {
        cell for cell in cells if cell[0] != "vllm"
    }
    # one number of rows on A: the model cannot tell what fewer rows cost
    assert vllm["c"] is vllm["predicted"] is vllm["residual"] is None
    assert vllm["rows_known"] == 16 and vllm["measured"] > 0
    # what the model predicts of a pair is known for one machine group only
    table = made["attribution"].query("path == 'total' and workload == 'B'").set_index("engine")
    loops, other = table.loc["torch_continuous"], table.loc["vllm"]
    assert loops["predicted"] == pytest.approx(loops["value"]) and math.isnan(other["predicted"])


# ---- ablations


def ablate(kinds, rate, repeats=(1,), applied=None):
    engines = {
        name: {"backend": "vllm", "options": options, "baseline": baseline}
        for name, (options, baseline) in kinds.items()
    }
    found = timings([(name, "B", 16) for name in engines], engines, repeats)
    for meta in found.metadata:
        meta["applied"].update((applied or {}).get(meta["spec"]["engine"], {}))
    return ablations_table(found, rates(found, rate))


def test_an_ablation_is_found_by_the_one_option_that_differs():
    kinds = {
        "vllm": ({"enforce_eager": False}, "static"),
        "eager": ({"enforce_eager": True}, None),
        "sync": ({"enforce_eager": False, "async_scheduling": False}, None),
        "wave": ({"enforce_eager": True, "admission": "wave"}, None),
        "wave_sync": ({"enforce_eager": False, "admission": "wave"}, None),
    }
    rate = {"vllm": 100.0, "eager": 20.0, "sync": 80.0, "wave": 10.0, "wave_sync": 40.0}
    table = ablate(
        kinds,
        {(name, "B"): value for name, value in rate.items()},
        applied={"vllm": {"async_scheduling": True}},
    )
    columns = ["engine", "reference", "option", "value", "reference_value", "estimate"]
    assert sorted(table[columns].itertuples(index=False, name=None)) == [
        ("eager", "vllm", "enforce_eager", "true", "false", pytest.approx(0.2)),
        ("sync", "vllm", "async_scheduling", "false", "true", pytest.approx(0.8)),
        # without a baseline the first name is the reference
        ("wave_sync", "wave", "enforce_eager", "false", "true", pytest.approx(4.0)),
    ]


def test_an_option_that_nobody_reports_is_null():
    kinds = {"a": ({}, None), "b": ({"block_size": 32}, None)}
    table = ablate(kinds, {("a", "B"): 1.0, ("b", "B"): 2.0})
    assert table["value"].tolist() == ["32"] and table["reference_value"].isna().all()


def test_twins_make_no_second_ablation():
    kinds = {"vllm": ({}, "static"), "again": ({}, None)}
    kinds |= {"sync": ({"async_scheduling": False}, None)}
    table = ablate(kinds, {(name, "B"): 1.0 for name in kinds})
    assert table[["engine", "reference"]].values.tolist() == [["sync", "vllm"]]


def test_graphs_that_have_to_follow_the_compilation_are_one_ablation():
    kinds = {
        "vllm": ({}, "static"),
        "graphs": ({"compilation": "NONE", "graphs": "FULL_DECODE_ONLY"}, None),
        "neither": ({"block_size": 32, "async_scheduling": False}, None),
    }
    reported = {"vllm": {"compilation": "VLLM_COMPILE", "graphs": "FULL_AND_PIECEWISE"}}
    table = ablate(kinds, {(name, "B"): 1.0 for name in kinds}, applied=reported)
    assert table[["engine", "option", "value", "reference_value"]].values.tolist() == [
        [
            *("graphs", "compilation, graphs"),
            *("NONE, FULL_DECODE_ONLY", "VLLM_COMPILE, FULL_AND_PIECEWISE"),
        ]
    ]


def test_ablations_are_paired_by_repeat():
    kinds = {"a": ({}, None), "b": ({"block_size": 32}, None)}
    # repeats 1 to 3 of a, then of b
    table = ablate(kinds, [100.0, 200.0, 400.0, 50.0, 110.0, 160.0], repeats=(1, 2, 3))
    (row,) = table.to_dict("records")
    values = [0.5, 0.55, 0.4]
    assert row["estimate"] == pytest.approx(geometric_mean(values))
    assert (row["low"], row["high"]) == pytest.approx(t_interval(values))
    assert (row["min"], row["max"], row["n"]) == (pytest.approx(0.4), pytest.approx(0.55), 3)


def test_without_a_pair_the_tables_are_empty_and_whole():
    found = timings([("static", "B", 16)])
    throughput = rates(found, [1.0])
    for table in (attribution_table(found, throughput, {}), ablations_table(found, throughput)):
        assert len(table) == 0 and str(table["estimate"].dtype) == "float64"
