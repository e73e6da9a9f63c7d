"""The scheduler class that every transformers engine runs through, and its step log.

The class adds a gate (`padded` and `wave`: nobody enters while somebody runs), a start gate and a
log to the library's first-come-first-served scheduler. Written against transformers 5.17 and 5.19.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fourcells.engines import StepRecord
from fourcells.schedule import free_slots
from fourcells.workload import Request

SCHEDULER = "four_cells"


@dataclass(frozen=True)
class Row:
    """A request in a step: `tokens` of it computed; `gives` if that ends in a new token. `state` is
    the library's record of the request, with a time stamp per token that came to exist."""

    state: Any
    tokens: int
    gives: bool


@dataclass(frozen=True)
class LoggedStep:
    """One step when it was scheduled; `start` on the monotonic clock, `kv_tokens` those of all
    active requests once the step is done."""

    start: float
    rows: list[Row]
    waiting: int
    kv_used: float
    kv_tokens: int
    preempted: list[str]


class GatedScheduler:
    """What is added to the library's scheduler (`register_scheduler`): the gate and the log.

    The caller works with `hold`, `complete` and `released`; all else runs in the generation thread.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.admission = "continuous"
        self.log: list[LoggedStep] = []
        self.complete, self.released = threading.Event(), threading.Event()
        self.released.set()
        self._expected = 0
        self._known: set[str] = set()
        self._preempted: list[str] = []
        super().__init__(*args, **kwargs)

    def hold(self, expected: int) -> None:
        """Shuts the start gate and clears the log; `complete` is set when `expected` requests wait
        behind it. Without it the first step would begin with the first request alone."""
        self.log = []
        self._known.clear()
        self._expected = expected
        self.complete.clear()
        self.released.clear()

    def has_pending_requests(self) -> bool:
        if not self.released.is_set():
            if len(self.waiting_requests) < self._expected:
                return False
            self.complete.set()
            self.released.wait()
        return super().has_pending_requests()

    def add_waiting_request(self, state: Any) -> None:
        # who comes a second time was sent back, to make room for others
        if state.request_id in self._known:
            self._preempted.append(state.request_id)
        self._known.add(state.request_id)
        super().add_waiting_request(state)

    def schedule_batch(self, *args: Any, **kwargs: Any) -> Any:
        start = time.monotonic()
        if self.admission != "continuous":
            slots, held = self.max_requests_per_batch, len(self.active_requests)
            self.block_new_requests = free_slots(self.admission, slots, held) == 0
        result = super().schedule_batch(*args, **kwargs)
        # no rows: it waits, or it is asked again after making room
        if result[0]:
            rows = [Row(r.state, r.query_length, r.has_new_token) for r in result[0]]
            used = 1 - _free_share(self.cache)
            held = sum(state.position_offset for state in self.active_requests.values())
            held += sum(row.tokens for row in rows)
            preempted, self._preempted = self._preempted, []
            waiting = len(self.waiting_requests)
            self.log.append(LoggedStep(start, rows, waiting, used, held, preempted))
        return result


@cache
def register_scheduler() -> str:
    """Makes the scheduler known to the library; its name there."""
    from transformers.generation.continuous_batching import scheduler

    bases = (GatedScheduler, scheduler.FIFOScheduler)
    names = {"__module__": __name__, "__doc__": GatedScheduler.__doc__}
    scheduler.SCHEDULER_MAPPING[SCHEDULER] = type("GatedFIFOScheduler", bases, names)
    return SCHEDULER


@dataclass
class Seen:
    """What the step log says of one request: the step that first scheduled it, the rank of that
    step among those that admitted somebody (from 1), whether its prompt was computed whole there,
    prompt tokens computed, and when each token existed, seconds from t0."""

    step: int
    wave: int
    whole: bool
    prefilled: int = 0
    preemptions: int = 0
    times: list[float] = field(default_factory=list)


def follow(
    log: Sequence[LoggedStep], requests: Sequence[Request], t0: float
) -> tuple[list[StepRecord], list[Seen]]:
    """Reads the log once all tokens exist: its steps, and what happened to each request.

    A row is useful if its token exists and is among the request's own `output_tokens`: the library
    drops the token of a row that it scheduled before it knew the row's end (asynchronous batching).
    The tokens of one step share a time, that of the first of them.
    """
    steps: list[StepRecord] = []
    seen: dict[int, Seen] = {}
    scheduled: Counter[int] = Counter()  # tokens by state; a request sent back gets a new state
    wave = 0
    for logged in log:
        numbers = [int(row.state.request_id) for row in logged.rows]
        wave += any(number not in seen for number in numbers)
        useful, stamps = [], []
        for number, row in zip(numbers, logged.rows, strict=True):
            each = seen.setdefault(number, Seen(len(steps), wave, whole=row.gives))
            if not each.times:
                each.prefilled += row.tokens
            if not row.gives:
                continue
            place = scheduled[id(row.state)]
            scheduled[id(row.state)] += 1
            if place < len(row.state.timestamps):
                useful.append((each, requests[number]))
                # perf_counter, on Linux the same clock as monotonic
                stamps.append(row.state.timestamps[place])
        now = min(stamps) - t0 if stamps else math.nan
        own = 0
        for each, request in useful:
            each.times.append(now)
            own += len(each.times) <= request.output_tokens
        for number in map(int, logged.preempted):
            seen[number].preemptions += 1
        steps.append(
            StepRecord(
                step=len(steps),
                t_s=logged.start - t0,
                rows=len(logged.rows),
                useful_rows=own,
                waiting=logged.waiting,
                tokens=sum(row.tokens for row in logged.rows),
                kv_used=logged.kv_used,
                preempted=len(logged.preempted),
                kv_tokens=logged.kv_tokens,
            )
        )
    return steps, [seen[number] for number in sorted(seen)]


def _free_share(kv: Any) -> float:
    """The share of KV blocks that no request holds."""
    if hasattr(kv, "compute_free_capacity"):
        return kv.compute_free_capacity()
    # transformers 5.17
    return kv.get_num_free_blocks() / kv.num_blocks
