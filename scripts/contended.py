"""Lists the timings whose verdict is not clean, what the machine did meanwhile, and the commands
that measure them again. Reads the tables; measures nothing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from fourcells.analysis import commands
from fourcells.report import numbers as n

KEYS = ["engine", "workload", "slots", "repeat"]
# What is told of a timing, in this order. Left out: what no source told, and what did not happen.
FIGURES = {
    "foreign_cpu_s": ("foreign CPU {} s", n.cpu_seconds),
    "foreign_cpu_share": ("foreign share of the machine {}", n.percent),
    "steal_s": ("stolen {} s", n.cpu_seconds),
    "pressure_s": ("waited for a CPU {} s", n.seconds),
    "involuntary_switches": ("{} involuntary switches", n.integer),
    "run_queue_max": ("run queue {}", n.integer),
    "quota_stops": ("{} stops by the CPU quota", n.integer),
    "swapped_bytes": ("swapped {}", n.size),
    "foreign_gpu_processes": ("{} foreign GPU processes", n.integer),
    "sm_clock_mhz_min": ("SM clock from {} MHz", n.integer),
    "temperature_c_max": ("up to {} °C", n.integer),
    "throttled": ("GPU throttled: {}", str),
    "stale_key": ("its spec differs from today's at {}", str),
}


def report(timings: pd.DataFrame, plan: Sequence[Mapping]) -> Iterator[str]:
    """The lines to print.

    Args:
        timings: the table of that name.
        plan: every planned timing, with its path.
    """
    paths = {tuple(entry[key] for key in KEYS): entry["path"] for entry in plan}
    rows = {key: group for key, group in timings.groupby(KEYS, sort=False) if key in paths}
    absent = len(paths) - len(rows)
    unclean = {key: group for key, group in rows.items() if group["verdict"].iloc[0] != "clean"}
    if absent:
        yield f"not measured yet: {absent} of {len(paths)} timings; run: {commands.MEASURE}"
    if not unclean:
        yield f"all {len(rows)} timings are clean"
        return
    yield f"{len(unclean)} of {len(rows)} timings are not clean:"
    for key, group in unclean.items():
        engine, workload, slots, repeat = key
        verdict = ", ".join(group["verdict"].iloc[0].split(","))
        yield ""
        yield f"{engine}/{workload}/slots{slots}, repeat {repeat}: {verdict}"
        figures = "; ".join(_figures(group))
        if figures:
            yield f"  {figures}"
        yield f"  {commands.again(paths[key])}"
    yield ""
    yield "All of them again:"
    yield f"  {commands.again(*(paths[key] for key in unclean))}"
    mixed = {k[-1] for k, g in unclean.items() if "mixed_session" in g["verdict"].iloc[0]}
    for repeat in sorted(mixed):
        block = [path for key, path in paths.items() if key[-1] == repeat]
        yield ""
        yield (
            f"Repeat {repeat} mixes timings of several sessions."
            " Only when measured as a whole it is of one again:"
        )
        yield f"  {commands.again(*block)}"


def _figures(group: pd.DataFrame) -> Iterator[str]:
    """What the table tells of one timing; of several windows the greatest figure, the least
    clock."""
    for column, (words, write) in FIGURES.items():
        values = group[column].dropna() if column in group else ()
        if len(values):
            told = write(values.min() if column.endswith("_min") else values.max())
            if told != "no" and (write is str or any(digit in told for digit in "123456789")):
                yield words.format(told)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), metavar="DIR")
    parser.add_argument("--plan", type=Path, default=Path("results/plan.json"), metavar="FILE")
    args = parser.parse_args(argv)
    table = args.tables / "timings.parquet"
    try:
        timings = pd.read_parquet(table)
        plan = json.loads(args.plan.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        print(f"no tables yet, {error.filename or table} is missing; run: {commands.MEASURE}")
        return 0
    print("\n".join(report(timings, plan)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
