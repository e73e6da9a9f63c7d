"""Per-request latencies."""

from __future__ import annotations

import pandas as pd

from fourcells.analysis.load import KEYS, Timings
from fourcells.schema import TIMING


def requests_table(timings: Timings) -> pd.DataFrame:
    """One row per request: the keys of its timing, all columns of the timing, and latencies;
    `stale_key` as in the table of timings.

    Seconds: `ttft_s` first token - arrival, `service_ttft_s` first token - admission (a queue
    does not count), `e2e_produced_s` own last token - arrival, `e2e_returned_s` handed to the
    caller - arrival, `tpot_s` time per output token after the first, null for one token.
    """
    table = timings.requests.join(timings.plan[KEYS], on="timing")
    arrival, first = table["arrival_s"], table["first_token_s"]
    table["ttft_s"] = first - arrival
    table["service_ttft_s"] = first - table["admitted_s"]
    table["e2e_produced_s"] = table["finished_s"] - arrival
    table["e2e_returned_s"] = table["returned_s"] - arrival
    gaps = table["produced_tokens"] - 1
    table["tpot_s"] = (table["finished_s"] - first) / gaps.where(gaps > 0)
    latencies = ["ttft_s", "service_ttft_s", "e2e_produced_s", "e2e_returned_s", "tpot_s"]
    table["stale_key"] = table["timing"].map(dict(enumerate(timings.stale))).astype("str")
    return table[[*KEYS, *TIMING.names, *latencies, "stale_key"]]
