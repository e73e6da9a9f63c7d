"""The environment that all jobs of one run of the workflow share."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

# One value for all jobs of a run: their timings belong to one session.
RUN = "FOUR_CELLS_RUN"
# The sets that somebody asked for, comma separated: a job on a cluster has other targets.
SETS = "FOUR_CELLS_SETS"
# Process id of Snakemake on the machine where the job runs.
WORKFLOW = "FOUR_CELLS_WORKFLOW"
# Where the conda environments' post-deploy scripts find their lock files.
ENVIRONMENTS = "FOUR_CELLS_ENVS"


def prepare(workflow: Path) -> None:
    """Sets what jobs inherit.

    Jobs without --use-conda get the Python that runs Snakemake, even if its environment is not
    activated; with --use-conda the environment's own is found first.

    Args:
        workflow: folder of the Snakefile.
    """
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ.setdefault(RUN, uuid.uuid4().hex[:12])
    os.environ.setdefault(ENVIRONMENTS, str(workflow / "envs"))
    # not inherited: on a cluster, the job's own Snakemake is the one to watch
    os.environ[WORKFLOW] = str(os.getpid())


def remember_sets(asked: set[str]) -> set[str]:
    """The sets that are asked for here or were by the workflow that this one is a job of."""
    inherited = filter(None, os.environ.get(SETS, "").split(","))
    asked = asked | set(inherited)
    os.environ[SETS] = ",".join(sorted(asked))
    return asked
