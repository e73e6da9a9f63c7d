"""The schedule that a timing's spec and engine lead to, computed before anything is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from fourcells.simulator import Simulation, simulate
from fourcells.workload import arrivals, lengths


def block(spec: Mapping) -> bool:
    """Whether all requests of a spec's workload are there at t0."""
    return spec["requests"].get("arrival") is None


def simulation(
    meta: Mapping, admission: str, seconds: Callable[[int, int], float] | None = None
) -> Simulation:
    """One window of a timing: what its spec asks for, under the options that were applied.

    Args:
        meta: metadata of the timing.
        admission: one of `ADMISSIONS`.
        seconds: how long a step of (rows, tokens beyond one per row) takes; 1 when left out. When
            requests arrive later, the schedule depends on it.
    """
    spec = meta["spec"]
    pairs = tuple(lengths(spec["requests"], spec["seed"]))
    run = _simulate if seconds else _simulated
    return run(
        pairs,
        tuple(arrivals(spec["requests"])),
        # slots beyond the number of requests are never taken: leave them out, they cost time
        min(spec["slots"], len(pairs)),
        admission,
        spec["options"].get("max_num_batched_tokens"),
        # under asynchronous scheduling the end of a request is seen one step late
        int(bool(meta["applied"].get("async_scheduling"))),
        seconds,
    )


def _simulate(
    pairs: tuple[tuple[int, int], ...],
    arrive: tuple[float, ...],
    slots: int,
    admission: str,
    budget: int | None,
    delay: int,
    seconds: Callable[[int, int], float] | None,
) -> Simulation:
    prompts, outputs = zip(*pairs, strict=True)
    return simulate(
        outputs,
        slots,
        admission,
        prompt_tokens=prompts,
        budget=budget,
        release_delay=delay,
        arrivals=arrive,
        seconds=seconds,
    )


# Repeats of a cell, and engines that admit alike, ask for the same.
_simulated = cache(_simulate)
