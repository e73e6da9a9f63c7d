"""KV memory by arithmetic: bytes of a token, and how many requests a reservation lets run at once.

A reservation says how many tokens' worth of blocks a request takes when it is admitted:
`on_demand` the blocks of the tokens that it has (paging), `exact` prompt + output, `pow2` the next
power of two of that sum (the PagedAttention paper rounds the output alone), `max` the maximum
length. Whoever reserves less than a request comes to need takes the rest on demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

RESERVATIONS = ("on_demand", "exact", "pow2", "max")
DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def bytes_per_token(layers: int, kv_heads: int, head_dim: int, dtype_bytes: int) -> int:
    """Keys and values of one token in all layers."""
    return 2 * layers * kv_heads * head_dim * dtype_bytes


def per_token_formula(layers: int, kv_heads: int, head_dim: int, dtype_bytes: int) -> str:
    """The same in words."""
    return f"2 x {layers} layers x {kv_heads} KV heads x {head_dim} x {dtype_bytes} bytes"


def whole_blocks(tokens: int, block_size: int) -> int:
    """Blocks that hold so many tokens."""
    return -(-tokens // block_size)


def least_tokens(reservation: str, prompt: int, output: int, longest: int) -> int:
    """Tokens that a request takes blocks for when it is admitted, 0 if only for those it has.

    Args:
        reservation: one of `RESERVATIONS`.
        longest: the maximum length; no reservation is greater.
    """
    total = prompt + output
    wanted = {
        "on_demand": 0,
        "exact": total,
        "pow2": 1 << (total - 1).bit_length(),
        "max": longest,
    }
    return min(wanted[reservation], longest)


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
