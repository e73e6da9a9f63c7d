"""Every attempt is in the table, and reruns that went one way are found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
import synthetic
import tables
from synthetic import find

from fourcells.analysis.load import load

CELLS = (("static", "B", 16), ("vllm", "B", 16))


@pytest.fixture
def plan(tmp_path):
    return synthetic.write_timings(tmp_path, repeats=3, cells=CELLS)


def analyse(plan):
    made, summary = tables.make_tables(load(plan), plan)
    return made["attempts"], summary["trust"]


def of(table, entry):
    keys = ["engine", "workload", "slots", "repeat"]
    return table[(table[keys] == [entry[key] for key in keys]).all(axis=1)]


def named(found):
    return [(each["engine"], each["repeat"], each["attempt"]) for each in found]


def test_superseded_attempts_stand_beside_the_one_that_counts(plan):
    entry = find(plan, "static", "B", repeat=2)
    synthetic.contend(entry)
    synthetic.remeasure(entry, faster=1.25)
    table, _ = analyse(plan)
    assert len(table) == 7
    rows = of(table, entry)
    assert rows["attempt"].tolist() == [1, 2]
    assert rows["counts"].tolist() == [False, True]
    assert rows["verdict"].tolist() == ["contended", "mixed_session"]
    assert rows["reason"].tolist()[1] == "measured again; the attempt before was contended"
    assert rows["tok_s"].iloc[1] == pytest.approx(1.25 * rows["tok_s"].iloc[0])
    assert rows["window_s"].iloc[0] == pytest.approx(1.25 * rows["window_s"].iloc[1])
    assert [session.rpartition("/")[2] for session in rows["session"]] == ["first", "second"]
    assert rows["problem"].isna().all() and table["counts"].sum() == 6


def test_ten_attempts_are_in_order_and_steps_are_none(plan):
    entry = find(plan, "static", "B")
    for _ in range(10):
        synthetic.remeasure(entry)
    folder = Path(entry["attempts"])
    shutil.copy(entry["steps"], folder / "1.steps.parquet")
    (folder / "11.parquet.99.partial").write_bytes(b"half")
    rows = of(analyse(plan)[0], entry)
    assert rows["attempt"].tolist() == list(range(1, 12))
    assert rows["counts"].tolist() == [False] * 10 + [True]


def test_an_attempt_that_did_other_work_says_so_and_does_not_count(plan):
    entry = find(plan, "static", "B")
    synthetic.remeasure(entry, counts=False)
    rows = of(analyse(plan)[0], entry)
    assert rows["counts"].tolist() == [True, False]
    assert "produced_tokens is not output_tokens in 1 of 64" in rows["problem"].iloc[1]
    assert rows["verdict"].iloc[1] == "short_output"


def test_a_damaged_attempt_is_named_and_stops_nothing(plan):
    entry = find(plan, "static", "B")
    synthetic.remeasure(entry)
    Path(entry["attempts"], "1.parquet").write_bytes(b"PAR1")
    rows = of(analyse(plan)[0], entry)
    assert "cannot be read" in rows["problem"].iloc[0]
    assert rows[["tok_s", "verdict", "session"]].isna().all(axis=1).tolist() == [True, False]


def test_an_attempt_of_another_timing_is_named(plan):
    one, two = find(plan, "static", "B"), find(plan, "vllm", "B")
    shutil.copy(two["path"], Path(one["attempts"], "2.parquet"))
    rows = of(analyse(plan)[0], one)
    assert rows["problem"].iloc[1] == 'its spec differs at engine: planned "static", found "vllm"'
    assert rows["counts"].tolist() == [True, False]


def test_an_attempt_under_another_spec_is_stale(plan):
    entry = find(plan, "static", "B")
    synthetic.remeasure(entry)
    synthetic.rewrite(
        Path(entry["attempts"], "1.parquet"), metadata=lambda meta: meta["spec"].update(seed=9)
    )
    rows = of(analyse(plan)[0], entry)
    assert rows["stale_key"].iloc[0] == "seed" and rows["stale_key"].isna().iloc[1]
    assert rows["verdict"].iloc[0] == "stale_spec"


def test_no_history_is_an_empty_table(plan):
    for entry in plan:
        shutil.rmtree(entry["attempts"])
    del plan[0]["attempts"]
    table, trust = analyse(plan)
    assert len(table) == 0 and table["counts"].dtype == bool
    assert table["tok_s"].dtype == "float64"
    assert trust["one_way"] == trust["without_reason"] == []


@pytest.mark.parametrize(
    ("faster", "direction"),
    [((1.1, 1.2, 1.3), "up"), ((0.9, 0.8, 0.99), "down"), ((1.1, 0.9, 1.2), None),
     ((1.1, 1.2), None), ((1.1, 1.2, 1.0), None)],
)  # fmt: skip
def test_three_replaced_timings_that_all_moved_one_way_are_a_warning(plan, faster, direction):
    for repeat, factor in enumerate(faster, start=1):
        entry = find(plan, "static", "B", repeat=repeat)
        synthetic.contend(entry)
        synthetic.remeasure(entry, faster=factor)
    # moves of another engine do not count for this one
    synthetic.remeasure(find(plan, "vllm", "B"), faster=0.5)
    trust = analyse(plan)[1]
    want = [{"engine": "static", "direction": direction, "timings": 3}] if direction else []
    assert trust["one_way"] == want
    reasons = tables.make_tables(load(plan), plan)[1]["publishable"]["reasons"]
    assert any("replaced timings of static went" in r for r in reasons) == bool(direction)


def test_the_first_attempt_is_what_the_last_is_set_against(plan):
    """Up, and then less far down: up on the whole."""
    for repeat in (1, 2, 3):
        entry = find(plan, "static", "B", repeat=repeat)
        synthetic.remeasure(entry, faster=2.0)
        synthetic.remeasure(entry, faster=0.9, run="third")
    assert analyse(plan)[1]["one_way"] == [{"engine": "static", "direction": "up", "timings": 3}]


@pytest.mark.parametrize("kind", ["other spec", "no good attempt"])
def test_what_was_replaced_for_another_cause_is_no_rerun(plan, kind):
    for repeat in (1, 2, 3):
        entry = find(plan, "static", "B", repeat=repeat)
        synthetic.remeasure(entry, faster=1.5)
        first = Path(entry["attempts"], "1.parquet")
        if kind == "other spec":
            synthetic.rewrite(first, metadata=lambda meta: meta["spec"].update(seed=9))
        else:
            synthetic.rewrite(first, rows=lambda rows: rows[:-1])
    trust = analyse(plan)[1]
    assert trust["one_way"] == trust["without_reason"] == []


def test_a_clean_timing_that_was_repeated_alone_is_listed(plan):
    synthetic.remeasure(find(plan, "vllm", "B", repeat=2))
    assert named(analyse(plan)[1]["without_reason"]) == [("vllm", 2, 2)]


def test_a_timing_that_was_not_clean_had_its_reason(plan):
    entry = find(plan, "static", "B", repeat=2)
    synthetic.contend(entry)
    synthetic.remeasure(entry)
    assert analyse(plan)[1]["without_reason"] == []


def test_a_neighbour_that_was_not_clean_is_no_reason_to_repeat_a_clean_timing_alone(plan):
    synthetic.contend(find(plan, "static", "B", repeat=2))
    synthetic.remeasure(find(plan, "vllm", "B", repeat=2))
    assert named(analyse(plan)[1]["without_reason"]) == [("vllm", 2, 2)]


def test_a_whole_repeat_may_be_repeated_to_be_of_one_session(plan):
    one, two = (find(plan, engine, "B", repeat=2) for engine in ("static", "vllm"))
    synthetic.contend(one)
    synthetic.remeasure(one, hours=1)
    synthetic.remeasure(one, hours=1, run="third")
    synthetic.remeasure(two, hours=2, run="third")
    table, trust = analyse(plan)
    assert trust["without_reason"] == []
    assert set(table[table["counts"]]["verdict"]) == {"clean"}


def test_a_whole_repeat_that_was_clean_had_no_reason(plan):
    for engine in ("static", "vllm"):
        synthetic.remeasure(find(plan, engine, "B", repeat=2))
    assert named(analyse(plan)[1]["without_reason"]) == [("static", 2, 2), ("vllm", 2, 2)]


def test_tables_are_written_with_nulls_as_nulls(plan, tmp_path):
    Path(plan[0]["attempts"], "1.parquet").write_bytes(b"")
    made, summary = tables.make_tables(load(plan), plan)
    tables.write_all(made, summary, tmp_path / "tables", tmp_path / "summary.json")
    table = pd.read_parquet(tmp_path / "tables/attempts.parquet")
    assert table["tok_s"].isna().sum() == 1 and table["attempt"].dtype == "int64"
