"""The schedule: the lesson's step counts and picture, and what no schedule can break."""

import heapq
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourcells.schedule import ADMISSIONS, free_slots, leaves, simulate

A = [184] * 64
B = [32, 64, 128, 512] * 16
PICTURE = [8, 2, 3, 4, 4, 6]  # requests A to F


def steps(lengths, slots, admission):
    return len(simulate(lengths, slots, admission))


@pytest.mark.parametrize(
    ("lengths", "slots", "admission", "expected"),
    [
        (A, 16, "padded", 736),
        (A, 16, "wave", 736),
        (A, 16, "continuous", 736),
        (A, 256, "padded", 184),
        (A, 256, "continuous", 184),
        (B, 16, "padded", 2048),
        (B, 16, "wave", 2048),
        (B, 16, "continuous", 1056),
        (B, 256, "padded", 512),
        (B, 256, "wave", 512),
        (B, 256, "continuous", 512),
        (sorted(B), 16, "padded", 736),
        (sorted(B), 16, "continuous", 736),
        ([46] * 64, 16, "continuous", 184),
        ([8, 16, 32, 128] * 16, 16, "padded", 512),
        ([8, 16, 32, 128] * 16, 16, "continuous", 264),
        ([], 16, "continuous", 0),
        ([1], 1, "padded", 1),
    ],
)
def test_step_counts_are_the_lessons(lengths, slots, admission, expected):
    assert steps(lengths, slots, admission) == expected


def test_padded_b_computes_64_percent_in_vain():
    served = simulate(B, 16, "padded")
    rows, useful = sum(s.rows for s in served), sum(s.useful_rows for s in served)
    assert (rows, useful) == (16 * 2048, 11776)
    assert 1 - useful / rows == pytest.approx(1 - 184 / 512)


def test_wave_computes_nothing_in_vain():
    assert all(s.rows == s.useful_rows for s in simulate(B, 16, "wave"))


def test_queue_of_continuous_b_is_empty_from_step_544():
    waiting = [step.waiting for step in simulate(B, 16, "continuous")]
    assert waiting.index(0) == 544
    assert set(waiting[544:]) == {0}
    assert sum(s.rows for s in simulate(B, 16, "continuous")) / (16 * 1056) == pytest.approx(
        0.697, abs=5e-4
    )


def test_last_three_quarters_of_256_slots_run_the_longest_alone():
    assert [s.rows for s in simulate(B, 256, "continuous")][128:] == [16] * 384


# --- the picture of section 1


def test_padded_picture_takes_14_steps():
    picture = simulate(PICTURE, 4, "padded")
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
    picture = simulate(PICTURE, 4, "continuous")
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


def test_wave_picture_leaves_slots_empty_until_the_batch_is_gone():
    picture = simulate(PICTURE, 4, "wave")
    assert len(picture) == 14
    assert [step.rows for step in picture] == [4, 4, 3, 2, 1, 1, 1, 1, 2, 2, 2, 2, 1, 1]
    assert picture[8].holders == (4, 5, None, None)


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


@given(LENGTHS, SLOTS, st.sampled_from(ADMISSIONS))
def test_useful_rows_are_the_tokens(lengths, slots, admission):
    served = simulate(lengths, slots, admission)
    assert sum(step.useful_rows for step in served) == sum(lengths)
    for request, length in enumerate(lengths):
        held = [
            n
            for n, step in enumerate(served)
            for holder, useful in zip(step.holders, step.useful, strict=True)
            if holder == request and useful
        ]
        # from the step it enters, without a gap
        assert held == list(range(held[0], held[0] + length))


@given(LENGTHS, SLOTS)
def test_continuous_keeps_between_the_least_and_grahams_bound(lengths, slots):
    count = steps(lengths, slots, "continuous")
    longest, total = max(lengths, default=0), sum(lengths)
    assert count >= max(longest, math.ceil(total / slots))
    assert count <= total / slots + (1 - 1 / slots) * longest + 1e-9


@given(LENGTHS, SLOTS)
def test_continuous_is_list_scheduling(lengths, slots):
    """The same count from another algorithm: each request goes to the slot that is free first."""
    free_at = [0] * slots
    for length in lengths:
        heapq.heapreplace(free_at, free_at[0] + length)
    assert steps(lengths, slots, "continuous") == max(free_at)


@given(LENGTHS, SLOTS)
def test_padded_and_wave_take_equally_many_steps(lengths, slots):
    batches = [lengths[i : i + slots] for i in range(0, len(lengths), slots)]
    expected = sum(max(batch) for batch in batches)
    assert steps(lengths, slots, "padded") == steps(lengths, slots, "wave") == expected


@given(LENGTHS, SLOTS)
def test_continuous_leaves_no_slot_free_while_someone_waits(lengths, slots):
    assert all(s.rows == slots for s in simulate(lengths, slots, "continuous") if s.waiting)


@given(LENGTHS, SLOTS, st.sampled_from(ADMISSIONS))
def test_no_request_overtakes_another(lengths, slots, admission):
    entered = list(
        dict.fromkeys(
            holder
            for step in simulate(lengths, slots, admission)
            for holder in sorted(h for h in step.holders if h is not None)
        )
    )
    assert entered == list(range(len(lengths)))


# --- the two rules, and what is no schedule


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


def test_unknown_admission_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'lazy' is not one of padded, wave, continuous"):
        simulate([1], 1, "lazy")


@pytest.mark.parametrize(("lengths", "slots"), [([1], 0), ([0], 1), ([3, -1], 2)])
def test_no_slot_and_no_token_are_refused(lengths, slots):
    with pytest.raises(ValueError, match="at least 1"):
        simulate(lengths, slots, "wave")
