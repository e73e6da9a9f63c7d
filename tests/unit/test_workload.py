"""The requests: equal work for every engine, new prompts in every window."""

import random
from itertools import pairwise
from statistics import fmean, stdev

import pytest

from fourcells import config as settings
from fourcells.config import Cell
from fourcells.workload import arrivals, lengths, make_requests, prompt_hash

# Of the shipped demo, workload B, seed 1, repeat 1, sample 1: prompts are part of what a stored
# timing means, so a Python whose `random` draws otherwise must be noticed.
HASH = "837b4c9b038000bc2a3d5e35e822cd7e75bdbc982631d65864b9ee55b7cc7e2f"


def requests_of(config, engine="vllm", workload="B", slots=16, repeat=1, sample=1):
    spec = {**settings.spec(config, Cell(engine, workload, slots)), "repeat": repeat}
    return make_requests(spec, vocabulary=8192, sample=sample)


@pytest.mark.parametrize(
    ("scale", "prompts", "outputs"), [("lesson", 8192, 11776), ("demo", 2048, 2944)]
)
@pytest.mark.parametrize("workload", "AB")
def test_workloads_have_the_lessons_totals(config, scale, prompts, outputs, workload):
    config["scale"] = scale
    requests = requests_of(config, workload=workload)
    assert len(requests) == 64
    assert sum(len(request.prompt) for request in requests) == prompts
    assert sum(request.output_tokens for request in requests) == outputs


def test_every_batch_of_16_holds_four_of_each_length(config):
    config["scale"] = "lesson"
    lengths = [request.output_tokens for request in requests_of(config)]
    for start in range(0, 64, 16):
        assert sorted(lengths[start : start + 16]) == [32] * 4 + [64] * 4 + [128] * 4 + [512] * 4


def test_prompts_are_equal_for_every_engine_and_slot_count(config):
    hashes = {
        prompt_hash(requests_of(config, engine, "B", slots))
        for engine, slots in (("static", 16), ("vllm", 16), ("vllm", 256))
    }
    assert len(hashes) == 1


@pytest.mark.parametrize(
    "other", [{"repeat": 2}, {"sample": 2}, {"sample": "warm-up"}, {"workload": "A"}]
)
def test_no_prompt_of_one_window_returns_in_another(config, other):
    one, two = requests_of(config), requests_of(config, **other)
    assert not {r.prompt for r in one} & {r.prompt for r in two}


def test_another_seed_gives_other_prompts(config):
    one = requests_of(config)
    config["seed"] = 2
    assert not {r.prompt for r in one} & {r.prompt for r in requests_of(config)}


def test_prompts_of_one_window_share_no_beginning(config):
    assert len({request.prompt[:4] for request in requests_of(config)}) == 64


def test_token_ids_stay_inside_the_vocabulary(spec):
    ids = {i for r in make_requests({**spec, "requests": LONG}, 7, 1) for i in r.prompt}
    assert ids == set(range(7))


LONG = {"count": 4, "prompt_tokens": [200], "output_tokens": [1], "order": "cyclic"}


def test_prompts_do_not_change_with_the_python(config):
    assert prompt_hash(requests_of(config)) == HASH


def test_prompts_do_not_depend_on_earlier_draws(config):
    one = prompt_hash(requests_of(config))
    random.seed(99)
    assert prompt_hash(requests_of(config)) == one


def test_hash_sees_prompts_and_lengths():
    from fourcells.workload import Request

    hashes = {
        prompt_hash(requests)
        for requests in (
            [Request((1, 2), 3)],
            [Request((2, 1), 3)],
            [Request((1, 2), 4)],
            [Request((1,), 3), Request((2,), 3)],
            [],
        )
    }
    assert len(hashes) == 5
    assert prompt_hash([Request((1, 2), 3)]) == prompt_hash([Request((1, 2), 3)])


SIX = {"count": 6, "prompt_tokens": [5, 9], "output_tokens": [8, 2, 3, 4]}


def test_lists_repeat_until_every_request_has_a_length():
    pairs = lengths({**SIX, "order": "cyclic"}, seed=1)
    assert pairs == [(5, 8), (9, 2), (5, 3), (9, 4), (5, 8), (9, 2)]


def test_sorted_order_is_shortest_first():
    pairs = lengths({**SIX, "order": "sorted"}, seed=1)
    assert pairs == [(9, 2), (9, 2), (5, 3), (9, 4), (5, 8), (5, 8)]


def test_shuffled_order_follows_the_seed_and_keeps_the_lengths():
    many = {
        "count": 64,
        "prompt_tokens": [8],
        "output_tokens": [32, 64, 128, 512],
        "order": "shuffled",
    }
    one, again, two = ([output for _, output in lengths(many, seed)] for seed in (1, 1, 2))
    assert one == again != two
    assert sorted(one) == sorted(two) == [32] * 16 + [64] * 16 + [128] * 16 + [512] * 16
    assert one != [32, 64, 128, 512] * 16


POISSON = {"arrival": {"process": "poisson", "rate": 4.0, "seed": 1}}


def test_requests_of_a_block_are_all_there_at_the_start():
    assert arrivals({"count": 3}) == [0.0, 0.0, 0.0]


def test_poisson_arrivals_have_the_rate_and_begin_at_once():
    times = arrivals({"count": 20_001, **POISSON})
    assert times[0] == 0 and times == sorted(times)
    gaps = [after - before for before, after in pairwise(times)]
    # exponential: the mean is 1 / rate, and so is the spread (standard error 0.7 %)
    assert fmean(gaps) == pytest.approx(0.25, rel=0.03)
    assert stdev(gaps) == pytest.approx(0.25, rel=0.03)


def test_arrivals_follow_from_their_seed_and_rate_alone():
    assert arrivals({"count": 9, **POISSON}) == arrivals({"count": 9, **POISSON, "order": "x"})
    other = {"arrival": {"process": "poisson", "rate": 4.0, "seed": 2}}
    assert arrivals({"count": 9, **other}) != arrivals({"count": 9, **POISSON})
    twice = {"arrival": {"process": "poisson", "rate": 8.0, "seed": 1}}
    halved = [time / 2 for time in arrivals({"count": 9, **POISSON})]
    assert arrivals({"count": 9, **twice}) == pytest.approx(halved)


def test_requests_carry_their_arrival(spec):
    spec["requests"] |= POISSON
    made = make_requests(spec, 512, 1)
    assert [request.arrival_s for request in made] == arrivals(spec["requests"])
    again = make_requests(spec | {"repeat": 2}, 512, 1)
    assert [r.arrival_s for r in again] == [r.arrival_s for r in made]
    assert again[0].prompt != made[0].prompt
