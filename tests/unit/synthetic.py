"""Synthetic timings with known answers, in the layout of real ones.

Times come from `simulator.simulate` and a step time of a + c * rows (and more for prompts, if
wanted), so step counts, idle shares and (without noise) every ratio are known beforehand. Use
`write_timings(folder)`, which returns the plan that `scripts/tables.py` takes; change what a test
is about through its arguments.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fourcells.schema import STEPS, TIMING
from fourcells.simulator import simulate
from fourcells.workload import arrivals, lengths

DEMO = {
    "A": {"count": 64, "prompt_tokens": [32], "output_tokens": [46], "order": "cyclic"},
    "B": {"count": 64, "prompt_tokens": [32], "output_tokens": [8, 16, 32, 128], "order": "cyclic"},
}
LESSON = {
    "A": {"count": 64, "prompt_tokens": [128], "output_tokens": [184], "order": "cyclic"},
    "B": {
        "count": 64,
        "prompt_tokens": [128],
        "output_tokens": [32, 64, 128, 512],
        "order": "cyclic",
    },
}
COMPARE_WITH = {"B": "A"}
CELLS = (
    ("static", "A", 16),
    ("static", "B", 16),
    ("vllm", "A", 16),
    ("vllm", "B", 16),
    ("vllm", "A", 256),
    ("vllm", "B", 256),
)
ENGINES = {
    "static": {"backend": "torch", "options": {"admission": "padded"}, "baseline": None},
    "vllm": {"backend": "vllm", "options": {}, "baseline": "static"},
    # controls: the baseline under a second name, and two admissions over one loop
    "static_again": {"backend": "torch", "options": {"admission": "padded"}, "baseline": None},
    "torch_wave": {"backend": "torch", "options": {"admission": "wave"}, "baseline": "static"},
    "torch_continuous": {
        "backend": "torch",
        "options": {"admission": "continuous"},
        "baseline": "static",
    },
    # the members of the paths from static to vllm
    "vllm_padded": {"backend": "vllm", "options": {"admission": "padded"}, "baseline": None},
    "vllm_wave": {"backend": "vllm", "options": {"admission": "wave"}, "baseline": None},
    "static_compiled": {
        "backend": "torch",
        "options": {"admission": "padded", "mode": "compiled"},
        "baseline": None,
    },
}
# Seconds per step (a) and per row (c), if wanted also per step with prompts (p) and per token
# beyond one per row (d): near the lesson's calibration on its workload A.
STEP_TIMES = {
    **dict.fromkeys(
        ["static", "static_again", "torch_wave", "torch_continuous"], (16.6e-3, 124e-6)
    ),
    **dict.fromkeys(["vllm", "vllm_padded", "vllm_wave"], (11.14e-3, 95.6e-6)),
    "static_compiled": (12.5e-3, 110e-6),
}
MODEL = {
    "bytes": 5_242_880,
    "kv_bytes_per_token": 2048,
    "layers": 4,
    "kv_heads": 2,
    "head_dim": 32,
    "parameters": 1_310_720,
}
KV = {"kv_blocks": 1025, "block_size": 32, "kv_capacity_tokens": 32_800, "max_concurrency": 64.06}
BOOT = "00000000-0000-0000-0000-000000000001"
SESSION = f"synthetic/{BOOT}/first"
START = datetime(2026, 11, 29, 14, 0, 0, 123_000, tzinfo=UTC)


def serve(
    requests: Mapping,
    slots: int,
    admission: str,
    a: float,
    c: float,
    p: float = 0.0,
    d: float = 0.0,
    *,
    sample: int = 1,
    seed: int = 1,
    release_delay: int = 0,
    budget: int | None = None,
    graph_tokens: int = 0,
) -> tuple[list[dict], list[dict]]:
    """Request and step records of one window, in seconds; a step of n rows takes a + c * n, with
    prompts d * (tokens - n) more, and p more if it has more tokens than a graph holds."""
    pairs, arrive = lengths(requests, seed), arrivals(requests)
    outputs = [output for _, output in pairs]
    served = simulate(
        outputs,
        # slots beyond the number of requests are never taken, and take time to simulate
        min(slots, len(outputs)),
        admission,
        prompt_tokens=[prompt for prompt, _ in pairs],
        release_delay=release_delay,
        budget=budget,
        arrivals=arrive,
        seconds=lambda rows, more: (
            a + c * rows + d * more + (p if more and rows + more > graph_tokens else 0.0)
        ),
    )
    made = [0] * len(outputs)
    records = []
    for index, step in enumerate(served.steps):
        for request, useful in zip(step.holders, step.useful, strict=True):
            if useful:
                made[request] += 1
        in_cache = sum(pairs[r][0] + made[r] for r in step.holders if r is not None)
        records.append(
            {
                "sample": sample,
                "step": index,
                "t_s": step.start_s,
                "rows": step.rows,
                "useful_rows": step.useful_rows,
                "waiting": step.waiting,
                "tokens": step.tokens,
                "kv_used": in_cache / KV["kv_capacity_tokens"],
                "preempted": 0,
                # the last token of a row is not in the cache yet
                "kv_tokens": in_cache - sum(r is not None for r in step.holders),
            }
        )
    # Without refilling, all that enter together are a wave.
    waves = {
        step: wave for wave, step in enumerate(sorted({r.admitted_step for r in served.requests}))
    }
    rows = [
        {
            "sample": sample,
            "request": number,
            "prompt_tokens": prompt,
            "output_tokens": output,
            "produced_tokens": output,
            "arrival_s": arrival,
            "late_s": 0.0,
            "admitted_s": request.admitted_s,
            "first_token_s": request.first_s,
            "finished_s": request.finished_s,
            "returned_s": request.returned_s,
            "wave": None if admission == "continuous" else waves[request.admitted_step],
            "cached_tokens": 0,
            "preemptions": 0,
        }
        for number, ((prompt, output), arrival, request) in enumerate(
            zip(pairs, arrive, served.requests, strict=True)
        )
    ]
    return rows, records


def make_spec(
    engine: str,
    workload: str,
    slots: int,
    repeat: int,
    requests: Mapping,
    engines: Mapping[str, Mapping] = ENGINES,
    **changes,
) -> dict:
    """A timing's spec; `changes` replace top-level keys."""
    spec = {
        "engine": engine,
        "backend": engines[engine]["backend"],
        "options": dict(engines[engine]["options"]),
        "workload": workload,
        "requests": dict(requests),
        "slots": slots,
        "scale": "demo",
        "device": "cpu",
        "dtype": "float32",
        "max_model_len": 512,
        "model": {
            "name": "tiny-qwen2",
            "path": "results/models/tiny-qwen2",
            "weights": "random",
        },
        "seed": 1,
        "samples": 1,
        "threads": 1,
        "protocol": 1,
        "repeat": repeat,
    }
    return spec | changes


def _regions(spec: Mapping) -> dict:
    """The KV cache of the torch loop: one region of the maximum length per slot, no blocks."""
    capacity = spec["slots"] * spec["max_model_len"]
    regions = {"kv_capacity_tokens": capacity, "max_concurrency": spec["slots"]}
    return dict.fromkeys(KV) | regions


def make_metadata(spec: Mapping, window_s: Sequence[float], started: datetime) -> dict:
    """The JSON of the file metadata key `fourcells` for one timing."""
    vllm = spec["backend"] == "vllm"
    prompts = [
        hashlib.sha256(f"{spec['workload']}/{spec['seed']}/{spec['repeat']}/{k}".encode())
        for k in range(1, spec["samples"] + 1)
    ]
    return {
        "spec": dict(spec),
        "applied": {
            "slots": spec["slots"],
            "admission": spec["options"].get("admission", "continuous"),
            "dtype": spec["dtype"],
            "attention_backend": "CPU_ATTN" if vllm else "sdpa",
            **(KV if vllm else _regions(spec)),
            "max_num_batched_tokens": 4096 if vllm else None,
            "prefix_caching": False,
            "graphs": "none",
            "async_scheduling": False,
            "threads": spec["threads"],
            "max_model_len": spec["max_model_len"],
            **spec["options"],
        },
        "provenance": {
            "session": SESSION,
            "host": "synthetic",
            "boot": BOOT,
            "started": started.isoformat(timespec="milliseconds"),
            "git": {"commit": "0" * 40, "dirty": False},
            "python": "3.11.9",
            "versions": {
                "torch": "2.11.0",
                "transformers": "5.0.0",
                **({"vllm": "0.24.0"} if vllm else {}),
            },
            "cpu": "Synthetic CPU",
            "cores": 2,
            "memory_gib": 23.5,
            "gpu": None,
            "driver": None,
            "threads": spec["threads"],
            "load_s": 3.1,
            "warmup_s": 5.2,
            "window_s": list(window_s),
            "prompt_hash": [digest.hexdigest() for digest in prompts],
            "model_hash": hashlib.sha256(b"tiny-qwen2").hexdigest(),
            "model": dict(MODEL),
        },
        "calibration": {
            "before": {"python_mloops_s": 24.0, "matmul_gflops": 61.0},
            "after": {"python_mloops_s": 23.9, "matmul_gflops": 60.8},
        },
        "witness": {"windows": [make_witness(seconds) for seconds in window_s]},
        "verdict": ["clean"],
        "protocol": spec["protocol"],
        "attempt": 1,
        "reason": "first attempt",
    }


def make_witness(seconds: float, **changes) -> dict:
    """What a witness saw in a window of an idle machine with 2 cores and no GPU."""
    witness = {
        "seconds": seconds,
        "own_cpu_s": seconds,
        "own_cpu_share": 1.0,
        "foreign_cpu_s": 0.01 * seconds,
        "foreign_cpu_share": 0.005,
        "steal_s": 0.0,
        "steal_share": 0.0,
        "pressure_s": 0.02,
        "involuntary_switches": 17,
        "quota_stops": None,
        "swapped_bytes": 0,
        "run_queue_max": 2,
        "frequency_mhz_min": None,
        "frequency_mhz_max": None,
        "gpu": None,
        "samples": 4,
        "cost_s": 0.003,
    } | changes
    reasons = {
        "quota_stops": "this cgroup has no CPU quota to read",
        "frequency_mhz_min": "the kernel tells no CPU frequency",
        "gpu": "the engine runs on the CPU",
    }
    return witness | {"missing": {k: v for k, v in reasons.items() if witness[k] is None}}


def write_parquet(path: Path, rows: list[dict], schema: pa.Schema, metadata: Mapping) -> None:
    """One timing or steps file with its metadata key `fourcells`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows, schema=schema)
    table = table.replace_schema_metadata({"fourcells": json.dumps(metadata)})
    pq.write_table(table, path, write_page_checksum=True)


def write_timings(
    folder: str | Path,
    repeats: int = 3,
    *,
    samples: int = 1,
    noise: float = 0.0,
    sample_noise: float = 0.0,
    seed: int = 1,
    cells: Sequence[tuple[str, str, int]] = CELLS,
    workloads: Mapping[str, Mapping] = DEMO,
    step_times: Mapping[str, tuple[float, ...]] = STEP_TIMES,
    engines: Mapping[str, Mapping] = ENGINES,
    compare_with: Mapping[str, str] = COMPARE_WITH,
    **spec_changes,
) -> list[dict]:
    """Write timings and steps of every cell and repeat below `folder`; return their plan.

    Args:
        folder: takes the place of `results`.
        repeats: repeats 1..repeats.
        samples: windows per timing.
        noise: standard deviation of the log of one factor per timing, on its step times; 0 gives
            the same times in every repeat.
        sample_noise: the same of one factor per window.
        seed: of the noise.
        cells: (engine, workload, slots); an engine is a key of `engines`.
        workloads: name -> {count, prompt_tokens, output_tokens, order}, and `arrival` if wanted;
            `LESSON` is ready too.
        step_times: engine -> (a, c), or (a, c, p, d), in seconds.
        engines: name -> {backend, options, baseline}; with the option `async_scheduling` a slot is
            freed one step late, `max_num_batched_tokens` and `cudagraph_capture_sizes` hold too.
        compare_with: mixed workload -> uniform one.
        spec_changes: top-level keys of every spec, e.g. `dtype="bfloat16"`.

    Returns:
        The plan: one entry per timing, ready for `json.dumps`.
    """
    rng = random.Random(seed)
    plan, started = [], START
    for repeat in range(1, repeats + 1):
        for engine, workload, slots in cells:
            requests = workloads[workload]
            spec = make_spec(engine, workload, slots, repeat, requests, engines, samples=samples)
            spec |= spec_changes
            kind = engines[engine]
            admission = kind["options"].get("admission", "continuous")
            options = kind["options"]
            more = {
                "release_delay": 1 if options.get("async_scheduling") else 0,
                "budget": options.get("max_num_batched_tokens"),
                "graph_tokens": max(options.get("cudagraph_capture_sizes", [0])),
            }
            factor = rng.lognormvariate(0.0, noise) if noise else 1.0
            rows, steps, windows = [], [], []
            for sample in range(1, samples + 1):
                by = factor * (rng.lognormvariate(0.0, sample_noise) if sample_noise else 1.0)
                times = [by * seconds for seconds in step_times[engine]]
                served = serve(requests, slots, admission, *times, sample=sample, **more)
                rows += served[0]
                steps += served[1]
                windows.append(max(row["returned_s"] for row in served[0]))
            name = f"{engine}/{workload}/slots{slots}/{repeat}.parquet"
            path, steps_path = (Path(folder) / where / name for where in ("timings", "steps"))
            attempts = (Path(folder) / "attempts" / name).with_suffix("")
            metadata = make_metadata(spec, windows, started)
            write_parquet(path, rows, TIMING, metadata)
            write_parquet(steps_path, steps, STEPS, metadata)
            write_parquet(attempts / "1.parquet", rows, TIMING, metadata)
            started += timedelta(seconds=round(sum(windows) + 8.3, 3))
            plan.append(
                {
                    "engine": engine,
                    "backend": kind["backend"],
                    "admission": kind["options"].get("admission"),
                    "baseline": kind["baseline"],
                    "workload": workload,
                    "compare_with": compare_with.get(workload),
                    "set": "main",
                    "slots": slots,
                    "repeat": repeat,
                    "path": str(path),
                    "steps": str(steps_path),
                    "attempts": str(attempts),
                    "spec": spec,
                }
            )
    return plan


def rewrite(
    path: str | Path,
    rows: Callable[[list[dict]], list[dict]] | None = None,
    metadata: Callable[[dict], None] | None = None,
) -> None:
    """Spoil a stored file: `rows` returns its new rows, `metadata` changes its JSON in place."""
    table = pq.read_table(path)
    meta = json.loads(table.schema.metadata[b"fourcells"])
    if metadata:
        metadata(meta)
    records = table.to_pylist()
    schema = STEPS if "step" in table.column_names else TIMING
    write_parquet(Path(path), rows(records) if rows else records, schema, meta)


def find(plan: list[dict], engine: str, workload: str, slots: int = 16, repeat: int = 1) -> dict:
    """The planned entry of one timing."""
    wanted = (engine, workload, slots, repeat)
    return next(e for e in plan if (e["engine"], e["workload"], e["slots"], e["repeat"]) == wanted)


def contend(entry: Mapping, share: float = 0.4) -> None:
    """Let other processes have had a share of the machine's CPU time during a timing's windows."""

    def see(meta: dict) -> None:
        for seen in meta["witness"]["windows"]:
            seen["foreign_cpu_share"] = share
            seen["foreign_cpu_s"] = 2 * share * seen["seconds"]
        meta["verdict"] = ["contended"]

    number = _last_attempt(entry)
    for path in (entry["path"], entry["steps"], f"{entry['attempts']}/{number}.parquet"):
        rewrite(path, metadata=see)


def remeasure(
    entry: Mapping, faster: float = 1.0, run: str = "second", hours: float = 1.0, counts=True
) -> None:
    """Measure a timing again, as another run of the workflow does: the next attempt.

    Args:
        entry: of the plan.
        faster: its throughput, as a multiple of that of the attempt that counted.
        run: the workflow's run, last part of the session.
        hours: from the start of the attempt that counted to that of this one.
        counts: whether it replaces the timing; if not, its last request is one token short.
    """
    number = _last_attempt(entry) + 1
    kept = Path(entry["attempts"], f"{number}.parquet")
    shutil.copy(entry["path"], kept)

    def change(meta: dict) -> None:
        origin = meta["provenance"]
        origin["session"] = f"{origin['host']}/{origin['boot']}/{run}"
        begun = datetime.fromisoformat(origin["started"]) + timedelta(hours=hours)
        origin["started"] = begun.isoformat(timespec="milliseconds")
        origin["window_s"] = [seconds / faster for seconds in origin["window_s"]]
        meta["witness"] = {"windows": [make_witness(s) for s in origin["window_s"]]}
        meta["reason"] = f"measured again; the attempt before was {', '.join(meta['verdict'])}"
        meta |= {"attempt": number, "verdict": ["clean"] if counts else ["short_output"]}

    def rows(records: list[dict]) -> list[dict]:
        made = [{k: v / faster if k.endswith("_s") else v for k, v in r.items()} for r in records]
        if not counts:
            made[-1]["produced_tokens"] -= 1
        return made

    rewrite(kept, rows, change)
    if counts:
        shutil.copy(kept, entry["path"])
        rewrite(entry["steps"], rows, change)


def _last_attempt(entry: Mapping) -> int:
    return max(int(p.stem) for p in Path(entry["attempts"]).glob("*.parquet") if p.stem.isdigit())
