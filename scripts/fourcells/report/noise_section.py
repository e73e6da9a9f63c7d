"""The section on noise: what may be concluded, first; the reckoning behind it, folded."""

from __future__ import annotations

from collections.abc import Iterator

from fourcells.report import noise as tables
from fourcells.report import numbers as n
from fourcells.report.blocks import Commands, Details, Figure, Listing, Section, or_reason
from fourcells.report.catalogue import LABELS, TEXTS
from fourcells.report.data import Data
from fourcells.report.data_words import said
from fourcells.report.grid import drop
from fourcells.report.ratio_figure import ratio_figure

PRECISE = "make precise TARGET=0.05"


def noise(data: Data) -> Section:
    """The whole section. What is missing leaves its reason."""
    blocks: list = [*_conclusions(data), *_limits(data)]
    blocks.append(or_reason(tables.cells(data), TEXTS["noise_caption"], "why_no_noise"))
    blocks.append(or_reason(tables.controls(data), TEXTS["controls_caption"], "why_no_controls"))
    blocks.append(Details(TEXTS["variance_head"], _variance(data)))
    return Section("noise", TEXTS["noise_head"], "4", TEXTS["noise_intro"], blocks)


def _conclusions(data: Data) -> Iterator:
    svg = ratio_figure(data)
    if svg:
        yield Figure("conclusions", svg, TEXTS["ratio_figure"], "ratios")
    yield or_reason(tables.conclusions(data), TEXTS["conclusions_caption"], "why_no_ratio")


def _limits(data: Data) -> Iterator:
    """The sentences, the lesson's own claim, then what they were reckoned from."""
    limits = data.summary.get("limits") or {}
    sentences = list(limits.get("sentences") or [])
    if limits.get("n") == 0:
        # without Q, what can be said of the first ratio that was measured
        measured = [each for each in (limits.get("by_ratio") or {}).values() if each.get("n")]
        sentences += measured[0]["sentences"] if measured else []
    claim = _claim(data.summary.get("lesson_claim") or {})
    if sentences or claim:
        yield Listing([said(sentence) for sentence in (*sentences, *claim)])
    if not sentences:
        yield TEXTS["absent"].format(what=TEXTS["limits_head"], why=TEXTS["why_no_limits"])
    left_out = tables.left_out(limits)
    if left_out.rows:
        yield Details(TEXTS["left_out_head"], [left_out])
    cost = tables.cost(limits)
    if cost.rows:
        command = Commands(TEXTS["cost_command"], [PRECISE])
        yield Details(TEXTS["cost_head"], [cost, command])


def _variance(data: Data) -> list:
    """The table; advice that is the same for all cells is said once, above it."""
    grid = tables.variance(data)
    advice = data.variance.advice.dropna().unique()
    if len(advice) != 1:
        return [or_reason(grid, TEXTS["variance_caption"], "why_no_variance")]
    return [said(str(advice[0])), drop(grid, [LABELS["advice"]])]


def _claim(claim: dict) -> list[str]:
    """What the lesson's single run could claim, as the summary puts it."""
    sentence = claim.get("sentence")
    if n.is_missing(sentence):
        ends = {key: claim.get(key) for key in ("estimate", "low", "high")}
        if any(map(n.is_missing, ends.values())):
            return []
        written = {key: n.ratio(value) for key, value in ends.items()}
        sentence = TEXTS["lesson_claim"].format(**written)
    return [sentence]
