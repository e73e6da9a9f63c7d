"""Who holds a slot at which step, and how much KV memory with it: admissions and reservations.

The engines ask the same small rules that the simulators ask, so the picture of the schedule, the
expected step counts and the measured steps cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Sequence

ADMISSIONS = ("padded", "wave", "continuous")
# What a request takes KV memory for when it is admitted: the tokens that it has (paging: a further
# block when the last one is full), prompt + output, that sum rounded up to a power of two (the
# PagedAttention paper rounds the output alone, so its figures are of another rule), or the maximum
# length, as a contiguous cache must.
RESERVATIONS = ("on_demand", "exact", "pow2", "max")


def free_slots(admission: str, slots: int, held: int) -> int:
    """How many waiting requests may enter now, when `held` of `slots` slots are taken."""
    if admission == "continuous":
        return slots - held
    # padded and wave: nobody enters before the whole batch is gone
    return slots if held == 0 else 0


def leaves(admission: str, done: bool, batch_done: bool) -> bool:
    """Whether a row gives its slot back after a step.

    Under `padded` a finished row is still computed until the longest row of its batch ends.
    """
    return batch_done if admission == "padded" else done


def padded_lengths(output_tokens: Sequence[int], slots: int) -> list[int]:
    """The longest length of each request's batch; a batch is `slots` requests in a row."""
    batches = [
        output_tokens[start : start + slots] for start in range(0, len(output_tokens), slots)
    ]
    return [max(batch) for batch in batches for _ in batch]


def least_tokens(reservation: str, prompt: int, output: int, longest: int) -> int:
    """Tokens that a request takes blocks for when it is admitted, 0 if only for those it has.

    Args:
        reservation: one of `RESERVATIONS`.
        longest: the maximum length; no reservation is greater.
    """
    total = prompt + output
    wanted = {
        "on_demand": 0,
        "exact": total,
        "pow2": 1 << (total - 1).bit_length(),
        "max": longest,
    }
    return min(wanted[reservation], longest)
