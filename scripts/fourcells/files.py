"""Files that are whole or not there, and the numbered files of a timing's attempts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, in a folder that is there; gone afterwards unless renamed.

    A job that is killed leaves no file that counts; what it leaves is removed by the next one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    name = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        yield name
    finally:
        name.unlink(missing_ok=True)


def to_disk(path: Path) -> None:
    """Waits until the content of a written file is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Lets `write` fill a temporary file beside `path`, then renames it: never half a file."""
    with temporary(path) as whole:
        write(whole)
        to_disk(whole)
        whole.replace(path)


def attempts_in(folder: Path | str | None) -> dict[int, Path]:
    """The attempts of a timing by number, ascending: NUMBER.parquet. Their steps lie beside them
    as NUMBER.steps.parquet."""
    files = Path(folder).glob("*.parquet") if folder else ()
    return dict(sorted((int(file.stem), file) for file in files if file.stem.isdigit()))


def _remove_leftovers(path: Path) -> None:
    """Temporary files of processes that were killed while they wrote."""
    for leftover in path.parent.glob(f"{path.name}.*.partial"):
        pid = leftover.suffixes[-2].removeprefix(".")
        if not (pid.isdigit() and _runs(int(pid))):
            leftover.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    """Whether there is such a process. Without psutil, which the analysis does not need."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it belongs to somebody else
    return True
