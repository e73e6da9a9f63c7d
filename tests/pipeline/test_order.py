"""The order of measuring, at any -j, and one measurement at a time on the machine."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.pipeline, pytest.mark.slow]


def provenance(file):
    """Where and when a timing was made."""
    return json.loads(pq.read_metadata(file).metadata[b"fourcells"])["provenance"]


def spans(files):
    """(start, end, file) of each timing, by start."""
    dates = []
    for file in files:
        made = provenance(file)
        start, end = (datetime.fromisoformat(made[key]) for key in ("started", "ended"))
        assert start.utcoffset().total_seconds() == 0, "times are in UTC, and say so"
        dates.append((start, end, file))
    return sorted(dates)


@pytest.mark.parametrize("jobs", [1, 8])
def test_timings_are_made_one_by_one_in_the_planned_order(workflow, jobs):
    workflow.torch_only("  again:\n    backend: torch\n    slots: [16]\n")
    workflow.run("--config", "repeats=2", jobs=jobs)
    plan = json.loads((workflow.folder / "results/plan.json").read_text())
    assert len(plan) == 8
    made = spans([workflow.folder / timing["path"] for timing in plan])
    assert [file for _, _, file in made] == [workflow.folder / timing["path"] for timing in plan]
    for (_, end, _), (start, _, _) in itertools.pairwise(made):
        assert end <= start
    assert len({provenance(file)["session"] for _, _, file in made}) == 1
    # nothing else runs beside a measurement
    for other in ("plan.json", "summary.json"):
        written = datetime.fromtimestamp((workflow.folder / "results" / other).stat().st_mtime, UTC)
        assert not any(start < written < end for start, end, _ in made)
    # every repeat has all cells, and not in the same order
    orders = [
        [(t["engine"], t["workload"]) for t in plan if t["repeat"] == repeat] for repeat in (1, 2)
    ]
    assert sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1]


def test_a_second_workflow_waits_and_says_for_whom(workflow, tmp_path):
    workflow.torch_only()
    workflow.run("results/models/qwen2-smoke/checkpoint.json")
    spec = workflow.specs()["static/A/slots16"]
    running = [
        subprocess.Popen(
            [
                *(sys.executable, "scripts/measure.py", "--spec", json.dumps(spec)),
                *("--output", tmp_path / f"{number}.parquet"),
                *("--steps", tmp_path / f"{number}.steps.parquet"),
            ],
            cwd=workflow.folder,
            env=os.environ | {"TMPDIR": str(tmp_path)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (1, 2)
    ]
    said = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    first, second = spans([tmp_path / "1.parquet", tmp_path / "2.parquet"])
    assert first[1] <= second[0]
    waiting = said[int(second[2].stem) - 1]
    holder = running[int(first[2].stem) - 1].pid
    assert f"waiting for the machine: process {holder} measures static/A/slots16/1" in waiting
    assert "waiting for the machine" not in said[int(first[2].stem) - 1]
