"""From a witness and the work done to a verdict. Thresholds come from config.yaml (`verdict:`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fourcells.spec import memory_limited

if TYPE_CHECKING:  # the analysis judges too, and knows nothing of engines
    from fourcells.engines import Served

# What holds where the config says nothing. Shares of the machine's CPU time during the window.
THRESHOLDS = {"foreign_cpu_share": 0.05, "steal_share": 0.02, "swapped_mib": 1.0}
# The kernel counts CPU time in ticks of 10 ms: less than this says nothing about a short window.
LEAST_CPU_S = 0.05

CLEAN = "clean"


def of_machine(
    witnesses: Iterable[Mapping[str, Any]], thresholds: Mapping[str, float] | None = None
) -> list[str]:
    """`contended` and `throttled`, if any window of a timing was; an unknown source is neither."""
    limits = {**THRESHOLDS, **(thresholds or {})}
    verdicts = set()
    for witness in witnesses:
        for kind in ("foreign_cpu", "steal"):
            seconds, share = (witness.get(f"{kind}_{unit}") or 0.0 for unit in ("s", "share"))
            if share > limits[f"{kind}_share"] and seconds > LEAST_CPU_S:
                verdicts.add("contended")
        if (witness.get("swapped_bytes") or 0) > limits["swapped_mib"] * 2**20:
            verdicts.add("contended")
        gpu = witness.get("gpu") or {}
        if gpu.get("foreign_processes"):
            verdicts.add("contended")
        if gpu.get("throttled") or witness.get("quota_stops"):
            verdicts.add("throttled")
    return sorted(verdicts)


def of_work(served: Served, spec: Mapping[str, Any]) -> list[str]:
    """`short_output`, `cache_hit` and, but where memory is limited on purpose, `preempted`, if they
    happened to any request."""
    found = {
        "short_output": any(r.produced_tokens != r.output_tokens for r in served.requests),
        "cache_hit": any(r.cached_tokens for r in served.requests),
        "preempted": any(r.preemptions for r in served.requests) and not memory_limited(spec),
    }
    return [name for name, happened in found.items() if happened]


def whole(*parts: Iterable[str]) -> list[str]:
    """All verdicts of a timing, in a fixed order; `["clean"]` if there is none."""
    return sorted({verdict for part in parts for verdict in part}) or [CLEAN]
