"""Who holds a slot at which step: the three admissions as two small rules and a simulator.

The torch loop asks the same two rules (`free_slots`, `leaves`) that the simulator asks, so the
picture of the schedule, the expected step counts and the measured loop cannot drift apart.

One step gives every row that is still generating one token, as in Orca's iteration-level
scheduling (OSDI 2022). Prefill yields the first token, so a request of n output tokens holds its
slot for n steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Step:
    """One step: `holders[s]` is the request in slot s (None: free), `useful[s]` whether its token
    counts (False: a finished row that is still computed)."""

    holders: tuple[int | None, ...]
    useful: tuple[bool, ...]
    waiting: int

    @property
    def rows(self) -> int:
        return sum(holder is not None for holder in self.holders)

    @property
    def useful_rows(self) -> int:
        return sum(self.useful)


def simulate(output_tokens: Sequence[int], slots: int, admission: str) -> list[Step]:
    """The steps in which requests of the given lengths are served, all waiting from the start.

    Args:
        output_tokens: tokens to produce per request, in order of arrival; each at least 1.
        slots: the most requests that may hold a slot at once.
        admission: one of `ADMISSIONS`.

    Raises:
        ValueError: an unknown admission, no slot, or a request without tokens.
    """
    if admission not in ADMISSIONS:
        raise ValueError(f"admission: {admission!r} is not one of {', '.join(ADMISSIONS)}")
    if slots < 1 or any(n < 1 for n in output_tokens):
        raise ValueError("slots and output tokens must be at least 1")
    waiting = deque(range(len(output_tokens)))
    left = list(output_tokens)
    holders: list[int | None] = [None] * slots
    steps = []
    while waiting or any(h is not None for h in holders):
        entering = free_slots(admission, slots, sum(h is not None for h in holders))
        for slot in range(slots):
            if entering and waiting and holders[slot] is None:
                holders[slot] = waiting.popleft()
                entering -= 1
        useful = tuple(h is not None and left[h] > 0 for h in holders)
        steps.append(Step(tuple(holders), useful, len(waiting)))
        for holder in holders:
            if holder is not None:
                left[holder] -= 1
        batch_done = all(h is None or left[h] <= 0 for h in holders)
        holders = [
            None if h is not None and leaves(admission, left[h] <= 0, batch_done) else h
            for h in holders
        ]
    return steps
