"""The short words of the page: headings of columns, names of quantities, the glossary."""

from __future__ import annotations

from fourcells.report import ideas_words, kv_words, noise_words

RATIO_NAMES = {
    "R": "{engine} / {baseline} on {workload}",
    "Q": "{engine}: R_{mixed} / R_{uniform} (mixed lengths)",
    "slots_ratio": "{engine}: most / fewest slots, on {uniform}",
} | noise_words.RATIO_NAMES

GLOSSARY = [
    (
        "cell, repeat, timing",
        "A cell is engine x workload x slots. A repeat measures every cell "
        "once, in a shuffled order. A timing is one cell in one repeat.",
    ),
    (
        "slots",
        "The most requests that may be generating at once (vLLM: max_num_seqs; static: batch "
        "size).",
    ),
    (
        "window",
        "The timed region: from the common start, when all requests are submitted, to the last "
        "returned request.",
    ),
    (
        "tok/s",
        "Useful output tokens divided by the window. Tokens computed for a finished request do "
        "not count.",
    ),
    (
        "TTFT",
        "Time to first token, from the common start (from its own arrival where requests keep "
        "coming): waiting in the queue is part of it.",
    ),
    ("service TTFT", "First token, from the moment the request got its slot: without the queue."),
    ("E2E produced", "From the common start until the request's own last token existed."),
    (
        "E2E returned",
        "From the common start until the caller had the answer. In a static batch that is the end "
        "of the batch, not of the request.",
    ),
    (
        "idle rows",
        "Share of the computed rows that made no useful token: 1 - useful rows / rows.",
    ),
    (
        "idle slots",
        "Share of slot steps without a useful token: 1 - useful rows / (slots x steps).",
    ),
    (
        "loss when mixed",
        "Throughput on the mixed workload / throughput on the uniform one - 1, same engine, slots "
        "and repeat.",
    ),
    (
        "R, Q",
        "R is an engine's throughput over its baseline's, same workload, slots and repeat. Q is R "
        "on the mixed workload over R on the uniform one.",
    ),
    (
        "padded, continuous",
        "Admission. Padded: a batch runs to its longest member, finished rows still computed. "
        "Continuous: a freed slot is refilled at the next step.",
    ),
    (
        "verdict",
        "Whether a timing is trustworthy; anything but clean names the reason, and nothing is "
        "dropped in silence. contended: other processes used the machine. throttled: clocks were "
        "held down. mixed_session: measured at another time than its repeat. stale_spec: measured "
        "under another spec than today's.",
    ),
    (
        "session",
        "One machine state: host, boot and run of the workflow. Repeats may be of different "
        "sessions, the timings of one repeat should not.",
    ),
    (
        "95 % interval",
        "Student t on the logs of the repeats; absent with one repeat.",
    ),
    *noise_words.GLOSSARY,
    *ideas_words.GLOSSARY,
    *kv_words.GLOSSARY,
]

LABELS = {
    "engine": "engine",
    "slots": "slots",
    "workload": "workload",
    "repeat": "repeat",
    "repeats": "repeats",
    "mean": "mean tok/s",
    "min": "min",
    "max": "max",
    "n": "n",
    "interval": "95 % interval",
    "lesson": "lesson (RTX 3060)",
    "loss": "mean loss",
    "compared": "against",
    "ratio": "ratio",
    "meaning": "what is divided",
    "repeat_n": "repeat {n}",
    "geometric_mean": "geometric mean",
    "admission": "admission",
    "steps": "steps",
    "computed_steps": "steps, computed",
    "idle_rows": "idle rows",
    "computed_idle_rows": "idle rows, computed",
    "idle_slots": "idle slots",
    "computed_idle_slots": "idle slots, computed",
    "lesson_idle": "idle rows, lesson",
    "output_tokens": "output tokens",
    "requests": "requests",
    "ttft_s": "TTFT",
    "service_ttft_s": "service TTFT",
    "e2e_produced_s": "E2E produced",
    "e2e_returned_s": "E2E returned",
    "lesson_ttft_s": "TTFT, lesson (RTX 3060)",
    "lesson_e2e_s": "E2E returned, lesson (RTX 3060)",
    "quantity": "quantity",
    "formula": "formula",
    "formula_of": "formula ({source})",
    "lesson_formula": "formula, lesson",
    "order": "no.",
    "started": "start (UTC)",
    "sample": "sample",
    "window_s": "window, s",
    "tok_s": "tok/s",
    "verdict": "verdict",
    "load_s": "load, s",
    "warmup_s": "warm-up, s",
    "version": "version",
    "attempt": "attempt",
    "commit": "commit",
    "dirty": "uncommitted changes",
    "timing": "timing",
    "foreign_cpu_s": "foreign CPU, s",
    "foreign_cpu_share": "foreign CPU",
    "steal_s": "stolen, s",
    "pressure_s": "waited for CPU, s",
    "involuntary_switches": "pushed off a core",
    "run_queue_max": "run queue",
    "quota_stops": "quota stops",
    "swapped_bytes": "swapped",
    "foreign_gpu_processes": "foreign GPU processes",
    "sm_clock_mhz_min": "SM clock min, MHz",
    "sm_clock_mhz_max": "SM clock max, MHz",
    "temperature_c_max": "GPU, \u00b0C",
    "power_w_max": "GPU, W",
    "throttled": "throttled",
    "python_mloops_before": "Python before",
    "python_mloops_after": "Python after",
    "matmul_gflops_before": "matrix before",
    "matmul_gflops_after": "matrix after",
    "witness_cost_s": "witness cost, s",
    "against_current": "difference",
    "state": "state",
    "reason": "reason",
    "counts": "counts",
    "superseded": "superseded",
    "setting": "setting",
    "value": "value",
    "one_repeat": "one repeat",
    "yes": "yes",
    "no": "no",
}
LABELS |= noise_words.LABELS | ideas_words.LABELS | kv_words.LABELS

SOURCES = {
    "steal_s": "stolen CPU time",
    "pressure_s": "time waited for a CPU",
    "involuntary_switches": "involuntary switches",
    "quota_stops": "stops by a CPU quota",
    "swapped_bytes": "swapping",
    "run_queue_max": "the run queue",
    "frequency_mhz_min": "CPU frequency",
    "gpu": "GPU clocks, heat and processes",
}

FACT_NAMES = {
    "scale": "scale",
    "model": "model",
    "weights": "weights",
    "dtype": "number format",
    "device": "device",
    "repeats": "repeats",
    "samples": "samples per timing",
    "seed": "seed",
    "lesson_scale": "the lesson's scale",
    "started": "first timing started",
    "ended": "last timing ended",
    "sessions": "sessions",
    "protocol": "protocol",
    "hosts": "host",
    "cpu": "CPU",
    "cores": "cores",
    "memory_gib": "memory, GiB",
    "gpu": "GPU",
    "driver": "GPU driver",
    "threads": "threads",
    "git_commit": "git commit",
    "dirty": "uncommitted changes",
}
