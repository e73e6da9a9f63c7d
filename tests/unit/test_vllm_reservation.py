"""When a vllm engine takes KV blocks: the rules without a load, and real loads on this CPU (slow).

The loads are the measurement in small: 64 requests of 128 + 64 tokens in 64 slots, whose KV memory
is for eight requests of the greatest length, 2,048 tokens.
"""

from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_vllm_offline import served_by_vllm

from fourcells import verdict
from fourcells.engines import reservation, vllm_load
from fourcells.schedule import least_tokens
from fourcells.simulator import simulate
from fourcells.window import other_work

USABLE, LONGEST, PROMPT, OUTPUT = 16_384, 2048, 128, 64
EVEN = {"count": 64, "prompt_tokens": [PROMPT], "output_tokens": [OUTPUT], "order": "cyclic"}
# The lesson's outputs, at an eighth of their lengths.
MIXED = {**EVEN, "prompt_tokens": [16], "output_tokens": [4, 8, 16, 64]}

sizes = st.integers(1, 4096)


# --- without a load


@pytest.mark.parametrize(
    ("prompt", "output", "exact", "pow2"),
    [(128, 32, 160, 256), (128, 64, 192, 256), (128, 128, 256, 256), (128, 512, 640, 1024)],
)
def test_targets_of_the_lessons_requests(prompt, output, exact, pow2):
    assert least_tokens("on_demand", prompt, output, 2048) == 0
    assert least_tokens("exact", prompt, output, 2048) == exact
    assert least_tokens("pow2", prompt, output, 2048) == pow2
    assert least_tokens("max", prompt, output, 2048) == 2048


@given(prompt=sizes, output=sizes)
def test_pow2_is_the_next_power_of_two(prompt, output):
    found = least_tokens("pow2", prompt, output, longest=1 << 13)
    assert found.bit_count() == 1
    assert found // 2 < prompt + output <= found


@given(
    rule=st.sampled_from(["exact", "pow2", "max"]),
    prompt=sizes,
    output=sizes,
    computed=st.integers(0, 4096),
    cached=st.integers(0, 64),
    new=sizes,
    ahead=st.integers(0, 8),
)
def test_blocks_are_asked_for_up_to_the_target(rule, prompt, output, computed, cached, new, ahead):
    asked = {}

    def allocate_slots(
        request, new_tokens, cached_tokens=0, num_lookahead_tokens=0, reserved_blocks=0
    ):
        asked.update(reserved_blocks=reserved_blocks, ahead=num_lookahead_tokens)
        return request.num_computed_tokens + cached_tokens + new_tokens + num_lookahead_tokens

    request = SimpleNamespace(
        num_prompt_tokens=prompt, max_tokens=output, num_computed_tokens=computed
    )
    allocate = reservation.reserving(allocate_slots, rule, 4096)
    held = allocate(request, new, cached, num_lookahead_tokens=ahead, reserved_blocks=3)
    # whatever is computed already, and never less than vLLM itself asks for
    target = least_tokens(rule, prompt, output, 4096)
    assert held == max(target, computed + cached + new + ahead)
    assert asked["ahead"] >= ahead
    assert asked["reserved_blocks"] == 3


@pytest.mark.parametrize(("block", "blocks"), [(32, 513), (2048, 9), (16, 1025)])
def test_usable_tokens_leave_the_null_block_out(block, blocks):
    options = {"kv_tokens": USABLE, "block_size": block}
    assert reservation.arguments(options, bytes_per_token=512) == {
        "num_gpu_blocks_override": blocks,
        "kv_cache_memory_bytes": blocks * block * 512,
    }
    options["gpu_memory_utilization"] = 0.8
    assert reservation.arguments(options, 512) == {"num_gpu_blocks_override": blocks}


def test_without_usable_tokens_vllm_is_told_nothing():
    assert reservation.arguments({"block_size": 32}, 512) == {}


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (
            {"kv_tokens": 1000, "block_size": 32},
            "kv_tokens: 1000 at scale tiny is not a multiple of block_size: 32",
        ),
        (
            {"kv_tokens": 32, "block_size": 32},
            "kv_tokens: 32 at scale tiny is less than one request of the greatest length, "
            "max_model_len: 64",
        ),
        ({"kv_tokens": 1024}, "kv_tokens: needs the option block_size too"),
        (
            {"kv_tokens": 1024, "block_size": 32, "kv_cache_gib": 1},
            "kv_tokens: kv_cache_gib says the same in other words; give one of them",
        ),
        (
            {"reservation": "exact", "reserve_tokens": 32},
            "reserve_tokens: only an engine with reservation: max has it",
        ),
        ({"reserve_tokens": 32}, "reserve_tokens: only an engine with reservation: max has it"),
        (
            {"reservation": "max", "reserve_tokens": 65},
            "reserve_tokens: 65 at scale tiny is more than max_model_len: 64, the most that vLLM "
            "reserves",
        ),
        # 9 + 6 tokens
        (
            {"reservation": "max", "reserve_tokens": 14},
            "reserve_tokens: 14 at scale tiny is less than the 15 tokens of the longest request "
            "of workload six",
        ),
        # in a padded batch of four, 9 + 8 tokens
        (
            {"reservation": "max", "reserve_tokens": 16, "admission": "padded"},
            "reserve_tokens: 16 at scale tiny is less than the 17 tokens of the longest request "
            "of workload six",
        ),
    ],
)
def test_sizes_that_cannot_be_are_refused_in_one_line(spec, options, what):
    spec["options"] = options
    assert vllm_load.problem(spec) == f"engines.static.options.{what}"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kv_tokens": 64, "block_size": 64},
        {"kv_tokens": 1024, "block_size": 32, "reservation": "pow2"},
        {"reservation": "max", "reserve_tokens": 15},
        {"reservation": "max", "reserve_tokens": 17, "admission": "padded"},
        {"reservation": "max", "reserve_tokens": 64},
    ],
)
def test_sizes_that_fit_have_no_problem(spec, options):
    spec["options"] = options
    assert reservation.problem(spec) is None


# --- real loads: 64 slots, memory for eight requests of the greatest length

# options, and what a request holds: None if that grows
ENGINES = {
    "on_demand": ({"reservation": "on_demand"}, None),
    "exact": ({"reservation": "exact"}, PROMPT + OUTPUT),
    "pow2": ({"reservation": "pow2"}, 256),
    "max": ({"reservation": "max"}, LONGEST),
    "max_1024": ({"reservation": "max", "reserve_tokens": 1024}, 1024),
    "one_block": ({"block_size": LONGEST}, LONGEST),
}


def serve(checkpoint, model, options, workloads, **more):
    options = {"kv_tokens": USABLE, "kv_cache_gib": None, "max_num_batched_tokens": 8192, **options}
    wide = {"slots": 64, "max_model_len": LONGEST} | more
    return served_by_vllm(checkpoint, model, options, workloads, **wide)


@pytest.fixture(scope="module", params=ENGINES)
def reserved(request, checkpoint, tiny_model):
    """An engine with two workloads served, and what one of its requests holds."""
    options, each = ENGINES[request.param]
    found = serve(checkpoint, tiny_model, options, {"even": EVEN, "mixed": MIXED})
    found.name, found.each = request.param, each
    return found


@pytest.mark.slow
def test_engine_reports_its_reservation(reserved):
    asked, applied = ENGINES[reserved.name][0], reserved.applied
    rule, block = asked.get("reservation", "on_demand"), asked.get("block_size", 32)
    assert applied["reservation"] == rule
    assert applied["reserve_tokens"] == (reserved.each if rule == "max" else None)
    assert (applied["kv_tokens"], applied["block_size"]) == (USABLE, block)
    assert applied["kv_blocks"] == USABLE // block + 1


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["even", "mixed"])
def test_rows_are_those_that_the_memory_holds(reserved, workload):
    """Reserving so much is having so many slots."""
    served, requests = reserved.vllm[workload], reserved.requests[workload]
    rows = min(64, USABLE // reserved.each) if reserved.name.startswith(("max", "one")) else 64
    planned = simulate([r.output_tokens for r in requests], rows, "continuous").steps
    expected = {
        "even": {64: 64, 16: 256, 8: 512},
        "mixed": {64: 64, 16: 132, 8: 220},
    }[workload][rows]
    assert len(served.steps) == len(planned) == expected
    assert [(s.rows, s.useful_rows, s.waiting) for s in served.steps] == [
        (s.rows, s.useful_rows, s.waiting) for s in planned
    ]
    assert other_work(requests, served) is None
    assert verdict.of_work(served, {"options": {}}) == []


@pytest.mark.slow
def test_blocks_are_taken_by_the_rule(reserved):
    for step in reserved.vllm["even"].steps:
        taken = step.kv_used * USABLE
        if reserved.each:
            assert taken == pytest.approx(step.rows * reserved.each)
        else:
            # one block per row at most is begun and not full
            assert step.kv_tokens <= taken + 1e-6 < step.kv_tokens + 32 * step.rows
        assert step.kv_tokens <= taken + 1e-6


@pytest.mark.slow
def test_tokens_held_are_those_computed(reserved):
    """In its n-th step a request holds its prompt and the n tokens it was fed."""
    for workload, prompt in (("even", PROMPT), ("mixed", 16)):
        outputs = [r.output_tokens for r in reserved.requests[workload]]
        assert sum(step.kv_tokens for step in reserved.vllm[workload].steps) == sum(
            prompt * n + n * (n - 1) // 2 for n in outputs
        )


@pytest.fixture(scope="module")
def starved(checkpoint, tiny_model):
    """Paging with a quarter of the memory, which fills up while requests grow."""
    return serve(checkpoint, tiny_model, {"kv_tokens": 4096}, {"even": EVEN})


@pytest.mark.slow
def test_paging_sends_back_who_has_no_room(starved):
    served, requests = starved.vllm["even"], starved.requests["even"]
    assert sum(step.preempted for step in served.steps) > 0
    assert sum(r.preemptions for r in served.requests) == sum(s.preempted for s in served.steps)
    assert max(step.kv_used for step in served.steps) == 1.0
    assert other_work(requests, served) is None
    # a fault where memory should not bind, the finding where it was made to
    assert verdict.of_work(served, {"options": {}}) == ["preempted"]
    assert verdict.of_work(served, starved.spec) == []


@pytest.mark.slow
def test_tokens_computed_again_are_those_lost(starved):
    steps, each = starved.vllm["even"].steps, PROMPT + OUTPUT - 1
    ends = sorted(record.finished_s for record in starved.vllm["even"].requests)
    lost = []
    for before, step in pairwise(steps):
        finished = sum(before.t_s < end <= step.t_s for end in ends)
        lost.append(before.kv_tokens + step.tokens - step.kv_tokens - finished * each)
        assert (lost[-1] > 0) == (step.preempted > 0)
        # who is sent back held at least a prompt
        assert lost[-1] >= PROMPT * step.preempted
    assert sum(lost) == sum(step.tokens for step in steps) - 64 * each > 0


@pytest.mark.slow
def test_reserving_with_little_memory_sends_nobody_back(checkpoint, tiny_model):
    options = {"kv_tokens": 4096, "reservation": "exact"}
    served = serve(checkpoint, tiny_model, options, {"even": EVEN}).vllm["even"]
    assert verdict.of_work(served, {"options": {}}) == []
    # 21 requests of 192 tokens, four rounds of 64 steps
    assert max(step.rows for step in served.steps) == 21
    assert len(served.steps) == 256
