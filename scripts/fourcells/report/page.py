"""Put the page together: notices, answer, sections; render the template."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
from markupsafe import Markup

from fourcells.analysis import lesson
from fourcells.report import answer, figures, grids, setting
from fourcells.report.data import Data
from fourcells.report.grid import Grid
from fourcells.report.slots_picture import slots_picture
from fourcells.report.texts import EN
from fourcells.report.words import GLOSSARY, LABELS

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Figure:
    """A drawn figure: `name` is its anchor."""

    name: str
    svg: Markup
    caption: str


@dataclass(frozen=True)
class Section:
    """One section. `blocks` are grids, figures and plain paragraphs (str), in reading order."""

    name: str
    head: str
    lesson: str = ""
    intro: str = ""
    blocks: list = field(default_factory=list)


def render(data: Data) -> str:
    """The whole page as HTML."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.tests["grid"] = lambda block: isinstance(block, Grid)
    environment.tests["figure"] = lambda block: isinstance(block, Figure)
    return environment.get_template("template.html.j2").render(
        t=EN,
        labels=LABELS,
        answer=answer.sentences(data),
        notices=notices(data),
        sections=sections(data),
        glossary=GLOSSARY,
        commands={
            "all": setting.MEASURE,
            "one": setting.PATTERN,
            "again": setting.again_commands(data),
        },
    )


def notices(data: Data) -> list[tuple[str, list[str], bool]]:
    """(sentence, list below it, whether the list holds commands): what limits this run."""
    made = []
    measured = data.measured
    if not measured.get("lesson_scale"):
        model = measured.get("model")
        name = model.get("name") if isinstance(model, dict) else model
        random = "random" in str(measured.get("weights"))
        made.append(
            (
                EN["not_lesson"].format(
                    scale=setting.written(measured.get("scale")),
                    model=setting.written(name),
                    weights=EN["random_weights"] if random else "",
                    dtype=setting.written(measured.get("dtype")),
                    device=setting.written(measured.get("device")),
                ),
                [],
                False,
            )
        )
    missing = setting.missing_commands(data)
    if missing:
        made.append((EN["missing"].format(n=len(missing)), missing, True))
    unclean = setting.unclean(data)
    if len(unclean):
        kinds = Counter(w for v in unclean.verdict for w in setting.verdicts(v) or ["none"])
        words = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        keys = ["engine", "workload", "slots", "repeat"]
        total = len(data.timings.drop_duplicates(keys))
        made.append((EN["not_clean"].format(n=len(unclean), total=total, kinds=words), [], False))
    publishable = data.summary.get("publishable") or {}
    if publishable.get("value") is False:
        made.append((EN["not_publishable"], [str(r) for r in publishable["reasons"]], False))
    return made


def sections(data: Data) -> list[Section]:
    """The lesson's sections 1, 3, 4 and 6, then machine and timings."""
    return [_slots(), _throughput(data), _ratios(data), _latency(data), _kv(data), _machine(data)]


def _or_reason(block: Grid | None, what: str, why: str) -> Grid | str:
    """The table, or the sentence that says why it is not there."""
    if block is not None and block.rows:
        return block
    return EN["absent"].format(what=what, why=EN[why])


def _slots() -> Section:
    given = lesson.figures()["picture"]
    svg, caption = slots_picture(given["output_tokens"], given["slots"])
    lengths = ", ".join(f"{name} {count}" for name, count in given["output_tokens"].items())
    intro = EN["slots_intro"].format(lengths=lengths)
    return Section("slots", EN["slots_head"], "1", intro, [Figure("slots", svg, caption)])


def _throughput(data: Data) -> Section:
    blocks = [_or_reason(grids.throughput(data), EN["throughput_head"], "why_no_table")]
    svg = figures.throughput(data.throughput)
    if svg:
        blocks.append(Figure("throughput", svg, EN["throughput_figure"]))
    blocks.append(_or_reason(grids.loss(data), EN["loss_head"], "why_no_loss"))
    return Section("throughput", EN["throughput_head"], "3", EN["throughput_intro"], blocks)


def _ratios(data: Data) -> Section:
    blocks = [_or_reason(grids.ratios(data), EN["ratios_head"], "why_no_ratio")]
    names = set(data.ratios["name"])
    if names and "Q" not in names:
        blocks.append(EN["absent"].format(what="Q", why=EN["why_no_q"]))
    if names and "slots_ratio" not in names:
        why = EN["why_no_slots_ratio"]
        blocks.append(EN["absent"].format(what=EN["slots_ratio_head"], why=why))
    blocks.append(_or_reason(grids.idle(data), EN["idle_head"], "why_no_table"))
    return Section("ratios", EN["ratios_head"], "3", EN["ratios_intro"], blocks)


def _latency(data: Data) -> Section:
    blocks = list(grids.latency(data))
    _, mixed = grids.workload_pair(data)
    workloads = list(data.latency.workload.dropna().unique())
    shown = mixed if mixed in workloads else (workloads or [None])[0]
    svg = figures.latency(data.latency, shown) if shown is not None else None
    if svg:
        caption = EN["latency_figure"].format(workload=shown)
        blocks.insert(0, Figure("latency", svg, caption))
    if not workloads:
        blocks.append(_or_reason(None, EN["latency_head"], "why_no_table"))
    return Section("latency", EN["latency_head"], "4", EN["latency_intro"], blocks)


def _kv(data: Data) -> Section:
    blocks: list = [_or_reason(grids.kv(data), EN["kv_head"], "why_no_table")]
    if set(data.kv.source.dropna()) <= {"lesson"}:
        blocks.append(EN["kv_missing"])
    return Section("kv", EN["kv_head"], "6", EN["kv_intro"], blocks)


def _machine(data: Data) -> Section:
    blocks: list = [setting.settings(data), setting.machine(data)]
    applied = _or_reason(setting.applied(data), EN["applied_caption"], "applied_missing")
    blocks += [applied, EN["timings_intro"]]
    blocks.append(_or_reason(setting.timings(data), EN["timings_head"], "why_no_table"))
    return Section("machine", EN["machine_head"], "", "", blocks)
