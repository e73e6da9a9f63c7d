"""The whole pipeline at scale smoke: real Snakemake, real torch, real vLLM."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.pipeline, pytest.mark.slow]

# The lesson's lengths divided by four: 64 requests, A 46 tokens each, B 8, 16, 32 and 128.
TOKENS = 64 * 46
STEPS = {
    ("static", "A", 16): 4 * 46,
    ("static", "B", 16): 4 * 128,
    ("vllm", "A", 16): 4 * 46,
    ("vllm_again", "A", 16): 4 * 46,
    ("vllm_again", "B", 16): 1056 // 4,
    # a freed slot is refilled at the next step: 1,056 at the lesson's lengths
    ("vllm", "B", 16): 1056 // 4,
    ("vllm", "A", 256): 46,
    ("vllm", "B", 256): 128,
}


@pytest.fixture(params=STEPS, ids=lambda cell: "-".join(map(str, cell)))
def cell(request, smoke):
    """A cell, its requests and its steps."""
    engine, workload, slots = request.param
    name = f"{engine}/{workload}/slots{slots}/1.parquet"
    return (
        request.param,
        pq.read_table(smoke.folder / "results/timings" / name),
        pq.read_table(smoke.folder / "results/steps" / name).to_pandas(),
    )


def test_every_cell_takes_exactly_the_steps_of_theory(cell):
    key, _, steps = cell
    assert len(steps) == STEPS[key]


def test_every_cell_does_the_same_work(cell):
    (_, workload, _), requests, steps = cell
    requests = requests.to_pandas()
    lengths = {"A": [46] * 64, "B": [8, 16, 32, 128] * 16}[workload]
    assert requests["output_tokens"].tolist() == lengths
    assert requests["produced_tokens"].tolist() == lengths
    assert requests["prompt_tokens"].tolist() == [32] * 64
    assert requests["cached_tokens"].sum() == 0
    assert sum(lengths) == TOKENS == steps["useful_rows"].sum()


def test_a_static_batch_computes_finished_rows_and_returns_at_its_end(smoke):
    name = "static/B/slots16/1.parquet"
    steps = pq.read_table(smoke.folder / "results/steps" / name).to_pandas()
    assert steps["rows"].eq(16).all()
    requests = pq.read_table(smoke.folder / "results/timings" / name).to_pandas()
    assert requests.groupby("wave")["returned_s"].nunique().tolist() == [1, 1, 1, 1]
    assert (requests["finished_s"] <= requests["returned_s"]).all()


def test_vllm_queues_every_request_before_its_first_step(smoke):
    for slots, waiting in ((16, 48), (256, 0)):
        steps = pq.read_table(
            smoke.folder / f"results/steps/vllm/B/slots{slots}/1.parquet"
        ).to_pandas()
        assert (steps["rows"][0], steps["waiting"][0]) == (64 - waiting, waiting)


def test_engines_of_a_repeat_get_the_same_prompts_and_weights(cell, smoke):
    (_, workload, _), requests, _ = cell
    other = pq.read_table(smoke.folder / f"results/timings/static/{workload}/slots16/1.parquet")
    mine, theirs = (
        json.loads(table.schema.metadata[b"fourcells"])["provenance"] for table in (requests, other)
    )
    assert mine["prompt_hash"] == theirs["prompt_hash"]
    assert mine["model_hash"] == theirs["model_hash"]


def test_a_timing_says_what_was_applied(cell):
    (_, _, slots), requests, _ = cell
    metadata = json.loads(requests.schema.metadata[b"fourcells"])
    applied = metadata["applied"]
    assert (applied["slots"], applied["threads"], applied["dtype"]) == (slots, 1, "float32")
    assert applied["prefix_caching"] is False
    assert metadata["spec"]["repeat"] == 1
    assert metadata["provenance"]["load_s"] > 0 and metadata["provenance"]["warmup_s"] > 0


def test_the_tables_follow_from_the_timings(smoke):
    tables = smoke.folder / "results/tables"
    throughput = pd.read_parquet(tables / "throughput.parquet")
    for row in throughput.itertuples():
        requests = pd.read_parquet(
            smoke.folder
            / f"results/timings/{row.engine}/{row.workload}/slots{row.slots}/{row.repeat}.parquet"
        )
        assert row.tok_s == pytest.approx(TOKENS / requests["returned_s"].max())
    idle = pd.read_parquet(tables / "idle.parquet").set_index(["engine", "workload", "slots"])
    assert idle.loc[("static", "B", 16), "idle_rows"] == 1 - 184 / 512
    summary = json.loads((smoke.folder / "results/summary.json").read_text())
    assert {(c["engine"], c["workload"], c["slots"]) for c in summary["cells"]} == set(STEPS)


def test_an_engine_under_two_names_is_a_control(smoke):
    controls = pd.read_parquet(smoke.folder / "results/tables/controls.parquet")
    found = controls[["kind", "engine", "other", "workload", "slots", "n"]]
    assert sorted(found.itertuples(index=False, name=None)) == [
        ("A/A", "vllm", "vllm_again", "A", 16, 1),
        ("A/A", "vllm", "vllm_again", "B", 16, 1),
    ]
    assert controls["passed"].isna().all()  # one repeat says neither


def test_the_page_is_whole(smoke):
    page = (smoke.folder / "results/report.html").read_text()
    assert page.count("<svg") >= 3
    assert "NaN" not in page and "None" not in page


def test_a_second_run_does_nothing(smoke):
    assert "Nothing to be done" in smoke.run()


@pytest.fixture
def edited(smoke):
    """The finished workflow, whose config.yaml a test may change; put back afterwards."""
    file = smoke.folder / "config.yaml"
    before = file.read_text()
    yield smoke
    file.write_text(before)


REDO = {"tables": 1, "report": 1}


def test_comments_key_order_and_formatting_measure_nothing(edited):
    edited.edit("\nseed: 1\n", "\n# another thought\nseed:   1\n")
    edited.edit("slots: [16, 256]\n", "slots:\n  - 16\n  - 256\n")
    edited.edit("      admission: padded\n", "      admission: 'padded'\n")
    file = edited.folder / "config.yaml"
    head, engines, rest = file.read_text().partition("\nengines:\n")
    block, *others = rest.split("\n\n", 1)
    file.write_text(head + "\n\n" + others[0] + engines + block + "\n")
    assert edited.planned() == {}


@pytest.mark.parametrize(
    ("old", "new", "measured"),
    [
        (
            "        enforce_eager: true\n        engine_process: false\n        block_size: 32\n",
            "        enforce_eager: true\n        engine_process: false\n        block_size: 64\n",
            6,
        ),
        ("slots: [16, 256]\n", "slots: [16, 256, 8]\n", 2),
        ("    backend: vllm\n", "    backend: vllm\n    options: {block_size: 64}\n", 4),
    ],
    ids=["backend option", "slot count", "engine option"],
)
def test_a_change_measures_only_what_it_touches(edited, old, new, measured):
    file = edited.folder / "config.yaml"
    text = file.read_text()
    place = text.index(old)  # the first one: scale smoke comes first
    file.write_text(text[:place] + new + text[place + len(old) :])
    assert edited.planned()["measure"] == measured


@pytest.mark.parametrize(
    ("settings", "measured"),
    [("repeats=2", 8), ("seed=2", 8), ("samples=2", 8)],
)
def test_repeats_add_and_other_work_is_measured_anew(smoke, settings, measured):
    assert smoke.planned("--config", settings)["measure"] == measured


def test_a_new_engine_and_a_new_workload_measure_only_themselves(edited):
    edited.edit(
        "  vllm:\n    backend: vllm\n    baseline: static\n",
        "  vllm:\n    backend: vllm\n    baseline: static\n"
        "  waves:\n    backend: torch\n    workloads: [B]\n    options: {admission: wave}\n",
    )
    assert edited.planned()["measure"] == 2  # at 16 and at 256 slots
    edited.edit(
        "# Slots: the most",
        "  C:\n    requests: 4\n    prompt_tokens: 8\n    output_tokens: 8\n\n# Slots: the most",
    )
    assert edited.planned()["measure"] == 2 + 4


def test_an_edited_script_measures_nothing(edited):
    script = edited.folder / "scripts/measure.py"
    before = script.read_text()
    script.write_text(before + "\n# a remark\n")
    try:
        assert "measure" not in edited.planned()
    finally:
        script.write_text(before)


def test_a_lost_timing_is_measured_again_and_nothing_else(smoke):
    lost = smoke.folder / "results/timings/static/A/slots16/1.parquet"
    kept = lost.with_suffix(".kept")
    shutil.move(lost, kept)
    try:
        assert smoke.planned() == {"measure": 1, **REDO}
    finally:
        shutil.move(kept, lost)


def test_one_cell_alone_can_be_forced(smoke):
    target = "results/timings/vllm/B/slots16/1.parquet"
    assert smoke.planned("--forcerun", target) == {"measure": 1, **REDO}


def test_cells_that_do_not_exist_cannot_be_asked_for(smoke):
    done = smoke.snakemake("-n", "results/timings/static/A/slots256/1.parquet")
    assert done.returncode != 0
    assert "MissingRuleException" in done.stdout
