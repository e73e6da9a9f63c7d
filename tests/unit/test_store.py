"""Timings on disk: whole or not there, with their evidence inside."""

import json
import os
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fourcells import schema, store
from fourcells.engines import RequestRecord, Served, StepRecord
from fourcells.window import Timing

METADATA = {"spec": {"engine": "tĩnh 😀", "slots": 16}, "applied": {"kv_blocks": None}, "n": 0.1}


def request(number, **changes):
    values = dict(
        request=number,
        prompt_tokens=5,
        output_tokens=2,
        produced_tokens=2,
        admitted_s=0.0,
        first_token_s=0.25,
        finished_s=0.5,
        returned_s=0.75,
    )
    return RequestRecord(**{**values, **changes})


def write(path, *content):
    """A whole file in its place."""
    with store.partial(path, *content) as whole:
        whole.replace(path)


def test_timing_reads_back_as_written(tmp_path):
    path = tmp_path / "deep/er/1.parquet"
    write(path, schema.TIMING, [[request(0, wave=1), request(1)], [request(0)]], METADATA)
    table = pq.read_table(path)
    assert table.schema.equals(schema.TIMING)
    assert json.loads(table.schema.metadata[b"fourcells"]) == METADATA
    assert table["sample"].to_pylist() == [1, 1, 2]
    assert table["request"].to_pylist() == [0, 1, 0]
    assert table.to_pylist()[0] == {
        "sample": 1,
        "request": 0,
        "prompt_tokens": 5,
        "output_tokens": 2,
        "produced_tokens": 2,
        "arrival_s": 0.0,
        "late_s": 0.0,
        "admitted_s": 0.0,
        "first_token_s": 0.25,
        "finished_s": 0.5,
        "returned_s": 0.75,
        "wave": 1,
        "cached_tokens": 0,
        "preemptions": 0,
    }


def test_wave_is_null_without_waves(tmp_path):
    write(tmp_path / "t", schema.TIMING, [[request(0), request(1)]], {})
    column = pq.read_table(tmp_path / "t")["wave"]
    assert column.to_pylist() == [None, None]
    assert pa.types.is_integer(column.type)


def test_steps_read_back_as_written(tmp_path):
    step = StepRecord(
        0, 0.5, rows=4, useful_rows=3, waiting=2, tokens=9, kv_used=0.25, preempted=1, kv_tokens=20
    )
    write(tmp_path / "s", schema.STEPS, [[step]], METADATA)
    table = pq.read_table(tmp_path / "s")
    assert table.schema.equals(schema.STEPS)
    assert table.to_pylist() == [
        {
            "sample": 1,
            "step": 0,
            "t_s": 0.5,
            "rows": 4,
            "useful_rows": 3,
            "waiting": 2,
            "tokens": 9,
            "kv_used": 0.25,
            "preempted": 1,
            "kv_tokens": 20,
        }
    ]


def test_no_temporary_file_stays_behind(tmp_path):
    write(tmp_path / "1.parquet", schema.TIMING, [[request(0)]], {})
    write(tmp_path / "1.parquet", schema.TIMING, [[request(0), request(1)]], {})
    assert [file.name for file in tmp_path.iterdir()] == ["1.parquet"]
    assert pq.read_table(tmp_path / "1.parquet").num_rows == 2


def disk_full(table, file, **kwargs):
    file.write(b"PAR1 and some more")
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("old", [True, False])
def test_failing_write_leaves_the_old_file_and_nothing_that_counts(tmp_path, monkeypatch, old):
    path = tmp_path / "1.parquet"
    if old:
        write(path, schema.TIMING, [[request(0)]], METADATA)
    monkeypatch.setattr(store.pq, "write_table", disk_full)
    with pytest.raises(OSError, match="No space left"):
        write(path, schema.TIMING, [[request(0), request(1)]], {})
    monkeypatch.undo()
    assert list(tmp_path.glob("*.parquet")) == ([path] if old else [])
    if old:
        assert pq.read_table(path).num_rows == 1
    # the next try is not disturbed
    write(path, schema.TIMING, [[request(0), request(1)]], {})
    assert pq.read_table(path).num_rows == 2


def test_file_is_safe_on_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    path, seen = tmp_path / "1.parquet", []
    fsync = store.os.fsync
    monkeypatch.setattr(store.os, "fsync", lambda fd: (seen.append(path.exists()), fsync(fd)))
    write(path, schema.TIMING, [[request(0)]], {})
    assert seen == [False]


def test_flipped_byte_gives_an_error_and_never_another_number(tmp_path):
    path = tmp_path / "1.parquet"
    records = [request(n, first_token_s=n / 7) for n in range(64)]
    write(path, schema.TIMING, [records], METADATA)
    data, table = path.read_bytes(), pq.read_table(path)
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    errors = 0
    for place in range(4, footer, 11):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        try:
            assert pq.read_table(path, page_checksum_verification=True).equals(table)
        except (OSError, pa.ArrowInvalid):
            errors += 1
    assert errors > 50


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_metadata_that_is_no_json_is_refused(tmp_path, bad):
    with pytest.raises(ValueError, match="JSON compliant"):
        write(tmp_path / "1.parquet", schema.TIMING, [[request(0)]], {"x": bad})
    assert list(tmp_path.iterdir()) == []


# --- attempts


def timing(problem=None, verdict="clean", **spec):
    served = Served(
        [request(0), request(1)], [StepRecord(0, 0.0, 2, 2, 0, 10, 0.5)], [[1, 2], [3, 4]]
    )
    metadata = {"spec": {"slots": 4, **spec}, "verdict": [verdict]}
    return Timing([served], metadata, problem)


@pytest.fixture
def save(tmp_path):
    """Saves a timing; returns the metadata of the attempt."""

    def call(timing, attempts=True):
        kept = store.save(
            timing,
            tmp_path / "t.parquet",
            tmp_path / "s.parquet",
            tmp_path / "attempts" if attempts else None,
        )
        return metadata(kept) if kept else None

    return call


def metadata(path):
    return json.loads(pq.read_metadata(path).metadata[b"fourcells"])


def names(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*.*"))


def test_every_attempt_is_kept_and_the_last_one_counts(save, tmp_path):
    first, second = save(timing()), save(timing())
    assert (first["attempt"], first["reason"]) == (1, "first attempt")
    assert (second["attempt"], second["reason"]) == (
        2,
        "measured again; the attempt before was clean",
    )
    assert names(tmp_path) == [
        "attempts/1.parquet",
        "attempts/1.steps.parquet",
        "attempts/2.parquet",
        "attempts/2.steps.parquet",
        "s.parquet",
        "t.parquet",
    ]
    assert metadata(tmp_path / "t.parquet") == metadata(tmp_path / "s.parquet") == second


def test_attempt_after_a_changed_spec_says_what_changed(save):
    save(timing(seed=1))
    assert save(timing(seed=2))["reason"] == "the spec changed at seed: 1 to 2"


def test_tenth_attempt_is_not_taken_for_the_second(save):
    assert [save(timing())["attempt"] for _ in range(11)] == list(range(1, 12))


def test_attempt_of_other_work_replaces_nothing(save, tmp_path):
    save(timing())
    failed = save(timing(problem="request 0 produced 1 tokens, not 2", verdict="short_output"))
    assert failed["attempt"] == 2
    assert metadata(tmp_path / "t.parquet")["attempt"] == 1
    assert metadata(tmp_path / "s.parquet")["attempt"] == 1
    assert save(timing())["reason"] == "measured again; the attempt before was short_output"


def test_attempts_are_counted_without_their_folder(save, tmp_path):
    for number in (1, 2):
        assert save(timing(), attempts=False) is None
        assert metadata(tmp_path / "t.parquet")["attempt"] == number
    assert names(tmp_path) == ["s.parquet", "t.parquet"]


def test_damaged_attempt_keeps_its_steps(save, tmp_path):
    """Nobody else's files are replaced: the steps of an attempt belong to its number."""
    save(timing())
    steps = tmp_path / "attempts/1.steps.parquet"
    before = steps.read_bytes()
    for damaged in ("attempts/1.parquet", "t.parquet"):
        (tmp_path / damaged).write_bytes(b"")
    assert save(timing(seed=9))["attempt"] == 2
    assert steps.read_bytes() == before


def test_steps_are_not_replaced_when_the_timing_cannot_be(save, tmp_path, monkeypatch):
    save(timing())
    partial = store.partial

    def full(path, *content):
        if path.name == "t.parquet":
            raise OSError(28, "No space left on device")
        return partial(path, *content)

    monkeypatch.setattr(store, "partial", full)
    with pytest.raises(OSError, match="No space"):
        save(timing(seed=2))
    assert metadata(tmp_path / "t.parquet")["attempt"] == 1
    assert metadata(tmp_path / "s.parquet")["attempt"] == 1


def test_leftovers_of_killed_processes_are_removed(save, tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    gone = tmp_path / f"t.parquet.{ended.pid}.partial"
    running = tmp_path / f"t.parquet.{os.getppid()}.partial"
    for file in (gone, running):
        file.write_text("half")
    save(timing())
    assert not gone.exists()
    assert running.exists()
