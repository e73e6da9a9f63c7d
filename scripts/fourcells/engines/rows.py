"""The two places of a request in the hand-written loop: the queue, and a row once it has a slot."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from fourcells.engines import RequestRecord
from fourcells.workload import Request

UNKNOWN = float("nan")


class Queue:
    """Requests without a slot, first come, first served; nobody is there before the arrival."""

    def __init__(self, requests: Sequence[Request]) -> None:
        in_order = sorted(enumerate(requests), key=lambda numbered: numbered[1].arrival_s)
        self._coming = deque(in_order)
        self._waiting: deque[tuple[int, Request]] = deque()

    def __bool__(self) -> bool:
        """Whether anybody waits or will come."""
        return bool(self._waiting or self._coming)

    @property
    def waiting(self) -> int:
        """How many are there."""
        return len(self._waiting)

    def let_in(self, now: float) -> None:
        """Takes in who has arrived, `now` being seconds after t0."""
        while self._coming and self._coming[0][1].arrival_s <= now:
            self._waiting.append(self._coming.popleft())

    def sleep(self, t0: float) -> None:
        """If nobody is there, sleeps until the next arrival; t0 on the monotonic clock."""
        if not self._waiting:
            time.sleep(max(0.0, t0 + self._coming[0][1].arrival_s - time.monotonic()))

    def take(self, most: int, now: float) -> list[Row]:
        """Gives the longest waiting, at most so many, a slot each."""
        return [_row(*self._waiting.popleft(), now) for _ in range(min(most, self.waiting))]


@dataclass
class Row:
    """A request that holds a slot; its index among the rows is the index of its KV region."""

    request: Request
    record: RequestRecord
    # steps spent in the slot; a finished row of a padded batch goes on ageing
    age: int = 0
    last_token: int = 0
    tokens: list[int] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return len(self.tokens) >= self.request.output_tokens

    @property
    def position(self) -> int:
        """Where the token that is fed next is written: after the prompt and the tokens before."""
        return len(self.request.prompt) + self.age - 1

    def take(self, token: int, now: float) -> None:
        """Gives the row a step's token; it counts unless the row was finished before."""
        self.age += 1
        self.last_token = token
        if self.done:
            return
        self.tokens.append(token)
        self.record.produced_tokens += 1
        if len(self.tokens) == 1:
            self.record.first_token_s = now
        if self.done:
            self.record.finished_s = now


def _row(index: int, request: Request, now: float) -> Row:
    record = RequestRecord(
        request=index,
        prompt_tokens=len(request.prompt),
        output_tokens=request.output_tokens,
        produced_tokens=0,
        admitted_s=now,
        first_token_s=UNKNOWN,
        finished_s=UNKNOWN,
        returned_s=UNKNOWN,
        arrival_s=request.arrival_s,
    )
    return Row(request, record)
