"""The hand-written loop: the tokens of plain greedy generation, the steps of the schedule."""

import random
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fourcells.engines import rows, torch_loop
from fourcells.engines.torch_loop import TorchLoop
from fourcells.schedule import ADMISSIONS, padded_lengths
from fourcells.simulator import simulate
from fourcells.workload import Request

# Prompts of 1 to 40 tokens, and the longest output that any test asks for.
LENGTHS = (1, 2, 3, 5, 8, 13, 21, 33, 39, 40)
LONGEST = 40
MAX_LEN = 96


@pytest.fixture(scope="module")
def prompts():
    draw = random.Random(1)
    return [tuple(draw.choices(range(512), k=length)) for length in LENGTHS]


@pytest.fixture(scope="module")
def greedy(checkpoint, prompts):
    """What transformers itself generates, in one batch padded on the left: {prompt: 40 tokens}."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        checkpoint.folder, dtype=torch.float32, attn_implementation="eager"
    )
    width = max(LENGTHS)
    ids = torch.tensor([[0] * (width - len(p)) + list(p) for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    out = model.generate(
        ids, attention_mask=mask, max_new_tokens=LONGEST, do_sample=False, pad_token_id=0
    )
    assert out.shape == (len(prompts), width + LONGEST)
    alone = model.generate(
        torch.tensor([prompts[3]]), max_new_tokens=LONGEST, do_sample=False, pad_token_id=0
    )
    # the padding on the left is invisible, so the batch is a fair reference
    assert alone[0, len(prompts[3]) :].tolist() == out[3, width:].tolist()
    return dict(zip(prompts, out[:, width:].tolist(), strict=True))


@pytest.fixture(scope="module")
def engine(checkpoint):
    """An engine by slots and admission; each is loaded once."""
    loaded = {}

    def open_engine(slots=4, admission="padded", max_len=MAX_LEN):
        key = slots, admission, max_len
        if key not in loaded:
            loaded[key] = TorchLoop(
                {
                    "options": {"admission": admission},
                    "dtype": "float32",
                    "device": "cpu",
                    "slots": slots,
                    "max_model_len": max_len,
                },
                checkpoint,
            )
        return loaded[key]

    return open_engine


def requests_of(prompts, outputs):
    return [Request(prompt, output) for prompt, output in zip(prompts, outputs, strict=True)]


def expected(requests, greedy):
    return [greedy[request.prompt][: request.output_tokens] for request in requests]


def assert_served(engine, requests, greedy):
    """The tokens are greedy generation's, the steps are the simulator's."""
    served = engine.serve(requests)
    assert served.tokens == expected(requests, greedy)
    lengths = [request.output_tokens for request in requests]
    planned = simulate(lengths, engine.applied["slots"], engine.admission).steps
    assert [(s.rows, s.useful_rows, s.waiting) for s in served.steps] == [
        (s.rows, s.useful_rows, s.waiting) for s in planned
    ]
    return served


def test_greedy_output_of_the_tiny_model_varies(greedy):
    """Else equal tokens would prove nothing: a model may repeat one token for ever."""
    assert min(len(set(tokens)) for tokens in greedy.values()) > 20
    assert len({token for tokens in greedy.values() for token in tokens}) > 150


# --- tokens and steps


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_equal_prompts_give_greedy_tokens(engine, greedy, prompts, admission):
    requests = requests_of([prompts[4]] * 6, [8, 2, 3, 4, 4, 6])
    assert_served(engine(4, admission), requests, greedy)


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_prompts_of_1_to_40_tokens_give_greedy_tokens(engine, greedy, prompts, admission):
    requests = requests_of(prompts, [40, 3, 17, 1, 25, 9, 2, 30, 12, 5])
    assert_served(engine(4, admission), requests, greedy)


@settings(max_examples=40, deadline=None)
@given(
    order=st.permutations(range(len(LENGTHS))),
    outputs=st.lists(st.integers(1, LONGEST), min_size=1, max_size=len(LENGTHS)),
    slots=st.sampled_from([1, 3, 4, 16]),
    admission=st.sampled_from(ADMISSIONS),
)
def test_any_order_of_any_outputs_gives_greedy_tokens(
    engine, greedy, prompts, order, outputs, slots, admission
):
    chosen = [prompts[i] for i in order[: len(outputs)]]
    assert_served(engine(slots, admission), requests_of(chosen, outputs), greedy)


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_one_token_each_takes_one_step_per_batch(engine, greedy, prompts, admission):
    served = assert_served(engine(4, admission), requests_of(prompts, [1] * 10), greedy)
    assert [step.rows for step in served.steps] == [4, 4, 2]


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_fewer_requests_than_slots(engine, greedy, prompts, admission):
    served = assert_served(engine(16, admission), requests_of(prompts[:3], [5, 1, 7]), greedy)
    assert len(served.steps) == 7
    assert [step.waiting for step in served.steps] == [0] * 7


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_one_slot_serves_one_after_the_other(engine, greedy, prompts, admission):
    served = assert_served(engine(1, admission), requests_of(prompts[:3], [5, 1, 7]), greedy)
    assert len(served.steps) == 13


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_no_request_takes_no_step(engine, admission):
    served = engine(4, admission).serve([])
    assert (served.requests, served.steps, served.tokens) == ([], [], [])


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_second_window_of_an_engine_gives_the_same_tokens(engine, greedy, prompts, admission):
    long = requests_of(prompts, [LONGEST] * 10)
    short = requests_of(prompts, [3] * 10)
    for requests in (long, short, long):
        assert_served(engine(4, admission), requests, greedy)


def test_finished_row_of_a_padded_batch_may_outgrow_its_region(engine, greedy, prompts):
    """Prompt 40 with 2 tokens beside prompt 1 with 40: row 0 ages to 80 places, it has 48."""
    requests = requests_of(
        [prompts[9], prompts[0], prompts[8], prompts[1], prompts[7], prompts[2]],
        [2, 40, 8, 40, 15, 40],
    )
    assert_served(engine(3, "padded", max_len=48), requests, greedy)


def test_request_may_fill_its_region_to_the_last_place(engine, greedy, prompts):
    requests = requests_of([prompts[9], prompts[9]], [8, 8])
    assert_served(engine(2, "continuous", max_len=48), requests, greedy)


def test_bfloat16_admissions_agree_where_rows_are_computed_alike(checkpoint, prompts):
    spec = {"dtype": "bfloat16", "device": "cpu", "slots": 3, "max_model_len": MAX_LEN}
    requests = requests_of([prompts[5]] * 6, [8] * 6)
    tokens = [
        TorchLoop({**spec, "options": {"admission": admission}}, checkpoint).serve(requests).tokens
        for admission in ADMISSIONS
    ]
    assert tokens[0] == tokens[1] == tokens[2]


# --- arrivals


@contextmanager
def step_of_one_second(engine):
    """A clock of which every step takes one second, and all else but sleeping nothing."""
    clock = SimpleNamespace(now=1000.0)

    def sleep(seconds):
        clock.now += seconds

    def decode(in_use):
        clock.now += 1
        return TorchLoop.decode(engine, in_use)

    def prefill(prompts, first):
        clock.now += first == 0  # else the rows in use have decoded in this step
        return TorchLoop.prefill(engine, prompts, first)

    with pytest.MonkeyPatch.context() as patch:
        for module in (rows, torch_loop):
            patch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
        patch.setattr(engine, "decode", decode, raising=False)
        patch.setattr(engine, "prefill", prefill, raising=False)
        yield


def arriving(prompts, outputs, arrivals):
    return [Request(*one) for one in zip(prompts, outputs, arrivals, strict=False)]


def test_arrivals_are_seen_at_the_next_step_and_an_empty_engine_sleeps(engine, greedy, prompts):
    """Two slots. Request 2 finds both taken, request 3 nobody at all."""
    loop = engine(2, "continuous")
    requests = arriving(prompts, [3, 2, 1, 2], [0.0, 0.5, 0.5, 7.25])
    with step_of_one_second(loop):
        served = loop.serve(requests)
    assert served.tokens == expected(requests, greedy)
    assert [(s.t_s, s.rows, s.waiting) for s in served.steps] == [
        (0, 1, 0),
        (1, 2, 1),
        (2, 2, 1),
        (3, 1, 0),
        (7.25, 1, 0),
        (8.25, 1, 0),
    ]
    assert [
        (r.arrival_s, r.admitted_s, r.first_token_s, r.finished_s, r.returned_s, r.late_s)
        for r in served.requests
    ] == [
        (0, 0, 1, 3, 3, 0),
        (0.5, 1, 2, 3, 3, 0),
        (0.5, 3, 4, 4, 4, 0),
        (7.25, 7.25, 8.25, 9.25, 9.25, 0),
    ]


def test_nobody_there_at_t0(engine, greedy, prompts):
    loop = engine(2, "continuous")
    requests = arriving(prompts, [2, 1], [3.5, 3.5])
    with step_of_one_second(loop):
        served = loop.serve(requests)
    assert served.tokens == expected(requests, greedy)
    assert [(s.t_s, s.rows) for s in served.steps] == [(3.5, 2), (4.5, 1)]


def test_real_clock_waits_for_the_arrival(engine, greedy, prompts):
    requests = arriving(prompts, [3, 2], [0.02, 0.05])
    served = engine(2, "continuous").serve(requests)
    assert served.tokens == expected(requests, greedy)
    assert all(r.admitted_s >= r.arrival_s for r in served.requests)
    assert served.steps[0].t_s >= 0.02


@settings(max_examples=20, deadline=None)
@given(
    requests=st.lists(
        st.tuples(st.integers(1, 12), st.integers(0, 120).map(lambda n: n / 4)),
        min_size=1,
        max_size=len(LENGTHS),
    ),
    slots=st.sampled_from([1, 3, 16]),
    admission=st.sampled_from(ADMISSIONS),
)
def test_any_arrivals_are_served_in_their_order_nobody_early_and_as_simulated(
    engine, greedy, prompts, requests, slots, admission
):
    outputs, arrivals = zip(*requests, strict=True)
    asked = arriving(prompts, outputs, arrivals)
    loop = engine(slots, admission)
    with step_of_one_second(loop):
        served = loop.serve(asked)
    assert served.tokens == expected(asked, greedy)
    assert all(r.admitted_s >= r.arrival_s for r in served.requests)
    in_order = sorted(served.requests, key=lambda r: (r.arrival_s, r.request))
    admitted = [r.admitted_s for r in in_order]
    assert admitted == sorted(admitted)
    planned = simulate(outputs, slots, admission, arrivals=arrivals)
    assert [(s.rows, s.useful_rows, s.waiting) for s in served.steps] == [
        (s.rows, s.useful_rows, s.waiting) for s in planned.steps
    ]
    for found, plan in zip(served.requests, planned.requests, strict=True):
        times = found.admitted_s, found.first_token_s, found.finished_s, found.returned_s
        assert times == (plan.admitted_s, plan.first_s, plan.finished_s, plan.returned_s)


# --- records


@pytest.fixture(scope="module")
def served(engine, prompts):
    """One window per admission: ten requests in four slots."""
    requests = requests_of(prompts, [8, 2, 3, 4, 4, 6, 1, 9, 5, 5])
    return {admission: engine(4, admission).serve(requests) for admission in ADMISSIONS}


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_records_come_in_the_order_of_the_requests(served, admission):
    records = served[admission].requests
    assert [r.request for r in records] == list(range(10))
    assert [r.prompt_tokens for r in records] == list(LENGTHS)
    outputs = [8, 2, 3, 4, 4, 6, 1, 9, 5, 5]
    assert [r.output_tokens for r in records] == outputs
    assert [r.produced_tokens for r in records] == outputs
    assert {(r.arrival_s, r.cached_tokens, r.preemptions) for r in records} == {(0.0, 0, 0)}


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_times_come_in_the_order_of_events(served, admission):
    for r in served[admission].requests:
        assert 0 <= r.admitted_s < r.first_token_s <= r.finished_s <= r.returned_s
        assert (r.first_token_s == r.finished_s) is (r.output_tokens == 1)


@pytest.mark.parametrize("admission", ["wave", "continuous"])
def test_finished_row_returns_at_once(served, admission):
    assert all(r.finished_s == r.returned_s for r in served[admission].requests)


def test_padded_batch_returns_together_when_its_longest_ends(served):
    records = served["padded"].requests
    for batch in (records[:4], records[4:8], records[8:]):
        assert {r.returned_s for r in batch} == {max(r.finished_s for r in batch)}
        assert len({r.admitted_s for r in batch}) == len({r.first_token_s for r in batch}) == 1
    assert len({r.returned_s for r in records}) == 3
    assert records[1].finished_s < records[1].returned_s


def test_waves_are_numbered_from_one_and_continuous_has_none(served):
    for admission in ("padded", "wave"):
        waves = [r.wave for r in served[admission].requests]
        assert waves == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3]
    assert [r.wave for r in served["continuous"].requests] == [None] * 10


def test_waiting_counts_those_without_a_slot(served):
    assert [s.waiting for s in served["padded"].steps] == [6] * 8 + [2] * 9 + [0] * 5
    assert [s.waiting for s in served["wave"].steps] == [6] * 8 + [2] * 9 + [0] * 5
    waiting = [s.waiting for s in served["continuous"].steps]
    assert waiting == [6, 6, 5, 4, 3, 2, 1, 1] + [0] * 6


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_steps_are_numbered_and_their_starts_grow(served, admission):
    steps = served[admission].steps
    assert [step.step for step in steps] == list(range(len(steps)))
    starts = [step.t_s for step in steps]
    assert starts == sorted(set(starts))
    assert starts[0] >= 0


def test_kv_used_is_the_share_of_regions_that_are_held(served):
    assert {s.kv_used for s in served["padded"].steps} == {1.0, 0.5}
    assert [s.kv_used for s in served["wave"].steps][:8] == [
        1,
        1,
        0.75,
        0.5,
        0.25,
        0.25,
        0.25,
        0.25,
    ]
    for each in served.values():
        assert all(step.kv_used == step.rows / 4 for step in each.steps)


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_kv_tokens_are_those_computed_so_far(served, admission):
    """In its n-th step a row has its prompt and the n tokens it was fed; a finished row of a padded
    batch goes on."""
    outputs = [8, 2, 3, 4, 4, 6, 1, 9, 5, 5]
    steps = padded_lengths(outputs, 4) if admission == "padded" else outputs
    assert sum(step.kv_tokens for step in served[admission].steps) == sum(
        prompt * n + n * (n - 1) // 2 for prompt, n in zip(LENGTHS, steps, strict=True)
    )
    assert served[admission].steps[0].kv_tokens == sum(LENGTHS[:4])


def test_tokens_of_a_step_are_prompts_of_the_entering_and_one_per_row(served):
    assert [s.tokens for s in served["padded"].steps] == (
        [11] + [4] * 7 + [8 + 13 + 21 + 33] + [4] * 8 + [79] + [2] * 4
    )
    assert [s.tokens for s in served["wave"].steps][:9] == [11, 4, 3, 2, 1, 1, 1, 1, 75]
    # request 4, with 8 prompt tokens, enters at step 2, beside three that decode
    assert served["continuous"].steps[2].tokens == 3 + 8


def test_engine_reports_what_it_applied(engine):
    applied = engine(4, "wave").applied
    assert {k: applied[k] for k in ("slots", "dtype", "device", "max_model_len", "admission")} == {
        "slots": 4,
        "dtype": "float32",
        "device": "cpu",
        "max_model_len": 96,
        "admission": "wave",
    }
    assert applied["kv_capacity_tokens"] == 384
    assert applied["max_concurrency"] == 4.0
    assert applied["prefix_caching"] is False
    assert applied["attention_backend"] == "sdpa (four_cells_slots)"
    assert (applied["mode"], applied["graphs"]) == ("eager", "none")


def test_padded_is_the_default(checkpoint):
    spec = {"options": {}, "dtype": "float32", "device": "cpu", "slots": 1, "max_model_len": 8}
    assert TorchLoop(spec, checkpoint).applied["admission"] == "padded"
