"""One contiguous KV region of maximum length per slot, and attention over it.

This is the memory that static serving reserves (the paper's "Orca (Max)", PagedAttention, SOSP
2023): no blocks, no sharing. transformers runs the model's layers; its attention registry hands
queries, keys and values to `slot_attention`, with the part of the regions that the forward uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ATTENTION = "four_cells_slots"

MASK_MULTIPLE = 8


class SlotCache:
    """KV regions: `keys[layer]` and `values[layer]` have the shape [slots, kv_heads,
    max_model_len, head_dim]; the rows in use are the first ones."""

    def __init__(self, layers: int, shape: tuple[int, int, int, int], like: Any) -> None:
        import torch

        self.keys = [like.new_zeros(shape) for _ in range(layers)]
        self.values = [like.new_zeros(shape) for _ in range(layers)]
        # 0, 1, 2, ...: slices of it number rows and positions without a new tensor per step
        self.count = torch.arange(max(shape[0], shape[2]), device=like.device)

    @property
    def tensors(self) -> list[Any]:
        """All tensors; they stay where they are for the life of the cache."""
        return [*self.keys, *self.values, self.count]

    def prefill(self, first: int, rows: int) -> Prefill:
        """For a forward of whole prompts, into the regions `first` to `first + rows - 1`."""
        return Prefill(self, slice(first, first + rows))

    def decode(self, positions: Any, longest: int, even: bool) -> Decode:
        """For a forward of one token per row.

        Args:
            positions: where each row writes its token [rows].
            longest: how far the regions are read, tokens; at least the longest row, this token
                included.
            even: whether every row is `longest` tokens long; then no mask is needed.
        """
        if even:
            return Decode(self, positions, longest, mask=None)
        # CUDA's fast kernels want the mask's width a multiple of 8, and numbers, not truth values;
        # made here, once per step, and not in every layer
        longest = min(-(-longest // MASK_MULTIPLE) * MASK_MULTIPLE, self.keys[0].shape[2])
        # [rows, 1, 1, longest]: a row sees its own tokens alone
        hidden = (self.count[:longest] > positions[:, None])[:, None, None]
        mask = self.keys[0].new_zeros(hidden.shape).masked_fill(hidden, float("-inf"))
        return Decode(self, positions, longest, mask)

    def move(self, source: int, target: int) -> None:
        """Copies a row's region to another slot."""
        for layer in (*self.keys, *self.values):
            layer[target].copy_(layer[source])


@dataclass(frozen=True)
class Prefill:
    """Whole prompts: they fill their regions, and see themselves alone."""

    cache: SlotCache
    rows: slice

    def attend(self, layer: int, query: Any, key: Any, value: Any, scale: float) -> Any:
        """[rows, heads, tokens, head_dim], keys and values with kv_heads -> like the query."""
        from torch.nn.functional import scaled_dot_product_attention

        tokens = query.shape[2]
        self.cache.keys[layer][self.rows, :, :tokens] = key
        self.cache.values[layer][self.rows, :, :tokens] = value
        return scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scale, enable_gqa=True
        )


@dataclass(frozen=True)
class Decode:
    """One token per row: it joins its region, and sees what the mask lets it see."""

    cache: SlotCache
    positions: Any
    longest: int
    mask: Any

    def attend(self, layer: int, query: Any, key: Any, value: Any, scale: float) -> Any:
        """[rows, heads, 1, head_dim], keys and values with kv_heads -> like the query."""
        from torch.nn.functional import scaled_dot_product_attention

        rows, heads, _, head_dim = query.shape
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        if self.mask is None:  # all rows write at the same place
            keys[:rows, :, self.longest - 1] = key[:, :, 0]
            values[:rows, :, self.longest - 1] = value[:, :, 0]
        else:
            # not scatter_: torch.compile would copy the regions around it
            at = self.cache.count[:rows], slice(None), self.positions
            keys[at] = key[:, :, 0]
            values[at] = value[:, :, 0]
        # The heads that share a key stand as its queries, [rows, kv_heads, sharing, head_dim]:
        # under a mask, CUDA's fast kernels know no sharing and would copy the keys per head.
        out = scaled_dot_product_attention(
            query.reshape(rows, keys.shape[1], -1, head_dim),
            keys[:rows, :, : self.longest],
            values[:rows, :, : self.longest],
            attn_mask=self.mask,
            scale=scale,
        )
        return out.reshape(rows, heads, 1, head_dim)


def slot_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    _mask: Any,
    *,
    regions: Prefill | Decode,
    scaling: float | None = None,
    **_kwargs: Any,
) -> tuple[Any, None]:
    """Attention over the slots' regions, in the form of transformers' attention registry.

    Args:
        module: the attention layer; `layer_idx` selects its regions.
        query: [rows, heads, tokens, head_dim]; key and value: [rows, kv_heads, tokens, head_dim].
        regions: what this forward writes and reads.

    Returns:
        [rows, tokens, heads, head_dim], and None in place of the attention weights.
    """
    out = regions.attend(module.layer_idx, query, key, value, scaling)
    return out.transpose(1, 2).contiguous(), None


def register_attention() -> None:
    """Makes the attention known to transformers, which then leaves the mask to it."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, slot_attention)
