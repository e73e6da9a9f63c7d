"""Batches that an engine's own scheduler formed under `wave` and `padded`, found in what it did.

Such an engine gets `padded` by asking, for every request, for the longest length of its batch. Its
own tokens are the first ones; the rest are the price of padding and count nowhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fourcells.engines import EngineError, RequestRecord, StepRecord


def number_waves(spec: Mapping[str, Any], records: Sequence[RequestRecord]) -> None:
    """Gives each record its wave, from 1: requests admitted at the same time are one.

    Raises:
        EngineError: a wave but the last is not full, so the batches are not those of `wave`.
    """
    moments = sorted({record.admitted_s for record in records})
    for record in records:
        record.wave = 1 + moments.index(record.admitted_s)
    sizes = Counter(record.wave for record in records)
    for wave in range(1, len(moments)):
        if sizes[wave] != spec["slots"]:
            raise EngineError(
                f"engines.{spec['engine']}: wave {wave} began with {sizes[wave]} of "
                f"{spec['slots']} requests: one step must hold all prompts of a batch, "
                "raise max_num_batched_tokens"
            )


def keep_own_tokens(
    records: Sequence[RequestRecord], steps: Sequence[StepRecord], done_s: Sequence[float]
) -> None:
    """Turns what a padded engine did into what its requests asked for.

    Args:
        records: with their waves; `produced_tokens` becomes the own length, `finished_s` the time
            when the last own token existed.
        steps: `useful_rows` becomes the rows whose token some request asked for.
        done_s: when the tokens of each step existed, seconds from t0.

    Raises:
        EngineError: a wave did not take as many steps as its longest request has tokens.
    """
    starts = [step.t_s for step in steps]
    waves: dict[int, list[RequestRecord]] = {}
    for record in records:
        waves.setdefault(record.wave, []).append(record)
    first = {
        wave: bisect_right(starts, members[0].admitted_s) - 1 for wave, members in waves.items()
    }
    for wave, members in waves.items():
        end = first.get(wave + 1, len(steps))
        longest = max(record.output_tokens for record in members)
        if end - first[wave] != longest:
            raise EngineError(
                f"padded: wave {wave} took {end - first[wave]} steps, not {longest}, the tokens of "
                "its longest request"
            )
        for age, step in enumerate(steps[first[wave] : end]):
            step.useful_rows = sum(record.output_tokens > age for record in members)
        for record in members:
            record.produced_tokens = record.output_tokens
            record.finished_s = done_s[first[wave] + record.output_tokens - 1]
