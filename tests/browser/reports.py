"""Pages of synthetic timings, made as the workflow makes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import report
import synthetic
import tables
import test_kv_reservations as limited
from test_analysis_arrivals import WORKLOADS

from fourcells.analysis.reservation_timeline import reservation_timeline_table
from fourcells.analysis.reservation_waits import reservation_waits_table
from fourcells.analysis.reservations import reservations_table


@dataclass(frozen=True)
class Report:
    """A page, and the files that it is made from by name: ratios.csv, summary.json, ..."""

    page: Path
    files: dict[str, Path]


def make_report(folder: Path, plan: list[dict], language: str = "en", kv: bool = False) -> Report:
    """The report of a plan's timings in `folder`; with `kv` also of a limited KV cache."""
    planned, made, summary = folder / "plan.json", folder / "tables", folder / "summary.json"
    planned.write_text(json.dumps(plan))
    given = ["--output-dir", str(made), "--summary", str(summary)]
    assert tables.main(["--plan", str(planned), *given]) == 0
    if kv:
        add_limited_kv(made)
    page = folder / "report.html"
    given = ["--tables", str(made), "--summary", str(summary), "--language", language]
    assert report.main([*given, "--output", str(page)]) == 0
    return Report(page, {path.name: path for path in [*made.iterdir(), summary]})


def add_limited_kv(folder: Path) -> None:
    """Puts the tables of a limited KV cache in place of the empty ones."""
    timings = limited.timings(limited.ENGINES, repeats=3)
    for name, table in {
        "reservations": reservations_table(timings, limited.throughput(timings)),
        "reservation_waits": reservation_waits_table(timings),
        "reservation_timeline": reservation_timeline_table(timings),
    }.items():
        table.to_parquet(folder / f"{name}.parquet", index=False)
        table.to_csv(folder / f"{name}.csv", index=False)


def full_report(folder: Path) -> Report:
    """Every section has something to show: three repeats of all engines, requests that keep coming,
    a limited KV cache, a timing that is contended and one that was and is measured again."""
    cells = [(engine, workload, 16) for engine in synthetic.ENGINES for workload in ("A", "B")]
    cells += [("vllm", workload, 256) for workload in ("A", "B")]
    cells += [("vllm", workload, 16) for workload in ("B2", "B_low", "B_high")]
    plan = synthetic.write_timings(folder, cells=cells, workloads=WORKLOADS, noise=0.05)
    again = synthetic.find(plan, "static", "B", repeat=2)
    for entry in (again, synthetic.find(plan, "vllm", "B", repeat=1)):
        synthetic.contend(entry)
    synthetic.remeasure(again, faster=1.25)
    return make_report(folder, plan, kv=True)
