"""Writes every table and the summary from the timings of a plan.

    python scripts/tables.py --plan plan.json --output-dir results/tables \
        --summary results/summary.json --verdict '{"foreign_cpu_share": 0.05}'
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from fourcells.analysis.ablations import ablations_table
from fourcells.analysis.arrivals import arrivals_table
from fourcells.analysis.attempts import attempts_table
from fourcells.analysis.attribution import attribution_table
from fourcells.analysis.controls import controls_table
from fourcells.analysis.dose import dose_table
from fourcells.analysis.holders import holders_table
from fourcells.analysis.idle import idle_table
from fourcells.analysis.kv import kv_table
from fourcells.analysis.latency import latency_table
from fourcells.analysis.load import Timings, load
from fourcells.analysis.noise import noise_table
from fourcells.analysis.occupancy import occupancy_table
from fourcells.analysis.pairs import all_ratios
from fourcells.analysis.prediction import predicted_seconds, prediction_table
from fourcells.analysis.ratios import ratios_table
from fourcells.analysis.requests import requests_table
from fourcells.analysis.reservation_timeline import reservation_timeline_table
from fourcells.analysis.reservation_waits import reservation_waits_table
from fourcells.analysis.reservations import reservations_table
from fourcells.analysis.step_model import step_model_table
from fourcells.analysis.summary import summarise
from fourcells.analysis.throughput import throughput_table
from fourcells.analysis.timings import timings_table
from fourcells.analysis.trust import trust
from fourcells.analysis.variance import variance_table
from fourcells.analysis.verdicts import judge
from fourcells.files import write_whole
from fourcells.spec import MAIN
from fourcells.verdict import THRESHOLDS


def make_tables(
    timings: Timings, plan: Sequence[Mapping], thresholds: Mapping[str, float] | None = None
) -> tuple[dict[str, pd.DataFrame], dict]:
    """All tables by name, and the summary.

    Args:
        timings: as `load` reads them from the plan.
        plan: every planned timing.
        thresholds: of the verdicts, in place of the usual ones.
    """
    verdicts = judge(timings, thresholds)
    counted = timings.counted()
    requests = requests_table(timings)
    throughput = throughput_table(counted)
    latency = latency_table(counted, requests)
    ratios = all_ratios(counted, throughput, latency)
    step_model = step_model_table(counted)
    prediction = prediction_table(counted, step_model)
    tables = {
        "requests": requests,
        "timings": timings_table(timings, verdicts),
        "throughput": throughput,
        "noise": noise_table(counted, throughput),
        "ratios": ratios_table(counted, ratios),
        "controls": controls_table(counted, throughput),
        "variance": variance_table(counted),
        "latency": latency,
        "idle": idle_table(counted),
        "kv": kv_table(counted),
        "step_model": step_model,
        "prediction": prediction,
        "attribution": attribution_table(counted, throughput, predicted_seconds(prediction)),
        "ablations": ablations_table(counted, throughput),
        "occupancy": occupancy_table(counted),
        "holders": holders_table(counted),
        "dose": dose_table(counted, throughput),
        "arrivals": arrivals_table(counted, requests),
        "reservations": reservations_table(counted, throughput),
        "reservation_waits": reservation_waits_table(counted),
        "reservation_timeline": reservation_timeline_table(counted),
        "attempts": attempts_table(plan, timings, verdicts, thresholds),
    }
    blocks: dict[tuple[str, int], list[str]] = {}
    for entry in plan:
        blocks.setdefault((entry.get("set", MAIN), entry["repeat"]), []).append(entry["path"])
    found = trust(timings, verdicts, blocks, tables["attempts"])
    summary = summarise(timings, verdicts, tables, found, ratios)
    return tables, summary | {"thresholds": THRESHOLDS | dict(thresholds or {})}


def write_all(tables: dict[str, pd.DataFrame], summary: dict, folder: Path, json_path: Path):
    """Each table as NAME.parquet and NAME.csv (nulls are empty), and the summary as JSON."""
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


def read_thresholds(text: str) -> dict[str, float]:
    """Thresholds from a JSON object.

    Raises:
        ValueError: it is none, or names what is no threshold.
    """
    given = json.loads(text)
    unknown = sorted(set(given) - set(THRESHOLDS)) if isinstance(given, dict) else [text]
    if unknown:
        allowed = ", ".join(THRESHOLDS)
        raise ValueError(f"--verdict: {', '.join(unknown)}: not one of {allowed}")
    return given


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
    parser.add_argument(
        "--verdict",
        default="{}",
        metavar="JSON",
        help="thresholds that replace the usual ones: a JSON object",
    )
    args = parser.parse_args(argv)
    try:
        thresholds = read_thresholds(args.verdict)
        plan = read_plan(args.plan)
        timings = load(plan)
    except (OSError, ValueError) as error:
        print(f"tables: {error}", file=sys.stderr)
        return 1
    tables, summary = make_tables(timings, plan, thresholds)
    write_all(tables, summary, args.output_dir, args.summary)
    for path in timings.missing:
        print(f"missing: {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
