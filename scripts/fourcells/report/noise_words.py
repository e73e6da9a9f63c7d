"""Sentences, headings and words of the section on noise, by name; `texts` and `words` take them
in."""

from __future__ import annotations

TEXTS = {
    # what may be said of an estimate
    "interval_of_two": "95 % interval {low} to {high} from only {n} repeats",
    "says_one": "one repeat",
    "says_open": "no interval",
    "says_unsure": "not distinguishable",
    "says_floor": "not distinguishable: within the noise floor of {floor}",
    "within_floor": "within the noise floor of {floor}",
    "says_of_two": "{said} (2 repeats only)",
    "says_unpaired": "{said}; unpaired: {unpaired}",
    "says_faster": "faster",
    "says_slower": "slower",
    "says_sooner": "sooner",
    "says_later": "later",
    "says_more": "more gain when mixed",
    "says_less": "less gain when mixed",
    "says_greater": "above 1",
    "says_smaller": "below 1",
    "says_high": "too high",
    "says_low": "too low",
    "says_pass": "pass",
    "says_fail": "fail",
    # the section
    "noise_head": "Noise, and what it does to each conclusion",
    "noise_intro": "The repeat is the unit: every ratio is formed inside a repeat, and the "
    "interval is Student's t on the logs of those ratios. A ratio is called different from 1 only "
    "if its interval excludes 1.",
    "noise_caption": "Noise of every cell over its repeats",
    "noise_note": "Three definitions that are often mixed up. CV: standard deviation / mean. "
    "max/min \u2212 1: how far the best repeat lies above the worst. 1 \u2212 min/max: how far the "
    "worst lies below the best; the lesson gives this one, as 17 % for static and 3\u20134 % for "
    "vLLM, from two runs. Drift: change of throughput per hour, with its interval, which a "
    "run of minutes leaves wide. "
    "Outliers are looked for from 5 repeats on; they are named and stay in every figure.",
    "no_outlier": "none",
    "why_no_noise": "Its table is missing or empty; `snakemake -j1 --use-conda` makes it anew.",
    "conclusions_caption": "Every ratio with its interval, and what may be concluded",
    "conclusions_note": "The bootstrap draws the repeats anew and is a check beside t: with few "
    "repeats it is too narrow (of 3 repeats it covers about 75 % instead of 95 %).",
    "unpaired_note": "Unpaired: the engines' repeats compared as two separate groups, which is "
    "what remains where the timings of a repeat come from several sessions.",
    "ratio_figure": "Ratios on a log axis. A dot is one repeat, the bar is the 95 % interval "
    "around the estimate, a diamond is the lesson's value. An arrow: the interval goes on.",
    "ratio_alt": "Ratios on a log axis with a line at 1. {rows}.",
    "ratio_axis": "ratio, log axis",
    "controls_caption": "Controls: comparisons whose true value is known",
    "controls_note": "A control passes if its interval holds the expected value; of many, one in "
    "twenty fails by chance. Together: whether it passes once corrected for their number (Holm), "
    "so that 5 % is the chance that any of them fails for nothing; only such a failure keeps the "
    "page from being published. Noise floor: half the width of its interval. A difference smaller "
    "than the largest of the A/A pairs is called not distinguishable, whatever its interval.",
    "why_no_controls": "A control needs an engine declared under two names, "
    "an engine in waves beside a continuous one, or a workload sorted by length.",
    "limits_head": "What this data can carry",
    "why_no_limits": "The summary names no limits: they need Q in some repeat.",
    "left_out_head": "With one repeat left out, and other ways to count",
    "left_out_caption": "Ratios, counted in other ways",
    "left_out_repeat": "without repeat {repeat}",
    "left_out_clean": "clean timings only",
    "left_out_worst": "worst pairing: each timing with one of any repeat",
    "cost_head": "What more repeats would cost",
    "cost_caption": "Repeats and minutes for a narrower interval of Q",
    "cost_target": "\u00b1{percent} %",
    "cost_note": "Minutes from the recorded durations, loading and warm-up included. One repeat "
    "of all cells takes about {minutes} minutes.",
    "cost_command": "Adds repeats until the interval of Q is within 5 %, or a limit is reached; "
    "those measured stay:",
    "variance_head": "Where to spend the time: more repeats, or more windows in a repeat",
    "variance_caption": "Deviation of throughput between processes and within one",
    "why_no_variance": "It needs several samples in a timing (`samples` in config.yaml) and "
    "several repeats.",
    "lesson_claim": "The lesson's own quotient, from one run of each cell and the deviations it "
    "states: {estimate}, 95 % interval {low} to {high}.",
    # at the latency table
    "e2e_caption": "How many times sooner a request of the mixed workload is returned",
    "e2e_note": "E2E returned of the baseline / of the engine, inside each repeat. The lesson "
    "found 12x with 16 slots and 34x with 256 for its shortest requests.",
    "medians_head": "Intervals of the medians, and percentiles",
    "medians_caption": "Workload {workload}: intervals by order statistics, seconds",
    "medians_note": "Ranks of the sorted requests of one repeat; requests of one cell share their "
    "steps, so these intervals are somewhat too narrow. A percentile stands only where enough "
    "requests were measured to bound it.",
}

LABELS = {
    "mean_tok_s": "mean tok/s",
    "cv": "CV",
    "spread": "max/min \u2212 1",
    "drop": "1 \u2212 min/max",
    "lesson_drop": "1 \u2212 min/max, lesson",
    "drift_per_hour": "drift per hour",
    "outliers": "outliers",
    "estimate": "estimate",
    "t_interval": "95 % interval (t)",
    "bootstrap": "bootstrap",
    "unpaired": "unpaired",
    "conclusion": "conclusion",
    "control": "control (must be 1)",
    "kind": "kind",
    "expected": "expected",
    "result": "result",
    "together": "together",
    "noise_floor": "noise floor",
    "counted": "counted",
    "target": "interval within",
    "needed_repeats": "repeats in all",
    "needed_minutes": "minutes for those still missing",
    "samples": "samples per timing",
    "total_sd": "between repeats",
    "between_sd": "of it, between processes",
    "within_sd": "within a process",
    "repeat_s": "load and warm-up, s",
    "sample_s": "window, s",
    "best_samples": "best samples",
    "advice": "advice",
    "ttft_interval": "TTFT, median",
    "e2e_returned_interval": "E2E returned, median",
    "e2e_returned_p90": "E2E returned, p90",
    "e2e_returned_p95": "E2E returned, p95",
    "e2e_returned_p99": "E2E returned, p99",
}

RATIO_NAMES = {
    "loss": "{engine}: {mixed} / {uniform} (loss when mixed)",
    "E2E": "{baseline} / {engine}, {workload} output tokens",
}

GLOSSARY = [
    (
        "CV, noise floor",
        "CV is the standard deviation over the mean. The noise floor is half the width of the "
        "interval that two identical things show: a smaller difference is no finding.",
    ),
    (
        "not distinguishable",
        "The interval holds 1: this data does not show a difference. It does not show that there "
        "is none.",
    ),
]
