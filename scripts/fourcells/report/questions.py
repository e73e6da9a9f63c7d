"""The lesson's eight questions, each answered from this machine's tables."""

from __future__ import annotations

from fourcells.report.answers_cause import estimate, four_cells, one_comparison
from fourcells.report.answers_memory import exercise, two_problems
from fourcells.report.answers_noise import two_runs
from fourcells.report.answers_time import equal_latency, more_slots
from fourcells.report.blocks import Section
from fourcells.report.catalogue import TEXTS
from fourcells.report.data import Data

ANSWERS = (
    two_problems,
    one_comparison,
    four_cells,
    estimate,
    equal_latency,
    more_slots,
    exercise,
    two_runs,
)


def questions(data: Data) -> Section:
    """The eight in the lesson's order. What an answer lacks is said in it, with the command."""
    blocks = [answer(data) for answer in ANSWERS]
    return Section("questions", TEXTS["questions_head"], "", TEXTS["questions_intro"], blocks)
