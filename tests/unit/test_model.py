"""The checkpoint: the same one when made again, at a true scale, and described as it is."""

import dataclasses
import json
from pathlib import Path

import pytest

from fourcells.model import Checkpoint, describe, load_record, make_checkpoint

LESSON = {
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
}


def made(model, folder, **changes):
    return make_checkpoint({**model, **changes}, folder / "checkpoint.json")


def tensors(folder):
    from safetensors.torch import load_file

    (file,) = Path(folder).glob("*.safetensors")
    return load_file(file)


def write_safetensors(file, shapes):
    """A safetensors file of headers alone: the shapes are there, the numbers are not."""
    header = json.dumps(
        {"__metadata__": {"format": "pt"}}
        | {n: {"dtype": "BF16", "shape": s, "data_offsets": [0, 0]} for n, s in shapes.items()}
    ).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header)


def lesson_shapes():
    """The tensors of Qwen2.5-1.5B, whose output layer is its embedding (tied)."""
    hidden, middle, kv = 1536, 8960, 256
    layer = {
        "q.weight": [hidden, hidden],
        "q.bias": [hidden],
        "k.weight": [kv, hidden],
        "k.bias": [kv],
        "v.weight": [kv, hidden],
        "v.bias": [kv],
        "o.weight": [hidden, hidden],
        "gate": [middle, hidden],
        "up": [middle, hidden],
        "down": [hidden, middle],
        "norm1": [hidden],
        "norm2": [hidden],
    }
    layers = {f"{i}.{name}": shape for i in range(28) for name, shape in layer.items()}
    return {"embed": [151936, hidden], "norm": [hidden]} | layers


# --- making


def test_checkpoint_made_twice_is_the_same(tiny_model, checkpoint, tmp_path):
    again = made(tiny_model, tmp_path)
    assert again.sha256 == checkpoint.sha256
    assert dataclasses.replace(again, folder=checkpoint.folder) == checkpoint


def test_checkpoint_made_again_in_its_folder_is_the_same(tiny_model, tmp_path):
    assert made(tiny_model, tmp_path) == made(tiny_model, tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 1


@pytest.mark.parametrize("change", [{"seed": 2}, {"std": 0.2}, {"dtype": "bfloat16"}])
def test_another_spec_makes_another_checkpoint(tiny_model, checkpoint, tmp_path, change):
    assert made(tiny_model, tmp_path, **change).sha256 != checkpoint.sha256


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_are_normal_with_the_asked_std_and_dtype(tiny_model, tmp_path, dtype):
    made(tiny_model, tmp_path, std=0.02, dtype=dtype)
    weights = tensors(tmp_path)
    assert {str(t.dtype) for t in weights.values()} == {f"torch.{dtype}"}
    for name in ("model.embed_tokens.weight", "lm_head.weight"):  # 512 x 64
        matrix = weights[name].float()
        assert matrix.std().item() == pytest.approx(0.02, rel=0.02)
        assert matrix.mean().item() == pytest.approx(0, abs=5e-4)
        # a normal distribution has 4.55 % beyond two std
        assert (matrix.abs() > 0.04).float().mean().item() == pytest.approx(0.0455, abs=0.006)


@pytest.mark.parametrize(("tied", "parameters"), [(False, 139840), (True, 139840 - 512 * 64)])
def test_output_layer_is_tied_only_when_told(tiny_model, tmp_path, tied, parameters):
    shape = {**tiny_model["shape"], "tie_word_embeddings": tied}
    assert made(tiny_model, tmp_path, shape=shape).parameters == parameters
    assert ("lm_head.weight" in tensors(tmp_path)) is not tied


def test_untied_output_layer_has_its_own_numbers(checkpoint):
    weights = tensors(checkpoint.folder)
    assert not (weights["lm_head.weight"] == weights["model.embed_tokens.weight"]).any()


def test_no_token_ends_a_sequence(checkpoint):
    config = json.loads((Path(checkpoint.folder) / "config.json").read_text())
    assert config.get("eos_token_id") is None


def test_hub_checkpoint_replaces_what_lay_there(tiny_model, tmp_path, monkeypatch):
    """Engines load every *.safetensors of a folder: weights of an earlier spec must go."""
    import huggingface_hub

    made(tiny_model, tmp_path)

    def download(repository, *, revision, local_dir, allow_patterns):
        assert (repository, revision) == ("who/what", "abc")
        write_safetensors(local_dir / "model-00001-of-00001.safetensors", {"x": [3, 5]})

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    hub = {"weights": "hub", "repository": "who/what", "revision": "abc"}
    assert make_checkpoint(hub, tmp_path / "checkpoint.json").parameters == 15


# --- the record


def test_record_reads_back_as_written(tiny_model, checkpoint):
    assert load_record(tiny_model) == checkpoint


def test_missing_record_says_how_to_make_it():
    with pytest.raises(FileNotFoundError) as error:
        load_record({"path": "no/where"})
    message = str(error.value)
    assert message.startswith("model.path: no/where/checkpoint.json does not exist; make it with: ")
    assert "snakemake -j1 no/where/checkpoint.json" in message
    assert "python scripts/make_model.py --spec SPEC --output no/where/checkpoint.json" in message


def test_failed_making_leaves_no_record_of_an_earlier_one(tiny_model, tmp_path):
    made(tiny_model, tmp_path)
    with pytest.raises(FileNotFoundError):
        made(tiny_model, tmp_path, weights=str(tmp_path / "nothing"))
    assert not (tmp_path / "checkpoint.json").exists()


# --- describing


def test_folder_with_shards_is_described(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LESSON))
    shapes = list(lesson_shapes().items())
    write_safetensors(tmp_path / "model-00001-of-00002.safetensors", dict(shapes[:100]))
    write_safetensors(tmp_path / "model-00002-of-00002.safetensors", dict(shapes[100:]))
    found = describe(tmp_path, str(tmp_path))
    assert dataclasses.replace(found, sha256="") == Checkpoint(
        folder=str(tmp_path),
        weights="folder",
        sha256="",
        parameters=1_543_714_304,
        layers=28,
        heads=12,
        kv_heads=2,
        head_dim=128,
        vocabulary=151936,
        max_position=32768,
    )
    assert found.kv_bytes_per_token("bfloat16") == 28_672
    assert found.kv_bytes_per_token("float32") == 57_344
    assert found.bytes("bfloat16") == 3_087_428_608


def test_hash_covers_every_shard(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LESSON))
    write_safetensors(tmp_path / "model-1.safetensors", {"a": [1]})
    write_safetensors(tmp_path / "model-2.safetensors", {"b": [1]})
    one = describe(tmp_path, "random").sha256
    write_safetensors(tmp_path / "model-2.safetensors", {"c": [1]})
    assert describe(tmp_path, "random").sha256 != one


def test_config_without_kv_heads_or_with_its_own_head_size(tmp_path):
    config = {**LESSON, "head_dim": 64, "num_key_value_heads": None}
    (tmp_path / "config.json").write_text(json.dumps(config))
    write_safetensors(tmp_path / "model.safetensors", {"a": [2, 3]})
    found = describe(tmp_path, "hub")
    assert (found.kv_heads, found.head_dim, found.parameters) == (12, 64, 6)
    assert found.weights == "hub"


@pytest.mark.parametrize("present", [[], ["config.json"], ["model.safetensors"]])
def test_folder_without_a_checkpoint_is_named(tmp_path, present):
    folder = tmp_path / "weights"
    if present:
        folder.mkdir()
    for name in present:
        (folder / name).write_text("{}")
    with pytest.raises(FileNotFoundError) as error:
        make_checkpoint({"weights": str(folder)}, tmp_path / "record/checkpoint.json")
    assert str(error.value) == (
        f"model.weights: {folder} holds no checkpoint (config.json and *.safetensors)"
    )


def test_own_folder_stays_where_it_is(checkpoint, tmp_path):
    own = make_checkpoint({"weights": checkpoint.folder}, tmp_path / "checkpoint.json")
    assert own == dataclasses.replace(checkpoint, weights="folder")
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.json"]
