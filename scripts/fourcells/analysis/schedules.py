"""The schedule that a timing's spec and engine lead to, computed before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from fourcells.simulator import simulate
from fourcells.workload import lengths


def block(spec: Mapping) -> bool:
    """Whether all requests of a spec's workload are there at t0."""
    return spec["requests"].get("arrival") is None


def memory_limited(spec: Mapping) -> bool:
    """Whether an option limits the KV cache: then memory, and not the slots alone, says who runs;
    see `reservations`."""
    return bool(spec["options"].get("kv_tokens"))


def scheduled(meta: Mapping, admission: str) -> np.ndarray:
    """Rows, useful rows and waiting requests of each step of one window [steps, 3].

    Args:
        meta: metadata of a timing whose requests are all there at t0.
        admission: one of `ADMISSIONS`.
    """
    spec = meta["spec"]
    pairs = tuple(lengths(spec["requests"], spec["seed"]))
    # Slots beyond the number of requests are never taken: leave them out, they cost time.
    slots = min(spec["slots"], len(pairs))
    budget = spec["options"].get("max_num_batched_tokens")
    # Under asynchronous scheduling the end of a request is seen one step late.
    delay = 1 if meta["applied"].get("async_scheduling") else 0
    return _counts(pairs, slots, admission, budget, delay)


@cache
def _counts(
    pairs: tuple[tuple[int, int], ...], slots: int, admission: str, budget: int | None, delay: int
) -> np.ndarray:
    """Repeats of a cell, and engines that admit alike, ask for the same."""
    prompts, outputs = zip(*pairs, strict=True)
    steps = simulate(
        outputs, slots, admission, prompt_tokens=prompts, budget=budget, release_delay=delay
    ).steps
    return np.array([(step.rows, step.useful_rows, step.waiting) for step in steps])
