"""Kills at any moment, full disks, damaged files: nothing counts that is not whole, nothing is
lost, and the next run simply goes on."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time

import psutil
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.pipeline, pytest.mark.slow]

KILLS = 20
SEED = int(os.environ.get("FOUR_CELLS_KILL_SEED", random.randrange(10**6)))
CELL = "static/A/slots16"


def start(workflow, *arguments):
    """Snakemake as the head of a process group of its own, as a shell starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "snakemake", "-j1", *arguments],
        cwd=workflow.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def measuring(snakemake):
    """The measuring processes below a Snakemake."""
    return [
        process
        for process in psutil.Process(snakemake.pid).children(recursive=True)
        if any(part.endswith("measure.py") for part in process.cmdline())
        and "python" in process.name()
    ]


def ctrl_c(snakemake, _):
    os.killpg(snakemake.pid, signal.SIGINT)


def terminate_all(snakemake, _):
    os.killpg(snakemake.pid, signal.SIGTERM)


def kill_snakemake(snakemake, _):
    snakemake.kill()


def kill_measuring(_, processes):
    for process in processes:
        process.kill()


BLOWS = (ctrl_c, terminate_all, kill_snakemake, kill_measuring)


def check_whole(workflow):
    """Every file of a timing that is there can be read whole."""
    for kind in ("timings", "steps", "attempts"):
        for file in (workflow.folder / "results" / kind).rglob("*.parquet"):
            table = pq.read_table(file, page_checksum_verification=True)
            assert table.num_rows > 0, file


def check_kept(workflow, before, when):
    """Every timing that was there is there unchanged, but for one: that which was whole when the
    blow fell, and which Snakemake had not yet noted. It is measured again, and the history has
    what it was."""
    now = workflow.timings()
    changed = [name for name, content in before.items() if now[name] != content]
    assert len(changed) <= 1, f"{when} changed {changed}"
    for name in changed:
        attempts = workflow.folder / "results/attempts" / name.removesuffix(".parquet")
        history = [file.read_bytes() for file in attempts.glob("*.parquet")]
        assert before[name] in history, f"{when} lost {name}"


def test_kills_at_random_moments_lose_nothing(workflow):
    print(f"FOUR_CELLS_KILL_SEED={SEED}")
    draw = random.Random(SEED)
    workflow.torch_only()
    settings = ("--config", "repeats=10")
    workflow.run("results/models/qwen2-smoke/checkpoint.json")
    kept: dict[str, bytes] = {}
    for number in range(KILLS):
        blow, moment = draw.choice(BLOWS), draw.uniform(0.5, 9)
        snakemake = start(workflow, *settings)
        time.sleep(moment)
        processes = measuring(snakemake)
        blow(snakemake, processes)
        snakemake.communicate()
        _, alive = psutil.wait_procs(processes, timeout=10)
        assert not alive, f"kill {number}: {blow.__name__} left a measurement running"
        check_whole(workflow)
        check_kept(workflow, kept, f"kill {number}, {blow.__name__}")
        kept = workflow.timings()
        if blow is kill_snakemake:
            workflow.run("--unlock")
    workflow.run(*settings)
    assert len(workflow.timings()) == 20
    check_kept(workflow, kept, "the last run")
    assert "Nothing to be done" in workflow.run(*settings)
    assert not list(workflow.folder.rglob("*.partial"))


@pytest.mark.parametrize("victim", ["measuring process", "engine process"])
def test_neither_half_of_an_engine_with_a_process_of_its_own_outlives_the_other(
    workflow, tmp_path, victim
):
    workflow.edit("\nscale: demo\n", "\nscale: smoke\n")
    workflow.run("results/models/qwen2-smoke/checkpoint.json")
    spec = workflow.specs()["vllm/B/slots16"] | {"samples": 1000}
    spec["options"]["engine_process"] = True
    log, output = tmp_path / "log", tmp_path / "1.parquet"
    measure = subprocess.Popen(
        [
            *(sys.executable, "scripts/measure.py", "--spec", json.dumps(spec)),
            *("--output", output, "--steps", tmp_path / "steps.parquet", "--log", log),
        ],
        cwd=workflow.folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    while "measuring" not in (log.read_text() if log.exists() else ""):
        assert measure.poll() is None, log.read_text()
        time.sleep(0.1)
    family = psutil.Process(measure.pid).children(recursive=True)
    engine = next(process for process in family if "EngineCore" in "".join(process.cmdline()))
    (measure if victim == "measuring process" else engine).kill()
    said = measure.communicate(timeout=60)[1]
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive, alive
    assert measure.returncode != 0
    assert not output.exists()
    if victim == "engine process":
        assert "measure: vllm/B/slots16/1: EngineDeadError" in said.splitlines()[-1]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Two timings of the torch engine, tables and page. Tests leave it whole."""
    from conftest import copy_workflow

    folder = tmp_path_factory.mktemp("faults") / "four cells ü"
    folder.mkdir()
    workflow = copy_workflow(folder)
    workflow.torch_only()
    workflow.run()
    return workflow


def test_a_failed_measurement_keeps_the_old_timing(measured):
    before = measured.timings()
    weights = measured.folder / "results/models/qwen2-smoke/model.safetensors"
    hidden = weights.with_suffix(".hidden")
    weights.rename(hidden)
    try:
        done = measured.snakemake("--forcerun", f"results/timings/{CELL}/1.parquet")
    finally:
        hidden.rename(weights)
    assert done.returncode != 0
    assert f"measure: {CELL}/1:" in done.stdout
    assert measured.timings() == before
    measured.run()


def test_a_full_disk_is_named_and_leaves_the_old_timing(measured, tmp_path):
    spec = measured.specs()[CELL]
    output, steps = tmp_path / "1.parquet", tmp_path / "1.steps.parquet"
    output.write_bytes(b"the old one")
    done = subprocess.run(
        [
            *(sys.executable, "scripts/measure.py", "--spec", json.dumps(spec)),
            *("--output", output, "--steps", steps, "--attempts", tmp_path / "attempts"),
        ],
        cwd=measured.folder,
        # files may grow to 2,000 bytes: the parquet file does not fit
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr.splitlines()[-1]
    assert output.read_bytes() == b"the old one"
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["1.parquet"]


@pytest.mark.parametrize("damage", ["truncated", "a flipped byte", "empty"])
def test_a_damaged_timing_is_named_with_the_command_that_repairs_it(measured, damage):
    file = measured.folder / f"results/timings/{CELL}/1.parquet"
    content = file.read_bytes()
    bad = {
        "truncated": content[:1000],
        "a flipped byte": content[:200] + bytes([content[200] ^ 1]) + content[201:],
        "empty": b"",
    }[damage]
    file.write_bytes(bad)
    done = measured.snakemake()
    assert done.returncode != 0
    assert f"results/timings/{CELL}/1.parquet: " in done.stdout
    command = f"snakemake -j1 --forcerun results/timings/{CELL}/1.parquet"
    assert command in done.stdout
    measured.run(*command.split()[2:])
    assert "Nothing to be done" in measured.run()
