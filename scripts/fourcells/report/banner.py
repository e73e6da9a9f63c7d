"""The verdict that stands at the top of the page: may these numbers be published, and why not."""

from __future__ import annotations

from dataclasses import dataclass, field

from fourcells.report import numbers as n
from fourcells.report.catalogue import TEXTS
from fourcells.report.data import Data
from fourcells.report.data_words import said
from fourcells.report.timings import KEYS, unclean


@dataclass(frozen=True)
class Banner:
    """The verdict in a sentence, and every reason against publishing."""

    publishable: bool
    sentence: str
    reasons: list[str] = field(default_factory=list)


def banner(data: Data) -> Banner:
    """The summary's verdict; a summary that does not judge is no permission."""
    judged = data.summary.get("publishable") or {}
    reasons = [str(said(reason)) for reason in judged.get("reasons") or []]
    if judged.get("value") is True and not reasons:
        total = len(data.timings.drop_duplicates(KEYS))
        clean = total - len(unclean(data))
        words = {"clean": n.integer(clean), "total": n.integer(total)}
        return Banner(True, TEXTS["banner_yes"].format(**words))
    if not reasons:
        return Banner(False, TEXTS["banner_unknown"])
    key = "banner_no_one" if len(reasons) == 1 else "banner_no"
    return Banner(False, TEXTS[key].format(n=n.integer(len(reasons))), reasons)
