"""Publishes the page, tables, summary, plan and timings of `results/` as results/published/NAME/,
without names of machines and people and without absolute paths. Measures nothing.

Exit codes: 0 published, 2 not published (and why), 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from precise import read_config

from fourcells.publish import publish
from fourcells.published import LARGEST_TABLE, CannotPublish, Settings, read_settings


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--name", default="", help="folder below results/published")
    add("--reason", default="", help="why a result is published that is not publishable")
    add("--force", action="store_true", help="replace what was published under this name")
    add("--config", nargs="+", default=[], metavar="KEY=VALUE", help="as given to Snakemake")
    options = parser.parse_args(argv)
    if not options.name:
        print('usage: make publish NAME=h200 [REASON="..."] [FORCE=1]', file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        config = read_config(options.config)
        reason = " ".join(options.reason.split()) or None
        settings = Settings(config.get("verdict", {}), config.get("language", "en"), reason)
        folder = publish(options.name, settings, options.force)
    except (CannotPublish, OSError, ValueError) as error:
        print(f"publish: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\npublish: stopped; nothing was published", file=sys.stderr)
        return 130
    files = [file for file in folder.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files) / 1e6
    print(f"published: {folder}/report.html and {len(files) - 1} files ({size:.1f} MB)")
    names = {file.name for file in files}
    large = sorted(f.name for f in Path("results/tables").iterdir() if f.name not in names)
    if large:
        print(f"left out, larger than {LARGEST_TABLE / 1e6:g} MB: {', '.join(large)}")
    if reason and read_settings(folder).reason is None:
        print("REASON is not on the page: the result is publishable without one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
