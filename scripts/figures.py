"""Write the page's figures as SVG files, NAME.svg, each with its caption beside it, NAME.rst."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fourcells.files import write_whole
from fourcells.report import standalone
from fourcells.report.catalogue import LANGUAGES, speaking
from fourcells.report.data import load
from fourcells.report.sections import sections


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 0 when all figures are written, 2 when their input is not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tables", required=True, metavar="DIR", help="folder of the tables (NAME.parquet)"
    )
    parser.add_argument("--summary", required=True, metavar="FILE", help="summary.json")
    parser.add_argument(
        "--output-dir",
        type=Path,
        default=Path("results/figures"),
        metavar="DIR",
        help="folder of the figures (default: %(default)s)",
    )
    parser.add_argument(
        "--language", choices=LANGUAGES, default="en", help="of their words (default: %(default)s)"
    )
    options = parser.parse_args(argv)
    try:
        data = load(options.tables, options.summary)
    except FileNotFoundError as error:
        print(f"figures: {error}", file=sys.stderr)
        return 2
    with speaking(options.language):
        made = standalone.figures(sections(data))
    write_all(made, options.output_dir)
    return 0


def write_all(made: Sequence[standalone.Figure], folder: Path) -> None:
    """Write every figure and its caption; those of an earlier run that are no more are removed."""
    texts = {f"{figure.name}.svg": standalone.document(figure) for figure in made}
    texts |= {f"{figure.name}.rst": standalone.caption(figure) for figure in made}
    for kind in ("svg", "rst"):
        for old in folder.glob(f"*.{kind}"):
            if old.name not in texts:
                old.unlink()
    for name, text in texts.items():
        write_whole(folder / name, lambda file, text=text: file.write_text(text, encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
