"""The lesson's printed figures follow from its raw ones."""

import pytest

from fourcells.analysis import lesson

GIB = 2**30


def test_ratios_are_the_printed_ones():
    ratios = lesson.ratios()
    assert round(ratios["R_A"], 2) == 1.47
    assert round(ratios["R_B"], 2) == 2.98
    assert round(ratios["Q"], 1) == 2.0
    assert round(ratios["Q"], 2) == 2.03
    assert round(ratios["slots_ratio"], 2) == 2.94


@pytest.mark.parametrize(
    ("cell", "percent"), [("static_16", -64), ("vllm_16", -27), ("vllm_256", -53)]
)
def test_losses_are_the_printed_ones(cell, percent):
    assert round(100 * lesson.loss(cell, "B", "A")) == percent


def test_there_is_no_loss_without_a_workload_to_compare_with():
    assert lesson.loss("static_16", "A", None) is None
    assert lesson.loss(None, "B", "A") is None
    assert lesson.loss("static_16", "C", "A") is None


def test_static_idle_share_is_641_permille():
    assert lesson.static_idle() == pytest.approx(1 - 184 / 512)
    assert round(100 * lesson.static_idle(), 1) == 64.1


def test_both_workloads_ask_for_the_same_work():
    assert sum(lesson.output_tokens("A")) == sum(lesson.output_tokens("B")) == 11_776
    assert lesson.mean_tokens("A") == lesson.mean_tokens("B") == 312


def test_kv_arithmetic():
    kv = lesson.kv()
    assert int(kv["requests_by_max"]) == 107
    assert round(kv["requests_by_max"], 2) == kv["engine_max_concurrency"] == 107.09
    assert round(kv["requests_by_use"]) == 703
    assert round(kv["requests_by_use"], -2) == 700
    assert round(kv["factor_printed"], 1) == 6.5
    assert round(kv["factor"], 2) == 6.56
    assert kv["kv_bytes_per_token"] == 28 * 1024
    assert round(kv["kv_bytes"] / GIB, 2) == 5.86
    assert round(kv["weights_bytes"] / GIB, 2) == 2.89


def test_exercise():
    by_max, by_use = lesson.exercise()
    assert int(by_max) == 24
    assert by_use == 200


def test_short_requests_return_12_and_34_times_sooner():
    assert round(lesson.sooner("vllm_16")) == 12
    assert round(lesson.sooner("vllm_256")) == 34


def test_shares():
    assert round(100 * lesson.static_runs_apart()) == 17
    assert round(100 * lesson.reserved_idle()) == 85


def test_engines_are_matched_by_backend_and_admission():
    assert lesson.engine("torch", "padded") == "static"
    assert lesson.engine("vllm", "continuous") == "vllm"
    for other in [("torch", "continuous"), ("vllm", "wave"), ("vllm", None)]:
        assert lesson.engine(*other) is None


def test_cells_are_matched_by_engine_and_slots():
    assert lesson.cell("static", 16) == "static_16"
    assert lesson.cell("vllm", 256) == "vllm_256"
    for other in [("static", 256), ("vllm", 64), (None, 16), (float("nan"), 16)]:
        assert lesson.cell(*other) is None


def test_latencies_are_matched_by_rank():
    assert lesson.latency("vllm_16", "B", 3, 4) == (2.10, 8.51)
    assert lesson.latency("vllm_256", "B", 0, 4) == (0.37, 0.83)
    assert lesson.latency("vllm_16", "B", 0, 3) == (None, None)
    assert lesson.latency("vllm_16", "A", 0, 4) == (None, None)
    assert lesson.latency(None, "B", 0, 4) == (None, None)


def test_how_far_two_runs_were_apart():
    assert lesson.runs_apart("vllm_16", "B") == lesson.runs_apart("vllm_256", "B") == (0.03, 0.04)
    low, high = lesson.runs_apart("static_16", "B")
    assert low == high == lesson.static_runs_apart()
    assert lesson.runs_apart("static_16", "A") is None
    assert lesson.runs_apart(None, "B") is None
