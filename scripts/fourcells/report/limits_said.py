"""What speaks against the page's own conclusions: slots that never bind, few repeats, controls that
failed, noise, and what was not measured. `notices` says what is wrong with timings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from fourcells.analysis import commands
from fourcells.analysis.stats import CONFIDENCE, half_width, holds
from fourcells.report import kv_rules
from fourcells.report import numbers as n
from fourcells.report.catalogue import FACTORS, TEXTS
from fourcells.report.chains import WAYS, factors, main_pair
from fourcells.report.data import Data, noise_floor
from fourcells.report.data_words import said
from fourcells.report.drain import drains, never_bind, subject
from fourcells.report.evidence import Ratio, factor_ratio, listed, ratio_of
from fourcells.report.grid import groups
from fourcells.report.grids import ratio_meaning
from fourcells.report.noise_section import PRECISE
from fourcells.report.notices import Notice

# What an interval of two repeats is compared with.
ENOUGH = 5
# So few intervals that none is expected to miss by chance need no word on it.
MANY = 20


def limits(data: Data) -> list[Notice]:
    """Further notices, each only where it applies."""
    return [
        *_never_bind(data),
        *_repeats(data),
        *_controls(data),
        *_claims(data),
        *_not_concluded(data),
    ]


def _never_bind(data: Data) -> Iterator[Notice]:
    """One notice per slot count and number of requests."""
    found: dict[tuple, list] = {}
    for cell in never_bind(data):
        found.setdefault((cell.slots, cell.requests), []).append(cell)
    for (slots, requests), cells in sorted(found.items()):
        words = {"slots": n.integer(slots), "requests": n.integer(requests)}
        by_engine: dict[str, list[str]] = {}
        for cell in cells:
            by_engine.setdefault(cell.engine, []).append(cell.workload)
        each = [
            TEXTS["engine_on"].format(engine=engine, workload=listed(workloads))
            for engine, workloads in by_engine.items()
        ]
        yield Notice(TEXTS["limit_never_bind"].format(cells=TEXTS["join"].join(each), **words))


def _repeats(data: Data) -> Iterator[Notice]:
    """One or two repeats everywhere, or one in some cells."""
    frame = data.throughput[data.throughput.tok_s.notna()]
    counts = {key: part.repeat.nunique() for key, part in groups(frame, CELL)}
    if not counts:
        return
    most = max(counts.values())
    if most == 1:
        yield Notice(TEXTS["limit_one"], commands=[PRECISE])
    elif most == 2:
        wider = half_width(1, 2) / half_width(1, ENOUGH)
        words = {"wider": n.number(wider, 1), "enough": n.integer(ENOUGH)}
        yield Notice(TEXTS["limit_two"].format(**words), commands=[PRECISE])
    few = [key for key, count in counts.items() if count == 1]
    if most > 1 and few:
        cells = [f"{engine}/{workload}/slots{int(slots)}" for engine, workload, slots in few]
        words = {"n": n.integer(len(few)), "total": n.integer(len(counts))}
        yield Notice(TEXTS["limit_uneven"].format(cells=", ".join(cells), **words))


CELL = ["engine", "workload", "slots"]


def _controls(data: Data) -> Iterator[Notice]:
    """Controls that failed, or that nothing can be told of."""
    frame = data.controls[data.controls["name"].notna()]
    if frame.empty:
        yield Notice(TEXTS["limit_no_control"])
        return
    total = n.integer(len(frame))
    failed = frame[frame.passed.eq(False)]
    if len(failed):
        still = failed[failed.together.eq(False)]
        words = {"n": n.integer(len(failed)), "total": total, "still": n.integer(len(still))}
        together = "limit_control_still" if len(still) else "limit_control_chance"
        said_together = TEXTS[together].format(**words)
        yield Notice(
            TEXTS["limit_control_failed"].format(together=said_together, **words),
            [_control(row) for row in failed.itertuples()],
        )
    unknown = frame[frame.passed.isna()]
    if len(unknown):
        words = {"n": n.integer(len(unknown)), "total": total}
        yield Notice(TEXTS["limit_control_open"].format(**words))


def _control(row) -> str:
    ratio = Ratio(row.estimate, row.low, row.high, int(row.n))
    words = {"control": said(row.name), "told": ratio.told()}
    if n.is_missing(row.p_together):
        return TEXTS["limit_control"].format(**words)
    return TEXTS["limit_control_p"].format(p=n.number(row.p_together, 3), **words)


# The quotient is a ratio, and scheduling a factor between the two ways.
TOLD_BEFORE = {"quotient", "scheduling"}


def claims(data: Data) -> dict[str, Ratio]:
    """Every ratio of throughputs, every factor of the main pair and every rule of reservation
    against another that has an interval, by what it is called."""
    found: dict[str, Ratio] = {}
    frame = data.ratios[data.ratios.value.notna()]
    frame = frame[~frame["name"].astype(str).str.startswith("E2E_")]
    keys = ["engine", "slots", "name", "baseline"]
    for (engine, slots, name, baseline), part in groups(frame, keys):
        meaning = ratio_meaning(data, name, engine, baseline)
        words = {"name": meaning, "slots": n.integer(slots)}
        _add(found, TEXTS["limit_claim"].format(**words), ratio_of(data, part))
    pair = main_pair(data)
    for path in (*WAYS, "between", "estimate") if pair else ():
        for factor in factors(data, pair, path):
            if factor.name in TOLD_BEFORE:
                continue
            words = {"name": FACTORS.get(factor.name, factor.name), "slots": n.integer(pair.slots)}
            words |= {"above": factor.above, "below": factor.below}
            _add(found, TEXTS["limit_factor"].format(**words), factor_ratio(data, factor))
    for name, ratio in _reserved(data):
        _add(found, name, ratio)
    return found


def _reserved(data: Data) -> Iterator[tuple[str, Ratio]]:
    """The throughputs that the section on memory compares: each rule against that of the maximum
    length, and blocks on demand against the exact length."""
    named = {rule.name: rule for rule in kv_rules.rules(data)}
    compared = [(name, "max") for name in named if name not in ("max", kv_rules.ONE_BLOCK)]
    for above, below in [*compared, ("on_demand", "exact")]:
        if above not in named or below not in named:
            continue
        ratio = kv_rules.paired(named[above], named[below])
        if ratio is None:
            continue
        words = {"above": named[above].words, "below": named[below].words}
        words["workload"] = named[above].first("workload")
        name = TEXTS["limit_rule"].format(slots=n.integer(named[above].first("slots")), **words)
        yield name, replace(ratio, floor=noise_floor(data))


def _add(found: dict[str, Ratio], name: str, ratio: Ratio | None) -> None:
    if ratio is not None and ratio.n > 1 and not n.is_missing(ratio.low):
        found[name] = ratio


def _claims(data: Data) -> Iterator[Notice]:
    """The noise floor beside the smallest effect that is claimed, and how many are claimed."""
    found = claims(data)
    if not found:
        return
    floor = noise_floor(data)
    claimed = {name: ratio for name, ratio in found.items() if ratio.way in ("above", "below")}
    if floor is None:
        yield Notice(TEXTS["limit_no_floor"])
    else:
        hidden = [
            name
            for name, ratio in found.items()
            if name not in claimed and not holds(ratio.low, ratio.high)
        ]
        sentence = TEXTS["limit_floor"].format(floor=n.percent(floor))
        if claimed:
            name = min(claimed, key=lambda key: abs(math.log(claimed[key].estimate)))
            smallest = {"name": name, "value": claimed[name].value}
            sentence += " " + TEXTS["limit_smallest"].format(**smallest)
        if hidden:
            count = n.integer(len(hidden))
            sentence += " " + TEXTS["limit_hidden"].format(n=count)
        yield Notice(sentence, hidden)
    if len(found) >= MANY:
        words = {
            "claimed": n.integer(len(claimed)),
            "total": n.integer(len(found)),
            "chance": n.number((1 - CONFIDENCE) * len(found), 1),
        }
        yield Notice(TEXTS["limit_many"].format(**words))


def _not_concluded(data: Data) -> Iterator[Notice]:
    """What the page cannot conclude, since nobody measured it."""
    missing = dict(_missing(data))
    if missing:
        items = [TEXTS[f"limit_missing_{what}"] for what in missing]
        yield Notice(TEXTS["limit_missing"], items, list(dict.fromkeys(missing.values())))


def _missing(data: Data) -> Iterator[tuple[str, str]]:
    """(name of it in the texts, the command that measures it)."""
    names = data.ratios["name"].astype(str)
    if not names.str.match(r"R_").any():
        yield "pair", commands.MEASURE
    elif not names.str.match(r"Q$|Q_").any():
        yield "quotient", commands.MEASURE
    pair = main_pair(data)
    if pair is None or not factors(data, pair, "engine_first"):
        yield "ideas", commands.MEASURE
    chosen = subject(data)
    if chosen is None or len(drains(data, *chosen)) < 2:
        yield "slots", commands.MEASURE
    if not _coming(data.arrivals):
        yield "arrivals", commands.make("arrivals")
    if not kv_rules.rules(data):
        yield "kv", commands.make("kv")


def _coming(arrivals: pd.DataFrame) -> bool:
    return bool(arrivals.rate.notna().any())
