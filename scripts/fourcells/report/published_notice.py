"""Why a page was published although its result is not publishable (`make publish REASON=...`)."""

from __future__ import annotations

from fourcells.report.catalogue import TEXTS
from fourcells.report.data import Data
from fourcells.report.notices import Notice


def notices(data: Data) -> list[Notice]:
    """The notice that gives the reason; none on a page that needed none."""
    reason = (data.summary.get("published") or {}).get("reason")
    return [Notice(TEXTS["published_reason"].format(reason=reason))] if reason else []
