"""Ratios of throughputs, each formed inside one repeat.

R_w  = T(engine, w, s) / T(baseline, w, s), for the slots s that both were measured with
Q    = R_B / R_A: what mixed lengths add to the gain, an estimate and not a causal separation
slots_ratio = T(engine, A, most slots) / T(engine, A, fewest slots)

A repeat that lacks one of the cells has no ratio; the number of repeats n falls.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from fourcells.analysis import lesson
from fourcells.analysis.load import Timings
from fourcells.analysis.stats import geometric_mean

COLUMNS = [
    "name", "engine", "baseline", "slots", "repeat", "value", "geometric_mean", "min", "max", "n",
    "lesson",
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(["name", "engine", "baseline"], "str"),
    **dict.fromkeys(["slots", "repeat", "n"], "int64"),
    **dict.fromkeys(["value", "geometric_mean", "min", "max", "lesson"], "float64"),
}
Series = dict[int, float]  # repeat -> value


def ratios_table(timings: Timings, throughput: pd.DataFrame) -> pd.DataFrame:
    """One row per ratio and repeat; `geometric_mean`, `min`, `max`, `n` repeat over its rows.

    Order: engines by name, then slots, fewest first. `slots` of a slots_ratio is the greater
    number, its `baseline` is null.
    """
    rows = []
    for name, engine, baseline, slots, values, reference in _ratios(timings.plan, throughput):
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
        rows += [same | {"repeat": repeat, "value": value} for repeat, value in values.items()]
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def divide(above: Series, below: Series) -> Series:
    """above / below in every repeat that has both, repeats in ascending order."""
    return {r: above[r] / below[r] for r in sorted(above.keys() & below.keys())}


def _ratios(plan: pd.DataFrame, throughput: pd.DataFrame) -> Iterator[tuple]:
    """(name, engine, baseline, slots, values, the lesson's figure) of every ratio."""
    cells: dict[tuple[str, str, int], Series] = {}
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
            found = {f"R_{w}": values for w, values in gains.items()}
            for w, of in compare_with.items():
                # The usual pair has the plain name; a further mixed workload names itself.
                name = "Q" if w == "B" else f"Q_{w}"
                found[name] = divide(gains[w], gains.get(of, {}))
            for name, values in found.items():
                yield name, engine, baseline, slots, values, known.get(name)

    for engine in engines.index:
        slots = sorted(s for e, w, s in cells if (e, w) == (engine, "A"))
        if len(slots) < 2:
            continue
        few, many = slots[0], slots[-1]
        values = divide(cells[engine, "A", many], cells[engine, "A", few])
        ends = [lesson.cell(*like[engine], s) for s in (few, many)]
        reference = figures["slots_ratio"] if ends == ["vllm_16", "vllm_256"] else None
        yield "slots_ratio", engine, None, many, values, reference
