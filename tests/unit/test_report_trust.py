"""What the page says about how far its timings can be trusted."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import synthetic
from synthetic import find
from test_report_page import Page, assert_no_null_shown, make

from fourcells.report.page import render

AGAIN = "snakemake -j1 --use-conda --forcerun"
DAGGER = "\u2020"


def page_of(folder, spoil=None, **changes) -> Page:
    page = Page(render(make(folder, spoil=spoil, **changes)))
    assert_no_null_shown(page)
    return page


def words(page: Page) -> str:
    return " ".join("".join(page.text).split())


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("clean"), repeats=2)


@pytest.fixture(scope="module")
def rerun(tmp_path_factory):
    """One timing of repeat 2 contended and measured again, in another run, on a slower machine."""

    def spoil(plan):
        entry = find(plan, "static", "B", repeat=2)
        synthetic.contend(entry)
        synthetic.remeasure(entry, faster=1.25)
        slower = {"python_mloops_s": 20.5, "matmul_gflops": 55.5}
        calibration = {"before": slower, "after": slower}
        for key in ("path", "steps"):
            synthetic.rewrite(entry[key], metadata=lambda m: m.update(calibration=calibration))

    return page_of(tmp_path_factory.mktemp("rerun"), spoil, repeats=2)


def test_a_clean_run_warns_of_nothing(clean):
    text = words(clean)
    assert DAGGER not in text and "several sessions." not in text
    assert "Every timing was measured once." in text
    assert AGAIN + " results/timings/static" not in text


def test_random_weights_are_said_at_every_scale(clean, tmp_path):
    says = "Weights are random, in the model's true shape: a step costs what it would with trained"
    says += " ones; the texts mean nothing."
    assert says in words(clean)
    lesson = page_of(tmp_path / "lesson", repeats=1, scale="lesson")
    assert says in words(lesson) and "not the lesson's setting" not in words(lesson)
    real = {"name": "qwen", "path": "results/models/qwen", "weights": "hub"}
    assert says not in words(page_of(tmp_path / "hub", repeats=1, scale="lesson", model=real))


def test_the_witness_and_both_calibrations_of_every_window(rerun):
    rows = rerun.table("Witness")
    assert len(rows) == 12
    last = rows[-1]
    assert last["timing"] == "static/B/slots16, repeat 2"
    read = ("pushed off a core", "Python before, M loops/s", "matrix after, GFLOP/s")
    assert tuple(last[key] for key in read) == (
        "17", "20.5", "55.5",
    )  # fmt: skip
    assert (
        rows[0]["Python after, M loops/s"] == "23.9" and rows[0]["matrix before, GFLOP/s"] == "61.0"
    )
    assert "quota stops" not in last and "throttled" not in last
    timing = rerun.table("Timings")[-1]
    assert (timing["verdict"], timing["foreign CPU"]) == ("mixed_session", "0.5 %")


def test_missing_sources_are_said_once(rerun):
    text = words(rerun)
    assert text.count("this cgroup has no CPU quota to read") == 1
    assert "GPU clocks, heat and processes (the engine runs on the CPU)" in text


def test_ratios_that_cross_sessions_are_marked_with_both_calibrations(rerun):
    ratios = {row["ratio"]: row for row in rerun.table("Ratios")}
    for name in ("R_B", "Q"):
        assert ratios[name]["repeat 2"].endswith(DAGGER)
        assert ratios[name]["geometric mean"].endswith(DAGGER)
        assert DAGGER not in ratios[name]["repeat 1"]
    assert DAGGER not in "".join(ratios["R_A"].values()) + "".join(ratios["slots_ratio"].values())
    later, rest = rerun.table("Calibration")
    assert later["timing"] == "static/B/slots16, repeat 2"
    assert (later["Python before, M loops/s"], later["matrix before, GFLOP/s"]) == ("20.5", "55.5")
    assert rest["timing"] == "rest of repeat 2, mean of 5"
    assert (rest["Python before, M loops/s"], rest["matrix before, GFLOP/s"]) == ("24.0", "61.0")


def test_the_whole_block_has_its_command(rerun):
    (command,) = {
        line
        for text in rerun.text
        for line in text.splitlines()
        if line.startswith(AGAIN) and line.count(".parquet") == 6
    }
    found = {re.sub(r".*/timings/", "", path) for path in shlex.split(command)[4:]}
    assert found == {f"{e}/{w}/slots{s}/2.parquet" for e, w, s in synthetic.CELLS}


def test_with_one_repeat_the_mark_stays(tmp_path):
    page = page_of(tmp_path, lambda plan: synthetic.remeasure(plan[0]), repeats=1)
    assert page.table("Ratios")[0]["repeat 1"].endswith(DAGGER)
    assert f"{DAGGER} crosses sessions" in words(page) and "One repeat: no spread" in words(page)


def test_superseded_numbers_stand_beside_the_current_ones(rerun):
    before, now = rerun.table("Attempts")
    assert (before["attempt"], before["state"], before["verdict"]) == (
        "1", "superseded", "contended",
    )  # fmt: skip
    assert (now["attempt"], now["state"], now["verdict"]) == ("2", "counts", "mixed_session")
    assert before["difference"] == "\u221220.0 %" and now["difference"] == "\u2013"
    assert float(now["tok/s"].replace(",", "")) == pytest.approx(
        1.25 * float(before["tok/s"].replace(",", "")), rel=1e-3
    )
    assert now["reason"] == "measured again; the attempt before was contended"
    assert now["start (UTC)"] > before["start (UTC)"]


def test_attempts_that_never_counted_say_why(tmp_path):
    def spoil(plan):
        synthetic.remeasure(plan[0], counts=False)
        Path(plan[1]["attempts"], "2.parquet").write_bytes(b"half")

    rows = page_of(tmp_path, spoil, repeats=1).table("Attempts")
    assert [row["state"].split(":")[0] for row in rows] == ["counts", "never counted"] * 2
    assert "produced_tokens is not output_tokens" in rows[1]["state"]
    assert "cannot be read" in rows[3]["state"]


def test_reruns_that_went_one_way_are_a_warning(tmp_path):
    def spoil(plan):
        for repeat in (1, 2, 3):
            synthetic.remeasure(find(plan, "static", "B", repeat=repeat), faster=1.1)

    text = words(page_of(tmp_path, spoil, cells=[("static", "B", 16), ("vllm", "B", 16)]))
    warning = "All 3 timings of static that were measured again came out faster."
    assert text.count(warning) == 2  # before the answer, and in the history
    assert "without a reason that a verdict gives: static/B/slots16, repeat 1 (attempt 2);" in text


def test_stale_timings_are_named_with_the_command_and_in_no_figure(tmp_path):
    def spoil(plan):
        find(plan, "vllm", "B", repeat=2)["spec"]["options"]["enforce_eager"] = True

    page = page_of(tmp_path, spoil, repeats=2)
    text = words(page)
    assert "another spec than the config asks for now: 1." in text
    assert "its spec differs at options.enforce_eager" in text
    assert re.search(AGAIN + r" \S*timings/vllm/B/slots16/2.parquet", text)
    assert "stale_spec" in [row["verdict"] for row in page.table("Timings")]
    (row,) = [r for r in page.table("Ratios") if r["ratio"] == "R_B"]
    assert (row["repeat 2"], row["n"]) == ("\u2013", "1")


def test_a_page_of_stale_timings_alone_is_whole(tmp_path):
    def spoil(plan):
        for entry in plan:
            entry["spec"]["seed"] = 2

    page = page_of(tmp_path, spoil, repeats=1)
    assert len(page.table("Timings")) == 6
    assert page.tags.count("h2") >= 10


def test_timings_of_elsewhere_are_named(tmp_path):
    def spoil(plan):
        synthetic.rewrite(
            plan[0]["path"], metadata=lambda m: m["provenance"].update(host="<b>other</b>")
        )

    source = render(make(tmp_path, spoil=spoil, repeats=1))
    assert "its host is <b>other</b>, not synthetic" in words(Page(source))
    assert "<b>other" not in source


def test_old_timings_without_witness_or_history_make_a_page(tmp_path):
    old = {"witness": {"foreign_cpu_s": 1.0}, "calibration": None}

    def spoil(plan):
        for entry in plan:
            for key in ("path", "steps"):
                synthetic.rewrite(entry[key], metadata=lambda m: m.update(old))
            Path(entry["attempts"], "1.parquet").unlink()
            del entry["attempts"]

    page = page_of(tmp_path, spoil, repeats=1)
    assert "No timing carries one." in words(page)
    assert "Every timing was measured once." in words(page)


def test_gpu_figures_are_shown_where_there_is_a_gpu(tmp_path):
    gpu = json.loads(
        '{"sm_clock_mhz_min": 1200, "sm_clock_mhz_max": 1980, "temperature_c_max": 61,'
        ' "power_w_max": 512.5, "throttled": [], "clock_reasons": 4, "foreign_processes": 0,'
        ' "error": null}'
    )

    def spoil(plan):
        synthetic.rewrite(
            plan[0]["path"], metadata=lambda m: m["witness"]["windows"][0].update(gpu=gpu)
        )

    rows = page_of(tmp_path, spoil, repeats=1).table("Witness")
    assert (rows[0]["SM clock min, MHz"], rows[0]["throttled"]) == ("1,200", "no")
    assert (rows[1]["SM clock min, MHz"], rows[1]["throttled"]) == ("\u2013", "\u2013")
