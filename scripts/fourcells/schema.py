"""Columns of the two files of a timing, and the key of their metadata. One place for all readers.

Times are seconds from t0, the moment all requests are submitted, on the monotonic clock.
"""

from __future__ import annotations

import pyarrow as pa

# Key of the parquet file metadata; its value is one JSON object.
METADATA_KEY = b"fourcells"

_INT, _FLOAT = pa.int64(), pa.float64()

# One row per request.
TIMING = pa.schema(
    [
        ("sample", _INT),
        ("request", _INT),
        ("prompt_tokens", _INT),
        ("output_tokens", _INT),
        ("produced_tokens", _INT),
        ("arrival_s", _FLOAT),
        ("late_s", _FLOAT),
        ("admitted_s", _FLOAT),
        ("first_token_s", _FLOAT),
        ("finished_s", _FLOAT),
        ("returned_s", _FLOAT),
        ("wave", _INT),
        ("cached_tokens", _INT),
        ("preemptions", _INT),
    ]
)
# Columns that earlier files lack, with what held for them (None: nobody counted).
ADDED = {"late_s": 0.0, "kv_tokens": None}
# One row per engine step; t_s is its start.
STEPS = pa.schema(
    [
        ("sample", _INT),
        ("step", _INT),
        ("t_s", _FLOAT),
        ("rows", _INT),
        ("useful_rows", _INT),
        ("waiting", _INT),
        ("tokens", _INT),
        ("kv_used", _FLOAT),
        ("preempted", _INT),
        ("kv_tokens", _INT),
    ]
)
