import os
import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

BASE = Path(workflow.basedir)
sys.path.insert(0, str(BASE / "scripts"))

from fourcells import config as settings
from fourcells import config_check, engines, session

try:
    config_check.check(config, BASE / "rules/config.schema.yaml")
except config_check.ConfigError as error:
    raise WorkflowError(f"config.yaml: {error}")

session.prepare(BASE)

# A measuring job takes the whole machine and every other job a part of it, so that nothing runs
# beside a measurement, whatever -j says.
workflow.register_resource("machine", 100)

CELLS = {cell.path: cell for cell in settings.cells(config)}
ORDER = [(cell.path, str(repeat)) for cell, repeat in settings.order(config)]
# Ready jobs of higher priority start first: the recorded order, repeat after repeat.
PRIORITY = {timing: len(ORDER) - place for place, timing in enumerate(ORDER)}
PLAN = list(settings.plan(config))
SETS = [name for name in settings.sets(config) if name != settings.MAIN]
MODEL = settings.model_spec(config)
# Relative, so that a checkout that is moved measures nothing again.
SCRIPTS = Path(os.path.relpath(BASE / "scripts"))


wildcard_constraints:
    # only valid combinations exist
    cell="|".join(map(re.escape, CELLS)),
    repeat="|".join(str(repeat) for repeat in settings.repeats(config)),


def wanted():
    """The timings that tables and page are made of: those of `main`, and of the other sets those
    that are asked for by the set's name and those that were measured before.

    Only an input or params function may ask: the targets are not known while files are read.
    """
    asked = session.remember_sets(set(SETS) & set(workflow.dag_settings.targets or ()))
    return [
        timing
        for timing in PLAN
        if timing["set"] in {settings.MAIN, *asked} or Path(timing["path"]).exists()
    ]


def timings(_=None):
    return [timing["path"] for timing in wanted()]


def steps(_=None):
    return [timing["steps"] for timing in wanted()]


def library(*parts):
    """The files and folders of the library whose edit makes a part of the results anew."""
    paths = [SCRIPTS / "fourcells" / part for part in parts]
    files = [f for path in paths for f in (path.rglob("*.*") if path.is_dir() else [path])]
    return sorted(str(file) for file in files if file.suffix != ".pyc")


def place_in_order(wildcards):
    return PRIORITY[wildcards.cell, wildcards.repeat]


def spec_of(wildcards):
    return settings.canonical(settings.spec(config, CELLS[wildcards.cell]))


def engine_environment(wildcards):
    spec = settings.spec(config, CELLS[wildcards.cell])
    return f"../envs/{engines.environment(spec)}.yaml"


def check_machine():
    """Before the first job: can this machine run every engine? Elsewhere the job itself finds out."""
    if "conda" in str(workflow.deployment_settings.deployment_method).lower():
        return
    if not workflow.local_exec:
        return
    for cell in CELLS.values():
        problem = engines.problem(settings.spec(config, cell))
        if problem:
            raise WorkflowError(problem)
