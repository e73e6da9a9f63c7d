"""The scheduler class that every vllm engine runs through: stock scheduling plus a step log.

It runs wherever vLLM's engine core runs, in the measuring process or in one of its own, and so
hands its records over through a file. Written against vLLM 0.24 (GPU) and 0.32 (CPU).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from fourcells.machine import end_with_parent

# Names the file that receives one JSON array per step: time, rows, useful rows, waiting, tokens,
# share of the KV blocks in use, ids of preempted requests.
STEP_LOG = "FOUR_CELLS_STEP_LOG"


class _Logged:
    """Adds one line to the step log for each step that schedules a token."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if multiprocessing.parent_process():
            # an engine process must not outlive a measuring process that was killed
            end_with_parent()
        super().__init__(*args, **kwargs)
        # line buffered: a line is in the file before the step runs
        self._step_log = open(os.environ[STEP_LOG], "a", buffering=1)  # noqa: SIM115

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        start = time.monotonic()
        out = super().schedule(*args, **kwargs)
        # an empty step computes nothing: it marks a wait, not work
        if out.total_num_scheduled_tokens:
            requests = [self.requests[name] for name in out.num_scheduled_tokens]
            record = (
                start,
                len(requests),
                # a prompt that is not yet wholly computed yields no token in this step
                sum(r.num_computed_tokens >= r.num_tokens for r in requests),
                len(self.waiting),
                out.total_num_scheduled_tokens,
                self.kv_cache_manager.usage,
                sorted(out.preempted_req_ids or ()),
            )
            self._step_log.write(json.dumps(record) + "\n")
        return out


class SyncScheduler(_Logged, Scheduler):
    """The switch over vLLM's plain scheduler."""


class OverlappedScheduler(_Logged, AsyncScheduler):
    """The switch over vLLM's asynchronous scheduler, stock vLLM's own choice on a GPU."""
