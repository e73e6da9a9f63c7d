"""Backend torch: a hand-written serving loop over a Hugging Face causal language model.

The loop reads as the picture of slots: admit, step, retire. All admissions share one forward and
one contiguous KV region of maximum length per slot; only `schedule.free_slots` and
`schedule.leaves` differ. The eager, padded form is the lesson's static batch. The compiled form
runs the same decode step through torch.compile: with CUDA graphs the host no longer sets the pace.

A row keeps its own positions in its own region, so prompts of different lengths need no left
padding: the prefill alone pads them, on the right, under a causal mask that lets no real token see
the padding, and decoding overwrites what the padding left behind.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from fourcells.engines import Served, StepRecord, compiled, missing_module
from fourcells.engines.rows import Queue, Row
from fourcells.engines.slot_cache import ATTENTION, Decode, Prefill, SlotCache, register_attention
from fourcells.model import Checkpoint
from fourcells.schedule import free_slots, leaves
from fourcells.workload import Request


def problem(spec: Mapping[str, Any]) -> str | None:
    """Why the torch backend cannot run here, or None."""
    install = "set the environment up with: make setup"
    return (
        missing_module(spec, "torch", install)
        or missing_module(spec, "transformers", install)
        or compiled.problem(spec)
    )


def open_engine(spec: Mapping[str, Any], checkpoint: Checkpoint) -> TorchLoop:
    """Loads the checkpoint on the spec's device."""
    return TorchLoop(spec, checkpoint)


class TorchLoop:
    """The engine. `applied` is read back from the loaded model, the KV regions and the graphs."""

    def __init__(self, spec: Mapping[str, Any], checkpoint: Checkpoint) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        register_attention()
        self.admission = spec["options"].get("admission", "padded")
        self.mode = spec["options"].get("mode", "eager")
        self.slots, self.max_len = spec["slots"], spec["max_model_len"]
        self.threads = torch.get_num_threads()
        self.model = AutoModelForCausalLM.from_pretrained(
            checkpoint.folder,
            dtype=getattr(torch, spec["dtype"]),
            attn_implementation=ATTENTION,
        )
        self.model.to(spec["device"]).eval()
        self.cache = SlotCache(
            layers=checkpoint.layers,
            shape=(self.slots, checkpoint.kv_heads, self.max_len, checkpoint.head_dim),
            like=self.model.lm_head.weight,
        )
        self.step = self._step
        if self.mode == "compiled":
            self.step = compiled.compile_step(self._step, self.cache.tensors)

    @property
    def applied(self) -> dict[str, Any]:
        """The options in force. Graphs are captured while serving, so they are counted anew."""
        slots, _, max_len, _ = self.cache.keys[0].shape
        graphs = compiled.captured_graphs(self.model.device) if self.mode == "compiled" else 0
        return {
            "slots": slots,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "device": self.model.device.type,
            "threads": self.threads,
            "max_model_len": max_len,
            "admission": self.admission,
            "mode": self.mode,
            "reservation": "max",
            "prefix_caching": False,
            "attention_backend": f"sdpa ({self.model.config._attn_implementation})",
            "graphs": f"CUDA graphs by torch.compile, captured: {graphs}" if graphs else "none",
            "async_scheduling": False,
            "kv_blocks": None,
            "block_size": None,
            "kv_capacity_tokens": slots * max_len,
            "max_concurrency": float(slots),
            "max_num_batched_tokens": None,
        }

    def close(self) -> None:
        """Drops the model and the KV regions."""
        self.model = self.cache = self.step = None

    def serve(self, requests: Sequence[Request]) -> Served:
        """Serves all requests; one pass of the loop is one step and gives each row one token.

        A request is seen at the first step that starts after its arrival. The loop is its own
        sender and hands over what it finds due, so nothing is ever sent late (`late_s` is 0): the
        rest of the step during which somebody arrives is queueing, and counts in TTFT.
        """
        queue = Queue(requests)
        rows: list[Row] = []
        retired: list[Row] = []
        steps: list[StepRecord] = []
        wave = 0
        t0 = time.monotonic()
        while queue or rows:
            start = time.monotonic() - t0

            # admit
            queue.let_in(start)
            entering = queue.take(free_slots(self.admission, self.slots, len(rows)), start)
            if not rows and not entering:
                queue.sleep(t0)
                continue
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
                    waiting=queue.waiting,
                    tokens=scheduled,
                    kv_used=len(rows) / self.slots,
                    kv_tokens=sum(min(row.position + 1, self.max_len) for row in rows),
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
            # [rows, width, hidden] -> the last real token of each row [rows, hidden]
            hidden = self._hidden(ids, positions, self.cache.prefill(first, len(prompts)))
            last = hidden[torch.arange(len(prompts), device=device), lengths - 1]
            return self._greedy(last).tolist()

    def decode(self, rows: Sequence[Row]) -> list[int]:
        """The next token of every row in use, in one forward of one token per row."""
        import torch

        # a finished row of a padded batch may outgrow its region: it is computed at the last place
        at = [min(row.position, self.max_len - 1) for row in rows]
        if self.mode == "compiled":  # one shape and one mask for every step
            longest, even = self.max_len, False
        else:
            longest, even = max(at) + 1, min(at) == max(at)
        fed = torch.tensor([[row.last_token for row in rows], at], device=self.model.device)
        with torch.inference_mode():
            # reading the tokens waits for the device
            return self.step(fed, longest, even).tolist()

    def _step(self, fed: Any, longest: int, even: bool) -> Any:
        """Each row's last token and its position [2, rows] -> its next token [rows].

        `longest` and `even` as in `SlotCache.decode`.
        """
        ids, positions = fed
        regions = self.cache.decode(positions, longest, even)
        return self._greedy(self._hidden(ids[:, None], positions[:, None], regions)[:, -1])

    def _hidden(self, ids: Any, positions: Any, regions: Prefill | Decode) -> Any:
        """[rows, tokens] -> [rows, tokens, hidden]."""
        return self.model.base_model(
            input_ids=ids, position_ids=positions, use_cache=False, regions=regions
        ).last_hidden_state

    def _greedy(self, hidden: Any) -> Any:
        """[rows, hidden] -> one token id per row."""
        return self.model.lm_head(hidden).argmax(-1)
