"""Question 8: how to present results of runs that differ."""

from __future__ import annotations

from collections.abc import Iterator

from fourcells.analysis import commands, lesson
from fourcells.report import numbers as n
from fourcells.report.blocks import Question
from fourcells.report.catalogue import TEXTS
from fourcells.report.chains import Pair
from fourcells.report.data import Data, noise_floor
from fourcells.report.evidence import missing, pair, ratio
from fourcells.report.grid import first
from fourcells.report.noise_section import PRECISE
from fourcells.report.timings import KEYS, unclean


def two_runs(data: Data) -> Question:
    """8: runs that are apart, and what to make of them."""
    (static, _), (low, high) = (lesson.runs_apart(c, "B") for c in ("static_16", "vllm_16"))
    # the lesson gives whole percent
    words = {"low": n.integer(100 * low), "high": n.integer(100 * high)}
    words["static"] = n.percent(static)
    see = ["noise", "timings", "history"]
    return Question(TEXTS["q8_head"].format(**words), list(_two_runs(data)), see)


def _two_runs(data: Data) -> Iterator[str]:
    own = pair(data)
    if own is None:
        yield missing("pair", commands.MEASURE)
        return
    yield from _apart(data, own)
    name = f"R_{own.workload}"
    found = ratio(data, own, name)
    if found is not None:
        said = TEXTS["q8_inside"].format(told=found.told())
        worst = _worst_pairing(data, name, found.estimate)
        if worst:
            said += " " + TEXTS["q8_worst"].format(**worst)
        yield said
    yield from _witness(data, own)
    floor = noise_floor(data)
    if floor is not None:
        yield TEXTS["q8_floor"].format(floor=n.percent(floor))


def _apart(data: Data, own: Pair) -> Iterator[str]:
    """1 - min/max of both engines on the mixed workload."""
    rows = data.noise[data.noise.workload.eq(own.workload) & data.noise.slots.eq(own.slots)]
    pairs = [rows[rows.engine.eq(engine)] for engine in (own.baseline, own.engine)]
    counts = [first(part.n) for part in pairs]
    if None in counts:
        return
    if min(counts) < 2:
        yield TEXTS["q8_one"]
        yield missing("repeats", PRECISE)
        return
    yield TEXTS["q8_apart"].format(
        n=n.integer(min(counts)),
        baseline=own.baseline,
        engine=own.engine,
        workload=own.workload,
        own=n.percent(first(pairs[0]["drop"])),
        other=n.percent(first(pairs[1]["drop"])),
    )


def _worst_pairing(data: Data, name: str, estimate: float) -> dict[str, str]:
    """The ends of the ratio when its timings are paired across repeats; empty if not known, or if
    the summary speaks of another pair."""
    found = ((data.summary.get("limits") or {}).get("by_ratio") or {}).get(name) or {}
    worst = found.get("worst_pairing") or {}
    same = not n.is_missing(found.get("estimate")) and abs(found["estimate"] / estimate - 1) < 1e-6
    if not same or found.get("n", 0) < 2 or n.is_missing(worst.get("low")):
        return {}
    return {end: n.ratio(worst[end]) for end in ("low", "high")}


def _witness(data: Data, own: Pair) -> Iterator[str]:
    """What else the machine did while the baseline ran, and how many timings are clean."""
    frame = data.timings
    cell = frame[frame.engine.eq(own.baseline) & frame.workload.eq(own.workload)]
    share = cell.foreign_cpu_share.dropna()
    if share.empty:
        return
    total = len(frame.drop_duplicates(KEYS))
    clean = total - len(unclean(data))
    said = TEXTS["q8_witness"].format(
        baseline=own.baseline,
        workload=own.workload,
        share=n.percent(share.max()),
        clean=n.integer(clean),
        total=n.integer(total),
    )
    yield said if clean == total else f"{said} {TEXTS['q8_unclean']}"
