"""Adds repeats, block by block, until the interval of Q is narrow enough or a limit is reached.

Q is the ratio of ratios: an engine's gain over its baseline on the mixed workload, over its gain
on the uniform one. Every repeat that was measured stays. Options after -- go to Snakemake:

    python scripts/precise.py --target 0.05 --max-repeats 20 --max-minutes 60 -- --use-conda

Exit codes: 0 the target or a limit is reached, 1 Snakemake failed, 2 there is no Q, or the command
line or the config cannot be used, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import stdev
from typing import Any

import pyarrow.parquet as pq
import yaml

from fourcells import config as settings
from fourcells import config_check
from fourcells.analysis.check import stale_key
from fourcells.analysis.stats import repeats_for, t_interval
from fourcells.schema import METADATA_KEY

ROOT = Path(__file__).resolve().parents[1]
SUMMARY = Path("results/summary.json")
NO_Q = (
    "there is no Q: it needs an engine with a baseline, and a workload that is compared with "
    "another (compare_with), both measured with the same slots in the same repeat"
)


def half_width(values: Sequence[float]) -> float | None:
    """Relative half-width of the 95 % interval of a geometric mean; None for one value."""
    low, high = t_interval(values)
    return None if low is None else math.expm1((math.log(high) - math.log(low)) / 2)


def needed(values: Sequence[float], limits: argparse.Namespace) -> int:
    """Repeats at which the interval should be within the target, from the deviation so far: the
    limit if no number up to it does. Two, as long as there is no deviation."""
    if len(values) < 2:
        return 2
    deviation = stdev(math.log(value) for value in values)
    return min(repeats_for(deviation, limits.target), limits.max_repeats)


def decide(
    values: Sequence[float],
    repeats: int,
    limits: argparse.Namespace,
    minutes: float,
    minutes_per_repeat: float | None,
) -> tuple[int | None, str]:
    """(repeats to ask for next, why), or (None, why it stops).

    `values`: Q of every repeat that has one, which need not be all `repeats` asked for. `minutes`
    are spent so far; one more repeat costs `minutes_per_repeat`, None if unknown.
    """
    half = half_width(values) if values else None
    if half is not None and half <= limits.target:
        return None, f"the target is reached (--target {limits.target:g})"
    if repeats >= limits.max_repeats:
        return None, f"stopped at the limit of {limits.max_repeats} repeats (--max-repeats)"
    left = limits.max_minutes - minutes
    affordable = left // minutes_per_repeat if minutes_per_repeat else math.inf
    if left <= 0 or affordable < 1:
        return None, f"stopped at the limit of {limits.max_minutes:g} minutes (--max-minutes)"
    wanted = needed(values, limits)
    # the deviation of a few repeats is a guess, so never more than doubled; at least one more
    more = min(max(wanted - len(values), 1), repeats, limits.max_repeats - repeats, affordable)
    width = "no interval yet" if half is None else f"half-width {half:.1%}"
    return repeats + int(more), f"{width}, so {int(more)} more"


def values_of(summary: Mapping) -> list[float]:
    """Q of every repeat; raises ValueError if the summary has none."""
    entry = (summary.get("ratios") or {}).get("Q") or {}
    values = [value for value in (entry.get("per_repeat") or {}).values() if value]
    if not values:
        raise ValueError(NO_Q)
    return values


def told(summary: Mapping) -> str:
    """'Q (vllm / static, 16 slots) = 2.03 [1.90, 2.17], half-width 7 %, 5 repeats'."""
    entry, values = summary["ratios"]["Q"], values_of(summary)
    pair = f"{entry.get('engine')} / {entry.get('baseline')}, {entry.get('slots')} slots"
    head = f"Q ({pair}) = {entry['estimate']:.3f}"
    half = half_width(values)
    if half is None:
        return f"{head}, one repeat: no interval"
    low, high = t_interval(values)
    interval = f"[{low:.3f}, {high:.3f}], half-width {half:.1%}"
    return f"{head} {interval}, {len(values)} repeats"


def check_q(config: Mapping) -> None:
    """Before anything is measured: raises ValueError if the config can give no Q."""
    baselines = [engine.get("baseline") for engine in config["engines"].values()]
    pairs = [workload.get("compare_with") for workload in config["workloads"].values()]
    if not (any(baselines) and any(pairs)):
        raise ValueError(NO_Q)


def read_config(overrides: Sequence[str]) -> dict[str, Any]:
    """config.yaml with key=value overrides, as Snakemake's --config takes them.

    Raises:
        ValueError: an override is none, or the config cannot be used.
    """
    config = yaml.safe_load(Path("config.yaml").read_text(encoding="utf-8"))
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise ValueError(f"--config {override}: not of the form key=value")
        config = _merged(config, {key: yaml.safe_load(value)})
    config_check.check(config, ROOT / "rules/config.schema.yaml")
    return config


def _merged(old: Any, new: Any) -> Any:
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}


def measured_repeats(config: Mapping) -> int:
    """Whole repeats that are there and were measured as the config asks today."""
    main_cells = settings.sets(config)[settings.MAIN]
    planned = {cell.path: settings.spec(config, cell) for cell in main_cells}

    def whole(repeat: int) -> bool:
        return all(_is_there(path, repeat, spec) for path, spec in planned.items())

    return sum(1 for _ in itertools.takewhile(whole, itertools.count(1)))


def _is_there(cell: str, repeat: int, spec: Mapping) -> bool:
    try:
        raw = pq.read_metadata(f"results/timings/{cell}/{repeat}.parquet").metadata or {}
        return stale_key({**spec, "repeat": repeat}, json.loads(raw[METADATA_KEY])) is None
    except (OSError, KeyError, ValueError):
        return False


def snakemake(repeats: int, options: argparse.Namespace) -> int:
    """Runs the workflow with that many repeats; returns its exit code.

    Ctrl-C reaches this process alone and is passed on once: Snakemake then ends its jobs and its
    lock. (subprocess.run would kill it after a quarter of a second.)
    """
    config = [pair for pair in options.config if not pair.startswith("repeats=")]
    config.append(f"repeats={repeats}")
    command = [sys.executable, "-m", "snakemake", f"-j{options.jobs}", *options.snakemake]
    child = subprocess.Popen([*command, "--config", *config], start_new_session=True)
    try:
        return child.wait()
    except KeyboardInterrupt:
        os.killpg(child.pid, signal.SIGINT)
        child.wait()
        raise


def rounds(config: Mapping, options: argparse.Namespace) -> int:
    """Measures and decides, round by round, and prints what it does; returns the exit code."""
    begun = time.monotonic()
    there = measured_repeats(config)
    repeats = max(min(settings.setting(config, "repeats"), options.max_repeats), there)
    while True:
        started = time.monotonic()
        print(f"precise: {repeats} repeats, {max(repeats - there, 0)} of them new", flush=True)
        if snakemake(repeats, options) != 0:
            print("precise: Snakemake failed, see above", file=sys.stderr)
            return 1
        now = time.monotonic()
        cost = (now - started) / 60 / (repeats - there) if repeats > there else None
        summary = json.loads(SUMMARY.read_text(encoding="utf-8"))
        cost = cost or (summary.get("limits") or {}).get("minutes_per_repeat")
        after, why = decide(values_of(summary), repeats, options, (now - begun) / 60, cost)
        print(f"precise: {told(summary)}", flush=True)
        print(f"precise: {why}", flush=True)
        if after is None:
            print(
                f"precise: the page shows {repeats} repeats; to keep them there, set"
                f" `repeats: {repeats}` in config.yaml, or run with --config repeats={repeats}"
            )
            return 0
        repeats, there = after, repeats


def parse(argv: Sequence[str]) -> argparse.Namespace:
    # split here: argparse takes no words after -- beside an option of several values
    at = argv.index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(
        description=__doc__,
        usage="%(prog)s [options] [-- SNAKEMAKE_OPTION ...]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--target", type=float, default=0.05, help="half-width (default: 0.05, which is 5 %%)")
    add("--max-repeats", type=int, default=20, help="repeats in all (default: 20)")
    add("--max-minutes", type=float, default=60, help="minutes of this run (default: 60)")
    add("--jobs", "-j", type=int, default=1, help="Snakemake's -j (default: 1)")
    add("--config", nargs="+", default=[], metavar="KEY=VALUE", help="Snakemake's --config")
    options = parser.parse_args(argv[:at])
    options.snakemake = argv[at + 1 :]
    if not min(options.target, options.max_repeats, options.max_minutes, options.jobs) > 0:
        parser.error("--target, --max-repeats, --max-minutes and --jobs are numbers above zero")
    for word in options.snakemake:
        if word.split("=")[0] in ("--config", "-C", "--configfile", "--configfiles"):
            parser.error(f"{word}: give --config before --, or edit config.yaml")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    options = parse(list(sys.argv[1:] if argv is None else argv))
    for number in (signal.SIGTERM, signal.SIGHUP):
        # as Ctrl-C does; under nohup the end of the terminal ends nothing
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        config = read_config(options.config)
        check_q(config)
        return rounds(config, options)
    except (OSError, ValueError) as error:
        print(f"precise: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nprecise: stopped; what is measured stays, the same command goes on from here")
        return 130


if __name__ == "__main__":
    sys.exit(main())
