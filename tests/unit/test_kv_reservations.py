"""Tables of a limited KV cache: by hand, and on steps that the simulator of memory makes."""

import math

import numpy as np
import pandas as pd
import pytest
import synthetic
import tables

from fourcells.analysis.kv_simulator import serve
from fourcells.analysis.load import Timings, load
from fourcells.analysis.reservation_timeline import POINTS, reservation_timeline_table
from fourcells.analysis.reservation_waits import reservation_waits_table
from fourcells.analysis.reservations import ONE_BLOCK, reservations_table
from fourcells.schedule import least_tokens

USABLE, LONGEST, SLOTS, PROMPT = 1024, 128, 64, 8
OUTPUTS = [2, 4, 8, 32]
REQUESTS = {"count": 48, "prompt_tokens": [PROMPT], "output_tokens": OUTPUTS, "order": "cyclic"}
PAIRS = [(PROMPT, OUTPUTS[i % 4]) for i in range(48)]
STEP = 0.5  # seconds


def engine(reservation="on_demand", size=4, **options):
    return {"reservation": reservation, "block_size": size, "kv_tokens": USABLE} | options


ENGINES = {
    "kv_exact": engine("exact"),
    "kv_max": engine("max"),
    "kv_max_64": engine("max", reserve_tokens=64),
    "kv_on_demand": engine(),
    "kv_one_block": engine(size=LONGEST),
    "kv_pow2": engine("pow2"),
}


def meta(name, options, **applied):
    spec = {
        "engine": name, "backend": "vllm", "options": options, "workload": "B4", "slots": SLOTS,
        "requests": REQUESTS, "seed": 1, "samples": 1, "max_model_len": LONGEST,
    }  # fmt: skip
    given = {"max_model_len": LONGEST, "admission": "continuous", **options}
    if options.get("reservation") == "max":
        given.setdefault("reserve_tokens", LONGEST)
    return {"spec": spec, "applied": given | applied, "provenance": {}}


def steps_of(options, usable):
    """Columns of the steps that the options lead to."""
    size = options.get("block_size", 1)
    name = options.get("reservation", "on_demand")
    longest = options.get("reserve_tokens", LONGEST)
    least = [least_tokens(name, *pair, longest) for pair in PAIRS]
    steps = serve(PAIRS, least, slots=SLOTS, blocks=usable // size, block_size=size)
    return pd.DataFrame(
        {
            "sample": 1,
            "step": range(len(steps)),
            "t_s": [STEP * k for k in range(len(steps))],
            "rows": [s.rows for s in steps],
            "tokens": [s.tokens for s in steps],
            "kv_used": [s.blocks * size / usable for s in steps],
            "kv_tokens": pd.array([s.held for s in steps], dtype="Int64"),
            "preempted": [s.preempted for s in steps],
        }
    )


def requests_of(steps):
    return pd.DataFrame(
        {
            "sample": 1,
            "request": range(len(PAIRS)),
            "prompt_tokens": PROMPT,
            "output_tokens": [n for _, n in PAIRS],
            "produced_tokens": [n for _, n in PAIRS],
            "arrival_s": 0.0,
            "admitted_s": [0.1 * k for k in range(len(PAIRS))],
            "returned_s": STEP * len(steps),
        }
    )


def timings(engines, repeats=1, usable=USABLE, change=None, **applied):
    """Timings of engines by name; `change` has the last word on the steps of each."""
    plan, metadata, requests, steps = [], [], [], []
    for name, options in engines.items():
        for repeat in range(1, repeats + 1):
            own = steps_of(options, usable)
            asked = requests_of(own)
            plan.append((name, "B4", SLOTS, repeat, "vllm", "continuous", None, None, ""))
            metadata.append(meta(name, options, **applied))
            steps.append((change(own) if change else own).assign(timing=len(plan) - 1))
            requests.append(asked.assign(timing=len(plan) - 1))
    columns = [
        *("engine", "workload", "slots", "repeat", "backend"),
        *("admission", "baseline", "compare_with", "path"),
    ]
    return Timings(
        plan=pd.DataFrame(plan, columns=columns),
        requests=pd.concat(requests, ignore_index=True),
        steps=pd.concat(steps, ignore_index=True),
        metadata=metadata,
        stale=[None] * len(plan),
        missing=[],
    )


def throughput(made, rates=None):
    """Tokens per second of each engine and repeat; by default 100 x repeat."""
    table = made.plan[["engine", "workload", "slots", "repeat"]].copy()
    table["tok_s"] = [
        rates[e][r - 1] if rates else 100.0 * r
        for e, r in zip(table["engine"], table["repeat"], strict=True)
    ]
    return table


def reservations(made, rates=None):
    return reservations_table(made, throughput(made, rates))


@pytest.fixture(scope="module")
def table():
    return reservations(timings(ENGINES)).set_index("engine")


# ---- who is told of


def test_engines_without_a_limit_have_no_row():
    made = timings({"vllm": {"block_size": 4}, "kv_max": ENGINES["kv_max"]})
    assert reservations(made)["engine"].tolist() == ["kv_max"]
    assert set(reservation_waits_table(made)["engine"]) == {"kv_max"}
    assert set(reservation_timeline_table(made)["engine"]) == {"kv_max"}


def test_nothing_limited_leaves_empty_tables_with_types():
    made = timings({"vllm": {"block_size": 4}})
    empty = reservations(made), reservation_waits_table(made), reservation_timeline_table(made)
    assert [len(t) for t in empty] == [0, 0, 0]
    assert all(t["slots"].dtype == "int64" for t in empty)
    assert empty[0]["ratio_to_max"].dtype == "float64"


def test_names_and_sizes(table):
    assert table["reservation"].to_dict() == {
        "kv_exact": "exact",
        "kv_max": "max",
        "kv_max_64": "max",
        "kv_on_demand": "on_demand",
        "kv_one_block": ONE_BLOCK,
        "kv_pow2": "pow2",
    }
    assert set(table["usable_tokens"]) == {USABLE}
    reserved = table["reserve_tokens"].dropna().to_dict()
    assert reserved == {"kv_max": LONGEST, "kv_max_64": 64, "kv_one_block": LONGEST}


# ---- rows, steps and memory


def test_memory_by_hand():
    """Four steps of 1, 1, 2 and 1 s."""
    by_hand = {
        "t_s": [0.0, 1.0, 2.0, 4.0],
        "rows": [2, 3, 1, 2],
        "kv_used": [0.5, 1.0, 1.0, 0.25],
        "kv_tokens": pd.array([128, 256, 512, 64], dtype="Int64"),
        "preempted": [0, 0, 2, 1],
    }
    made = timings(
        {"kv_on_demand": ENGINES["kv_on_demand"]},
        change=lambda steps: steps.iloc[:4].assign(**by_hand),
    )
    made.requests["returned_s"] = 5.0
    row = reservations(made).iloc[0]
    assert row["reserved_mean"] == pytest.approx((0.5 + 1 + 2 * 1 + 0.25) / 5)
    assert row["held_mean"] == pytest.approx((128 + 256 + 2 * 512 + 64) / 5 / USABLE)
    assert row["used_of_reserved"] == pytest.approx(1472 / 1024 / 3.75)
    assert (row["rows_max"], row["rows_mean"], row["steps"], row["preemptions"]) == (3, 2, 4, 3)
    assert row["rows_mean_time"] == pytest.approx((2 + 3 + 2 * 1 + 2) / 5)


def test_the_rows_follow_the_reservation(table):
    assert table.loc["kv_max", "rows_max"] == USABLE // LONGEST
    assert table.loc["kv_max_64", "rows_max"] == USABLE // 64
    # both take the same memory, one by a rule and one by its blocks
    both = ["rows_max", "rows_mean", "steps", "reserved_mean", "held_mean"]
    assert table.loc["kv_max", both].tolist() == table.loc["kv_one_block", both].tolist()
    order = ["kv_on_demand", "kv_exact", "kv_pow2", "kv_max"]
    for column, upward in (("rows_mean", False), ("steps", True), ("used_of_reserved", False)):
        values = table.loc[order, column].tolist()
        assert values == sorted(values, reverse=not upward)
    mean = sum(n for _, n in PAIRS) / table["steps"].astype(float)
    assert table["rows_mean"].to_dict() == pytest.approx(mean.to_dict())


def test_recomputed_tokens_are_those_beyond_once_each():
    # 12 blocks of 4 tokens: the four that enter together outgrow them
    options = engine(kv_tokens=48)
    row = reservations(timings({"kv_on_demand": options}, usable=48)).iloc[0]
    steps = steps_of(options, 48)
    assert row["preemptions"] == steps["preempted"].sum() > 0
    once = sum(p + n - 1 for p, n in PAIRS)
    assert row["recomputed_tokens"] == steps["tokens"].sum() - once > 0


def test_nobody_preempted_computes_nothing_again(table):
    assert table["preemptions"].tolist() == [0] * len(ENGINES)
    assert table["recomputed_tokens"].tolist() == [0] * len(ENGINES)


def test_steps_of_several_samples_add_up():
    def twice(steps):
        return pd.concat([steps, steps.assign(sample=2)], ignore_index=True)

    one = reservations(timings({"kv_max": ENGINES["kv_max"]})).iloc[0]
    made = timings({"kv_max": ENGINES["kv_max"]}, change=twice)
    more = pd.concat([made.requests, made.requests.assign(sample=2)], ignore_index=True)
    made = Timings(made.plan, more, made.steps, made.metadata, made.stale, [])
    made.metadata[0]["spec"]["samples"] = 2
    two = reservations(made).iloc[0]
    assert two["steps"] == 2 * one["steps"] == two["steps_computed"]
    same = [
        "rows_max",
        "rows_mean",
        "rows_mean_time",
        "reserved_mean",
        "held_mean",
        "recomputed_tokens",
    ]
    assert two[same].tolist() == pytest.approx(one[same].tolist())


def test_without_steps_or_counts_of_tokens_there_are_nulls():
    options = {"kv_exact": ENGINES["kv_exact"]}
    row = reservations(timings(options, change=lambda steps: steps.iloc[:0])).iloc[0]
    nothing = ["rows_max", "rows_mean_time", "steps", "reserved_mean", "held_mean", "preemptions"]
    assert row[nothing].isna().all()
    assert row["tok_s"] == 100 and row["steps_computed"] > 0
    older = timings(
        options, change=lambda s: s.assign(kv_tokens=pd.array([pd.NA] * len(s), "Int64"))
    )
    row = reservations(older).iloc[0]
    assert row["reserved_mean"] > 0
    assert row[["held_mean", "used_of_reserved"]].isna().all()
    assert len(reservation_timeline_table(older)) > 0


# ---- computed beforehand


def test_computed_steps_are_the_simulators(table):
    assert table["steps_computed"].tolist() == table["steps"].tolist()


def test_computed_rows_by_hand(table):
    # 46 steps per four requests: 2 of 10 tokens, 4 of 12, 8 of 16 and 32 of 40, in blocks of 4
    taken = (2 * 12 + 4 * 12 + 8 * 16 + 32 * 40) / 46
    assert table.loc["kv_exact", "rows_computed"] == pytest.approx(USABLE / taken)
    assert table.loc["kv_max", "rows_computed"] == USABLE / LONGEST
    assert table.loc["kv_one_block", "rows_computed"] == USABLE / LONGEST
    assert table.loc["kv_max_64", "rows_computed"] == USABLE / 64


def test_slots_and_requests_bound_the_computed_rows():
    plenty = {"kv_exact": engine("exact", kv_tokens=8 * USABLE)}
    made = timings(plenty, usable=8 * USABLE)
    assert reservations(made)["rows_computed"].item() == len(PAIRS)
    made.metadata[0]["spec"]["slots"] = 5
    assert reservations(made)["rows_computed"].item() == 5


def test_another_admission_or_later_arrivals_are_not_simulated():
    made = timings({"kv_exact": ENGINES["kv_exact"]})
    arrival = {"process": "poisson", "rate": 1.0, "seed": 1}
    made.metadata[0]["spec"]["requests"] = REQUESTS | {"arrival": arrival}
    assert reservations(made)["steps_computed"].isna().all()
    made = timings({"kv_exact": ENGINES["kv_exact"]})
    made.plan["admission"] = "wave"
    assert reservations(made)["steps_computed"].isna().all()


def test_asynchronous_scheduling_frees_one_step_late(table):
    made = timings({"kv_max": ENGINES["kv_max"]}, async_scheduling=True)
    assert reservations(made)["steps_computed"].item() > table.loc["kv_max", "steps_computed"]


# ---- speed


def test_ratios_are_paired_with_the_max_that_reserves_most():
    rates = {name: [1.0, 1.0, 1.0] for name in ENGINES}
    rates |= {"kv_max": [10.0, 20.0, 40.0], "kv_exact": [20.0, 60.0, 80.0]}
    made = reservations(timings(ENGINES, repeats=3), rates)
    exact = made[made["engine"] == "kv_exact"]
    assert exact["tok_s"].tolist() == [20, 60, 80]
    assert exact["ratio_to_max"].tolist() == [2, 3, 2]
    assert set(exact["n"]) == {3}
    assert exact["ratio_estimate"].iloc[0] == pytest.approx(12 ** (1 / 3))
    assert exact["ratio_low"].iloc[0] < 12 ** (1 / 3) < exact["ratio_high"].iloc[0]
    assert exact["estimate"].iloc[0] == pytest.approx(96_000 ** (1 / 3))
    # the reference itself, although another `max` reserves less
    itself = made[made["engine"] == "kv_max"]
    assert itself["ratio_to_max"].tolist() == [1, 1, 1]
    short = made[made["engine"] == "kv_max_64"]
    assert short["ratio_to_max"].tolist() == [0.1, 0.05, 0.025]


def test_one_repeat_has_no_interval(table):
    assert table[["low", "high", "ratio_low", "ratio_high"]].isna().all(axis=None)
    assert (table["ratio_estimate"] == 1).all()


def test_without_max_in_the_same_memory_there_is_no_ratio():
    made = timings({"kv_exact": ENGINES["kv_exact"], "kv_one_block": ENGINES["kv_one_block"]})
    assert reservations(made)[["ratio_to_max", "ratio_estimate"]].isna().all(axis=None)
    made = timings({"kv_exact": ENGINES["kv_exact"], "kv_max": ENGINES["kv_max"]})
    made.metadata[1]["applied"]["kv_tokens"] = 2 * USABLE
    found = reservations(made).set_index("engine")["ratio_to_max"]
    assert math.isnan(found["kv_exact"]) and found["kv_max"] == 1


# ---- waits


def test_waits_by_length_over_all_repeats():
    waits = reservation_waits_table(timings({"kv_max": ENGINES["kv_max"]}, repeats=3))
    assert waits["output_tokens"].tolist() == OUTPUTS
    assert waits["n"].tolist() == [36] * 4
    # requests 0, 4, ..., 44 of the shortest length, each admitted 0.1 s after the one before
    own = np.tile(0.4 * np.arange(12), 3)
    assert waits["wait_median_s"].iloc[0] == pytest.approx(np.median(own))
    assert waits["wait_p90_s"].iloc[0] == pytest.approx(np.quantile(own, 0.9))
    few = reservation_waits_table(timings({"kv_max": ENGINES["kv_max"]}))
    assert few["wait_p90_s"].isna().all() and few["wait_median_s"].notna().all()


def test_waits_count_from_the_own_arrival():
    made = timings({"kv_max": ENGINES["kv_max"]})
    made.requests["arrival_s"] = made.requests["admitted_s"] - 0.25
    waits = reservation_waits_table(made)["wait_median_s"]
    assert waits.tolist() == pytest.approx([0.25] * 4)


# ---- timeline


def test_a_short_timeline_has_every_step_and_the_end():
    made = timings({"kv_exact": ENGINES["kv_exact"]}, repeats=2)
    steps = made.steps[made.steps["timing"] == 0]
    line = reservation_timeline_table(made)
    assert len(line) == len(steps) + 1
    assert line["t_s"].tolist() == [*steps["t_s"], STEP * len(steps)]
    assert line["rows"].tolist() == [*steps["rows"], 0]
    assert line["reserved"].tolist() == [*steps["kv_used"], 0]
    held = steps["kv_tokens"].astype(float) / USABLE
    assert line["held"].tolist() == pytest.approx([*held, 0])


def test_a_long_timeline_is_thinned_and_loses_no_preemption():
    def longer(steps):
        count = 1000
        lost = [1 if k % 7 == 0 else 0 for k in range(count)]
        first = steps.iloc[[0] * count]
        return first.assign(step=range(count), t_s=np.arange(count) / count, preempted=lost)

    line = reservation_timeline_table(timings({"kv_max": ENGINES["kv_max"]}, change=longer))
    assert len(line) == POINTS
    assert line["t_s"].iloc[0] == 0 and line["t_s"].is_monotonic_increasing
    assert line["preempted"].sum() == 143


def test_the_timeline_takes_the_first_repeat_with_steps_and_its_first_sample():
    made = timings({"kv_max": ENGINES["kv_max"]}, repeats=2)
    kept = made.steps[made.steps["timing"] == 1]
    more = pd.concat([kept.assign(sample=2), kept], ignore_index=True)
    made = Timings(made.plan, made.requests, more, made.metadata, made.stale, [])
    assert len(reservation_timeline_table(made)) == len(kept) + 1
    none = Timings(made.plan, made.requests, more.iloc[:0], made.metadata, made.stale, [])
    assert len(reservation_timeline_table(none)) == 0


# ---- with all other tables


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    limited = {"kv_tokens": 4096, "block_size": 32}
    kinds = {
        "kv_max": {"reservation": "max", "reserve_tokens": 512, **limited},
        "kv_on_demand": {"reservation": "on_demand", **limited},
    }
    engines = synthetic.ENGINES | {
        name: {"backend": "vllm", "options": options, "baseline": None}
        for name, options in kinds.items()
    }
    plan = synthetic.write_timings(
        tmp_path_factory.mktemp("kv"),
        cells=[("vllm", "B", 16), ("kv_max", "B", 16), ("kv_on_demand", "B", 16)],
        engines=engines,
        step_times=dict.fromkeys(engines, (0.01, 0.0)),
    )
    return tables.make_tables(load(plan), plan)


def test_they_are_made_with_all_others(whole):
    made, summary = whole
    assert set(made["reservations"]["engine"]) == {"kv_max", "kv_on_demand"}
    assert len(made["reservations"]) == 6
    assert len(made["reservation_waits"]) == 8
    assert set(made["reservation_timeline"]["engine"]) == {"kv_max", "kv_on_demand"}
    assert "kv_max/16" in summary["kv"]


def test_the_schedule_without_memory_says_nothing_of_a_limited_cache(whole):
    made, _ = whole
    for name, columns in (
        ("idle", ["computed_steps", "computed_idle_rows", "computed_idle_slots"]),
        ("prediction", ["steps_computed", "rows_mean_computed", "bound_graham"]),
    ):
        frame = made[name]
        limited = frame["engine"].str.startswith("kv_")
        assert limited.any() and frame.loc[limited, columns].isna().all(axis=None)
        assert frame.loc[~limited, columns].notna().all(axis=None)
    sources = made["occupancy"].groupby("engine")["source"].unique()
    assert list(sources["kv_max"]) == ["measured"]
    assert set(sources["vllm"]) == {"measured", "simulated"}
