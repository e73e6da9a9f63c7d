"""Reads the planned timings into two frames and checks them before anything is computed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fourcells.analysis import lesson
from fourcells.analysis.check import (
    BadTimings,
    Problem,
    hash_problems,
    identity_problem,
    row_problems,
    spec_problem,
    stale_key,
)
from fourcells.analysis.machines import paired_groups, planned_group
from fourcells.schema import ADDED, METADATA_KEY, STEPS, TIMING
from fourcells.spec import MAIN

METADATA = ("spec", "applied", "provenance", "verdict")
KEYS = ["engine", "workload", "slots", "repeat"]
PLAN_COLUMNS = [*KEYS, "backend", "admission", "baseline", "compare_with", "path"]
# Counts without gaps stay plain integers; `wave` is null under continuous admission, and an
# engine may not count the others.
_NULLABLE = ("wave", "cached_tokens", "preemptions", "kv_tokens")


@dataclass(frozen=True)
class Timings:
    """All timings that were found.

    Attributes:
        plan: one row per timing that was read, columns `PLAN_COLUMNS`, `set`, `lesson_engine` (the
            lesson's engine that this one stands beside, null for most), in `table_order`; its
            index 0, 1, ... is the column `timing` of the other frames.
        requests: one row per request, `timing` and the columns of `TIMING`.
        steps: one row per step, `timing` and the columns of `STEPS`.
        metadata: one JSON object per timing.
        stale: per timing the first key of its spec that the config no longer asks for so; None
            where it is the planned one. A stale timing is shown, and enters no figure.
        missing: planned files that do not exist.
    """

    plan: pd.DataFrame
    requests: pd.DataFrame
    steps: pd.DataFrame
    metadata: list[dict]
    stale: list[str | None]
    missing: list[str]

    def counted(self) -> Timings:
        """The timings that are not stale: those that figures are made of."""
        if not any(self.stale):
            return self
        keep = [timing for timing, key in enumerate(self.stale) if key is None]
        place = {timing: new for new, timing in enumerate(keep)}

        def kept(frame: pd.DataFrame) -> pd.DataFrame:
            rows = frame[frame["timing"].isin(keep)].reset_index(drop=True)
            return rows.assign(timing=rows["timing"].map(place).astype("int64"))

        return replace(
            self,
            plan=self.plan.iloc[keep].reset_index(drop=True),
            requests=kept(self.requests),
            steps=kept(self.steps),
            metadata=[self.metadata[timing] for timing in keep],
            stale=[None] * len(keep),
        )


def load(plan: Sequence[Mapping]) -> Timings:
    """Read and check every planned timing that exists.

    Args:
        plan: entries with `engine, backend, admission, baseline, workload, compare_with, slots,
            repeat, path, steps, spec`.

    Raises:
        BadTimings: some file is damaged, is that of another timing, is short of rows, tokens or
            times, or had another model or other prompts than those it is compared with.
        ValueError: a timing is planned twice, or no planned timing exists.
    """
    keys = [tuple(entry[key] for key in KEYS) for entry in plan]
    if len(set(keys)) != len(keys):
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise ValueError(f"planned twice (engine, workload, slots, repeat): {twice}")
    entries, metadata, stale, missing, problems, requests, steps = ([] for _ in range(7))
    for entry in sorted(plan, key=table_order):
        try:
            table, meta = read(entry["path"], TIMING)
            _require(identity_problem(entry["spec"], meta["spec"]))
        except FileNotFoundError:
            missing.append(entry["path"])
            continue
        except Unusable as error:
            problems.append(Problem(entry["path"], entry["path"], str(error)))
            continue
        entries.append(entry)
        metadata.append(meta)
        stale.append(stale_key(entry["spec"], meta))
        requests.append(table)
        table = None
        try:
            table, step_meta = read(entry["steps"], STEPS)
            _require_same_timing(meta, step_meta)
        except FileNotFoundError:
            missing.append(entry["steps"])
        except Unusable as error:
            problems.append(Problem(entry["steps"], entry["path"], str(error)))
        steps.append(table)
    if not entries and not problems:
        raise ValueError(f"none of the {len(plan)} planned timings exists; run: snakemake -j1")

    frame = stack(requests, TIMING)
    # Other prompts or another model are what a stale timing may well have.
    found = hash_problems({i: meta for i, meta in enumerate(metadata) if stale[i] is None})
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
    columns["set"] = [entry.get("set", MAIN) for entry in entries]
    # Beside the lesson's engines stand those that are compared, and no variant of them.
    paired = paired_groups(plan)
    columns["lesson_engine"] = [
        lesson.engine(entry["backend"], admission) if planned_group(entry) in paired else None
        for entry, admission in zip(entries, columns["admission"], strict=True)
    ]
    return Timings(
        # Text even where every value is null, so that frames and files keep their types.
        plan=columns.astype(dict.fromkeys(["baseline", "compare_with", "lesson_engine"], "str")),
        requests=frame,
        steps=stack(steps, STEPS),
        metadata=metadata,
        stale=stale,
        missing=missing,
    )


def table_order(entry: Mapping) -> tuple:
    """Sorts by backend, then by name, workload, slots and repeat: a plan is in the order of
    measuring, which is shuffled."""
    return tuple(entry[key] for key in ("backend", *KEYS))


class Unusable(ValueError):
    """A file that exists and cannot be understood."""


def read(path: str, schema: pa.Schema) -> tuple[pa.Table, dict]:
    """A file's rows in the given schema and its metadata.

    Raises:
        FileNotFoundError: there is no such file.
        Unusable: there is one, and it cannot be understood; the text says why.
    """
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
        raise Unusable(f"it cannot be read, perhaps damaged ({reason})") from error
    try:
        meta = json.loads(raw[METADATA_KEY])
    except (KeyError, ValueError) as error:
        raise Unusable(f"its metadata is not that of a timing ({error!r})") from error
    absent = [key for key in METADATA if key not in meta]
    if absent:
        raise Unusable(f"its metadata lacks {', '.join(absent)}")
    for name in set(ADDED) & set(schema.names) - set(table.column_names):
        table = table.append_column(name, pa.array([ADDED[name]] * len(table)))
    absent = [name for name in schema.names if name not in table.column_names]
    if absent:
        raise Unusable(f"it lacks the columns {', '.join(absent)}")
    try:
        # A column of nulls has a type of its own, and a nullable count may be stored as float.
        table = table.select(schema.names).replace_schema_metadata(None).cast(schema)
    except pa.ArrowException as error:
        raise Unusable(f"a column has the wrong type ({error})") from error
    if table.num_rows == 0:
        raise Unusable("it holds no rows")
    return table, meta


def _require(problem: str | None) -> None:
    if problem:
        raise Unusable(problem)


def _require_same_timing(timing: Mapping, steps: Mapping) -> None:
    """Steps belong to the timing beside them: same spec, same attempt, same start."""
    if steps == timing:
        return
    _require(spec_problem(timing["spec"], steps["spec"]))
    for where, key in ((None, "attempt"), ("provenance", "started")):
        want, have = ((meta[where] if where else meta).get(key) for meta in (timing, steps))
        if want != have:
            raise Unusable(f"its {key} is {have}, that of the timing beside it is {want}")


def stack(tables: Sequence[pa.Table | None], schema: pa.Schema) -> pd.DataFrame:
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
