"""How many requests the KV cache holds, reserved by maximum length and by mean use.

Arithmetic on what an engine reported, as in the lesson's section 6: a ceiling, not a measured
gain of paging.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from fourcells.analysis import lesson
from fourcells.analysis.load import Timings

COLUMNS = ["source", "quantity", "value", "unit", "formula"]
DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
UNITS = {
    "capacity_tokens": "tokens",
    "usable_tokens": "tokens",
    "max_model_len": "tokens",
    "mean_tokens": "tokens",
    "requests_by_max": "requests",
    "requests_by_use": "requests",
    "factor": "x",
    "factor_printed": "x",
    "engine_max_concurrency": "requests",
    "kv_bytes_per_token": "bytes",
    "kv_bytes": "bytes",
    "weights_bytes": "bytes",
}


def kv_table(timings: Timings) -> pd.DataFrame:
    """Rows of the lesson, then of every engine and slots ("vllm/16") with a paged cache.

    A quantity that the engine does not report, or that needs workload B where B was not measured,
    has no row.
    """
    rows = [
        (value, quantity, _LESSON_FORMULAS[quantity]) for quantity, value in lesson.kv().items()
    ]
    table = [_row("lesson", *row) for row in rows]
    mean = _mean_tokens(timings)
    for (engine, slots), group in timings.plan.groupby(["engine", "slots"], sort=False):
        reports = [timings.metadata[i] for i in group.index]
        # Without blocks a region belongs to its slot: how much of it is used changes nothing.
        needed = ("kv_capacity_tokens", "kv_blocks", "block_size")
        reports = [m for m in reports if all(m["applied"].get(key) for key in needed)]
        if reports:
            # Engines size the cache by the memory that is free when they start, so it may differ
            # between repeats: the smallest was there in all of them.
            smallest = min(reports, key=lambda m: m["applied"]["kv_capacity_tokens"])
            table += [_row(f"{engine}/{slots}", *row) for row in _measured(smallest, mean)]
    return pd.DataFrame(table, columns=COLUMNS)


def _row(source: str, value: float, quantity: str, formula: str) -> dict:
    return {
        "source": source,
        "quantity": quantity,
        "value": float(value),
        "unit": UNITS[quantity],
        "formula": formula,
    }


def _mean_tokens(timings: Timings) -> float | None:
    """Prompt plus output tokens, mean over the requests of B; None without B."""
    on_b = timings.plan.index[timings.plan["workload"] == "B"]
    requests = timings.requests[timings.requests["timing"].isin(on_b)]
    if requests.empty:
        return None
    return float((requests["prompt_tokens"] + requests["output_tokens"]).mean())


def _measured(meta: Mapping, mean: float | None) -> list[tuple[float, str, str]]:
    """(value, quantity, formula) of what one timing's engine reported."""
    applied, model = meta["applied"], meta["provenance"].get("model") or {}
    capacity, blocks, size = (
        applied.get(k) for k in ("kv_capacity_tokens", "kv_blocks", "block_size")
    )
    longest = applied.get("max_model_len") or meta["spec"]["max_model_len"]
    rows = [
        (capacity, "capacity_tokens", "as the engine reports it"),
        _usable(meta["spec"]["backend"], blocks, size),
        (longest, "max_model_len", "as the engine applies it"),
        (capacity / longest, "requests_by_max", f"{capacity} / {longest}"),
    ]
    if mean:
        rows.append((mean, "mean_tokens", "prompt + output, mean over the requests of B"))
        rows.append((capacity / mean, "requests_by_use", f"{capacity} / {mean:g}"))
        rows.append((longest / mean, "factor", f"{longest} / {mean:g}"))
    if applied.get("max_concurrency"):
        rows.append(
            (applied["max_concurrency"], "engine_max_concurrency", "as the engine reports it")
        )
    width = DTYPE_BYTES.get(applied.get("dtype"))
    parts = [model.get(k) for k in ("layers", "kv_heads", "head_dim")]
    if width and all(parts):
        layers, heads, dim = parts
        per_token = 2 * layers * heads * dim * width
        formula = f"2 x {layers} layers x {heads} KV heads x {dim} x {width} bytes"
        rows.append((per_token, "kv_bytes_per_token", formula))
        rows.append((capacity * per_token, "kv_bytes", f"{capacity} x {per_token}"))
    if model.get("bytes"):
        rows.append((model["bytes"], "weights_bytes", "size of the checkpoint"))
    return rows


def _usable(backend: str, blocks: int, size: int) -> tuple[float, str, str]:
    """vLLM keeps its first block as the null block; no request ever gets it."""
    if backend == "vllm":
        return (blocks - 1) * size, "usable_tokens", f"({blocks} - 1) blocks x {size}"
    return blocks * size, "usable_tokens", f"{blocks} blocks x {size}"


_LESSON_FORMULAS = {
    "capacity_tokens": "as vLLM reported it",
    "max_model_len": "as given",
    "mean_tokens": "128 + 184",
    "requests_by_max": "219328 / 2048",
    "requests_by_use": "219328 / 312",
    "factor": "2048 / 312",
    "factor_printed": "700 / 107",
    "kv_bytes_per_token": "2 x 28 layers x 2 KV heads x 128 x 2 bytes",
    "kv_bytes": "219328 x 28672",
    "engine_max_concurrency": "as vLLM reported it",
    "weights_bytes": "2.89 GiB as given",
}
