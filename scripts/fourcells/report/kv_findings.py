"""The section's sentences: what each rule of reservation held, gained and cost.

Numbers of requests and steps follow from the schedule; what is said of speed follows the
intervals, by the rules of `wording`.
"""

from __future__ import annotations

from collections.abc import Iterable

from fourcells.report import numbers as n
from fourcells.report.catalogue import TEXTS
from fourcells.report.data import Data, noise_floor
from fourcells.report.evidence import Ratio
from fourcells.report.grid import first
from fourcells.report.kv_rules import KEYS, ONE_BLOCK, Rule, count, measured, paired
from fourcells.report.wording import bracketed, conclusion, direction, within_floor

MAX, EXACT, ON_DEMAND = "max", "exact", "on_demand"
# Steps of one schedule under two rules may differ by a few (a step more until a slot is free).
SAME = 0.01


def findings(data: Data, rules: list[Rule]) -> list[str]:
    """Up to eight sentences; what was not measured is left out."""
    named = {rule.name: rule for rule in rules}
    made = _requests(rules, named)
    made += _speed(data, rules, named)
    made += _memory(rules)
    made += _price(rules, named)
    made += _check(data, named)
    return made + _bound(rules)


def _requests(rules: list[Rule], named: dict[str, Rule]) -> list[str]:
    """Requests at once, and how much of the gain needs no paging."""
    told = [rule for rule in rules if rule.mean("rows_mean_time")]
    if not told:
        return []
    words = {"usable": n.integer(rules[0].first("usable_tokens"))}
    words["workload"] = rules[0].first("workload")
    rows = {rule.name: rule.mean("rows_mean_time") for rule in told}
    if not {MAX, ON_DEMAND} <= set(rows):
        each = _each(told, lambda rule: n.rate(rows[rule.name]))
        return [TEXTS["kv_rows_each"].format(each=each, **words)]
    made = [
        TEXTS["kv_rows"].format(
            rows=n.rate(rows[ON_DEMAND]),
            most=n.integer(named[ON_DEMAND].mean("rows_max")),
            times=n.ratio(rows[ON_DEMAND] / rows[MAX]),
            rows_max=n.rate(rows[MAX]),
            most_max=n.integer(named[MAX].mean("rows_max")),
            **words,
        )
        + _fewer_steps(named[ON_DEMAND].mean("steps"), named[MAX].mean("steps"))
    ]
    if EXACT in rows:
        gained = rows[ON_DEMAND] > rows[MAX]
        made.append(
            TEXTS["kv_no_paging" if gained else "kv_no_gain"].format(
                exact=n.ratio(rows[EXACT] / rows[MAX]),
                rows=n.rate(rows[EXACT]),
                added=n.ratio(rows[ON_DEMAND] / rows[EXACT]),
            )
        )
    return made


def _fewer_steps(own: float | None, most: float | None) -> str:
    """The mean over the steps says only this: every schedule makes the same tokens."""
    if None in (own, most) or own >= most:
        return ""
    words = {"times": n.ratio(most / own), "steps": n.integer(own), "steps_max": n.integer(most)}
    return " " + TEXTS["kv_fewer_steps"].format(**words)


def _each(rules: Iterable[Rule], write) -> str:
    """'14.5 (maximum length), 66.8 (on demand)'."""
    return ", ".join(TEXTS["share"].format(value=write(rule), engine=rule.words) for rule in rules)


def _speed(data: Data, rules: list[Rule], named: dict[str, Rule]) -> list[str]:
    """Throughput against the maximum rule, and on demand against exact length."""
    others = [rule for rule in rules if rule.name not in (MAX, ONE_BLOCK) and rule.to_max()]
    made = []
    if others:
        each = TEXTS["join"].join(_speed_of(data, rule) for rule in reversed(others))
        made.append(TEXTS["kv_speed"].format(each=each))
    if {EXACT, ON_DEMAND} <= set(named):
        beyond = paired(named[ON_DEMAND], named[EXACT])
        if beyond:
            floor, sure = noise_floor(data), beyond.sure
            way = direction(beyond.low, beyond.high, beyond.n, beyond.estimate, floor)
            if way == "unsure" and within_floor(beyond.estimate, floor):
                sure += "; " + TEXTS["within_floor"].format(floor=n.percent(floor))
            words = {"value": beyond.value, "sure": sure}
            made.append(TEXTS["kv_beyond"].format(says=TEXTS[f"kv_beyond_{way}"], **words))
    return made


def _speed_of(data: Data, rule: Rule) -> str:
    """'on demand 3.30x (95 % interval ...; faster)'; without an interval nothing is claimed."""
    ratio = rule.to_max()
    words = {"rule": rule.words, "value": ratio.value, "sure": ratio.sure}
    if ratio.n == 1 or n.is_missing(ratio.low):
        return TEXTS["kv_speed_each"].format(**words)
    return TEXTS["kv_speed_says"].format(says=says(data, ratio), **words)


def says(data: Data, ratio: Ratio) -> str:
    """'faster', 'not distinguishable' and so on."""
    return conclusion("R", ratio.low, ratio.high, ratio.n, ratio.estimate, noise_floor(data))


def _memory(rules: list[Rule]) -> list[str]:
    told = [rule for rule in rules if rule.mean("used_of_reserved") is not None]
    each = _each(told, lambda rule: n.percent(rule.mean("used_of_reserved")))
    return [TEXTS["kv_memory"].format(each=each)] if told else []


def _price(rules: list[Rule], named: dict[str, Rule]) -> list[str]:
    """Preemptions: what it costs to take memory late."""
    own = named[ON_DEMAND].mean("preemptions") if ON_DEMAND in named else None
    if own is None:
        return []
    others = [rule for rule in rules if rule.name != ON_DEMAND and rule.mean("preemptions")]
    if others:
        each = _each(others, lambda rule: count(rule.mean("preemptions")))
        said = TEXTS["kv_others_some"].format(each=each)
    else:
        said = TEXTS["kv_others_none"]
    key = "kv_price" if own else "kv_price_none"
    tokens = n.integer(named[ON_DEMAND].mean("recomputed_tokens"))
    return [TEXTS[key].format(preempted=count(own), tokens=tokens, others=said)]


def _check(data: Data, named: dict[str, Rule]) -> list[str]:
    """The same reservation made twice: by the rule, and by blocks as long as a request."""
    if not {MAX, ONE_BLOCK} <= set(named):
        return []
    one, other = named[ONE_BLOCK], named[MAX]
    facts = [rule.mean(key) for rule in (one, other) for key in ("rows_mean", "steps")]
    if None in facts:
        return []
    rows, steps, rows_max, steps_max = facts
    same = abs(steps / steps_max - 1) <= SAME and abs(rows / rows_max - 1) <= SAME
    said = TEXTS["kv_check"].format(
        rows=n.rate(rows),
        steps=n.integer(steps),
        rows_max=n.rate(rows_max),
        steps_max=n.integer(steps_max),
        says=TEXTS["kv_check_same" if same else "kv_check_apart"],
    )
    ratio = one.to_max()
    if ratio:
        said += " " + TEXTS["kv_check_speed"].format(speed=_speed_of(data, one))
    return [said]


def _bound(rules: list[Rule]) -> list[str]:
    """Rules that the slots stopped, not the memory."""
    slots = rules[0].first("slots")
    full = [
        rule
        for rule in rules
        if (rule.mean("rows_max") or 0) >= slots and rule.mean("preemptions") == 0
    ]
    names = TEXTS["list_and"].join(rule.words for rule in full)
    return [TEXTS["kv_bound"].format(slots=n.integer(slots), rules=names)] if full else []


def _same(data: Data, rule: Rule):
    """The timings of the main comparison's requests and memory."""
    frame = measured(data)
    for key in KEYS:
        frame = frame[frame[key].eq(rule.first(key))]
    return frame


def lengths_told(data: Data, rules: list[Rule]) -> list[str]:
    """Other maximum lengths in the memory of the main comparison, from the shortest; and twice
    the longest by arithmetic, for the engine never reserves more than it."""
    if not rules:
        return []
    frame = _same(data, rules[0])
    frame = frame[frame.reservation.eq(MAX) & frame.reserve_tokens.notna()]
    if frame.reserve_tokens.nunique() < 2:
        return []
    each = [
        TEXTS["kv_sweep_each"].format(
            rows=n.rate(part.rows_mean_time.mean()), reserved=n.integer(reserved)
        )
        for reserved, part in frame.groupby("reserve_tokens")
    ]
    beyond = 2 * int(frame.reserve_tokens.max())
    rows = int(rules[0].first("usable_tokens")) // beyond
    said = TEXTS["kv_sweep_computed"].format(
        each=", ".join(each), reserved=n.integer(beyond), rows=n.integer(rows)
    )
    return [TEXTS["kv_sweep"].format(each=said)]


def blocks_told(data: Data, rules: list[Rule]) -> list[str]:
    """One sentence per group outside the main comparison with several sizes of block."""
    made = []
    inside = _same(data, rules[0]).index if rules else []
    frame = measured(data)
    frame = frame[~frame.index.isin(inside)]
    for (workload, slots, _), part in frame.groupby(KEYS, sort=False, dropna=False):
        if part.block_size.nunique() < 2 or part.preemptions.astype(float).sum():
            continue
        each = [
            TEXTS["kv_blocks_each"].format(size=n.integer(size), value=_rate(rows))
            for size, rows in part.groupby("block_size")
        ]
        sure = TEXTS["kv_blocks_sure"] if part.low.notna().any() else ""
        words = {"workload": workload, "slots": n.integer(slots), "sure": sure}
        made.append(TEXTS["kv_blocks"].format(each=", ".join(each), **words))
    return made


def _rate(rows) -> str:
    return bracketed(first(rows.estimate), first(rows.low), first(rows.high), n.rate)
