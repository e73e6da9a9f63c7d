"""Machine groups: engines of one backend with the same options but for the admission, so that they
run the same forward and differ in who may enter a batch, and when."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def group_of(backend: str, options: Mapping[str, Any]) -> str:
    """The machine group of a backend with these options, as text."""
    return json.dumps([backend, dict(options)], sort_keys=True)


def options_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What a spec asks of its engine, without the admission.

    An admission left out and the same one spelled out admit alike, so the one that was applied is
    compared in its place. Threads are no option of a backend, and decide its speed like one.
    """
    asked = {"threads": spec.get("threads"), **spec["options"]}
    return {name: value for name, value in asked.items() if name != "admission"}


def planned_group(entry: Mapping[str, Any]) -> str:
    """The machine group of a plan's entry."""
    return group_of(entry["backend"], options_of(entry["spec"]))


def paired_groups(plan: Sequence[Mapping[str, Any]]) -> set[str]:
    """The machine groups of engines that have a baseline or are one; all of them in a plan that
    declares no baseline."""
    baselines = {entry["baseline"] for entry in plan} - {None}
    return {
        planned_group(entry)
        for entry in plan
        if not baselines or entry["baseline"] or entry["engine"] in baselines
    }
