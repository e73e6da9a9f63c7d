"""Backend torch: a hand-written serving loop over a Hugging Face causal language model.

The loop reads as the picture of slots: admit, step, retire. All admissions share one forward and
one contiguous KV region of maximum length per slot; only `schedule.free_slots` and
`schedule.leaves` differ. The eager, padded form is the lesson's static batch.

A row keeps its own positions in its own region, so prompts of different lengths need no left
padding: the prefill alone pads them, on the right, under a causal mask that lets no real token see
the padding, and decoding overwrites what the padding left behind.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fourcells.engines import RequestRecord, Served, StepRecord, missing_module
from fourcells.engines.slot_cache import ATTENTION, SlotCache, register_attention
from fourcells.model import Checkpoint
from fourcells.schedule import free_slots, leaves
from fourcells.workload import Request

UNKNOWN = float("nan")


def problem(spec: Mapping[str, Any]) -> str | None:
    """Why the torch backend cannot run here, or None."""
    install = "set the environment up with: make setup"
    return missing_module(spec, "torch", install) or missing_module(spec, "transformers", install)


def open_engine(spec: Mapping[str, Any], checkpoint: Checkpoint) -> TorchLoop:
    """Loads the checkpoint on the spec's device."""
    return TorchLoop(spec, checkpoint)


@dataclass
class Row:
    """A request that holds a slot; its index among the rows is the index of its KV region."""

    request: Request
    record: RequestRecord
    # steps spent in the slot; a finished row of a padded batch goes on ageing
    age: int = 0
    last_token: int = 0
    tokens: list[int] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return len(self.tokens) >= self.request.output_tokens

    @property
    def position(self) -> int:
        """Where the token that is fed next is written: after the prompt and the tokens before."""
        return len(self.request.prompt) + self.age - 1

    def take(self, token: int, now: float) -> None:
        """Gives the row a step's token; it counts unless the row was finished before."""
        self.age += 1
        self.last_token = token
        if self.done:
            return
        self.tokens.append(token)
        self.record.produced_tokens += 1
        if len(self.tokens) == 1:
            self.record.first_token_s = now
        if self.done:
            self.record.finished_s = now


class TorchLoop:
    """The engine. `applied` is read back from the loaded model and the KV regions."""

    def __init__(self, spec: Mapping[str, Any], checkpoint: Checkpoint) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        register_attention()
        self.admission = spec["options"].get("admission", "padded")
        self.model = AutoModelForCausalLM.from_pretrained(
            checkpoint.folder,
            dtype=getattr(torch, spec["dtype"]),
            attn_implementation=ATTENTION,
        )
        self.model.to(spec["device"]).eval()
        self.cache = SlotCache(
            layers=checkpoint.layers,
            shape=(spec["slots"], checkpoint.kv_heads, spec["max_model_len"], checkpoint.head_dim),
            like=self.model.lm_head.weight,
        )
        slots, _, max_len, _ = self.cache.keys[0].shape
        self.applied = {
            "slots": slots,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "device": self.model.device.type,
            "threads": torch.get_num_threads(),
            "max_model_len": max_len,
            "admission": self.admission,
            "reservation": "max",
            "prefix_caching": False,
            "attention_backend": f"sdpa ({self.model.config._attn_implementation})",
            "graphs": "none",
            "async_scheduling": False,
            "kv_blocks": None,
            "block_size": None,
            "kv_capacity_tokens": slots * max_len,
            "max_concurrency": float(slots),
            "max_num_batched_tokens": None,
        }

    def close(self) -> None:
        """Drops the model and the KV regions."""
        self.model = self.cache = None

    def serve(self, requests: Sequence[Request]) -> Served:
        """Serves all requests; one pass of the loop is one step and gives each row one token."""
        slots = self.applied["slots"]
        waiting = deque(enumerate(requests))
        rows: list[Row] = []
        retired: list[Row] = []
        steps: list[StepRecord] = []
        wave = 0
        t0 = time.monotonic()
        while waiting or rows:
            start = time.monotonic() - t0

            # admit
            entering = []
            for _ in range(min(free_slots(self.admission, slots, len(rows)), len(waiting))):
                index, request = waiting.popleft()
                entering.append(_admit(index, request, start))
            if not rows:
                wave += 1
            for row in entering:
                row.record.wave = None if self.admission == "continuous" else wave

            # step: rows in use decode, rows that enter prefill
            useful = sum(not row.done for row in rows) + len(entering)
            produced = self.decode(rows) if rows else []
            if entering:
                produced += self.prefill([row.request.prompt for row in entering], len(rows))
            now = time.monotonic() - t0
            scheduled = len(rows) + sum(len(row.request.prompt) for row in entering)
            rows += entering
            steps.append(
                StepRecord(
                    step=len(steps),
                    t_s=start,
                    rows=len(rows),
                    useful_rows=useful,
                    waiting=len(waiting),
                    tokens=scheduled,
                    kv_used=len(rows) / slots,
                )
            )

            # retire
            for row, token in zip(rows, produced, strict=True):
                row.take(token, now)
            batch_done = all(row.done for row in rows)
            for index in reversed(range(len(rows))):
                if leaves(self.admission, rows[index].done, batch_done):
                    rows[index].record.returned_s = now
                    retired.append(rows[index])
                    self._free(rows, index)
        retired.sort(key=lambda row: row.record.request)
        return Served([row.record for row in retired], steps, [row.tokens for row in retired])

    def _free(self, rows: list[Row], index: int) -> None:
        """Takes a row out; the last row moves into its place, so that rows stay together."""
        last = rows.pop()
        if index < len(rows):
            rows[index] = last
            self.cache.move(source=len(rows), target=index)

    def prefill(self, prompts: Sequence[Sequence[int]], first: int) -> list[int]:
        """The first token after each prompt; fills the KV regions from row `first` on."""
        import torch

        device = self.model.device
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        width = int(lengths.max())
        # [rows, width], padded on the right
        ids = torch.tensor([[*p, *[0] * (width - len(p))] for p in prompts], device=device)
        positions = torch.arange(width, device=device).expand(len(prompts), width)
        with torch.inference_mode():
            self.cache.at_prefill(first, len(prompts))
            # [rows, width, hidden] -> the last real token of each row [rows, hidden]
            hidden = self._hidden(ids, positions)
            return self._greedy(hidden[torch.arange(len(prompts), device=device), lengths - 1])

    def decode(self, rows: Sequence[Row]) -> list[int]:
        """The next token of every row in use, in one forward of one token per row."""
        import torch

        device = self.model.device
        ids = torch.tensor([[row.last_token] for row in rows], device=device)
        # a finished row of a padded batch may outgrow its region: it is computed at the last place
        end = self.applied["max_model_len"] - 1
        at = [min(row.position, end) for row in rows]
        positions = torch.tensor(at, device=device)
        with torch.inference_mode():
            self.cache.at_decode(positions, longest=max(at) + 1, even=min(at) == max(at))
            return self._greedy(self._hidden(ids, positions[:, None])[:, -1])

    def _hidden(self, ids: Any, positions: Any) -> Any:
        """[rows, tokens] -> [rows, tokens, hidden]."""
        return self.model.base_model(
            input_ids=ids, position_ids=positions, use_cache=False, slot_cache=self.cache
        ).last_hidden_state

    def _greedy(self, hidden: Any) -> list[int]:
        """[rows, hidden] -> one token id per row. Reading them waits for the device."""
        return self.model.lm_head(hidden).argmax(-1).tolist()


def _admit(index: int, request: Request, now: float) -> Row:
    record = RequestRecord(
        request=index,
        prompt_tokens=len(request.prompt),
        output_tokens=request.output_tokens,
        produced_tokens=0,
        admitted_s=now,
        first_token_s=UNKNOWN,
        finished_s=UNKNOWN,
        returned_s=UNKNOWN,
    )
    return Row(request, record)
