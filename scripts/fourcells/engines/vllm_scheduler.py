"""The scheduler class that every vllm engine runs through: two switches over stock scheduling, and
a step log.

The first switch is the admission gate. Under `wave` and `padded` nobody enters before the whole
batch is gone; `padded` differs from `wave` in the lengths that are asked for, not here. The second
is the reservation: how many KV blocks a request takes when it enters. The class runs wherever
vLLM's engine core runs, in the measuring process or in one of its own, so it is told by an
environment variable and hands its records over through a file. Written against vLLM 0.24 (GPU) and
0.32 (CPU).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from fourcells.engines.reservation import ON_DEMAND, reserving
from fourcells.machine import end_with_parent

# A JSON object: `admission`, `reservation`, `reserve_tokens` (null: the greatest length), and
# `step_log`, the file that receives one JSON value per line. First what the scheduler applies, an
# object; then, whenever no request is left, one array for each step since: its start, the time when
# its tokens existed, rows, useful rows, waiting, tokens, share of the KV blocks in use, tokens in
# the KV cache, ids of preempted requests.
SETTINGS = "FOUR_CELLS_SCHEDULER"
# The attribute that limits how many requests run: the first since vLLM 0.32, the second before.
LIMITS = ("max_num_active_reqs", "max_num_running_reqs")


class _Switch:
    """Adds gate and reservation, and a line to the step log for each step that schedules a token.

    A step only appends to a list: writing between steps of 2 ms would cost what is measured.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if multiprocessing.parent_process():
            # an engine process must not outlive a measuring process that was killed
            end_with_parent()
        super().__init__(*args, **kwargs)
        settings = json.loads(os.environ[SETTINGS])
        self._gated = settings["admission"] != "continuous"
        self._limit = next(name for name in LIMITS if hasattr(self, name))
        reservation = settings["reservation"]
        most = settings["reserve_tokens"] or self.max_model_len
        if reservation != ON_DEMAND:
            kv = self.kv_cache_manager
            kv.allocate_slots = reserving(kv.allocate_slots, reservation, most)
        # steps on their way, by the identity of the scheduler's output, and those that are done
        self._open: dict[int, tuple[Any, ...]] = {}
        self._done: list[tuple[Any, ...]] = []
        self._step_log = Path(settings["step_log"])
        self._write(
            [
                {
                    "admission": settings["admission"],
                    "limit": self._limit,
                    "reservation": reservation,
                    "reserve_tokens": most if reservation == "max" else None,
                }
            ]
        )

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        start = time.monotonic()
        free = getattr(self, self._limit)
        if self._gated and self.running:
            # equal, never lower: vLLM 0.24 admits below a limit that is not met exactly
            setattr(self, self._limit, len(self.running))
        try:
            out = super().schedule(*args, **kwargs)
        finally:
            setattr(self, self._limit, free)
        # an empty step computes nothing: it marks a wait, not work
        if out.total_num_scheduled_tokens:
            requests = [self.requests[name] for name in out.num_scheduled_tokens]
            self._open[id(out)] = (
                len(requests),
                # a prompt that is not yet wholly computed yields no token in this step
                sum(r.num_computed_tokens >= r.num_tokens for r in requests),
                len(self.waiting),
                out.total_num_scheduled_tokens,
                self.kv_cache_manager.usage,
                # of all that run, also of those that have no token in this step
                sum(r.num_computed_tokens for r in self.running),
                sorted(out.preempted_req_ids or ()),
                start,
            )
        return out

    def update_from_output(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = super().update_from_output(scheduler_output, *args, **kwargs)
        step = self._open.pop(id(scheduler_output), None)
        if step:
            *rest, start = step
            self._done.append((start, time.monotonic(), *rest))
        # in the file before the caller hears of the last tokens
        if self._done and not self.requests:
            self._write(self._done)
            self._done = []
        return outputs

    def _write(self, values: list[Any]) -> None:
        with self._step_log.open("a") as file:
            file.writelines(json.dumps(value) + "\n" for value in values)


class SyncScheduler(_Switch, Scheduler):
    """The switch over vLLM's plain scheduler."""


class OverlappedScheduler(_Switch, AsyncScheduler):
    """The switch over vLLM's asynchronous scheduler, stock vLLM's own choice on a GPU."""
