"""How many requests a model's KV cache holds on a card: arithmetic, before anything is loaded.

    python scripts/kv.py --config MODEL_FOLDER --budget-gib 9.3 --max-len 2048 --mean-len 312 \
        --workload 128+32,128+64,128+128,128+512

The folder needs a config.json; with *.safetensors in it the weights are counted there. The results
are ceilings: an engine also needs memory for activations and graphs, and its last blocks are
seldom full.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fourcells.analysis.kv_arithmetic import per_token_formula, running_tokens, used_share
from fourcells.model import DTYPE_BYTES, bytes_per_token
from fourcells.report import numbers as n
from fourcells.schedule import RESERVATIONS

GIB = 2**30
DTYPE = "bfloat16"
# Dense decoders with one gate, one up and one down matrix, whose weights follow from the config.
DENSE = ("llama", "mistral", "qwen2", "qwen3")


class BadInput(ValueError):
    """What cannot be computed, and which option or key is at fault."""


@dataclass(frozen=True)
class Model:
    """What a config.json says of the KV cache, and the text model's part of it."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    config: Mapping

    @property
    def kv_shape(self) -> tuple[int, int, int, int]:
        return self.layers, self.kv_heads, self.head_dim, DTYPE_BYTES[self.dtype]


def read_model(folder: Path, dtype: str | None) -> Model:
    """The model of a folder.

    Args:
        dtype: of weights and cache; that of the config when left out.

    Raises:
        BadInput: no config, a key that is missing, or a cache that is not keys and values of every
            head in every layer.
    """
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"--config: {error.strerror}: {file}") from None
    except ValueError as error:
        raise BadInput(f"--config: {file} is not a JSON document: {error}") from None
    if not isinstance(config, dict):
        raise BadInput(f"--config: {file} is not a JSON object")
    # a model of text and images keeps the text model's shape in a part of its own
    config = {**config, **config.get("text_config", {})}
    other = set(config.get("layer_types") or ()) - {"full_attention", "sliding_attention"}
    if config.get("kv_lora_rank") or other:
        why = ", ".join(sorted(other)) or "kv_lora_rank"
        raise BadInput(f"--config: {file}: {why}: its cache is not keys and values of every head")
    heads = _count(config, "num_attention_heads", file)
    found = dtype or config.get("dtype") or config.get("torch_dtype") or DTYPE
    if found not in DTYPE_BYTES:
        allowed = ", ".join(DTYPE_BYTES)
        raise BadInput(f"--config: {file}: dtype {found!r}; give --dtype, one of {allowed}")
    return Model(
        layers=_count(config, "num_hidden_layers", file),
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or _count(config, "hidden_size", file) // heads,
        dtype=found,
        config=config,
    )


def _count(config: Mapping, key: str, file: Path | str = "config.json") -> int:
    value = config.get(key)
    if not isinstance(value, int) or value < 1:
        raise BadInput(f"--config: {file}: {key} is {value!r}, not a positive whole number")
    return value


def parameters(folder: Path, model: Model) -> tuple[int, str]:
    """Number of weights, and where it is from: the checkpoint if it is there, else the config.

    Raises:
        BadInput: neither tells it.
    """
    files = sorted(folder.glob("*.safetensors"))
    if model.config.get("quantization_config"):
        raise BadInput("--config: quantised weights have several sizes; give --weights-gib")
    if files:
        return sum(map(_stored, files)), f"counted in {len(files)} safetensors"
    return dense_parameters(model), "computed from config.json"


def _stored(file: Path) -> int:
    """Weights in a safetensors file, from its header (8 bytes of length, then JSON)."""
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            # of a file that is none the first bytes may say anything
            header = json.loads(stream.read(min(length, file.stat().st_size)))
        return sum(math.prod(t["shape"]) for name, t in header.items() if name != "__metadata__")
    except (OSError, ValueError, KeyError, AttributeError):
        raise BadInput(f"--config: {file} is no safetensors file; give --weights-gib") from None


def dense_parameters(model: Model) -> int:
    """Weights of a dense decoder with gated MLP and RMS norms: embedding, layers, output layer
    (none of its own where embeddings are tied).

    Raises:
        BadInput: another kind of model.
    """
    config = model.config
    kind = config.get("model_type")
    if kind not in DENSE:
        raise BadInput(
            f"--config: the weights of model_type {kind!r} do not follow from its config"
            f" (only {', '.join(DENSE)}): put its *.safetensors there or give --weights-gib"
        )
    hidden, middle, words = (
        _count(config, key) for key in ("hidden_size", "intermediate_size", "vocab_size")
    )
    query, key_value = model.heads * model.head_dim, model.kv_heads * model.head_dim
    attention = 2 * hidden * (query + key_value)
    if kind == "qwen2":
        attention += query + 2 * key_value  # biases of query, key and value
    elif config.get("attention_bias"):
        attention += query + 2 * key_value + hidden
    if kind == "qwen3":
        attention += 2 * model.head_dim  # norms of query and key
    mlp = 3 * hidden * middle
    if config.get("mlp_bias"):
        mlp += 2 * middle + hidden
    embeddings = words * hidden * (1 if config.get("tie_word_embeddings") else 2)
    return embeddings + model.layers * (attention + mlp + 2 * hidden) + hidden


def read_workload(text: str) -> list[tuple[int, int]]:
    """Prompt and output tokens of requests, from `128+32,128+512`.

    Raises:
        BadInput: some request is no PROMPT+OUTPUT of positive whole numbers.
    """
    pairs = []
    for part in text.split(","):
        prompt, plus, output = part.strip().partition("+")
        if not (plus and prompt.isdecimal() and output.isdecimal() and int(prompt) * int(output)):
            raise BadInput(f"--workload: {part.strip()!r} is not PROMPT+OUTPUT, like 128+512")
        pairs.append((int(prompt), int(output)))
    return pairs


def report(args: argparse.Namespace) -> Iterator[str]:
    """The lines to print.

    Raises:
        BadInput: with the option or key at fault.
    """
    model = read_model(args.config, args.dtype)
    pairs = read_workload(args.workload) if args.workload else []
    mean = args.mean_len or (sum(map(sum, pairs)) / len(pairs) if pairs else None)
    for option, tokens in (("--workload", max(map(sum, pairs), default=0)), ("--mean-len", mean)):
        if tokens and tokens > args.max_len:
            raise BadInput(f"{option}: {tokens:g} tokens are more than --max-len {args.max_len}")
    per_token = bytes_per_token(*model.kv_shape)
    formula = per_token_formula(*model.kv_shape)
    yield f"KV cache per token: {n.size(per_token)} ({formula}, {model.dtype})"
    try:
        weights, source = _weights(args, model)
        yield f"weights: {n.size(weights)} ({source})"
    except BadInput:
        # with the cache given in tokens nobody needs them
        if args.kv_tokens is None:
            raise
    if args.kv_tokens is not None:
        capacity = args.kv_tokens
    else:
        capacity = int((args.budget_gib * GIB - weights) // per_token)
        if capacity < 1:
            raise BadInput(
                f"--budget-gib: {args.budget_gib:g} GiB leave no room beside the weights"
                f" ({n.size(weights)})"
            )
        yield f"budget: {args.budget_gib:g} GiB for weights and KV cache"
    yield f"capacity: {n.integer(capacity)} tokens, {n.size(capacity * per_token)}"
    by_max = f"{n.integer(capacity)} / {n.integer(args.max_len)}"
    yield f"requests, reserved by maximum length: {_whole(capacity / args.max_len)} ({by_max})"
    if mean:
        by_use = f"{n.integer(capacity)} / {mean:g}; a ceiling"
        yield f"requests, by mean use: {_whole(capacity / mean)} ({by_use})"
    if pairs:
        yield ""
        yield f"{'reservation':<12}{'tokens of a running request':>29}{'requests':>10}{'used':>8}"
        for name in RESERVATIONS:
            taken = running_tokens(pairs, name, args.max_len)
            share = used_share(pairs, name, args.max_len)
            # a mean over time, but for the last, which is one number
            requests = (_whole if name == "max" else n.integer)(capacity / taken)
            yield f"{name:<12}{taken:>29.1f}{requests:>10}{share:>8.1%}"


def _weights(args: argparse.Namespace, model: Model) -> tuple[float, str]:
    """Bytes of the weights, and where the number is from."""
    if args.weights_gib is not None:
        return args.weights_gib * GIB, "as given"
    count, source = parameters(args.config, model)
    return count * DTYPE_BYTES[model.dtype], f"{n.integer(count)} weights, {source}"


def _whole(requests: float) -> str:
    """Whole requests: there is no room for a part of one."""
    return n.integer(math.floor(requests))


def _positive(kind):
    def number(text: str):
        value = kind(text)
        if not 0 < value < math.inf:
            raise ValueError
        return value

    number.__name__ = f"positive {'number' if kind is float else 'whole number'}"
    return number


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    count, amount = _positive(int), _positive(float)
    parser.add_argument("--config", required=True, type=Path, metavar="FOLDER")
    memory = parser.add_mutually_exclusive_group(required=True)
    memory.add_argument(
        "--budget-gib", type=amount, metavar="GIB", help="memory for weights and KV cache together"
    )
    memory.add_argument(
        "--kv-tokens", type=count, metavar="N", help="tokens of KV cache, as an engine reports them"
    )
    parser.add_argument(
        "--max-len", required=True, type=count, metavar="TOKENS", help="longest prompt + output"
    )
    parser.add_argument(
        "--mean-len", type=count, metavar="TOKENS", help="mean prompt + output; else the workload's"
    )
    parser.add_argument("--dtype", choices=DTYPE_BYTES, help="else that of the config")
    parser.add_argument("--weights-gib", type=amount, metavar="GIB", help="else counted")
    parser.add_argument(
        "--workload", metavar="PROMPT+OUTPUT,...", help="requests in equal numbers, tokens"
    )
    try:
        print("\n".join(report(parser.parse_args(argv))))
    except BadInput as error:
        print(f"kv: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
