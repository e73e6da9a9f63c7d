"""Does the scheduler class cost anything? The plain vllm engine through it, and stock vLLM.

Both are loaded at once, each with an engine process of its own, and serve the same requests in
turn; the speed through the class is given as a ratio to stock vLLM, paired round by round.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from side_by_side import ROOT, first_spec, report, set_threads

# Of the card, for each of the two engines.
GPU_SHARE = 0.4


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="demo", help="scale of config.yaml (default: demo)")
    parser.add_argument("--workload", default="B", help="what is served (default: B)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of both (default: 7)")
    parser.add_argument("--random", action="store_true", help="random weights of the true shape")
    args = parser.parse_args(argv)

    spec = first_spec(args.scale, "vllm", args.workload, random_weights=args.random)
    spec["options"] |= {"engine_process": True}
    if spec["device"] == "cuda":
        spec["options"] |= {"gpu_memory_utilization": GPU_SHARE}
    set_threads(spec)
    ratios = list(compare(spec, args.rounds))
    report(f"class / stock vLLM, {args.workload}, scale {args.scale}", ratios)
    return 0


def compare(spec, rounds):
    """Yields, for each round, the time of stock vLLM over the time through the class."""
    from fourcells.engines.vllm_load import load
    from fourcells.engines.vllm_offline import open_engine
    from fourcells.model import load_record
    from fourcells.workload import make_requests

    make_checkpoint(spec["model"])
    checkpoint = load_record(spec["model"])
    engine = open_engine(spec, checkpoint)
    llms = {"class": engine.llm, "stock": load(spec, checkpoint, None)}
    for name, llm in llms.items():
        scheduler = llm.llm_engine.vllm_config.scheduler_config
        print(f"{name}: {scheduler.scheduler_cls}, async {scheduler.async_scheduling}")
        serve(llm, make_requests(spec, checkpoint.vocabulary, "warm-up"))
    for number in range(1, rounds + 1):
        requests = make_requests(spec, checkpoint.vocabulary, number)
        # the order alternates, so that a drift of the machine cancels
        names = list(llms) if number % 2 else list(reversed(llms))
        seconds = {name: serve(llms[name], requests) for name in names}
        ratio = seconds["stock"] / seconds["class"]
        print(
            f"round {number}: class {seconds['class']:.3f} s, stock {seconds['stock']:.3f} s, "
            f"ratio {ratio:.3f}"
        )
        yield ratio
    for llm in llms.values():
        llm.llm_engine.engine_core.shutdown()


def make_checkpoint(model):
    """Makes it where the workflow does, unless it is there. In a process of its own: an engine
    process forked from one whose OpenMP threads have run would wait for them for ever."""
    record = Path(model["path"]) / "checkpoint.json"
    if not record.exists():
        script = str(ROOT / "scripts/make_model.py")
        command = [sys.executable, script, "--spec", json.dumps(model), "--output", str(record)]
        subprocess.run(command, check=True)


def serve(llm, requests):
    """Seconds from the release of all requests to the last result, as in a window."""
    from fourcells.engines.vllm_load import sampling

    llm.sleep(level=0, mode="keep")
    llm.enqueue(
        [{"prompt_token_ids": list(request.prompt)} for request in requests],
        [sampling(request.output_tokens) for request in requests],
        use_tqdm=False,
    )
    start = time.monotonic()
    llm.wake_up(tags=["scheduling"])
    outputs = llm.wait_for_completion(use_tqdm=False)
    seconds = time.monotonic() - start
    produced = sum(len(output.outputs[0].token_ids) for output in outputs)
    if produced != sum(request.output_tokens for request in requests):
        raise RuntimeError(f"{produced} tokens were produced, not all that were asked for")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
