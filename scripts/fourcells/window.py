"""The life of a timing: open the engine, warm it up, measure its windows, close it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fourcells import provenance, verdict
from fourcells.calibration import calibrate
from fourcells.engines import EngineError, Served, open_engine
from fourcells.model import load_record
from fourcells.witness import Watch
from fourcells.workload import Request, make_requests, prompt_hash

# Requests of a warm-up: a stream of copies shows nothing new after these.
MOST_WARM_UP = 64


@dataclass
class Timing:
    """One cell in one repeat: a window per sample, and the evidence that goes with them.

    `problem` says what was not the work that was asked for; such a timing counts nowhere.
    """

    windows: list[Served]
    metadata: dict[str, Any]
    problem: str | None

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
        EngineError: the engine cannot be opened as asked, or the model has no such positions.
        FileNotFoundError: the checkpoint is not there.
    """
    checkpoint = load_record(spec["model"])
    if spec["max_model_len"] > checkpoint.max_position:
        raise EngineError(
            f"scales.{spec['scale']}.max_model_len: {spec['max_model_len']} is more than the "
            f"{checkpoint.max_position} positions of the model (max_position_embeddings in "
            f"{checkpoint.folder}/config.json)"
        )
    origin = provenance.describe(spec, checkpoint)

    progress("loading")
    start = time.monotonic()
    engine = open_engine(spec, checkpoint)
    load_s = time.monotonic() - start
    try:
        # First runs compile, allocate and fault pages in, none of which belongs into a window.
        progress(f"loaded in {load_s:.1f} s, warming up")
        start = time.monotonic()
        engine.serve(warm_up(spec, checkpoint.vocabulary))
        warmup_s = time.monotonic() - start

        progress(f"warmed up in {warmup_s:.1f} s, measuring")
        calibration = {"before": calibrate(spec["device"], spec["dtype"])}
        work, windows, witnesses = [], [], []
        for sample in range(1, spec["samples"] + 1):
            work.append(make_requests(spec, checkpoint.vocabulary, sample))
            with Watch(spec["device"]) as watch:
                windows.append(engine.serve(work[-1]))
            witnesses.append(watch.result)
        calibration["after"] = calibrate(spec["device"], spec["dtype"])
        ended = provenance.now()
        applied = engine.applied
    finally:
        engine.close()

    found = [other_work(asked, served) for asked, served in zip(work, windows, strict=True)]
    problem = next(filter(None, found), None)
    return Timing(
        windows,
        {
            "spec": dict(spec),
            "applied": applied,
            "provenance": {
                **origin,
                "ended": ended,
                "load_s": load_s,
                "warmup_s": warmup_s,
                "window_s": [window_seconds(served) for served in windows],
                "prompt_hash": [prompt_hash(requests) for requests in work],
            },
            "calibration": calibration,
            "witness": {"windows": witnesses},
            "verdict": verdict.whole(
                verdict.of_machine(witnesses), *(verdict.of_work(each, spec) for each in windows)
            ),
            "protocol": spec["protocol"],
        },
        problem,
    )


def warm_up(spec: Mapping[str, Any], vocabulary: int) -> list[Request]:
    """Requests in the workload's own shapes, with other prompts and nobody to wait for.

    The last ones, enough to fill every slot twice, or `MOST_WARM_UP`: slots are taken, freed and
    taken again, and a sorted workload has its longest requests at its end.
    """
    count = min(2 * spec["slots"], MOST_WARM_UP)
    requests = make_requests(spec, vocabulary, "warm-up")[-count:]
    return [replace(request, arrival_s=0.0) for request in requests]


def window_seconds(served: Served) -> float:
    """From t0, when all requests were submitted or the first was sent, until all were returned."""
    return max((record.returned_s for record in served.requests), default=math.nan)


def other_work(requests: Sequence[Request], served: Served) -> str | None:
    """What was not as asked, or None if every request was served once, with exactly its tokens,
    at possible times and from no cache. Tokens that are missing are an error, not a smaller sum."""
    records = {record.request: record for record in served.requests}
    if missing := [index for index in range(len(requests)) if index not in records]:
        return f"request {missing[0]} was not served ({len(missing)} of {len(requests)} were not)"
    if len(served.requests) != len(requests):
        return f"{len(served.requests)} results for {len(requests)} requests"
    for index, (asked, tokens) in enumerate(zip(requests, served.tokens, strict=True)):
        who, record = f"request {index}", records[index]
        if record.produced_tokens != asked.output_tokens:
            return f"{who} produced {record.produced_tokens} tokens, not {asked.output_tokens}"
        if len(tokens) != record.produced_tokens:
            return f"{who} counts {record.produced_tokens} tokens, but gave {len(tokens)}"
        if record.prompt_tokens != len(asked.prompt):
            return f"{who} had {record.prompt_tokens} prompt tokens, not {len(asked.prompt)}"
        if record.cached_tokens:
            return f"{who} took {record.cached_tokens} prompt tokens from a cache"
        if record.arrival_s != asked.arrival_s:
            return f"{who} was sent for {record.arrival_s} s, not for {asked.arrival_s} s"
        times = (
            *(record.arrival_s, record.admitted_s),
            *(record.first_token_s, record.finished_s, record.returned_s),
        )
        in_order = all(math.isfinite(t) for t in times) and list(times) == sorted(times)
        if not in_order or record.first_token_s <= 0:
            return f"{who} has impossible times: {times}"
    useful = sum(step.useful_rows for step in served.steps)
    total = sum(request.output_tokens for request in requests)
    return None if useful == total else f"the steps gave {useful} tokens, the requests {total}"
