"""Who holds a slot at which step: the three admissions as two small rules.

The torch loop asks the same two rules that the simulator asks, so the picture of the schedule, the
expected step counts and the measured loop cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Sequence

ADMISSIONS = ("padded", "wave", "continuous")


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
