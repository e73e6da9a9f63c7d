"""Makes every published page and its tables again from the published timings, and compares: each
file must be the same, byte for byte. Changes nothing, unless told with --update to replace what
differs.

Exit codes: 0 all are the same (or replaced), 1 some differ, 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import pandas as pd

from fourcells.published import PUBLISHED, CannotPublish, made_in, make_again, put

# Characters of a line that are shown around the first that differs.
SHOWN = 60


def differences(published: Path, again: Path) -> Iterator[str]:
    """A line for every file that is not the same in both folders."""
    old, new = made_in(published), made_in(again)
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield f"{name}: is published, and not made any more"
        elif name not in old:
            yield f"{name}: is made, and not published"
        elif old[name].read_bytes() != new[name].read_bytes():
            told = frames if name.endswith(".parquet") else lines
            yield f"{name}: {told(old[name], new[name])}"


def lines(old: Path, new: Path) -> str:
    """How many lines of two texts differ, and the first."""
    texts = [file.read_text(encoding="utf-8").split("\n") for file in (old, new)]
    pairs = list(zip_longest(*texts, fillvalue=""))
    differ = [number for number, (one, other) in enumerate(pairs, start=1) if one != other]
    one, other = pairs[differ[0] - 1]
    at = next((i for i, (a, b) in enumerate(zip_longest(one, other)) if a != b), 0)
    around = slice(max(0, at - SHOWN), at + SHOWN)
    return (
        f"{len(differ)} of {len(pairs)} lines differ, the first is line {differ[0]}\n"
        f"    published: {one[around]}\n    made now:  {other[around]}"
    )


def frames(old: Path, new: Path) -> str:
    """What differs in two tables; the same rows may have been written by another library."""
    one, other = pd.read_parquet(old), pd.read_parquet(new)
    if one.equals(other):
        return "the same rows in other bytes: another version of pandas or pyarrow wrote them"
    if one.shape != other.shape or list(one) != list(other):
        return "{} rows of {} columns, made now: {} rows of {}".format(*one.shape, *other.shape)
    differ = [name for name in one if not one[name].equals(other[name])]
    return f"other values in {', '.join(differ)}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help="replace what differs")
    options = parser.parse_args(argv)
    folders = sorted(folder for folder in PUBLISHED.glob("[!.]*") if folder.is_dir())
    if not folders:
        print(f"nothing in {PUBLISHED} yet; make publish NAME=... puts something there")
    wrong = 0
    for folder in folders:
        with tempfile.TemporaryDirectory() as work:
            try:
                again = make_again(folder, Path(work))
                found = list(differences(folder, again))
                if found and options.update:
                    put(again, folder)
            except CannotPublish as error:
                found, again = [str(error)], None
        if not found:
            print(f"{folder.name}: page and tables are what its timings give")
            continue
        updated = options.update and again is not None
        wrong += not updated
        print(f"{folder.name}: {'replaced' if updated else 'not what its timings give'}")
        print("\n".join(f"  {line}" for line in found))
    if wrong:
        print("Was the code meant to change them? Then: make published FORCE=1", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
