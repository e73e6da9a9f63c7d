"""Is the static engine a straw man? The same batch through it and through `model.generate`.

Both run in this process on the same checkpoint, in turn, and must produce the same tokens; the
speed of the static engine is given as a ratio to that of `generate`, paired round by round.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from side_by_side import first_spec, report, set_threads


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="demo", help="scale of config.yaml (default: demo)")
    parser.add_argument("--workload", default="B", help="its first batch is served (default: B)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of both (default: 7)")
    args = parser.parse_args(argv)

    spec = first_spec(args.scale, "static", args.workload)
    set_threads(spec)
    ratios = list(compare(spec, args.rounds))
    report(f"static / generate, first batch of {args.workload}, scale {args.scale}", ratios)
    return 0


def compare(spec, rounds):
    """Yields, for each round, the time of `generate` over the time of the static engine."""
    import torch
    from transformers import AutoModelForCausalLM

    from fourcells.engines import open_engine
    from fourcells.model import make_checkpoint
    from fourcells.workload import make_requests

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = make_checkpoint(spec["model"], Path(folder) / "checkpoint.json")
        engine = open_engine(spec, checkpoint)
        model = AutoModelForCausalLM.from_pretrained(
            checkpoint.folder, dtype=getattr(torch, spec["dtype"])
        )
    model.to(spec["device"]).eval()
    batch = make_requests(spec, checkpoint.vocabulary, 1)[: spec["slots"]]
    ids = torch.tensor([request.prompt for request in batch], device=model.device)
    longest = max(request.output_tokens for request in batch)

    def generate():
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=longest,
            min_new_tokens=longest,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None,
        ).tolist()
        return [
            row[ids.shape[1] :][: request.output_tokens]
            for row, request in zip(out, batch, strict=True)
        ]

    def static():
        return engine.serve(batch).tokens

    ours, theirs = static(), generate()  # warm-up
    same = sum(a == b for a, b in zip(ours, theirs, strict=True))
    print(f"{same} of {len(batch)} requests with the same tokens")
    for number in range(1, rounds + 1):
        # the order alternates, so that a drift of the machine cancels
        pair = (static, generate) if number % 2 else (generate, static)
        seconds = {}
        for run in pair:
            start = time.perf_counter()
            run()
            seconds[run] = time.perf_counter() - start
        ratio = seconds[generate] / seconds[static]
        print(
            f"round {number}: static {seconds[static]:.2f} s, "
            f"generate {seconds[generate]:.2f} s, ratio {ratio:.3f}"
        )
        yield ratio


if __name__ == "__main__":
    sys.exit(main())
