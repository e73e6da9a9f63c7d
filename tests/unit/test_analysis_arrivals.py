"""Requests that keep coming: freed slots, and latencies from each request's own arrival."""

import math
import os

import numpy as np
import pandas as pd
import pytest
import synthetic

from fourcells.analysis.arrivals import arrivals_table, refills
from fourcells.analysis.load import load
from fourcells.analysis.requests import requests_table

STEP = 0.001  # seconds, whatever the rows
FLAT = dict.fromkeys(synthetic.ENGINES, (STEP, 0.0))
B = synthetic.DEMO["B"]


def poisson(rate, count=64):
    return B | {"count": count, "arrival": {"process": "poisson", "rate": rate, "seed": 1}}


# B takes 264 steps for 64 requests: 0.24 requests per step is all that 16 slots can serve
WORKLOADS = {
    "A": synthetic.DEMO["A"],
    "B": B,
    "B2": B | {"count": 128},
    "B4": B | {"count": 256},
    "B_sparse": poisson(0.01 / STEP / 128),
    "B_low": poisson(0.02 / STEP),
    "B_high": poisson(0.5 / STEP, count=256),
}


def made(folder, cells, change=None, **more):
    given = {"repeats": 1, "workloads": WORKLOADS, "step_times": FLAT} | more
    plan = synthetic.write_timings(folder, cells=cells, **given)
    if change:
        change(plan)
    timings = load(plan)
    return arrivals_table(timings, requests_table(timings))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    workloads = [w for w in WORKLOADS if w != "A"]
    cells = [("vllm", w, 16) for w in workloads] + [
        ("vllm", "B", 64),
        ("torch_continuous", "B", 16),
    ]
    return made(tmp_path_factory.mktemp("arrivals"), cells).set_index("workload")


# ---- freed slots that were taken again


def window(offset=0.0):
    """Two slots, steps of 1 s; nobody is there from 5 to 7.

    Request 0 frees a slot at 2, which 2 takes, who waited; 1 frees one at 3, when nobody waits; 2
    frees one at 4, which 3 takes; 3 frees one at 5, which 4 takes when it comes at 7; 4 is last.
    """
    requests = pd.DataFrame(
        [(0, 0, 2), (0, 0, 3), (1, 2, 4), (3.5, 4, 5), (7, 7, 8)],
        columns=["arrival_s", "admitted_s", "finished_s"],
        dtype="float64",
    )
    requests["admitted_s"] += offset
    return requests, np.array([0.0, 1.0, 2.0, 3.0, 4.0, 7.0])


@pytest.mark.parametrize("offset", [0.0, 0.2, -0.2])
def test_refills_by_hand(offset):
    """Whether an engine notes an admission at the step's start, a little before or after it."""
    assert refills(*window(offset)) == (4, 2)


def test_an_end_that_is_noted_before_the_next_step_begins():
    requests, starts = window()
    requests["finished_s"] -= 0.1
    assert refills(requests, starts) == (4, 2)


def test_more_slots_than_entered_stay_empty():
    """Three requests end together, two wait."""
    times = [(0, 0, 1)] * 3 + [(0, 1, 2)] * 2
    requests = pd.DataFrame(times, columns=["arrival_s", "admitted_s", "finished_s"])
    assert refills(requests, np.array([0.0, 1.0])) == (3, 2)
    assert refills(requests, np.array([0.0])) == (0, 0)
    assert refills(requests, None) is None


# ---- the table


def test_a_block_by_hand(table):
    """64 requests and 16 slots: all but the last 16 refill a slot; who ends last frees none."""
    row = table.loc["B"]
    assert (row["engine"], row["process"], row["requests"]) == ("vllm", "block", 64)
    assert math.isnan(row["rate"])
    assert (row["freed"], row["refilled"]) == (64 - 1, 64 - 16)
    assert row["refilled_share"] == pytest.approx(48 / 63)
    assert row["window_s"] == pytest.approx(264 * STEP)
    assert row["slot_use"] == pytest.approx(64 * 46 / (16 * 264))


def test_one_request_at_a_time(table):
    """So few that nobody waits: the first token takes a step, the rest its own length."""
    row = table.loc["B_sparse"]
    assert (row["process"], row["rate"]) == ("poisson", 0.01 / STEP / 128)
    assert (row["freed"], row["refilled"], row["refilled_share"]) == (63, 0, 0.0)
    assert row[["ttft_median_s", "ttft_p90_s"]].tolist() == pytest.approx([STEP, STEP])
    # lengths 8, 16, 32, 128: half of them are at most 16 tokens
    assert row["e2e_median_s"] == pytest.approx((16 + 32) / 2 * STEP)
    assert row["e2e_p90_s"] == pytest.approx(128 * STEP)
    assert row["slot_use"] == pytest.approx(64 * 46 * STEP / (16 * row["window_s"]))


def test_load_decides_how_many_slots_are_refilled(table):
    low, high, block = (table.loc[w] for w in ("B_low", "B_high", "B4"))
    assert low["refilled_share"] < 0.1 < 0.8 < high["refilled_share"]
    assert low["slot_use"] < high["slot_use"] <= 1
    assert high["refilled_share"] <= block["refilled_share"] == (256 - 16) / (256 - 1)
    # from their own arrival on: the block's requests wait for the others
    assert low["ttft_median_s"] < high["ttft_median_s"] < block["ttft_median_s"]


def test_beside_stand_blocks_of_the_same_requests_engine_and_slots(table):
    rows = table.reset_index()[["engine", "workload", "slots"]].values.tolist()
    assert rows == [["vllm", w, 16] for w in ("B", "B4", "B_high", "B_low", "B_sparse")]


def test_only_when_requests_keep_coming(tmp_path):
    found = made(tmp_path, [("vllm", "B", 16), ("vllm", "A", 16)])
    assert len(found) == 0 and str(found["window_s"].dtype) == "float64"


def test_only_continuous_engines(tmp_path):
    found = made(tmp_path, [("torch_wave", "B_low", 16), ("vllm", "B_low", 16)])
    assert found["engine"].tolist() == ["vllm"]


def test_lateness_of_the_sender(tmp_path):
    def late(plan):
        synthetic.rewrite(
            plan[0]["path"],
            rows=lambda rows: [r | {"late_s": 0.5 if r["request"] == 7 else 0.0} for r in rows],
        )

    row = made(tmp_path, [("vllm", "B_low", 16)], late).iloc[0]
    assert (row["late_max_s"], row["late_mean_s"]) == (0.5, 0.5 / 64)


def test_samples_are_added_up(tmp_path):
    one = made(tmp_path / "1", [("vllm", "B_high", 16)]).iloc[0]
    two = made(tmp_path / "2", [("vllm", "B_high", 16)], samples=2).iloc[0]
    for column in ("requests", "freed", "refilled", "window_s"):
        assert two[column] == pytest.approx(2 * one[column])
    for column in ("slot_use", "refilled_share", "ttft_median_s"):
        assert two[column] == pytest.approx(one[column])


def test_without_steps_nobody_knows_what_was_refilled(tmp_path):
    found = made(tmp_path, [("vllm", "B_low", 16)], lambda plan: os.remove(plan[0]["steps"]))
    assert found["freed"].isna().all() and found["refilled_share"].isna().all()
    assert found["slot_use"].notna().all()


def test_a_stale_timing_is_left_out(tmp_path):
    """The table of requests holds it all the same."""

    plan = synthetic.write_timings(
        tmp_path, repeats=2, cells=[("vllm", "B_low", 16)], workloads=WORKLOADS, step_times=FLAT
    )
    plan[0]["spec"]["options"] = {"max_num_batched_tokens": 8192}
    timings = load(plan)
    found = arrivals_table(timings.counted(), requests_table(timings))
    assert found["repeat"].tolist() == [2]
