"""The sections of the page, in reading order."""

from __future__ import annotations

from fourcells.analysis import lesson
from fourcells.report import (
    answer,
    cells_section,
    drain_section,
    figures,
    grids,
    history,
    ideas,
    kv_section,
    latency,
    noise_section,
    questions,
    setting,
    timings,
)
from fourcells.report.blocks import Details, Figure, Section, or_reason
from fourcells.report.catalogue import TEXTS
from fourcells.report.data import Data
from fourcells.report.gantt_figure import gantt
from fourcells.report.repeats_figure import repeats
from fourcells.report.slots_picture import slots_picture


def sections(data: Data) -> list[Section]:
    """The lesson's sections 1 to 6, the ideas behind its ratios after those, then the noise, the
    questions, machine, timings and their history."""
    return [
        _slots(data),
        cells_section.cells(data),
        _throughput(data),
        _ratios(data),
        ideas.ideas(data),
        _latency(data),
        drain_section.drain(data),
        kv_section.kv(data),
        noise_section.noise(data),
        questions.questions(data),
        _machine(data),
        _timings(data),
        _history(data),
    ]


def _slots(data: Data) -> Section:
    given = lesson.figures()["picture"]
    svg, caption = slots_picture(given["output_tokens"], given["slots"])
    lengths = ", ".join(f"{name} {count}" for name, count in given["output_tokens"].items())
    intro = TEXTS["slots_intro"].format(lengths=lengths)
    blocks = [Figure("slots", svg, caption), *gantt(data)]
    return Section("slots", TEXTS["slots_head"], "1", intro, blocks)


def _throughput(data: Data) -> Section:
    blocks: list = []
    chosen = figures.chosen(data, data.throughput)
    svg = figures.throughput(chosen)
    if svg:
        caption = _of_chosen(TEXTS["throughput_figure"], chosen, data.throughput)
        blocks.append(Figure("throughput", svg, caption, "throughput"))
    blocks.append(or_reason(grids.throughput(data), TEXTS["throughput_head"], "why_no_table"))
    blocks.append(or_reason(grids.loss(data), TEXTS["loss_head"], "why_no_loss"))
    intro = " ".join([TEXTS["throughput_intro"], *answer.loss(data)])
    return Section("throughput", TEXTS["throughput_head"], "3", intro, blocks)


def _of_chosen(caption: str, chosen, frame) -> str:
    """The caption, with a word on what the figure leaves to the table."""
    return caption if len(chosen) == len(frame) else f"{caption} {TEXTS['figure_chosen']}"


def _ratios(data: Data) -> Section:
    blocks: list = [or_reason(grids.ratios(data), TEXTS["ratios_head"], "why_no_ratio")]
    blocks += history.crossing(data)
    names = set(data.ratios["name"])
    if names and "Q" not in names:
        blocks.append(TEXTS["absent"].format(what="Q", why=TEXTS["why_no_q"]))
    if names and "slots_ratio" not in names:
        why = TEXTS["why_no_slots_ratio"]
        blocks.append(TEXTS["absent"].format(what=TEXTS["slots_ratio_head"], why=why))
    blocks.append(or_reason(grids.idle(data), TEXTS["idle_head"], "why_no_table"))
    intro = " ".join([TEXTS["ratios_intro"], *answer.idle(data)])
    return Section("ratios", TEXTS["ratios_head"], "3", intro, blocks)


def _latency(data: Data) -> Section:
    chosen = figures.chosen(data, data.latency)
    blocks: list = list(latency.medians(chosen))
    _, mixed = grids.workload_pair(data)
    workloads = list(data.latency.workload.dropna().unique())
    shown = mixed if mixed in workloads else (workloads or [None])[0]
    svg = figures.latency(chosen, shown) if shown is not None else None
    if svg:
        caption = TEXTS["latency_figure"].format(workload=shown)
        caption = _of_chosen(caption, chosen, data.latency)
        blocks.insert(0, Figure("latency", svg, caption, "latency"))
    if not workloads:
        blocks.append(or_reason(None, TEXTS["latency_head"], "why_no_table"))
    sooner = latency.ratios(data)
    if sooner.rows:
        blocks.append(sooner)
    if len(chosen) < len(data.latency):
        blocks.append(Details(TEXTS["latency_all"], latency.medians(data.latency)))
    intervals = latency.intervals(data)
    if intervals:
        blocks.append(Details(TEXTS["medians_head"], intervals))
    return Section("latency", TEXTS["latency_head"], "4", TEXTS["latency_intro"], blocks)


def _machine(data: Data) -> Section:
    blocks: list = [setting.settings(data), setting.machine(data)]
    applied = or_reason(setting.applied(data), TEXTS["applied_caption"], "applied_missing")
    blocks.append(applied)
    return Section("machine", TEXTS["machine_head"], "", "", blocks)


def _timings(data: Data) -> Section:
    figure = repeats(data)
    blocks = [
        *([figure] if figure else []),
        or_reason(timings.timings(data), TEXTS["timings_head"], "why_no_table"),
        or_reason(timings.witness(data), TEXTS["witness_caption"], "why_no_witness"),
    ]
    return Section("timings", TEXTS["timings_head"], "", TEXTS["timings_intro"], blocks)


def _history(data: Data) -> Section:
    grid = history.attempts(data)
    if grid is None:
        return Section("history", TEXTS["history_head"], "", TEXTS["measured_once"])
    blocks = [*history.one_way(data), *history.without_reason(data), grid]
    return Section("history", TEXTS["history_head"], "", TEXTS["history_intro"], blocks)
