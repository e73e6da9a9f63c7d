"""What else the machine did during a window: the evidence that a timing can be trusted.

Counters are read before and after the window, and a thread of low cost samples what only a moment
shows. CPU seconds of all processes less those of this process tree are foreign. A source that the
machine does not offer is null, with the reason under `missing`, and never 0.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import psutil

from fourcells.witness_gpu import Gpu

INTERVAL_S = 1.0


@dataclass(frozen=True)
class Counters:
    """Running totals, seconds where not said otherwise; None where the machine has no source."""

    wall: float
    # all processes: user, nice, system and interrupts; guests are inside user
    busy: float
    # this process and its descendants, those that have ended included
    own: float
    steal: float | None
    # some task waited for a CPU (the kernel's pressure stall information)
    pressure: float | None
    # times each thread of this process tree was pushed off a core, by thread id
    involuntary: dict[int, int] | None
    # periods in which the cgroup's CPU quota stopped us
    quota_stops: int | None
    # bytes swapped in and out
    swapped: int | None


def read_counters() -> Counters:
    """Reads all counters now."""
    machine = psutil.cpu_times()
    tree = _tree()
    return Counters(
        wall=time.monotonic(),
        busy=machine.user
        + machine.nice
        + machine.system
        + getattr(machine, "irq", 0.0)
        + getattr(machine, "softirq", 0.0),
        own=sum(_cpu_seconds(process) for process in tree),
        steal=getattr(machine, "steal", None),
        pressure=_pressure(),
        involuntary=_involuntary(tree),
        quota_stops=_quota_stops(),
        swapped=_swapped(),
    )


def between(before: Counters, after: Counters) -> dict[str, Any]:
    """What happened between two readings; shares are of the machine's CPU time.

    Own CPU time is that of the tree at the end less that at the beginning: a process that joined
    the tree in between is counted whole, one that left it without being waited for is lost.
    """
    seconds = after.wall - before.wall
    cores = os.cpu_count() or 1
    change = {
        name: None
        if None in (pair := (getattr(before, name), getattr(after, name)))
        else pair[1] - pair[0]
        for name in (field.name for field in fields(Counters))
        if name != "involuntary"
    }
    foreign = max(0.0, change["busy"] - change["own"])
    return {
        "seconds": seconds,
        "own_cpu_s": change["own"],
        "own_cpu_share": change["own"] / seconds,
        "foreign_cpu_s": foreign,
        "foreign_cpu_share": foreign / (cores * seconds),
        "steal_s": change["steal"],
        "steal_share": None if change["steal"] is None else change["steal"] / (cores * seconds),
        "pressure_s": change["pressure"],
        "involuntary_switches": _new_switches(before.involuntary, after.involuntary),
        "quota_stops": change["quota_stops"],
        "swapped_bytes": change["swapped"],
    }


MISSING = {
    "steal_s": "the kernel counts no steal time",
    "pressure_s": "the kernel has no /proc/pressure/cpu",
    "involuntary_switches": "/proc/PID/task cannot be read",
    "quota_stops": "this cgroup has no CPU quota to read",
    "swapped_bytes": "the kernel counts no swapping",
    "run_queue_max": "/proc/stat tells no run queue",
    "frequency_mhz_min": "the kernel tells no CPU frequency",
    "gpu": "the engine runs on the CPU",
}


class Watch:
    """Watches the machine while it is entered; `result` holds what it saw afterwards.

    `cost_s` in the result is the CPU time of the sampling itself, inside the window.
    """

    def __init__(self, device: str) -> None:
        self._gpu = Gpu() if device == "cuda" else None
        self._stop = threading.Event()
        self._samples: list[dict[str, float | None]] = []
        self._cost = 0.0
        self.result: dict[str, Any] = {}

    def __enter__(self) -> Watch:
        self._thread = threading.Thread(target=self._sample, name="witness", daemon=True)
        self._before = read_counters()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        result = between(self._before, read_counters())
        result |= {
            "run_queue_max": _most(s["run_queue"] for s in self._samples),
            "frequency_mhz_min": _least(s["frequency"] for s in self._samples),
            "frequency_mhz_max": _most(s["frequency"] for s in self._samples),
            "gpu": self._gpu.result() if self._gpu else None,
            "samples": len(self._samples),
            "cost_s": self._cost,
        }
        result["missing"] = {
            name: reason for name, reason in MISSING.items() if result[name] is None
        }
        self.result = result

    def _sample(self) -> None:
        while True:
            self._samples.append({"run_queue": _run_queue(), "frequency": _frequency()})
            if self._gpu:
                self._gpu.sample()
            self._cost = time.thread_time()
            if self._stop.wait(INTERVAL_S):
                return


def _tree() -> list[psutil.Process]:
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def _cpu_seconds(process: psutil.Process) -> float:
    """User and system time of a process and of the children it has waited for."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system + times.children_user + times.children_system


def _involuntary(tree: list[psutil.Process]) -> dict[int, int] | None:
    """Of every thread: a process's own file tells of its first thread alone."""
    counts = {}
    for process in tree:
        for task in Path(f"/proc/{process.pid}/task").glob("*/status"):
            text = _read(task)
            if text and "nonvoluntary_ctxt_switches:" in text:
                last = text.rpartition("nonvoluntary_ctxt_switches:")[2]
                counts[int(task.parent.name)] = int(last.split()[0])
    return counts or None


def _new_switches(before: dict[int, int] | None, after: dict[int, int] | None) -> int | None:
    """Those of threads that have ended in between are lost: they never make the sum negative."""
    if before is None or after is None:
        return None
    return sum(count - before.get(thread, 0) for thread, count in after.items())


def _pressure() -> float | None:
    text = _read("/proc/pressure/cpu")
    if text is None or "total=" not in text:
        return None
    return int(text.splitlines()[0].rpartition("total=")[2]) / 1e6


def _quota_stops() -> int | None:
    for line in (_read("/sys/fs/cgroup/cpu.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "nr_throttled":
            return int(value)
    return None


def _swapped() -> int | None:
    try:
        swap = psutil.swap_memory()
    except (OSError, RuntimeError):
        return None
    return swap.sin + swap.sout


def _run_queue() -> int | None:
    """Tasks that run or wait for a core, this thread among them."""
    for line in (_read("/proc/stat") or "").splitlines():
        if line.startswith("procs_running"):
            return int(line.split()[1])
    return None


def _frequency() -> float | None:
    """Mean over the cores, MHz."""
    paths = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    values = [int(text) / 1000 for path in paths if (text := _read(path))]
    return sum(values) / len(values) if values else None


def _read(path: str | Path) -> str | None:
    try:
        return Path(path).read_text()
    except OSError:
        return None


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)
