"""Pictures of a page for developers: wide, phone, dark and print, in both languages.

    python tests/browser/screenshots.py results/report.html FOLDER

Pictures are cut to the height of the window: FOLDER/wide-en-1.png and so on; FOLDER/print-en.pdf.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path

from chromium import Chromium, missing

WAYS = {
    "wide": {"viewport": {"width": 1280, "height": 1500}},
    "phone": {"viewport": {"width": 390, "height": 1500}},
    "dark": {"viewport": {"width": 1280, "height": 1500}, "colorScheme": "dark"},
    # A4 less the margins of the style
    "print": {"viewport": {"width": 673, "height": 952}},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    if command := missing():
        print(f"screenshots: install what is missing: {command}", file=sys.stderr)
        return 2
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = str(options.folder.resolve())
    with Chromium() as browser:
        for language, way in product(("en", "vi"), WAYS):
            given = {"folder": folder, "name": f"{way}-{language}", "print": way == "print"}
            shown = {"anchor": language, "context": WAYS[way]}
            print(*browser.look("photograph", options.page, **shown, **given), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
