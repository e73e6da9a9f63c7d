"""Reads the planned timings into two frames and checks them before anything is computed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fourcells.analysis.check import (
    BadTimings,
    Problem,
    hash_problems,
    row_problems,
    spec_problem,
)
from fourcells.schema import METADATA_KEY, STEPS, TIMING

METADATA = ("spec", "applied", "provenance", "verdict")
KEYS = ["engine", "workload", "slots", "repeat"]
PLAN_COLUMNS = [*KEYS, "backend", "admission", "baseline", "compare_with", "path"]
# Counts without gaps stay plain integers; `wave` is null under continuous admission, and an
# engine may not count the others.
_NULLABLE = ("wave", "cached_tokens", "preemptions")


@dataclass(frozen=True)
class Timings:
    """All timings that were found.

    Attributes:
        plan: one row per timing that was read, columns `PLAN_COLUMNS`, in `table_order`; its
            index 0, 1, ... is the column `timing` of the other frames.
        requests: one row per request, `timing` and the columns of `TIMING`.
        steps: one row per step, `timing` and the columns of `STEPS`.
        metadata: one JSON object per timing.
        missing: planned files that do not exist.
    """

    plan: pd.DataFrame
    requests: pd.DataFrame
    steps: pd.DataFrame
    metadata: list[dict]
    missing: list[str]


def load(plan: Sequence[Mapping]) -> Timings:
    """Read and check every planned timing that exists.

    Args:
        plan: entries with `engine, backend, admission, baseline, workload, compare_with, slots,
            repeat, path, steps, spec`.

    Raises:
        BadTimings: some file is damaged, was measured under another spec, is short of rows,
            tokens or times, or had another model or other prompts than those it is compared with.
        ValueError: a timing is planned twice, or no planned timing exists.
    """
    keys = [tuple(entry[key] for key in KEYS) for entry in plan]
    if len(set(keys)) != len(keys):
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise ValueError(f"planned twice (engine, workload, slots, repeat): {twice}")
    entries, metadata, missing, problems, requests, steps = [], [], [], [], [], []
    for entry in sorted(plan, key=table_order):
        try:
            table, meta = _read(entry["path"], TIMING)
            _require_spec(entry["spec"], meta)
        except FileNotFoundError:
            missing.append(entry["path"])
            continue
        except _Unusable as error:
            problems.append(Problem(entry["path"], entry["path"], str(error)))
            continue
        entries.append(entry)
        metadata.append(meta)
        requests.append(table)
        table = None
        try:
            table, step_meta = _read(entry["steps"], STEPS)
            _require_same_timing(meta, step_meta)
        except FileNotFoundError:
            missing.append(entry["steps"])
        except _Unusable as error:
            problems.append(Problem(entry["steps"], entry["path"], str(error)))
        steps.append(table)
    if not entries and not problems:
        raise ValueError(f"none of the {len(plan)} planned timings exists; run: snakemake -j1")

    frame = _stack(requests, TIMING)
    found = hash_problems(metadata)
    found.update(row_problems(frame, metadata))
    for timing in sorted(found):
        path = entries[timing]["path"]
        problems.append(Problem(path, path, found[timing]))
    if problems:
        raise BadTimings(problems)
    columns = pd.DataFrame([{c: entry[c] for c in PLAN_COLUMNS} for entry in entries])
    # An engine that is not told how to admit says in `applied` what it does as shipped.
    applied = pd.Series([meta["applied"].get("admission") for meta in metadata], dtype="str")
    columns["admission"] = columns["admission"].astype("str").fillna(applied)
    return Timings(
        # Text even where every value is null, so that frames and files keep their types.
        plan=columns.astype(dict.fromkeys(["baseline", "compare_with"], "str")),
        requests=frame,
        steps=_stack(steps, STEPS),
        metadata=metadata,
        missing=missing,
    )


def table_order(entry: Mapping) -> tuple:
    """Sorts baselines before what is compared with them, then by name, slots and repeat: a plan
    is in the order of measuring, which is shuffled."""
    return (entry["baseline"] is not None, *(entry[key] for key in KEYS))


class _Unusable(ValueError):
    """A file that exists and cannot be understood."""


def _read(path: str, schema: pa.Schema) -> tuple[pa.Table, dict]:
    """A file's rows in the given schema and its metadata."""
    try:
        # ParquetFile without threads: 0.15 ms for a file of this size, read_table takes four times
        # as long, and there may be ten thousand files.
        # Checksums, where the file has them, find bytes that changed on the disk.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read(use_threads=False)
            raw = file.metadata.metadata or {}
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0]
        raise _Unusable(f"it cannot be read, perhaps damaged ({reason})") from error
    try:
        meta = json.loads(raw[METADATA_KEY])
    except (KeyError, ValueError) as error:
        raise _Unusable(f"its metadata is not that of a timing ({error!r})") from error
    absent = [key for key in METADATA if key not in meta]
    if absent:
        raise _Unusable(f"its metadata lacks {', '.join(absent)}")
    absent = [name for name in schema.names if name not in table.column_names]
    if absent:
        raise _Unusable(f"it lacks the columns {', '.join(absent)}")
    try:
        # A column of nulls has a type of its own, and a nullable count may be stored as float.
        table = table.select(schema.names).replace_schema_metadata(None).cast(schema)
    except pa.ArrowException as error:
        raise _Unusable(f"a column has the wrong type ({error})") from error
    if table.num_rows == 0:
        raise _Unusable("it holds no rows")
    return table, meta


def _require_spec(planned: dict, meta: Mapping) -> None:
    what = spec_problem(planned, meta["spec"])
    if what:
        raise _Unusable(what)


def _require_same_timing(timing: Mapping, steps: Mapping) -> None:
    """Steps belong to the timing beside them: same spec, same attempt, same start."""
    if steps == timing:
        return
    _require_spec(timing["spec"], steps)
    for where, key in ((None, "attempt"), ("provenance", "started")):
        want, have = ((meta[where] if where else meta).get(key) for meta in (timing, steps))
        if want != have:
            raise _Unusable(f"its {key} is {have}, that of the timing beside it is {want}")


def _stack(tables: Sequence[pa.Table | None], schema: pa.Schema) -> pd.DataFrame:
    """All rows below each other, with the column `timing` in front."""
    present = [table for table in tables if table is not None]
    whole = pa.concat_tables(present) if present else schema.empty_table()
    lengths = [0 if table is None else table.num_rows for table in tables]
    frame = whole.to_pandas()
    for name in _NULLABLE:
        if name in frame:
            frame[name] = frame[name].astype("Int64")
    frame.insert(0, "timing", np.repeat(np.arange(len(tables), dtype="int64"), lengths))
    return frame
