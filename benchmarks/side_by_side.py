"""What the benchmarks share: a spec of config.yaml, the library, and how a ratio is reported."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))


def first_spec(
    scale: str, engine: str, workload: str, random_weights: bool = False
) -> dict[str, Any]:
    """The spec of an engine's first cell on a workload, at a scale of config.yaml, repeat 1."""
    import yaml

    from fourcells import config as settings

    config = yaml.safe_load((ROOT / "config.yaml").read_text()) | {"scale": scale}
    if random_weights:
        config["scales"][scale]["model"]["weights"] = "random"
    cell = next(
        cell
        for cell in settings.cells(config)
        if (cell.engine, cell.workload) == (engine, workload)
    )
    return settings.spec(config, cell) | {"repeat": 1}


def set_threads(spec: dict[str, Any]) -> None:
    """The spec's CPU threads; call it before torch is imported."""
    for library in ("OMP", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = str(spec["threads"])


def report(what: str, ratios: Sequence[float]) -> None:
    """Prints the geometric mean of paired ratios with its 95 % t interval."""
    from fourcells.analysis.stats import geometric_mean, t_interval

    low, high = t_interval(ratios)
    interval = f"95 % interval {low:.3f} to {high:.3f}" if low else "one round: no interval"
    print(f"{what}: {geometric_mean(ratios):.3f} ({interval}, n = {len(ratios)})")
