"""Backend transformers: the library's own continuous batching over its paged KV cache.

A second engine in which scheduling is the only thing that differs between admissions: all of them
run through one scheduler class, a subclass of the library's first-come-first-served one. Written
against transformers 5.17 and 5.19.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from fourcells.engines import EngineError, RequestRecord, Served, StepRecord, missing_module
from fourcells.engines.transformers_scheduler import Seen, follow, register_scheduler
from fourcells.model import Checkpoint
from fourcells.schedule import padded_lengths
from fourcells.workload import Request

# The library refuses smaller blocks.
SMALLEST_BLOCK = 4
# Tokens in one step unless an option says otherwise: the library's own default. Left to itself, the
# library of 5.17 takes as many as memory holds once the number of blocks is given.
STEP_TOKENS = 8192
# How often a wait looks whether the generation thread still lives, seconds.
LOOK_S = 1.0


def problem(spec: Mapping[str, Any]) -> str | None:
    """Why transformers cannot run the spec here, or None."""
    options = spec["options"]
    key = f"engines.{spec['engine']}.options or scales.{spec['scale']}.backends.transformers"
    block = options.get("block_size")
    if block and block < SMALLEST_BLOCK:
        return f"{key}: block_size: {block} is less than {SMALLEST_BLOCK}, the library's smallest"
    budget = options.get("max_num_batched_tokens")
    if budget and budget < spec["slots"]:
        return f"{key}: max_num_batched_tokens: {budget} is less than slots = {spec['slots']}"
    install = "set the environment up with: make setup"
    return missing_module(spec, "torch", install) or missing_module(spec, "transformers", install)


def open_engine(spec: Mapping[str, Any], checkpoint: Checkpoint) -> TransformersBatching:
    """Loads the checkpoint and starts the library's generation thread.

    Raises:
        EngineError: the KV cache and the buffers of a step do not fit into memory.
    """
    return TransformersBatching(spec, checkpoint)


class TransformersBatching:
    """The engine. `applied` is read back from the model, the KV cache and the scheduler.

    The generation thread and its KV cache live as long as the engine, so that graphs captured in a
    warm-up serve the windows after it.
    """

    def __init__(self, spec: Mapping[str, Any], checkpoint: Checkpoint) -> None:
        import torch
        from transformers import AutoModelForCausalLM, GenerationConfig

        self.name = spec["engine"]
        model = AutoModelForCausalLM.from_pretrained(
            checkpoint.folder,
            dtype=getattr(torch, spec["dtype"]),
            # on CUDA the library changes this to flash attention if that is installed
            attn_implementation="sdpa",
        )
        model.to(spec["device"]).eval()
        self.manager = model.init_continuous_batching(
            # not the checkpoint's own settings (sampling, penalties); -1: no token ends a request
            generation_config=GenerationConfig(do_sample=False, eos_token_id=-1),
            continuous_batching_config=_batching_config(spec),
        )
        try:
            # makes the KV cache and the scheduler, and captures graphs where there are any
            self.manager.warmup()
        except MemoryError as error:
            raise EngineError(
                f"engines.{self.name}: the KV cache and the attention mask do not fit into memory; "
                f"lower kv_blocks or max_num_batched_tokens ({error})"
            ) from error
        self.scheduler = self.manager.batch_processor.scheduler
        self.scheduler.admission = spec["options"].get("admission", "continuous")
        self.applied = _read_back(self.manager, spec["max_model_len"])
        self.manager.start()

    def close(self) -> None:
        """Ends the generation thread and gives the model and the KV cache back."""
        self.scheduler.released.set()
        self.manager.stop(block=True, hard_stop=True)
        self.manager = self.scheduler = None

    def serve(self, requests: Sequence[Request]) -> Served:
        """Serves all requests; those that arrive at t0 are queued before the first step.

        Raises:
            EngineError: a request is too long or arrives late in a padded or wave engine, a wave
                did not start full, or the library failed.
        """
        asked = self._asked_tokens(requests)
        later = deque(sorted((r.arrival_s, i) for i, r in enumerate(requests) if r.arrival_s > 0))
        self.scheduler.hold(len(requests) - len(later))
        for index, request in enumerate(requests):
            if request.arrival_s == 0:
                self._send(index, request, asked[index])
        while not self.scheduler.complete.wait(LOOK_S):
            self._check_alive()
        t0 = time.monotonic()
        self.scheduler.released.set()

        outputs, returned, late = {}, {}, {}
        while len(outputs) < len(requests):
            wait = LOOK_S
            while later and (wait := later[0][0] - (time.monotonic() - t0)) <= 0:
                _, index = later.popleft()
                late[index] = -wait
                self._send(index, requests[index], asked[index])
            output = self.manager.get_result(timeout=min(wait, LOOK_S) if later else LOOK_S)
            if output is None:
                self._check_alive()
                continue
            if output.error:
                raise EngineError(f"engines.{self.name}: transformers failed: {output.error}")
            index = int(output.request_id)
            returned[index] = time.monotonic() - t0
            outputs[index] = output.generated_tokens[: requests[index].output_tokens]

        steps, seen = follow(self.scheduler.log, requests, t0)
        if self.admission != "continuous":
            self._check_waves(steps, seen)
        return Served(
            requests=[
                RequestRecord(
                    request=index,
                    prompt_tokens=len(request.prompt),
                    output_tokens=request.output_tokens,
                    produced_tokens=len(outputs[index]),
                    arrival_s=request.arrival_s,
                    late_s=late.get(index, 0.0),
                    admitted_s=steps[seen[index].step].t_s,
                    first_token_s=seen[index].times[0],
                    finished_s=seen[index].times[: request.output_tokens][-1],
                    returned_s=returned[index],
                    wave=None if self.admission == "continuous" else seen[index].wave,
                    cached_tokens=max(0, len(request.prompt) - seen[index].prefilled),
                    preemptions=seen[index].preemptions,
                )
                for index, request in enumerate(requests)
            ],
            steps=steps,
            tokens=[outputs[index] for index in range(len(requests))],
        )

    @property
    def admission(self) -> str:
        return self.scheduler.admission

    def _asked_tokens(self, requests: Sequence[Request]) -> list[int]:
        """How many tokens to ask for, per request: under `padded` its batch's longest length."""
        asked = [request.output_tokens for request in requests]
        if self.admission == "padded":
            asked = padded_lengths(asked, self.applied["slots"])
        longest = self.applied["max_model_len"]
        for index, (request, tokens) in enumerate(zip(requests, asked, strict=True)):
            if len(request.prompt) + tokens > longest:
                raise EngineError(
                    f"engines.{self.name}: request {index} needs {len(request.prompt)} + {tokens} "
                    f"tokens, more than max_model_len: {longest}"
                )
            if request.arrival_s > 0 and self.admission != "continuous":
                raise EngineError(
                    f"engines.{self.name}: admission: {self.admission} takes no requests that "
                    f"arrive later (request {index} arrives at {request.arrival_s} s)"
                )
        return asked

    def _send(self, index: int, request: Request, tokens: int) -> None:
        taken = self.manager.add_request(
            request.prompt,
            request_id=str(index),
            max_new_tokens=tokens,
            record_timestamps=True,
        )
        if taken is None:
            raise EngineError(f"engines.{self.name}: transformers took no request {index}")

    def _check_alive(self) -> None:
        if not self.manager.is_running():
            raise EngineError(f"engines.{self.name}: transformers' generation thread has ended")

    def _check_waves(self, steps: Sequence[StepRecord], seen: Sequence[Seen]) -> None:
        """Each wave must hold every free slot from its first step on, with its prompts whole."""
        slots = self.applied["slots"]
        for index in sorted({each.step for each in seen}):
            step = steps[index]
            wanted = min(slots, step.rows + step.waiting)
            started = sum(each.step == index and each.whole for each in seen)
            if started < wanted:
                raise EngineError(
                    f"engines.{self.name}: a wave of {wanted} requests began with {started} whole "
                    f"prompts ({step.tokens} tokens); max_num_batched_tokens: "
                    f"{self.applied['max_num_batched_tokens']} must hold all prompts of a wave, "
                    f"and kv_blocks: {self.applied['kv_blocks']} their tokens"
                )


def _batching_config(spec: Mapping[str, Any]) -> Any:
    """The library's configuration; what is not named here stays its own choice."""
    from transformers import ContinuousBatchingConfig

    options = spec["options"]
    defaults = {each.name: each.default for each in fields(ContinuousBatchingConfig)}
    # 5.19 renamed the field and keeps the old name, deprecated
    block_field = "page_size" if "page_size" in defaults else "block_size"
    block = options.get("block_size", defaults[block_field])
    longest = math.ceil(spec["max_model_len"] / block)
    arguments = {
        block_field: block,
        # by default every slot can hold a request of the greatest length
        "num_blocks": options.get("kv_blocks", spec["slots"] * longest),
        "max_batch_tokens": options.get("max_num_batched_tokens", STEP_TOKENS),
        "max_requests_per_batch": spec["slots"],
        "allow_block_sharing": False,
        "scheduler_type": register_scheduler(),
        # the library would stop admitting while fewer than 15 % of the blocks are free
        "safety_margin": 0.0,
    }
    if spec["device"] == "cuda":
        # blocks that the decode kernel of flash attention can address per request
        arguments["max_blocks_per_request"] = longest
    return ContinuousBatchingConfig(**arguments)


def _read_back(manager: Any, max_model_len: int) -> dict[str, Any]:
    """`max_model_len` is our own limit (`serve` keeps it): the library knows only blocks."""
    import torch

    model, config = manager.model, manager.continuous_batching_config
    scheduler, kv = manager.batch_processor.scheduler, manager.batch_processor.cache
    block = getattr(config, "page_size", None) or config.block_size
    varlen, decode = config.cuda_graph_booleans
    return {
        "slots": scheduler.max_requests_per_batch,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
        "threads": torch.get_num_threads(),
        "max_model_len": max_model_len,
        "max_num_batched_tokens": kv.max_batch_tokens,
        "prefix_caching": kv.use_prefix_sharing,
        "admission": scheduler.admission,
        "reservation": "on_demand",
        "scheduler": f"{type(scheduler).__module__}.{type(scheduler).__qualname__}",
        "async_scheduling": bool(config.use_async_batching),
        "attention_backend": model.config._attn_implementation,
        "graphs": " and ".join(["varlen"] * varlen + ["decode"] * decode) or "none",
        "kv_blocks": kv.num_blocks,
        "block_size": block,
        "kv_capacity_tokens": kv.num_blocks * block,
        "max_concurrency": kv.num_blocks * block / max_model_len,
    }
