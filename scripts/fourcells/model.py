"""The checkpoint that every engine loads: made by a rule, fetched once, or found in a folder.

A random checkpoint has the true shape and weights of a true scale (normal, std 0.02) and is saved
as safetensors, so that all engines load the very same weights: a loader's own dummy weights
differ between engines, and zeros run faster than real numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fourcells.files import write_whole

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint folder and what the analysis needs of it; sizes in bytes at the spec's dtype."""

    folder: str
    weights: str
    sha256: str
    parameters: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    max_position: int

    def bytes(self, dtype: str) -> int:
        """All weights in memory."""
        return self.parameters * DTYPE_BYTES[dtype]

    def kv_bytes_per_token(self, dtype: str) -> int:
        """Keys and values of one token in all layers."""
        return bytes_per_token(self.layers, self.kv_heads, self.head_dim, DTYPE_BYTES[dtype])


def bytes_per_token(layers: int, kv_heads: int, head_dim: int, dtype_bytes: int) -> int:
    """Keys and values of one token in all layers."""
    return 2 * layers * kv_heads * head_dim * dtype_bytes


def make_checkpoint(model: Mapping[str, Any], record: Path) -> Checkpoint:
    """Makes, fetches or finds the checkpoint of a model spec and writes its record.

    Args:
        model: the `model` part of a spec.
        record: the file `checkpoint.json`; a made or fetched checkpoint lies beside it.

    Raises:
        FileNotFoundError: `weights` names a folder without config.json or *.safetensors.
    """
    record.parent.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    folder = record.parent
    for old in folder.glob("*.safetensors"):  # of another model of the same name
        old.unlink()
    if model["weights"] == "random":
        _save_random(model, folder)
    elif model["weights"] == "hub":
        from huggingface_hub import snapshot_download

        snapshot_download(
            model["repository"],
            revision=model["revision"],
            local_dir=folder,
            allow_patterns=["*.json", "*.safetensors"],
        )
    else:
        folder = Path(model["weights"]).expanduser()
    checkpoint = describe(folder, model["weights"])
    write_whole(record, lambda file: file.write_text(json.dumps(asdict(checkpoint), indent=2)))
    return checkpoint


def load_record(model: Mapping[str, Any]) -> Checkpoint:
    """Reads the record that `make_checkpoint` wrote.

    Raises:
        FileNotFoundError: it is not there; the text says how to make it.
    """
    record = Path(model["path"]) / "checkpoint.json"
    if not record.exists():
        raise FileNotFoundError(
            f"model.path: {record} does not exist; make it with: snakemake -j1 {record}, or "
            f"python scripts/make_model.py --spec SPEC --output {record}"
        )
    return Checkpoint(**json.loads(record.read_text()))


def describe(folder: Path, weights: str) -> Checkpoint:
    """Reads a checkpoint's shape from its config, and the hash and size of its weights."""
    config_file, files = folder / "config.json", sorted(folder.glob("*.safetensors"))
    if not config_file.exists() or not files:
        raise FileNotFoundError(
            f"model.weights: {folder} holds no checkpoint (config.json and *.safetensors)"
        )
    config = json.loads(config_file.read_text())
    digest = hashlib.sha256()
    parameters = 0
    for file in files:
        parameters += _parameters(file)
        with file.open("rb") as stream:
            while chunk := stream.read(1 << 24):
                digest.update(chunk)
    heads = config["num_attention_heads"]
    return Checkpoint(
        folder=str(folder),
        weights=weights if weights in ("random", "hub") else "folder",
        sha256=digest.hexdigest(),
        parameters=parameters,
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        vocabulary=config["vocab_size"],
        max_position=config["max_position_embeddings"],
    )


def _parameters(file: Path) -> int:
    """Number of weights in a safetensors file, from its header (8 bytes of length, then JSON)."""
    with file.open("rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    return sum(math.prod(t["shape"]) for name, t in header.items() if name != "__metadata__")


def _save_random(model: Mapping[str, Any], folder: Path) -> None:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        **model["shape"],
        initializer_range=model["std"],
        dtype=model["dtype"],
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(model["seed"])
    network = Qwen2ForCausalLM(config).to(getattr(torch, model["dtype"]))
    network.save_pretrained(folder)
