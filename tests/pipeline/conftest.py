"""A copy of the workflow that tests may run and change, and Snakemake to run it with."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from fourcells import config as settings

ROOT = Path(__file__).resolve().parents[2]
STATIC = """\
  static:
    backend: torch
    slots: [16]
    options: {admission: padded}
"""
PARTS = ("Snakefile", "config.yaml", "rules", "scripts", "envs", "profiles")


@dataclass
class Workflow:
    """A folder with the workflow."""

    folder: Path

    def snakemake(self, *arguments: str, jobs: int = 1) -> subprocess.CompletedProcess:
        """Runs Snakemake as a user does; its output, both streams, is in `stdout`."""
        return subprocess.run(
            [sys.executable, "-m", "snakemake", f"-j{jobs}", *arguments],
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    def run(self, *arguments: str, jobs: int = 1) -> str:
        """Runs Snakemake, which must succeed; returns its output."""
        done = self.snakemake(*arguments, jobs=jobs)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def planned(self, *arguments: str) -> Counter:
        """How many jobs of each rule a dry run plans."""
        out = self.run("-n", *arguments)
        table = re.search(r"^job +count\n-+ +-+\n((?:\S+ +\d+\n)+)", out, re.MULTILINE)
        rows = table.group(1).splitlines() if table else []
        counts = Counter({name: int(number) for name, number in (row.split() for row in rows)})
        del counts["total"], counts["all"]
        return counts

    def edit(self, old: str, new: str) -> None:
        """Replaces a text in config.yaml that stands there exactly once."""
        file = self.folder / "config.yaml"
        text = file.read_text()
        assert text.count(old) == 1, (old, text.count(old))
        file.write_text(text.replace(old, new))

    def torch_only(self, more: str = "") -> None:
        """Scale smoke with the static engine on A and B: a timing in seconds. `more` declares
        further engines."""
        self.edit("\nscale: demo\n", "\nscale: smoke\n")
        text = (self.folder / "config.yaml").read_text()
        rest = text[text.index("\nengines:\n") : text.index("\n# Slots: the most")]
        a_and_b = rest[rest.index("  A:\n") : rest.index("  # B in the order")]
        self.edit(rest, f"\nengines:\n{STATIC}{more}\nworkloads:\n{a_and_b}")
        self.edit("slots: [16, 256]\n", "slots: [16]\n")

    def specs(self) -> dict[str, dict]:
        """The spec of each cell, by the cell's path, as the config is now."""
        config = yaml.safe_load((self.folder / "config.yaml").read_text())
        return {cell.path: settings.spec(config, cell) for cell in settings.cells(config)}

    def timings(self) -> dict[str, bytes]:
        """Every timing that is there, by its path below results/timings."""
        folder = self.folder / "results/timings"
        return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*.parquet")}


def copy_workflow(folder: Path) -> Workflow:
    """The workflow without results, in a folder of its own."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / part)
    return Workflow(folder)


@pytest.fixture
def workflow(tmp_path: Path) -> Workflow:
    """A workflow that nothing was run in, in a folder with a space and a letter beyond ASCII."""
    folder = tmp_path / "four cells ü"
    folder.mkdir()
    return copy_workflow(folder)


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """The workflow after one whole run at scale smoke. Tests leave it as they found it."""
    folder = tmp_path_factory.mktemp("smoke") / "four cells ü"
    folder.mkdir()
    workflow = copy_workflow(folder)
    workflow.edit("\nscale: demo\n", "\nscale: smoke\n")
    workflow.run()
    return workflow
