"""Copies a result to `results/published/NAME/` without the names of machines and people.

Page and tables are not copied: they are made from the published timings, by the same scripts as
ever, so that everybody can make them again and compare.
"""

from __future__ import annotations

import getpass
import json
import math
import os
import platform
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fourcells import anonymous
from fourcells.anonymous import Machine, Names
from fourcells.files import attempts_in
from fourcells.published import (
    MAKE,
    PUBLISHED,
    RESULTS,
    SCRIPTS,
    SETTINGS,
    CannotPublish,
    Settings,
    in_place_of,
    make,
    make_tables,
    needed_reason,
    text_of,
    write_json,
)
from fourcells.schema import METADATA_KEY

# Keys of the plan's entries, and of their specs, whose values are words of the product.
WORDS = ("engine", "backend", "admission", "baseline", "workload", "compare_with", "set")
SPEC_WORDS = ("scale", "device", "dtype")
UNREADABLE = (pa.ArrowException, OSError, KeyError, TypeError, ValueError)


def check_name(name: str) -> None:
    """Raises CannotPublish unless the name is that of a plain folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise CannotPublish(
            f"NAME={name}: not a plain folder name (letters, digits, dots, dashes and underscores,"
            " a letter or digit first)"
        )


def publish(name: str, settings: Settings, force: bool = False) -> Path:
    """Publishes `results/` of the working folder as `results/published/NAME/`, whole or not at all.

    Args:
        force: replaces what was published under this name.

    Raises:
        CannotPublish: the name is taken or none, results are incomplete, not publishable or not
            what their timings give, or a name would stay in them.
    """
    check_name(name)
    target = PUBLISHED / name
    if target.exists() and not force:
        raise CannotPublish(f"{target} is there; FORCE=1 replaces it")
    text_of(RESULTS / "report.html")
    plan = json.loads(text_of(RESULTS / "plan.json"))
    summary = json.loads(text_of(RESULTS / "summary.json"))
    settings = replace(settings, reason=needed_reason(summary, settings.reason))
    check_fresh(summary, settings)
    files = list(_files(plan))
    names = _names(files, plan, settings)
    with in_place_of(target) as folder:
        for file in files:
            clean_file(Path(file), folder / _below(anonymous.clean(file, names)), names)
        write_json(folder / "plan.json", anonymous.clean(plan, names))
        write_json(folder / SETTINGS, anonymous.clean(asdict(settings), names))
        make(folder)
        left = list(names_left(folder, names))
        if left:
            raise CannotPublish("names would be published:\n  " + "\n  ".join(left))
    return target


def check_fresh(summary: Mapping, settings: Settings) -> None:
    """Raises CannotPublish if the summary is not what the planned timings give today: then the
    page that somebody looked at is not the one that would be published."""
    with tempfile.TemporaryDirectory() as work:
        make_tables(Path.cwd(), Path(work), settings)
        now = json.loads(text_of(Path(work, "summary.json")))
    if not alike(now, summary):
        raise CannotPublish(
            f"{RESULTS}/summary.json is not what timings, code and config give today;"
            f' run: {MAKE} ARGS="--forcerun tables"'
        )


def alike(one: Any, other: Any) -> bool:
    """Whether two JSON values agree; numbers up to the rounding of another processor."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    return one == other


def clean_file(source: Path, target: Path, names: Names) -> None:
    """A timing, its steps or an attempt without the names. A superseded attempt that cannot be
    read becomes an empty file, and so keeps its place in the history."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            table = file.read()
        metadata = anonymous.clean_metadata(_metadata(source), names)
    except UNREADABLE:
        target.touch()
        return
    document = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    table = anonymous.clean_table(table, names)
    table = table.replace_schema_metadata({METADATA_KEY: document.encode()})
    pq.write_table(table, target, compression="zstd", write_page_checksum=True)


def names_left(folder: Path, names: Names) -> Iterator[str]:
    """'FILE: NAME' for every name that is still in a published folder.

    The page is made of the tables, and its markup has words of its own: of what is in it only
    folders, sessions and boots are names for sure.
    """
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        found = anonymous.left_in(name, names)
        if file.suffix in (".json", ".csv"):
            found += anonymous.left_in(text_of(file), names)
        elif file.suffix == ".html":
            page = re.sub(r"base64,[A-Za-z0-9+/=]*", "", text_of(file))
            found += [word for word in anonymous.left_in(page, names) if word in names.words]
        elif file.suffix == ".parquet" and file.stat().st_size:
            table = pq.read_table(file)
            told = [(table.schema.metadata or {}).get(METADATA_KEY, b"").decode()]
            told += anonymous.text_columns(table)
            found += [left for text in told for left in anonymous.left_in(text, names)]
        yield from (f"{name}: {each}" for each in dict.fromkeys(found))


def _files(plan: Sequence[Mapping]) -> Iterator[str]:
    """What there is of the planned timings, their steps and their attempts.

    Raises:
        CannotPublish: a planned path leads out of the results.
    """
    for entry in plan:
        attempts = attempts_in(entry.get("attempts")).values()
        for file in (entry["path"], entry["steps"], *map(str, attempts)):
            _below(file)
            if Path(file).exists():
                yield file


def _below(path: str) -> Path:
    """results/timings/... -> timings/..."""
    parts = PurePosixPath(path).parts
    if parts[:1] != (RESULTS.name,) or ".." in parts:
        raise CannotPublish(f"{RESULTS}/plan.json: {path} is no path below {RESULTS}/")
    return Path(*parts[1:])


def _names(files: Iterable[str], plan: Sequence[Mapping], settings: Settings) -> Names:
    """All names in these files and of this machine."""
    metadata = []
    for file in files:
        with suppress(*UNREADABLE):
            metadata.append(_metadata(Path(file)))
    folders = [os.path.expanduser("~"), str(Path.cwd()), str(SCRIPTS)]
    here = Machine([platform.node()], list(_users()), folders)
    words = {entry.get(key) for entry in plan for key in WORDS}
    words |= {entry["spec"].get(key) for entry in plan for key in SPEC_WORDS}
    # a machine may be called as its GPU is
    parts = [str((m.get("provenance") or {}).get(key)) for m in metadata for key in ("cpu", "gpu")]
    words |= {word for part in set(parts) for word in re.findall(r"\w+", part)}
    kept = {word for word in words if isinstance(word, str)}
    return anonymous.gather(metadata, [plan, asdict(settings)], here, kept)


def _users() -> Iterator[str]:
    """Who runs this; nobody in a container that has no name for its user."""
    with suppress(KeyError, OSError):
        yield getpass.getuser()


def _metadata(file: Path) -> dict:
    return json.loads(pq.read_metadata(file).metadata[METADATA_KEY])
