"""The requests of a workload: lengths in their order, and prompts of random token ids."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any


@dataclass(frozen=True)
class Request:
    """Prompt token ids, and how many tokens to produce whatever they are (no end of sequence)."""

    prompt: tuple[int, ...]
    output_tokens: int


def prompt_lengths(requests: Mapping[str, Any]) -> list[int]:
    """Prompt length of each request, tokens, in the order of the list that repeats."""
    return list(islice(cycle(requests["prompt_tokens"]), requests["count"]))


def output_lengths(requests: Mapping[str, Any], seed: int) -> list[int]:
    """Output length of each request, tokens, in order of arrival."""
    lengths = list(islice(cycle(requests["output_tokens"]), requests["count"]))
    if requests["order"] == "sorted":
        return sorted(lengths)
    if requests["order"] == "shuffled":
        return random.Random(f"order-{seed}").sample(lengths, len(lengths))
    return lengths


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
    requests = spec["requests"]
    return [
        Request(tuple(draw.choices(range(vocabulary), k=prompt)), output)
        for prompt, output in zip(
            prompt_lengths(requests), output_lengths(requests, spec["seed"]), strict=True
        )
    ]


def prompt_hash(requests: list[Request]) -> str:
    """SHA-256 of all prompts and lengths: equal hashes mean equal work."""
    digest = hashlib.sha256()
    for request in requests:
        digest.update(repr((request.prompt, request.output_tokens)).encode())
    return digest.hexdigest()
