"""The simulator: the lesson's step counts and picture, and what no schedule can break."""

import heapq
import math
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourcells import engines
from fourcells.schedule import ADMISSIONS, padded_lengths
from fourcells.simulator import bounds, simulate
from fourcells.workload import lengths, make_requests

A = [184] * 64
B = [32, 64, 128, 512] * 16
PICTURE = [8, 2, 3, 4, 4, 6]  # requests A to F


def steps(lengths, slots, admission, **options):
    return len(simulate(lengths, slots, admission, **options).steps)


def admission_steps(simulation):
    return sum(step.entering > 0 for step in simulation.steps)


@pytest.mark.parametrize(
    ("lengths", "slots", "admission", "expected"),
    [
        *((A, 16, admission, 736) for admission in ADMISSIONS),
        (A, 256, "padded", 184),
        (A, 256, "continuous", 184),
        (B, 16, "padded", 2048),
        (B, 16, "wave", 2048),
        (B, 16, "continuous", 1056),
        *((B, 256, admission, 512) for admission in ADMISSIONS),
        *((sorted(B), 16, admission, 736) for admission in ADMISSIONS),
        (B * 4, 16, "continuous", 3232),
        (B * 4, 16, "wave", 8192),
        ([46] * 64, 16, "continuous", 184),
        ([8, 16, 32, 128] * 16, 16, "padded", 512),
        ([8, 16, 32, 128] * 16, 16, "continuous", 264),
        ([], 16, "continuous", 0),
        ([1], 1, "padded", 1),
    ],
)
def test_step_counts_are_the_lessons(lengths, slots, admission, expected):
    assert steps(lengths, slots, admission) == expected


@pytest.mark.parametrize(
    ("copies", "delay", "count", "admitting"),
    [(1, 0, 1056, 18), (1, 1, 1058, 29), (4, 0, 3232, 86), (4, 1, 3252, 197)],
)
def test_slot_that_is_freed_a_step_late_costs_few_steps_and_many_admissions(
    copies, delay, count, admitting
):
    """1058 steps with 29 admissions and 3252 are what vLLM took on a GPU."""
    served = simulate(B * copies, 16, "continuous", release_delay=delay)
    assert (len(served.steps), admission_steps(served)) == (count, admitting)


@pytest.mark.parametrize(("lengths", "admission"), [(A, "continuous"), (B, "wave"), (B, "padded")])
def test_steps_without_a_row_are_not_counted(lengths, admission):
    """All rows of a batch leave together: the step in which the slots are not yet seen to be free
    computes nothing."""
    now, late = (simulate(lengths, 16, admission, release_delay=delay) for delay in (0, 1))
    assert now == late
    assert admission_steps(now) == 4


def test_padded_b_computes_64_percent_in_vain():
    served = simulate(B, 16, "padded").steps
    rows, useful = sum(s.rows for s in served), sum(s.useful_rows for s in served)
    assert (rows, useful) == (16 * 2048, 11776)
    assert 1 - useful / rows == pytest.approx(1 - 184 / 512)


def test_wave_computes_nothing_in_vain():
    assert all(s.rows == s.useful_rows for s in simulate(B, 16, "wave").steps)


def test_queue_of_continuous_b_is_empty_from_step_544():
    served = simulate(B, 16, "continuous").steps
    waiting = [step.waiting for step in served]
    assert waiting.index(0) == 544
    assert set(waiting[544:]) == {0}
    assert [step.rows for step in served[:576]] == [16] * 576
    assert round(sum(step.rows for step in served) / (16 * 1056), 3) == 0.697


def test_last_three_quarters_of_256_slots_run_the_longest_alone():
    assert [s.rows for s in simulate(B, 256, "continuous").steps][128:] == [16] * 384


# --- requests


@pytest.mark.parametrize(
    ("lengths", "slots", "admission", "expected"),
    [
        (A, 16, "continuous", {184: (277, 460)}),
        (A, 256, "continuous", {184: (1, 184)}),
        (B, 16, "continuous", {32: (129, 160), 64: (145, 208), 128: (145, 272), 512: (145, 656)}),
        (B, 256, "continuous", {32: (1, 32), 64: (1, 64), 128: (1, 128), 512: (1, 512)}),
        (B, 16, "padded", dict.fromkeys((32, 64, 128, 512), (769, 1280))),
    ],
)
def test_median_first_token_and_return_in_steps(lengths, slots, admission, expected):
    """Counted from 1: after how many steps the request had them."""
    served = simulate(lengths, slots, admission).requests
    found = {}
    for length in set(lengths):
        own = [r for r, n in zip(served, lengths, strict=True) if n == length]
        first, returned = (r.first_step + 1 for r in own), (r.returned_step + 1 for r in own)
        found[length] = (median(first), median(returned))
    assert found == expected


def test_padded_batch_is_returned_together_and_finished_one_by_one():
    served = simulate(B, 16, "padded").requests
    assert [r.finished_step + 1 for r in served[:4]] == [32, 64, 128, 512]
    assert {r.returned_step + 1 for r in served[:16]} == {512}
    assert {r.admitted_step for r in served[16:32]} == {512}


# --- the picture of section 1


def test_padded_picture_takes_14_steps():
    picture = simulate(PICTURE, 4, "padded").steps
    assert [step.holders for step in picture] == ([(0, 1, 2, 3)] * 8 + [(4, 5, None, None)] * 6)
    assert [step.useful for step in picture[:4]] == [
        (True, True, True, True),
        (True, True, True, True),
        (True, False, True, True),
        (True, False, False, True),
    ]
    assert picture[12].useful == (False, True, False, False)
    assert [step.waiting for step in picture] == [2] * 8 + [0] * 6


def test_continuous_picture_refills_the_slot_of_b_then_that_of_c():
    picture = simulate(PICTURE, 4, "continuous").steps
    assert [step.holders for step in picture] == [
        (0, 1, 2, 3),
        (0, 1, 2, 3),
        (0, 4, 2, 3),  # E in B's slot
        (0, 4, 5, 3),  # F in C's
        (0, 4, 5, None),
        (0, 4, 5, None),
        (0, None, 5, None),
        (0, None, 5, None),
        (None, None, 5, None),
    ]
    assert [step.waiting for step in picture] == [2, 2, 1, 0, 0, 0, 0, 0, 0]
    assert [step.entering for step in picture] == [4, 0, 1, 1, 0, 0, 0, 0, 0]


def test_picture_with_slots_seen_free_a_step_late():
    picture = simulate(PICTURE, 4, "continuous", release_delay=1).steps
    assert [step.holders for step in picture[:6]] == [
        (0, 1, 2, 3),
        (0, 1, 2, 3),
        (0, None, 2, 3),  # B has left, E may not enter yet
        (0, 4, None, 3),
        (0, 4, 5, None),
        (0, 4, 5, None),
    ]


def test_wave_picture_leaves_slots_empty_until_the_batch_is_gone():
    picture = simulate(PICTURE, 4, "wave").steps
    assert [step.rows for step in picture] == [4, 4, 3, 2, 1, 1, 1, 1, 2, 2, 2, 2, 1, 1]
    assert picture[8].holders == (4, 5, None, None)


# --- tokens per step, and a budget for them


def test_a_step_computes_whole_prompts_and_one_token_per_other_row():
    served = simulate(B, 16, "continuous", prompt_tokens=[128] * 64).steps
    assert served[0].tokens == 16 * 128
    assert served[1].tokens == 16
    # four slots of 32 tokens are free: four prompts, twelve tokens
    assert (served[32].entering, served[32].tokens) == (4, 4 * 128 + 12)
    assert sum(step.tokens for step in served) == 64 * 128 + 11776 - 64


def test_prompts_are_cut_to_the_budget():
    served = simulate([2, 3, 1], 2, "continuous", prompt_tokens=[6, 3, 1], budget=4)
    assert [(s.holders, s.useful, s.waiting, s.tokens) for s in served.steps] == [
        ((0, None), (False, False), 2, 4),  # 4 of 6
        ((0, 1), (True, False), 1, 4),  # the other 2, then 2 of 3
        ((0, 1), (True, True), 1, 2),
        ((2, 1), (True, True), 0, 2),
        ((None, 1), (False, True), 0, 1),
    ]
    first = [(r.admitted_step, r.first_step, r.finished_step) for r in served.requests]
    assert first == [(0, 1, 2), (1, 2, 4), (3, 3, 3)]


def test_rows_in_use_come_before_a_prompt_that_was_cut():
    served = simulate([4, 2], 2, "continuous", prompt_tokens=[1, 5], budget=3).steps
    assert [(s.rows, s.useful_rows, s.tokens) for s in served] == [
        (2, 1, 3),  # 1 + 2 of 5
        (2, 1, 3),  # 1 + 2
        (2, 2, 2),  # 1 + the last 1
        (2, 2, 2),
    ]


def test_budget_for_all_prompts_changes_nothing():
    prompts = [128] * 64
    assert simulate(B, 16, "continuous", prompt_tokens=prompts, budget=2048) == simulate(
        B, 16, "continuous", prompt_tokens=prompts
    )


@pytest.mark.slow
@pytest.mark.parametrize("budget", [17, 48])
def test_vllm_cuts_prompts_as_simulated(budget, checkpoint, spec):
    """One real load each on this CPU: the rows, tokens and queue of every step."""
    pytest.importorskip("vllm")
    import torch

    options = {
        "enforce_eager": True,
        "engine_process": False,
        "block_size": 32,
        "kv_cache_gib": 0.25,
        "max_num_batched_tokens": budget,
    }
    requests = {
        "count": 24,
        "prompt_tokens": [32, 100, 7, 61],
        "output_tokens": [8, 3, 16, 1, 20],
        "order": "cyclic",
    }
    spec |= {"engine": "vllm", "backend": "vllm", "options": options, "requests": requests}
    spec |= {"max_model_len": 128, "threads": torch.get_num_threads()}
    engine = engines.open_engine(spec, checkpoint)
    try:
        measured = engine.serve(make_requests(spec, 512, 1)).steps
    finally:
        engine.close()
    prompts, outputs = zip(*lengths(requests, seed=1), strict=True)
    served = simulate(outputs, 4, "continuous", prompt_tokens=prompts, budget=budget).steps
    assert any(step.rows > step.useful_rows for step in served)
    found = [(s.rows, s.useful_rows, s.waiting, s.tokens) for s in measured]
    assert found == [(s.rows, s.useful_rows, s.waiting, s.tokens) for s in served]


# --- arrivals, and how long a step takes


def test_clock_jumps_to_the_next_arrival():
    served = simulate([2, 1], 4, "continuous", arrivals=[0.5, 10.0])
    assert [(s.start_s, s.rows, s.waiting) for s in served.steps] == [
        (0.5, 1, 0),
        (1.5, 1, 0),
        (10.0, 1, 0),
    ]
    assert [(r.admitted_s, r.first_s, r.finished_s, r.returned_s) for r in served.requests] == [
        (0.5, 1.5, 2.5, 2.5),
        (10.0, 11.0, 11.0, 11.0),
    ]
    assert served.window_s == 11.0


def test_request_that_arrives_during_a_step_enters_the_next_one():
    served = simulate([3, 1], 4, "continuous", arrivals=[0.0, 0.1])
    assert [step.holders[:2] for step in served.steps] == [(0, None), (0, 1), (0, None)]
    assert (served.requests[1].admitted_s, served.requests[1].finished_s) == (1.0, 2.0)


def test_wave_lets_nobody_join_who_comes_late():
    served = simulate([3, 1], 4, "wave", arrivals=[0.0, 0.1])
    assert [(step.rows, step.waiting) for step in served.steps] == [(1, 0), (1, 1), (1, 1), (1, 0)]


def test_step_time_follows_rows_and_prompt_tokens():
    served = simulate(
        [2, 1, 1],
        2,
        "continuous",
        prompt_tokens=[5, 3, 7],
        arrivals=[0.0, 0.0, 0.0],
        seconds=lambda rows, more: 1.0 + 0.25 * rows + 0.5 * more,
    )
    # 2 rows with 4 + 2 further tokens; then 2 rows, one of them a prompt of 7
    assert [s.seconds for s in served.steps] == [4.5, 4.5]
    assert [s.start_s for s in served.steps] == [0.0, 4.5]
    assert served.window_s == 9.0


def test_poisson_load_that_the_slots_can_bear_leaves_no_queue():
    """Ten seconds between arrivals, five steps each: never more than one row."""
    served = simulate([5] * 20, 4, "continuous", arrivals=[10.0 * i for i in range(20)])
    assert {(s.rows, s.waiting) for s in served.steps} == {(1, 0)}
    assert [r.returned_s for r in served.requests] == [10.0 * i + 5 for i in range(20)]


# --- dose: what refilling can give at most


@pytest.mark.parametrize(
    ("slots", "ratio"), [(4, 2.56), (8, 2.33), (16, 1.94), (32, 1.60), (64, 1.00)]
)
@pytest.mark.parametrize("other", ["padded", "wave"])
def test_fewer_slots_give_refill_more_to_do(slots, ratio, other):
    assert round(steps(B, slots, other) / steps(B, slots, "continuous"), 2) == ratio


@pytest.mark.parametrize(
    ("copies", "ratio"), [(1, 1.94), (2, 2.33), (4, 2.53), (8, 2.65), (16, 2.72)]
)
def test_longer_queue_gives_refill_more_to_do(copies, ratio):
    queue = B * copies
    assert round(steps(queue, 16, "padded") / steps(queue, 16, "continuous"), 2) == ratio


# --- what holds for every workload

LENGTHS = st.lists(st.integers(1, 30), max_size=40)
SLOTS = st.integers(1, 20)


def test_bounds_of_b_at_16_slots():
    found = bounds(B, 16)
    assert (found.longest, found.share, found.graham) == (512, 736, 1216)


@given(LENGTHS, SLOTS)
def test_continuous_keeps_between_the_least_and_grahams_bound(lengths, slots):
    found, count = bounds(lengths, slots), steps(lengths, slots, "continuous")
    assert (found.longest, found.share) == (
        max(lengths, default=0),
        math.ceil(sum(lengths) / slots),
    )
    assert max(found.longest, found.share) <= count <= found.graham + 1e-9


@given(LENGTHS, SLOTS, st.sampled_from(ADMISSIONS), st.integers(0, 2))
def test_no_admission_beats_the_bounds(lengths, slots, admission, delay):
    found = bounds(lengths, slots)
    count = steps(lengths, slots, admission, release_delay=delay)
    assert count >= max(found.longest, found.share)


@given(LENGTHS, SLOTS, st.sampled_from(ADMISSIONS), st.integers(0, 2), st.data())
def test_useful_rows_are_the_tokens(lengths, slots, admission, delay, data):
    """Of every request in one piece from its first token on, whatever cuts and delays there are."""
    count = len(lengths)
    prompts = data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    budget = data.draw(st.none() | st.integers(slots, 60))
    arrivals = data.draw(st.lists(st.floats(0, 50), min_size=count, max_size=count))
    served = simulate(
        lengths,
        slots,
        admission,
        prompt_tokens=prompts,
        budget=budget,
        release_delay=delay,
        arrivals=arrivals,
    )
    useful = [
        [h for h, counts in zip(step.holders, step.useful, strict=True) if counts]
        for step in served.steps
    ]
    for request, (length, record) in enumerate(zip(lengths, served.requests, strict=True)):
        given_in = [n for n, holders in enumerate(useful) if request in holders]
        assert given_in == list(range(record.first_step, record.first_step + length))
        assert record.finished_step == given_in[-1] <= record.returned_step
        assert record.admitted_step <= record.first_step
        assert arrivals[request] <= record.admitted_s < record.first_s <= record.finished_s
    for step in served.steps:
        assert step.rows <= min(slots, step.tokens)
        assert budget is None or step.tokens <= budget
    computed = sum(prompts) + sum(lengths) - len(lengths)
    if admission == "padded":
        computed += sum(s.rows for s in served.steps) - sum(
            r.finished_step - r.admitted_step + 1 for r in served.requests
        )
    assert sum(step.tokens for step in served.steps) == computed
    ends = [step.start_s + step.seconds for step in served.steps]
    starts = [step.start_s for step in served.steps]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))


@given(LENGTHS, SLOTS)
def test_continuous_is_list_scheduling(lengths, slots):
    """The same count from another algorithm: each request goes to the slot that is free first."""
    free_at = [0] * slots
    for length in lengths:
        heapq.heapreplace(free_at, free_at[0] + length)
    assert steps(lengths, slots, "continuous") == max(free_at)


@given(LENGTHS, SLOTS)
def test_padded_and_wave_take_equally_many_steps(lengths, slots):
    expected = sum(padded_lengths(lengths, slots)[::slots])
    assert steps(lengths, slots, "padded") == steps(lengths, slots, "wave") == expected


@given(LENGTHS, SLOTS)
def test_asking_for_the_padded_lengths_is_a_padded_batch(lengths, slots):
    """How an engine without the padded rule gets it: the same rows in the same steps."""
    asked = simulate(padded_lengths(lengths, slots), slots, "wave").steps
    assert [s.holders for s in asked] == [
        s.holders for s in simulate(lengths, slots, "padded").steps
    ]


@given(LENGTHS, SLOTS)
def test_continuous_leaves_no_slot_free_while_someone_waits(lengths, slots):
    assert all(s.rows == slots for s in simulate(lengths, slots, "continuous").steps if s.waiting)


@given(LENGTHS, SLOTS, st.sampled_from(ADMISSIONS))
def test_no_request_overtakes_another(lengths, slots, admission):
    admitted = [r.admitted_step for r in simulate(lengths, slots, admission).requests]
    assert admitted == sorted(admitted)


# --- what is no schedule


def test_unknown_admission_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'lazy' is not one of padded, wave, continuous"):
        simulate([1], 1, "lazy")


@pytest.mark.parametrize(("lengths", "slots"), [([1], 0), ([0], 1), ([3, -1], 2)])
def test_no_slot_and_no_token_are_refused(lengths, slots):
    with pytest.raises(ValueError, match="at least 1"):
        simulate(lengths, slots, "wave")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_tokens": [1]}, "prompt_tokens: 1 given for 2 requests"),
        ({"arrivals": [0.0] * 3}, "arrivals: 3 given for 2 requests"),
        ({"prompt_tokens": [4, 0]}, "must have a token"),
        ({"arrivals": [0.0, -1.0]}, "must not be negative"),
        ({"release_delay": -1}, "must not be negative"),
        ({"budget": 1}, "budget: 1 tokens give some of 2 rows nothing"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        simulate([5, 5], 2, "continuous", **options)
