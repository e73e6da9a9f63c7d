"""Rows over steps, run-length coded."""

import os

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import synthetic

from fourcells.analysis.load import load
from fourcells.analysis.occupancy import occupancy_table

CELL = ["engine", "workload", "slots"]
CELLS = [
    *((e, "B", 16) for e in ("static", "torch_wave", "torch_continuous")),
    *(("vllm", w, 256) for w in ("A", "B")),
]
ASYNC = synthetic.ENGINES | {
    "vllm": {"backend": "vllm", "options": {"async_scheduling": True}, "baseline": None}
}


def runs(table, source, engine, workload="B"):
    wanted = (table["source"] == source) & (table["engine"] == engine)
    return table[wanted & (table["workload"] == workload)]


def expand(rows, column):
    return np.repeat(rows[column].to_numpy(), rows["step_to"] - rows["step_from"])


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    return synthetic.write_timings(
        tmp_path_factory.mktemp("occupancy"), repeats=2, noise=0.1, samples=2, cells=CELLS
    )


def test_runs_are_the_steps(planned):
    """Of the first sample of the first repeat: each step once, in order, with its time."""
    table = occupancy_table(load(planned))
    for entry in planned[: len(CELLS)]:
        steps = pd.DataFrame(pq.read_table(entry["steps"]).to_pylist())
        steps = steps[steps["sample"] == 1]
        found = runs(table, "measured", entry["engine"], entry["workload"])
        assert found["step_from"].tolist() == [0, *found["step_to"].tolist()[:-1]]
        for column in ("rows", "useful_rows"):
            assert (expand(found, column) == steps[column].to_numpy()).all()
        starts = steps.iloc[found["step_from"]]
        assert found["t_from_s"].tolist() == starts["t_s"].tolist()
        assert found["waiting"].tolist() == starts["waiting"].tolist()
        # no two runs beside each other are alike
        told = found[["rows", "useful_rows"]].assign(waits=found["waiting"].gt(0).astype(int))
        assert (told.diff().iloc[1:] != 0).any(axis=1).all()
        requests = pq.read_table(entry["path"]).to_pandas()
        window = requests[requests["sample"] == 1]["returned_s"].max()
        assert found["t_to_s"].tolist() == [*found["t_from_s"].tolist()[1:], window]


def test_the_simulated_schedule_stands_beside(planned):
    table = occupancy_table(load(planned))
    columns = ["step_from", "step_to", "rows", "useful_rows", "waiting"]
    for engine, workload, _ in CELLS:
        measured = runs(table, "measured", engine, workload)[columns]
        simulated = runs(table, "simulated", engine, workload)
        assert simulated[columns].values.tolist() == measured.values.tolist()
        assert simulated[["t_from_s", "t_to_s"]].isna().all().all()


def test_the_lessons_picture_of_b(tmp_path):
    """Seconds are steps: the queue is empty from step 544 on, and the tail takes 512 steps."""
    plan = synthetic.write_timings(
        tmp_path,
        repeats=1,
        cells=[("torch_continuous", "B", 16), ("static", "B", 16), ("torch_wave", "B", 16)],
        workloads=synthetic.LESSON,
        step_times=dict.fromkeys(synthetic.ENGINES, (1.0, 0.0)),
        max_model_len=2048,
    )
    table = occupancy_table(load(plan))
    continuous = runs(table, "measured", "torch_continuous")
    assert (expand(continuous, "rows")[:576] == 16).all()
    assert continuous["step_to"].iloc[-1] == continuous["t_to_s"].iloc[-1] == 1056
    batch = runs(table, "measured", "static").head(5)
    assert batch["rows"].tolist() == [16] * 5
    assert batch["useful_rows"].tolist() == [16, 12, 8, 4, 16]
    assert batch["step_to"].tolist() == [32, 64, 128, 512, 544]
    wave = runs(table, "measured", "torch_wave").head(5)
    assert wave["rows"].tolist() == wave["useful_rows"].tolist() == [16, 12, 8, 4, 16]


def test_a_slot_seen_free_one_step_late_is_simulated_so(tmp_path):
    plan = synthetic.write_timings(
        tmp_path,
        repeats=1,
        cells=[("vllm", "B", 16)],
        workloads=synthetic.LESSON,
        engines=ASYNC,
        max_model_len=2048,
    )
    table = occupancy_table(load(plan))
    assert table.groupby("source")["step_to"].max().to_dict() == {
        "measured": 1058,
        "simulated": 1058,
    }


def test_a_budget_of_tokens_is_simulated(tmp_path):
    """128 tokens hold four prompts of 32; then four rows leave 124: three prompts and most of a
    fourth, which yields no token yet."""
    options = {"max_num_batched_tokens": 128}
    engines = {"vllm": {"backend": "vllm", "options": options, "baseline": None}}
    plan = synthetic.write_timings(tmp_path, repeats=1, cells=[("vllm", "B", 16)], engines=engines)
    found = runs(occupancy_table(load(plan)), "simulated", "vllm").head(2)
    assert found[["rows", "useful_rows"]].values.tolist() == [[4, 4], [8, 7]]
    assert found["waiting"].tolist() == [60, 56]


def test_the_first_repeat_with_steps_is_shown(tmp_path):
    plan = synthetic.write_timings(tmp_path, repeats=2, noise=0.1, cells=CELLS[:1])
    os.remove(plan[0]["steps"])
    found = runs(occupancy_table(load(plan)), "measured", "static")
    second = pq.read_table(plan[1]["steps"])["t_s"].to_pylist()
    assert found["t_from_s"].tolist()[1] == second[found["step_from"].tolist()[1]]
    os.remove(plan[1]["steps"])
    assert set(occupancy_table(load(plan))["source"]) == {"simulated"}


def test_only_known_admissions_and_requests_that_are_all_there(tmp_path):
    later = synthetic.DEMO["B"] | {"arrival": {"process": "poisson", "rate": 50.0, "seed": 1}}
    plan = synthetic.write_timings(
        tmp_path,
        repeats=1,
        cells=[("vllm", "A", 16), ("vllm", "B", 16), ("static", "A", 16)],
        workloads=synthetic.DEMO | {"B": later},
    )
    for entry in plan:
        if entry["engine"] == "static":
            entry["admission"] = "another"
    table = occupancy_table(load(plan))
    assert table[CELL].drop_duplicates().values.tolist() == [["vllm", "A", 16]]
