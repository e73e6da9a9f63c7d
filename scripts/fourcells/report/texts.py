"""Every sentence of the page, by name. A second language is a second mapping with these keys."""

from __future__ import annotations

from fourcells.report import ideas_words, kv_words, noise_words

EN = {
    "title": "Four Cells: which part of a speed\u2011up comes from which idea",
    "lead": "LLM serving engines measured cell by cell: engine, workload and slots. "
    "All requests of a workload are waiting when the clock starts, unless it says that they keep "
    "coming.",
    "contents": "Contents",
    "answer": "The answer in three sentences",
    "lesson_label": "lesson (RTX 3060)",
    "lesson_section": "lesson, section {n}",
    # answer
    "one_repeat_note": "One repeat: no spread and no interval.",
    "one_repeat": "one repeat: no interval",
    "interval": "95 % interval {low} to {high}, {n} repeats",
    "repeats_only": "{n} repeats, no interval",
    "lesson_value": "lesson {value}",
    "faster": "On workload {workload} with {slots} slots, {engine} was faster than {baseline}: "
    "{value} its tokens per second ({sure}).",
    "slower": "On workload {workload} with {slots} slots, {engine} was slower than {baseline}: "
    "{value} its tokens per second ({sure}).",
    "no_difference": "On workload {workload} with {slots} slots, {engine} and {baseline} are "
    "not distinguishable in speed: {value} ({sure}).",
    "as_measured": "On workload {workload} with {slots} slots, {engine} made {value} the tokens "
    "per second of {baseline} ({sure}).",
    "uniform": "On workload {workload}, where all requests ask for the same length, the ratio was "
    "{value} ({sure})",
    "other": "On workload {workload} the ratio was {value} ({sure})",
    "q_above": ", so mixed lengths go with a further factor of {value} ({sure}), which is an "
    "estimate and not a causal separation.",
    "q_below": ", so the gain is smaller with mixed lengths, by a factor of {value} ({sure}).",
    "q_unsure": ", and a further factor for mixed lengths is not distinguishable from 1: {value} "
    "({sure}).",
    "q_as_measured": ", and the quotient of the two ratios is {value} ({sure}): an estimate, "
    "not a causal separation.",
    "q_missing": "; the quotient of two ratios needs both workloads in the same repeat.",
    "no_ratio": "No ratio can be formed: it needs an engine and its baseline on the same workload, "
    "slots and repeat.",
    "no_second_ratio": "Only one ratio can be formed, so nothing separates mixed lengths from the "
    "rest of the machine.",
    "range": "Measured throughput lies between {low} tok/s ({low_cell}) and {high} tok/s "
    "({high_cell}).",
    "one_cell": "One cell was measured: {high} tok/s ({high_cell}).",
    "no_timing": "No timing has been measured yet.",
    "loss": "going from {uniform} to {mixed} changed throughput by {changes}",
    "idle": "on {workload}, {shares} of the computed rows made no useful token",
    "share": "{value} ({engine})",
    "join": "; ",
    "list_and": " and ",
    "no_third": "Idle rows and the loss when mixed are not in the tables.",
    # notices
    "not_lesson": "This is not the lesson's setting: scale {scale}, model {model}, "
    "{dtype} on {device}. Ratios carry over in kind, not in size.",
    "random_weights": "Weights are random, of the model's true shape: speeds are true, texts mean "
    "nothing.",
    "missing": "Not measured yet: {n} of the planned timings. The commands that make them:",
    "not_clean": "{n} of {total} timings carry a verdict other than clean ({kinds}). "
    "Only timings of another spec are left out of the figures; the table of timings shows what "
    "was seen.",
    "stale": "Timings measured under another spec than the config asks for now: {n}. Each stands "
    "in the table of timings and is part of no figure.",
    "mixed": "Repeats {n} hold timings of several sessions. The machine may have changed between "
    "them: their ratios are marked, with both calibrations and the commands, under Ratios.",
    "mixed_one": "Repeat {n} holds timings of several sessions. The machine may have changed "
    "between them: its ratios are marked, with both calibrations and the command, under Ratios.",
    "elsewhere": "Some timings come from another host, or another version of their engine, than "
    "those they are compared with:",
    "not_publishable": "Not to be published as a result:",
    # pictures of slots
    "slots_head": "Two ways to fill four slots",
    "slots_intro": "Six requests wait for four slots; their lengths in tokens are {lengths}. "
    "Every square is one slot in one step.",
    "slots_caption": "Slots over time. The same {useful} useful squares take {padded} steps as "
    "padded batches and {continuous} when a freed slot is refilled at once.",
    "slots_alt": "Two grids of {slots} slots over steps. {panels}",
    "slots_panel_alt": "{name}: {steps} steps, {idle} of {all} squares idle; {holders}.",
    "slots_holder_alt": "slot {slot} serves {names}",
    "slots_static": "Static (padded)",
    "slots_continuous": "Continuous",
    "slots_title": "{name}: {steps} steps, {idle} of {all} squares idle ({share})",
    "slots_slot": "slot {n}",
    "slots_step": "step",
    "slots_done": "idle: finished, still computed",
    "slots_empty": "idle: empty",
    # throughput
    "throughput_head": "Throughput",
    "throughput_intro": "Useful output tokens per second of every cell. The lesson's figures stand "
    "in their own columns; they come from another machine and are no part of any mean.",
    "throughput_caption": "Tokens per second by cell",
    "throughput_figure": "Throughput of every cell. A bar is the mean over repeats, a point is one "
    "repeat.",
    "throughput_alt": "Bars of mean output tokens per second, with one point per repeat. {cells}.",
    "throughput_cell_alt": "{engine}, {slots} slots, workload {workload}: {value}",
    "throughput_axis": "output tokens per second",
    "loss_head": "Loss when mixed",
    "slots_ratio_head": "Ratio of slots",
    "loss_caption": "Loss when mixed: throughput on the mixed workload against the uniform one, "
    "inside each repeat",
    "ratios_head": "Ratios",
    "ratios_intro": "A ratio is formed inside one repeat, whose timings belong to one session; the "
    "estimate is the geometric mean over repeats.",
    "ratios_caption": "Ratios, repeat by repeat",
    "ratios_note": "Intervals are given for the engines that the answer speaks of.",
    "crossing_mark": "\u2020 crosses sessions: one of its timings was measured at another time "
    "than the rest of the repeat.",
    "crossing_caption": "Calibration of the timings of another session, and of the rest of their "
    "repeat",
    "crossing_note": "Equal rates do not prove that the machine is the same; different ones prove "
    "that it is not. Python: million passes of a loop per second. Matrix: GFLOP/s of a product.",
    "calibration_units": "Python: million passes of a loop per second. Matrix: GFLOP/s of a "
    "product.",
    "crossing_commands": "Only a repeat that is measured as a whole is of one session again:",
    "rest_of_repeat": "rest of repeat {repeat}, mean of {n}",
    "idle_head": "Idle share",
    "idle_caption": "Idle share: computed from the schedule beforehand, and measured from the "
    "steps that ran",
    "idle_intro": "Idle rows are rows that the engine computed although their request was "
    "finished; idle slots count empty slots as well.",
    # latency
    "latency_head": "Latency by output length",
    "latency_intro": "Medians over the requests of one length, in seconds from the common start, "
    "or from a request's own arrival where requests keep coming. "
    "A request's tokens exist when they are produced; the caller has them when they are returned. "
    "A static batch returns when its longest request ends.",
    "latency_caption": "Workload {workload}: median seconds, mean over {n} repeats",
    "latency_caption_one": "Workload {workload}: median seconds, one repeat",
    "latency_note": "The lesson reports TTFT as first token produced and E2E as returned.",
    "latency_all": "Every engine, workload and slot count",
    "latency_figure": "Median latency by output length on workload {workload}. A point is one "
    "repeat, a line joins the means. All three panels share one scale.",
    "latency_alt": "Three panels of median seconds by output tokens on workload {workload}. "
    "{cells}.",
    "latency_cell_alt": "{engine}, {slots} slots, from {short} to {long} tokens: TTFT {ttft_s}, "
    "E2E produced {e2e_produced_s}, E2E returned {e2e_returned_s}",
    "latency_axis": "output tokens",
    "latency_seconds": "median seconds",
    # machine and timings
    "machine_head": "What was measured, on what",
    "machine_caption": "Machine, versions and settings",
    "setting_caption": "What the run measured",
    "applied_caption": "Options applied, as each engine reported them",
    "timings_head": "Every timing, in the order it ran",
    "timings_caption": "Timings",
    "applied_missing": "The summary names none.",
    "timings_note": "A star after the commit marks a checkout with uncommitted changes.",
    "timings_intro": "Times in UTC. Loading and warm-up are outside the window. Foreign CPU is "
    "what all other processes took of the machine's CPU time during the window.",
    "timing_name": "{cell}, repeat {repeat}",
    "witness_caption": "Witness: what else the machine did during each window, and how fast it was "
    "before and after",
    "why_no_witness": "No timing carries one.",
    "missing_sources": "Not told on this machine: {sources}.",
    "some_timings": "; {n} of {total} timings",
    # history
    "history_head": "Measured more than once",
    "history_intro": "Every attempt is kept. The last good one counts; the others stand beside it.",
    "measured_once": "Every timing was measured once.",
    "attempts_caption": "Attempts",
    "attempts_note": "Difference: throughput of a superseded attempt against the one that counts.",
    "attempt_name": "{timing} (attempt {n})",
    "unusable": "never counted: {problem}",
    "one_way_up": "All {timings} timings of {engine} that were measured again came out faster. "
    "If only slow ones are repeated, the mean rises by itself: measure whole repeats again.",
    "one_way_down": "All {timings} timings of {engine} that were measured again came out slower. "
    "If only fast ones are repeated, the mean falls by itself: measure whole repeats again.",
    "without_reason": "Measured again although the attempt before was clean, without a reason that "
    "a verdict gives: {names}.",
    "reproduce_head": "Reproduce",
    "reproduce_all": "Measure what is missing and make this page:",
    "reproduce_one": "Measure one timing again; the page follows, and the earlier attempt is kept:",
    "reproduce_unclean": "Timings whose verdict is not clean, to measure again:",
    "glossary_head": "Words",
    "absent": "{what}: not in this run. {why}",
    "why_no_ratio": "A ratio needs an engine and its baseline on the same workload, slots and "
    "repeat.",
    "why_no_q": "Q needs the ratio of both workloads in the same repeat.",
    "why_no_slots_ratio": "The ratio of slots needs one engine measured with two slot counts.",
    "why_no_table": "Its table holds no row.",
    "why_no_loss": "It needs one engine on both workloads, at the same slots and in one repeat.",
    "footer": "All figures on this page come from the measured tables; the lesson's from its own "
    "data file. n = 1 has no spread. An en dash marks what was not measured or does not apply.",
}

EN |= noise_words.TEXTS | ideas_words.TEXTS | kv_words.TEXTS
