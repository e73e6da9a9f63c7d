"""Whether config.yaml can be used; what cannot is named in one line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from fourcells.config import TOKEN_OPTIONS, Cell, as_list, cells, spec, workload_spec
from fourcells.workload import lengths


class ConfigError(ValueError):
    """A key of config.yaml that cannot be used; the text names the key and what is allowed."""


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
        _check_divisible(config, f"{key}.options", engine.get("options", {}))
    for backend, options in config["scales"][config["scale"]].get("backends", {}).items():
        _check_divisible(config, f"scales.{config['scale']}.backends.{backend}", options)
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
    _check_divisible(config, key, workload)
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


def _check_divisible(config: Mapping[str, Any], key: str, values: Mapping[str, Any]) -> None:
    """Whatever is in the lesson's tokens must be a whole number of the scale's."""
    by = config["scales"][config["scale"]].get("divide_lengths", 1)
    for field in ("prompt_tokens", "output_tokens", *TOKEN_OPTIONS):
        for length in as_list(values.get(field, [])):
            if length % by:
                raise ConfigError(
                    f"{key}.{field}: {length} is not divisible by "
                    f"scales.{config['scale']}.divide_lengths = {by}"
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
        allowed = " or ".join(as_list(error.validator_value))
        return f"{key}: {error.instance!r} is not of type {allowed}"
    if error.validator in ("minItems", "minProperties"):
        return f"{key}: must not be empty"
    if error.validator == "const":
        return f"{key}: {error.instance!r} is not {error.schema['description']}"
    if error.validator in ("pattern", "not"):
        return f"{key}: the name {error.instance!r} {error.schema['description']}"
    return f"{key}: {error.message}"


def _one_of(key: str, value: Any, allowed: Any) -> None:
    if value not in allowed:
        names = ", ".join(map(str, allowed)) or "nothing is declared"
        raise ConfigError(f"{key}: {value!r} is not one of: {names}")
