"""What the sentences, captions and pictures of each section may say: values of the tables, and what
the page derives from them. All is reckoned here anew."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from itertools import pairwise, permutations

import pandas as pd

from traced.block_end import ends, steps_of
from traced.truth import (
    CELL,
    Truth,
    Value,
    columns_of,
    geometric_mean,
    interval,
    is_number,
    main_factors,
    main_rules,
    means_of,
    values_of,
)

# What several sections say.


def common(truth: Truth) -> Iterator[Value]:
    """Slots, repeats, the number of repeats, and the sizes of the files."""
    for column in ("slots", "repeat"):
        yield from values_of("count", truth.tables["throughput"][column])
    yield "count", truth.tables["throughput"].repeat.nunique()
    yield from values_of("bytes", truth.sizes)


def headline(truth: Truth) -> Iterator[Value]:
    """R, Q and the ratio of slots with their intervals, and the lesson's."""
    frame = truth.tables["ratios"]
    frame = frame[frame["name"].str.match("R_|Q|slots_ratio")]
    yield from columns_of(frame, "ratio", "geometric_mean low high lesson")


def floor(truth: Truth) -> Iterator[Value]:
    """What two names of one engine differ by."""
    frame = truth.rows("controls", kind="A/A")
    yield "share", frame[frame.n.gt(2)].noise_floor.max()


def speeds(truth: Truth) -> Iterator[Value]:
    """Mean throughput of every cell."""
    yield from means_of(truth.tables["throughput"], CELL, "rate", "tok_s")


def losses(truth: Truth) -> Iterator[Value]:
    """Mean loss when mixed, idle rows on the mixed workload, and what is left of the speed."""
    yield from means_of(truth.tables["throughput"], CELL, "share", "loss_when_mixed")
    idle = "idle_rows idle_slots computed_idle_rows"
    yield from means_of(truth.tables["idle"], CELL, "share", idle)
    frame = truth.tables["ratios"]
    frame = frame[frame["name"].str.startswith("loss")]
    yield from columns_of(frame, "ratio", "geometric_mean low high")


def lengths(truth: Truth) -> Iterator[Value]:
    """Output lengths."""
    yield from values_of("count", truth.tables["latency"].output_tokens)


def counted(truth: Truth) -> Iterator[Value]:
    """How many timings there are, and how many carry each verdict."""
    frame = truth.tables["timings"].drop_duplicates([*CELL, "repeat"])
    yield from values_of("count", [len(frame), frame.verdict.ne("clean").sum()])
    yield "count", frame.verdict.eq("clean").sum()
    yield from values_of("count", frame.verdict.str.split(",").explode().str.strip().value_counts())
    trust = truth.summary["trust"]
    yield from values_of("count", [each["timings"] for each in trust["missing_sources"]])
    yield from values_of("count", [len(each) for each in trust.values()])
    yield "count", len(truth.summary["publishable"]["reasons"])


# What single sections say.


def doubts(truth: Truth) -> Iterator[Value]:
    """The notices: controls that failed, slots that never bind, how many ratios are claimed."""
    controls = truth.tables["controls"]
    yield from values_of("count", [len(controls), controls.passed.eq(False).sum()])
    yield from values_of("count", [controls.passed.isna().sum(), controls.together.eq(False).sum()])
    failed = controls[controls.passed.eq(False)]
    yield from columns_of(failed, "ratio", "estimate low high")
    yield from values_of("thousandths", failed.p_together)
    for _, part in truth.tables["occupancy"].groupby([*CELL, "source"], sort=False):
        begin = part.sort_values("step_from").iloc[0]
        yield "count", begin.rows + begin.waiting
    claims = [estimate for estimate, *_ in _claims(truth)]
    yield from values_of("ratio", claims)
    sure = [e for e, low, high in _claims(truth) if not low <= 1 <= high]
    own = dict(floor(truth))["share"]
    within = [e for e in sure if abs(math.log(e)) < math.log1p(own)]
    yield from values_of("count", [len(claims), len(sure) - len(within), len(within)])
    yield "rate", (1 - 0.95) * len(claims)


def _claims(truth: Truth) -> list[tuple[float, float, float]]:
    """(estimate, low, high) of every ratio of throughputs, of every factor of the pair, and of the
    rules of reservation."""
    ratios = truth.tables["ratios"].drop_duplicates(["name", "engine", "slots", "baseline"])
    ratios = ratios[~ratios["name"].str.startswith("E2E")]
    claims = ratios[["geometric_mean", "low", "high"]].values.tolist()
    factors = main_factors(truth).drop_duplicates(["path", "place"])
    factors = factors[factors.path.ne("total")]
    # the quotient is a ratio, and scheduling a factor between the two ways
    factors = factors[~factors.factor.isin(["quotient", "scheduling"])]
    # a factor of the same two engines is one claim, whatever path it belongs to
    names = ["factor", "above", "below"]
    factors = factors.drop_duplicates(names)
    claims += factors[["estimate", "low", "high"]].values.tolist()
    return [tuple(each) for each in claims + _reserved(truth)]


def _reserved(truth: Truth) -> list[list[float]]:
    """Rules of reservation: each against the maximum length, and on demand against exact."""
    main = main_rules(truth)
    by_rule = {}
    for rule, rows in main.groupby("reservation"):
        # of a sweep, the engine that reserves most
        own = rows[rows.engine.eq(rows.loc[rows.reserve_tokens.fillna(0).idxmax()].engine)]
        by_rule[rule] = own.set_index("repeat").tok_s
    compared = [(rule, "max") for rule in by_rule if rule not in ("max", "one block")]
    compared.append(("on_demand", "exact"))
    found = []
    for above, below in compared:
        if {above, below} <= set(by_rule):
            values = (by_rule[above] / by_rule[below]).dropna()
            found.append([geometric_mean(values), *interval(values)])
    return found


def picture(truth: Truth) -> Iterator[Value]:
    """Section 1: the lesson's requests in slots, by hand."""
    given = truth.lesson["picture"]
    slots, tokens = given["slots"], list(given["output_tokens"].values())
    batches = [tokens[at : at + slots] for at in range(0, len(tokens), slots)]
    padded = sum(max(batch) for batch in batches)
    ends = [0] * slots
    for length in tokens:
        ends[ends.index(min(ends))] += length
    useful = sum(tokens)
    yield from values_of("count", [*tokens, *range(1, slots + 1), useful])
    for steps in (padded, max(ends)):
        idle = slots * steps - useful
        yield from values_of("count", [steps, slots * steps, idle])
        yield "share", idle / (slots * steps)


def gantt(truth: Truth) -> Iterator[Value]:
    """A window of a cell: its length, and the shares of slots x window that nobody uses."""
    yield from values_of("count", truth.rows("holders", workload=truth.pair[0]).output_tokens)
    for key, part in truth.tables["holders"].groupby(CELL, sort=False):
        area = key[2] * part.returned_s.max()
        yield from values_of("seconds", [part.returned_s.max(), part.admitted_s.max()])
        yield from values_of("count", [len(part), part.slot.max() + 1])
        yield "share", 1 - (part.finished_s - part.admitted_s).sum() / area
        yield "share", (part.returned_s - part.finished_s).sum() / area


def design(truth: Truth) -> Iterator[Value]:
    """The four cells: their steps, the rows of a step, their requests and tokens, and the factors
    that the corner is compared with."""
    pair = truth.summary["attribution"]["pair"]
    for engine in (pair["engine"], pair["baseline"]):
        for workload in truth.pair:
            steps = steps_of(truth, engine, workload, pair["slots"])
            rows = (steps.rows * (steps.step_to - steps.step_from)).sum()
            yield "count", steps.step_to.max()
            yield "rate", rows / steps.step_to.max()
    windows = truth.rows("timings", engine=pair["engine"])
    yield from values_of("count", windows.tokens)
    begin = steps.iloc[0]
    yield "count", begin.rows + begin.waiting
    factors = main_factors(truth)
    factors = factors[factors.factor.isin(["engine", "scheduling", "off"])]
    yield from columns_of(factors, "ratio", "estimate low high")


def latencies(truth: Truth) -> Iterator[Value]:
    """Medians of the shortest and the longest requests, means over the repeats."""
    frame = truth.rows("latency", workload=truth.pair[0])
    ends = [frame.output_tokens.min(), frame.output_tokens.max()]
    columns = "ttft_s e2e_produced_s e2e_returned_s"
    shown = frame[frame.output_tokens.isin(ends)]
    yield from means_of(shown, [*CELL, "output_tokens"], "seconds", columns)


def sooner(truth: Truth) -> Iterator[Value]:
    """How many times sooner the shortest requests were returned, here and in the lesson."""
    shortest = truth.rows("latency", workload=truth.pair[0]).output_tokens.min()
    own = truth.rows("ratios", name=f"E2E_{shortest}")
    yield from columns_of(own, "ratio", "geometric_mean low high")
    table = truth.lesson["latency_s"]
    for cell in ("vllm_16", "vllm_256"):
        ratio = table["static_16"]["e2e"][0] / table[cell]["e2e"][0]
        yield "ratio", ratio
        yield "whole ratio", ratio


def coming(truth: Truth) -> Iterator[Value]:
    """Requests that keep coming: means over the repeats."""
    frame = truth.tables["arrivals"]
    yield from values_of("quantity", frame.rate)
    yield from means_of(frame, CELL, "share", "slot_use refilled_share")
    yield from means_of(frame, CELL, "seconds", "ttft_median_s")


def factors(truth: Truth) -> Iterator[Value]:
    """The factors between the engines that the page compares, and their product."""
    frame = main_factors(truth)
    even = truth.rows("attribution", **truth.summary["attribution"]["pair"], factor="total")
    for part in (frame, even):
        yield from columns_of(part, "ratio", "estimate low high predicted")
    for _, part in frame.groupby("path"):
        yield "ratio", math.prod(part.drop_duplicates("place").estimate)
    yield from values_of("share", (frame[frame.factor.eq("off")].estimate - 1).abs())


def waterfall(truth: Truth) -> Iterator[Value]:
    """Throughput of the baseline, times one factor after the other."""
    told = truth.summary["attribution"]
    baseline, slots = told["pair"]["baseline"], told["pair"]["slots"]
    rows = truth.rows("throughput", engine=baseline, workload=told["workload"], slots=slots)
    for _, part in main_factors(truth).groupby("path"):
        level = geometric_mean(rows.tok_s)
        yield "rate", level
        for factor in part.sort_values("place").drop_duplicates("place").estimate:
            level *= factor
            yield "rate", level


def models(truth: Truth) -> Iterator[Value]:
    """What the step model says: of factors, of the main cell, and of the lesson's quotient."""
    told = truth.summary["attribution"]
    pair, mixed = told["pair"], told["workload"]
    yield from columns_of(truth.tables["step_model"], "count", "a_over_c graph_tokens")
    key = {"engine": pair["engine"], "workload": mixed, "slots": pair["slots"]}
    own = truth.rows("prediction", **key)
    yield from columns_of(own, "seconds", "predicted_s measured_s decode_only_s")
    yield from columns_of(own, "share", "residual decode_only_residual")
    first = main_factors(truth)
    padded = first[first.path.eq("engine_first") & first.factor.eq("engine")].above.iloc[0]
    cells = [(pair["baseline"], mixed), (padded, mixed)]
    cells += [(pair["engine"], truth.pair[1]), (pair["baseline"], truth.pair[1])]
    for column in ("predicted_s", "decode_only_s"):
        one, two, three, four = (
            truth.rows("prediction", engine=e, workload=w, slots=pair["slots"])[column].iloc[0]
            for e, w in cells
        )
        yield "ratio", one / two * three / four


def occupied(truth: Truth) -> Iterator[Value]:
    """Steps of a cell, and the share of slots x steps without a useful token."""
    frame = truth.rows("occupancy", workload=truth.pair[0], source="measured")
    for (_, _, slots), part in frame.groupby(CELL, sort=False):
        steps = part.step_to.max()
        useful = (part.useful_rows * (part.step_to - part.step_from)).sum()
        yield "count", steps
        yield "share", 1 - useful / (slots * steps)


def doses(truth: Truth) -> Iterator[Value]:
    """Every point of the picture: its value, the ratio of steps and that of throughputs."""
    frame = truth.tables["dose"]
    yield from values_of("count", [float(label) for label in frame.label if is_number(label)])
    yield from columns_of(frame, "ratio", "step_ratio_computed estimate")


def rules(truth: Truth) -> Iterator[Value]:
    """Rules of reservation: what they held, and against each other."""
    frame, main = truth.tables["reservations"], main_rules(truth)
    yield from values_of("count", [main.usable_tokens.iloc[0], main.slots.iloc[0]])
    yield from means_of(main, CELL, "count", "rows_max steps recomputed_tokens")
    yield from means_of(main, CELL, "mean count", "preemptions")
    yield from means_of(main, CELL, "rate", "rows_mean rows_mean_time")
    yield from means_of(main, CELL, "share", "reserved_mean held_mean used_of_reserved")
    held = truth.tables["reservation_timeline"].groupby("engine").t_s.max()
    yield from values_of("seconds", held)
    by_engine = {engine: rows for engine, rows in main.groupby("engine", sort=False)}
    for above, below in permutations(by_engine.values(), 2):
        names = {above.reservation.iloc[0], below.reservation.iloc[0]}
        if below.reservation.iloc[0] == "max" or names == {"exact", "on_demand"}:
            yield "ratio", above.rows_mean_time.mean() / below.rows_mean_time.mean()
            yield "ratio", below.steps.mean() / above.steps.mean()
            pairs = above.set_index("repeat").tok_s / below.set_index("repeat").tok_s
            yield from values_of("ratio", [geometric_mean(pairs), *interval(pairs)])
    longest = main.reserve_tokens.max()
    yield from values_of("count", [*main.reserve_tokens.dropna(), 2 * longest])
    yield "count", main.usable_tokens.iloc[0] // (2 * longest)
    rest = frame[~frame.index.isin(main.index)]
    yield from values_of("count", rest.block_size)
    yield from columns_of(rest, "rate", "estimate low high")
    yield from values_of("count", truth.tables["reservation_waits"].output_tokens)


def placebos(truth: Truth) -> Iterator[Value]:
    """Controls that must be 1."""
    yield from columns_of(truth.tables["controls"], "ratio", "estimate low high")


def arithmetic(truth: Truth) -> Iterator[Value]:
    """What fits under each rule by the lesson's arithmetic, its exercise, and the same here."""
    main = main_rules(truth)
    sources = {f"{row.engine}/{row.slots}" for row in main.itertuples()}
    own = truth.tables["kv"][truth.tables["kv"].source.isin(sources)]
    shown = own.quantity.isin(["requests_by_use", "requests_on_demand"])
    yield from values_of("count", own[shown].value.astype(int))
    frame = truth.rows("kv", source="lesson").set_index("quantity")
    for quantity, value in frame.value.dropna().items():
        if frame.unit[quantity] in ("tokens", "requests"):
            yield from values_of("count", [value, int(value)])
    fit = frame.value[[f"requests_{rule}" for rule in ("on_demand", "exact", "max")]].tolist()
    yield from values_of("ratio", [frame.value["factor"], fit[0] / fit[2], fit[1] / fit[2]])
    yield from values_of("count", truth.lesson["exercise"].values())


def limits(truth: Truth) -> Iterator[Value]:
    """What the summary says of every headline ratio, its cost, and the lesson's own claim."""
    found = truth.summary["limits"]
    every = [found, *found["by_ratio"].values()]
    yield from _told(every)
    yield from _told(truth.summary["lesson_claim"])
    for each in every:
        yield from values_of("count", [each["n"], each["clean_only"]["n"]])
        yield from values_of("rate", [each["minutes_per_repeat"]])
        for key, needed in each.items():
            width = re.fullmatch(r"repeats_for_(\d+)_percent", key)
            if width and needed is not None:
                yield "whole share", int(width[1]) / 100
                minutes = each[f"minutes_for_{width[1]}_percent"]
                more = max(needed - each["n"], 0)
                yield from values_of("count", [needed, more, minutes, minutes / 60])


def other_luck(truth: Truth) -> Iterator[Value]:
    """What single runs might have shown: the same timings in other pairs, and the lesson's."""
    for each in truth.summary["limits"]["by_ratio"].values():
        yield from values_of("ratio", each["worst_pairing"].values())
    claim = truth.summary["lesson_claim"]
    yield from values_of("ratio", [claim["low"], claim["high"]])


def two_runs(truth: Truth) -> Iterator[Value]:
    """How far the lesson's two runs were apart, and the repeats of the same cells here."""
    runs = truth.lesson["static_b_runs_tok_s"]
    for kind in ("share", "whole share"):
        yield kind, 1 - min(runs) / max(runs)
        yield from values_of(kind, truth.lesson["vllm_b_runs_apart"])
    # "3 to 4 %"
    yield from values_of("count", [100 * each for each in truth.lesson["vllm_b_runs_apart"]])
    mixed, pair = truth.pair[0], truth.summary["attribution"]["pair"]
    for engine in (pair["engine"], pair["baseline"]):
        key = {"engine": engine, "workload": mixed, "slots": pair["slots"]}
        rates = truth.rows("throughput", **key).tok_s
        yield "share", 1 - rates.min() / rates.max()
        yield "share", truth.rows("timings", **key).foreign_cpu_share.max()


def _told(value: object) -> Iterator[Value]:
    """The ratios of a part of the summary as its sentences write them."""
    if isinstance(value, list):
        for each in value:
            yield from _told(each)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key in ("estimate", "low", "high", "smallest_quotient") and inner is not None:
                yield "bare ratio", inner
                yield "ratio", inner
                # the lesson's claim is given with one digit
                yield "rate", inner
            elif key == "repeat":
                yield "count", inner
            else:
                yield from _told(inner)


def runs(truth: Truth) -> Iterator[Value]:
    """Every timing against the mean of its cell, and the witness beside it."""
    frame = truth.tables["timings"].sort_values("started")
    frame = frame[frame.stale_key.isna()]
    yield from values_of("share", frame.tok_s / frame.groupby(CELL).tok_s.transform("mean") - 1)
    yield from values_of("share", [frame[c].agg(end) for c in ("foreign_cpu_share", "steal_share")
                             for end in ("min", "max")])  # fmt: skip
    for rate in ("python_mloops", "matmul_gflops"):
        both = frame[[f"{rate}_before", f"{rate}_after"]].astype(float).mean(axis=1)
        yield from values_of("share", both / both.median() - 1)
    yield "count", frame.session.nunique()
    starts = pd.to_datetime(frame.started, utc=True, format="ISO8601").tolist()
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(starts)]
    # pauses that the axis may leave out
    yield from values_of("count", [gap // 60 for gap in gaps if gap >= 600])


def of_lesson(truth: Truth) -> Iterator[Value]:
    """The lesson's own figures, and its ratios, losses and shares."""
    rates = truth.lesson["throughput_tok_s"]
    for cell in rates.values():
        yield from values_of("rate", cell.values())
        yield "share", cell["B"] / cell["A"] - 1
    r_a, r_b = (rates["vllm_16"][w] / rates["static_16"][w] for w in ("A", "B"))
    for kind in ("ratio", "bare ratio"):
        yield from values_of(kind, [r_a, r_b, r_b / r_a])
    yield "ratio", rates["vllm_256"]["A"] / rates["vllm_16"]["A"]
    for cell in truth.lesson["latency_s"].values():
        yield from values_of("seconds", [*cell["ttft"], *cell["e2e"]])
    for workload in truth.lesson["workloads"].values():
        yield from values_of("count", [workload["requests"], *workload["output_tokens"]])


Derivation = Callable[[Truth], Iterator[Value]]
# What each section may say beside what is common to all.
SECTIONS: dict[str, tuple[Derivation, ...]] = {
    **dict.fromkeys(["page", "main", "header", "nav", "footer", "reproduce", "glossary"], ()),
    "answer": (headline, factors, floor),
    "notice": (counted, doubts, floor),
    "slots": (picture, gantt),
    "cells": (headline, losses, lengths, design),
    "throughput": (speeds, losses),
    "ratios": (losses,),
    "latency": (latencies, lengths, sooner, floor),
    "drain": (ends, lengths, coming, floor),
    "kv": (rules, arithmetic, floor),
    "ideas": (factors, headline, waterfall, models, occupied, doses, coming, floor,
              placebos),
    "noise": (limits, two_runs, headline, floor),
    "questions": (headline, losses, floor, design, factors, latencies, sooner, ends, lengths,
                  coming, rules, arithmetic, other_luck, two_runs, placebos, of_lesson, counted),
    "machine": (),
    "timings": (counted, runs),
    "history": (),
    "files": (),
}  # fmt: skip


def known(truth: Truth, section: str) -> Iterator[Value]:
    """Every value that the words of a section may hold."""
    yield from common(truth)
    for derive in SECTIONS[section]:
        yield from derive(truth)
