"""Sentences, headings and words of the section on ideas, by name; `texts` and `words` take them
in."""

from __future__ import annotations

TEXTS = {
    "ideas_head": "Which idea does what",
    "ideas_intro": "One comparison of two machines cannot say which idea made the difference. "
    "Here each idea is switched on by itself: first the engine's code on the same padded schedule, "
    "then finished rows leave (early exit), then freed slots are taken again at once (refill). The "
    "factors multiply up to the whole ratio in every repeat.",
    # the sentences
    "times": " \u00d7 ",
    "factor_told": "{name} {value}",
    "ideas_total": "On workload {workload} with {slots} slots, {engine} made {value} the tokens "
    "per second of {baseline} ({sure})",
    "ideas_product": ": {product}.",
    "ideas_no_product": "; its engine factor needs a padded and a waving twin of {engine}.",
    "ideas_scheduling_first": "The other way, scheduling first in the code of {baseline}: "
    "{product}.",
    "ideas_compiled_first": "Against the same loop, compiled: {product}.",
    "ideas_interaction": "Scheduling, from padded to continuous, was worth {above} in the code of "
    "{engine} and {below} in the code of {baseline}. Their quotient, the interaction, is {value} "
    "({sure}): {says}.",
    "interaction_above": "scheduling gains more in the code of {engine}",
    "interaction_below": "scheduling gains less in the code of {engine}, so the order in which "
    "the ideas are added decides what each is credited with",
    "interaction_unsure": "not distinguishable from 1, so this data shows no difference "
    "between the two ways",
    "interaction_open": "without an interval, nothing can be concluded",
    "ideas_distinct": "Distinguishable from 1, by their intervals: {apart}.",
    "ideas_not_distinct": "Not distinguishable from 1: {alike}.",
    "ideas_none_apart": "No factor is distinguishable from 1.",
    "ideas_no_interval": "Without an interval ({why}) no factor can be called different from 1.",
    "ideas_of_two": "Two repeats only: read these intervals with care.",
    "ideas_model": "What a step costs, fitted on uniform workloads alone ({engine}: a/c = "
    "{a_over_c} rows), predicts {predicted}; measured: {measured}.",
    "ideas_model_no_c": "What a step costs, fitted on uniform workloads alone ({engine}), "
    "predicts {predicted}; measured: {measured}.",
    "ideas_quotient": "The lesson's estimate, R_{mixed} / R_{uniform}, is {value} here ({sure}). "
    "Scheduling measured inside {engine} is {scheduling}. The first over the second is {off} "
    "({off_sure}): {says}.",
    "off_above": "the estimate is too high by {percent}",
    "off_below": "the estimate is too low by {percent}",
    "off_unsure": "not distinguishable from 1, so this data does not show it to be off",
    "off_open": "off by {percent}, without an interval to judge it by",
    "ideas_why": "Why: by arithmetic this is the engine factor on {mixed}, padded ({above}), over "
    "the engine factor on {uniform} ({below}). The estimate is right only where the two are equal.",
    "ideas_why_model": "The step models put it at {both}; without their terms for prompts, at "
    "{decode}.",
    # factors and paths
    "paths_caption": "From {baseline} to {engine} on {workload}, {slots} slots: every way, factor "
    "by factor",
    "paths_note": "The factors of one way multiply up to the total in every repeat. Predicted: "
    "from the step model, where both cells share one; it has seen uniform workloads only.",
    "path_row": "{path}: {factor}",
    "why_no_paths": "It needs engines of one group with admission padded, wave and continuous, "
    "on one workload, slots and repeat. They are declared in config.yaml; this measures what is "
    "missing:",
    "everywhere_head": "The same factors on every workload and slot count",
    "everywhere_caption": "Factors, engine first, with their 95 % intervals",
    "everywhere_note": "On workloads where all admissions compute the same rows, early exit and "
    "refill must be 1: that is the control.",
    "waterfall_what": "What each idea was worth",
    "waterfall_figure": "From {baseline} to {engine} on workload {workload} with {slots} slots, "
    "idea by idea, on a log axis, where equal factors are equally long. A dot is the factor of "
    "one repeat, drawn from where the bar starts; the black bar is the 95 % interval. A hatched "
    "bar leads back.",
    "waterfall_alt": "Waterfall on a log axis of tokens per second. {panels}.",
    "waterfall_panel_alt": "{path}: {baseline} {start} tok/s; {factors}; {engine} {end} tok/s",
    "waterfall_axis": "output tokens per second, log axis",
    "waterfall_title": "{path}: {product} = {total}",
    # occupancy
    "occupancy_figure": "Rows in every step on workload {workload}, first repeat. Filled: rows "
    "that made a useful token. Hatched: rows computed although their request was finished. White "
    "below the dotted line: slots that nobody held. The pale outline is the schedule computed "
    "beforehand. Idle: share of slots x steps without a useful token.",
    "occupancy_title": "{admission}, {slots} slots: {told}",
    "occupancy_told": "{steps} steps, {idle} idle",
    "occupancy_simulated": "{steps} steps, {idle} idle, computed only",
    "occupancy_alt": "Rows over steps on workload {workload}. {panels}.",
    "occupancy_axis": "step",
    "occupancy_rows": "rows",
    "occupancy_useful": "useful rows",
    "occupancy_useless": "computed, but finished",
    "occupancy_slots": "slots",
    "occupancy_outline": "computed beforehand",
    "occupancy_what": "Who held the slots, step by step",
    "why_no_occupancy": "It needs the steps of an engine with a known admission, all requests "
    "waiting at the start. This measures what is missing:",
    # step model and prediction
    "model_head": "What a step costs, and what follows from it",
    "model_caption": "Step model: a step takes a + c x rows + p if it holds prompts + d x their "
    "further tokens",
    "model_note": "Least squares over the steps of uniform workloads, no coefficient below zero. "
    "Where c (or d) has a dash, those steps cannot tell it: a (or p) holds both, for that number "
    "of rows (or tokens) only. "
    "a/c is the number of rows whose work equals the fixed part of a step: where it is far above "
    "the slots, leaving early saves nothing and refilling saves all.",
    "model_graphs": "{engines}: CUDA graphs hold steps of up to {tokens} tokens, with prompts or "
    "without; p is what larger steps cost more, and counts for them only.",
    "whole_step": "{value} at {rows} rows",
    "with_prompts": "{value} with {extra} tokens",
    "why_no_model": "It needs timings of a workload whose requests are all equal, with their "
    "steps. This measures what is missing:",
    "prediction_caption": "Predicted and measured windows",
    "prediction_head": "Every cell, with throughput and the bounds of any order",
    "prediction_caption_all": "Predicted and measured, every cell",
    "prediction_note": "Residual: predicted / measured \u2212 1, so a minus says that the model "
    "expected a shorter window. Cells marked as fitted lent their steps to the fit; the others "
    "test it. A dash: the model does not speak for the cell's steps.",
    "bounds_note": "Bounds in steps: the longest request; all tokens shared out over the slots; "
    "Graham's bound, which no order of a refilling scheduler exceeds.",
    "prediction_told": "{engine} on {workload} with {slots} slots, {fitted}: predicted "
    "{predicted} s, measured {measured} s ({residual}).",
    "prediction_decode": "Without the terms for prompts it would be {decode} s ({residual}).",
    "was_fitted": "fitted on it",
    "not_fitted": "not fitted on it",
    "why_no_prediction": "It needs a step model and a counted timing. This measures what is "
    "missing:",
    # ablations
    "ablations_head": "One option at a time",
    "ablations_caption": "Engines that differ in one option: tok/s of the engine / tok/s of the "
    "reference",
    "ablations_note": "Each pair shares backend and admission. Values are those in force; where "
    "they are equal, the option changed nothing here.",
    "why_no_ablations": "It needs two engines in config.yaml that differ in exactly one option. "
    "This measures what is missing:",
    # dose
    "dose_head": "More of the cause, more of the effect",
    "dose_caption": "Dose: continuous / wave where the schedule has more, or less, to gain",
    "dose_told": "{kind}, from {first} to {last}: the ratio of steps goes from {step_first} to "
    "{step_last}, the ratio of throughputs ({pair}) from {first_value} to {last_value}.",
    "dose_figure": "What refilling gains where it can gain more or less. Line: ratio of steps, "
    "computed beforehand. Circles: the same from the steps that ran. Squares: ratio of "
    "throughputs with its 95 % interval. {pair}.",
    "dose_alt": "Ratios of continuous to wave, {pair}. {panels}.",
    "dose_point_alt": "{label}: steps {steps}, throughput {value}",
    "dose_axis": "gain of continuous over wave",
    "dose_computed": "steps, computed",
    "dose_measured": "steps, measured",
    "dose_throughput": "throughput, 95 % interval",
    "why_no_dose": "It needs the same pair at several slot counts, numbers of copies or orders. "
    "This measures them:",
    "dose_more": "More slots, copies of the workload and its order",
    "why_no_more": "It needs the cells of the set dose. This measures them:",
    # arrivals
    "arrivals_head": "When requests keep coming",
    "arrivals_caption": "Requests that all wait at the start, and requests that keep coming",
    "arrivals_note": "Times from each request's own arrival. Slot use: mean share of slots held "
    "over the window. Refilled: share of freed slots that were taken again in the very next step. "
    "Late: by how much the sender missed the planned arrival.",
    "arrivals_block": "With all requests waiting at the start, {engine} had {use} of its {slots} "
    "slots in use, and {refilled} of those freed were taken again in the next step",
    "arrivals_told": "; when requests keep coming: {each} ({repeats}).",
    "arrivals_first": "When requests keep coming, {engine} with {slots} slots: {each} ({repeats}).",
    "arrivals_each": "{use} in use and {refilled} taken again at {rate} requests per second, "
    "with a median TTFT of {ttft} s",
    "arrivals_mean": "means over repeats",
    "process_block": "all at the start",
    "process_poisson": "{rate} per second",
    "why_no_arrivals": "It needs a workload whose requests keep coming. This measures two, at low "
    "and at high load:",
    # figures of few engines
    "figure_chosen": "Engines without a baseline, and slots and workloads outside the main "
    "comparison, stand in the tables only.",
}

PATHS = {
    "total": "whole",
    "engine_first": "engine first",
    "scheduling_first": "scheduling first",
    "compiled_first": "compiled loop first",
    "between": "between the two ways",
    "estimate": "the lesson's estimate",
}

FACTORS = {
    "total": "total",
    "engine": "engine",
    "compile": "compiling",
    "early_exit": "early exit",
    "refill": "refill",
    "scheduling_engine_first": "scheduling, in the engine",
    "scheduling_scheduling_first": "scheduling, in the baseline",
    "interaction": "interaction",
    "quotient": "quotient Q",
    "scheduling": "scheduling, measured",
    "off": "Q / scheduling",
}

# What is varied, in rows and sentences and above a panel.
KINDS = {"slots": "slots", "copies": "copies of the workload", "order": "order of the requests"}
KIND_TITLES = {"slots": "slots", "copies": "copies", "order": "order"}

ADMISSIONS = {"padded": "Padded", "wave": "Wave", "continuous": "Continuous"}

LABELS = {
    "way": "way and factor",
    "predicted": "predicted",
    "group": "engines of one group",
    "a_ms": "a, ms",
    "c_us": "c, \u00b5s per row",
    "p_ms": "p, ms",
    "d_us": "d, \u00b5s per token",
    "a_over_c": "a/c, rows",
    "fitted_on": "fitted on",
    "lesson_a": "a, ms, lesson",
    "lesson_c": "c, \u00b5s per row, lesson",
    "fitted": "fitted",
    "predicted_s": "window predicted, s",
    "measured_s": "window measured, s",
    "residual": "residual",
    "decode_only_residual": "residual without prompts",
    "steps_computed": "steps, computed",
    "steps_measured": "steps, measured",
    "rows_mean_computed": "mean rows",
    "predicted_tok_s": "tok/s predicted",
    "measured_tok_s": "tok/s measured",
    "bound_longest": "longest",
    "bound_share": "shared out",
    "bound_graham": "Graham",
    "option": "option",
    "reference_value": "value of the reference",
    "dose": "dose",
    "pair": "pair",
    "steps_other": "steps, wave",
    "steps_engine": "steps, continuous",
    "step_ratio_computed": "step ratio, computed",
    "step_ratio_measured": "step ratio, measured",
    "throughput_ratio": "throughput ratio",
    "arrival": "arrival",
    "slot_use": "slot use",
    "freed": "freed",
    "refilled_share": "refilled",
    "ttft_median_s": "TTFT median",
    "ttft_p90_s": "TTFT p90",
    "e2e_median_s": "E2E median",
    "e2e_p90_s": "E2E p90",
    "late_max_s": "late, max",
} | {f"factor_{name}": words for name, words in FACTORS.items()}

GLOSSARY = [
    (
        "engine factor",
        "What the engine's code is worth with the same schedule: throughput of the padded engine "
        "over that of the padded baseline.",
    ),
    (
        "wave, early exit, refill",
        "Wave: finished rows leave, nobody enters until the batch is empty. Early exit is what "
        "that gains over padded, refill what continuous gains over wave.",
    ),
    (
        "interaction",
        "What scheduling gains in the engine over what it gains in the baseline. Where it is not "
        "1, no single share belongs to an idea.",
    ),
    (
        "a, c, p, d",
        "Step model: seconds of a step, per row, per step that holds prompts, and per further "
        "token of a prompt.",
    ),
]
