"""Timings on disk: parquet files that are either whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fourcells.engines import RequestRecord, StepRecord

METADATA_KEY = b"fourcells"

TIMING = pa.schema(
    [
        ("sample", pa.int32()),
        ("request", pa.int32()),
        ("prompt_tokens", pa.int32()),
        ("output_tokens", pa.int32()),
        ("produced_tokens", pa.int32()),
        ("arrival_s", pa.float64()),
        ("admitted_s", pa.float64()),
        ("first_token_s", pa.float64()),
        ("finished_s", pa.float64()),
        ("returned_s", pa.float64()),
        ("wave", pa.int32()),
        ("cached_tokens", pa.int32()),
        ("preemptions", pa.int32()),
    ]
)
STEPS = pa.schema(
    [
        ("sample", pa.int32()),
        ("step", pa.int32()),
        ("t_s", pa.float64()),
        ("rows", pa.int32()),
        ("useful_rows", pa.int32()),
        ("waiting", pa.int32()),
        ("tokens", pa.int32()),
        ("kv_used", pa.float64()),
        ("preempted", pa.int32()),
    ]
)


def write(
    path: Path,
    schema: pa.Schema,
    samples: Sequence[Sequence[RequestRecord] | Sequence[StepRecord]],
    metadata: Mapping[str, Any],
) -> None:
    """Writes the records of all samples under a temporary name, then renames the file.

    A job that is killed leaves no file that counts.
    """
    rows = [
        {"sample": number, **asdict(record)}
        for number, records in enumerate(samples, start=1)
        for record in records
    ]
    document = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    table = pa.Table.from_pylist(rows, schema.with_metadata({METADATA_KEY: document.encode()}))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with partial.open("wb") as file:
        # page checksums: a flipped byte is found when the file is read, not believed
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
