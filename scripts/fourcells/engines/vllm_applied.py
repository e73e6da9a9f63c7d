"""What vLLM applied, read back from its own configuration after the load."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fourcells.engines.vllm_load import in_bytes


def read_back(llm: Any, switched: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options in force.

    Args:
        llm: the loaded engine.
        switched: what the scheduler class said of itself, first line of its log.
        options: of the spec, for sizes that vLLM rounds.
    """
    worker = llm.collective_rpc(_worker_state)[0]
    config = llm.llm_engine.vllm_config
    cache, scheduler, model = config.cache_config, config.scheduler_config, config.model_config
    graphs = config.compilation_config
    return {
        "slots": scheduler.max_num_seqs,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": config.device_config.device_type,
        "threads": worker["threads"],
        "max_model_len": model.max_model_len,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "prefix_caching": bool(cache.enable_prefix_caching),
        "admission": switched["admission"],
        "reservation": switched["reservation"],
        "reserve_tokens": switched["reserve_tokens"],
        "scheduler": _name(scheduler.scheduler_cls),
        "async_scheduling": bool(scheduler.async_scheduling),
        "chunked_prefill": bool(scheduler.enable_chunked_prefill),
        "enforce_eager": model.enforce_eager,
        "engine_process": os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "1",
        "attention_backend": worker["attention_backend"],
        "compilation": _name(graphs.mode),
        "graphs": _name(graphs.cudagraph_mode),
        "cudagraph_capture_sizes": list(graphs.cudagraph_capture_sizes or []),
        "kv_blocks": cache.num_gpu_blocks,
        "block_size": cache.block_size,
        # usable: one block is the null block, which no request gets and vLLM's own figures count
        "kv_tokens": (cache.num_gpu_blocks - 1) * cache.block_size,
        "kv_capacity_tokens": cache.kv_cache_size_tokens,
        "max_concurrency": cache.kv_cache_max_concurrency,
        "kv_cache_gib": _gib(cache.kv_cache_memory_bytes, options.get("kv_cache_gib")),
        "gpu_memory_utilization": cache.gpu_memory_utilization,
    }


def _gib(applied: int | None, asked: float | None) -> float | None:
    """Bytes as GiB: the number that was asked for, if it is the one that gives these bytes."""
    if applied is None:
        return None
    return asked if asked is not None and in_bytes(asked) == applied else applied / 2**30


def _name(value: Any) -> str | None:
    return getattr(value, "name", None) or (None if value is None else str(value))


def _worker_state(worker: Any) -> dict[str, Any]:
    """What only the worker knows, which may live in a process of its own."""
    import torch

    layers = worker.model_runner.compilation_config.static_forward_context.values()
    backends = {
        layer.get_attn_backend().get_name()
        for layer in layers
        if hasattr(layer, "get_attn_backend")
    }
    return {
        "attention_backend": ", ".join(sorted(backends)) or None,
        "threads": torch.get_num_threads(),
    }
