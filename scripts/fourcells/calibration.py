"""How fast the machine is right now: two short rates that date a timing.

A cell that is measured again later can be set against the rest of its repeat: if the rates differ,
so does the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

ROUNDS = 5
ROUND_S = 0.02
# side of the square matrices: large enough to be bound by arithmetic, a few milliseconds each
SIDE = {"cpu": 384, "cuda": 4096}


def calibrate(device: str, dtype: str) -> dict[str, float]:
    """Rates of pure Python (million loop passes per second) and of a matrix product (GFLOP/s).

    The product runs on the engine's device in its dtype, with the threads that are set.
    """
    return {
        "python_mloops_s": _rate(_loop, 1e-6 * LOOP),
        "matmul_gflops": _rate(_product(device, dtype), 2e-9 * SIDE[device] ** 3),
    }


LOOP = 20_000


def _loop() -> None:
    total = 0
    for number in range(LOOP):
        total += number


def _product(device: str, dtype: str) -> Callable[[], Any]:
    import torch

    side = SIDE[device]
    generator = torch.Generator(device).manual_seed(0)
    # random numbers: zeros multiply faster
    matrix = torch.randn((side, side), device=device, generator=generator).to(getattr(torch, dtype))

    def product() -> None:
        out = matrix @ matrix
        out[0, 0].item()  # waits for the device

    product()  # the first one loads the library's kernels
    return product


def _rate(work: Callable[[], None], amount: float) -> float:
    """Median over the rounds of amount per second."""
    rates = []
    for _ in range(ROUNDS):
        start, passes = time.perf_counter(), 0
        while (spent := time.perf_counter() - start) < ROUND_S:
            work()
            passes += 1
        rates.append(passes * amount / spent)
    return median(rates)
