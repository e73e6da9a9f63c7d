"""Timings on disk: files that are either whole or not there, and the history of every attempt."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fourcells.engines import RequestRecord, StepRecord
from fourcells.files import attempts_in, temporary, to_disk
from fourcells.schema import METADATA_KEY, STEPS, TIMING
from fourcells.spec import first_difference
from fourcells.window import Timing


def save(timing: Timing, output: Path, steps: Path, attempts: Path | None) -> Path | None:
    """Keeps the attempt; if the work was as asked, it becomes the timing that counts.

    Args:
        timing: what was measured.
        output: the timing's file, replaced as a whole.
        steps: the file of its steps, replaced just after.
        attempts: folder of the timing's attempts, `NUMBER.parquet` and `NUMBER.steps.parquet`;
            None keeps none.

    Returns:
        The file of the attempt, or None.

    Raises:
        OSError: the disk is full or cannot be written; then nothing has been replaced.
    """
    before = attempts_in(attempts)
    last = _last_metadata(before, output)
    number = 1 + max([*before, last.get("attempt", 0) if last else 0])
    metadata = {**timing.metadata, "reason": _reason(last, timing.metadata["spec"])}
    request_lists = [served.requests for served in timing.windows]
    step_lists = [served.steps for served in timing.windows]
    kept = None
    while attempts and not kept:
        document = {**metadata, "attempt": number}
        kept = attempts / f"{number}.parquet"
        with (
            partial(kept, TIMING, request_lists, document) as whole,
            partial(
                attempts / f"{number}.steps.parquet", STEPS, step_lists, document
            ) as whole_steps,
        ):
            try:
                os.link(whole, kept)  # fails where the number is taken: it belongs to somebody else
                whole_steps.replace(attempts / f"{number}.steps.parquet")
            except FileExistsError:
                kept, number = None, number + 1
    if not timing.problem:
        document = {**metadata, "attempt": number}
        # both are whole on the disk before the first one is replaced
        with (
            partial(steps, STEPS, step_lists, document) as whole_steps,
            partial(output, TIMING, request_lists, document) as whole,
        ):
            whole.replace(output)
            whole_steps.replace(steps)
    return kept


@contextmanager
def partial(
    path: Path,
    schema: pa.Schema,
    samples: Sequence[Sequence[RequestRecord] | Sequence[StepRecord]],
    metadata: Mapping[str, Any],
) -> Iterator[Path]:
    """Writes the records of all samples whole, under a temporary name beside `path`.

    Args:
        path: the name that the file shall get.
        schema: `schema.TIMING` or `schema.STEPS`.
        samples: the records of each window.
        metadata: a JSON object, stored under `METADATA_KEY`.

    Yields:
        The temporary file, on the disk; it is gone afterwards, unless it was renamed.
    """
    rows = [
        {"sample": number, **asdict(record)}
        for number, records in enumerate(samples, start=1)
        for record in records
    ]
    document = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    table = pa.Table.from_pylist(rows, schema.with_metadata({METADATA_KEY: document.encode()}))
    with temporary(path) as whole:
        # page checksums: a flipped byte is found when the file is read, not believed
        with whole.open("wb") as file:
            pq.write_table(table, file, compression="zstd", write_page_checksum=True)
        to_disk(whole)
        yield whole


def _last_metadata(attempts: dict[int, Path], output: Path) -> dict[str, Any] | None:
    """Metadata of the attempt before this one; of the timing itself where no attempts are kept."""
    for file in [*reversed(attempts.values()), output]:
        try:
            return json.loads(pq.read_metadata(file).metadata[METADATA_KEY])
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            continue  # absent or damaged: the one before tells
    return None


def _reason(last: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> str:
    """Why this attempt was made, as far as the one before tells."""
    if last is None:
        return "first attempt"
    difference = first_difference(last["spec"], dict(spec))
    if difference:
        key, before, now = difference
        return f"the spec changed at {key}: {json.dumps(before)} to {json.dumps(now)}"
    return f"measured again; the attempt before was {', '.join(last['verdict'])}"
