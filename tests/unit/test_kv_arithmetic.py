"""Tokens that running requests take, by reservation: exact values and the published ladder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourcells.analysis import lesson
from fourcells.analysis.kv_arithmetic import running_tokens, used_share, whole_blocks
from fourcells.model import bytes_per_token
from fourcells.schedule import RESERVATIONS, least_tokens

CAPACITY = 219_328
B = [(128, n) for n in (32, 64, 128, 512)]


def test_bytes_of_a_token():
    assert bytes_per_token(28, 2, 128, 2) == 28 * 1024
    assert CAPACITY * bytes_per_token(28, 2, 128, 2) / 2**30 == pytest.approx(5.86, abs=0.005)


def test_what_a_request_takes_on_admission():
    assert [least_tokens(r, 128, 64, 2048) for r in RESERVATIONS] == [0, 192, 256, 2048]
    # a power of two is its own; no reservation exceeds the maximum length
    assert least_tokens("pow2", 128, 128, 2048) == 256
    assert least_tokens("pow2", 128, 129, 2048) == 512
    assert least_tokens("pow2", 300, 300, 1000) == 1000
    with pytest.raises(KeyError):
        least_tokens("half", 1, 1, 2)


def test_running_requests_of_one_length_by_hand():
    # tokens after its four steps: 3, 4, 5, 6
    assert running_tokens([(2, 4)], "on_demand", 10) == 4.5
    assert running_tokens([(2, 4)], "on_demand", 10, block_size=4) == (4 + 4 + 8 + 8) / 4
    assert running_tokens([(2, 4)], "exact", 10) == 6
    assert running_tokens([(2, 4)], "exact", 10, block_size=4) == 8
    assert running_tokens([(2, 4)], "pow2", 10) == 8
    assert running_tokens([(2, 4)], "max", 10) == 10


def test_long_requests_count_more():
    # 1 step of 10 tokens and 9 steps of 18 tokens
    assert running_tokens([(9, 1), (9, 9)], "exact", 20) == (1 * 10 + 9 * 18) / 10


def test_the_ladder_of_the_lessons_workload():
    taken = [running_tokens(B, name, 2048) for name in RESERVATIONS]
    assert [round(n) for n in taken] == [321, 513, 790, 2048]
    assert [round(CAPACITY / n) for n in taken] == [683, 427, 278, 107]
    # in blocks of 16 the newest block is half full on average
    assert running_tokens(B, "on_demand", 2048, 16) == pytest.approx(taken[0] + 7.5)
    assert round(CAPACITY / running_tokens(B, "on_demand", 2048, 16)) == 667
    shares = [used_share(B, name, 2048) for name in RESERVATIONS]
    assert [round(100 * s, 1) for s in shares] == [100, 62.6, 40.6, 15.7]


def test_the_lesson_tells_the_same_ladder_and_the_papers_beside_it():
    found = lesson.reservations()
    assert found["running_exact"] == running_tokens(B, "exact", 2048)
    assert [round(found[f"requests_{name}"]) for name in RESERVATIONS] == [683, 427, 278, 107]
    assert found["used_share_on_demand"] == 1
    assert lesson.paper_used_share() == {
        "on_demand": 0.963,
        "exact": 0.382,
        "pow2": 0.268,
        "max": 0.204,
    }


def test_cache_and_weights_fit_into_the_lessons_budget():
    kv = lesson.kv()
    assert kv["memory_budget_bytes"] / 2**30 == pytest.approx(0.8 * 11.63)
    assert kv["memory_left_bytes"] / 2**30 == pytest.approx(9.304 - 5.857 - 2.89, abs=0.001)


lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=6)


@given(lengths, st.integers(1, 40))
def test_the_ladder_has_an_order_and_blocks_only_add(pairs, size):
    taken = [running_tokens(pairs, name, 128, size) for name in RESERVATIONS]
    assert taken == sorted(taken)
    for name, tokens in zip(RESERVATIONS, taken, strict=True):
        single = running_tokens(pairs, name, 128)
        assert single <= tokens < single + size
        assert 0 < used_share(pairs, name, 128, size) <= 1


@given(st.integers(0, 10_000), st.integers(1, 300))
def test_whole_blocks_are_just_enough(tokens, size):
    blocks = whole_blocks(tokens, size)
    assert (blocks - 1) * size < tokens <= blocks * size
