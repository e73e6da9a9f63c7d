"""The rules of the three admissions, and the lengths that a padded batch is asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourcells.schedule import free_slots, leaves, padded_lengths

B = [32, 64, 128, 512] * 16


@pytest.mark.parametrize(
    ("admission", "held", "free"),
    [
        ("padded", 0, 4),
        ("padded", 1, 0),
        ("wave", 0, 4),
        ("wave", 3, 0),
        ("continuous", 0, 4),
        ("continuous", 1, 3),
        ("continuous", 3, 1),
        ("continuous", 4, 0),
    ],
)
def test_rule_of_entering(admission, held, free):
    assert free_slots(admission, 4, held) == free


@pytest.mark.parametrize(
    ("admission", "done", "batch_done", "left"),
    [
        ("padded", True, False, False),
        ("padded", True, True, True),
        ("wave", True, False, True),
        ("wave", False, False, False),
        ("continuous", True, False, True),
        ("continuous", False, False, False),
    ],
)
def test_rule_of_leaving(admission, done, batch_done, left):
    assert leaves(admission, done, batch_done) is left


# --- lengths of padded batches


def test_every_batch_of_b_is_padded_to_512():
    assert padded_lengths(B, 16) == [512] * 64
    assert sum(padded_lengths(B, 16)) == 16 * 2048


def test_sorted_b_is_padded_to_itself():
    assert padded_lengths(sorted(B), 16) == sorted(B)


def test_last_batch_may_be_smaller():
    assert padded_lengths([3, 5, 2, 1, 4], 2) == [5, 5, 2, 2, 4]
    assert padded_lengths([], 4) == []


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 20))
def test_padding_never_shortens_and_is_even_within_a_batch(lengths, slots):
    padded = padded_lengths(lengths, slots)
    assert len(padded) == len(lengths)
    for start in range(0, len(lengths), slots):
        assert set(padded[start : start + slots]) == {max(lengths[start : start + slots])}
