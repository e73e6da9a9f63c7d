"""The compiled decode step: the eager loop's tokens, and one compile per number of rows."""

import random

import pytest

from fourcells.engines import compiled, torch_loop
from fourcells.workload import Request

SLOTS, MAX_LEN = 4, 48
# A first and a second window with 4 rows in every batch, and one whose last batch has 2. The rows
# of 40 prompt tokens outgrow their regions while the others are still generated.
OUTPUTS = {
    "first": [40, 3, 17, 8, 9, 25, 40, 1],
    "other": [2, 40, 5, 5, 30, 1, 12, 33],
    "rest": [6, 40, 2, 2, 9, 20],
}


def windows():
    draw = random.Random(2)
    prompts = [tuple(draw.choices(range(512), k=k)) for k in (1, 40, 13, 40, 8, 5, 2, 21)]
    return {
        name: [
            Request(prompt, min(output, MAX_LEN - len(prompt)))
            for prompt, output in zip(prompts, outputs, strict=False)
        ]
        for name, outputs in OUTPUTS.items()
    }


def served_in_both_modes(checkpoint, device):
    """The windows' tokens under both modes; the graphs and `applied` after each compiled one."""
    from torch._dynamo.utils import counters

    asked = {"dtype": "float32", "device": device, "slots": SLOTS, "max_model_len": MAX_LEN}
    tokens, graphs, applied = {}, {}, {}
    for mode in compiled.MODES:
        counters.clear()
        engine = torch_loop.TorchLoop({**asked, "options": {"mode": mode}}, checkpoint)
        for name, requests in windows().items():
            tokens[mode, name] = engine.serve(requests).tokens
            graphs[mode, name] = counters["stats"]["unique_graphs"]
            applied[mode, name] = engine.applied
    return tokens, graphs, applied, engine


@pytest.fixture(scope="module")
def on_cpu(checkpoint):
    return served_in_both_modes(checkpoint, "cpu")


@pytest.fixture(scope="module")
def on_cuda(checkpoint):
    return served_in_both_modes(checkpoint, "cuda")


@pytest.mark.slow
@pytest.mark.parametrize("window", OUTPUTS)
def test_compiled_tokens_are_the_eager_ones(on_cpu, window):
    tokens = on_cpu[0]
    assert tokens["compiled", window] == tokens["eager", window]
    assert len({token for each in tokens["eager", window] for token in each}) > 30


@pytest.mark.slow
def test_one_compile_per_number_of_rows_whatever_the_positions(on_cpu):
    graphs = on_cpu[1]
    assert [graphs["compiled", window] for window in OUTPUTS] == [1, 1, 2]
    assert [graphs["eager", window] for window in OUTPUTS] == [0, 0, 0]


@pytest.mark.slow
def test_mode_is_read_back_and_a_cpu_captures_no_graph(on_cpu):
    for (mode, _), applied in on_cpu[2].items():
        assert applied["mode"] == mode
        assert applied["graphs"] == "none"


@pytest.mark.slow
def test_compiled_step_never_falls_back_to_eager(on_cpu):
    """Two numbers of rows are compiled; a third one beyond torch's limit is an error."""
    import torch

    with (
        torch._dynamo.config.patch(recompile_limit=2),
        pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit),
    ):
        on_cpu[3].serve(windows()["first"][:3])


def _has_cuda():
    import torch

    return torch.cuda.is_available()


@pytest.mark.slow
@pytest.mark.skipif("not _has_cuda()", reason="no NVIDIA GPU")
def test_on_cuda_each_compile_is_one_cuda_graph_that_is_kept(on_cuda):
    tokens, graphs, applied, _ = on_cuda
    for window in OUTPUTS:
        assert tokens["compiled", window] == tokens["eager", window]
    assert [graphs["compiled", window] for window in OUTPUTS] == [1, 1, 2]
    assert {applied["eager", window]["graphs"] for window in OUTPUTS} == {"none"}
    assert [applied["compiled", window]["graphs"] for window in OUTPUTS] == [
        f"CUDA graphs by torch.compile, captured: {captured}" for captured in (1, 1, 2)
    ]


# --- what cannot run says so


@pytest.mark.parametrize("admission", ["wave", "continuous"])
def test_compiled_needs_padded_admission(spec, admission):
    spec["options"] = {"mode": "compiled", "admission": admission}
    assert torch_loop.problem(spec) == (
        f"engines.static.options.mode: compiled needs admission: padded, not {admission}"
    )
    spec["options"]["mode"] = "eager"
    assert torch_loop.problem(spec) is None


def test_unknown_mode_names_the_known_ones(spec):
    spec["options"] = {"mode": "compile"}
    assert torch_loop.problem(spec) == (
        "engines.static.options.mode: 'compile' is not one of: eager, compiled"
    )


def test_only_a_compiled_step_on_a_cpu_needs_a_cpp_compiler(spec, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert torch_loop.problem(spec) is None
    spec["options"] = {"mode": "compiled"}
    assert torch_loop.problem(spec).startswith("engines.static.options.mode: compiled needs a C++")
    monkeypatch.setenv("CXX", "sh")
    assert torch_loop.problem(spec) is None
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert torch_loop.problem({**spec, "device": "cuda"}) is None
