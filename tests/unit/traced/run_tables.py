"""The machine, every timing and its witness, attempts, and repeats of several sessions."""

from __future__ import annotations

import pandas as pd

from traced.rows import Expected, Row, matched, means, one, shown
from traced.truth import CELL, Value

CALIBRATIONS = ("python_mloops", "matmul_gflops")


def crossing(row: Row) -> Expected:
    """A timing of another session, or the mean of its repeat's rest."""
    frame = row.truth.tables["timings"].drop_duplicates([*CELL, "repeat"])
    timing = matched(row.words("texts")["timing_name"], row["timing"])
    rest = matched(row.words("texts")["rest_of_repeat"], row["timing"])
    repeat = int((rest or timing)["repeat"])
    mixed = frame.verdict.str.contains("mixed_session")
    if rest:
        part = frame[frame.repeat.eq(repeat) & ~mixed]
        named = [("count", repeat), ("count", len(part))]
    else:
        part, named = timing_rows(row), [("count", repeat)]
    columns = [f"{name}_{when}" for name in CALIBRATIONS for when in ("before", "after")]
    first = pd.to_datetime(part.started, utc=True, format="ISO8601").min()
    return means(dict.fromkeys(columns, "rate"), part) | {
        "timing": named,
        "started": first.strftime("%Y-%m-%d %H:%M:%S"),
    }


def timing_rows(row: Row) -> pd.DataFrame:
    """The windows of a timing by its name: 'vllm/B/slots16, repeat 2'."""
    named = matched(row.words("texts")["timing_name"], row["timing"])
    engine, workload, slots = named["cell"].split("/")
    return row.truth.rows(
        "timings",
        engine=engine,
        workload=workload,
        slots=int(slots.removeprefix("slots")),
        repeat=int(named["repeat"]),
    )


def setting(row: Row) -> Expected:
    return {"value": fact(row, row["setting"], {**row.truth.summary["measured"]})}


def machine(row: Row) -> Expected:
    known = row.truth.summary["machine"] | row.truth.summary["measured"]["versions"]
    return {"value": fact(row, row["setting"], known)}


def fact(row: Row, words: str, known: dict) -> list[Value]:
    """The numbers of a fact: of a name or a version none."""
    names = {told: key for key, told in row.words("fact_names").items()}
    value = known.get(names.get(words, words))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    return [("general" if isinstance(value, int) else "quantity", value)]


def applied(row: Row) -> Expected:
    return {
        cell: fact(row, row["setting"], options)
        for cell, options in row.truth.summary["applied"].items()
    }


def window_of(row: Row) -> pd.Series:
    """A window of a timing, by its place in the order in which they ran."""
    frame = row.truth.tables["timings"]
    frame = frame.assign(at=pd.to_datetime(frame.started, utc=True, format="ISO8601"))
    return frame.sort_values(["at", "sample"], kind="stable").iloc[int(row["order"]) - 1]


def timing(row: Row) -> Expected:
    window = window_of(row)
    kinds = dict.fromkeys(["slots", "repeat", "sample", "attempt"], "count")
    kinds |= dict.fromkeys(["window_s", "load_s", "warmup_s"], "seconds")
    return shown(kinds | {"tok_s": "rate", "foreign_cpu_share": "share"}, window) | {
        "order": [("count", int(row["order"]))],
        "started": window["at"].strftime("%Y-%m-%d %H:%M:%S"),
        "engine": window.engine,
        "workload": window.workload,
        "verdict": ", ".join(window.verdict.split(",")),
    }


WITNESS = dict.fromkeys(["foreign_cpu_s", "steal_s"], "hundredths")
WITNESS |= dict.fromkeys(["pressure_s", "witness_cost_s"], "fine")
COUNTS = "sample involuntary_switches run_queue_max quota_stops foreign_gpu_processes"
COUNTS += " sm_clock_mhz_min sm_clock_mhz_max temperature_c_max power_w_max"
WITNESS |= dict.fromkeys(COUNTS.split(), "count")
WITNESS |= {f"{name}_{when}": "rate" for name in CALIBRATIONS for when in ("before", "after")}
WITNESS |= {"foreign_cpu_share": "share", "swapped_bytes": "bytes"}


def witness(row: Row) -> Expected:
    window = window_of(row)
    named = f"{window.engine}/{window.workload}/slots{window.slots}"
    words = row.words("texts")["timing_name"].format(cell=named, repeat=window["repeat"])
    return shown(WITNESS, window) | {"order": [("count", int(row["order"]))], "timing": words}


def attempt(row: Row) -> Expected:
    part = timing_rows(row)
    key = {name: one(part[name]) for name in [*CELL, "repeat"]}
    (table,) = row.truth.rows("attempts", **key, attempt=row.number("attempt")).to_dict("records")
    now = part.tokens.sum() / part.window_s.sum()
    difference = [] if table["counts"] else [("share", table["tok_s"] / now - 1)]
    started = pd.Timestamp(table["started"]).tz_convert("UTC")
    return {
        "timing": [("count", key["repeat"])],
        "attempt": [("count", table["attempt"])],
        "started": started.strftime("%Y-%m-%d %H:%M:%S"),
        "tok_s": [("rate", table["tok_s"])],
        "against_current": difference,
    }
