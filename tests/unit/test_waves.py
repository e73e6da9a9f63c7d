"""Batches found in what an engine's own scheduler did, and the own tokens of a padded one."""

import pytest

from fourcells.engines import EngineError, RequestRecord, StepRecord
from fourcells.engines.waves import keep_own_tokens, number_waves

SPEC = {"engine": "vllm_padded", "slots": 2}


def record(request, admitted, output, asked=None):
    asked = asked or output
    return RequestRecord(
        **{"request": request, "prompt_tokens": 4, "output_tokens": output},
        **{"produced_tokens": asked, "admitted_s": admitted, "first_token_s": admitted + 0.1},
        **{"finished_s": admitted + 0.1 * asked, "returned_s": admitted + 0.1 * asked},
    )


def served():
    """Three requests in two slots: a batch of 3 and 1 tokens, both asked for 3, then one of 2."""
    records = [record(0, 0.0, 3), record(1, 0.0, 1, asked=3), record(2, 0.3, 2)]
    starts = [0.0, 0.1, 0.2, 0.3, 0.4]
    steps = [StepRecord(n, start, 2, 2, 1, 2, 0.5) for n, start in enumerate(starts)]
    return records, steps, [start + 0.09 for start in starts]


def test_requests_of_one_admission_are_a_wave():
    records, _, _ = served()
    number_waves(SPEC, records)
    assert [r.wave for r in records] == [1, 1, 2]


def test_last_wave_alone_may_be_short():
    records = [record(0, 0.0, 3), record(1, 0.1, 3), record(2, 0.1, 2)]
    with pytest.raises(EngineError, match=r"vllm_padded: wave 1 began with 1 of 2 requests: .*max"):
        number_waves(SPEC, records)


def test_padding_is_taken_off():
    records, steps, done = served()
    number_waves(SPEC, records)
    keep_own_tokens(records, steps, done)
    assert [r.produced_tokens for r in records] == [3, 1, 2]
    assert [r.finished_s for r in records] == pytest.approx([0.29, 0.09, 0.49])
    assert [s.useful_rows for s in steps] == [2, 1, 1, 1, 1]
    # what the batch took stays
    assert [s.rows for s in steps] == [2] * 5
    assert records[1].returned_s == pytest.approx(0.3)


def test_wave_of_other_than_its_longest_is_an_error():
    records, steps, done = served()
    number_waves(SPEC, records)
    with pytest.raises(EngineError, match="wave 2 took 1 steps, not 2"):
        keep_own_tokens(records, steps[:-1], done)
