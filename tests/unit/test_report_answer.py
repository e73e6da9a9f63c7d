"""The answer's wording follows the numbers."""

from __future__ import annotations

import pandas as pd
import pytest

from fourcells.report.answer import sentences
from fourcells.report.data import make_data

PAIR = {"engine": "vllm", "baseline": "static", "slots": 16}


def ratio_rows(name: str, values: list[float], estimate: float) -> list[dict]:
    return [
        {
            "name": name,
            **PAIR,
            "repeat": r,
            "value": v,
            "geometric_mean": estimate,
            "n": len(values),
        }
        for r, v in enumerate(values, start=1)
    ]


def answer(r_b, r_a=None, q=None, n=3) -> list[str]:
    """The sentences for ratios given as (estimate, low, high)."""
    given = {k: v for k, v in {"R_A": r_a, "R_B": r_b, "Q": q}.items() if v}
    rows = [row for name, v in given.items() for row in ratio_rows(name, [v[0]] * n, v[0])]
    throughput = [
        {"engine": e, "slots": 16, "workload": w, "repeat": 1, "tok_s": t, "compare_with": of,
         "loss_when_mixed": loss}
        for e, w, t, of, loss in [
            ("static", "A", 100.0, None, None), ("static", "B", 36.0, "A", -0.64),
            ("vllm", "A", 150.0, None, None), ("vllm", "B", 110.0, "A", -0.267),
        ]
    ]  # fmt: skip
    idle = [
        {
            "engine": e,
            "slots": 16,
            "workload": "B",
            "repeat": 1,
            "idle_rows": rows,
            "idle_slots": slots,
        }
        for e, rows, slots in [("static", 0.641, 0.641), ("vllm", 0.0, 0.303)]
    ]
    frames = {"ratios": rows, "throughput": throughput, "idle": idle}
    ratios = {
        name: {"estimate": v[0], "low": v[1], "high": v[2], "n": n, **PAIR}
        for name, v in given.items()
    }
    tables = {name: pd.DataFrame(rows) for name, rows in frames.items()}
    return sentences(make_data(tables, {"ratios": ratios}))


@pytest.mark.parametrize(
    ("ratio", "says", "not_says"),
    [
        ((2.98, 2.9, 3.1), "vllm was faster than static: 2.98x", "slower"),
        ((0.8, 0.7, 0.9), "vllm was slower than static: 0.80x", "faster"),
        ((1.05, 0.9, 1.2), "not distinguishable in speed", "faster"),
        ((1.05, None, None), "made 1.05x the tokens per second of static", "faster"),
    ],
)
def test_faster_needs_an_interval_that_excludes_1(ratio, says, not_says):
    first = answer(ratio)[0]
    assert says in first
    assert not_says not in first


def test_one_repeat_says_so():
    first, second, _ = answer((2.98, None, None), (1.47, None, None), (2.03, None, None), n=1)
    assert "one repeat: no interval" in first
    assert "faster" not in first
    assert "the quotient of the two ratios is 2.03x (one repeat: no interval)" in second


@pytest.mark.parametrize(
    ("q", "says"),
    [
        ((2.03, 1.9, 2.2), "further factor of 2.03x (95 % interval 1.90x to 2.20x, 3 repeats)"),
        ((1.02, 0.9, 1.1), "a further factor for mixed lengths is not distinguishable from 1"),
        ((0.9, 0.8, 0.95), "the gain is smaller"),
    ],
)
def test_mixed_lengths_add_only_what_the_interval_shows(q, says):
    assert says in answer((2.98, 2.9, 3.1), (1.47, 1.4, 1.5), q)[1]


def test_losses_and_idle_slots_are_the_tables():
    assert answer((2.98, 2.9, 3.1))[2] == (
        "Going from A to B changed throughput by \u221264.0 % (static) and \u221226.7 % (vllm); "
        "on B, 64.1 % (static) and 30.3 % (vllm) of slots x steps made no useful token."
    )


def test_a_summary_of_another_pair_lends_no_interval():
    tables = {"ratios": pd.DataFrame(ratio_rows("R_B", [3.0, 3.0], 3.0))}
    other = {"R_B": {"estimate": 3.0, "low": 2.9, "high": 3.1, **PAIR, "slots": 8}}
    assert "2 repeats, no interval" in sentences(make_data(tables, {"ratios": other}))[0]


def test_there_are_three_sentences_without_any_data():
    assert len(sentences(make_data({}, {}))) == 3
