"""Verdicts of all timings, judged anew: from the stored witnesses by today's thresholds, from the
rows, and from what only the timings together tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pandas as pd

from fourcells.analysis.load import Timings
from fourcells.spec import memory_limited
from fourcells.verdict import of_machine, whole

PREEMPTED = "preempted"
STALE, MIXED = "stale_spec", "mixed_session"
OF_MACHINE = ("contended", "throttled")
_NEVER = datetime.max.replace(tzinfo=UTC)


def judge(timings: Timings, thresholds: Mapping[str, float] | None = None) -> list[list[str]]:
    """The verdicts of every timing, sorted; `["clean"]` where there is none.

    Args:
        thresholds: replace those of `fourcells.verdict.THRESHOLDS`.
    """
    mixed = mixed_sessions(timings)
    rows = of_rows(timings.requests, len(timings.metadata))
    for timing, meta in enumerate(timings.metadata):
        if memory_limited(meta["spec"]) and PREEMPTED in rows[timing]:
            rows[timing].remove(PREEMPTED)
    return [
        whole(
            of_witness(meta, thresholds),
            rows[timing],
            [STALE] if timings.stale[timing] else [],
            [MIXED] if timing in mixed else [],
        )
        for timing, meta in enumerate(timings.metadata)
    ]


def witnesses(meta: Mapping) -> list[Mapping]:
    """What was seen in each window of a timing, in order; empty without a witness."""
    return (meta.get("witness") or {}).get("windows") or []


def of_witness(meta: Mapping, thresholds: Mapping[str, float] | None) -> list[str]:
    """`contended` and `throttled` of one timing."""
    seen = witnesses(meta)
    if seen:
        return of_machine(seen, thresholds)
    # Without a witness nothing can be judged anew: what was found then stays.
    return [word for word in meta["verdict"] if word in OF_MACHINE]


def of_rows(requests: pd.DataFrame, count: int) -> list[list[str]]:
    """`short_output`, `cache_hit` and `preempted` of each of `count` timings.

    Args:
        requests: rows of all timings, column `timing` being 0 to count - 1. An engine that does
            not count cache hits or preemptions has nulls there, and neither verdict.
    """
    happened = pd.DataFrame(
        {
            "short_output": requests["produced_tokens"].ne(requests["output_tokens"]),
            "cache_hit": requests["cached_tokens"].gt(0),
            PREEMPTED: requests["preemptions"].gt(0),
        }
    )
    happened = happened.fillna(False).astype(bool).groupby(requests["timing"]).any()
    found: list[list[str]] = [[] for _ in range(count)]
    for word in happened:
        for timing in happened.index[happened[word]]:
            found[timing].append(word)
    return found


def mixed_sessions(timings: Timings) -> set[int]:
    """Timings of another session than most of their block. A stale timing enters no comparison:
    it is none of them and has no say."""
    usual = usual_sessions(timings)
    return {
        timing
        for timing, block in enumerate(blocks(timings))
        if not timings.stale[timing] and session(timings.metadata[timing]) != usual[block]
    }


def blocks(timings: Timings) -> list[tuple[str, int]]:
    """(set, repeat) of each timing: what is measured together, since a set may come later."""
    return list(zip(timings.plan["set"], timings.plan["repeat"], strict=True))


def usual_sessions(timings: Timings) -> dict[tuple[str, int], str | None]:
    """Block -> the session that most of its timings share."""
    members: dict[tuple[str, int], list[Mapping]] = {}
    for timing, block in enumerate(blocks(timings)):
        if not timings.stale[timing]:
            members.setdefault(block, []).append(timings.metadata[timing])
    return {
        block: usual([session(meta) for meta in metadata], [started(meta) for meta in metadata])
        for block, metadata in members.items()
    }


def usual(values: Sequence, moments: Sequence[datetime | None]):
    """The value that most share; of equally many, the one whose first moment is the earliest."""
    counts = Counter(values)
    first: dict = {}
    for value, moment in zip(values, moments, strict=True):
        first[value] = min(first.get(value, _NEVER), moment or _NEVER)
    return min(counts, key=lambda value: (-counts[value], first[value]))


def session(meta: Mapping) -> str | None:
    """One machine state: host, boot and run of the workflow."""
    return meta["provenance"].get("session")


def started(meta: Mapping) -> datetime | None:
    """When the measurement began; None if that is not told."""
    return moment(meta["provenance"].get("started"))


def ended(meta: Mapping) -> datetime | None:
    """The stored end, else start plus load, warm-up and windows."""
    start, provenance = started(meta), meta["provenance"]
    if provenance.get("ended"):
        return moment(provenance["ended"])
    spent = [
        provenance.get("load_s"),
        provenance.get("warmup_s"),
        *(provenance.get("window_s") or []),
    ]
    return start and start + timedelta(seconds=sum(s or 0.0 for s in spent))


def moment(text: str | None) -> datetime | None:
    """A stored time; None for what is no time. Times are stored in UTC."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
