"""The step model is recovered from the uniform workload alone, and predicts every other cell."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import DEMO, ENGINES, LESSON, find, rewrite, write_timings

from fourcells.analysis import lesson
from fourcells.analysis.load import load
from fourcells.analysis.prediction import COLUMNS as PREDICTION
from fourcells.analysis.prediction import expected, predicted_seconds, prediction_table
from fourcells.analysis.step_model import (
    COLUMNS,
    StepModel,
    durations,
    fit,
    graph_tokens,
    step_model_table,
)
from fourcells.simulator import simulate

# seconds: per step, per row, per step with prompts, per further token
VLLM = (2.3e-3, 26e-6, 19e-3, 2.6e-6)
STATIC = (16.6e-3, 124e-6, 4e-3, 11e-6)
TIMES = {
    **dict.fromkeys(["static", "torch_wave", "torch_continuous"], STATIC),
    **dict.fromkeys(["vllm", "vllm_padded", "vllm_wave"], VLLM),
}
VLLM_CELLS = [("vllm", w, s) for s in (16, 256) for w in "AB"]
PAIR = [("static", "A", 16), ("static", "B", 16), *VLLM_CELLS]


def tables(folder, **options):
    """(step model, prediction, timings) of synthetic timings."""
    options = {"cells": PAIR, "step_times": TIMES, "workloads": LESSON} | options
    timings = load(write_timings(folder, options.pop("repeats", 1), **options))
    model = step_model_table(timings)
    return model, prediction_table(timings, model), timings


def cell(prediction, engine, workload="B", slots=16):
    found = prediction.query("engine == @engine and workload == @workload and slots == @slots")
    assert len(found) == 1
    return found.iloc[0]


# --- the fit


def test_constants_are_recovered_from_a_alone(tmp_path):
    model, _, _ = tables(tmp_path)
    assert list(model.columns) == COLUMNS
    vllm = model.set_index("engine").loc["vllm"]
    assert [vllm[f"{name}_s"] for name in "acpd"] == pytest.approx(VLLM, rel=1e-9)
    assert vllm["a_over_c"] == pytest.approx(2.3e-3 / 26e-6)
    assert vllm[["c_known", "p_known", "d_known"]].all()
    assert pd.isna(vllm["rows_known"]) and pd.isna(vllm["extra_known"])
    assert vllm["steps"] == 736 + 184
    assert vllm["cells"] == "vllm A 16, vllm A 256"


def test_one_slot_count_leaves_terms_together(tmp_path):
    """Every step has 16 rows, and every admission 16 prompts of 128 tokens."""
    model, prediction, _ = tables(tmp_path)
    static = model.set_index("engine").loc["static"]
    a, c, p, d = STATIC
    assert static["a_s"] == pytest.approx(a + 16 * c)
    assert static["p_s"] == pytest.approx(p + 16 * 127 * d)
    assert static[["c_s", "d_s", "a_over_c"]].isna().all()
    assert static[["c_known", "p_known", "d_known"]].tolist() == [False, True, False]
    assert (static["rows_known"], static["extra_known"]) == (16, 2032)
    # padded batches of B have the same rows and admissions
    assert cell(prediction, "static")["residual"] == pytest.approx(0, abs=1e-9)


def test_cells_that_a_partial_model_cannot_tell_are_null(tmp_path):
    """Rows fall within a wave, and refilling admits fewer at once."""
    cells = [("static", "A", 16), ("torch_wave", "B", 16), ("torch_continuous", "B", 16)]
    _, prediction, _ = tables(tmp_path, cells=cells)
    for engine, steps in (("torch_wave", 2048), ("torch_continuous", 1056)):
        row = cell(prediction, engine)
        assert row[["predicted_s", "predicted_tok_s", "residual", "decode_only_s"]].isna().all()
        assert (row["steps_computed"], row["steps_measured"]) == (steps, steps)
    assert predicted_seconds(prediction).keys() == {("static", "A", 16)}


def test_repeats_and_samples_are_pooled(tmp_path):
    model, prediction, _ = tables(tmp_path, repeats=2, samples=3)
    vllm = model.set_index("engine").loc["vllm"]
    assert [vllm[f"{name}_s"] for name in "acpd"] == pytest.approx(VLLM, rel=1e-9)
    assert vllm["steps"] == 2 * 3 * (736 + 184)
    row = cell(prediction, "vllm")
    assert (row["steps_measured"], row["steps_computed"]) == (1056, 1056)
    assert row["residual"] == pytest.approx(0, abs=1e-9)


def test_engines_that_differ_in_admission_share_one_model(tmp_path):
    cells = [("vllm", "B", 16), *((e, "A", 16) for e in ("vllm_padded", "vllm_wave"))]
    cells += [("vllm_wave", "A", 64), ("static", "A", 16)]
    model, prediction, _ = tables(tmp_path, cells=cells)
    assert model["engine"].tolist() == ["static", "vllm"]
    assert model["engines"].tolist() == ["static", "vllm, vllm_padded, vllm_wave"]
    assert model["cells"][1] == "vllm_padded A 16, vllm_wave A 16, vllm_wave A 64"
    # no step of vllm itself was fitted
    row = cell(prediction, "vllm")
    assert row["residual"] == pytest.approx(0, abs=1e-9)
    assert not row["fitted"]
    assert cell(prediction, "vllm_wave", "A")["fitted"]


def test_step_lasts_until_the_next_one_and_the_last_until_the_return(tmp_path):
    plan = write_timings(tmp_path, 1, samples=2, cells=[("vllm", "A", 16)])
    entry = find(plan, "vllm", "A")
    rewrite(
        entry["path"],
        rows=lambda rows: [
            row | {"returned_s": row["returned_s"] + (0.5 if row["sample"] == 2 else 0.0)}
            for row in rows
        ],
    )
    timings = load(plan)
    found = durations(timings, {0})
    usual = 11.14e-3 + 16 * 95.6e-6
    assert len(found) == 2 * 184
    assert found["seconds"].tolist() == pytest.approx([usual] * 367 + [usual + 0.5], rel=1e-9)


def test_without_steps_of_a_uniform_workload_there_is_no_model(tmp_path):
    plan = write_timings(tmp_path, 1, workloads=LESSON, step_times=TIMES)
    for entry in plan:
        if (entry["engine"], entry["workload"]) == ("vllm", "A"):
            Path(entry["steps"]).unlink()
    timings = load(plan)
    model = step_model_table(timings)
    assert model["engine"].tolist() == ["static"]
    row = cell(prediction_table(timings, model), "vllm")
    assert row["steps_computed"] == 1056
    assert row[["predicted_s", "residual", "decode_only_s"]].isna().all()
    assert row["measured_s"] > 0


def test_without_a_uniform_workload_the_tables_are_empty_of_predictions(tmp_path):
    model, prediction, _ = tables(tmp_path, cells=[("vllm", "B", 16)])
    assert model.empty and list(model.columns) == COLUMNS
    assert prediction["predicted_s"].isna().all()
    assert predicted_seconds(prediction) == {}


def observed(*steps, held=0):
    """`held`: the most tokens that a graph holds."""
    frame = pd.DataFrame(steps, columns=["rows", "extra", "seconds"])
    return frame.assign(graph_tokens=held)


SECONDS = st.floats(1e-6, 1e-1)


@given(SECONDS, SECONDS, SECONDS, SECONDS)
def test_any_positive_constants_are_recovered(a, c, p, d):
    cells = [(16, 0), (64, 0), (16, 2032), (64, 8128)]
    steps = observed(*((r, e, a + c * r + (p + d * e if e else 0.0)) for r, e in cells))
    model = fit(steps)
    assert model.whole
    for rows, extra, seconds, _ in steps.itertuples(index=False):
        assert model.seconds(rows, extra) == pytest.approx(seconds, rel=1e-6)
    # between and beyond what was seen
    assert model.seconds(6, 381) == pytest.approx(a + c * 6 + p + d * 381, rel=1e-6)


def test_every_step_counts_once():
    """The line through all steps, not through the means of each number of rows."""
    steps = observed(*[(4, 0, 1.0)] * 3, (4, 0, 2.0), *[(8, 0, 2.0)] * 9, (16, 0, 2.5))
    model = fit(steps)
    assert (model.c, model.a) == pytest.approx(np.polyfit(steps["rows"], steps["seconds"], 1))


def test_no_term_is_negative():
    """More rows or a prompt in less time: that is noise, and the terms are 0."""
    model = fit(observed(*[(16, 0, 3.0)] * 3, (64, 0, 2.0), (16, 100, 1.0)))
    assert (model.a, model.c, model.p) == pytest.approx((2.4, 0.0, 0.0))


def test_steps_that_never_prefill_leave_the_terms_of_prompts_unknown():
    model = fit(observed((16, 0, 2.0), (64, 0, 4.0)))
    assert (model.p, model.d, model.extra_known, model.whole) == (None, None, None, False)
    assert model.decode(40, 0) == pytest.approx(3.0)
    assert model.seconds(40, 127) is None
    assert fit(observed((16, 100, 2.0))) is None


# --- CUDA graphs


@pytest.mark.parametrize(
    ("sizes", "graphs", "tokens"),
    [
        ([1, 512, 256], "FULL_AND_PIECEWISE", 512),
        ([1, 512, 256], "PIECEWISE", 512),
        ([1, 512, 256], "FULL", 512),
        # steps with prompts have no graph
        ([1, 512, 256], "FULL_DECODE_ONLY", None),
        ([1, 512, 256], "NONE", None),
        ([], "FULL_AND_PIECEWISE", None),
        (None, "CUDA graphs by torch.compile, captured: 3", None),
        (None, None, None),
    ],
)
def test_which_graphs_hold_prompts(sizes, graphs, tokens):
    told = {"cudagraph_capture_sizes": sizes, "graphs": graphs}
    assert graph_tokens(told) == tokens
    assert graph_tokens({}) is None


def test_a_step_that_a_graph_holds_has_no_p(tmp_path):
    """A admits 16 and 64 prompts at once, more than a graph holds; most refills of B fit."""
    options = {
        "cudagraph_capture_sizes": [1, 16, 64, 512],
        "graphs": "FULL_AND_PIECEWISE",
        "async_scheduling": True,
    }
    engines = ENGINES | {"vllm": {"backend": "vllm", "options": options, "baseline": None}}
    model, prediction, _ = tables(tmp_path, cells=VLLM_CELLS, engines=engines)
    (vllm,) = model.to_dict("records")
    assert [vllm[f"{name}_s"] for name in "acpd"] == pytest.approx(VLLM, rel=1e-9)
    assert vllm["graph_tokens"] == 512
    a, c, p, d = VLLM
    row = cell(prediction, "vllm")
    # the first 16 prompts, and four times four of them beside 11 or 12 rows; the other 24
    # admissions have at most 270 tokens
    assert row["predicted_s"] == pytest.approx(1058 * a + 11776 * c + 5 * p + 64 * 127 * d)
    assert prediction["residual"].tolist() == pytest.approx([0.0] * 4, abs=1e-9)


def test_graphs_may_be_others_for_each_number_of_slots(tmp_path):
    """As vLLM captures them by itself: at 16 slots too few tokens for any admission."""
    plan = write_timings(
        tmp_path, 1, cells=VLLM_CELLS, step_times=TIMES, workloads=LESSON, max_model_len=2048
    )
    for entry in plan:
        sizes = [1, 32] if entry["slots"] == 16 else [1, 32, 512]
        told = {"cudagraph_capture_sizes": sizes, "graphs": "FULL_AND_PIECEWISE"}
        for key in ("path", "steps"):
            rewrite(entry[key], metadata=lambda meta, told=told: meta["applied"].update(told))
    timings = load(plan)
    model = step_model_table(timings)
    assert model["graph_tokens"].tolist() == [512]
    prediction = prediction_table(timings, model)
    assert prediction["residual"].tolist() == pytest.approx([0.0] * 4, abs=1e-9)


def test_without_graphs_every_step_with_prompts_has_p(tmp_path):
    model, _, _ = tables(tmp_path)
    assert model["graph_tokens"].isna().all()


@given(SECONDS, SECONDS, SECONDS, SECONDS)
def test_one_admission_inside_a_graph_and_one_outside_tell_p_and_d(a, c, p, d):
    inside, outside = (16, 496), (16, 2032)
    steps = observed(
        (16, 0, a + c * 16),
        (64, 0, a + c * 64),
        (*inside, a + c * 16 + d * 496),
        (*outside, a + c * 16 + d * 2032 + p),
        held=512,
    )
    model = fit(steps)
    assert model.whole and model.graph_tokens == 512
    assert model.seconds(12, 500) == pytest.approx(a + c * 12 + d * 500, rel=1e-6)
    assert model.seconds(12, 501) == pytest.approx(a + c * 12 + d * 501 + p, rel=1e-6)


def test_admissions_inside_graphs_alone_leave_p_unknown():
    model = fit(observed((16, 0, 2.0), (64, 0, 4.0), (16, 100, 2.5), held=512))
    assert (model.p, model.d, model.extra_known) == (None, pytest.approx(0.005), None)
    assert model.seconds(16, 200) == pytest.approx(3.0)
    assert model.seconds(16, 497) is None and not model.whole


def test_one_admission_outside_graphs_says_nothing_of_those_inside():
    model = fit(observed((16, 0, 2.0), (64, 0, 4.0), (16, 2032, 5.0), held=512))
    assert (model.p, model.d, model.extra_known) == (pytest.approx(3.0), None, 2032)
    assert model.seconds(16, 2032) == pytest.approx(5.0)
    assert model.seconds(16, 100) is None


# --- the prediction


def test_b_is_predicted_exactly(tmp_path):
    _, prediction, _ = tables(tmp_path)
    assert list(prediction.columns) == PREDICTION
    assert prediction["residual"].tolist() == pytest.approx([0.0] * 6, abs=1e-9)
    assert prediction["fitted"].tolist() == [workload == "A" for workload in prediction["workload"]]
    a, c, p, d = VLLM
    row = cell(prediction, "vllm")
    # 18 of the 1056 steps admit somebody, 64 prompts of 127 further tokens in all
    assert row["predicted_s"] == pytest.approx(1056 * a + 11776 * c + 18 * p + 64 * 127 * d)
    assert row["decode_only_s"] == pytest.approx(1056 * a + 11776 * c)
    assert row["decode_only_residual"] == pytest.approx(
        (1056 * a + 11776 * c) / row["measured_s"] - 1
    )
    assert row["predicted_tok_s"] == pytest.approx(11776 / row["predicted_s"])
    assert row["measured_tok_s"] == pytest.approx(row["predicted_tok_s"])
    assert round(row["rows_mean_computed"], 2) == 11.15
    bounds = row[["bound_longest", "bound_share", "bound_graham"]].tolist()
    assert bounds == [512, 736, 1216]
    assert predicted_seconds(prediction)["vllm", "B", 16] == row["predicted_s"]


def test_asynchronous_scheduling_is_simulated_where_it_was_applied(tmp_path):
    engines = ENGINES | {
        "vllm": {"backend": "vllm", "options": {"async_scheduling": True}, "baseline": None}
    }
    _, prediction, _ = tables(tmp_path, cells=VLLM_CELLS, engines=engines)
    row = cell(prediction, "vllm")
    a, c, p, d = VLLM
    assert (row["steps_computed"], row["steps_measured"]) == (1058, 1058)
    assert row["predicted_s"] == pytest.approx(1058 * a + 11776 * c + 29 * p + 64 * 127 * d)
    assert row["residual"] == pytest.approx(0, abs=1e-9)


def test_every_admission_of_a_group_is_predicted(tmp_path):
    names = ("vllm", "vllm_padded", "vllm_wave")
    cells = [("vllm", "A", 256), *((e, w, 16) for e in names for w in "AB")]
    _, prediction, _ = tables(tmp_path, cells=cells)
    assert prediction["residual"].abs().max() < 1e-9
    a, c, p, d = VLLM
    prompts = 4 * p + 64 * 127 * d
    found = predicted_seconds(prediction)
    assert found["vllm_padded", "B", 16] == pytest.approx(2048 * (a + 16 * c) + prompts)
    assert found["vllm_wave", "B", 16] == pytest.approx(2048 * a + 11776 * c + prompts)


def test_later_arrivals_are_predicted_with_the_model_s_clock(tmp_path):
    late = {"arrival": {"process": "poisson", "rate": 40.0, "seed": 3}}
    workloads = LESSON | {"B_high": LESSON["B"] | late}
    cells = [*VLLM_CELLS, ("vllm", "B_high", 16), ("static", "A", 16), ("static", "B_high", 16)]
    _, prediction, _ = tables(tmp_path, cells=cells, workloads=workloads)
    row = cell(prediction, "vllm", "B_high")
    assert row["steps_computed"] == row["steps_measured"] > 1056
    assert row["residual"] == pytest.approx(0, abs=1e-9)
    assert row["decode_only_s"] < row["predicted_s"]
    assert pd.isna(row["bound_graham"]) and row["bound_share"] == 736
    # who waits at which step cannot be told without every step's time
    partial = cell(prediction, "static", "B_high")
    assert partial[["steps_computed", "rows_mean_computed", "predicted_s"]].isna().all()


def test_admission_that_the_simulator_does_not_know_is_only_measured(tmp_path):
    plan = write_timings(tmp_path, 1, workloads=DEMO, step_times=TIMES)
    for entry in plan:
        if entry["engine"] == "vllm":
            entry["admission"] = "guessed"
    timings = load(plan)
    row = cell(prediction_table(timings, step_model_table(timings)), "vllm")
    assert row["admission"] == "guessed"
    assert row[["steps_computed", "rows_mean_computed", "predicted_s"]].isna().all()
    assert row["measured_s"] > 0


def test_budget_of_the_spec_cuts_prompts():
    requests = {"count": 3, "prompt_tokens": [6, 3, 1], "output_tokens": [2, 3, 1]}
    spec = {"requests": requests | {"order": "cyclic"}, "seed": 1, "slots": 2}
    model = StepModel(1.0, 0.0, 0.5, 0.25, None, None, None)
    whole = expected({"spec": spec | {"options": {}}, "applied": {}}, "continuous", model)
    # the first step computes both long prompts, 5 + 2 further tokens
    assert (whole.steps, whole.seconds, whole.decode_only) == (3, 3 + 0.5 + 7 * 0.25, 3.0)
    cut = {"spec": spec | {"options": {"max_num_batched_tokens": 4}}, "applied": {}}
    found = expected(cut, "continuous", model)
    # 3 further tokens of the first prompt, then 1 of it and 1 of the second
    assert (found.steps, found.seconds, found.decode_only) == (5, 5 + 2 * 0.5 + 5 * 0.25, 5.0)
    assert found.rows_mean == (1 + 2 + 2 + 2 + 1) / 5


# --- the lesson


@pytest.mark.parametrize("cell_name", ["vllm_16", "vllm_256"])
def test_lesson_s_vllm_follows_from_its_two_slot_counts(cell_name):
    a, c = lesson.step_model(cell_name)
    assert round(1e3 * a, 2) == 11.14
    assert round(1e6 * c, 1) == 95.6
    assert round(a / c) == 117


def test_lesson_s_static_loop_has_one_slot_count():
    a, c = lesson.step_model("static_16")
    assert (round(1e3 * a, 2), c) == (18.58, None)
    assert lesson.step_model(None) == (None, None)


@pytest.mark.parametrize(
    ("cell_name", "admission", "rows", "predicted", "measured"),
    [
        ("static_16", "padded", 16, 309.5, 310.9),
        ("vllm_16", "continuous", 16, 913, 926.8),
        ("vllm_256", "continuous", 64, 1724, 1731.9),
    ],
)
def test_lesson_s_figures_on_b_follow_from_those_on_a(
    cell_name, admission, rows, predicted, measured
):
    a, c = lesson.step_model(cell_name)
    served = simulate(
        lesson.output_tokens("B"), rows, admission, seconds=lambda n, more: a + (c or 0.0) * n
    )
    tok_s = 11776 / served.window_s
    assert tok_s == pytest.approx(predicted, abs=0.06 if admission == "padded" else 0.6)
    assert lesson.tok_s(cell_name, "B") == measured
    assert abs(tok_s / measured - 1) < 0.016


def test_lesson_s_terms_stand_beside_the_fitted_ones(tmp_path):
    model, _, _ = tables(tmp_path)
    found = model.set_index("engine")[["lesson_a_s", "lesson_c_s"]]
    assert found.loc["vllm"].tolist() == list(lesson.step_model("vllm_16"))
    assert found.loc["static", "lesson_a_s"] == lesson.step_model("static_16")[0]
    assert pd.isna(found.loc["static", "lesson_c_s"])


def test_tables_become_json(tmp_path):
    model, prediction, _ = tables(tmp_path)
    for table in (model, prediction):
        json.loads(table.to_json(orient="records"))
