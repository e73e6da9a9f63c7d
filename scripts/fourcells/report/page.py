"""Put the page together: notices, answer, sections; render the template."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import jinja2

from fourcells.analysis import commands, lesson
from fourcells.report import (
    answer,
    figures,
    grids,
    history,
    ideas,
    kv_section,
    latency,
    noise_section,
    setting,
    timings,
)
from fourcells.report.blocks import KINDS, Details, Figure, Section, or_reason
from fourcells.report.data import Data
from fourcells.report.notices import notices
from fourcells.report.slots_picture import slots_picture
from fourcells.report.texts import EN
from fourcells.report.words import GLOSSARY, LABELS

HERE = Path(__file__).parent


def render(data: Data) -> str:
    """The whole page as HTML."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    for name, kind in KINDS.items():
        environment.tests[name] = partial(_is, kind)
    return environment.get_template("template.html.j2").render(
        t=EN,
        labels=LABELS,
        answer=answer.sentences(data),
        notices=notices(data),
        sections=sections(data),
        glossary=GLOSSARY,
        commands={
            "all": commands.MEASURE,
            "one": f"{commands.AGAIN} results/timings/ENGINE/WORKLOAD/slotsN/R.parquet",
            "again": timings.again_commands(data),
        },
    )


def _is(kind: type, block: object) -> bool:
    return isinstance(block, kind)


def sections(data: Data) -> list[Section]:
    """The lesson's sections 1, 3 and 4, the ideas apart, section 6, the noise, then machine,
    timings and their history."""
    return [
        _slots(),
        _throughput(data),
        _ratios(data),
        _latency(data),
        ideas.ideas(data),
        kv_section.kv(data),
        noise_section.noise(data),
        _machine(data),
        _timings(data),
        _history(data),
    ]


def _slots() -> Section:
    given = lesson.figures()["picture"]
    svg, caption = slots_picture(given["output_tokens"], given["slots"])
    lengths = ", ".join(f"{name} {count}" for name, count in given["output_tokens"].items())
    intro = EN["slots_intro"].format(lengths=lengths)
    return Section("slots", EN["slots_head"], "1", intro, [Figure("slots", svg, caption)])


def _throughput(data: Data) -> Section:
    blocks = [or_reason(grids.throughput(data), EN["throughput_head"], "why_no_table")]
    chosen = figures.chosen(data, data.throughput)
    svg = figures.throughput(chosen)
    if svg:
        caption = _of_chosen(EN["throughput_figure"], chosen, data.throughput)
        blocks.append(Figure("throughput", svg, caption))
    blocks.append(or_reason(grids.loss(data), EN["loss_head"], "why_no_loss"))
    return Section("throughput", EN["throughput_head"], "3", EN["throughput_intro"], blocks)


def _of_chosen(caption: str, chosen, frame) -> str:
    """The caption, with a word on what the figure leaves to the table."""
    return caption if len(chosen) == len(frame) else f"{caption} {EN['figure_chosen']}"


def _ratios(data: Data) -> Section:
    blocks: list = [or_reason(grids.ratios(data), EN["ratios_head"], "why_no_ratio")]
    blocks += history.crossing(data)
    names = set(data.ratios["name"])
    if names and "Q" not in names:
        blocks.append(EN["absent"].format(what="Q", why=EN["why_no_q"]))
    if names and "slots_ratio" not in names:
        why = EN["why_no_slots_ratio"]
        blocks.append(EN["absent"].format(what=EN["slots_ratio_head"], why=why))
    blocks.append(or_reason(grids.idle(data), EN["idle_head"], "why_no_table"))
    return Section("ratios", EN["ratios_head"], "3", EN["ratios_intro"], blocks)


def _latency(data: Data) -> Section:
    chosen = figures.chosen(data, data.latency)
    blocks: list = list(latency.medians(chosen))
    _, mixed = grids.workload_pair(data)
    workloads = list(data.latency.workload.dropna().unique())
    shown = mixed if mixed in workloads else (workloads or [None])[0]
    svg = figures.latency(chosen, shown) if shown is not None else None
    if svg:
        caption = EN["latency_figure"].format(workload=shown)
        caption = _of_chosen(caption, chosen, data.latency)
        blocks.insert(0, Figure("latency", svg, caption))
    if not workloads:
        blocks.append(or_reason(None, EN["latency_head"], "why_no_table"))
    sooner = latency.ratios(data)
    if sooner.rows:
        blocks.append(sooner)
    if len(chosen) < len(data.latency):
        blocks.append(Details(EN["latency_all"], latency.medians(data.latency)))
    intervals = latency.intervals(data)
    if intervals:
        blocks.append(Details(EN["medians_head"], intervals))
    return Section("latency", EN["latency_head"], "4", EN["latency_intro"], blocks)


def _machine(data: Data) -> Section:
    blocks: list = [setting.settings(data), setting.machine(data)]
    applied = or_reason(setting.applied(data), EN["applied_caption"], "applied_missing")
    blocks.append(applied)
    return Section("machine", EN["machine_head"], "", "", blocks)


def _timings(data: Data) -> Section:
    blocks = [
        or_reason(timings.timings(data), EN["timings_head"], "why_no_table"),
        or_reason(timings.witness(data), EN["witness_caption"], "why_no_witness"),
    ]
    return Section("timings", EN["timings_head"], "", EN["timings_intro"], blocks)


def _history(data: Data) -> Section:
    grid = history.attempts(data)
    if grid is None:
        return Section("history", EN["history_head"], "", EN["measured_once"])
    blocks = [*history.one_way(data), *history.without_reason(data), grid]
    return Section("history", EN["history_head"], "", EN["history_intro"], blocks)
