"""What a schedule does to requests, computed from their lengths: step by step, in no time.

The simulator asks the two rules of `schedule` that the torch loop asks, so the expected step
counts and the measured loop cannot drift apart. It knows no machine: how long a step takes is
given to it.

One step gives every row that is still generating one token, as in Orca's iteration-level
scheduling (OSDI 2022). The step that ends a prompt yields the first token, so a request of n output
tokens holds its slot for n steps when its prompt fits into one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fourcells.schedule import ADMISSIONS, free_slots, leaves


@dataclass(frozen=True, slots=True)
class Step:
    """One step: `holders[s]` is the request in slot s (None: free), `useful[s]` whether its token
    counts (False: a finished row that is still computed, or a prompt not yet at its end).

    `waiting` requests have arrived and hold no slot, `tokens` prompt and output tokens are
    computed, `entering` requests came in. It lasts `seconds` from `start_s` after t0 on.
    """

    holders: tuple[int | None, ...]
    useful: tuple[bool, ...]
    waiting: int
    tokens: int
    entering: int
    start_s: float
    seconds: float

    @property
    def rows(self) -> int:
        return len(self.holders) - self.holders.count(None)

    @property
    def useful_rows(self) -> int:
        return sum(self.useful)


@dataclass(slots=True)
class SimulatedRequest:
    """When a request was admitted, had its first and its last token, and was handed back.

    Steps count from 0; a token of step k exists at its end. Times are seconds from t0: the start of
    the step that admitted it, the ends of the others.
    """

    admitted_step: int
    admitted_s: float
    first_step: int = -1
    first_s: float = math.nan
    finished_step: int = -1
    finished_s: float = math.nan
    returned_step: int = -1
    returned_s: float = math.nan


@dataclass(frozen=True)
class Simulation:
    """The steps, and one record per request in the order they were given."""

    steps: list[Step]
    requests: list[SimulatedRequest]

    @property
    def window_s(self) -> float:
        """From t0 to the end of the last step."""
        return max((request.returned_s for request in self.requests), default=0.0)


@dataclass(frozen=True)
class Bounds:
    """Steps that no order and no refilling can beat (`longest` request, equal `share` of the work
    per slot), and that refilling never exceeds (`graham`)."""

    longest: int
    share: int
    graham: float


def bounds(output_tokens: Sequence[int], slots: int) -> Bounds:
    """Bounds on the steps of continuous admission in any order (Graham 1969, list scheduling)."""
    total, longest = sum(output_tokens), max(output_tokens, default=0)
    return Bounds(longest, math.ceil(total / slots), total / slots + (1 - 1 / slots) * longest)


def one_second(rows: int, extra_tokens: int) -> float:
    """The step time of a schedule without a machine."""
    return 1.0


def simulate(
    output_tokens: Sequence[int],
    slots: int,
    admission: str,
    *,
    prompt_tokens: Sequence[int] | None = None,
    budget: int | None = None,
    release_delay: int = 0,
    arrivals: Sequence[float] | None = None,
    seconds: Callable[[int, int], float] | None = None,
) -> Simulation:
    """Serve requests of the given lengths, first come first served. Steps without a row are not
    counted and take no time.

    Args:
        output_tokens: tokens to produce per request; each at least 1.
        slots: the most requests that may hold a slot at once.
        admission: one of `ADMISSIONS`.
        prompt_tokens: per request; 1 each when left out.
        budget: the most tokens in a step. Rows in use come first, in the order they entered: one
            token each, or what is left of a prompt; then requests enter while there is a slot and
            budget. A prompt that is cut goes on in the next step (vLLM's chunked prefill).
        release_delay: steps for which a freed slot is not taken again; 1 under asynchronous
            scheduling, where a request's end is seen one step late.
        arrivals: seconds from t0 per request; all 0 when left out.
        seconds: how long a step of (rows, tokens beyond one per row) takes; 1 when left out.

    Raises:
        ValueError: an unknown admission, no slot, a request without tokens, another number of
            prompts or arrivals than of requests, or a budget that gives some row nothing.
    """
    count, seconds = len(output_tokens), seconds or one_second
    prompt_left = [1] * count if prompt_tokens is None else list(prompt_tokens)
    arrivals = [0.0] * count if arrivals is None else arrivals
    _check(output_tokens, slots, admission, prompt_left, budget, release_delay, arrivals)
    coming = deque(sorted(range(count), key=arrivals.__getitem__))
    waiting: deque[int] = deque()
    running: list[int] = []  # in the order they entered
    slot_of: dict[int, int] = {}
    holders: list[int | None] = [None] * slots
    resting: dict[int, int] = {}  # freed slot -> steps until it is seen to be free
    left = list(output_tokens)
    requests: list[SimulatedRequest | None] = [None] * count
    steps: list[Step] = []
    now = 0.0
    while running or waiting or coming:
        while coming and arrivals[coming[0]] <= now:
            waiting.append(coming.popleft())

        # who computes how many tokens: rows in use, then those who enter
        spare, scheduled = math.inf if budget is None else budget, []
        for request in running:
            scheduled.append(min(prompt_left[request] or 1, spare))
            spare -= scheduled[-1]
        entering = 0
        free = free_slots(admission, slots, len(running) + len(resting))
        for slot in range(slots):
            if not (free and waiting and spare):
                break
            if holders[slot] is not None or slot in resting:
                continue
            request = holders[slot] = waiting.popleft()
            slot_of[request] = slot
            running.append(request)
            requests[request] = SimulatedRequest(len(steps), now)
            scheduled.append(min(prompt_left[request], spare))
            spare -= scheduled[-1]
            free -= 1
            entering += 1
        resting = {slot: rest - 1 for slot, rest in resting.items() if rest > 1}
        if not running:
            if not waiting and coming:
                now = max(now, arrivals[coming[0]])
            continue

        # the step
        useful = [False] * slots
        for request, tokens in zip(running, scheduled, strict=True):
            prompt_left[request] -= min(prompt_left[request], tokens)
            useful[slot_of[request]] = not prompt_left[request] and left[request] > 0
        tokens = sum(scheduled)
        duration = seconds(len(running), tokens - len(running))
        steps.append(
            Step(tuple(holders), tuple(useful), len(waiting), tokens, entering, now, duration)
        )
        now += duration

        # what it gave to whom, and who leaves
        for request in running:
            if useful[slot_of[request]]:
                _take(requests[request], len(steps) - 1, now, last=left[request] == 1)
                left[request] -= 1
        batch_done = not any(left[request] for request in running)
        for request in running:
            if leaves(admission, not left[request], batch_done):
                requests[request].returned_step, requests[request].returned_s = len(steps) - 1, now
                slot = slot_of.pop(request)
                holders[slot] = None
                if release_delay:
                    resting[slot] = release_delay
        running = [request for request in running if request in slot_of]
    return Simulation(steps, requests)


def _take(request: SimulatedRequest, step: int, now: float, last: bool) -> None:
    """Notes a token that counts."""
    if request.first_step < 0:
        request.first_step, request.first_s = step, now
    if last:
        request.finished_step, request.finished_s = step, now


def _check(output_tokens, slots, admission, prompts, budget, release_delay, arrivals) -> None:
    if admission not in ADMISSIONS:
        raise ValueError(f"admission: {admission!r} is not one of {', '.join(ADMISSIONS)}")
    if slots < 1 or any(n < 1 for n in output_tokens):
        raise ValueError("slots and output tokens must be at least 1")
    for name, given in (("prompt_tokens", prompts), ("arrivals", arrivals)):
        if len(given) != len(output_tokens):
            raise ValueError(f"{name}: {len(given)} given for {len(output_tokens)} requests")
    if any(n < 1 for n in prompts) or release_delay < 0 or any(at < 0 for at in arrivals):
        raise ValueError("prompts must have a token; delay and arrivals must not be negative")
    if budget is not None and budget < min(slots, len(output_tokens)):
        raise ValueError(f"budget: {budget} tokens give some of {slots} rows nothing")
