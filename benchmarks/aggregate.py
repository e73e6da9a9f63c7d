"""How long the tables take for many timings, and how much memory.

Writes synthetic timings of 64 requests each, with their steps, into a temporary folder, runs
scripts/tables.py on them as a process of its own, and compares with the limits: 60 s and 2 GiB on
two cores for 10,000 timings. Exit code 1 if a limit is passed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from side_by_side import ROOT

sys.path.insert(0, str(ROOT / "tests" / "unit"))

import synthetic

from fourcells.schema import METADATA_KEY, STEPS, TIMING

SECONDS, GIB = 60.0, 2.0
NOISE = 0.03  # standard deviation of the log of a timing's speed


def served() -> dict[tuple, tuple[pa.Table, pa.Table]]:
    """Requests and steps of one window of every cell, without noise."""
    made = {}
    for cell in synthetic.CELLS:
        engine, workload, slots = cell
        admission = synthetic.ENGINES[engine]["options"].get("admission", "continuous")
        step = synthetic.STEP_TIMES[engine]
        rows, steps = synthetic.serve(synthetic.DEMO[workload], slots, admission, *step)
        made[cell] = (
            pa.Table.from_pylist(rows, schema=TIMING),
            pa.Table.from_pylist(steps, schema=STEPS),
        )
    return made


def slower(table: pa.Table, factor: float) -> pa.Table:
    """The table with every time multiplied."""
    for at, name in enumerate(table.column_names):
        if name.endswith("_s"):
            table = table.set_column(at, name, pc.multiply(table[name], factor))
    return table


def write(path: Path, table: pa.Table, metadata: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        table.replace_schema_metadata({METADATA_KEY: metadata}), path, write_page_checksum=True
    )


def write_timings(folder: Path, count: int) -> Iterator[Mapping]:
    """Writes that many timings, repeat by repeat, each with steps and one attempt; their plan.

    A cell is simulated once and its times are scaled: synthetic.write_timings, which simulates
    each timing anew, would take longer than what is measured here.
    """
    cells, rng, started = served(), random.Random(1), synthetic.START
    for number in range(count):
        repeat, place = divmod(number, len(cells))
        cell, (requests, steps) = list(cells.items())[place]
        engine, workload, slots = cell
        spec = synthetic.make_spec(engine, workload, slots, repeat + 1, synthetic.DEMO[workload])
        factor = rng.lognormvariate(0.0, NOISE)
        rows = slower(requests, factor)
        window = pc.max(rows["returned_s"]).as_py()
        metadata = json.dumps(synthetic.make_metadata(spec, [window], started)).encode()
        started += timedelta(seconds=window + 8.3)
        name = f"{engine}/{workload}/slots{slots}/{repeat + 1}"
        timing, step_file = (folder / f"{kind}/{name}.parquet" for kind in ("timings", "steps"))
        attempt = folder / "attempts" / name / "1.parquet"
        write(timing, rows, metadata)
        write(step_file, slower(steps, factor), metadata)
        attempt.parent.mkdir(parents=True)
        os.link(timing, attempt)
        yield {
            "engine": engine,
            "backend": spec["backend"],
            "admission": spec["options"].get("admission"),
            "baseline": synthetic.ENGINES[engine]["baseline"],
            "workload": workload,
            "compare_with": "A" if workload == "B" else None,
            "slots": slots,
            "repeat": repeat + 1,
            "path": str(timing),
            "steps": str(step_file),
            "attempts": str(attempt.parent),
            "spec": spec,
        }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timings", type=int, default=10_000, help="how many (default: 10,000)")
    args = parser.parse_args(argv)
    if args.timings < 1:
        parser.error("--timings is above zero")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        begun = time.monotonic()
        plan = folder / "plan.json"
        plan.write_text(json.dumps(list(write_timings(folder, args.timings))))
        print(f"{args.timings:,} timings written in {time.monotonic() - begun:.1f} s")
        command = [sys.executable, str(ROOT / "scripts" / "tables.py"), "--plan", str(plan)]
        command += ["--output-dir", str(folder / "tables")]
        command += ["--summary", str(folder / "summary.json")]
        begun = time.monotonic()
        code = subprocess.run(command).returncode
        seconds = time.monotonic() - begun
    if code:
        print(f"tables.py failed with exit code {code}", file=sys.stderr)
        return code
    # tables.py is the only child; Linux counts in KiB
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    within = seconds <= SECONDS and peak <= GIB
    print(
        f"tables of {args.timings:,} timings x 64 requests: {seconds:.1f} s, peak {peak:.2f} GiB,"
        f" {math.ceil(1e6 * seconds / args.timings):,} \u00b5s each:"
        f" {'within' if within else 'NOT within'} {SECONDS:.0f} s and {GIB:.0f} GiB"
    )
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
