"""What a timing must satisfy before it is used. Each check returns problems, none raises."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from fourcells.spec import first_difference

# An arrival or an admission at t = 0 is right; a token at t = 0 was never timed.
TIMES = ("arrival_s", "admitted_s", "first_token_s", "finished_s", "returned_s")
POSITIVE_TIMES = TIMES[2:]
# The keys of a spec that say which timing it is; all others say how it is measured.
IDENTITY = ("engine", "workload", "slots", "repeat")


@dataclass(frozen=True)
class Problem:
    """What is wrong with one file. `path` is the file, `timing` the file to measure again."""

    path: str
    timing: str
    what: str


class BadTimings(ValueError):
    """Some timings cannot be used. The message lists each file, why, and the command to run."""

    def __init__(self, problems: list[Problem]):
        self.problems = problems
        again = sorted({p.timing for p in problems})
        files = "1 file" if len(problems) == 1 else f"{len(problems)} files"
        lines = [f"{files} cannot be used:"]
        lines += [f"  {p.path}: {p.what}" for p in problems]
        lines += ["Measure again:", f"  snakemake -j1 --forcerun {shlex.join(again)}"]
        super().__init__("\n".join(lines))


def identity_problem(planned: Mapping, found: Mapping) -> str | None:
    """Why an embedded spec is that of another timing, as in a swapped or copied file; else None."""
    return spec_problem(
        {key: planned[key] for key in IDENTITY}, {key: found.get(key) for key in IDENTITY}
    )


def spec_problem(planned: Mapping, found: Mapping) -> str | None:
    """Why an embedded spec is not the one that was expected; None when it is."""
    difference = first_difference(_stored(planned), found)
    if difference is None:
        return None
    key, want, have = difference
    return f"its spec differs at {key}: planned {json.dumps(want)}, found {json.dumps(have)}"


def stale_key(planned: Mapping, meta: Mapping) -> str | None:
    """The first key at which a timing's spec is not what the config asks today, or `protocol`."""
    difference = first_difference(_stored(planned), meta["spec"])
    if difference:
        return difference[0]
    protocol = planned.get("protocol")
    return None if meta.get("protocol", protocol) == protocol else "protocol"


def _stored(spec: Mapping) -> dict:
    """Through JSON, so that a tuple equals the list that it is stored as."""
    return json.loads(json.dumps(dict(spec)))


def row_problems(requests: pd.DataFrame, metadata: list[dict]) -> dict[int, str]:
    """Timing -> what is wrong with its rows: none, too few, short outputs, times never taken.

    Args:
        requests: rows of all timings, column `timing` being the index into `metadata`.
    """
    problems: dict[int, str] = {}
    counts = requests["timing"].value_counts()
    for timing, meta in enumerate(metadata):
        spec = meta["spec"]
        want = spec["requests"]["count"] * spec.get("samples", 1)
        have = counts.get(timing, 0)
        if have != want:
            problems[timing] = f"it holds {have} requests, planned are {want}"

    def note(bad: pd.Series, what: str) -> None:
        for timing, rows in requests[bad].groupby("timing"):
            request, sample = (rows[c].iloc[0] for c in ("request", "sample"))
            where = f"{len(rows)} of {counts[timing]} requests"
            first = f"request {request} of sample {sample}"
            problems.setdefault(timing, f"{what} in {where}, first in {first}")

    short = requests["produced_tokens"].ne(requests["output_tokens"])
    note(short, "produced_tokens is not output_tokens")
    for time in TIMES:
        note(requests[time].isna(), f"{time} is null")
    for time in POSITIVE_TIMES:
        note(requests[time] <= 0, f"{time} is not after the start")
    return problems


def hash_problems(metadata: Mapping[int, Mapping]) -> dict[int, str]:
    """Timing -> which hash of its model or prompts is not that of the timings beside it.

    Args:
        metadata: of the timings that are compared with each other, by timing.

    One model serves all timings; the prompts of a workload, repeat and sample are the same for
    all engines and slots. The value that most timings share counts as the right one.
    """
    groups: dict[tuple[str, str], dict[int, str | None]] = {}
    for timing, meta in metadata.items():
        spec, provenance = meta["spec"], meta["provenance"]
        groups.setdefault(("model", "all timings"), {})[timing] = provenance.get("model_hash")
        hashes = provenance.get("prompt_hash") or []
        for sample in range(spec.get("samples", 1)):
            of = f"workload {spec['workload']}, repeat {spec['repeat']}, window {sample + 1}"
            value = hashes[sample] if sample < len(hashes) else None
            groups.setdefault(("prompts", of), {})[timing] = value
    problems: dict[int, str] = {}
    for (kind, of), values in groups.items():
        usual = _most_common(values.values())
        for timing, value in values.items():
            if value is None:
                problems.setdefault(timing, f"it carries no hash of its {kind}")
            elif value != usual:
                problems.setdefault(
                    timing, f"the hash of its {kind}, {value}, is not that of {of}, {usual}"
                )
    return problems


def _most_common(values: Iterable[str | None]) -> str | None:
    counts = Counter(v for v in values if v is not None)
    return counts.most_common(1)[0][0] if counts else None
