"""The files behind the page: each table as CSV and the summary, embedded once."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

# A larger file stays beside the page: with all requests, the page would be too heavy to send.
MOST_BYTES = 1_000_000
KINDS = {".csv": "text/csv", ".json": "application/json"}


@dataclass(frozen=True)
class Download:
    """One file: its place in the run, its bytes, and a data address (none: it is not embedded)."""

    path: str
    size: int
    href: str = ""

    @property
    def name(self) -> str:
        """'ratios.csv'."""
        return self.path.rpartition("/")[2]

    @property
    def table(self) -> str:
        """'ratios'."""
        return self.name.partition(".")[0]


def downloads(tables: str | Path, summary: str | Path) -> list[Download]:
    """`tables`/NAME.csv by name, then the summary. What is not there is left out."""
    made = [_download(file, f"results/tables/{file.name}") for file in Path(tables).glob("*.csv")]
    made.sort(key=lambda each: each.name)
    if Path(summary).exists():
        made.append(_download(Path(summary), "results/summary.json"))
    return made


def _download(file: Path, path: str) -> Download:
    size = file.stat().st_size
    if size > MOST_BYTES:
        return Download(path, size)
    content = base64.b64encode(file.read_bytes()).decode("ascii")
    return Download(path, size, f"data:{KINDS[file.suffix]};base64,{content}")
