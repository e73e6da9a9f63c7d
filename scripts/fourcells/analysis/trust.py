"""What speaks against the timings: which are stale, mixed or from elsewhere, and what follows for
publishing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from fourcells.analysis import commands
from fourcells.analysis.attempts import one_way, without_reason
from fourcells.analysis.load import Timings
from fourcells.analysis.timings import version
from fourcells.analysis.verdicts import MIXED, blocks, started, usual, witnesses
from fourcells.verdict import CLEAN


def trust(
    timings: Timings,
    verdicts: Sequence[Sequence[str]],
    planned: Mapping[tuple[str, int], Sequence[str]],
    attempts: pd.DataFrame,
) -> dict:
    """Everything that is wrong with the timings together, with the commands that help.

    Args:
        verdicts: as `verdicts.judge` gives them.
        planned: (set, repeat) -> the paths of all its planned timings.
        attempts: as `attempts_table` gives it.

    Returns:
        `stale` and `elsewhere` (timing, what, again), `mixed_sessions` (set, repeat, timings,
        again: the command for the whole of them), `missing_sources` (source, reason, timings: how
        many), `one_way` and `without_reason` as in `attempts`.
    """
    paths = timings.plan["path"]
    mixed: dict[tuple[str, int], list[str]] = {}
    for timing, block in enumerate(blocks(timings)):
        if MIXED in verdicts[timing]:
            mixed.setdefault(block, []).append(paths[timing])
    return {
        "stale": [
            _named(paths[timing], f"its spec differs at {key}")
            for timing, key in enumerate(timings.stale)
            if key
        ],
        "mixed_sessions": [
            {
                "set": block[0],
                "repeat": block[1],
                "timings": mixed[block],
                "again": commands.again(*planned.get(block, mixed[block])),
            }
            for block in sorted(mixed)
        ],
        "elsewhere": elsewhere(timings.counted()),
        "missing_sources": missing_sources(timings.metadata),
        "one_way": one_way(attempts),
        "without_reason": without_reason(attempts),
    }


def _named(path: str, what: str) -> dict:
    return {"timing": path, "what": what, "again": commands.again(path)}


def comparisons(plan: pd.DataFrame) -> dict[str, str]:
    """Engine -> the comparison it belongs to: engines linked through their baselines share one."""
    group = {engine: engine for engine in plan["engine"]}
    pairs = plan[["engine", "baseline"]].dropna().drop_duplicates()
    for engine, baseline in pairs.itertuples(index=False, name=None):
        if baseline in group:
            old, new = group[engine], group[baseline]
            group = {name: new if of == old else of for name, of in group.items()}
    return group


def elsewhere(timings: Timings) -> list[dict]:
    """Timings of another host, or another version of their engine, than most of the comparison
    that they are part of; the cells of an engine are always compared."""
    group = comparisons(timings.plan)
    sets: dict[tuple, list[int]] = {}
    for row in timings.plan.itertuples():
        sets.setdefault(("host", group[row.engine], None), []).append(row.Index)
        sets.setdefault(("version", group[row.engine], row.backend), []).append(row.Index)
    found: dict[int, list[str]] = {}
    for (kind, _, backend), members in sets.items():
        metadata = [timings.metadata[timing] for timing in members]
        values = [
            meta["provenance"].get("host") if kind == "host" else version(meta, backend)
            for meta in metadata
        ]
        most = usual(values, [started(meta) for meta in metadata])
        name = "host" if kind == "host" else f"version of {backend}"
        for timing, value in zip(members, values, strict=True):
            if value != most:
                found.setdefault(timing, []).append(f"its {name} is {value}, not {most}")
    return [_named(timings.plan["path"][i], "; ".join(found[i])) for i in sorted(found)]


def missing_sources(metadata: Sequence[Mapping]) -> list[dict]:
    """What the witnesses could not tell and why, once each, with the number of timings."""
    told = Counter(
        pair
        for meta in metadata
        for pair in {
            pair for seen in witnesses(meta) for pair in (seen.get("missing") or {}).items()
        }
    )
    return [
        {"source": source, "reason": reason, "timings": count}
        for (source, reason), count in sorted(told.items())
    ]


def publishable(
    timings: Timings,
    verdicts: Sequence[Sequence[str]],
    found: Mapping,
    controls: Sequence[Mapping] = (),
) -> dict:
    """Whether the numbers may stand as a published result, and every reason against it.

    Args:
        found: as `trust` gives it.
        controls: as the summary has them.
    """
    total = len(timings.metadata)
    counted = timings.counted().metadata
    reasons = []
    if timings.missing:
        reasons.append(f"planned files missing: {len(timings.missing)}")
    flagged = [words for words in verdicts if list(words) != [CLEAN]]
    if flagged:
        kinds = Counter(word for words in flagged for word in words)
        words = ", ".join(f"{word} {count}" for word, count in sorted(kinds.items()))
        reasons.append(f"timings not clean: {len(flagged)} of {total} ({words})")
    if found["stale"]:
        reasons.append(f"timings of another spec than today's: {len(found['stale'])}")
    if found["mixed_sessions"]:
        repeats = ", ".join(str(each["repeat"]) for each in found["mixed_sessions"])
        reasons.append(f"repeats that mix timings of several sessions: {repeats}")
    reasons += [f"{each['timing']}: {each['what']}" for each in found["elsewhere"]]
    reasons += [
        f"all {each['timings']} replaced timings of {each['engine']} went {each['direction']}"
        for each in found["one_way"]
    ]
    reasons += [
        f"a control that must be 1 is not: {each['name']} is {each['estimate']:.3f}, "
        f"95 % interval {each['low']:.3f} to {each['high']:.3f}, p = {each['p_together']:.3f} "
        f"after correction for {len(controls)} controls"
        for each in controls
        if each["together"] is False
    ]
    if timings.plan["repeat"].nunique() < 2:
        reasons.append("one repeat: nothing says how far it would differ the next time")
    git = [meta["provenance"].get("git") or {} for meta in counted]
    if len({g.get("commit") for g in git}) > 1:
        reasons.append("timings of several commits are mixed")
    if any(g.get("commit") is None for g in git):
        reasons.append("the commit is not known")
    if any(g.get("dirty") for g in git):
        reasons.append("measured from a checkout with changes that were not committed")
    unseen = sum(not witnesses(meta) for meta in counted)
    if unseen:
        reasons.append(
            f"nothing watched what else the machine did: {unseen} of {len(counted)} timings"
        )
    return {"value": not reasons, "reasons": reasons}
