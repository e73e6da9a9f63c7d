"""Which cells are compared, and in which ratio, each formed inside one repeat.

R_w  = T(engine, w, s) / T(baseline, w, s), for the slots s that both were measured with
Q    = R_B / R_A: what mixed lengths add to the gain, an estimate and not a causal separation
slots_ratio = T(engine, A, most slots) / T(engine, A, fewest slots)
loss_when_mixed = T(engine, B, s) / T(engine, A, s)
E2E_n = how many times sooner than by the baseline a request of n output tokens of B is returned:
        median E2E(baseline) / median E2E(engine)

A further mixed workload w has its own Q_w, loss_when_mixed_w and E2E_w_n. A repeat that lacks one
of the cells has no ratio; the number of repeats n falls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import pandas as pd

from fourcells.analysis import lesson
from fourcells.analysis.load import Timings

Series = dict[int, float]  # repeat -> value
Cell = tuple[str, str, int]  # engine, workload, slots


@dataclass(frozen=True)
class Ratio:
    """A product of cells' values over another.

    Attributes:
        above, below: the cell and its values in each repeat, whether the others have it or not.
        lesson: the lesson's figure.
    """

    name: str
    engine: str
    baseline: str | None
    slots: int
    baseline_slots: int | None
    above: list[tuple[Cell, Series]]
    below: list[tuple[Cell, Series]]
    lesson: float | None

    @cached_property
    def values(self) -> Series:
        """The ratio in every repeat that has all cells, repeats in ascending order."""
        above, below = ([series for _, series in side] for side in (self.above, self.below))
        repeats = set.intersection(*(set(series) for series in above + below))
        return {r: prod(s[r] for s in above) / prod(s[r] for s in below) for r in sorted(repeats)}

    @property
    def cells(self) -> list[Cell]:
        return [cell for cell, _ in self.above + self.below]

    @property
    def key(self) -> tuple:
        return self.name, self.engine, self.baseline, self.slots


def paired(above: Series, below: Series) -> Series:
    """above / below in every repeat that both have, repeats in ascending order."""
    return {repeat: above[repeat] / below[repeat] for repeat in sorted(above.keys() & below.keys())}


def by_cell(throughput: pd.DataFrame) -> dict[Cell, Series]:
    """Tokens per second of every cell and repeat."""
    cells: dict[Cell, Series] = {}
    columns = ["engine", "workload", "slots", "repeat", "tok_s"]
    for *cell, repeat, tok_s in throughput[columns].itertuples(index=False, name=None):
        cells.setdefault(tuple(cell), {})[repeat] = tok_s
    return cells


def all_ratios(timings: Timings, throughput: pd.DataFrame, latency: pd.DataFrame) -> list[Ratio]:
    """Every ratio, those without a value in any repeat too.

    Args:
        throughput, latency: as their modules make them.
    """
    plan, cells = timings.plan, by_cell(throughput)
    compared = plan.dropna(subset="compare_with").drop_duplicates("workload")
    compare_with = dict(zip(compared["workload"], compared["compare_with"], strict=True))
    engines = plan.drop_duplicates("engine").set_index("engine")
    like = engines["lesson_engine"].to_dict()
    baselines = engines["baseline"].dropna().to_dict()
    return [
        *_gains(cells, list(dict.fromkeys(plan["workload"])), compare_with, baselines, like),
        *_slots_ratios(cells, like),
        *_losses(cells, compare_with, like),
        *_sooner(latency, compare_with, baselines, like),
    ]


def _named(name: str, workload: str) -> str:
    """The usual mixed workload has the plain name; a further one names itself."""
    return name if workload == "B" else f"{name}_{workload}"


def _gains(
    cells: Mapping[Cell, Series],
    workloads: Sequence[str],
    compare_with: Mapping[str, str],
    baselines: Mapping[str, str],
    like: Mapping[str, str | None],
) -> Iterator[Ratio]:
    """R of every workload and Q of every mixed one."""
    figures = lesson.ratios()
    for engine, baseline in baselines.items():
        both = {s for e, _, s in cells if e == engine} & {s for e, _, s in cells if e == baseline}
        for slots in sorted(both):
            pair = [lesson.cell(like[e], slots) for e in (engine, baseline)]
            known = figures if pair == ["vllm_16", "static_16"] else {}

            def term(name, workload, slots=slots):
                cell = (name, workload, slots)
                return cell, cells.get(cell, {})

            made = {f"R_{w}": ([term(engine, w)], [term(baseline, w)]) for w in workloads}
            for w, other in compare_with.items():
                made[_named("Q", w)] = (
                    [term(engine, w), term(baseline, other)],
                    [term(baseline, w), term(engine, other)],
                )
            for name, sides in made.items():
                yield Ratio(name, engine, baseline, slots, slots, *sides, known.get(name))


def _slots_ratios(cells: Mapping[Cell, Series], like: Mapping[str, str | None]) -> Iterator[Ratio]:
    for engine in like:
        slots = sorted(s for e, w, s in cells if (e, w) == (engine, "A"))
        if len(slots) < 2:
            continue
        few, many = ((engine, "A", s) for s in (slots[0], slots[-1]))
        ends = [lesson.cell(like[engine], s) for s in (slots[0], slots[-1])]
        known = lesson.ratios()["slots_ratio"] if ends == ["vllm_16", "vllm_256"] else None
        sides = [(many, cells[many])], [(few, cells[few])]
        yield Ratio("slots_ratio", engine, None, slots[-1], None, *sides, known)


def _losses(
    cells: Mapping[Cell, Series], compare_with: Mapping[str, str], like: Mapping[str, str | None]
) -> Iterator[Ratio]:
    for engine, workload, slots in cells:
        uniform = (engine, compare_with.get(workload), slots)
        if uniform in cells:
            mixed = (engine, workload, slots)
            loss = lesson.loss(lesson.cell(like[engine], slots), workload, uniform[1])
            sides = [(mixed, cells[mixed])], [(uniform, cells[uniform])]
            name = _named("loss_when_mixed", workload)
            known = None if loss is None else 1 + loss
            yield Ratio(name, engine, None, slots, None, *sides, known)


def _sooner(
    latency: pd.DataFrame,
    compare_with: Mapping[str, str],
    baselines: Mapping[str, str],
    like: Mapping[str, str | None],
) -> Iterator[Ratio]:
    """E2E of the mixed workloads, by output length.

    An engine's slots are compared with the same of its baseline; else with the most that are
    fewer, as the lesson compares 256 slots with a static batch of 16; else with the fewest.
    """
    medians: dict[Cell, dict[int, Series]] = {}  # by output tokens
    columns = ["engine", "workload", "slots", "output_tokens", "repeat", "e2e_returned_s"]
    for *cell, tokens, repeat, seconds in latency.loc[
        latency["workload"].isin(compare_with), columns
    ].itertuples(index=False, name=None):
        medians.setdefault(tuple(cell), {}).setdefault(tokens, {})[repeat] = seconds
    for ours, lengths in medians.items():
        engine, workload, slots = ours
        baseline = baselines.get(engine)
        has = sorted(s for e, w, s in medians if (e, w) == (baseline, workload))
        if not has:
            continue
        beside = max((s for s in has if s <= slots), default=has[0])
        theirs = (baseline, workload, beside)
        names = [lesson.cell(like[e], s) for e, s in ((engine, slots), (baseline, beside))]
        for rank, tokens in enumerate(sorted(lengths)):
            if tokens not in medians[theirs]:
                continue
            e2e = [lesson.latency(name, workload, rank, len(lengths))[1] for name in names]
            # The lesson tells how much sooner vLLM returns than its static batch.
            known = e2e[1] / e2e[0] if None not in e2e and names[1] == "static_16" else None
            sides = [(theirs, medians[theirs][tokens])], [(ours, lengths[tokens])]
            name = f"{_named('E2E', workload)}_{tokens}"
            yield Ratio(name, engine, baseline, slots, beside, *sides, known)
