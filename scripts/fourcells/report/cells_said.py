"""What the section on the four cells says: of each cell, and of each comparison of two."""

from __future__ import annotations

from collections.abc import Iterator

from fourcells.report import numbers as n
from fourcells.report.catalogue import TEXTS
from fourcells.report.chains import Pair
from fourcells.report.data import Data
from fourcells.report.design import PADDED, CellFacts, Design, cell
from fourcells.report.drain import CONTINUOUS, lengths
from fourcells.report.evidence import Ratio, factor, factor_ratio, pair, ratio, ratio_of


def workload_words(data: Data, workload: str) -> str:
    """'B (8, 16, 32, 128 output tokens)'."""
    known = lengths(data, workload)
    if not known:
        return workload
    tokens = ", ".join(n.integer(each) for each in known)
    return TEXTS["cells_workload"].format(workload=workload, lengths=tokens)


def each(data: Data, of: Design) -> list[str]:
    """One sentence per measured cell: what it is for."""
    made = []
    for engine in of.engines:
        for workload in of.workloads:
            facts = cell(data, engine, workload, of.slots)
            if facts.n:
                mixed = len(lengths(data, workload)) > 1
                made.append(_cell(facts, mixed, _beside(data, of, facts)))
    return made


def _beside(data: Data, of: Design, facts: CellFacts) -> CellFacts | None:
    """The same workload under the baseline."""
    if len(of.engines) < 2 or facts.engine == of.engines[0]:
        return None
    return cell(data, of.engines[0], facts.workload, facts.slots)


def _cell(facts: CellFacts, mixed: bool, beside: CellFacts | None) -> str:
    kind = "mixed" if mixed else "uniform"
    words = {"engine": facts.engine, "workload": facts.workload}
    if facts.admission == PADDED and facts.idle_rows is not None:
        said = TEXTS[f"cells_padded_{kind}"].format(idle=n.percent(facts.idle_rows), **words)
        if mixed and facts.computed_idle_rows is not None:
            computed = n.percent(facts.computed_idle_rows)
            said += " " + TEXTS["cells_beforehand"].format(computed=computed)
        return said
    if facts.admission == CONTINUOUS and facts.steps is not None:
        said = TEXTS[f"cells_continuous_{kind}"].format(steps=n.integer(facts.steps), **words)
        if beside is not None and beside.steps is not None:
            same = "same" if beside.steps == facts.steps else "other"
            baseline = {"baseline": beside.engine, "steps": n.integer(beside.steps)}
            said += " " + TEXTS[f"cells_steps_{same}"].format(**baseline)
        return said
    return TEXTS["cells_other"].format(rate=n.rate(facts.tok_s), **words)


def along(data: Data, of: Design, engine: str, slots: int) -> Ratio | None:
    """T(mixed) / T(uniform) of one engine: what mixed lengths leave of its throughput."""
    frame = data.ratios[data.ratios.value.notna()]
    names = ["loss_when_mixed", f"loss_when_mixed_{of.workloads[1]}"]
    same = frame["name"].isin(names) & frame.engine.eq(engine) & frame.slots.eq(slots)
    return ratio_of(data, frame[same])


def quotient(data: Data, of: Pair) -> Ratio | None:
    """R on the mixed workload over R on the uniform one."""
    return ratio(data, of, "Q") or ratio(data, of, f"Q_{of.workload}")


def comparisons(data: Data, of: Design) -> list[str]:
    """One sentence per comparison: what it removes, and what stays in it. Empty unless there are
    two engines and two workloads."""
    own = pair(data)
    if own is None or not of.whole:
        return []
    return [*_down(data, of, own), *_along(data, of), *_corner(data, own), *_further(data, of)]


def _down(data: Data, of: Design, own: Pair) -> Iterator[str]:
    uniform, mixed = of.workloads
    words = {"engine": own.engine, "baseline": own.baseline}
    even = ratio(data, own, f"R_{uniform}")
    if even is not None:
        one, other = (cell(data, engine, uniform, of.slots) for engine in of.engines)
        said = TEXTS["cells_down_uniform"].format(workload=uniform, told=even.told(), **words)
        if None not in (one.steps, other.steps):
            same = one.steps == other.steps and not one.idle_rows and not other.idle_rows
            steps = {"one": n.integer(one.steps), "other": n.integer(other.steps)}
            said += " " + TEXTS[f"cells_removes{'' if same else '_not'}"].format(**steps, **words)
        if other.rows_mean is not None:
            rows = {"rows": n.rate(other.rows_mean), "workload": uniform}
            said += " " + TEXTS["cells_keeps"].format(**rows)
        yield said
    both = ratio(data, own, f"R_{mixed}")
    if both is not None:
        yield TEXTS["cells_down_mixed"].format(workload=mixed, told=both.told(), **words)


def _along(data: Data, of: Design) -> Iterator[str]:
    uniform, mixed = of.workloads
    kept = [(engine, along(data, of, engine, of.slots)) for engine in of.engines]
    told = [
        TEXTS["share"].format(engine=engine, value=ratio.bracketed())
        for engine, ratio in kept
        if ratio is not None
    ]
    if told:
        words = {"mixed": mixed, "uniform": uniform, "each": ", ".join(told)}
        yield TEXTS["cells_along"].format(**words)


def _corner(data: Data, own: Pair) -> Iterator[str]:
    found = quotient(data, own)
    if found is None:
        return
    said = TEXTS["cells_corner"].format(told=found.told())
    off, engine = factor(data, own, "estimate", "off"), factor(data, own, "engine_first", "engine")
    if off is not None and engine is not None:
        words = {"padded": engine.above, "engine": own.engine, "baseline": own.baseline}
        told = factor_ratio(data, off).told()
        said += " " + TEXTS["cells_corner_tested"].format(told=told, **words)
    else:
        said += " " + TEXTS["cells_corner_untested"].format(engine=own.engine)
    yield said


def _further(data: Data, of: Design) -> Iterator[str]:
    """More slots are a design of their own: the same engine against itself."""
    frame = data.ratios[data.ratios["name"].eq("slots_ratio") & data.ratios.value.notna()]
    for engine, slots in of.further:
        found = ratio_of(data, frame[frame.engine.eq(engine) & frame.slots.eq(slots)])
        if found is not None:
            words = {"engine": engine, "few": n.integer(of.slots), "many": n.integer(slots)}
            words |= {"workload": of.workloads[0], "told": found.told()}
            yield TEXTS["cells_further"].format(**words)
