"""Rules of reservation, and the lesson's arithmetic."""

from __future__ import annotations

import pandas as pd

from traced.numbers import tokens
from traced.rows import CAPTION, Expected, Row, Some, bounds, cell_of, floors, means, one
from traced.truth import geometric_mean, main_rules


def rule_rows(row: Row, frame: pd.DataFrame, rule: str = "") -> pd.DataFrame:
    """The timings of a rule: of its engine that reserves most."""
    rule = rule or row.key_of("rules", "rule")
    part = frame[frame.reservation.eq(rule)]
    reserves = part.reserve_tokens.fillna(0)
    return part[reserves.eq(reserves.max())]


def reservations(row: Row) -> Expected:
    """A rule of reservation against that of the maximum."""
    frame = main_rules(row.truth)
    part = rule_rows(row, frame)
    own, most = (rows.set_index("repeat").tok_s for rows in (part, rule_rows(row, frame, "max")))
    against = (own / most).dropna()
    sure = [] if one(part.reservation) == "max" else bounds("ratio", against)
    return means({"rows_max": "count", "rows_mean_time": "rate", "steps": "count"}, part) | {
        CAPTION: [("count", one(frame[column])) for column in ("slots", "usable_tokens")],
        "tok_s_geometric": [("rate", geometric_mean(own))],
        "interval": bounds("rate", own),
        "ratio_to_max": [("ratio", geometric_mean(against)), *sure],
        "conclusion": floors(row),
        "n": [("count", len(own))],
    }


BEFOREHAND = {"rows_computed": "rate", "rows_mean": "rate"}
BEFOREHAND |= dict.fromkeys(["block_size", "reserve_tokens", "steps_computed", "steps"], "count")


def beforehand(row: Row) -> Expected:
    return means(BEFOREHAND, row.truth.rows("reservations", engine=row["engine"]))


def ladder(row: Row) -> Expected:
    """What a rule reserves and uses."""
    part = rule_rows(row, main_rules(row.truth))
    quantity = f"used_share_{one(part.reservation)}"
    lesson, paper = (
        one(row.truth.rows("kv", source=source, quantity=quantity).value)
        for source in ("lesson", "paper")
    )
    kinds = dict.fromkeys(["reserved_mean", "held_mean", "used_of_reserved"], "share")
    kinds |= {"preemptions": "mean count", "recomputed_tokens": "count"}
    return means(kinds, part) | {
        "used_lesson": [("share", lesson)],
        "used_paper": [("share", paper)],
    }


def waits(row: Row) -> Expected:
    """Median and 90th percentile, a column per output length."""
    part = rule_rows(row, main_rules(row.truth))
    table = row.truth.rows("reservation_waits", engine=one(part.engine))
    template = row.words("texts")["waits_of"]
    return {
        template.format(tokens=each.output_tokens): [
            ("seconds", each.wait_median_s),
            ("seconds", each.wait_p90_s),
        ]
        for each in table.itertuples()
    }


def other_reservations(row: Row) -> Expected:
    part = row.truth.rows("reservations", **cell_of(row))
    counts = ["slots", "block_size", "reserve_tokens", "rows_max", "steps"]
    kinds = dict.fromkeys(counts, "count") | {"rows_mean_time": "rate", "preemptions": "mean count"}
    against = part.set_index("repeat").ratio_to_max.dropna().astype(float)
    return means(kinds, part) | {
        "usable": [("count", one(part.usable_tokens))],
        "tok_s_geometric": [("rate", geometric_mean(part.tok_s))],
        "interval": bounds("rate", part.tok_s),
        "ratio_to_max": [("ratio", geometric_mean(against)), *bounds("ratio", against)]
        if len(against)
        else [],
        "n": [("count", part.repeat.nunique())],
    }


def computed_requests(row: Row) -> Expected:
    """What a running request takes under a rule, and how many fit."""
    rule, found = row.key_of("rules", "rule"), {}
    for source in row.truth.tables["kv"].source.unique():
        held = row.truth.rows("kv", source=source).set_index("quantity").value
        words = row.words("labels")["lesson"] if source == "lesson" else source
        requests = held.get(f"requests_{rule}")
        each = {
            "running": ("count", held.get(f"running_{rule}")),
            "requests": ("count", requests and int(requests)),
            "used_share": ("share", held.get(f"used_share_{rule}")),
            "gain": ("ratio", requests and requests / held["requests_max"]),
        }
        for name, value in each.items():
            found[row.words("texts")[f"kv_of_{name}"].format(source=words)] = [value]
    return found


UNITS = {"bytes": "bytes", "x": "ratio", "share": "share"}


def kv_quantities(row: Row) -> Expected:
    """A quantity by source, with the numbers of its formulas."""
    names = {words: key for key, words in row.words("kv_names").items()}
    frame = row.truth.rows("kv", quantity=names[row["quantity"]])
    labels, found = row.words("labels"), {}
    formula = labels["formula_of"].partition("{")[0]
    for each in frame.itertuples():
        heading = labels["lesson"] if each.source == "lesson" else each.source
        found[heading] = [(UNITS.get(each.unit, "quantity"), each.value)]
        of = labels["lesson_formula"] if each.source == "lesson" else f"{formula}{each.source})"
        found[of] = Some(("as written", t.plain) for t in tokens(each.formula or "", "en"))
    return found
