"""Measures one timing: one engine, workload and number of slots, in one repeat.

Writes two parquet files, one row per request and one row per engine step. Works alone, without
Snakemake; the spec is the whole input.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    say = redirect(args.log)

    from fourcells.spec import timing_spec

    try:
        spec = timing_spec(args.spec, args.repeat)
    except ValueError as error:
        say(f"measure: {error}")
        return 2
    set_threads(spec["threads"])

    # Imported now: numpy and torch read the thread variables when they are loaded.
    from fourcells import engines, machine, store, window

    name = f"{spec['engine']}/{spec['workload']}/slots{spec['slots']}/{spec['repeat']}"
    if problem := engines.problem(spec):
        say(f"measure: {problem}")
        return 1
    machine.end_with_workflow(say)
    try:
        with machine.exclusive(name, lambda text: say(f"{name}: {text}")):
            timing = window.measure(spec, progress=lambda text: say(f"{name}: {text}"))
            kept = store.save(timing, args.output, args.steps, args.attempts)
    except KeyboardInterrupt:
        say(f"{name}: interrupted, nothing written")
        return 130
    except (engines.EngineError, OSError) as error:
        if args.log:
            traceback.print_exc()
        say(f"measure: {name}: {error}")
        return 1
    except Exception as error:
        traceback.print_exc()
        where = f"; the whole story is in {args.log}" if args.log else ""
        say(f"measure: {name}: {type(error).__name__}: {error}{where}")
        return 1
    if timing.problem:
        where = f"; kept for inspection: {kept}" if kept else ""
        say(f"measure: {name}: {timing.problem}{where}")
        return 1
    say(f"{name}: {timing.summary}")
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="the spec: a JSON document, or a file of it")
    parser.add_argument("--output", required=True, type=Path, help="timing to write (parquet)")
    parser.add_argument("--steps", required=True, type=Path, help="its steps to write (parquet)")
    parser.add_argument("--repeat", type=int, help="number of the repeat (default: the spec's)")
    parser.add_argument("--attempts", type=Path, help="folder that keeps every attempt")
    parser.add_argument("--log", type=Path, help="file for all that the engine prints")
    return parser.parse_args(argv)


def redirect(log: Path | None) -> Callable[[str], None]:
    """Sends this process's output, its children's too, to the log.

    Returns a function that prints a line where the user looks, and in the log.
    """
    terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1)
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, sys.stdout.fileno())
        os.dup2(file, sys.stderr.fileno())

    def say(text: str) -> None:
        print(text, file=terminal)
        if log:
            print(text, file=sys.stderr, flush=True)

    return say


def set_threads(threads: int) -> None:
    """The same CPU threads for every engine, whatever Snakemake derives from -j."""
    for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR"):
        os.environ[f"{library}_NUM_THREADS"] = str(threads)


if __name__ == "__main__":
    sys.exit(main())
