"""What watching costs: the same windows with the witness and without it, in turn.

Two figures: the CPU time of the witness's own thread as a share of one core, as every timing
records it, and the ratio of the windows' lengths, paired round by round.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from side_by_side import first_spec, report, set_threads


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="demo", help="scale of config.yaml (default: demo)")
    parser.add_argument("--engine", default="static", help="engine to watch (default: static)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of both (default: 7)")
    args = parser.parse_args(argv)
    spec = first_spec(args.scale, args.engine, "A")
    set_threads(spec)

    from fourcells.engines import open_engine
    from fourcells.model import make_checkpoint
    from fourcells.window import window_seconds
    from fourcells.witness import Watch
    from fourcells.workload import make_requests

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = make_checkpoint(spec["model"], Path(folder) / "checkpoint.json")
        engine = open_engine(spec, checkpoint)
    requests = make_requests(spec, checkpoint.vocabulary, 1)
    engine.serve(requests)  # warm-up

    ratios, costs = [], []
    for number in range(1, args.rounds + 1):
        seconds = {}
        # the order alternates, so that a drift of the machine cancels
        for watched in (True, False) if number % 2 else (False, True):
            watch = Watch(spec["device"]) if watched else contextlib.nullcontext()
            with watch:
                served = engine.serve(requests)
            seconds[watched] = window_seconds(served)
            if watched:
                costs.append(watch.result["cost_s"] / watch.result["seconds"])
        ratios.append(seconds[True] / seconds[False])
        print(
            f"round {number}: watched {seconds[True]:.3f} s, not watched {seconds[False]:.3f} s, "
            f"the witness's thread {100 * costs[-1]:.3f} % of one core"
        )
    engine.close()
    print(f"the witness's thread: at most {100 * max(costs):.3f} % of one core")
    report(f"window with / without the witness, {args.engine}, scale {args.scale}", ratios)
    return 0


if __name__ == "__main__":
    sys.exit(main())
