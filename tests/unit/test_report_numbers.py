"""Every number is written in one way, and null is an en dash."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from fourcells.report import numbers as n


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (n.rate(1262.5), "1,262.5"),
        (n.ratio(2.981), "2.98x"),
        (n.percent(0.641), "64.1 %"),
        (n.percent(-0.64, sign=True), "\u221264.0 %"),
        (n.percent(0.03, sign=True), "+3.0 %"),
        (n.percent(-0.0001, sign=True), "0.0 %"),
        (n.seconds(16.38), "16.38"),
        (n.seconds(0.0213), "0.021"),
        (n.integer(11776), "11,776"),
        (n.size(28672), "28.00 KiB"),
        (n.size(219328 * 28672), "5.86 GiB"),
        (n.date("2026-11-29T15:00:00.123+01:00"), "2026-11-29 14:00:00 UTC"),
        (n.with_unit(107.0937, "requests"), "107.09"),
        (n.with_unit(219328.0, "tokens"), "219,328"),
    ],
)
def test_written(written, text):
    assert written == text


@pytest.mark.parametrize("null", [None, math.nan, math.inf, pd.NA, pd.NaT, " ", ""])
@pytest.mark.parametrize("write", [n.rate, n.ratio, n.percent, n.seconds, n.size, n.date])
def test_null_is_an_en_dash(write, null):
    assert write(null) == "\u2013"


def test_ratios_far_from_1_keep_their_size():
    assert [n.ratio(v) for v in (0, 0.009, 0.01, 1.5, 999_999, 3.2e12)] == [
        "0.00x", "9.0e-03x", "0.01x", "1.50x", "999,999.00x", "3.2e12x",
    ]  # fmt: skip
