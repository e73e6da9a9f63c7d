"""Reading a spec, the one JSON document that a measuring job sees."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# The set of cells that is always measured; the others are measured once somebody asks for them.
MAIN = "main"
REQUIRED = [
    *("engine", "backend", "options", "workload", "requests", "slots", "scale", "device", "dtype"),
    *("max_model_len", "model", "seed", "samples", "threads", "protocol"),
]


def read_spec(text_or_file: str) -> dict[str, Any]:
    """A spec from JSON text, or from a file that holds it.

    Raises:
        ValueError: it is neither.
    """
    text = text_or_file if text_or_file.lstrip().startswith("{") else None
    if text is None:
        try:
            text = Path(text_or_file).read_text()
        except OSError as error:
            raise ValueError(f"--spec: {error.strerror}: {text_or_file}") from None
        except UnicodeDecodeError:
            raise ValueError(f"--spec: not a text file: {text_or_file}") from None
    try:
        spec = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"--spec: not a JSON document: {error}") from None
    if not isinstance(spec, dict):
        raise ValueError("--spec: not a JSON object")
    return spec


def timing_spec(text_or_file: str, repeat: int | None) -> dict[str, Any]:
    """A whole spec of one timing.

    Args:
        text_or_file: the spec of a cell, or of a timing (then it holds its `repeat`).
        repeat: number of the repeat; wins over the spec's own.

    Raises:
        ValueError: a key is missing, or there is no repeat.
    """
    spec = read_spec(text_or_file)
    missing = [key for key in REQUIRED if key not in spec]
    if missing:
        raise ValueError(f"--spec: missing {', '.join(missing)}")
    spec["repeat"] = repeat if repeat is not None else spec.get("repeat", 1)
    return spec


def memory_limited(spec: Mapping[str, Any]) -> bool:
    """Whether an option limits the KV cache: then memory, and not the slots alone, says who runs,
    and a request that is sent back to make room is a finding, not a fault."""
    return bool(spec["options"].get("kv_tokens"))


def first_difference(planned, found, name: str = "") -> tuple[str, object, object] | None:
    """The first key, in the planned order, at which two JSON values differ.

    Returns:
        (dotted key, planned value, found value), a missing key having the value None; or None
        when the values are equal. 1 and 1.0 are equal, 1 and true are not.
    """
    if isinstance(planned, Mapping) and isinstance(found, Mapping):
        for key in (*planned, *(k for k in found if k not in planned)):
            inner = f"{name}.{key}" if name else str(key)
            if key not in planned or key not in found:
                return inner, planned.get(key), found.get(key)
            difference = first_difference(planned[key], found[key], inner)
            if difference:
                return difference
        return None
    if isinstance(planned, bool) != isinstance(found, bool) or planned != found:
        return name, planned, found
    return None
