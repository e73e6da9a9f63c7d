"""The shell commands that the product gives: one place, so that all say the same."""

from __future__ import annotations

import shlex

MEASURE = "snakemake -j1 --use-conda"
AGAIN = f"{MEASURE} --forcerun"


def make(path: str) -> str:
    """The command that makes one file."""
    return f"{MEASURE} {shlex.quote(path)}"


def again(*paths: str) -> str:
    """The command that measures these timings again; the tables and the page follow."""
    return f"{AGAIN} {shlex.join(paths)}"
