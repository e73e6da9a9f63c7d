"""The whole pipeline at scale smoke: real Snakemake, real torch, real vLLM."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

pytestmark = [pytest.mark.pipeline, pytest.mark.slow]

# The lesson's lengths divided by four: 64 requests, A 46 tokens each, B 8, 16, 32 and 128.
LENGTHS = {"A": [46] * 64, "B": [8, 16, 32, 128] * 16, "B_sorted": sorted([8, 16, 32, 128] * 16)}
TOKENS = 64 * 46
A, PADDED_B, CONTINUOUS_B = 4 * 46, 4 * 128, 1056 // 4
STEPS = {
    ("static", "A", 16): A,
    ("static", "B", 16): PADDED_B,
    ("static", "B_sorted", 16): A,
    ("torch_wave", "A", 16): A,
    ("torch_wave", "B", 16): PADDED_B,
    ("torch_continuous", "A", 4): 16 * 46,
    ("torch_continuous", "A", 16): A,
    ("torch_continuous", "B", 16): CONTINUOUS_B,
    ("torch_continuous", "B_sorted", 16): A,
    ("vllm", "A", 16): A,
    # a freed slot is refilled at the next step: 1,056 at the lesson's lengths
    ("vllm", "B", 16): CONTINUOUS_B,
    ("vllm", "B_sorted", 16): A,
    ("vllm", "A", 256): 46,
    ("vllm", "B", 256): 128,
    ("vllm_again", "B", 16): CONTINUOUS_B,
    ("vllm_padded", "B", 16): PADDED_B,
    ("vllm_wave", "A", 16): A,
    ("vllm_wave", "B", 16): PADDED_B,
    ("vllm_wave", "B_sorted", 16): A,
    ("vllm_wave", "B", 256): 128,
    # 256 tokens a step hold half of the first 16 prompts: the second half enters one step later
    ("vllm_small_budget", "B", 16): CONTINUOUS_B + 1,
    ("transformers", "A", 16): A,
    ("transformers", "B", 16): CONTINUOUS_B,
    ("transformers_wave", "B", 16): PADDED_B,
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
    lengths = LENGTHS[workload]
    assert requests["output_tokens"].tolist() == lengths
    assert requests["produced_tokens"].tolist() == lengths
    assert requests["prompt_tokens"].tolist() == [32] * 64
    assert requests["cached_tokens"].sum() == 0
    assert sum(lengths) == TOKENS == steps["useful_rows"].sum()


@pytest.mark.parametrize("engine", ["static", "vllm_padded"])
def test_a_static_batch_computes_finished_rows_and_returns_at_its_end(smoke, engine):
    name = f"{engine}/B/slots16/1.parquet"
    steps = pq.read_table(smoke.folder / "results/steps" / name).to_pandas()
    assert steps["rows"].eq(16).all()
    requests = pq.read_table(smoke.folder / "results/timings" / name).to_pandas()
    waves = requests.groupby("wave")
    assert waves.size().tolist() == [16, 16, 16, 16]
    # returned together: nobody before the longest was finished, all within a millisecond or two
    assert (waves["returned_s"].min() >= waves["finished_s"].max()).all()
    assert (waves["returned_s"].max() - waves["returned_s"].min()).max() < 0.1
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


def test_cells_that_do_the_same_work_are_controls(smoke):
    controls = pd.read_parquet(smoke.folder / "results/tables/controls.parquet")
    found = controls[["kind", "engine", "other", "workload", "slots", "n"]]
    assert sorted(found.itertuples(index=False, name=None)) == [
        ("A/A", "vllm", "vllm_again", "B", 16, 1),
        *((PLACEBO, "static", "torch_continuous", w, 16, 1) for w in ("A", "B_sorted")),
        (PLACEBO, "static", "torch_wave", "A", 16, 1),
        (PLACEBO, "torch_wave", "torch_continuous", "A", 16, 1),
        (PLACEBO, "vllm_wave", "vllm", "A", 16, 1),
        (PLACEBO, "vllm_wave", "vllm", "B", 256, 1),
        (PLACEBO, "vllm_wave", "vllm", "B_sorted", 16, 1),
    ]
    assert controls["passed"].isna().all()  # one repeat says neither


def test_the_attribution_adds_up(smoke):
    table = pd.read_parquet(smoke.folder / "results/tables/attribution.parquet")
    table = table[(table["workload"] == "B") & (table["engine"] == "vllm")]
    products = table.groupby("path")["value"].prod()
    for path in ("engine_first", "scheduling_first"):
        assert products[path] == pytest.approx(products["total"], rel=1e-9)


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


PLACEBO = "placebo"
REDO = {"tables": 1, "report": 1}


def test_comments_key_order_and_formatting_measure_nothing(edited):
    edited.edit("\nseed: 1\n", "\n# another thought\nseed:   1\n")
    edited.edit("slots: [16, 256]\n", "slots:\n  - 16\n  - 256\n")
    assert edited.planned() == {}
    file = edited.folder / "config.yaml"
    config = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(dict(reversed(config.items())), sort_keys=False))
    assert edited.planned() == {}


@pytest.mark.parametrize(
    ("old", "new", "measured"),
    [
        (
            "        enforce_eager: true\n        engine_process: false\n        block_size: 32\n",
            "        enforce_eager: true\n        engine_process: false\n        block_size: 64\n",
            12,
        ),
        # vllm takes all slots, on A and on B
        ("slots: [16, 256]\n", "slots: [16, 256, 8]\n", 2),
        ("    backend: vllm\n", "    backend: vllm\n    options: {block_size: 64}\n", 5),
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
    [("repeats=2", len(STEPS)), ("seed=2", len(STEPS)), ("samples=2", len(STEPS))],
)
def test_repeats_add_and_other_work_is_measured_anew(smoke, settings, measured):
    assert smoke.planned("--config", settings)["measure"] == measured


def test_a_new_engine_and_a_new_workload_measure_only_themselves(edited):
    edited.edit(
        "  vllm:\n    backend: vllm\n    baseline: static\n",
        "  vllm:\n    backend: vllm\n    baseline: static\n"
        "  another:\n    backend: torch\n    workloads: [B]\n    options: {admission: wave}\n",
    )
    assert edited.planned()["measure"] == 2  # at 16 and at 256 slots
    edited.edit(
        "  # B in the order",
        "  C:\n    requests: 4\n    prompt_tokens: 8\n    output_tokens: 8\n    slots: [16]\n"
        "    engines: [static, vllm]\n  # B in the order",
    )
    assert edited.planned()["measure"] == 2 + 2


def test_a_set_is_measured_when_it_is_asked_for(smoke):
    assert smoke.planned("dose")["measure"] == 18
    assert smoke.planned("arrivals") == {"measure": 4, "plan": 1, "arrivals": 1, **REDO}
    assert "measure" not in smoke.planned()


def test_a_set_once_measured_is_part_of_the_page(smoke):
    """Poisson arrivals for real, on the loop: B_low is quick enough for a test."""
    target = "results/timings/torch_continuous/B_low/slots16/1.parquet"
    smoke.run(target)
    try:
        assert smoke.planned() == {"plan": 1, **REDO}
        requests = pd.read_parquet(smoke.folder / target)
        assert requests["arrival_s"].is_monotonic_increasing
        assert (requests["admitted_s"] >= requests["arrival_s"]).all()
        assert requests["arrival_s"].iloc[-1] > 5
        smoke.run()
        arrivals = pd.read_parquet(smoke.folder / "results/tables/arrivals.parquet")
        assert {"block", "poisson"} == set(arrivals["process"])
    finally:
        (smoke.folder / target).unlink()
        smoke.run()


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
