"""Timings on disk: whole or not there, with their evidence inside."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fourcells import schema, store
from fourcells.engines import RequestRecord, StepRecord

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


def test_timing_reads_back_as_written(tmp_path):
    path = tmp_path / "deep/er/1.parquet"
    store.write(path, schema.TIMING, [[request(0, wave=1), request(1)], [request(0)]], METADATA)
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
        "admitted_s": 0.0,
        "first_token_s": 0.25,
        "finished_s": 0.5,
        "returned_s": 0.75,
        "wave": 1,
        "cached_tokens": 0,
        "preemptions": 0,
    }


def test_wave_is_null_without_waves(tmp_path):
    store.write(tmp_path / "t", schema.TIMING, [[request(0), request(1)]], {})
    column = pq.read_table(tmp_path / "t")["wave"]
    assert column.to_pylist() == [None, None]
    assert pa.types.is_integer(column.type)


def test_steps_read_back_as_written(tmp_path):
    step = StepRecord(0, 0.5, rows=4, useful_rows=3, waiting=2, tokens=9, kv_used=0.25, preempted=1)
    store.write(tmp_path / "s", schema.STEPS, [[step]], METADATA)
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
        }
    ]


def test_no_temporary_file_stays_behind(tmp_path):
    store.write(tmp_path / "1.parquet", schema.TIMING, [[request(0)]], {})
    store.write(tmp_path / "1.parquet", schema.TIMING, [[request(0), request(1)]], {})
    assert [file.name for file in tmp_path.iterdir()] == ["1.parquet"]
    assert pq.read_table(tmp_path / "1.parquet").num_rows == 2


def disk_full(table, file, **kwargs):
    file.write(b"PAR1 and some more")
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("old", [True, False])
def test_failing_write_leaves_the_old_file_and_nothing_that_counts(tmp_path, monkeypatch, old):
    path = tmp_path / "1.parquet"
    if old:
        store.write(path, schema.TIMING, [[request(0)]], METADATA)
    monkeypatch.setattr(store.pq, "write_table", disk_full)
    with pytest.raises(OSError, match="No space left"):
        store.write(path, schema.TIMING, [[request(0), request(1)]], {})
    monkeypatch.undo()
    assert list(tmp_path.glob("*.parquet")) == ([path] if old else [])
    if old:
        assert pq.read_table(path).num_rows == 1
    # the next try is not disturbed
    store.write(path, schema.TIMING, [[request(0), request(1)]], {})
    assert pq.read_table(path).num_rows == 2


def test_file_is_safe_on_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    path, seen = tmp_path / "1.parquet", []
    fsync = store.os.fsync
    monkeypatch.setattr(store.os, "fsync", lambda fd: (seen.append(path.exists()), fsync(fd)))
    store.write(path, schema.TIMING, [[request(0)]], {})
    assert seen == [False]


def test_flipped_byte_is_found_when_the_file_is_read(tmp_path):
    path = tmp_path / "1.parquet"
    store.write(path, schema.TIMING, [[request(n) for n in range(64)]], METADATA)
    whole = path.read_bytes()
    start = pq.ParquetFile(path).metadata.row_group(0).column(6).data_page_offset
    path.write_bytes(whole[: start + 40] + bytes([whole[start + 40] ^ 1]) + whole[start + 41 :])
    with pytest.raises(OSError):
        pq.read_table(path, page_checksum_verification=True)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_metadata_that_is_no_json_is_refused(tmp_path, bad):
    with pytest.raises(ValueError, match="JSON compliant"):
        store.write(tmp_path / "1.parquet", schema.TIMING, [[request(0)]], {"x": bad})
    assert list(tmp_path.iterdir()) == []
