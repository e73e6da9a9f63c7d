"""What an answer rests on, in words: ratios, factors, means, and what was not measured."""

from __future__ import annotations

from dataclasses import dataclass

from fourcells.report import numbers as n
from fourcells.report.catalogue import TEXTS
from fourcells.report.chains import Factor, Pair, factors, main_pair
from fourcells.report.data import Data, noise_floor, ratio_interval
from fourcells.report.grid import first, mean
from fourcells.report.grids import workload_pair
from fourcells.report.main_group import main_group
from fourcells.report.wording import bracketed, direction, sureness, within_floor


@dataclass(frozen=True)
class Ratio:
    """Throughput over throughput, or latency over latency, with its 95 % interval."""

    estimate: float
    low: float | None
    high: float | None
    n: int
    lesson: float | None = None
    floor: float | None = None

    @property
    def way(self) -> str:
        """'above', 'below', 'unsure' or 'open', as `wording.direction` decides."""
        return direction(self.low, self.high, self.n, self.estimate, self.floor)

    @property
    def value(self) -> str:
        return n.ratio(self.estimate)

    @property
    def sure(self) -> str:
        """The interval in words, the lesson's value, and the noise floor where that decides."""
        sure = sureness(self.low, self.high, self.n, self.lesson)
        alone = direction(self.low, self.high, self.n)
        if alone in ("above", "below") and within_floor(self.estimate, self.floor):
            sure += "; " + TEXTS["within_floor"].format(floor=n.percent(self.floor))
        return sure

    def told(self) -> str:
        """'2.98x (95 % interval 2.90x to 3.07x, 5 repeats; lesson 2.98x)'."""
        return TEXTS["ratio_told"].format(value=self.value, sure=self.sure)

    def bracketed(self) -> str:
        """'2.98x [2.90x, 3.07x]', or the estimate alone."""
        return bracketed(self.estimate, self.low, self.high)


def pair(data: Data) -> Pair | None:
    """The engine, its baseline, the mixed workload and the slots that the page speaks of."""
    known = main_pair(data)
    if known is not None:
        return known
    told = main_group(data)
    if told.empty:
        return None
    _, mixed = workload_pair(data)
    names = [name.removeprefix("R_") for name in told["name"] if name.startswith("R_")]
    workload = mixed if mixed in names or not names else names[-1]
    head = told.iloc[0]
    return Pair(str(head.engine), str(head.baseline), str(workload), int(head.slots))


def ratio(data: Data, of: Pair, name: str) -> Ratio | None:
    """A ratio of the pair by its name in the table; None if no repeat has it."""
    frame = data.ratios[data.ratios.value.notna()]
    same = frame["name"].eq(name) & frame.engine.eq(of.engine) & frame.slots.eq(of.slots)
    same &= frame.baseline.eq(of.baseline) | frame.baseline.isna()
    return ratio_of(data, frame[same])


def ratio_of(data: Data, rows) -> Ratio | None:
    """The ratio of these rows of the table of ratios."""
    if rows.empty:
        return None
    return Ratio(**ratio_interval(data, rows), lesson=first(rows.lesson))


def factor(data: Data, of: Pair, path: str, name: str) -> Factor | None:
    """A factor of the attribution; None if no repeat has it."""
    return next((each for each in factors(data, of, path) if each.name == name), None)


def factor_ratio(data: Data, of: Factor) -> Ratio:
    return Ratio(of.estimate, of.low, of.high, of.n, floor=noise_floor(data))


def cell_mean(frame, column: str, engine: str, workload: str, slots: int) -> float | None:
    """Mean over the repeats of a cell in a table; None where it has none."""
    same = frame.engine.eq(engine) & frame.workload.eq(workload) & frame.slots.eq(slots)
    return mean(frame[same][column])


def backend(data: Data, engine: str) -> str | None:
    """As the timings name it."""
    found = first(data.timings[data.timings.engine.eq(engine)].backend)
    return None if found is None else str(found)


def listed(words: list[str]) -> str:
    """'A, B and C'."""
    if len(words) < 2:
        return "".join(words)
    return TEXTS["list_and"].join([", ".join(words[:-1]), words[-1]])


def missing(what: str, command: str) -> str:
    """What was not measured, by its name in the texts, and the command that measures it."""
    return TEXTS["not_measured"].format(what=TEXTS[f"what_{what}"], command=command)
