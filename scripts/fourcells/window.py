"""The life of a timing: open the engine, warm it up, measure its windows, close it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fourcells import provenance, witness
from fourcells.engines import EngineError, Served, open_engine
from fourcells.model import load_record
from fourcells.workload import Request, make_requests, prompt_hash


@dataclass
class Timing:
    """One cell in one repeat: a window per sample, and the evidence that goes with them."""

    windows: list[Served]
    metadata: dict[str, Any]

    @property
    def summary(self) -> str:
        """One line for people who wait."""
        seconds = self.metadata["provenance"]["window_s"]
        tokens = sum(r.produced_tokens for served in self.windows for r in served.requests)
        return (
            f"window {' + '.join(f'{s:.2f}' for s in seconds)} s, "
            f"{tokens / sum(seconds):,.1f} tok/s, {', '.join(self.metadata['verdict'])}"
        )


def measure(spec: Mapping[str, Any], progress: Callable[[str], None]) -> Timing:
    """Measures one timing.

    Args:
        spec: a whole spec, with its repeat.
        progress: told in a few words what is being done.

    Raises:
        EngineError: the engine did other work than asked, or applied other options.
        FileNotFoundError: the checkpoint is not there.
    """
    checkpoint = load_record(spec["model"])
    origin = provenance.describe(spec, checkpoint)

    progress("loading")
    start = time.monotonic()
    engine = open_engine(spec, checkpoint)
    load_s = time.monotonic() - start
    try:
        # The workload's own shapes, with other prompts: first runs compile, allocate and fault
        # pages in, none of which belongs into a window.
        progress(f"loaded in {load_s:.1f} s, warming up")
        start = time.monotonic()
        engine.serve(make_requests(spec, checkpoint.vocabulary, "warm-up"))
        warmup_s = time.monotonic() - start

        windows, witnesses, hashes = [], [], []
        for sample in range(1, spec["samples"] + 1):
            progress(f"warmed up in {warmup_s:.1f} s, measuring window {sample}")
            requests = make_requests(spec, checkpoint.vocabulary, sample)
            before = witness.snapshot(time.monotonic())
            served = engine.serve(requests)
            witnesses.append(witness.between(before, witness.snapshot(time.monotonic())))
            check_same_work(requests, served)
            windows.append(served)
            hashes.append(prompt_hash(requests))
        applied = engine.applied
    finally:
        engine.close()

    worst = max(witnesses, key=lambda each: each["foreign_cpu_share"])
    return Timing(
        windows,
        {
            "spec": dict(spec),
            "applied": applied,
            "provenance": {
                **origin,
                "load_s": load_s,
                "warmup_s": warmup_s,
                "window_s": [window_seconds(served) for served in windows],
                "prompt_hash": hashes,
            },
            "calibration": None,
            "witness": {**worst, "samples": witnesses},
            "verdict": witness.verdict(worst, {}),
            "protocol": spec["protocol"],
            "attempt": 1,
        },
    )


def window_seconds(served: Served) -> float:
    """From t0, when all requests were submitted, until the last one was returned."""
    return max(record.returned_s for record in served.requests)


def check_same_work(requests: Sequence[Request], served: Served) -> None:
    """Every request served once, with exactly its tokens, at real times, from no cache.

    Raises:
        EngineError: naming the first request for which this is not so.
    """
    if len(served.requests) != len(requests):
        raise EngineError(f"{len(served.requests)} of {len(requests)} requests were served")
    for asked, record in zip(requests, served.requests, strict=True):
        who = f"request {record.request}"
        if record.produced_tokens != asked.output_tokens:
            raise EngineError(
                f"{who} produced {record.produced_tokens} tokens instead of {asked.output_tokens}"
            )
        if record.prompt_tokens != len(asked.prompt):
            raise EngineError(
                f"{who} had {record.prompt_tokens} prompt tokens instead of {len(asked.prompt)}"
            )
        if record.cached_tokens:
            raise EngineError(f"{who} had {record.cached_tokens} prompt tokens from a cache")
        times = (record.admitted_s, record.first_token_s, record.finished_s, record.returned_s)
        if not all(math.isfinite(t) for t in times) or list(times) != sorted(times):
            raise EngineError(f"{who} has impossible times: {times}")
    useful = sum(step.useful_rows for step in served.steps)
    total = sum(request.output_tokens for request in requests)
    if useful != total:
        raise EngineError(f"the steps gave {useful} tokens, the requests {total}")
