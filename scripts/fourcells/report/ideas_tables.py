"""The tables of factors, step models and predictions."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from fourcells.analysis import lesson
from fourcells.report import numbers as n
from fourcells.report.catalogue import FACTORS, LABELS, PATHS, TEXTS
from fourcells.report.chains import WAYS, Factor, Pair, factors, group_of, pairs
from fourcells.report.data import Data, noise_floor
from fourcells.report.findings import lesson_ratio
from fourcells.report.grid import Cell, Column, Grid, columns, drop, drop_empty, figure, text
from fourcells.report.grids import workload_pair
from fourcells.report.noise import between, change
from fourcells.report.wording import conclusion

BOUNDS = ["bound_longest", "bound_share", "bound_graham"]
# What a factor's name means where it lies above or below 1, by the names of `wording`.
MEANINGS = {"quotient": "Q", "off": "off", "interaction": "interaction"}


def paths(data: Data, pair: Pair) -> Grid:
    """Every factor of the main pair, way by way, one column per repeat."""
    listed = [
        (path, factor)
        for path in ("total", *WAYS, "between", "estimate")
        for factor in factors(data, pair, path)
    ]
    repeats = sorted({repeat for _, factor in listed for repeat in factor.values})
    floor = noise_floor(data)
    rows = []
    for path, factor in listed:
        name = MEANINGS.get(factor.name, "R")
        says = conclusion(name, factor.low, factor.high, factor.n, factor.estimate, floor)
        rows.append(
            [
                text(_row_name(path, factor)),
                text(f"{_several(data, factor.above)} / {_several(data, factor.below)}"),
                figure(factor.estimate, n.ratio),
                between(factor.low, factor.high, factor.n, n.ratio),
                text(says),
                figure(factor.predicted, n.ratio),
                figure(factor.n, n.integer),
                figure(_lesson(data, pair, factor), n.ratio),
                *(figure(factor.values.get(r), n.ratio) for r in repeats),
            ]
        )
    heads = columns("name:way", "text:meaning", "estimate", "interval", "text:conclusion")
    heads += columns("predicted", "n", "lesson:lesson")
    heads += [Column(LABELS["repeat_n"].format(n=n.integer(r))) for r in repeats]
    caption = TEXTS["paths_caption"].format(
        engine=pair.engine,
        baseline=pair.baseline,
        workload=pair.workload,
        slots=n.integer(pair.slots),
    )
    grid = Grid(caption, heads, rows, TEXTS["paths_note"], "paths", table="attribution")
    return drop_empty(grid, [LABELS["predicted"], LABELS["lesson"]])


def _several(data: Data, names: str) -> str:
    """Throughputs that are multiplied: 'vllm, static on A' -> '(vllm × static on A)'."""
    written = [_throughput(data, name) for name in names.split(", ")]
    return f"({TEXTS['times'].join(written)})" if len(written) > 1 else written[0]


def _throughput(data: Data, name: str) -> str:
    """An engine, with the workload where the table names one."""
    engine, on, workload = name.rpartition(" on ")
    if not on or workload not in set(data.throughput.workload):
        return name
    return TEXTS["engine_on"].format(engine=engine, workload=workload)


def _row_name(path: str, factor: Factor) -> str:
    """'engine first: refill'; the total stands by itself."""
    name = FACTORS.get(factor.name, factor.name)
    return name if path == "total" else TEXTS["path_row"].format(path=PATHS[path], factor=name)


def _lesson(data: Data, pair: Pair, factor: Factor) -> object:
    name = {"total": f"R_{pair.workload}", "quotient": "Q"}.get(factor.name)
    return lesson_ratio(data, pair, name) if name else None


def everywhere(data: Data) -> Grid:
    """One row per pair, workload and slot count that has a whole chain, engine first."""
    rows = []
    for pair in pairs(data):
        chain = factors(data, pair, "engine_first")
        if not chain:
            continue
        whole = factors(data, pair, "total")
        named = {factor.name: factor for factor in [*whole, *chain]}
        rows.append(
            [
                text(f"{pair.engine} / {pair.baseline}"),
                text(pair.workload),
                figure(pair.slots, n.integer),
                figure(chain[0].n, n.integer),
                *(_bracketed(named.get(key)) for key in _CHAIN),
            ]
        )
    heads = columns("name:ratio", "text:workload", "slots", "n")
    heads += columns(*(f"factor_{key}" for key in _CHAIN))
    return Grid(
        TEXTS["everywhere_caption"],
        heads,
        rows,
        TEXTS["everywhere_note"],
        "noise",
        table="attribution",
    )


_CHAIN = ("total", "engine", "early_exit", "refill")


def _bracketed(factor: Factor | None) -> Cell:
    return text(None) if factor is None else Cell(factor.bracketed(), factor.estimate)


def step_model(data: Data) -> Grid:
    """One row per machine group: the four coefficients, beside the lesson's."""
    rows = []
    for row in data.step_model[data.step_model.engine.notna()].itertuples():
        rows.append(
            [
                text(row.engines),
                _fixed_part(row),
                figure(_scaled(row.c_s, 1e6), n.rate),
                _prompt_part(row),
                figure(_scaled(row.d_s, 1e6), n.rate),
                figure(row.a_over_c, n.integer),
                figure(row.steps, n.integer),
                text(row.cells),
                _lesson_fixed_part(row),
                figure(_scaled(row.lesson_c_s, 1e6), n.rate),
            ]
        )
    heads = columns("name:group", "a_ms", "c_us", "p_ms", "d_us", "a_over_c", "steps")
    heads += columns("text:fitted_on", "lesson:lesson_a", "lesson:lesson_c")
    note = " ".join([TEXTS["model_note"], *_graphs(data)])
    grid = Grid(TEXTS["model_caption"], heads, rows, note, "noise models", table="step_model")
    return drop_empty(grid, [LABELS[key] for key in ("d_us", "lesson_a", "lesson_c")])


def _graphs(data: Data) -> list[str]:
    """What p means in groups whose CUDA graphs hold prompts."""
    held = data.step_model.dropna(subset=["graph_tokens"])
    return [
        TEXTS["model_graphs"].format(engines=", ".join(group.engine), tokens=n.integer(tokens))
        for tokens, group in held.groupby("graph_tokens")
    ]


def _fixed_part(row) -> Cell:
    """a in milliseconds; where only one number of rows was seen, it is the whole step."""
    value = _scaled(row.a_s, 1e3)
    if n.is_missing(row.rows_known):
        return figure(value, _two)
    return Cell(
        TEXTS["whole_step"].format(value=_two(value), rows=n.integer(row.rows_known)), value
    )


def _lesson_fixed_part(row) -> Cell:
    """The lesson's a in milliseconds; of an engine with one slot count it is the whole step."""
    value = _scaled(row.lesson_a_s, 1e3)
    if value is None or not n.is_missing(row.lesson_c_s):
        return figure(value, _two)
    cells = lesson.figures()["throughput_tok_s"]
    rows = next(
        int(cell.split("_")[1])
        for cell in cells
        if lesson.step_model(cell)[1] is None
        and math.isclose(lesson.step_model(cell)[0], row.lesson_a_s)
    )
    return Cell(TEXTS["whole_step"].format(value=_two(value), rows=n.integer(rows)), value)


def _prompt_part(row) -> Cell:
    """p in milliseconds; where only one size of admission was seen, it holds its tokens too."""
    value = _scaled(row.p_s, 1e3)
    if n.is_missing(row.extra_known):
        return figure(value, _two)
    extra = n.integer(row.extra_known)
    return Cell(TEXTS["with_prompts"].format(value=_two(value), extra=extra), value)


def _scaled(value: object, by: float) -> float | None:
    return None if n.is_missing(value) else float(value) * by


def _two(value: object) -> str:
    return n.number(value, 2)


def prediction(data: Data, pair: Pair | None) -> Grid:
    """The cells of the main comparison: both groups, both workloads. All cells without a pair."""
    frame = data.prediction
    if pair is not None:
        engines = group_of(data, pair.engine) | group_of(data, pair.baseline)
        uniform, _ = workload_pair(data)
        frame = frame[frame.engine.isin(engines)]
        frame = frame[frame.workload.isin([uniform, pair.workload])]
    every = predictions(data, frame)
    extra = ["admission", "rows_mean_computed", "predicted_tok_s", "measured_tok_s", *BOUNDS]
    grid = drop(every, [LABELS[key] for key in extra])
    return replace(grid, caption=TEXTS["prediction_caption"], note=TEXTS["prediction_note"])


def predictions(data: Data, frame: pd.DataFrame | None = None) -> Grid:
    """Every column of the prediction, one row per cell."""
    frame = data.prediction if frame is None else frame
    rows = []
    for row in frame[frame.engine.notna()].itertuples():
        rows.append(
            [
                text(row.engine),
                figure(row.slots, n.integer),
                text(row.workload),
                text(row.admission),
                text(_yes(row.fitted)),
                figure(row.predicted_s, n.seconds),
                figure(row.measured_s, n.seconds),
                figure(row.residual, change),
                figure(row.decode_only_residual, change),
                figure(row.steps_computed, n.integer),
                figure(row.steps_measured, n.integer),
                figure(row.rows_mean_computed, n.rate),
                figure(row.predicted_tok_s, n.rate),
                figure(row.measured_tok_s, n.rate),
                *(figure(getattr(row, key), n.integer) for key in BOUNDS),
            ]
        )
    heads = columns("name:engine", "slots", "text:workload", "text:admission", "text:fitted")
    heads += columns("predicted_s", "measured_s", "residual", "decode_only_residual")
    heads += columns("steps_computed", "steps_measured", "rows_mean_computed")
    heads += columns("predicted_tok_s", "measured_tok_s", *BOUNDS)
    return Grid(
        TEXTS["prediction_caption_all"],
        heads,
        rows,
        TEXTS["bounds_note"],
        "noise",
        table="prediction",
    )


def _yes(value: object) -> str | None:
    return None if n.is_missing(value) else LABELS["yes" if value else "no"]


def residual_told(data: Data, pair: Pair) -> list[str]:
    """How far the prediction of the main cell was off, and what it were without prompts."""
    frame = data.prediction[data.prediction.engine.eq(pair.engine)]
    frame = frame[frame.workload.eq(pair.workload) & frame.slots.eq(pair.slots)]
    frame = frame[frame.residual.notna()]
    if frame.empty:
        return []
    row = frame.iloc[0]
    said = TEXTS["prediction_told"].format(
        engine=pair.engine,
        workload=pair.workload,
        slots=n.integer(pair.slots),
        fitted=TEXTS["was_fitted" if row.fitted else "not_fitted"],
        predicted=n.seconds(row.predicted_s),
        measured=n.seconds(row.measured_s),
        residual=change(row.residual),
    )
    if not n.is_missing(row.decode_only_s):
        said += " " + TEXTS["prediction_decode"].format(
            decode=n.seconds(row.decode_only_s), residual=change(row.decode_only_residual)
        )
    return [said]
