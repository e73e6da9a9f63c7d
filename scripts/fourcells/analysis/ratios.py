"""Ratios of throughputs, each formed inside one repeat.

R_w  = T(engine, w, s) / T(baseline, w, s), for the slots s that both were measured with
Q    = R_B / R_A: what mixed lengths add to the gain, an estimate and not a causal separation
slots_ratio = T(engine, A, most slots) / T(engine, A, fewest slots)

A repeat that lacks one of the cells has no ratio; the number of repeats n falls. A ratio of
timings from several sessions is marked: the machine may have changed between them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from fourcells.analysis import lesson
from fourcells.analysis.load import Timings
from fourcells.analysis.stats import geometric_mean
from fourcells.analysis.verdicts import session

COLUMNS = [
    "name", "engine", "baseline", "slots", "repeat", "value", "geometric_mean", "min", "max", "n",
    "lesson", "crosses_sessions",
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(["name", "engine", "baseline"], "str"),
    **dict.fromkeys(["slots", "repeat", "n"], "int64"),
    **dict.fromkeys(["value", "geometric_mean", "min", "max", "lesson"], "float64"),
    "crosses_sessions": "bool",
}
Series = dict[int, float]  # repeat -> value
Cell = tuple[str, str, int]  # engine, workload, slots


def ratios_table(timings: Timings, throughput: pd.DataFrame) -> pd.DataFrame:
    """One row per ratio and repeat; `geometric_mean`, `min`, `max`, `n` repeat over its rows.

    Order: engines by name, then slots, fewest first. `slots` of a slots_ratio is the greater
    number, its `baseline` is null. `crosses_sessions`: the timings that this repeat's ratio is
    made of are not all of one session.
    """
    sessions = {
        (row.engine, row.workload, row.slots, row.repeat): session(timings.metadata[row.Index])
        for row in timings.plan.itertuples()
    }
    rows = []
    for name, engine, baseline, slots, of, values, reference in _ratios(timings.plan, throughput):
        if not values:
            continue
        measured = list(values.values())
        same = {
            "name": name,
            "engine": engine,
            "baseline": baseline,
            "slots": slots,
            "geometric_mean": geometric_mean(measured),
            "min": min(measured),
            "max": max(measured),
            "n": len(measured),
            "lesson": reference,
        }
        for repeat, value in values.items():
            several = len({sessions[*cell, repeat] for cell in of}) > 1
            rows.append(same | {"repeat": repeat, "value": value, "crosses_sessions": several})
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def divide(above: Series, below: Series) -> Series:
    """above / below in every repeat that has both, repeats in ascending order."""
    return {r: above[r] / below[r] for r in sorted(above.keys() & below.keys())}


def _ratios(plan: pd.DataFrame, throughput: pd.DataFrame) -> Iterator[tuple]:
    """(name, engine, baseline, slots, cells it is made of, values, the lesson's figure) of every
    ratio."""
    cells: dict[Cell, Series] = {}
    columns = ["engine", "workload", "slots", "repeat", "tok_s"]
    for engine, workload, slots, repeat, tok_s in throughput[columns].itertuples(index=False):
        cells.setdefault((engine, workload, slots), {})[repeat] = tok_s
    compare_with = plan.dropna(subset="compare_with").set_index("workload")["compare_with"]
    compare_with = compare_with[~compare_with.index.duplicated()].to_dict()
    engines = plan.drop_duplicates("engine").set_index("engine")
    like = {e: (kind["backend"], kind["admission"]) for e, kind in engines.iterrows()}
    workloads = list(dict.fromkeys(plan["workload"]))
    figures = lesson.ratios()

    for engine, baseline in engines["baseline"].dropna().items():
        both = {s for e, _, s in cells if e == engine} & {s for e, _, s in cells if e == baseline}
        for slots in sorted(both):
            pair = [lesson.cell(*like[e], slots) for e in (engine, baseline)]
            known = figures if pair == ["vllm_16", "static_16"] else {}
            gains = {
                w: divide(cells.get((engine, w, slots), {}), cells.get((baseline, w, slots), {}))
                for w in workloads
            }
            made = {w: [(engine, w, slots), (baseline, w, slots)] for w in workloads}
            found = {f"R_{w}": (made[w], values) for w, values in gains.items()}
            for w, other in compare_with.items():
                # The usual pair has the plain name; a further mixed workload names itself.
                name = "Q" if w == "B" else f"Q_{w}"
                pairs = made[w] + made.get(other, [])
                found[name] = (pairs, divide(gains[w], gains.get(other, {})))
            for name, (of, values) in found.items():
                yield name, engine, baseline, slots, of, values, known.get(name)

    for engine in engines.index:
        slots = sorted(s for e, w, s in cells if (e, w) == (engine, "A"))
        if len(slots) < 2:
            continue
        few, many = slots[0], slots[-1]
        of = [(engine, "A", many), (engine, "A", few)]
        values = divide(*(cells[cell] for cell in of))
        ends = [lesson.cell(*like[engine], s) for s in (few, many)]
        reference = figures["slots_ratio"] if ends == ["vllm_16", "vllm_256"] else None
        yield "slots_ratio", engine, None, many, of, values, reference
