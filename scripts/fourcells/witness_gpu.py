"""What NVIDIA GPUs did during a window, through NVML: clocks, limits, heat, foreign processes."""

from __future__ import annotations

import os
from typing import Any

import psutil

# Reasons for a lower clock that mean heat or power trouble (NVML's clocks event reasons). The
# ordinary power cap and idle states are recorded, and are no trouble.
THROTTLING = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


class Gpu:
    """Samples all GPUs of the machine; a foreign process on any of them may share the bus."""

    def __init__(self) -> None:
        import pynvml

        self._nvml = pynvml
        self._clocks: list[int] = []
        self._temperatures: list[int] = []
        self._power: list[float] = []
        self._reasons = 0
        self._seen: set[int] = set()
        self._error: str | None = None
        self._devices: list[Any] = []
        try:
            pynvml.nvmlInit()
            self._devices = [
                pynvml.nvmlDeviceGetHandleByIndex(index)
                for index in range(pynvml.nvmlDeviceGetCount())
            ]
        except pynvml.NVMLError as error:
            self._error = str(error)

    def sample(self) -> None:
        """One reading of every GPU; what a driver does not tell is left out."""
        for device in self._devices:
            self._add(self._clocks, self._nvml.nvmlDeviceGetClockInfo, device, 1)  # SM clock
            self._add(self._temperatures, self._nvml.nvmlDeviceGetTemperature, device, 0)
            self._add(self._power, self._nvml.nvmlDeviceGetPowerUsage, device)
            try:
                self._reasons |= self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device)
                running = self._nvml.nvmlDeviceGetComputeRunningProcesses(device)
            except self._nvml.NVMLError as error:
                self._error = str(error)
                continue
            self._seen |= {process.pid for process in running}

    def _add(self, values: list, read: Any, *arguments: Any) -> None:
        try:
            values.append(read(*arguments))
        except self._nvml.NVMLError as error:
            self._error = str(error)

    def result(self) -> dict[str, Any]:
        """Ranges over all samples; nulls where nothing was read, with the last error."""
        own = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
        # In a container NVML may give the host's process ids: then ours is not among them.
        told = not self._seen or bool(self._seen & own)
        return {
            "sm_clock_mhz_min": min(self._clocks, default=None),
            "sm_clock_mhz_max": max(self._clocks, default=None),
            "temperature_c_max": max(self._temperatures, default=None),
            "power_w_max": max(self._power, default=0) / 1000 if self._power else None,
            "throttled": [name for bit, name in THROTTLING.items() if self._reasons & bit],
            "clock_reasons": self._reasons,
            "foreign_processes": len(self._seen - own) if told else None,
            "error": self._error,
        }
