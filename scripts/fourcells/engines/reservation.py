"""KV memory of a vllm engine: how much there is, and how much of it a request takes at once.

The reservations are those of `schedule.RESERVATIONS`; `max` reserves `reserve_tokens`, or the
greatest length if that is not given. Only the number of blocks that is asked for differs; kernels,
block size and all else stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fourcells.schedule import least_tokens, padded_lengths
from fourcells.workload import lengths

ON_DEMAND = "on_demand"


def reserving(allocate_slots: Callable[..., Any], reservation: str, most: int) -> Callable:
    """vLLM's `KVCacheManager.allocate_slots`, asked for a request's whole target.

    vLLM takes blocks for the tokens of this step and for `num_lookahead_tokens` beyond them (its
    speculative decoding needs those), at most for `max_model_len`; 0.24 and 0.32.
    """

    def allocate(
        request: Any,
        num_new_tokens: int,
        num_new_computed_tokens: int = 0,
        *,
        num_lookahead_tokens: int = 0,
        **others: Any,
    ) -> Any:
        wanted = least_tokens(reservation, request.num_prompt_tokens, request.max_tokens, most)
        here = request.num_computed_tokens + num_new_computed_tokens + num_new_tokens
        return allocate_slots(
            request,
            num_new_tokens,
            num_new_computed_tokens,
            num_lookahead_tokens=max(num_lookahead_tokens, wanted - here),
            **others,
        )

    return allocate


def arguments(options: Mapping[str, Any], bytes_per_token: int) -> dict[str, Any]:
    """vLLM's own arguments for so many usable tokens; none if the option is not given."""
    if "kv_tokens" not in options:
        return {}
    # one block is the null block, which no request ever gets
    blocks = options["kv_tokens"] // options["block_size"] + 1
    found = {"num_gpu_blocks_override": blocks}
    if "gpu_memory_utilization" not in options:
        # else vLLM on a CPU would first look for 92 % of the machine's memory
        found["kv_cache_memory_bytes"] = blocks * options["block_size"] * bytes_per_token
    return found


def problem(spec: Mapping[str, Any]) -> str | None:
    """Why these sizes cannot be, or None."""
    options, longest = spec["options"], spec["max_model_len"]
    key, here = f"engines.{spec['engine']}.options", f"at scale {spec['scale']}"
    kv, block = options.get("kv_tokens"), options.get("block_size")
    if kv and "kv_cache_gib" in options:
        return f"{key}.kv_tokens: kv_cache_gib says the same in other words; give one of them"
    if kv and not block:
        return f"{key}.kv_tokens: needs the option block_size too"
    if kv and kv % block:
        return f"{key}.kv_tokens: {kv} {here} is not a multiple of block_size: {block}"
    if kv and kv < longest:
        return (
            f"{key}.kv_tokens: {kv} {here} is less than one request of the greatest length, "
            f"max_model_len: {longest}"
        )
    most = options.get("reserve_tokens")
    if most and options.get("reservation") != "max":
        return f"{key}.reserve_tokens: only an engine with reservation: max has it"
    if most and most > longest:
        return (
            f"{key}.reserve_tokens: {most} {here} is more than max_model_len: {longest}, the most "
            "that vLLM reserves"
        )
    if most and most < (needed := _longest_request(spec)):
        return (
            f"{key}.reserve_tokens: {most} {here} is less than the {needed} tokens of the longest "
            f"request of workload {spec['workload']}"
        )
    return None


def _longest_request(spec: Mapping[str, Any]) -> int:
    prompts, outputs = zip(*lengths(spec["requests"], spec["seed"]), strict=True)
    if spec["options"].get("admission") == "padded":
        outputs = padded_lengths(outputs, spec["slots"])
    return max(map(sum, zip(prompts, outputs, strict=True)))
