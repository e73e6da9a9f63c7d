"""What else the machine did during a window: the evidence that a timing can be trusted.

CPU seconds of all processes less those of this process tree are foreign. A source that the kernel
does not offer is null, never 0.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psutil

# A timing is contended above these shares of the machine's CPU time. config.yaml may say otherwise
# (`verdict:`); then the analysis judges again from the stored witness.
THRESHOLDS = {"foreign_cpu_share": 0.05, "steal_share": 0.02}


@dataclass(frozen=True)
class Snapshot:
    """Counters of the machine and of this process tree, in seconds since boot or start."""

    wall: float
    busy: float
    own: float
    steal: float | None
    involuntary: int
    pressure: float | None


def snapshot(wall: float) -> Snapshot:
    """Reads all counters; `wall` is the monotonic time in seconds."""
    machine = psutil.cpu_times()
    # guest time is already inside user time
    busy = machine.user + machine.nice + machine.system
    busy += getattr(machine, "irq", 0.0) + getattr(machine, "softirq", 0.0)
    own, involuntary = 0.0, 0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
            own += times.user + times.system
            involuntary += process.num_ctx_switches().involuntary
        except psutil.NoSuchProcess:
            continue
    reaped = me.cpu_times()
    own += reaped.children_user + reaped.children_system
    return Snapshot(wall, busy, own, getattr(machine, "steal", None), involuntary, _pressure("cpu"))


def between(before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """What happened between two snapshots, in seconds and shares of the machine's CPU time."""
    seconds = after.wall - before.wall
    cores = os.cpu_count() or 1
    busy, own = after.busy - before.busy, after.own - before.own
    foreign = max(0.0, busy - own)
    steal = None if after.steal is None else after.steal - before.steal
    pressure = None if after.pressure is None else after.pressure - before.pressure
    return {
        "seconds": seconds,
        "own_cpu_s": own,
        "foreign_cpu_s": foreign,
        "foreign_cpu_share": foreign / (cores * seconds),
        "steal_s": steal,
        "steal_share": None if steal is None else steal / (cores * seconds),
        "pressure_s": pressure,
        "involuntary_switches": after.involuntary - before.involuntary,
    }


def verdict(witness: Mapping[str, Any], thresholds: Mapping[str, float]) -> list[str]:
    """`contended` if any share exceeds its threshold, else `clean`; an unknown share cannot."""
    limits = {**THRESHOLDS, **thresholds}
    over = any((witness.get(name) or 0.0) > limit for name, limit in limits.items())
    return ["contended"] if over else ["clean"]


def _pressure(resource: str) -> float | None:
    """Seconds in which some task waited for the resource since boot (kernel's PSI), or None."""
    try:
        with open(f"/proc/pressure/{resource}") as file:
            return int(file.readline().rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        return None
