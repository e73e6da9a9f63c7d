"""Make the report: one HTML file that opens offline, from the tables and the summary."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fourcells.files import write_whole
from fourcells.report.catalogue import LANGUAGES
from fourcells.report.data import load
from fourcells.report.downloads import downloads
from fourcells.report.page import render


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 0 when the page is written, 2 when its input is not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tables",
        required=True,
        metavar="DIR",
        help="folder of the tables (NAME.parquet, and NAME.csv to put into the page)",
    )
    parser.add_argument("--summary", required=True, metavar="FILE", help="summary.json")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results/report.html"),
        metavar="FILE",
        help="the page (default: %(default)s)",
    )
    parser.add_argument(
        "--language",
        choices=LANGUAGES,
        default="en",
        help="language that the page opens in; the others are in it too (default: %(default)s)",
    )
    options = parser.parse_args(argv)
    try:
        data = load(options.tables, options.summary)
    except FileNotFoundError as error:
        print(f"report: {error}", file=sys.stderr)
        return 2
    page = render(data, options.language, downloads(options.tables, options.summary))
    write_whole(options.output, lambda file: file.write_text(page, encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
