"""One contiguous KV region of maximum length per slot, and attention over it.

This is the memory that static serving reserves (the paper's "Orca (Max)", PagedAttention, SOSP
2023): no blocks, no sharing. transformers runs the model's layers; its attention registry hands
queries, keys and values to `slot_attention`.
"""

from __future__ import annotations

from typing import Any

ATTENTION = "four_cells_slots"


class SlotCache:
    """KV regions, and which part of them the current forward reads and writes.

    `keys[layer]` and `values[layer]` have the shape [slots, kv_heads, max_model_len, head_dim];
    the rows in use are the first ones.
    """

    def __init__(self, layers: int, shape: tuple[int, int, int, int], like: Any) -> None:
        import torch

        self.keys = [like.new_zeros(shape) for _ in range(layers)]
        self.values = [like.new_zeros(shape) for _ in range(layers)]
        # 0, 1, 2, ...: slices of it number rows and positions without a new tensor per step
        self.count = torch.arange(max(shape[0], shape[2]), device=like.device)
        self.prefilling: slice | None = None
        self.positions: Any = None
        self.longest = 0
        self.mask: Any = None

    def at_prefill(self, first: int, rows: int) -> None:
        """The next forward holds whole prompts, for the regions `first` to `first + rows - 1`."""
        self.prefilling = slice(first, first + rows)

    def at_decode(self, positions: Any, longest: int, even: bool) -> None:
        """The next forward holds one token per row.

        Args:
            positions: where each row writes its token [rows].
            longest: tokens in the longest row, this one included.
            even: whether all rows are equally long; then no mask is needed.
        """
        self.prefilling = None
        self.positions = positions
        self.longest = longest
        # [rows, 1, 1, longest]: a row sees its own tokens alone
        self.mask = None if even else (self.count[:longest] <= positions[:, None])[:, None, None]

    def move(self, source: int, target: int) -> None:
        """Copies a row's region to another slot."""
        for layer in (*self.keys, *self.values):
            layer[target].copy_(layer[source])


def slot_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    _mask: Any,
    *,
    slot_cache: SlotCache,
    **kwargs: Any,
) -> tuple[Any, None]:
    """Attention over the slots' regions, in the form of transformers' attention registry.

    Args:
        module: the attention layer; `layer_idx` selects its regions.
        query: [rows, heads, tokens, head_dim]; key and value: [rows, kv_heads, tokens, head_dim].
        slot_cache: the regions, told beforehand whether this is a prefill or a decode step.

    Returns:
        [rows, tokens, heads, head_dim], and None in place of the attention weights.
    """
    from torch.nn.functional import scaled_dot_product_attention

    keys, values = slot_cache.keys[module.layer_idx], slot_cache.values[module.layer_idx]
    tokens = query.shape[2]
    if slot_cache.prefilling is not None:
        keys[slot_cache.prefilling, :, :tokens] = key
        values[slot_cache.prefilling, :, :tokens] = value
        mask, causal = None, True
    else:
        rows, longest = len(query), slot_cache.longest
        mask, causal = slot_cache.mask, False
        if mask is None:  # all rows write at the same place
            keys[:rows, :, longest - 1] = key[:, :, 0]
            values[:rows, :, longest - 1] = value[:, :, 0]
        else:
            at = slot_cache.count[:rows], slice(None), slot_cache.positions
            keys[at] = key[:, :, 0]
            values[at] = value[:, :, 0]
        key, value = keys[:rows, :, :longest], values[:rows, :, :longest]
    out = scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=causal,
        scale=kwargs.get("scaling"),
        enable_gqa=True,
    )
    return out.transpose(1, 2).contiguous(), None


def register_attention() -> None:
    """Makes the attention known to transformers; the mask stays ours."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ATTENTION, slot_attention)
    AttentionMaskInterface.register(ATTENTION, lambda *args, **kwargs: None)
