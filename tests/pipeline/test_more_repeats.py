"""Repeats are added to those that are there, until the interval is narrow or a limit is reached."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest

pytestmark = [pytest.mark.pipeline, pytest.mark.slow]

WAVES = """  waves:
    backend: torch
    baseline: static
    options:
      admission: wave
"""


def precise(workflow, *options: str) -> str:
    """Runs the script in the workflow's folder; it must succeed. Its output, both streams."""
    done = subprocess.run(
        [sys.executable, "scripts/precise.py", *options],
        cwd=workflow.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def repeats_on_the_page(workflow) -> int:
    return pd.read_parquet(workflow.folder / "results/tables/ratios.parquet")["n"].max()


def test_blocks_are_added_and_old_ones_stay(workflow):
    workflow.torch_only(WAVES)

    # any interval will do: the second repeat gives the first one
    out = precise(workflow, "--target", "1e9")
    assert "one repeat: no interval" in out
    assert "the target is reached (--target 1e+09)" in out
    two = workflow.timings()
    assert {name.split("/")[-1] for name in two} == {"1.parquet", "2.parquet"}
    assert len(two) == 2 * 2 * 2
    assert repeats_on_the_page(workflow) == 2

    # no noise is this small, so a limit ends it; it starts from the two that are there
    out = precise(workflow, "--target", "1e-9", "--max-repeats", "3")
    assert "precise: 2 repeats, 0 of them new" in out
    assert "stopped at the limit of 3 repeats (--max-repeats)" in out
    assert "`repeats: 3` in config.yaml, or run with --config repeats=3" in out
    three = workflow.timings()
    assert {name: three[name] for name in two} == two
    assert len(three) == 3 * 2 * 2
    assert repeats_on_the_page(workflow) == 3
    assert (workflow.folder / "results/report.html").exists()
