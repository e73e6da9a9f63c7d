"""The more there is to refill, the more continuous admission brings."""

import os

import pytest
import synthetic

from fourcells.analysis.dose import dose_table
from fourcells.analysis.load import load
from fourcells.analysis.stats import geometric_mean, t_interval
from fourcells.analysis.throughput import throughput_table

B = synthetic.LESSON["B"]
WORKLOADS = {
    "A": synthetic.LESSON["A"],
    "B": B,
    "B_sorted": B | {"order": "sorted"},
    "B_shuffled": B | {"order": "shuffled"},
    **{f"B{copies}": B | {"count": 64 * copies} for copies in (2, 4, 8, 16)},
    # other lengths: no copy of B
    "C": B | {"output_tokens": [8, 16, 32, 128], "count": 128},
    # requests that keep coming are another matter
    "B_later": B | {"arrival": {"process": "poisson", "rate": 9.0, "seed": 1}},
}
PAIR = ("vllm", "vllm_wave")
SLOTS = (4, 8, 16, 32, 64)
# one second per step: throughputs are in the ratio of steps
FLAT = dict.fromkeys(synthetic.ENGINES, (1.0, 0.0))


def made(folder, cells, repeats=1, **more):
    plan = synthetic.write_timings(
        folder, repeats, cells=cells, workloads=WORKLOADS, max_model_len=2048, **more
    )
    timings = load(plan)
    return plan, dose_table(timings, throughput_table(timings))


def on(workloads, slots=(16,), engines=PAIR):
    return [(engine, workload, s) for engine in engines for workload in workloads for s in slots]


def of(table, kind):
    return table[table["kind"] == kind]


@pytest.fixture(scope="module")
def doses(tmp_path_factory):
    cells = on(["B"], SLOTS) + on(["B_sorted", "B_shuffled", "B2", "B4", "B8", "B16"])
    cells += on(["C", "A", "B_later"])
    return made(tmp_path_factory.mktemp("dose"), cells, step_times=FLAT)[1]


@pytest.mark.parametrize(
    ("kind", "x", "ratios"),
    [
        ("slots", [4, 8, 16, 32, 64], [2.56, 2.33, 1.94, 1.60, 1.00]),
        ("copies", [1, 2, 4, 8, 16], [1.94, 2.33, 2.53, 2.65, 2.72]),
    ],
)
def test_step_ratios_are_those_of_theory(doses, kind, x, ratios):
    table = of(doses, kind)
    assert table["x"].tolist() == x
    for column in ("step_ratio_computed", "step_ratio_measured", "estimate"):
        assert table[column].round(2).tolist() == ratios
    assert table["label"].tolist() == [str(each) for each in x]
    assert set(table["engine"]) == {"vllm"} and set(table["other"]) == {"vllm_wave"}
    first = table[table["x"] == x[-1]].iloc[0]
    assert first["steps_other"] / first["steps_engine"] == first["step_ratio_measured"]


def test_order_is_a_dose_too(doses):
    table = of(doses, "order")
    assert table["label"].tolist() == ["sorted", "cyclic", "shuffled"]
    assert table["x"].tolist() == [0, 1, 2]
    assert table["workload"].tolist() == ["B_sorted", "B", "B_shuffled"]
    assert table["steps_other"].tolist()[:2] == [736, 2048]
    assert table["steps_engine"].tolist()[:2] == [736, 1056]
    assert table["step_ratio_measured"].iloc[0] == 1.0


def test_other_lengths_and_later_arrivals_are_no_dose(doses):
    assert not set(doses["workload"]) & {"A", "C", "B_later"}


def test_one_point_is_no_dose(tmp_path):
    _, table = made(tmp_path, [*on(["B"]), ("vllm", "B", 4), ("vllm", "B2", 16)])
    assert len(table) == 0
    assert str(table["x"].dtype) == "float64" and str(table["slots"].dtype) == "int64"


def test_without_another_engine_of_the_group_there_is_none(tmp_path):
    """A wave of another machine group is no partner."""
    _, table = made(tmp_path, on(["B"], (8, 16), ("vllm", "torch_wave")))
    assert len(table) == 0


def test_a_late_free_slot_changes_both_ratios(tmp_path):
    """Asynchronous scheduling: B at 16 slots takes 1058 steps, not 1056."""
    late = {"async_scheduling": True}
    engines = {
        "vllm": {"backend": "vllm", "options": late, "baseline": None},
        "vllm_wave": {"backend": "vllm", "options": late | {"admission": "wave"}, "baseline": None},
    }
    _, table = made(tmp_path, on(["B"], (8, 16)), engines=engines, step_times=FLAT)
    row = table[table["slots"] == 16].iloc[0]
    assert (row["steps_engine"], row["steps_other"]) == (1058, 2048)
    assert row["step_ratio_computed"] == row["step_ratio_measured"] == 2048 / 1058


def test_responses_are_paired_by_repeat_and_steps_are_per_window(tmp_path):
    plan, table = made(tmp_path, on(["B"], (8, 16)), repeats=3, noise=0.1, samples=2)
    rates = throughput_table(load(plan)).set_index(["engine", "slots", "repeat"])["tok_s"]
    for row in table.itertuples():
        ratios = [rates["vllm", row.slots, r] / rates["vllm_wave", row.slots, r] for r in (1, 2, 3)]
        assert row.estimate == pytest.approx(geometric_mean(ratios))
        assert (row.low, row.high) == pytest.approx(t_interval(ratios))
        assert row.n == 3
    assert table["steps_other"].tolist() == [4096, 2048]


def test_steps_that_were_not_kept_are_null(tmp_path):
    plan, _ = made(tmp_path, on(["B"], (8, 16)))
    os.remove(synthetic.find(plan, "vllm_wave", "B", 8)["steps"])
    timings = load(plan)
    table = dose_table(timings, throughput_table(timings)).set_index("slots")
    assert table["steps_other"].isna().tolist() == [True, False]
    assert table["step_ratio_measured"].isna().tolist() == [True, False]
    assert table["step_ratio_computed"].notna().all()
