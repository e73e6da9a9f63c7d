"""The comparison that the page speaks of first."""

from __future__ import annotations

import pandas as pd

from fourcells.report.data import Data, summary_ratio


def main_group(data: Data) -> pd.DataFrame:
    """The ratios of one engine, baseline and slot count that the answer speaks of.

    The group with most of R_A, R_B and Q, then the one whose values the summary carries, then the
    first. Ratios of slots, workloads and latencies belong to no such group.
    """
    headline = data.ratios["name"].astype(str).str.match(r"R_|Q$|Q_")
    frame = data.ratios[data.ratios.value.notna() & headline]
    if frame.empty:
        return frame
    groups = [g for _, g in frame.groupby(["engine", "baseline", "slots"], sort=False)]
    return max(groups, key=lambda g: (g["name"].nunique(), _in_summary(data, g)))


def _in_summary(data: Data, group: pd.DataFrame) -> int:
    return sum(bool(summary_ratio(data, part)) for _, part in group.groupby("name"))
