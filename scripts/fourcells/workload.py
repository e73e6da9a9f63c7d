"""The requests of a workload: lengths in their order, and prompts of random token ids."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, cycle, islice
from typing import Any


@dataclass(frozen=True)
class Request:
    """Prompt token ids, how many tokens to produce whatever they are (no end of sequence), and when
    it is sent, seconds after t0."""

    prompt: tuple[int, ...]
    output_tokens: int
    arrival_s: float = 0.0


def lengths(requests: Mapping[str, Any], seed: int) -> list[tuple[int, int]]:
    """Prompt and output length of each request, tokens, in order of arrival."""
    count = requests["count"]
    pairs = list(
        zip(
            islice(cycle(requests["prompt_tokens"]), count),
            islice(cycle(requests["output_tokens"]), count),
            strict=True,
        )
    )
    if requests["order"] == "sorted":
        return sorted(pairs, key=lambda pair: pair[1])
    if requests["order"] == "shuffled":
        return random.Random(f"order-{seed}").sample(pairs, count)
    return pairs


def arrivals(requests: Mapping[str, Any]) -> list[float]:
    """When each request is sent, seconds after t0, in ascending order.

    Without `arrival` all are there at t0. A Poisson process has independent, exponential gaps; its
    first request is sent at t0. The times follow from `rate` (requests per second) and `seed`
    alone: every engine and every repeat gets the same ones.
    """
    count, arrival = requests["count"], requests.get("arrival")
    if arrival is None:
        return [0.0] * count
    draw = random.Random(f"arrival-{arrival['seed']}")
    gaps = [draw.expovariate(arrival["rate"]) for _ in range(count - 1)]
    return list(accumulate(gaps, initial=0.0))


def make_requests(spec: Mapping[str, Any], vocabulary: int, sample: int | str) -> list[Request]:
    """The requests of one window.

    Prompts follow from (seed, workload, repeat, sample) alone: the same for every engine, and new
    in every window, so that no cache of an earlier window can serve them.

    Args:
        spec: a timing's spec, with its `repeat`.
        vocabulary: token ids are drawn from 0 to vocabulary - 1.
        sample: number of the window, or a word for the warm-up.
    """
    draw = random.Random(f"{spec['seed']}-{spec['workload']}-{spec['repeat']}-{sample}")
    return [
        Request(tuple(draw.choices(range(vocabulary), k=prompt)), output, arrival)
        for (prompt, output), arrival in zip(
            lengths(spec["requests"], spec["seed"]), arrivals(spec["requests"]), strict=True
        )
    ]


def prompt_hash(requests: list[Request]) -> str:
    """SHA-256 of all prompts and lengths: equal hashes mean equal work."""
    digest = hashlib.sha256()
    for request in requests:
        digest.update(repr((request.prompt, request.output_tokens)).encode())
    return digest.hexdigest()
