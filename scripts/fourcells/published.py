"""A published folder: what is in it, and how everything that can be made is made from the rest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SCRIPTS = Path(__file__).resolve().parents[1]
RESULTS = Path("results")
PUBLISHED = RESULTS / "published"
# Beside the page: what publishing was told. With it the page can be made again.
SETTINGS = "published.json"
# Larger files of tables (requests.csv, as a rule) are left out: scripts/tables.py makes them.
LARGEST_TABLE = 1_000_000  # bytes
MAKE = "make report"


class CannotPublish(Exception):
    """Nothing was published; the text says why, and what to do."""


@dataclass(frozen=True)
class Settings:
    """What the config and the command say about a published page.

    Attributes:
        verdict: thresholds, as `tables.py --verdict` takes them.
        language: of the page.
        reason: why it is published although it is not publishable.
    """

    verdict: Mapping[str, float]
    language: str = "en"
    reason: str | None = None


def needed_reason(summary: Mapping, reason: str | None) -> str | None:
    """The reason to publish a result that is not publishable; None for one that is.

    Raises:
        CannotPublish: with everything that speaks against it, if there is no reason.
    """
    publishable = summary.get("publishable") or {}
    if publishable.get("value") is True:
        return None
    if not reason:
        against = "\n  ".join(publishable.get("reasons") or ["its summary does not say that it is"])
        raise CannotPublish(
            f"not publishable:\n  {against}\n"
            'To publish it all the same, say why: REASON="..."; the page will show it.'
        )
    return reason


def make(folder: Path) -> None:
    """Makes tables, summary and page of a published folder from its plan, timings and steps.

    Raises:
        CannotPublish: that fails, or the result is not publishable and nobody said why it is
            published.
    """
    settings = read_settings(folder)
    with tempfile.TemporaryDirectory() as work:
        # every path on the page is one of a checkout: results/timings/...
        Path(work, RESULTS).symlink_to(folder.resolve())
        make_tables(Path(work), RESULTS, settings)
        summary = json.loads(text_of(folder / "summary.json"))
        reason = needed_reason(summary, settings.reason)
        if reason:
            write_json(folder / "summary.json", summary | {"published": {"reason": reason}})
        page = ["--tables", RESULTS / "tables", "--summary", RESULTS / "summary.json"]
        page += ["--language", settings.language, "--output", RESULTS / "report.html"]
        _run(Path(work), "report.py", *page)
    for file in (folder / "tables").iterdir():
        if file.stat().st_size > LARGEST_TABLE:
            file.unlink()


def read_settings(folder: Path) -> Settings:
    """What a published folder was made with.

    Raises:
        CannotPublish: it is none.
    """
    try:
        return Settings(**json.loads((folder / SETTINGS).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise CannotPublish(f"{folder}: not made by `make publish` ({error})") from error


def made_in(folder: Path) -> dict[str, Path]:
    """The files of a published folder that `make` makes, by their path in it."""
    files = [folder / "report.html", folder / "summary.json", *folder.glob("tables/*")]
    return {str(file.relative_to(folder)): file for file in sorted(files) if file.is_file()}


def make_again(folder: Path, work: Path) -> Path:
    """A copy of a published folder, in `work`, in which everything that is made is made anew."""
    again = work / folder.name
    made = made_in(folder)
    for file in folder.rglob("*"):
        name = str(file.relative_to(folder))
        if file.is_file() and name not in made:
            (again / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, again / name)
    make(again)
    return again


def put(whole: Path, target: Path) -> None:
    """Lets a copy of a folder take the place of another, whole or not at all."""
    with in_place_of(target) as folder:
        shutil.copytree(whole, folder, dirs_exist_ok=True)


@contextmanager
def in_place_of(target: Path) -> Iterator[Path]:
    """An empty folder beside `target` that takes its place in the end; if anything fails, it is
    gone and `target` is as it was.

    Raises:
        CannotPublish: somebody else is at it.
    """
    folder, old = (target.with_name(f".{target.name}.{word}") for word in ("partial", "old"))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:
        raise CannotPublish(
            f"{folder} is there: another run is at it, or was killed; then run: rm -r {folder}"
        ) from None
    try:
        yield folder
        if target.exists():
            target.rename(old)
        folder.rename(target)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        for rest in (folder, old):
            shutil.rmtree(rest, ignore_errors=True)
        with suppress(OSError):
            target.parent.rmdir()  # only if nothing was ever published


def make_tables(base: Path, output: Path, settings: Settings) -> None:
    """Makes the tables and the summary of `base`/results in `output`."""
    made = ["--output-dir", output / "tables", "--summary", output / "summary.json"]
    verdict = json.dumps(settings.verdict)
    _run(base, "tables.py", "--plan", RESULTS / "plan.json", *made, "--verdict", verdict)


def _run(base: Path, script: str, *arguments: str | Path) -> None:
    """Runs one of the scripts in the folder `base`.

    Raises:
        CannotPublish: it fails; the text is what it says.
    """
    command = [sys.executable, SCRIPTS / script, *arguments]
    environment = os.environ | same_everywhere()
    done = subprocess.run(command, cwd=base, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise CannotPublish(f"{script} failed:\n{done.stderr.strip()}")


def same_everywhere() -> dict[str, str]:
    """Variables under which every x86 processor computes the same last digit: NumPy and OpenBLAS
    round otherwise with AVX than without, and with another number of threads."""
    known = np.show_config(mode="dicts")["SIMD Extensions"]
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(known.get("found", []) + known.get("not found", [])),
        "OPENBLAS_CORETYPE": "Nehalem",
        "OPENBLAS_NUM_THREADS": "1",
    }


def text_of(file: Path) -> str:
    """The text of a file of the results, or CannotPublish with the command that makes it."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CannotPublish(f"{file} is missing; run: {MAKE}") from None


def write_json(file: Path, value: Any) -> None:
    """Writes a value as tables.py writes the summary."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    file.write_text(text + "\n", encoding="utf-8")
