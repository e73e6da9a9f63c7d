"""The vllm backend: its options without a load, and one real load on this CPU (slow)."""

import json
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from fourcells import engines
from fourcells.engines import vllm_applied, vllm_load, vllm_offline
from fourcells.engines.torch_loop import TorchLoop
from fourcells.simulator import simulate
from fourcells.window import other_work
from fourcells.workload import lengths, make_requests

# The lesson's workloads at a quarter of their lengths, as scale smoke has them.
WORKLOADS = {
    "A": {"count": 64, "prompt_tokens": [32], "output_tokens": [46], "order": "cyclic"},
    "B": {"count": 64, "prompt_tokens": [32], "output_tokens": [8, 16, 32, 128], "order": "cyclic"},
    "sorted": {
        **{"count": 64, "prompt_tokens": [32], "output_tokens": [8, 16, 32, 128]},
        "order": "sorted",
    },
}
# A request comes every 0.1 s on average: an engine of this size runs empty in between.
LATER = {
    **{"count": 12, "prompt_tokens": [32], "output_tokens": [8, 16], "order": "cyclic"},
    "arrival": {"process": "poisson", "rate": 10.0, "seed": 1},
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
    assert vllm_load.problem(spec) == (
        "engines.static.options or scales.tiny.backends.vllm: "
        f"block_size: {block} is not a multiple of {multiple}, as vLLM "
        f"needs on {device}"
    )


@pytest.mark.parametrize("gib", [0.25, 1, 0.1, 0.3, 1.7])
def test_any_kv_cache_size_reads_back_as_asked(spec, monkeypatch, gib):
    """vLLM takes whole bytes: a fraction of a GiB must not come back as another number."""
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    spec["options"] = {"kv_cache_gib": gib}
    llm = MagicMock()
    cache = llm.llm_engine.vllm_config.cache_config
    cache.kv_cache_memory_bytes = vllm_load._engine_arguments(spec)["kv_cache_memory_bytes"]
    cache.num_gpu_blocks, cache.block_size = 513, 32
    switched = {"admission": "continuous", "reservation": "on_demand", "reserve_tokens": None}
    applied = vllm_applied.read_back(llm, switched, spec["options"])
    assert applied["kv_tokens"] == 16_384
    assert applied["kv_cache_gib"] == gib


def test_options_reach_vllm_under_its_own_names(spec):
    spec["options"] = {**OPTIONS, "cudagraph_capture_sizes": [1, 2]}
    assert vllm_load._engine_arguments(spec) == {
        "enforce_eager": True,
        "block_size": 32,
        "max_num_batched_tokens": 4096,
        "kv_cache_memory_bytes": 268_435_456,
        "compilation_config": {"cudagraph_capture_sizes": [1, 2]},
    }


def test_ablations_reach_vllm_under_its_own_names(spec):
    spec["options"] = {"compilation": "NONE", "graphs": "FULL_DECODE_ONLY"}
    assert vllm_load._engine_arguments(spec) == {
        "compilation_config": {"mode": "NONE", "cudagraph_mode": "FULL_DECODE_ONLY"}
    }
    spec["options"] = {"async_scheduling": False}
    assert vllm_load._engine_arguments(spec) == {"async_scheduling": False}


@pytest.mark.parametrize("admission", ["wave", "padded"])
def test_batch_that_one_step_cannot_hold_is_refused(spec, admission):
    # batches of four requests with prompts of 5, 9, 5, 9 tokens
    spec["options"] = {"admission": admission, "max_num_batched_tokens": 27}
    assert vllm_load.problem(spec) == (
        "engines.static.options or scales.tiny.backends.vllm: max_num_batched_tokens: 27 is less "
        f"than the 28 prompt tokens of a batch, which admission: {admission} takes in one step"
    )
    spec["options"] = {"max_num_batched_tokens": 27}
    assert "prompt tokens" not in (vllm_load.problem(spec) or "")


def test_options_that_are_not_given_stay_vllms_own(spec):
    assert vllm_load._engine_arguments({**spec, "options": {}}) == {}


@pytest.mark.parametrize(("name", "number"), [("7", 7), ("12-0a1b", 12), (3, 3)])
def test_request_number_is_read_from_vllms_name(name, number):
    assert vllm_offline._number(name) == number


# --- real loads


def served_by_vllm(checkpoint, model, options, workloads=WORKLOADS, **more):
    """What vLLM applied and how it served the workloads, after a warm-up; an option that is None
    is not given."""
    import torch

    pytest.importorskip("vllm")
    spec = {
        "engine": "vllm",
        "backend": "vllm",
        "scale": "tiny",
        "device": "cpu",
        "dtype": "float32",
        "slots": 16,
        "max_model_len": 256,
        "model": model,
        "seed": 1,
        "repeat": 1,
        "threads": torch.get_num_threads(),
        "options": {k: v for k, v in {**OPTIONS, **options}.items() if v is not None},
        **more,
    }
    requests = {
        name: make_requests(spec | {"workload": name, "requests": workload}, 512, 1)
        for name, workload in workloads.items()
    }
    engine = engines.open_engine(spec, checkpoint)
    try:
        applied = dict(engine.applied)
        engine.serve([replace(r, arrival_s=0.0) for r in next(iter(requests.values()))])
        served = {name: engine.serve(requests[name]) for name in workloads}
    finally:
        engine.close()
    return SimpleNamespace(spec=spec, requests=requests, applied=applied, vllm=served)


@pytest.fixture(scope="module")
def real(checkpoint, tiny_model):
    """vLLM and the torch loop over the same checkpoint, each with all workloads served."""
    found = served_by_vllm(checkpoint, tiny_model, {})
    options = {"admission": "continuous"}
    loop = TorchLoop(found.spec | {"options": options}, checkpoint)
    found.torch = {name: loop.serve(found.requests[name]) for name in WORKLOADS}
    return found


both = pytest.mark.parametrize("workload", ["A", "B"])


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
    planned = simulate(outputs, 16, "continuous").steps
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
@both
def test_kv_tokens_of_vllm_are_those_of_the_loop(real, workload):
    steps, loop = real.vllm[workload].steps, real.torch[workload].steps
    assert [step.kv_tokens for step in steps] == [step.kv_tokens for step in loop]
    usable = real.applied["kv_tokens"]
    assert all(0 < step.kv_tokens <= step.kv_used * usable + 1e-6 for step in steps)


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


@pytest.fixture(scope="module", params=["wave", "padded"])
def gated(request, checkpoint, tiny_model):
    """vLLM behind the gate: its admission, and all workloads served."""
    found = served_by_vllm(checkpoint, tiny_model, {"admission": request.param})
    found.admission = request.param
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "steps"), [("A", 184), ("B", 512), ("sorted", 184)])
def test_gate_makes_batches_of_the_schedule(gated, workload, steps):
    served = gated.vllm[workload]
    outputs = [request.output_tokens for request in gated.requests[workload]]
    planned = simulate(outputs, 16, gated.admission).steps
    assert len(served.steps) == len(planned) == steps
    assert [(s.rows, s.useful_rows, s.waiting) for s in served.steps] == [
        (s.rows, s.useful_rows, s.waiting) for s in planned
    ]
    assert [r.wave for r in served.requests] == [1 + n // 16 for n in range(64)]
    assert gated.applied["admission"] == gated.admission


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS)
def test_gate_leaves_the_work_as_it_was(gated, real, workload):
    served = gated.vllm[workload]
    assert other_work(gated.requests[workload], served) is None
    same = sum(
        one == two for one, two in zip(served.tokens, real.vllm[workload].tokens, strict=True)
    )
    print("requests with equal tokens, of 64:", same)
    assert same >= 58
    # in a padded batch a token exists when its step ends, and all return together
    ends = [step.t_s for step in served.steps[1:]] + [max(r.returned_s for r in served.requests)]
    for record in served.requests:
        last = sum(step.t_s <= record.admitted_s for step in served.steps) + record.output_tokens
        assert served.steps[last - 2].t_s < record.finished_s <= ends[last - 2] + 1e-3
    batches = {r.wave: [o for o in served.requests if o.wave == r.wave] for r in served.requests}
    for batch in batches.values():
        spread = max(r.returned_s for r in batch) - min(r.returned_s for r in batch)
        longest = max(batch, key=lambda r: r.output_tokens)
        if gated.admission == "padded":
            assert all(r.returned_s >= longest.finished_s for r in batch)
        elif workload == "B":
            assert spread > 0.5 * (longest.finished_s - longest.admitted_s)


@pytest.mark.slow
def test_small_budget_cuts_prompts_as_simulated(checkpoint, tiny_model):
    only = {"B": WORKLOADS["B"]}
    found = served_by_vllm(checkpoint, tiny_model, {"max_num_batched_tokens": 80}, only)
    outputs = [request.output_tokens for request in found.requests["B"]]
    planned = simulate(outputs, 16, "continuous", prompt_tokens=[32] * 64, budget=80).steps
    steps = found.vllm["B"].steps
    assert max(step.tokens for step in steps) == 80
    assert [(s.rows, s.useful_rows, s.tokens) for s in steps] == [
        (s.rows, s.useful_rows, s.tokens) for s in planned
    ]
    assert len(steps) > 264
    # the rest of a cut prompt is not there yet
    assert steps[0].kv_tokens == steps[0].tokens == 80


@pytest.mark.slow
@pytest.mark.parametrize("engine_process", [False, True])
def test_requests_are_sent_on_their_schedule(checkpoint, tiny_model, engine_process):
    options = {"engine_process": engine_process}
    found = served_by_vllm(checkpoint, tiny_model, options, {"later": LATER})
    served, requests = found.vllm["later"], found.requests["later"]
    assert other_work(requests, served) is None
    assert [r.arrival_s for r in served.requests] == [r.arrival_s for r in requests]
    assert requests[-1].arrival_s > 0.5
    for record in served.requests:
        assert record.late_s >= 0
        assert record.arrival_s + record.late_s <= record.admitted_s
