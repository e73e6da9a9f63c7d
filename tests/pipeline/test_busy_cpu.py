"""A busy CPU is seen, named, and measured away."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import psutil
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.pipeline, pytest.mark.slow]

CELL = "static/B/slots16"
SPIN = "while True: pass"


def metadata(file):
    """The JSON document of a timing."""
    return json.loads(pq.read_metadata(file).metadata[b"fourcells"])


def verdicts(workflow):
    """Verdict of each timing, as the table has it."""
    table = pq.read_table(workflow.folder / "results/tables/timings.parquet").to_pandas()
    return dict(zip(table["repeat"], table["verdict"], strict=True))


def changed(workflow, before):
    """Outputs that Snakemake's summary dates anew since `before`."""
    after = summary(workflow)
    return {file for file, date in after.items() if before.get(file) != date}


def summary(workflow):
    """Date of every output, by Snakemake's own summary."""
    lines = [line.split("\t") for line in workflow.run("--summary").splitlines()]
    head = next(line for line in lines if line[0] == "output_file")
    file, date = head.index("output_file"), head.index("date")
    return {line[file]: line[date] for line in lines[lines.index(head) + 1 :] if len(line) > date}


@pytest.fixture
def busy(workflow):
    """Three repeats of one cell, a CPU hog beside the second; the hog's CPU seconds per second."""
    workflow.torch_only()
    workflow.edit("# repeats: 5\n", "repeats: 3\n")
    # a model large enough for windows of seconds
    workflow.edit("        hidden_size: 64\n", "        hidden_size: 512\n")
    workflow.edit("        num_hidden_layers: 2\n", "        num_hidden_layers: 6\n")
    workflow.edit(
        "    slots: [16]\n    options:", "    slots: [16]\n    workloads: [B]\n    options:"
    )
    log = workflow.folder / f"results/logs/measure/{CELL}/2.log"
    running = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "-j1"],
        cwd=workflow.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while running.poll() is None and not said(log, "measuring"):
        time.sleep(0.02)
    hog = subprocess.Popen([sys.executable, "-c", SPIN])
    start = time.monotonic()
    try:
        while running.poll() is None and not said(log, "window"):
            time.sleep(0.02)
        seconds = time.monotonic() - start
        times = psutil.Process(hog.pid).cpu_times()
    finally:
        hog.kill()
        hog.wait()
    out, _ = running.communicate()
    assert running.returncode == 0, out
    return workflow, (times.user + times.system) / seconds


def said(log, word):
    """Whether the measuring job has come so far."""
    return log.exists() and word in log.read_text()


def test_a_hog_is_counted_flagged_and_measured_away(busy):
    workflow, rate = busy
    files = {n: workflow.folder / f"results/timings/{CELL}/{n}.parquet" for n in (1, 2, 3)}

    # the truth: what the hog took while the window was open
    (window,) = metadata(files[2])["witness"]["windows"]
    assert window["foreign_cpu_s"] == pytest.approx(rate * window["seconds"], rel=0.2)
    assert verdicts(workflow) == {1: "clean", 2: "contended", 3: "clean"}
    listed = subprocess.run(
        [sys.executable, "scripts/contended.py"],
        cwd=workflow.folder,
        capture_output=True,
        text=True,
    ).stdout
    command = f"snakemake -j1 --use-conda --forcerun results/timings/{CELL}/2.parquet"
    assert command in listed

    before = summary(workflow)
    timings = workflow.timings()
    time.sleep(1.1)  # the summary's dates have whole seconds
    forced = re.search(r"--forcerun (\S+)", command).group(1)
    out = workflow.run("--forcerun", forced)
    assert out.count("Measuring ") == 1
    again = workflow.timings()
    assert {name for name in timings if timings[name] != again[name]} == {f"{CELL}/2.parquet"}
    made = changed(workflow, before)
    assert {file.split("/")[1] for file in made} == {
        *("timings", "steps", "tables", "summary.json", "report.html", "figures")
    }
    assert [file for file in made if "/timings/" in file] == [f"results/timings/{CELL}/2.parquet"]

    # clean again; another session than its block, since another run of the workflow made it
    assert verdicts(workflow) == {1: "clean", 2: "clean", 3: "clean"}
    history = sorted((workflow.folder / f"results/attempts/{CELL}/2").glob("?.parquet"))
    assert [metadata(file)["verdict"] for file in history] == [["contended"], ["clean"]]
    assert metadata(history[1])["reason"] == "measured again; the attempt before was contended"
