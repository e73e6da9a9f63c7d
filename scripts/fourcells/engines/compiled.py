"""torch.compile around the decode step, and what it made of it.

On a GPU the compiled step is captured as a CUDA graph: one launch in place of hundreds, from
addresses that never change. On a CPU it is compiled C++, and there is nothing to capture.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MODES = ("eager", "compiled")


def problem(spec: Mapping[str, Any]) -> str | None:
    """Why the spec's mode cannot run here, or None."""
    option = f"engines.{spec['engine']}.options.mode"
    mode = spec["options"].get("mode", "eager")
    if mode not in MODES:
        return f"{option}: {mode!r} is not one of: {', '.join(MODES)}"
    if mode == "eager":
        return None
    admission = spec["options"].get("admission", "padded")
    if admission != "padded":
        # elsewhere the number of rows changes from step to step, and each number is one compile
        return f"{option}: compiled needs admission: padded, not {admission}"
    if spec["device"] == "cpu" and not _has_compiler():
        return (
            f"{option}: compiled needs a C++ compiler on a CPU, and none answers to g++ or $CXX; "
            "install one (apt: g++, conda: cxx-compiler) or set mode: eager"
        )
    return None


def compile_step(step: Callable[..., Any], fixed: Sequence[Any]) -> Callable[..., Any]:
    """The step, compiled at its first call with each number of rows.

    Args:
        step: a function of tensors, and of numbers that never change.
        fixed: tensors that the step reads and writes and that stay where they are. torch captures
            no CUDA graph of a function that writes to a tensor whose address may change.

    Raises:
        torch._dynamo.exc.Unsupported, FailOnRecompileLimitHit: (the compiled step) a part of it
            cannot be compiled, or it comes with more numbers of rows than torch compiles one
            function for (8 as shipped). It never runs uncompiled instead.
    """
    import torch

    for tensor in fixed:
        torch._dynamo.mark_static_address(tensor)
    whole = torch.compile(
        step,
        fullgraph=True,
        dynamic=False,
        options={
            # this is what mode="reduce-overhead" sets; torch takes a mode or options
            "triton.cudagraphs": True,
            # The model's modules never change; asking each of them, at every step, whether it did
            # would keep the device waiting.
            "guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe,
        },
    )

    def run(*args: Any) -> Any:
        # the tokens of the step before have been read: their memory may be written again
        torch.compiler.cudagraph_mark_step_begin()
        return whole(*args)

    return run


def captured_graphs(device: Any) -> int:
    """How many CUDA graphs torch.compile holds in this process, on this device."""
    if device.type != "cuda":
        return 0
    import torch
    from torch._inductor import cudagraph_trees

    index = torch.cuda.current_device() if device.index is None else device.index
    manager = cudagraph_trees.get_manager(index, create_if_none_exists=False)
    return 0 if manager is None else _count(manager.roots)


def _count(graphs: Mapping[Any, list[Any]]) -> int:
    """The graphs recorded for each function, and those recorded to follow them."""
    return sum(1 + _count(graph.children) for recorded in graphs.values() for graph in recorded)


def _has_compiler() -> bool:
    """torch.compile calls $CXX, or else g++."""
    return shutil.which(os.environ.get("CXX") or "g++") is not None
