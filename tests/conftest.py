"""Fixtures that several test files share: the shipped config, a tiny checkpoint, a tiny spec."""

import copy
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def schema():
    return ROOT / "rules/config.schema.yaml"


@pytest.fixture(scope="session")
def shipped():
    """config.yaml as it is shipped; not to be changed."""
    return yaml.safe_load((ROOT / "config.yaml").read_text())


@pytest.fixture
def config(shipped):
    """A valid config of one's own, to be spoiled: the six cells of the lesson alone."""
    config = copy.deepcopy(shipped)
    for kind, names in {"engines": ("static", "vllm"), "workloads": ("A", "B")}.items():
        config[kind] = {name: config[kind][name] for name in names}
    del config["sets"]
    return config


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """The `model` part of a spec; wide weights, so that greedy output varies."""
    return {
        "path": str(tmp_path_factory.mktemp("tiny-model")),
        "weights": "random",
        "std": 0.3,
        "dtype": "float32",
        "seed": 1,
        "shape": {
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "vocab_size": 512,
            "tie_word_embeddings": False,
        },
    }


@pytest.fixture(scope="session")
def checkpoint(tiny_model):
    """A tiny checkpoint with its record, made once."""
    from fourcells.model import make_checkpoint

    return make_checkpoint(tiny_model, Path(tiny_model["path"]) / "checkpoint.json")


@pytest.fixture
def spec(tiny_model):
    """A whole timing spec over the tiny model: the lesson's six requests in four slots."""
    return {
        "engine": "static",
        "backend": "torch",
        "options": {"admission": "padded"},
        "workload": "six",
        "requests": {
            "count": 6,
            "prompt_tokens": [5, 9],
            "output_tokens": [8, 2, 3, 4, 4, 6],
            "order": "cyclic",
        },
        "slots": 4,
        "scale": "tiny",
        "device": "cpu",
        "dtype": "float32",
        "max_model_len": 64,
        "model": copy.deepcopy(tiny_model),
        "seed": 1,
        "samples": 1,
        "threads": 1,
        "protocol": 1,
        "repeat": 1,
    }
