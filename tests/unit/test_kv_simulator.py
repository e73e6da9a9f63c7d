"""Steps under a limited KV cache: by hand, by theory, and as real vLLM took them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourcells.analysis.kv_simulator import serve
from fourcells.schedule import least_tokens
from fourcells.simulator import simulate

P = [(128, 64)] * 64
B4 = [(128, n) for n in (32, 64, 128, 512)] * 64


def run(lengths, reservation="on_demand", longest=2048, **given):
    least = [least_tokens(reservation, *pair, longest) for pair in lengths]
    return serve(lengths, least, **given)


def rows(steps):
    return [step.rows for step in steps]


def preempted(steps):
    return sum(step.preempted for step in steps)


def recomputed(steps, lengths):
    return sum(step.tokens for step in steps) - sum(p + n - 1 for p, n in lengths)


def test_two_requests_and_memory_for_one_and_a_half_by_hand():
    # 6 blocks of one token; each request ends with 4 computed tokens (2 + 3 - 1)
    steps = run([(2, 3), (2, 3)], slots=2, blocks=6, block_size=1)
    # both enter with 2 tokens; both take a third; the first takes its fourth, the second must go;
    # then it computes its 2 + 2 tokens again, the last of which is new
    assert rows(steps) == [2, 2, 1, 1]
    assert [s.blocks for s in steps] == [4, 6, 4, 4]
    assert [s.held for s in steps] == [4, 6, 4, 4]
    assert [s.preempted for s in steps] == [0, 0, 1, 0]
    assert [s.tokens for s in steps] == [4, 2, 1, 4]
    assert recomputed(steps, [(2, 3)] * 2) == 3


def test_nobody_enters_in_a_step_that_preempts():
    # without the third request's wait it would enter the two blocks that the second gave back
    steps = run([(2, 3), (2, 3), (1, 1)], slots=2, blocks=6, block_size=1)
    assert rows(steps) == [2, 2, 1, 2]


def test_a_reservation_is_taken_on_admission():
    steps = run([(2, 3), (2, 3)], "exact", slots=2, blocks=9, block_size=1)
    assert rows(steps) == [1, 1, 1, 1, 1, 1]
    assert [s.blocks for s in steps] == [5] * 6
    assert [s.held for s in steps] == [2, 3, 4] * 2


def test_a_budget_cuts_prompts():
    steps = run([(4, 1), (4, 1)], slots=2, blocks=8, block_size=1, budget=5)
    assert [s.tokens for s in steps] == [5, 3]
    assert rows(steps) == [2, 1]


def test_a_cache_that_holds_no_request_is_an_error():
    with pytest.raises(ValueError, match="3 blocks of 1 tokens"):
        run([(2, 3)], slots=1, blocks=3, block_size=1)
    with pytest.raises(ValueError):
        run([(2, 1)], "max", longest=8, slots=1, blocks=7, block_size=1)


# As vLLM 0.32 did on a CPU: usable tokens 16,384, or 4,096 for the starved one.
@pytest.mark.parametrize(
    ("reservation", "size", "blocks", "most", "steps"),
    [
        ("on_demand", 32, 512, 64, 64),
        ("exact", 32, 512, 64, 64),
        ("pow2", 32, 512, 64, 64),
        ("max", 32, 512, 8, 512),
        ("on_demand", 2048, 8, 8, 512),
        ("on_demand", 32, 128, 32, 192),
    ],
)
def test_equal_requests_as_measured(reservation, size, blocks, most, steps):
    found = run(P, reservation, slots=64, blocks=blocks, block_size=size)
    assert (max(rows(found)), len(found)) == (most, steps)


# As vLLM 0.32 did on a CPU with 4,096 usable tokens.
@pytest.mark.parametrize(
    ("lengths", "steps", "gone"),
    [(P, 192, 20), ([(128, n) for n in (4, 8, 16, 64)] * 16, 89, 13)],
)
def test_preemptions_as_measured(lengths, steps, gone):
    found = run(lengths, slots=64, blocks=128, block_size=32)
    assert (len(found), preempted(found)) == (steps, gone)


# As vLLM 0.24 did on an H200 with asynchronous scheduling, 32,768 usable tokens: four copies of B.
@pytest.mark.parametrize(
    ("reservation", "size", "most", "steps"),
    [
        ("on_demand", 16, 232, 705),
        ("exact", 16, 105, 1026),
        ("pow2", 16, 74, 1538),
        ("max", 16, 16, 3252),
        ("on_demand", 2048, 16, 3252),
    ],
)
def test_mixed_requests_as_measured(reservation, size, most, steps):
    found = run(
        B4,
        reservation,
        slots=256,
        blocks=32_768 // size,
        block_size=size,
        budget=8192,
        release_delay=1,
    )
    assert (max(rows(found)), len(found)) == (most, steps)
    assert preempted(found) == (55 if most == 232 else 0)


lengths = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=12)


@given(lengths, st.integers(1, 6), st.integers(0, 1))
def test_plenty_of_memory_is_no_limit(pairs, slots, delay):
    found = run(pairs, slots=slots, blocks=40 * len(pairs), block_size=1, release_delay=delay)
    outputs = [n for _, n in pairs]
    free = simulate(outputs, slots, "continuous", release_delay=delay)
    assert rows(found) == [step.rows for step in free.steps]
    assert recomputed(found, pairs) == 0


@given(lengths, st.integers(1, 6), st.sampled_from(["on_demand", "exact", "pow2", "max"]))
def test_memory_is_never_exceeded_and_all_are_served(pairs, size, reservation):
    blocks = 64 // size + 1
    found = run(pairs, reservation, longest=40, slots=8, blocks=blocks, block_size=size)
    assert all(step.held <= step.blocks * size for step in found)
    assert max(step.blocks for step in found) <= blocks
    # a step of a row gives one token
    assert sum(rows(found)) == sum(n for _, n in pairs)
    if reservation != "on_demand":
        assert preempted(found) == 0
    assert (recomputed(found, pairs) > 0) == (preempted(found) > 0)
