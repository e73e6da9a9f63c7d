"""Make the report: one HTML file that opens offline, from the tables and the summary."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from fourcells.report.data import load
from fourcells.report.page import render
from fourcells.report.write import write_whole


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 0 when the page is written, 2 when its input is not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tables", required=True, metavar="DIR", help="folder of the tables (NAME.parquet)"
    )
    parser.add_argument("--summary", required=True, metavar="FILE", help="summary.json")
    parser.add_argument(
        "--output",
        default="results/report.html",
        metavar="FILE",
        help="the page (default: %(default)s)",
    )
    options = parser.parse_args(argv)
    try:
        data = load(options.tables, options.summary)
    except FileNotFoundError as error:
        print(f"report: {error}", file=sys.stderr)
        return 2
    write_whole(options.output, render(data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
