"""The cells, specs and order of measuring that follow from config.yaml.

Only the workflow reads the config. A measuring job sees its spec alone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from fourcells.spec import MAIN

# Raised when the meaning of a measurement changes: every timing made under another number is
# measured again. Edits of the code alone measure nothing again.
PROTOCOL = 3

# Options in the lesson's tokens: like the lengths of workloads, a scale divides them.
TOKEN_OPTIONS = ("kv_tokens", "reserve_tokens")
# The block size that holds a whole request of the greatest length.
WHOLE = "whole"


@dataclass(frozen=True)
class Cell:
    """One engine on one workload with one number of slots."""

    engine: str
    workload: str
    slots: int

    @property
    def path(self) -> str:
        """Folder of the cell's timings below results/timings and results/steps."""
        return f"{self.engine}/{self.workload}/slots{self.slots}"


def cells(config: Mapping[str, Any]) -> list[Cell]:
    """Every valid cell, those of the set `main` first."""
    return [cell for members in sets(config).values() for cell in members]


def sets(config: Mapping[str, Any]) -> dict[str, list[Cell]]:
    """The cells of each set, `main` first; a cell that is in several stands in the first.

    Main are all engines on all workloads with all slots, but for what an engine or a workload says
    it takes. Sorted, so that the order of the config decides nothing.
    """
    engines, device = config["engines"], config["scales"][config["scale"]]["device"]
    here = [name for name, engine in engines.items() if engine.get("device", device) == device]
    found = {
        MAIN: {
            Cell(name, workload, slots)
            for name in here
            for workload, taken in config["workloads"].items()
            for slots in config["slots"]
            if workload in engines[name].get("workloads", config["workloads"])
            and name in taken.get("engines", here)
            and slots in engines[name].get("slots", config["slots"])
            and slots in taken.get("slots", config["slots"])
        }
    }
    for set_name, blocks in sorted(config.get("sets", {}).items()):
        before = set().union(*(members for other, members in found.items() if other != set_name))
        found[set_name] = found.get(set_name, set()) | {
            Cell(name, workload, slots)
            for block in blocks
            for name in block["engines"]
            if name in here
            for workload in block["workloads"]
            for slots in block["slots"]
            if Cell(name, workload, slots) not in before
        }
    by_name = attrgetter("engine", "workload", "slots")
    return {name: sorted(members, key=by_name) for name, members in found.items()}


def repeats(config: Mapping[str, Any]) -> range:
    """The repeats to measure, from 1."""
    return range(1, setting(config, "repeats") + 1)


def setting(config: Mapping[str, Any], key: str) -> Any:
    """A value that a scale sets and the top of the config may override (default 1)."""
    return config.get(key, config["scales"][config["scale"]].get(key, 1))


def order(config: Mapping[str, Any]) -> list[tuple[Cell, int]]:
    """All timings in the order to measure: repeat by repeat, in each set by set, shuffled by the
    seed. A further set changes nothing in the order of `main`."""
    return [
        (cell, repeat)
        for repeat in repeats(config)
        for name, members in sets(config).items()
        for cell in _shuffled(members, config["seed"], repeat, *(name,) * (name != MAIN))
    ]


def _shuffled(members: list[Cell], *seeds: Any) -> list[Cell]:
    return random.Random("-".join(map(str, seeds))).sample(members, len(members))


def as_list(value: Any) -> list[Any]:
    """A list of lengths from one length or from a list."""
    return list(value) if isinstance(value, list) else [value]


def workload_spec(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The requests of a workload at the chosen scale, lengths in tokens."""
    workload = config["workloads"][name]
    by = config["scales"][config["scale"]].get("divide_lengths", 1)
    return {
        "count": workload["requests"],
        "prompt_tokens": [n // by for n in as_list(workload["prompt_tokens"])],
        "output_tokens": [n // by for n in as_list(workload["output_tokens"])],
        "order": workload.get("order", "cyclic"),
        **_arrival(config, workload),
    }


def _arrival(config: Mapping[str, Any], workload: Mapping[str, Any]) -> dict[str, Any]:
    """When the requests come; nothing where all are there from the start."""
    if workload.get("arrival", "block") == "block":
        return {}
    rate = workload["rate"] * config["scales"][config["scale"]].get("multiply_rates", 1)
    seed = workload.get("arrival_seed", config["seed"])
    return {"arrival": {"process": workload["arrival"], "rate": rate, "seed": seed}}


def spec(config: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    """The identity of a cell's timings: everything that decides what is measured, nothing else."""
    scale = config["scales"][config["scale"]]
    engine = config["engines"][cell.engine]
    return {
        "engine": cell.engine,
        "backend": engine["backend"],
        "options": engine_options(config, cell.engine),
        "workload": cell.workload,
        "requests": workload_spec(config, cell.workload),
        "slots": cell.slots,
        "scale": config["scale"],
        "device": scale["device"],
        "dtype": scale["dtype"],
        "max_model_len": scale["max_model_len"],
        "model": model_spec(config),
        "seed": config["seed"],
        "samples": setting(config, "samples"),
        "threads": engine.get("threads", setting(config, "threads")),
        "protocol": PROTOCOL,
    }


def engine_options(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An engine's options at the chosen scale: its own win over those of the scale's `backends`."""
    scale, engine = config["scales"][config["scale"]], config["engines"][name]
    options = dict(scale.get("backends", {}).get(engine["backend"], {}))
    own = engine.get("options", {})
    if "kv_tokens" in own:
        options.pop("kv_cache_gib", None)  # the same in other words
    options |= own
    for option in TOKEN_OPTIONS:
        if option in options:
            options[option] //= scale.get("divide_lengths", 1)
    if options.get("block_size") == WHOLE:
        options["block_size"] = scale["max_model_len"]
    return options


def model_spec(config: Mapping[str, Any]) -> dict[str, Any]:
    """The checkpoint: its folder and, by source of the weights, what decides its content."""
    scale = config["scales"][config["scale"]]
    model = scale["model"]
    used = {"random": ("shape", "std"), "hub": ("repository", "revision")}.get(model["weights"], ())
    made = {"dtype": scale["dtype"], "seed": config["seed"]} if model["weights"] == "random" else {}
    return {
        "path": f"results/models/{model['name']}",
        "weights": model["weights"],
        **{key: model[key] for key in used if key in model},
        **made,
    }


def plan(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every timing with its files and spec, in measuring order: what the analysis gets."""
    set_of = {cell: name for name, members in sets(config).items() for cell in members}
    for position, (cell, repeat) in enumerate(order(config), start=1):
        engine = config["engines"][cell.engine]
        cell_spec = spec(config, cell)
        yield {
            "set": set_of[cell],
            "engine": cell.engine,
            "backend": engine["backend"],
            "admission": cell_spec["options"].get("admission"),
            "baseline": engine.get("baseline"),
            "workload": cell.workload,
            "compare_with": config["workloads"][cell.workload].get("compare_with"),
            "slots": cell.slots,
            "repeat": repeat,
            "position": position,
            "path": f"results/timings/{cell.path}/{repeat}.parquet",
            "steps": f"results/steps/{cell.path}/{repeat}.parquet",
            "attempts": f"results/attempts/{cell.path}/{repeat}",
            "spec": {**cell_spec, "repeat": repeat},
        }


def canonical(value: Any) -> str:
    """JSON in which key order says nothing, so that reordering the config changes no spec."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
