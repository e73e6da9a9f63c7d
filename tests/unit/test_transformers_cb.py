"""The transformers backend: the steps of the schedule and the tokens of the loop, on a CPU."""

import json
import random
import shutil
import time
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fourcells.engines import EngineError, transformers_cb
from fourcells.engines.torch_loop import TorchLoop
from fourcells.engines.transformers_scheduler import LoggedStep, Row, follow
from fourcells.schedule import ADMISSIONS, padded_lengths
from fourcells.simulator import simulate
from fourcells.window import other_work
from fourcells.workload import Request

MAX_LEN = 96
# The lesson's workloads at an eighth of their lengths, and the steps that theory gives them.
OUTPUTS = {"A": [23] * 64, "B": [4, 8, 16, 64] * 16}
STEPS = {
    ("A", "padded"): 4 * 23,
    ("A", "wave"): 4 * 23,
    ("A", "continuous"): 4 * 23,
    ("B", "padded"): 4 * 64,
    ("B", "wave"): 4 * 64,
    ("B", "continuous"): 132,
}
CELLS = list(STEPS)


@pytest.fixture(scope="module")
def workloads():
    draw = random.Random(1)
    return {
        name: [Request(tuple(draw.choices(range(512), k=16)), tokens) for tokens in outputs]
        for name, outputs in OUTPUTS.items()
    }


@pytest.fixture(scope="module")
def opened(checkpoint):
    """Opens engines by slots and options, each once, and closes them all."""
    engines = {}

    def open_engine(slots=16, admission="continuous", **options):
        key = slots, admission, *sorted(options.items())
        if key not in engines:
            options = {
                "admission": admission,
                "block_size": 16,
                "max_num_batched_tokens": 1024,
                **options,
            }
            engines[key] = transformers_cb.open_engine(
                {
                    "engine": "transformers",
                    "options": options,
                    "dtype": "float32",
                    "device": "cpu",
                    "slots": slots,
                    "max_model_len": MAX_LEN,
                },
                checkpoint,
            )
        return engines[key]

    yield open_engine
    for engine in engines.values():
        engine.close()


@pytest.fixture(scope="module")
def loop(checkpoint):
    """The hand-written loop, whose tokens are greedy generation's (test_torch_loop)."""
    spec = {"dtype": "float32", "device": "cpu", "slots": 16, "max_model_len": MAX_LEN}
    return TorchLoop({**spec, "options": {"admission": "continuous"}}, checkpoint)


@pytest.fixture(scope="module")
def served(opened, workloads):
    """One window per workload and admission, two in each engine."""
    return {
        (name, admission): opened(admission=admission).serve(workloads[name])
        for name, admission in CELLS
    }


def shape(steps):
    return [(step.rows, step.useful_rows, step.waiting) for step in steps]


def requests_of(draw, outputs, prompts=(1, 16)):
    """Requests with these outputs and prompts of random length and tokens."""
    return [
        Request(tuple(draw.choices(range(512), k=draw.randint(*prompts))), output)
        for output in outputs
    ]


each_cell = pytest.mark.parametrize("cell", CELLS, ids="-".join)
each_admission = pytest.mark.parametrize("admission", ADMISSIONS)


# --- the lesson's workloads in 16 slots


@each_cell
def test_steps_are_those_of_theory(served, cell):
    assert len(served[cell].steps) == STEPS[cell]


@each_cell
def test_rows_of_every_step_are_those_of_the_simulation(served, cell):
    workload, admission = cell
    planned = simulate(OUTPUTS[workload], 16, admission, prompt_tokens=[16] * 64)
    assert shape(served[cell].steps) == shape(planned.steps)
    assert [step.step for step in served[cell].steps] == list(range(STEPS[cell]))
    if admission != "padded":  # the simulation of a padded batch feeds finished rows, too
        assert [s.tokens for s in served[cell].steps] == [s.tokens for s in planned.steps]


@each_cell
def test_the_work_is_what_was_asked(served, workloads, cell):
    assert other_work(workloads[cell[0]], served[cell]) is None
    assert sum(r.produced_tokens for r in served[cell].requests) == 1472
    records = served[cell].requests
    assert {(r.cached_tokens, r.preemptions, r.arrival_s, r.late_s) for r in records} == {
        (0, 0, 0.0, 0.0)
    }


@each_cell
def test_tokens_are_those_of_the_loop(served, loop, workloads, cell):
    """Sums run in another order here, so a near tie may end differently; most must not."""
    theirs = loop.serve(workloads[cell[0]]).tokens
    same = sum(one == two for one, two in zip(served[cell].tokens, theirs, strict=True))
    print(f"{cell}: requests with the loop's tokens: {same} of 64")
    assert same >= 62


@pytest.mark.parametrize("workload", OUTPUTS)
def test_admissions_give_one_another_tokens(served, workload):
    tokens = [served[workload, admission].tokens for admission in ADMISSIONS]
    equal = sum(one == two == three for one, two, three in zip(*tokens, strict=True))
    assert equal >= 62


def test_all_are_queued_before_the_first_step(served):
    """Without the start gate the engine begins with request 0 alone."""
    for window in served.values():
        first = window.steps[0]
        assert (first.rows, first.waiting, first.tokens) == (16, 48, 16 * 16)
        assert 0 <= first.t_s < 1


def test_first_step_waits_for_a_slow_sender(opened, workloads, monkeypatch):
    engine = opened()
    add = engine.manager.add_request

    def slow(*args, **kwargs):
        time.sleep(0.005)  # the generation thread wakes up meanwhile
        return add(*args, **kwargs)

    monkeypatch.setattr(engine.manager, "add_request", slow)
    served = engine.serve(workloads["A"][:20])
    assert [step.rows for step in served.steps] == [16] * 23 + [4] * 23


@each_cell
def test_starts_of_steps_grow_and_end_before_the_window(served, cell):
    starts = [step.t_s for step in served[cell].steps]
    assert all(one < two for one, two in pairwise(starts))
    assert starts[-1] < max(r.returned_s for r in served[cell].requests)


@each_cell
def test_times_are_those_of_the_simulated_steps(served, cell):
    """Admission at the start of a step, a token after it and before the next one's start."""
    workload, admission = cell
    starts = [*(step.t_s for step in served[cell].steps), float("inf")]
    planned = simulate(OUTPUTS[workload], 16, admission).requests
    for record, plan in zip(served[cell].requests, planned, strict=True):
        assert record.admitted_s == starts[plan.admitted_step]
        assert starts[plan.first_step] < record.first_token_s < starts[plan.first_step + 1]
        assert starts[plan.finished_step] < record.finished_s < starts[plan.finished_step + 1]
        assert record.returned_s >= record.finished_s
        assert record.returned_s > starts[plan.returned_step]


def test_rows_of_a_step_share_the_time_of_their_token(served):
    assert len({r.first_token_s for r in served["B", "padded"].requests}) == 4
    assert len({r.first_token_s for r in served["A", "continuous"].requests}) == 4


def test_waves_are_numbered_from_one_and_continuous_has_none(served):
    for (_, admission), window in served.items():
        waves = [r.wave for r in window.requests]
        if admission == "continuous":
            assert waves == [None] * 64
        else:
            assert waves == [1] * 16 + [2] * 16 + [3] * 16 + [4] * 16


def test_padded_batch_returns_after_its_longest_request(served):
    records = served["B", "padded"].requests
    for start in range(0, 64, 16):
        batch = records[start : start + 16]
        end = max(r.finished_s for r in batch)
        assert all(r.returned_s >= end for r in batch)
        assert min(r.finished_s for r in batch) < end
    assert {step.rows for step in served["B", "padded"].steps} == {16}
    assert sum(step.rows for step in served["B", "padded"].steps) == 256 * 16


def test_wave_returns_a_finished_row_before_the_wave_ends(served):
    records = served["B", "wave"].requests
    assert max(r.returned_s for r in records[:16] if r.output_tokens == 4) < records[3].finished_s


def test_kv_used_is_the_share_of_blocks_that_are_held(served):
    """96 blocks of 16; a request of 16 + n tokens holds 1 block, and one more per 16 tokens."""
    window = served["A", "padded"]
    used = [step.kv_used for step in window.steps]
    # the 17th token of a row needs its second block; the library of 5.17 takes it at once
    assert used[1:16] == pytest.approx([16 * 2 / 96] * 15)
    assert used[17:23] == pytest.approx([16 * 3 / 96] * 6)
    assert used[:23] == used[23:46] == used[69:]


@each_cell
def test_kv_tokens_are_those_computed_so_far(served, workloads, cell):
    """In its n-th step a request has its prompt and the n tokens it was fed."""
    workload, admission = cell
    outputs = [r.output_tokens for r in workloads[workload]]
    steps = padded_lengths(outputs, 16) if admission == "padded" else outputs
    # prompts of 16 tokens
    assert sum(step.kv_tokens for step in served[cell].steps) == sum(
        16 * n + n * (n - 1) // 2 for n in steps
    )


# --- other loads


@settings(max_examples=20, deadline=None)
@given(
    outputs=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    admission=st.sampled_from(ADMISSIONS),
    seed=st.integers(0, 99),
)
def test_any_outputs_and_prompts_take_the_steps_of_the_simulation(
    opened, loop, outputs, admission, seed
):
    requests = requests_of(random.Random(seed), outputs, prompts=(1, 40))
    served = opened(slots=4, admission=admission).serve(requests)
    assert other_work(requests, served) is None
    assert shape(served.steps) == shape(simulate(outputs, 4, admission).steps)
    assert served.tokens == loop.serve(requests).tokens


@each_admission
def test_windows_of_one_engine_know_nothing_of_each_other(opened, workloads, admission):
    engine = opened(admission=admission)
    short = [Request(r.prompt, 3) for r in workloads["B"][:20]]
    first, _, again = (engine.serve(each) for each in (workloads["A"], short, workloads["A"]))
    assert shape(again.steps) == shape(first.steps)
    assert again.tokens == first.tokens
    assert other_work(workloads["A"], again) is None


@each_admission
def test_no_request_takes_no_step(opened, admission):
    served = opened(admission=admission).serve([])
    assert (served.requests, served.steps, served.tokens) == ([], [], [])


def test_prompts_beyond_the_budget_are_cut(opened, loop):
    """8 prompts of 16 tokens, 40 tokens a step: two and a half prompts in the first."""
    requests = requests_of(random.Random(3), [5] * 8, prompts=(16, 16))
    served = opened(max_num_batched_tokens=40).serve(requests)
    planned = simulate([5] * 8, 16, "continuous", prompt_tokens=[16] * 8, budget=40)
    assert (served.steps[0].rows, served.steps[0].useful_rows) == (3, 2)
    assert shape(served.steps) == shape(planned.steps)
    assert [s.tokens for s in served.steps] == [s.tokens for s in planned.steps]
    assert other_work(requests, served) is None
    assert served.tokens == loop.serve(requests).tokens


@pytest.mark.parametrize("admission", ["padded", "wave"])
@pytest.mark.parametrize("budget", [40, 255])
def test_wave_that_does_not_start_full_is_refused(opened, workloads, admission, budget):
    engine = opened(admission=admission, max_num_batched_tokens=budget)
    started = budget // 16
    with pytest.raises(
        EngineError, match=f"a wave of 16 requests began with {started} .*max_num_batched_tokens"
    ):
        engine.serve(workloads["A"][:32])


@pytest.mark.parametrize("admission", ["padded", "wave"])
def test_last_wave_may_be_smaller(opened, workloads, admission):
    served = opened(admission=admission).serve(workloads["A"][:20])
    assert [step.rows for step in served.steps] == [16] * 23 + [4] * 23


def test_request_that_was_sent_back_is_counted(opened, loop):
    """4 requests that grow to 3 blocks each in 7 blocks: somebody must give way."""
    requests = requests_of(random.Random(4), [24] * 4, prompts=(16, 16))
    served = opened(slots=4, kv_blocks=7).serve(requests)
    assert sum(r.preemptions for r in served.requests) > 0
    assert sum(r.preemptions for r in served.requests) == sum(s.preempted for s in served.steps)
    assert max(step.kv_used for step in served.steps) > 0.8
    assert max(step.kv_tokens for step in served.steps) <= 7 * 16
    # and some tokens were computed again
    assert sum(step.tokens for step in served.steps) > 4 * (16 + 24 - 1)
    assert other_work(requests, served) is None
    assert served.tokens == loop.serve(requests).tokens


# --- requests that arrive later


def test_late_requests_are_served_from_their_arrival_on(opened, loop):
    """Twelve arrivals of a Poisson process, then a pause in which the engine runs empty."""
    draw = random.Random(5)
    requests, at = [], 0.0
    for request in requests_of(draw, [draw.randint(1, 30) for _ in range(12)]):
        requests.append(Request(request.prompt, request.output_tokens, at))
        at += draw.expovariate(200)
    pause = at + 0.5
    requests.append(Request(requests[0].prompt, 7, pause))
    served = opened(slots=4).serve(requests)
    assert other_work(requests, served) is None
    at_once = [Request(r.prompt, r.output_tokens) for r in requests]
    assert served.tokens == loop.serve(at_once).tokens
    records = served.requests
    assert [r.arrival_s for r in records] == [r.arrival_s for r in requests]
    assert all(r.admitted_s >= r.arrival_s + r.late_s for r in records)
    assert records[0].late_s == 0 and all(r.late_s > 0 for r in records[1:])
    # first come, first served, with never more than 4 at once
    admitted = [r.admitted_s for r in records]
    assert admitted == sorted(admitted)
    assert max(step.rows for step in served.steps) <= 4
    # nobody else was there: 7 steps of one row
    assert [(s.rows, s.waiting) for s in served.steps if s.t_s >= pause] == [(1, 0)] * 7
    assert max(r.returned_s for r in records[:-1]) < pause


def test_engine_may_begin_empty(opened):
    requests = [Request((1, 2, 3), 4, arrival_s=0.2)]
    served = opened(slots=4).serve(requests)
    assert other_work(requests, served) is None
    assert served.steps[0].t_s >= 0.2


@pytest.mark.parametrize("admission", ["padded", "wave"])
def test_waves_take_no_late_requests(opened, admission):
    with pytest.raises(EngineError, match=f"admission: {admission} takes no requests that arrive"):
        opened(admission=admission).serve([Request((1, 2), 3, arrival_s=1.0)])


# --- what the library refuses, and what it reports


def test_request_beyond_the_longest_is_refused(opened):
    with pytest.raises(EngineError, match=r"request 1 needs 60 \+ 37 tokens.*max_model_len: 96"):
        opened(slots=4).serve([Request((1,) * 60, 36), Request((1,) * 60, 37)])


def test_failure_inside_the_library_is_an_error_and_no_hang(checkpoint):
    """A prompt of 3 blocks, and a cache of 2."""
    spec = {"engine": "few", "dtype": "float32", "device": "cpu", "slots": 2, "max_model_len": 96}
    spec["options"] = {"block_size": 16, "kv_blocks": 2, "max_num_batched_tokens": 64}
    engine = transformers_cb.open_engine(spec, checkpoint)
    try:
        with pytest.raises(EngineError, match=r"few: transformers failed: No requests can"):
            engine.serve([Request((1,) * 48, 4)])
        with pytest.raises(EngineError, match=r"engines\.few: transformers"):
            engine.serve([Request((1,) * 8, 4)])
    finally:
        engine.close()


def test_settings_of_a_checkpoint_change_no_token(opened, checkpoint, tmp_path):
    """Sampling, penalties and an end of sequence, as an instruct model brings them along."""
    requests = requests_of(random.Random(6), [40] * 4)
    plain = opened(slots=4).serve(requests).tokens
    shutil.copytree(checkpoint.folder, tmp_path / "copy")
    ends = {"eos_token_id": plain[0][5], "pad_token_id": 0}
    config = json.loads((tmp_path / "copy/config.json").read_text())
    (tmp_path / "copy/config.json").write_text(json.dumps({**config, **ends}))
    own = {**ends, "do_sample": True, "temperature": 5.0, "top_k": 9, "repetition_penalty": 2.0}
    (tmp_path / "copy/generation_config.json").write_text(json.dumps(own))
    spec = {"engine": "own", "dtype": "float32", "device": "cpu", "slots": 4, "max_model_len": 96}
    engine = transformers_cb.open_engine(
        {**spec, "options": {}}, replace(checkpoint, folder=str(tmp_path / "copy"))
    )
    try:
        assert engine.manager.model.generation_config.repetition_penalty == 2.0
        assert engine.serve(requests).tokens == plain
        # and these are the library's own sizes, with a block for each slot
        options = ("block_size", "kv_blocks", "max_num_batched_tokens", "admission")
        assert [engine.applied[name] for name in options] == [256, 4, 8192, "continuous"]
    finally:
        engine.close()


def test_engine_reports_what_it_applied(opened):
    applied = opened(admission="wave").applied
    assert applied.pop("attention_backend") in ("sdpa", "paged|sdpa")
    assert applied.pop("threads") >= 1
    assert applied == {
        "slots": 16,
        "dtype": "float32",
        "device": "cpu",
        "max_model_len": 96,
        "max_num_batched_tokens": 1024,
        "prefix_caching": False,
        "admission": "wave",
        "reservation": "on_demand",
        "scheduler": "fourcells.engines.transformers_scheduler.GatedFIFOScheduler",
        "async_scheduling": False,
        "graphs": "none",
        # by default each slot can hold a request of the greatest length
        "kv_blocks": 96,
        "block_size": 16,
        "kv_capacity_tokens": 16 * 96,
        "max_concurrency": 16.0,
    }


def test_all_admissions_use_the_librarys_scheduler_with_one_switch(opened):
    from transformers.generation.continuous_batching.scheduler import FIFOScheduler

    schedulers = [opened(admission=admission).scheduler for admission in ADMISSIONS]
    assert len({type(scheduler) for scheduler in schedulers}) == 1
    assert isinstance(schedulers[0], FIFOScheduler)
    assert {scheduler.safety_margin for scheduler in schedulers} == {0.0}
    assert [scheduler.admission for scheduler in schedulers] == list(ADMISSIONS)


def test_library_stamps_tokens_with_the_clock_of_the_steps():
    clocks = {time.get_clock_info(name).implementation for name in ("perf_counter", "monotonic")}
    assert len(clocks) == 1


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"block_size": 2}, "block_size: 2 is less than 4, the library's smallest"),
        ({"max_num_batched_tokens": 3}, "max_num_batched_tokens: 3 is less than slots = 4"),
    ],
)
def test_options_that_the_library_would_refuse_or_change(spec, options, what):
    spec["options"] = options
    key = "engines.static.options or scales.tiny.backends.transformers"
    assert transformers_cb.problem(spec) == f"{key}: {what}"


def test_spec_that_fits_has_no_problem(spec):
    spec["options"] = {"block_size": 16, "max_num_batched_tokens": 4, "admission": "wave"}
    assert transformers_cb.problem(spec) is None


# --- the log


def state(name, *stamps):
    return SimpleNamespace(request_id=name, timestamps=list(stamps))


def logged(start, *rows, waiting=0, preempted=()):
    return LoggedStep(start, [Row(*row) for row in rows], waiting, 0.5, 7, list(preempted))


def test_row_that_is_scheduled_past_its_end_is_no_useful_row():
    """Asynchronous batching: request 1 ends in step 1, which step 2 does not know yet."""
    zero, one = state("0", 11.5, 12.5, 13.5), state("1", 11.6, 12.6)
    requests = [Request((1, 2, 3), 3), Request((1, 2), 2)]
    steps, seen = follow(
        [
            logged(10.0, (zero, 3, True), (one, 2, True)),
            logged(11.0, (zero, 1, True), (one, 1, True)),
            logged(12.0, (zero, 1, True), (one, 1, True)),
            logged(13.0, (zero, 1, True)),
        ],
        requests,
        t0=10.0,
    )
    assert shape(steps) == [(2, 2, 0), (2, 2, 0), (2, 1, 0), (1, 0, 0)]
    assert [each.times for each in seen] == [[1.5, 2.5, 3.5], [1.5, 2.5]]
    assert [each.prefilled for each in seen] == [3, 2]


def test_request_that_was_sent_back_goes_on_where_it_was():
    """It comes back as another state, whose prompt holds the token it had."""
    before, after = state("0", 1.5), state("0", 3.5, 4.5)
    steps, (seen,) = follow(
        [
            logged(1.0, (before, 4, True)),
            logged(2.0, (before, 1, False), preempted=["0"]),
            logged(3.0, (after, 5, True)),
            logged(4.0, (after, 1, True)),
        ],
        [Request((1,) * 4, 3)],
        t0=0.0,
    )
    assert seen.times == [1.5, 3.5, 4.5]
    assert (seen.step, seen.wave, seen.prefilled, seen.preemptions) == (0, 1, 4, 1)
    assert [s.useful_rows for s in steps] == [1, 0, 1, 1]


def test_prompt_tokens_from_a_cache_are_missed():
    _, (seen,) = follow([logged(1.0, (state("0", 1.5), 1, True))], [Request((1,) * 9, 1)], t0=0.0)
    assert seen.prefilled == 1


@given(
    asked=st.integers(1, 9),
    given_tokens=st.integers(0, 9),
    start=st.integers(0, 5),
)
def test_useful_rows_are_the_tokens_a_request_asked_for_and_got(asked, given_tokens, start):
    only = state("0", *(start + step + 0.5 for step in range(given_tokens)))
    log = [logged(float(start + step), (only, 1, True)) for step in range(12)]
    steps, (seen,) = follow(log, [Request((1,), asked)], t0=float(start))
    assert sum(step.useful_rows for step in steps) == min(asked, given_tokens)
    assert seen.times == [step + 0.5 for step in range(given_tokens)]
