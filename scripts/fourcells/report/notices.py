"""What limits this run, said before the answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fourcells.analysis import commands
from fourcells.report import history, setting, timings
from fourcells.report import numbers as n
from fourcells.report.catalogue import TEXTS
from fourcells.report.data import Data
from fourcells.report.data_words import said


@dataclass(frozen=True)
class Notice:
    """A sentence, a list below it, and commands below that."""

    sentence: str
    items: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)


def notices(data: Data) -> list[Notice]:
    """All notices that this run needs."""
    made = [*_setting(data), *_missing(data), *_stale(data), *_unclean(data)]
    mixed = data.trust("mixed_sessions")
    if mixed:
        repeats = ", ".join(str(each["repeat"]) for each in mixed)
        made.append(Notice(TEXTS["mixed_one" if len(mixed) == 1 else "mixed"].format(n=repeats)))
    elsewhere = data.trust("elsewhere")
    if elsewhere:
        items = [f"{each['timing']}: {said(each['what'])}" for each in elsewhere]
        again = commands.again(*(each["timing"] for each in elsewhere))
        made.append(Notice(TEXTS["elsewhere"], items, [again]))
    one_way = history.one_way(data)
    if one_way:
        made.append(Notice(" ".join(one_way)))
    return made


def _setting(data: Data) -> list[Notice]:
    measured, told = data.measured, []
    if not measured.get("lesson_scale"):
        model = measured.get("model")
        name = model.get("name") if isinstance(model, dict) else model
        words = {
            "scale": setting.written(measured.get("scale")),
            "model": setting.written(name),
            "dtype": setting.written(measured.get("dtype")),
            "device": setting.written(measured.get("device")),
        }
        told.append(TEXTS["not_lesson"].format(**words))
    if measured.get("weights") == "random":
        told.append(TEXTS["random_weights"])
    return [Notice(" ".join(told))] if told else []


def _missing(data: Data) -> list[Notice]:
    missing = timings.missing_commands(data)
    if not missing:
        return []
    return [Notice(TEXTS["missing"].format(n=n.integer(len(missing))), commands=missing)]


def _stale(data: Data) -> list[Notice]:
    stale = data.trust("stale")
    if not stale:
        return []
    by_key: dict[str, list[str]] = {}
    for each in stale:
        by_key.setdefault(each["what"], []).append(each["timing"])
    items = [f"{said(what)}: {', '.join(paths)}" for what, paths in by_key.items()]
    again = commands.again(*(each["timing"] for each in stale))
    return [Notice(TEXTS["stale"].format(n=n.integer(len(stale))), items, [again])]


def _unclean(data: Data) -> list[Notice]:
    unclean = timings.unclean(data)
    if unclean.empty:
        return []
    none = [TEXTS["no_verdict"]]
    kinds = Counter(w for v in unclean.verdict for w in timings.verdicts(v) or none)
    words = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    total = len(data.timings.drop_duplicates(timings.KEYS))
    counts = {"n": n.integer(len(unclean)), "total": n.integer(total)}
    return [Notice(TEXTS["not_clean"].format(**counts, kinds=words))]
