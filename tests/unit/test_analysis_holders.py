"""Who holds which slot: assigned from measured times, so that nobody shares one."""

import pandas as pd
import pyarrow.parquet as pq
import pytest
import synthetic

from fourcells.analysis.holders import holders_table, slots_of
from fourcells.analysis.load import load

CELL = ["engine", "workload", "slots"]
CELLS = [
    *((e, "B", 16) for e in ("static", "torch_wave", "torch_continuous", "vllm")),
    *(("vllm", w, 256) for w in ("A", "B")),
]
# 40 requests: the last batch of 16 slots is half full
WORKLOADS = synthetic.DEMO | {"B": synthetic.DEMO["B"] | {"count": 40}}
ASYNC = synthetic.ENGINES | {
    "vllm": {"backend": "vllm", "options": {"async_scheduling": True}, "baseline": None}
}


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    return synthetic.write_timings(
        tmp_path_factory.mktemp("holders"),
        repeats=2,
        samples=2,
        noise=0.1,
        sample_noise=0.1,
        cells=CELLS,
        workloads=WORKLOADS,
        engines=ASYNC,
    )


@pytest.fixture(scope="module")
def table(planned):
    return holders_table(load(planned))


def of(table, engine, workload="B", slots=16):
    same = table["engine"].eq(engine) & table["workload"].eq(workload) & table["slots"].eq(slots)
    return table[same]


def left(rows):
    """When each row frees its slot."""
    return rows["returned_s"].where(rows["admission"].eq("padded"), rows["finished_s"])


def test_every_request_of_the_first_window_once_as_measured(planned, table):
    assert len(table) == 5 * 40 + 64
    for entry in planned[: len(CELLS)]:
        rows = of(table, entry["engine"], entry["workload"], entry["slots"])
        stored = pq.read_table(entry["path"]).to_pandas()
        stored = stored[stored["sample"].eq(1)]
        assert set(rows["repeat"]) == {1}
        for column in ("output_tokens", "admitted_s", "first_token_s", "finished_s", "returned_s"):
            assert rows.set_index("request")[column].to_dict() == dict(
                zip(stored["request"], stored[column].round(6), strict=True)
            )


def test_no_slot_is_held_twice_at_once(table):
    for (_, _, slots), rows in table.groupby(CELL):
        assert rows["slot"].between(0, slots - 1).all()
        for _, own in rows.groupby("slot"):
            own = own.sort_values("admitted_s")
            assert (own["admitted_s"].to_numpy()[1:] >= left(own).to_numpy()[:-1]).all()


def test_slots_that_bind_are_all_used_and_of_256_as_many_as_there_are_requests(table):
    assert set(of(table, "torch_continuous")["slot"]) == set(range(16))
    assert of(table, "vllm", "A", 256)["slot"].tolist() == list(range(64))
    assert of(table, "vllm", "B", 256)["slot"].tolist() == list(range(40))


@pytest.mark.parametrize("engine", ["static", "torch_wave"])
def test_batches_fill_the_slots_from_the_first(table, engine):
    batches = [rows["slot"].tolist() for _, rows in of(table, engine).groupby("admitted_s")]
    assert batches == [list(range(16)), list(range(16)), list(range(8))]


@pytest.mark.parametrize(
    ("engine", "slots", "admitted", "freed"),
    [
        # of the requests A to F; the second batch begins as the first is returned
        ("static", [0, 1, 2, 3, 0, 1], [0, 0, 0, 0, 8, 8], [8, 8, 8, 8, 14, 14]),
        ("torch_wave", [0, 1, 2, 3, 0, 1], [0, 0, 0, 0, 8, 8], [8, 2, 3, 4, 12, 14]),
        # E enters as B leaves, F as C leaves
        ("torch_continuous", [0, 1, 2, 3, 1, 2], [0, 0, 0, 0, 2, 3], [8, 2, 3, 4, 6, 9]),
    ],
)
def test_the_lessons_picture(tmp_path, engine, slots, admitted, freed):
    """Four slots, six requests, a step a second: every release is the instant of an admission."""
    requests = {"count": 6, "prompt_tokens": [4], "output_tokens": [8, 2, 3, 4, 4, 6]}
    plan = synthetic.write_timings(
        tmp_path,
        repeats=1,
        cells=[(engine, "B", 4)],
        workloads={"B": requests | {"order": "cyclic"}},
        step_times={engine: (1.0, 0.0)},
    )
    rows = holders_table(load(plan)).sort_values("request")
    assert rows["slot"].tolist() == slots
    assert rows["admitted_s"].tolist() == admitted
    assert left(rows).tolist() == freed


def window(waves, admitted_s, finished_s):
    """Requests in order of admission."""
    waves = pd.array(waves, "Int64")
    return pd.DataFrame({"wave": waves, "admitted_s": admitted_s, "finished_s": finished_s})


def test_an_admission_stamped_before_the_release_takes_the_slot_that_is_freed_first():
    requests = window(
        [None] * 5,
        admitted_s=[0.0, 0.0, 0.0, 0.999, 1.499],
        finished_s=[5.0, 1.5, 1.0, 3.0, 2.0],
    )
    assert slots_of(requests, 3) == [0, 1, 2, 2, 1]


def test_in_a_new_batch_all_slots_are_free_whatever_the_stamps():
    requests = window(
        [1, 1, 1, 2, 2],
        admitted_s=[0.0, 0.0, 0.0, 0.999, 0.999],
        finished_s=[1.0, 0.5, 0.25, 2.0, 1.5],
    )
    assert slots_of(requests, 3) == [0, 1, 2, 0, 1]


def test_only_the_main_set_known_admissions_and_requests_that_are_all_there(tmp_path):
    later = synthetic.DEMO["B"] | {"arrival": {"process": "poisson", "rate": 50.0, "seed": 1}}
    plan = synthetic.write_timings(
        tmp_path,
        repeats=1,
        cells=[("vllm", "A", 16), ("vllm", "B", 16), ("static", "A", 16), ("torch_wave", "A", 16)],
        workloads=synthetic.DEMO | {"B": later},
    )
    for entry in plan:
        if entry["engine"] == "static":
            entry["admission"] = "another"
        if entry["engine"] == "torch_wave":
            entry["set"] = "dose"
    table = holders_table(load(plan))
    assert table[CELL].drop_duplicates().values.tolist() == [["vllm", "A", 16]]
    # the types are those of a full table, so that files keep theirs
    empty = holders_table(load(plan[1:2]))
    assert empty.empty and (empty.dtypes == table.dtypes).all()
