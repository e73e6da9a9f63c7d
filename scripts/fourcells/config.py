"""What config.yaml asks for, checked, and the cells and specs that follow from it.

Only the workflow reads the config. A measuring job sees its spec alone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from fourcells.workload import lengths

# Raised when the meaning of a measurement changes: every timing made under another number is
# measured again. Edits of the code alone measure nothing again.
PROTOCOL = 2

# The set that is always measured; the others are measured once somebody asks for them.
MAIN = "main"


class ConfigError(ValueError):
    """A key of config.yaml that cannot be used; the text names the key and what is allowed."""


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


def check(config: Mapping[str, Any], schema_file: Path) -> None:
    """Checks a whole config.

    Raises:
        ConfigError: with one line that names the first bad key and what is allowed there.
    """
    _check_keys_are_text(config)
    schema = yaml.safe_load(schema_file.read_text())
    errors = list(_Validator(schema).iter_errors(config))
    if errors:
        raise ConfigError(_describe(jsonschema.exceptions.best_match(errors)))
    _one_of("scale", config["scale"], config["scales"])
    for name, engine in config["engines"].items():
        key = f"engines.{name}"
        if "baseline" in engine:
            others = [other for other in config["engines"] if other != name]
            _one_of(f"{key}.baseline", engine["baseline"], others)
        for workload in engine.get("workloads", []):
            _one_of(f"{key}.workloads", workload, config["workloads"])
        for slots in engine.get("slots", []):
            _one_of(f"{key}.slots", slots, config["slots"])
    for name, workload in config["workloads"].items():
        for engine in workload.get("engines", []):
            _one_of(f"workloads.{name}.engines", engine, config["engines"])
        _check_workload(config, name)
    for name, blocks in config.get("sets", {}).items():
        for place, block in enumerate(blocks):
            for kind in ("engines", "workloads"):
                for each in block[kind]:
                    _one_of(f"sets.{name}.{place}.{kind}", each, config[kind])
    for cell in cells(config):
        _check_arrival(config, cell)


def _is_integer(_checker: Any, value: Any) -> bool:
    """JSON Schema takes 16.0 for an integer; as a number of slots it would name another folder."""
    return isinstance(value, int) and not isinstance(value, bool)


_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


def _check_workload(config: Mapping[str, Any], name: str) -> None:
    key = f"workloads.{name}"
    workload, scale = config["workloads"][name], config["scales"][config["scale"]]
    poisson = workload.get("arrival") == "poisson"
    if poisson and "rate" not in workload:
        raise ConfigError(f"{key}: arrival: poisson needs 'rate', requests per second")
    for field in ("rate", "arrival_seed"):
        if field in workload and not poisson:
            raise ConfigError(f"{key}.{field}: only a workload with arrival: poisson has it")
    by = scale.get("divide_lengths", 1)
    for field in ("prompt_tokens", "output_tokens"):
        for length in _as_list(workload[field]):
            if length % by:
                raise ConfigError(
                    f"{key}.{field}: {length} is not divisible by "
                    f"scales.{config['scale']}.divide_lengths = {by}"
                )
    requests = workload_spec(config, name)
    longest = max(prompt + output for prompt, output in lengths(requests, config["seed"]))
    if longest > scale["max_model_len"]:
        raise ConfigError(
            f"{key}: prompt + output reach {longest} tokens, more than "
            f"scales.{config['scale']}.max_model_len = {scale['max_model_len']}"
        )
    other = workload.get("compare_with")
    if other is not None:
        _one_of(
            f"{key}.compare_with", other, [each for each in config["workloads"] if each != name]
        )
        here, there = (
            sum(output for _, output in lengths(workload_spec(config, each), config["seed"]))
            for each in (name, other)
        )
        if here != there:
            raise ConfigError(
                f"{key}.compare_with: {name} asks for {here} output tokens and {other} for "
                f"{there}; only workloads of equal totals can be compared"
            )


def _check_arrival(config: Mapping[str, Any], cell: Cell) -> None:
    if "arrival" not in workload_spec(config, cell.workload):
        return
    cell_spec = spec(config, cell)
    default = "padded" if cell_spec["backend"] == "torch" else "continuous"
    admission = cell_spec["options"].get("admission", default)
    if admission != "continuous":
        raise ConfigError(
            f"workloads.{cell.workload}.arrival: requests that keep coming need an engine with "
            f"admission: continuous; engines.{cell.engine} has {admission}"
        )


def _check_keys_are_text(node: Any, path: str = "") -> None:
    """YAML reads an unquoted `2023_2` as the number 20232: names must be text to be found again."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if not isinstance(key, str):
                raise ConfigError(
                    f"{path or 'top level'}: the key {key!r} was read as a "
                    f"{type(key).__name__}, not as text: put it in quotes"
                )
            _check_keys_are_text(value, f"{path}.{key}" if path else key)


def _describe(error: jsonschema.ValidationError) -> str:
    key = ".".join(str(part) for part in error.absolute_path) or "top level"
    if error.validator == "additionalProperties":
        known = ", ".join(error.schema.get("properties", {}))
        extra = [k for k in error.instance if k not in error.schema.get("properties", {})]
        return f"{key}: unknown key {', '.join(map(repr, extra))}; allowed: {known}"
    if error.validator == "required":
        missing = [k for k in error.validator_value if k not in error.instance]
        return f"{key}: missing {', '.join(map(repr, missing))}"
    if error.validator == "enum":
        allowed = ", ".join(map(str, error.validator_value))
        return f"{key}: {error.instance!r} is not one of: {allowed}"
    if error.validator == "minimum":
        return f"{key}: {error.instance!r} is too small; the least is {error.validator_value}"
    if error.validator == "type":
        allowed = " or ".join(_as_list(error.validator_value))
        return f"{key}: {error.instance!r} is not of type {allowed}"
    if error.validator in ("minItems", "minProperties"):
        return f"{key}: must not be empty"
    if error.validator in ("pattern", "not"):
        return f"{key}: the name {error.instance!r} {error.schema['description']}"
    return f"{key}: {error.message}"


def _one_of(key: str, value: Any, allowed: Any) -> None:
    if value not in allowed:
        names = ", ".join(map(str, allowed)) or "nothing is declared"
        raise ConfigError(f"{key}: {value!r} is not one of: {names}")


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


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def workload_spec(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The requests of a workload at the chosen scale, lengths in tokens."""
    workload = config["workloads"][name]
    by = config["scales"][config["scale"]].get("divide_lengths", 1)
    return {
        "count": workload["requests"],
        "prompt_tokens": [n // by for n in _as_list(workload["prompt_tokens"])],
        "output_tokens": [n // by for n in _as_list(workload["output_tokens"])],
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
    options = {
        **scale.get("backends", {}).get(engine["backend"], {}),
        **engine.get("options", {}),
    }
    return {
        "engine": cell.engine,
        "backend": engine["backend"],
        "options": options,
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
