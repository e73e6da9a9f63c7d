"""What the lesson could claim from its own numbers: one run of each cell, and how far two runs
of the cells on B were apart."""

from __future__ import annotations

import math
from statistics import fmean

from scipy.stats import norm

from fourcells.analysis import lesson
from fourcells.analysis.stats import CONFIDENCE, around


def lesson_claim() -> dict:
    """The lesson's quotient with the interval that its own deviations give it.

    Two runs that differ by d on the log scale estimate a deviation of d / sqrt 2. The quotient is
    made of four cells of one run each: static and vLLM on B, and on A, taken to be as noisy as on
    B. The interval is normal: it takes the two deviations as known, though each comes from a
    single difference, so it is the narrowest that can be defended.

    Returns:
        `estimate, low, high, n`, `sd_static` and `sd_vllm` (of one log throughput), `sd` (of the
        log quotient), and `sentence`.
    """
    sd_static, sd_vllm = (_sd(fmean(lesson.runs_apart(c, "B"))) for c in ("static_16", "vllm_16"))
    sd = math.sqrt(2 * (sd_static**2 + sd_vllm**2))
    estimate = lesson.ratios()["Q"]
    low, high = around(math.log(estimate), float(norm.ppf((1 + CONFIDENCE) / 2)) * sd)
    static, vllm = (lesson.runs_apart(c, "B") for c in ("static_16", "vllm_16"))
    sentence = (
        f"The lesson's extra gain of {estimate:.2f} comes from one run per cell. Its two runs were "
        f"{static[0]:.0%} apart for static and {vllm[0]:.0%} to {vllm[1]:.0%} for vLLM; if the "
        f"cells on A are as noisy, what it could claim is {low:.1f} to {high:.1f}."
    )
    return {
        "estimate": estimate,
        "low": low,
        "high": high,
        "n": 1,
        "sd_static": sd_static,
        "sd_vllm": sd_vllm,
        "sd": sd,
        "sentence": sentence,
    }


def _sd(apart: float) -> float:
    """Deviation of one log throughput from 1 - min/max of two."""
    return -math.log1p(-apart) / math.sqrt(2)
