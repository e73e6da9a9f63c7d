"""The history: every attempt at every timing, and what the history of reruns gives away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from fourcells.analysis.check import identity_problem, row_problems, stale_key
from fourcells.analysis.load import KEYS, Timings, Unusable, read, stack, table_order
from fourcells.analysis.timings import served
from fourcells.analysis.verdicts import STALE, moment, of_rows, of_witness
from fourcells.files import attempts_in
from fourcells.schema import TIMING
from fourcells.verdict import CLEAN, whole

COLUMNS = [
    *KEYS, "attempt", "started", "session", "verdict", "reason", "tok_s", "window_s", "counts",
    "stale_key", "problem",
]  # fmt: skip
_TYPES = {
    **dict.fromkeys(["slots", "repeat", "attempt"], "int64"),
    **dict.fromkeys(["tok_s", "window_s"], "float64"),
    **dict.fromkeys(
        ["engine", "workload", "started", "session", "verdict", "reason", "stale_key", "problem"],
        "str",
    ),
    "counts": "bool",
}
# So many replaced timings of an engine that all moved one way are worth a warning.
LEAST_ONE_WAY = 3


def attempts_table(
    plan: Sequence[Mapping],
    timings: Timings,
    verdicts: Sequence[Sequence[str]],
    thresholds: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """One row per attempt file of the planned timings, by timing and number.

    Args:
        plan: entries with the folder `attempts`; an entry without one has no history.
        timings, verdicts: what counts now, and its verdicts.
        thresholds: the superseded are judged by, too.

    `counts`: this attempt is the timing that counts now. `problem`: why it cannot count, whatever
    its verdict; for a file that cannot be read everything else is null.
    """
    now = {
        tuple(key): (meta.get("attempt"), meta["provenance"].get("started"), ",".join(verdict))
        for key, meta, verdict in zip(
            timings.plan[KEYS].itertuples(index=False, name=None),
            timings.metadata,
            verdicts,
            strict=True,
        )
    }
    rows, read_rows, tables, metadata = [], [], [], []
    for entry in sorted(plan, key=table_order):
        for number, file in attempts_in(entry.get("attempts")).items():
            row = {key: entry[key] for key in KEYS} | {"attempt": number, "counts": False}
            rows.append(row)
            try:
                table, meta = read(str(file), TIMING)
            except (FileNotFoundError, Unusable) as error:
                row["problem"] = str(error)
                continue
            row["problem"] = identity_problem(entry["spec"], meta["spec"])
            row["stale_key"] = stale_key(entry["spec"], meta)
            read_rows.append(row)
            tables.append(table)
            metadata.append(meta)

    frame = stack(tables, TIMING)
    problems, found = row_problems(frame, metadata), of_rows(frame, len(metadata))
    totals = served(frame).groupby("timing").sum()
    for number, (row, meta) in enumerate(zip(read_rows, metadata, strict=True)):
        row["problem"] = row["problem"] or problems.get(number)
        row["started"] = meta["provenance"].get("started")
        row["session"] = meta["provenance"].get("session")
        row["reason"] = meta.get("reason")
        row["window_s"] = totals["window_s"][number]
        row["tok_s"] = totals["tokens"][number] / row["window_s"] if row["window_s"] else None
        stale = [STALE] if row["stale_key"] else []
        row["verdict"] = ",".join(whole(of_witness(meta, thresholds), found[number], stale))
        *current, verdict = now.get(tuple(row[key] for key in KEYS), (None, None, None))
        if current == [row["attempt"], row["started"]]:
            row |= {"counts": True, "verdict": verdict}
    return pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES)


def one_way(attempts: pd.DataFrame) -> list[dict]:
    """Engines whose reruns went one way only.

    A timing was replaced if a good attempt under today's spec came before the one that counts; it
    moved by the throughput that counts against that of its first good attempt. The rule: at least
    `LEAST_ONE_WAY` timings of the engine were replaced, and all moved the same way. That is what
    is left when only unwelcome numbers are measured again.

    Returns:
        `engine`, `direction` (up or down) and `timings`, how many were replaced.
    """
    moves: dict[str, list[float]] = {}
    good = attempts[attempts["problem"].isna() & attempts["stale_key"].isna()]
    for (engine, *_), rows in _measured_again(good):
        current = rows[rows["counts"]]
        if current.empty:
            continue
        before = rows[rows["attempt"] < current["attempt"].iloc[0]]
        if len(before):
            moves.setdefault(engine, []).append(current["tok_s"].iloc[0] - before["tok_s"].iloc[0])
    return [
        {"engine": engine, "direction": "up" if moved[0] > 0 else "down", "timings": len(moved)}
        for engine, moved in moves.items()
        if len(moved) >= LEAST_ONE_WAY and (min(moved) > 0 or max(moved) < 0)
    ]


def without_reason(attempts: pd.DataFrame) -> list[dict]:
    """Attempts that replaced a clean one under the same spec, though no verdict asked for it.

    A whole repeat that is measured again has its reason if any of its timings was not clean, or
    if they were of several sessions: one session for the whole block is what makes it comparable.

    Returns:
        The keys of the timing and `attempt`, the number of the later one.
    """
    good = attempts[attempts["problem"].isna()]
    good = good.assign(moment=[moment(text) for text in good["started"].fillna("")])
    found = []
    for _, rows in _measured_again(good):
        pairs = zip(rows.itertuples(), list(rows.itertuples())[1:], strict=False)
        for before, after in pairs:
            asked = before.verdict != CLEAN or _is(before.stale_key) or _is(after.stale_key)
            if not asked and not _block_was_due(good[good["repeat"] == after.repeat], after):
                found.append({key: getattr(after, key) for key in (*KEYS, "attempt")})
    return found


def _measured_again(attempts: pd.DataFrame):
    """The attempts of each timing that has several; of ten thousand timings most have one."""
    return attempts[attempts.duplicated(KEYS, keep=False)].groupby(KEYS, sort=False)


def _is(value: object) -> bool:
    return isinstance(value, str)


def _block_was_due(block: pd.DataFrame, rerun) -> bool:
    """Whether a rerun was part of a rerun of its whole repeat that had a reason.

    Args:
        block: all good attempts of the repeat, with their `moment`.
        rerun: one of them.
    """
    ours = block[block["session"] == rerun.session]
    earlier = block[block["moment"] < ours["moment"].min()]
    last = earlier.drop_duplicates(KEYS, keep="last")  # by timing and number
    again = set(ours[KEYS].itertuples(index=False, name=None))
    whole_block = set(last[KEYS].itertuples(index=False, name=None)) <= again
    due = last["session"].nunique() > 1 or last["verdict"].ne(CLEAN).any()
    return bool(whole_block and due)
