"""The summary: every conclusion in one JSON object, without NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from statistics import fmean, stdev

import pandas as pd

from fourcells.analysis import lesson
from fourcells.analysis.causes import attribution, step_models
from fourcells.analysis.claim import lesson_claim
from fourcells.analysis.limits import minutes_per_repeat, summary_limits, unclean_timings
from fourcells.analysis.load import Timings
from fourcells.analysis.pairs import Ratio
from fourcells.analysis.ratios import POOLED
from fourcells.analysis.stats import t_interval
from fourcells.analysis.trust import publishable
from fourcells.analysis.verdicts import ended, started

RATIOS = ("R_A", "R_B", "Q", "slots_ratio")
MACHINE = ("cpu", "cores", "memory_gib", "gpu", "driver", "threads")


def summarise(
    timings: Timings,
    verdicts: Sequence[Sequence[str]],
    tables: Mapping[str, pd.DataFrame],
    found: Mapping,
    ratios: Sequence[Ratio],
) -> dict:
    """The summary of the tables.

    Args:
        timings: all of them, the stale too.
        verdicts: as `verdicts.judge` gives them.
        tables: by name.
        found: as `trust.trust` gives it.
        ratios: as `pairs.all_ratios` gives them.

    Keys: `cells, ratios, attribution, step_model, limits, lesson_claim, controls, kv, machine,
    measured, applied, trust, publishable`. Rates in tokens per second, times as ISO 8601 in UTC.
    `low` and `high` are a 95 % t interval on logs over the repeats, null for one repeat.
    """
    main = _main_ratios(tables["ratios"])
    by_key = {ratio.key: ratio for ratio in ratios}
    controls = _controls(tables["controls"])
    counted = timings.counted()
    # Where every timing is stale, they still tell what was measured on what.
    known = counted if None in timings.stale else timings
    return plain(
        {
            "cells": _cells(timings, verdicts, tables["throughput"]),
            "ratios": {name: _ratio(name, main[name]) for name in RATIOS},
            "attribution": attribution(tables["attribution"], _key(main["R_B"])),
            "step_model": step_models(tables["step_model"], tables["prediction"]),
            "limits": summary_limits(
                {name: by_key.get(_key(main[name])) for name in RATIOS},
                unclean_timings(timings, verdicts),
                minutes_per_repeat(counted),
            ),
            "lesson_claim": lesson_claim(),
            "controls": controls,
            "kv": {
                source: dict(zip(rows["quantity"], rows["value"], strict=True))
                for source, rows in tables["kv"].groupby("source", sort=False)
            },
            "machine": _machine(known.metadata),
            "measured": _measured(known),
            "applied": _applied(known),
            "trust": found,
            "publishable": publishable(timings, verdicts, found, controls),
        }
    )


def plain(value):
    """The value with numpy numbers as Python's, and NaN and infinities as None."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value


def _cells(
    timings: Timings, verdicts: Sequence[Sequence[str]], throughput: pd.DataFrame
) -> list[dict]:
    """One object per cell with at least one repeat that counts, in the tables' order."""
    words: dict[tuple, set[str]] = {}
    cells = timings.plan[["engine", "workload", "slots"]].itertuples(index=False, name=None)
    for cell, verdict in zip(cells, verdicts, strict=True):
        words.setdefault(cell, set()).update(verdict)
    cells = []
    for key, rows in throughput.groupby(["engine", "workload", "slots"], sort=False):
        engine, workload, slots = key
        rates = rows["tok_s"].tolist()
        low, high = t_interval(rates)
        several = len(rates) > 1
        cells.append(
            {
                "engine": engine,
                "workload": workload,
                "slots": slots,
                "n": len(rates),
                "tok_s": fmean(rates),
                "low": low,
                "high": high,
                "sd": stdev(rates) if several else None,
                "cv": stdev(rates) / fmean(rates) if several else None,
                "spread": max(rates) / min(rates) - 1 if several else None,
                "drop": 1 - min(rates) / max(rates) if several else None,
                "min": min(rates),
                "max": max(rates),
                "verdicts": sorted(words[key]),
            }
        )
    return cells


def _main_ratios(ratios: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of each headline ratio: R_A, R_B and Q of one engine, baseline and slots.

    The lesson's own pair is preferred, since the lesson's figures stand beside it; else the first
    pair that has a Q, or any ratio, engines by name and the fewest slots first.
    """
    kinds = ["engine", "baseline", "slots"]
    main = {"slots_ratio": _first_cell(ratios[ratios["name"] == "slots_ratio"], kinds)}
    pairs = ratios[ratios["name"].isin(["R_A", "R_B", "Q"])]
    # Stable: within Q, and then within the others, the order of the table stays.
    pairs = pairs.sort_values("name", key=lambda names: names.ne("Q"), kind="stable")
    chosen = _first_cell(pairs, kinds)
    return main | {name: chosen[chosen["name"] == name] for name in ("R_A", "R_B", "Q")}


def _first_cell(rows: pd.DataFrame, kinds: list[str]) -> pd.DataFrame:
    """The rows that share `kinds` with the first row, one of the lesson's if there is any."""
    if rows.empty:
        return rows
    of_lesson = rows[rows["lesson"].notna()]
    first = (rows if of_lesson.empty else of_lesson).iloc[0][kinds]
    same = [rows[k].eq(first[k]) | (rows[k].isna() & pd.isna(first[k])) for k in kinds]
    return rows[same[0] & same[1] & same[2]]


def _key(rows: pd.DataFrame) -> tuple | None:
    """The key of a ratio's rows, as `Ratio.key`."""
    if rows.empty:
        return None
    name, engine, baseline, slots = rows.iloc[0][["name", "engine", "baseline", "slots"]]
    return name, engine, None if pd.isna(baseline) else baseline, slots


def _ratio(name: str, rows: pd.DataFrame) -> dict:
    """Estimate, intervals and values of one ratio; nulls and n = 0 when no repeat has it."""
    first = {} if rows.empty else rows.iloc[0].to_dict()
    return {
        "estimate": first.get("geometric_mean"),
        **{key: first.get(key) for key in ("min", "max", *POOLED)},
        "n": len(rows),
        "per_repeat": dict(zip(rows["repeat"], rows["value"], strict=True)),
        "crosses_sessions": rows["repeat"][rows["crosses_sessions"]].tolist(),
        "lesson": lesson.ratios()[name],
        **{key: first.get(key) for key in ("engine", "baseline", "slots")},
    }


def _controls(table: pd.DataFrame) -> list[dict]:
    """The rows of the table, whether each passed under `pass`."""
    return [plain(row) | {"pass": plain(row["passed"])} for row in table.to_dict("records")]


def _machine(metadata: Sequence[Mapping]) -> dict:
    """The first timing's machine; `hosts` names all, more than one is a reason not to publish."""
    first = metadata[0]["provenance"]
    return {key: first.get(key) for key in MACHINE} | {"hosts": _distinct(metadata, "host")}


def _measured(timings: Timings) -> dict:
    """What was measured, when, with which versions, and which planned files are missing."""
    spec = timings.metadata[0]["spec"]
    model = spec["model"]
    versions: dict[str, list[str]] = {}
    for meta in timings.metadata:
        provenance = meta["provenance"]
        found = {"python": provenance.get("python")} | (provenance.get("versions") or {})
        for package, version in found.items():
            known = versions.setdefault(package, [])
            if version is not None and version not in known:
                known.append(version)
    starts = [s for s in (started(meta) for meta in timings.metadata) if s]
    ends = [e for e in (ended(meta) for meta in timings.metadata) if e]
    return {
        "scale": spec.get("scale"),
        "model": model.get("name") or PurePosixPath(model["path"]).name,
        "weights": model.get("weights"),
        "dtype": spec.get("dtype"),
        "device": spec.get("device"),
        "repeats": int(timings.plan["repeat"].nunique()),
        "samples": spec.get("samples"),
        "seed": spec.get("seed"),
        "lesson_scale": spec.get("scale") == "lesson",
        "started": min(starts).isoformat(timespec="seconds") if starts else None,
        "ended": max(ends).isoformat(timespec="seconds") if ends else None,
        "sessions": _distinct(timings.metadata, "session"),
        "versions": {p: ", ".join(v) for p, v in versions.items() if v},
        "missing": timings.missing,
    }


def _applied(timings: Timings) -> dict:
    """What each engine reported as in force, by engine and slots, from its first timing."""
    applied: dict[str, Mapping] = {}
    for meta in timings.metadata:
        spec = meta["spec"]
        applied.setdefault(f"{spec['engine']}/{spec['slots']}", meta["applied"])
    return applied


def _distinct(metadata: Sequence[Mapping], key: str) -> list:
    """The different values of a key of the provenance, in order of appearance."""
    return list(dict.fromkeys(m["provenance"].get(key) for m in metadata))
