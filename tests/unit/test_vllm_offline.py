"""The vllm backend: its options without a load, and one real load on this CPU (slow)."""

import json
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from fourcells import engines
from fourcells.engines import vllm_offline
from fourcells.engines.torch_loop import TorchLoop
from fourcells.schedule import simulate
from fourcells.window import other_work
from fourcells.workload import lengths, make_requests

# The lesson's workloads at a quarter of their lengths, as scale smoke has them.
WORKLOADS = {
    "A": {"count": 64, "prompt_tokens": [32], "output_tokens": [46], "order": "cyclic"},
    "B": {"count": 64, "prompt_tokens": [32], "output_tokens": [8, 16, 32, 128], "order": "cyclic"},
}
OPTIONS = {
    "enforce_eager": True,
    "engine_process": False,
    "block_size": 32,
    "kv_cache_gib": 0.25,
    "max_num_batched_tokens": 4096,
}


# --- without a load


@pytest.mark.parametrize(
    ("device", "block", "multiple"), [("cpu", 16, 32), ("cpu", 48, 32), ("cuda", 8, 16)]
)
def test_block_size_that_the_device_cannot_have_is_refused(spec, device, block, multiple):
    spec.update(device=device, options={"block_size": block})
    assert vllm_offline.problem(spec) == (
        "engines.static.options or scales.tiny.backends.vllm: "
        f"block_size: {block} is not a multiple of {multiple}, as vLLM "
        f"needs on {device}"
    )


@pytest.mark.parametrize("gib", [0.25, 1, 0.1, 0.3, 1.7])
def test_any_kv_cache_size_reads_back_as_asked(spec, monkeypatch, gib):
    """vLLM takes whole bytes: a fraction of a GiB must not come back as another number."""
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    spec["options"] = {"kv_cache_gib": gib}
    engine = MagicMock()
    cache = engine.llm.llm_engine.vllm_config.cache_config
    cache.kv_cache_memory_bytes = vllm_offline._engine_arguments(spec)["kv_cache_memory_bytes"]
    applied = vllm_offline.VllmOffline._read_back(engine, spec["options"])
    assert applied["kv_cache_gib"] == gib


def test_options_reach_vllm_under_its_own_names(spec):
    spec["options"] = {**OPTIONS, "cudagraph_capture_sizes": [1, 2]}
    assert vllm_offline._engine_arguments(spec) == {
        "enforce_eager": True,
        "block_size": 32,
        "max_num_batched_tokens": 4096,
        "kv_cache_memory_bytes": 268_435_456,
        "compilation_config": {"cudagraph_capture_sizes": [1, 2]},
    }


def test_options_that_are_not_given_stay_vllms_own(spec):
    assert vllm_offline._engine_arguments({**spec, "options": {}}) == {}


@pytest.mark.parametrize(("name", "number"), [("7", 7), ("12-0a1b", 12), (3, 3)])
def test_request_number_is_read_from_vllms_name(name, number):
    assert vllm_offline._number(name) == number


# --- one real load


@pytest.fixture(scope="module")
def real(checkpoint, tiny_model):
    """vLLM and the torch loop over the same checkpoint, each with both workloads served."""
    import torch

    pytest.importorskip("vllm")
    common = {
        "engine": "vllm",
        "scale": "tiny",
        "device": "cpu",
        "dtype": "float32",
        "slots": 16,
        "max_model_len": 256,
        "model": tiny_model,
        "seed": 1,
        "repeat": 1,
        "threads": torch.get_num_threads(),
    }
    specs = {
        name: {
            **common,
            "backend": "vllm",
            "options": OPTIONS,
            "workload": name,
            "requests": lengths,
        }
        for name, lengths in WORKLOADS.items()
    }
    requests = {name: make_requests(spec, 512, 1) for name, spec in specs.items()}
    engine = engines.open_engine(specs["A"], checkpoint)
    try:
        applied = dict(engine.applied)
        # a short warm-up, then both workloads in one engine
        engine.serve(requests["A"][:4])
        vllm = {name: engine.serve(requests[name]) for name in WORKLOADS}
    finally:
        engine.close()
    loop = TorchLoop({**specs["A"], "options": {"admission": "continuous"}}, checkpoint)
    torch_loop = {name: loop.serve(requests[name]) for name in WORKLOADS}
    return SimpleNamespace(requests=requests, vllm=vllm, torch=torch_loop, applied=applied)


both = pytest.mark.parametrize("workload", WORKLOADS)


@pytest.mark.slow
def test_vllm_reports_what_it_applied(real):
    assert {
        k: real.applied[k] for k in (*OPTIONS, "slots", "dtype", "device", "max_model_len")
    } == {
        **OPTIONS,
        "slots": 16,
        "dtype": "float32",
        "device": "cpu",
        "max_model_len": 256,
    }
    assert real.applied["prefix_caching"] is False
    assert real.applied["async_scheduling"] is False
    assert real.applied["attention_backend"] == "CPU_ATTN"
    # 256 bytes per token and layer pair: 2 x 2 layers x 1 head x 32 x 4 bytes = 512
    assert real.applied["kv_blocks"] * 32 * 512 == 2**28
    assert real.applied["scheduler"].endswith("SyncScheduler")


@pytest.mark.slow
@both
def test_vllm_takes_the_steps_of_the_schedule(real, workload):
    outputs = [output for _, output in lengths(WORKLOADS[workload], seed=1)]
    planned = simulate(outputs, 16, "continuous")
    assert len(planned) == {"A": 184, "B": 264}[workload]
    steps = real.vllm[workload].steps
    assert [(s.rows, s.useful_rows, s.waiting) for s in steps] == [
        (s.rows, s.useful_rows, s.waiting) for s in planned
    ]
    assert [s.step for s in steps] == list(range(len(planned)))


@pytest.mark.slow
@both
def test_vllm_does_the_work_that_was_asked(real, workload):
    served = real.vllm[workload]
    assert other_work(real.requests[workload], served) is None
    assert sum(r.produced_tokens for r in served.requests) == 2944
    assert [len(tokens) for tokens in served.tokens] == [
        request.output_tokens for request in real.requests[workload]
    ]
    assert {(r.cached_tokens, r.preemptions, r.wave) for r in served.requests} == {(0, 0, None)}


@pytest.mark.slow
@both
def test_vllm_steps_schedule_each_prompt_once_and_each_later_token(real, workload):
    steps = real.vllm[workload].steps
    assert sum(step.tokens for step in steps) == 64 * 32 + 2944 - 64
    assert steps[0].tokens == 16 * 32
    starts = [step.t_s for step in steps]
    assert 0 <= starts[0] < 5
    assert all(one < two for one, two in pairwise(starts))


@pytest.mark.slow
@both
def test_vllm_returns_a_request_after_its_last_token(real, workload):
    for r in real.vllm[workload].requests:
        assert 0 <= r.admitted_s <= r.first_token_s < r.finished_s <= r.returned_s
        # and long before the window ends, unless it is among the last
    records = real.vllm[workload].requests
    assert min(r.returned_s for r in records) < 0.6 * max(r.returned_s for r in records)


@pytest.mark.slow
@both
def test_kv_used_by_vllm_is_the_share_of_its_blocks(real, workload):
    # 16 prompts of 32 tokens, with room for the first token: one or two blocks each
    first, blocks = real.vllm[workload].steps[0], real.applied["kv_blocks"]
    assert 16 / blocks <= first.kv_used <= 33 / blocks
    assert max(step.kv_used for step in real.vllm[workload].steps) <= 16 * 6 / blocks


@pytest.mark.slow
def test_vllm_produces_the_tokens_of_the_loop(real):
    """Other kernels round otherwise, so a near tie may end differently; most must not."""
    same = {
        name: sum(
            one == two
            for one, two in zip(real.vllm[name].tokens, real.torch[name].tokens, strict=True)
        )
        for name in WORKLOADS
    }
    print("requests with equal tokens, of 64:", json.dumps(same))
    assert min(same.values()) >= 58
