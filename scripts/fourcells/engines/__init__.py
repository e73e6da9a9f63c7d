"""The small interface behind which every backend stands.

A new backend is one module here with `open_engine(spec, checkpoint)` and `problem(spec)`, and one
line in `BACKENDS`. An engine knows nothing of parquet, Snakemake or statistics.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from fourcells.model import Checkpoint
from fourcells.workload import Request

BACKENDS = {
    "torch": "fourcells.engines.torch_loop",
    "vllm": "fourcells.engines.vllm_offline",
    "transformers": "fourcells.engines.transformers_cb",
}


class EngineError(RuntimeError):
    """An engine that cannot serve what the spec asks for; the text names the option."""


@dataclass
class RequestRecord:
    """What happened to one request; all times in seconds from t0, the moment all are submitted, or
    the sending begins.

    `arrival_s` is when it was to be sent, `late_s` how much later the sender did so. `finished_s`
    is when its own last token existed, `returned_s` when the caller had the result: a padded batch
    returns everything at its end. `wave` numbers the batch the request was served in (None under
    continuous admission).
    """

    request: int
    prompt_tokens: int
    output_tokens: int
    produced_tokens: int
    admitted_s: float
    first_token_s: float
    finished_s: float
    returned_s: float
    arrival_s: float = 0.0
    late_s: float = 0.0
    wave: int | None = None
    cached_tokens: int = 0
    preemptions: int = 0


@dataclass
class StepRecord:
    """One engine step: `t_s` its start in seconds from t0, `rows` computed, `useful_rows` those
    whose token counts, `waiting` requests without a slot, `tokens` scheduled (prompt and output),
    `kv_used` the share (0 to 1) of KV capacity that is taken, `preempted` requests sent back,
    `kv_tokens` tokens of the running requests whose keys and values exist once the step is done."""

    step: int
    t_s: float
    rows: int
    useful_rows: int
    waiting: int
    tokens: int
    kv_used: float
    preempted: int = 0
    kv_tokens: int | None = None


@dataclass
class Served:
    """One window: a record per request and per step, and the produced token ids per request."""

    requests: list[RequestRecord]
    steps: list[StepRecord]
    tokens: list[list[int]]


class Engine(Protocol):
    """An engine that has loaded its model. `applied` holds the options it reports as in force."""

    applied: dict[str, Any]

    def serve(self, requests: list[Request]) -> Served:
        """Serves all requests, each from its `arrival_s` on, and returns when all are done."""

    def close(self) -> None:
        """Gives memory and processes back."""


def problem(spec: Mapping[str, Any]) -> str | None:
    """Why this machine and environment cannot run a spec, or None. Loads no engine."""
    if spec["backend"] not in BACKENDS:
        known = ", ".join(BACKENDS)
        return f"engines.{spec['engine']}.backend: {spec['backend']!r} is not one of: {known}"
    if spec["device"] == "cuda" and not _has_gpu():
        return (
            f"scales.{spec['scale']}.device: cuda, but no NVIDIA GPU answers here; choose a scale "
            "with device: cpu (scale: demo) or run on a machine with a GPU"
        )
    return importlib.import_module(BACKENDS[spec["backend"]]).problem(spec)


def environment(spec: Mapping[str, Any]) -> str:
    """The conda environment that a spec is measured in: a file of envs/, without .yaml."""
    return f"vllm-{spec['device']}" if spec["backend"] == "vllm" else "torch"


def missing_module(spec: Mapping[str, Any], module: str, install: str) -> str | None:
    """The message for a backend whose package is not installed."""
    if importlib.util.find_spec(module) is None:
        return (
            f"engines.{spec['engine']}.backend: {spec['backend']} needs the package {module}, "
            f"which is not installed in this environment; {install}"
        )
    return None


def open_engine(spec: Mapping[str, Any], checkpoint: Checkpoint) -> Engine:
    """Loads the model into the spec's engine.

    Raises:
        EngineError: the engine cannot apply an option, or applied another value than asked.
    """
    engine = importlib.import_module(BACKENDS[spec["backend"]]).open_engine(spec, checkpoint)
    different = {
        option: (value, engine.applied.get(option))
        for option, value in requested(spec).items()
        if engine.applied.get(option) != value
    }
    if different:
        engine.close()
        raise EngineError(
            f"engines.{spec['engine']}: "
            + "; ".join(
                f"option {option}: asked for {asked!r}, the engine applied {applied!r}"
                for option, (asked, applied) in different.items()
            )
        )
    return engine


def requested(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine must report back as applied."""
    common = {name: spec[name] for name in ("slots", "dtype", "threads", "max_model_len", "device")}
    options = dict(spec["options"])
    if options.get("enforce_eager"):
        # an option of the scale that has no meaning for an engine without graphs
        options.pop("cudagraph_capture_sizes", None)
    return {**common, **options, "prefix_caching": False}


@cache
def _has_gpu() -> bool:
    """Asked once: the workflow checks every cell before its first job."""
    tool = shutil.which("nvidia-smi")
    return (
        tool is not None
        and subprocess.run([tool, "-L"], capture_output=True, check=False).returncode == 0
    )
