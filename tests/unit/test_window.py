"""The life of a timing, and the proof that both engines did the same work."""

import pytest

from fourcells import engines, window
from fourcells.engines import EngineError, RequestRecord, Served, StepRecord
from fourcells.window import other_work
from fourcells.workload import Request, make_requests

REQUESTS = [Request((1, 2, 3), 2), Request((4, 5), 3), Request((6,), 1)]


def served_as_asked(requests=REQUESTS):
    """What an engine without fault returns."""
    return Served(
        requests=[
            RequestRecord(
                request=number,
                prompt_tokens=len(request.prompt),
                output_tokens=request.output_tokens,
                produced_tokens=request.output_tokens,
                admitted_s=0.0,
                first_token_s=0.1,
                finished_s=0.1 * request.output_tokens,
                returned_s=1.0 + number,
            )
            for number, request in enumerate(requests)
        ],
        steps=[
            StepRecord(number, 0.1 * number, 3, useful, 0, useful, 0.5)
            for number, useful in enumerate(
                sum(r.output_tokens > n for r in requests)
                for n in range(max(r.output_tokens for r in requests))
            )
        ],
        tokens=[[7] * request.output_tokens for request in requests],
    )


@pytest.fixture
def served():
    return served_as_asked()


def complaint(served, requests=REQUESTS):
    found = other_work(requests, served)
    assert found, "nothing was found"
    assert "\n" not in found
    return found


def test_work_as_asked_is_no_other_work(served):
    assert other_work(REQUESTS, served) is None


@pytest.mark.parametrize("produced", [0, 2, 4])
def test_wrong_number_of_tokens_is_named(served, produced):
    served.requests[1].produced_tokens = produced
    assert complaint(served) == f"request 1 produced {produced} tokens, not 3"


def test_other_prompt_length_is_named(served):
    served.requests[0].prompt_tokens = 4
    assert complaint(served) == "request 0 had 4 prompt tokens, not 3"


def test_cached_tokens_are_named(served):
    served.requests[2].cached_tokens = 1
    assert complaint(served) == "request 2 took 1 prompt tokens from a cache"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("admitted_s", 0.2),  # after the first token
        ("first_token_s", 0.31),  # after the last one
        ("finished_s", 2.5),  # after the return
        ("returned_s", 0.25),
        ("returned_s", float("inf")),
        ("first_token_s", float("nan")),
        ("finished_s", float("nan")),
        ("admitted_s", float("nan")),
    ],
)
def test_impossible_times_are_named(served, field, value):
    setattr(served.requests[1], field, value)
    assert complaint(served).startswith("request 1 has impossible times: (")


def test_admission_before_the_start_is_impossible(served):
    served.requests[1].admitted_s = -0.5
    assert complaint(served).startswith("request 1 has impossible times: (0.0, -0.5, ")


def test_admission_before_the_arrival_is_impossible():
    work = [Request((1, 2), 2, arrival_s=0.5)]
    record = served_as_asked(work).requests[0]
    record.arrival_s = 0.5
    early = Served([record], [StepRecord(0, 0.5, 1, 1, 0, 2, 0.0)] * 2, [[1, 2]])
    assert other_work(work, early).startswith("request 0 has impossible times: (0.5, ")
    record.arrival_s = 0.0
    assert other_work(work, early) == "request 0 was sent for 0.0 s, not for 0.5 s"


def test_request_that_takes_no_time_is_impossible(served):
    for field in ("first_token_s", "finished_s", "returned_s"):
        setattr(served.requests[1], field, 0.0)
    assert complaint(served).startswith("request 1 has impossible times: (0.0, 0.0, 0.0, ")


def test_missing_request_is_named_and_counted(served):
    del served.requests[1]
    assert complaint(served) == "request 1 was not served (1 of 3 were not)"


def test_request_served_twice_in_the_place_of_another_is_refused():
    requests = [Request((1, 2), 2), Request((3, 4), 2)]
    served = served_as_asked(requests)
    served.requests[1].request = 0
    assert "request 1" in complaint(served, requests)


def test_token_ids_are_as_many_as_counted(served):
    """Else prompt ids may hide among the generated ones."""
    served.tokens[1] = [7] * 4
    assert complaint(served).startswith("request 1")


@pytest.mark.parametrize("change", [1, -1])
def test_steps_must_give_all_tokens(served, change):
    served.steps[0].useful_rows += change
    assert complaint(served) == f"the steps gave {6 + change} tokens, the requests 6"


def test_window_ends_with_the_last_return(served):
    served.requests[0].returned_s = 9.0
    assert window.window_seconds(served) == 9.0


# --- the life of a timing, with an engine of our own


class Fake:
    """An engine that remembers what it was asked."""

    def __init__(self, spoil=lambda number, served: served):
        self.windows, self.closed, self.spoil = [], 0, spoil
        self.applied = {}

    def serve(self, requests):
        self.windows.append(list(requests))
        return self.spoil(len(self.windows), served_as_asked(requests))

    def close(self):
        self.closed += 1


class Witness:
    """Stands in for the witness: one result per window, from a list."""

    def __init__(self, results):
        self.results = iter(results)

    def __call__(self, device):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.result = next(self.results)


QUIET = {"foreign_cpu_s": 0.0, "foreign_cpu_share": 0.0, "steal_s": 0.0, "steal_share": 0.0}


@pytest.fixture
def measure(spec, checkpoint, monkeypatch):
    """Measures one window per witness with a fake engine."""

    def run(fake, witnesses=(QUIET,)):
        monkeypatch.setattr(window, "Watch", Witness(witnesses))
        monkeypatch.setattr(window, "calibrate", lambda device, dtype: {"rate": 1.0})
        monkeypatch.setattr(window, "open_engine", lambda spec, checkpoint: fake)
        said = []
        timing = window.measure({**spec, "samples": len(witnesses)}, said.append)
        return timing, said

    return run


def test_engine_is_warmed_up_with_other_prompts_and_closed(measure, spec, checkpoint):
    fake = Fake()
    timing, said = measure(fake, [QUIET, QUIET])
    assert len(fake.windows) == 3
    assert [fake.windows[n + 1] for n in (0, 1)] == [
        make_requests(spec, checkpoint.vocabulary, sample) for sample in (1, 2)
    ]
    assert len({request.prompt for requests in fake.windows for request in requests}) == 18
    assert fake.closed == 1
    assert len(timing.windows) == 2
    assert said[0] == "loading"


def test_warm_up_fills_every_slot_twice_and_waits_for_nobody(spec):
    spec["requests"] |= {
        "count": 10,
        "order": "sorted",
        "arrival": {"process": "poisson", "rate": 1.0, "seed": 1},
    }
    requests = window.warm_up(spec, 512)
    # 10 requests of 8, 2, 3, 4, 4, 6, 8, 2, 3, 4 tokens, the shortest left out
    assert [request.output_tokens for request in requests] == [3, 3, 4, 4, 4, 6, 8, 8]
    assert {request.arrival_s for request in requests} == {0.0}
    spec["slots"] = 8
    assert len(window.warm_up(spec, 512)) == 10


def test_evidence_of_a_timing_is_complete(measure, spec, checkpoint):
    metadata = measure(Fake(), [QUIET, QUIET])[0].metadata
    assert sorted(metadata) == [
        "applied",
        "calibration",
        "protocol",
        "provenance",
        "spec",
        "verdict",
        "witness",
    ]
    assert metadata["spec"] == {**spec, "samples": 2}
    assert metadata["verdict"] == ["clean"]
    assert metadata["provenance"]["window_s"] == [6.0, 6.0]
    assert len(set(metadata["provenance"]["prompt_hash"])) == 2
    assert metadata["provenance"]["model_hash"] == checkpoint.sha256
    assert metadata["witness"] == {"windows": [QUIET, QUIET]}
    assert metadata["calibration"] == {"before": {"rate": 1.0}, "after": {"rate": 1.0}}


def test_summary_is_one_line_for_people(measure):
    # 27 tokens in a window of 6 s
    assert measure(Fake())[0].summary == "window 6.00 s, 4.5 tok/s, clean"


def test_one_busy_window_makes_the_timing_contended(measure):
    busy = {**QUIET, "foreign_cpu_s": 0.5, "foreign_cpu_share": 0.5}
    metadata = measure(Fake(), [QUIET, busy, QUIET])[0].metadata
    assert metadata["verdict"] == ["contended"]
    assert metadata["witness"] == {"windows": [QUIET, busy, QUIET]}


def test_window_with_stolen_time_is_not_hidden_by_another(measure):
    """Window 1 has the most foreign work, still allowed; window 2 lost half its time to steal."""
    allowed = {**QUIET, "foreign_cpu_s": 0.4, "foreign_cpu_share": 0.04}
    stolen = {**QUIET, "steal_s": 0.5, "steal_share": 0.5}
    assert measure(Fake(), [allowed, stolen])[0].metadata["verdict"] == ["contended"]


@pytest.mark.parametrize("broken", [1, 2])
def test_engine_that_fails_is_closed(measure, broken):
    def spoil(number, served):
        if number == broken:
            raise EngineError("out of blocks")
        return served

    fake = Fake(spoil)
    with pytest.raises(EngineError, match="out of blocks"):
        measure(fake)
    assert fake.closed == 1


def test_window_of_other_work_has_a_problem_and_a_verdict(measure):
    def spoil(number, served):
        if number == 3:
            served.requests[3].produced_tokens -= 1
        return served

    fake = Fake(spoil)
    timing, _ = measure(fake, [QUIET, QUIET])
    assert timing.problem == "request 3 produced 3 tokens, not 4"
    assert timing.metadata["verdict"] == ["short_output"]
    assert fake.closed == 1


def test_window_of_the_asked_work_has_no_problem(measure):
    assert measure(Fake())[0].problem is None


@pytest.mark.parametrize(
    ("field", "verdict"), [("cached_tokens", "cache_hit"), ("preemptions", "preempted")]
)
def test_cache_and_preemption_are_in_the_verdict(measure, field, verdict):
    def spoil(number, served):
        setattr(served.requests[0], field, 1)
        return served

    assert measure(Fake(spoil))[0].metadata["verdict"] == [verdict]


def test_missing_checkpoint_is_found_before_the_engine_is_loaded(spec, monkeypatch):
    monkeypatch.setattr(window, "open_engine", lambda *_: pytest.fail("opened"))
    spec["model"]["path"] = "no/where"
    with pytest.raises(FileNotFoundError, match="make it with: snakemake"):
        window.measure(spec, print)


def test_more_positions_than_the_model_has_are_refused_before_loading(spec, monkeypatch):
    monkeypatch.setattr(window, "open_engine", lambda *_: pytest.fail("opened"))
    spec["max_model_len"] = 1 << 30
    with pytest.raises(EngineError, match=r"max_model_len: 1073741824 is more than the \d+ posi"):
        window.measure(spec, print)


# --- requested against applied


@pytest.fixture
def opened(spec, monkeypatch):
    """Opens a fake engine that applies the spec, but for the given changes."""

    def run(**changes):
        fake = Fake()
        fake.applied = {**engines.requested(spec), "kv_blocks": 7, **changes}
        module = type("module", (), {"open_engine": staticmethod(lambda *_: fake)})
        monkeypatch.setattr(engines.importlib, "import_module", lambda name: module)
        try:
            return engines.open_engine(spec, None), fake
        except EngineError as error:
            return str(error), fake

    return run


def test_engine_that_applies_what_was_asked_is_opened(opened):
    engine, fake = opened()
    assert engine is fake
    assert fake.closed == 0


@pytest.mark.parametrize(
    ("option", "applied", "asked"),
    [
        ("slots", 3, 4),
        ("dtype", "bfloat16", "'float32'"),
        ("threads", 8, 1),
        ("max_model_len", 32, 64),
        ("device", "cuda", "'cpu'"),
        ("admission", "wave", "'padded'"),
        ("prefix_caching", True, False),
        ("prefix_caching", None, False),
    ],
)
def test_option_that_was_not_applied_is_named_and_the_engine_closed(opened, option, applied, asked):
    message, fake = opened(**{option: applied})
    assert message == (
        f"engines.static: option {option}: asked for {asked}, the engine applied {applied!r}"
    )
    assert fake.closed == 1


def test_every_option_that_differs_is_named(opened):
    message, _ = opened(slots=3, threads=8)
    assert message == (
        "engines.static: option slots: asked for 4, the engine applied 3; "
        "option threads: asked for 1, the engine applied 8"
    )
