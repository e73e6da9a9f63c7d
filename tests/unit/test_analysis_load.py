"""Timings that cannot be used are named, with the reason and the command that helps."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest
import synthetic
from synthetic import find

from fourcells.analysis.check import BadTimings
from fourcells.analysis.load import load
from fourcells.spec import first_difference


@pytest.fixture
def plan(tmp_path):
    return synthetic.write_timings(tmp_path, repeats=2)


def problems(plan):
    """Path -> what is wrong with it."""
    with pytest.raises(BadTimings) as caught:
        load(plan)
    for problem in caught.value.problems:
        assert problem.path in str(caught.value)
        assert problem.what in str(caught.value)
    command = str(caught.value).splitlines()[-1].strip()
    timings = sorted({p.timing for p in caught.value.problems})
    assert command == "snakemake -j1 --forcerun " + " ".join(timings)
    return {p.path: p.what for p in caught.value.problems}


def test_good_timings_load(plan):
    timings = load(plan)
    assert len(timings.plan) == len(timings.metadata) == 12
    assert timings.missing == []
    assert len(timings.requests) == 12 * 64
    assert timings.requests["wave"].dtype == "Int64"
    assert list(timings.plan["engine"].unique()) == ["static", "vllm"]


def test_order_of_the_plan_does_not_matter(plan):
    assert load(plan[::-1]).plan.equals(load(plan).plan)


def test_admission_comes_from_the_engine_when_it_was_not_asked_for(plan):
    timings = load(plan)
    assert set(zip(timings.plan["engine"], timings.plan["admission"], strict=True)) == {
        ("static", "padded"),
        ("vllm", "continuous"),
    }


VARIANTS = synthetic.ENGINES | {
    "vllm_again": {"backend": "vllm", "options": {}, "baseline": None},
    "vllm_eager": {"backend": "vllm", "options": {"enforce_eager": True}, "baseline": None},
}
STEP_TIMES = synthetic.STEP_TIMES | dict.fromkeys(["vllm_again", "vllm_eager"], (0.01, 0.0))


def beside(plan):
    """Engine -> the lesson's engine that it stands beside."""
    frame = load(plan).plan
    found = dict(zip(frame["engine"], frame["lesson_engine"], strict=True))
    return {name: None if pd.isna(engine) else engine for name, engine in found.items()}


def test_only_compared_engines_and_their_twins_stand_beside_the_lesson(tmp_path):
    cells = [(engine, "B", 16) for engine in VARIANTS]
    plan = synthetic.write_timings(
        tmp_path, 1, cells=cells, engines=VARIANTS, step_times=STEP_TIMES
    )
    variants = dict.fromkeys(VARIANTS)
    twins = {"static": "static", "static_again": "static", "vllm": "vllm", "vllm_again": "vllm"}
    assert beside(plan) == variants | twins
    # the pair decides by the plan, measured or not
    os.remove(find(plan, "vllm", "B")["path"])
    assert beside(plan)["vllm_again"] == "vllm"
    # without a pair, all that serve as the lesson's do
    for entry in plan:
        entry["baseline"] = None
    alike = {"static_compiled": "static", "vllm_eager": "vllm"}
    assert beside(plan) == {k: v for k, v in (variants | twins | alike).items() if k != "vllm"}


def test_swapped_files_are_both_named(plan):
    a, b = find(plan, "static", "A")["path"], find(plan, "static", "B")["path"]
    os.rename(a, a + ".x")
    os.rename(b, a)
    os.rename(a + ".x", b)
    # A plan may come with sorted keys: the workload is named all the same.
    found = problems(json.loads(json.dumps(plan, sort_keys=True)))
    assert set(found) == {a, b}
    assert found[a] == 'its spec differs at workload: planned "A", found "B"'
    assert found[b] == 'its spec differs at workload: planned "B", found "A"'


def test_a_copied_repeat_is_named(plan):
    first, second = (find(plan, "vllm", "B", repeat=r)["path"] for r in (1, 2))
    Path(second).write_bytes(Path(first).read_bytes())
    assert problems(plan) == {second: "its spec differs at repeat: planned 2, found 1"}


def test_a_stale_timing_is_loaded_and_its_first_differing_key_named(plan):
    entry = find(plan, "vllm", "B")
    entry["spec"]["requests"]["output_tokens"] = [8, 16, 32, 64]
    entry["spec"]["seed"] = 7
    timings = load(plan)
    stale = {
        path: key for path, key in zip(timings.plan["path"], timings.stale, strict=True) if key
    }
    assert stale == {entry["path"]: "requests.output_tokens"}


def test_a_new_option_makes_stale(plan):
    entry = find(plan, "vllm", "B")
    entry["spec"]["options"]["enforce_eager"] = True
    assert [key for key in load(plan).stale if key] == ["options.enforce_eager"]


def test_another_protocol_makes_stale(plan):
    for key in ("path", "steps"):
        synthetic.rewrite(plan[0][key], metadata=lambda meta: meta.update(protocol=0))
    assert [key for key in load(plan).stale if key] == ["protocol"]


def test_stale_timings_may_have_other_prompts_and_another_model(plan):
    entry = find(plan, "vllm", "B")
    entry["spec"]["seed"] = 7
    other = {"prompt_hash": ["other"], "model_hash": "other"}
    for key in ("path", "steps"):
        synthetic.rewrite(entry[key], metadata=lambda meta: meta["provenance"].update(other))
    assert len(load(plan).metadata) == 12


def test_what_counts_is_numbered_anew_without_the_stale(plan):
    find(plan, "static", "B")["spec"]["seed"] = 7
    timings = load(plan)
    counted = timings.counted()
    assert len(counted.plan) == len(counted.metadata) == 11
    for frame in (counted.requests, counted.steps):
        assert sorted(frame["timing"].unique()) == list(range(11))
    for timing, path in counted.plan["path"].items():
        was = timings.plan.index[timings.plan["path"] == path][0]
        assert counted.metadata[timing] is timings.metadata[was]
        windows = [t.requests["returned_s"][t.requests["timing"] == i].max()
                   for t, i in ((counted, timing), (timings, was))]  # fmt: skip
        assert windows[0] == windows[1]


def test_a_swapped_stale_file_is_still_an_error(plan):
    first, second = (find(plan, "vllm", "B", repeat=r) for r in (1, 2))
    for entry in (first, second):
        entry["spec"]["seed"] = 7
    Path(second["path"]).write_bytes(Path(first["path"]).read_bytes())
    assert problems(plan) == {second["path"]: "its spec differs at repeat: planned 2, found 1"}


def test_steps_of_another_timing_are_named(plan):
    a, b = find(plan, "static", "A"), find(plan, "static", "B")
    Path(a["steps"]).write_bytes(Path(b["steps"]).read_bytes())
    assert list(problems(plan)) == [a["steps"]]


def test_steps_of_another_attempt_are_named(plan):
    entry = find(plan, "static", "A")
    synthetic.rewrite(entry["steps"], metadata=lambda meta: meta.update(attempt=2))
    assert "attempt is 2" in problems(plan)[entry["steps"]]


@pytest.mark.parametrize("content", [b"", b"PAR1 not a parquet file PAR1"])
@pytest.mark.parametrize("kind", ["path", "steps"])
def test_a_damaged_file_is_named(plan, kind, content):
    entry = find(plan, "static", "B")
    Path(entry[kind]).write_bytes(content)
    assert "cannot be read" in problems(plan)[entry[kind]]


def test_a_truncated_file_is_named(plan):
    path = find(plan, "static", "B")["path"]
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[: len(whole) // 2])
    assert "cannot be read" in problems(plan)[path]


def test_changed_bytes_never_pass_as_other_numbers(plan):
    """With page checksums, as stored here, a flipped byte is found or changes no number."""
    plan = plan[:1]
    path, before = Path(plan[0]["path"]), load(plan).requests
    whole = path.read_bytes()
    found = 0
    for position in range(4, len(whole), 97):
        changed = bytearray(whole)
        changed[position] ^= 0x10
        path.write_bytes(changed)
        try:
            assert load(plan).requests.equals(before), position
        except BadTimings:
            found += 1
    assert found > 0


def test_a_file_without_metadata_is_named(plan):
    path = find(plan, "static", "B")["path"]
    synthetic.rewrite(path, metadata=lambda meta: meta.pop("provenance"))
    assert problems(plan) == {path: "its metadata lacks provenance"}


def test_no_rows(plan):
    path = find(plan, "static", "B")["path"]
    synthetic.rewrite(path, rows=lambda rows: [])
    assert problems(plan) == {path: "it holds no rows"}


def test_too_few_rows(plan):
    path = find(plan, "static", "B")["path"]
    synthetic.rewrite(path, rows=lambda rows: rows[:-1])
    assert problems(plan) == {path: "it holds 63 requests, planned are 64"}


def test_short_output(plan):
    path = find(plan, "vllm", "B")["path"]
    synthetic.rewrite(path, rows=lambda rows: [*rows[:-1], rows[-1] | {"produced_tokens": 127}])
    what = (
        "produced_tokens is not output_tokens in 1 of 64 requests, first in request 63 of sample 1"
    )
    assert problems(plan) == {path: what}


@pytest.mark.parametrize("column", ["first_token_s", "finished_s", "returned_s"])
@pytest.mark.parametrize("value", [None, 0.0, float("nan")])
def test_times_that_were_never_taken(plan, column, value):
    path = find(plan, "vllm", "B")["path"]
    synthetic.rewrite(path, rows=lambda rows: [rows[0] | {column: value}, *rows[1:]])
    assert problems(plan)[path].startswith(column)


def test_null_admission_time(plan):
    path = find(plan, "vllm", "B")["path"]
    synthetic.rewrite(path, rows=lambda rows: [rows[0] | {"admitted_s": None}, *rows[1:]])
    assert problems(plan)[path].startswith("admitted_s is null")


def test_other_prompts(plan):
    path = find(plan, "vllm", "B")["path"]
    synthetic.rewrite(path, metadata=lambda m: m["provenance"].update(prompt_hash=["other"]))
    found = problems(plan)
    assert list(found) == [path]
    assert (
        "hash of its prompts, other, is not that of workload B, repeat 1, window 1" in found[path]
    )


def test_prompts_may_differ_between_repeats(plan):
    hashes = {m["provenance"]["prompt_hash"][0] for m in load(plan).metadata}
    assert len(hashes) == 4  # two workloads, two repeats


def test_other_model(plan):
    path = find(plan, "static", "A", repeat=2)["path"]
    synthetic.rewrite(path, metadata=lambda m: m["provenance"].update(model_hash="other"))
    found = problems(plan)
    assert list(found) == [path]
    assert "hash of its model, other" in found[path]


def test_no_prompt_hash(plan):
    path = find(plan, "static", "A", repeat=2)["path"]
    synthetic.rewrite(path, metadata=lambda m: m["provenance"].update(prompt_hash=None))
    assert problems(plan) == {path: "it carries no hash of its prompts"}


def test_all_problems_are_listed_together(plan):
    one, two = find(plan, "static", "A"), find(plan, "vllm", "B", slots=256, repeat=2)
    Path(one["path"]).write_bytes(b"")
    synthetic.rewrite(two["path"], rows=lambda rows: rows[1:])
    assert set(problems(plan)) == {one["path"], two["path"]}


def test_missing_files_are_listed_not_raised(plan):
    gone, no_steps = find(plan, "static", "A"), find(plan, "vllm", "B")
    os.remove(gone["path"])
    os.remove(no_steps["steps"])
    timings = load(plan)
    assert sorted(timings.missing) == sorted([gone["path"], no_steps["steps"]])
    assert len(timings.plan) == 11


def test_nothing_measured_yet(plan):
    for entry in plan:
        os.remove(entry["path"])
    with pytest.raises(ValueError, match="none of the 12 planned timings exists"):
        load(plan)


def test_a_timing_planned_twice(plan):
    with pytest.raises(ValueError, match=r"planned twice.*static.*A"):
        load([*plan, plan[0]])


def test_first_difference():
    assert first_difference({"a": 1}, {"a": 1.0}) is None
    assert first_difference({"a": 1}, {"a": True}) == ("a", 1, True)
    assert first_difference({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}) == ("a.c", None, 2)
    assert first_difference({"b": 1, "a": 1}, {"a": 2, "b": 2}) == ("b", 1, 2)
    assert first_difference({"a": [1, 2]}, {"a": [1, 3]}) == ("a", [1, 2], [1, 3])
