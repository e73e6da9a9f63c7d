"""Writes every table and the summary from the timings of a plan.

    python scripts/tables.py --plan plan.json --output-dir results/tables \
        --summary results/summary.json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from fourcells.analysis.idle import idle_table
from fourcells.analysis.kv import kv_table
from fourcells.analysis.latency import latency_table
from fourcells.analysis.load import Timings, load
from fourcells.analysis.ratios import ratios_table
from fourcells.analysis.requests import requests_table
from fourcells.analysis.summary import summarise
from fourcells.analysis.throughput import throughput_table
from fourcells.analysis.timings import timings_table


def make_tables(timings: Timings) -> tuple[dict[str, pd.DataFrame], dict]:
    """All tables by name, and the summary."""
    requests = requests_table(timings)
    throughput = throughput_table(timings)
    tables = {
        "requests": requests,
        "timings": timings_table(timings),
        "throughput": throughput,
        "ratios": ratios_table(timings, throughput),
        "latency": latency_table(timings, requests),
        "idle": idle_table(timings),
        "kv": kv_table(timings),
    }
    return tables, summarise(timings, throughput, tables["ratios"], tables["kv"])


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it: never half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_all(tables: dict[str, pd.DataFrame], summary: dict, folder: Path, json_path: Path):
    """Each table as NAME.parquet and NAME.csv (nulls are empty), and the summary as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    json_path.parent.mkdir(parents=True, exist_ok=True)
    # allow_nan=False: a NaN would make the file no JSON at all.
    text = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    for name, table in tables.items():
        write_whole(folder / f"{name}.parquet", lambda p, t=table: t.to_parquet(p, index=False))
        write_whole(folder / f"{name}.csv", lambda p, t=table: t.to_csv(p, index=False))
    write_whole(json_path, lambda p: p.write_text(text, encoding="utf-8"))


def read_plan(text: str) -> list[dict]:
    """The plan from JSON itself or from the file that the text names."""
    inline = text.lstrip().startswith("[")
    return json.loads(text if inline else Path(text).read_text(encoding="utf-8"))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Write the tables and the summary from the timings of a plan."
    )
    parser.add_argument(
        "--plan",
        required=True,
        metavar="FILE_OR_JSON",
        help="the planned timings: a JSON list, or the file that holds it",
    )
    parser.add_argument("--output-dir", type=Path, default=Path("results/tables"), metavar="DIR")
    parser.add_argument("--summary", type=Path, default=Path("results/summary.json"))
    args = parser.parse_args(argv)
    try:
        timings = load(read_plan(args.plan))
    except (OSError, ValueError) as error:
        print(f"tables: {error}", file=sys.stderr)
        return 1
    tables, summary = make_tables(timings)
    write_all(tables, summary, args.output_dir, args.summary)
    for path in timings.missing:
        print(f"missing: {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
