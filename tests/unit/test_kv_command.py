"""`scripts/kv.py`: the lesson's model on the lesson's card, other models, and what it refuses."""

import json

import kv
import pytest

QWEN = {
    "model_type": "qwen2",
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151_936,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
LESSON = "128+32,128+64,128+128,128+512"


@pytest.fixture
def run(tmp_path, capsys):
    """(exit status, lines printed, error) of the command on a config."""

    def command(config, *arguments, budget=("--budget-gib", "9.3"), longest="2048"):
        text = config if isinstance(config, str) else json.dumps(config)
        (tmp_path / "config.json").write_text(text)
        given = ["--config", str(tmp_path), "--max-len", longest, *budget, *arguments]
        status = kv.main(given)
        printed = capsys.readouterr()
        return status, printed.out.splitlines(), printed.err.strip()

    return command


def value(lines, name):
    return next(line for line in lines if line.startswith(name)).removeprefix(name).strip(": ")


def test_the_lessons_model(run):
    status, lines, error = run(QWEN, "--mean-len", "312", "--workload", LESSON)
    assert (status, error) == (0, "")
    assert value(lines, "KV cache per token").startswith("28.00 KiB")
    # 0.01 GiB less than vLLM told the lesson, which counts more than the weights
    assert value(lines, "weights").startswith("2.88 GiB (1,543,714,304 weights, computed")
    capacity = int((9.3 * 2**30 - 2 * 1_543_714_304) // 28_672)
    assert value(lines, "capacity").startswith(f"{capacity:,} tokens")
    by_max = value(lines, "requests, reserved by maximum length")
    assert by_max.startswith(f"{capacity // 2048} (")
    assert value(lines, "requests, by mean use").startswith(f"{capacity // 312} (")


def test_the_lessons_cache_in_tokens(run):
    budget = ("--kv-tokens", "219328")
    _, lines, _ = run(QWEN, "--mean-len", "312", "--workload", LESSON, budget=budget)
    assert value(lines, "capacity") == "219,328 tokens, 5.86 GiB"
    assert value(lines, "requests, reserved by maximum length").startswith("107 (")
    assert value(lines, "requests, by mean use").startswith("702 (")
    assert [line.split() for line in lines[-4:]] == [
        ["on_demand", "321.2", "683", "100.0%"],
        ["exact", "513.4", "427", "62.6%"],
        ["pow2", "790.3", "278", "40.6%"],
        ["max", "2048.0", "107", "15.7%"],
    ]


def test_the_exercise(run):
    budget = ("--kv-tokens", "100000")
    _, lines, _ = run(QWEN, "--mean-len", "500", budget=budget, longest="4096")
    assert value(lines, "requests, reserved by maximum length").startswith("24 (")
    assert value(lines, "requests, by mean use").startswith("200 (")


def test_the_mean_comes_from_the_workload(run):
    _, lines, _ = run(QWEN, "--workload", LESSON)
    assert "/ 312; a ceiling" in value(lines, "requests, by mean use")
    _, lines, _ = run(QWEN)
    assert not any("mean use" in line for line in lines)


@pytest.mark.parametrize(
    ("changes", "parameters"),
    [
        # published sizes: Llama 3.2 1B, Mistral 7B, Qwen3 0.6B
        (
            dict(model_type="llama", hidden_size=2048, intermediate_size=8192, num_hidden_layers=16)
            | dict(num_attention_heads=32, num_key_value_heads=8, head_dim=64, vocab_size=128_256),
            1_235_814_400,
        ),
        (
            dict(model_type="mistral", hidden_size=4096, intermediate_size=14_336)
            | dict(num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8)
            | dict(vocab_size=32_000, tie_word_embeddings=False),
            7_241_732_096,
        ),
        (
            dict(model_type="qwen3", hidden_size=1024, intermediate_size=3072, head_dim=128)
            | dict(num_attention_heads=16, num_key_value_heads=8),
            596_049_920,
        ),
    ],
)
def test_other_models(run, changes, parameters):
    _, lines, _ = run(QWEN | changes, budget=("--budget-gib", "40"))
    assert f"({parameters:,} weights," in value(lines, "weights")


def test_heads_of_their_own_size_and_without_groups(run):
    config = {k: v for k, v in QWEN.items() if k != "num_key_value_heads"} | {"head_dim": 64}
    _, lines, _ = run(config, "--dtype", "float32")
    assert "28 layers x 12 KV heads x 64 x 4 bytes" in value(lines, "KV cache per token")


def test_a_text_model_inside_another(run):
    _, lines, _ = run({"model_type": "both", "text_config": QWEN})
    assert value(lines, "KV cache per token").startswith("28.00 KiB")


def test_weights_are_counted_where_they_lie(run, tmp_path):
    header = json.dumps({"a": {"dtype": "F32", "shape": [1000, 7], "data_offsets": [0, 0]}})
    content = len(header).to_bytes(8, "little") + header.encode()
    (tmp_path / "model.safetensors").write_bytes(content)
    _, lines, _ = run(QWEN)
    assert "7,000 weights, counted in 1 safetensors" in value(lines, "weights")
    (tmp_path / "model.safetensors").write_bytes(b"nothing of the kind")
    status, _, error = run(QWEN)
    assert status == 1 and "no safetensors file" in error


def test_given_weights_win(run):
    _, lines, _ = run(QWEN | {"model_type": "other"}, "--weights-gib", "3")
    assert value(lines, "weights") == "3.00 GiB (as given)"


def test_nobody_needs_weights_with_the_cache_in_tokens(run):
    status, lines, _ = run(QWEN | {"model_type": "other"}, budget=("--kv-tokens", "1000"))
    assert status == 0 and not any(line.startswith("weights") for line in lines)


@pytest.mark.parametrize(
    ("config", "arguments", "said"),
    [
        ("{", (), "is not a JSON document"),
        ("[]", (), "is not a JSON object"),
        ({}, (), "num_attention_heads is None"),
        (QWEN | {"num_hidden_layers": 0}, (), "num_hidden_layers is 0"),
        (QWEN | {"torch_dtype": "float8"}, (), "give --dtype"),
        (QWEN | {"kv_lora_rank": 512}, (), "kv_lora_rank"),
        (QWEN | {"layer_types": ["linear_attention"]}, (), "linear_attention"),
        (QWEN | {"model_type": "mixtral"}, (), "give --weights-gib"),
        (QWEN | {"quantization_config": {"bits": 4}}, (), "give --weights-gib"),
        (QWEN, ("--weights-gib", "9.4"), "--budget-gib: 9.3 GiB leave no room"),
        (QWEN, ("--mean-len", "2049"), "--mean-len: 2049 tokens are more than --max-len 2048"),
        (QWEN, ("--workload", "128+1921"), "--workload: 2049 tokens"),
        (QWEN, ("--workload", "128+32,64"), "--workload: '64' is not PROMPT+OUTPUT"),
        (QWEN, ("--workload", "0+32"), "--workload: '0+32'"),
    ],
)
def test_refuses(run, config, arguments, said):
    status, _, error = run(config, *arguments)
    assert status == 1
    assert said in error and error.startswith("kv: --") and "\n" not in error


def test_refuses_a_folder_without_a_config(tmp_path, capsys):
    given = ["--config", str(tmp_path), "--budget-gib", "9.3", "--max-len", "2048"]
    assert kv.main(given) == 1
    assert "config.json" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["0", "-1", "nan", "inf", "much"])
def test_refuses_amounts_that_are_none(tmp_path, capsys, wrong):
    with pytest.raises(SystemExit):
        kv.main(["--config", str(tmp_path), f"--budget-gib={wrong}", "--max-len", "2048"])
    assert "--budget-gib: invalid positive number" in capsys.readouterr().err
