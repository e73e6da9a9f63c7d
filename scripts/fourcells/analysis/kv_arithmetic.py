"""KV memory by arithmetic: bytes of a token, and how many requests a reservation lets run at once.

A reservation (`schedule.RESERVATIONS`) says how many tokens' worth of blocks a request takes when
it is admitted. Whoever reserves less than a request comes to need takes the rest on demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fourcells.schedule import least_tokens


def per_token_formula(layers: int, kv_heads: int, head_dim: int, dtype_bytes: int) -> str:
    """`model.bytes_per_token` in words."""
    return f"2 x {layers} layers x {kv_heads} KV heads x {head_dim} x {dtype_bytes} bytes"


def whole_blocks(tokens: int, block_size: int) -> int:
    """Blocks that hold so many tokens."""
    return -(-tokens // block_size)


def running_tokens(
    lengths: Iterable[tuple[int, int]], reservation: str, longest: int, block_size: int = 1
) -> float:
    """Tokens' worth of KV memory that a running request has taken, on average over all steps.

    A request of n output tokens runs for n steps, so long requests count more than in the mean
    over requests (length bias). It has prompt + k tokens after its k-th step, the newest included,
    whose keys and values the next step computes.

    Args:
        lengths: prompt and output tokens of each request.
    """
    taken = steps = 0
    for (prompt, output), count in Counter(lengths).items():
        least = least_tokens(reservation, prompt, output, longest)
        tokens = (max(least, prompt + made) for made in range(1, output + 1))
        taken += count * sum(whole_blocks(n, block_size) * block_size for n in tokens)
        steps += count * output
    return taken / steps


def used_share(
    lengths: Iterable[tuple[int, int]], reservation: str, longest: int, block_size: int = 1
) -> float:
    """Share of the reserved memory that holds tokens, for running requests over all steps."""
    lengths = list(lengths)
    held = running_tokens(lengths, "on_demand", longest)
    return held / running_tokens(lengths, reservation, longest, block_size)
