"""Sentences, headings and words of the section on the KV cache, by name; `texts` and `words` take
them in."""

from __future__ import annotations

# Rules of reservation, from the most reserved to the least.
RULES = {
    "max": "maximum length",
    "one block": "one block per request",
    "pow2": "next power of two",
    "exact": "exact length",
    "on_demand": "on demand",
}

KV_NAMES = {
    "capacity_tokens": "capacity, tokens",
    "usable_tokens": "usable tokens (one block is never used)",
    "max_model_len": "maximum length, tokens",
    "mean_tokens": "mean tokens per request",
    "requests_by_max": "requests, reserved by maximum length",
    "requests_by_use": "requests, by mean use (a ceiling)",
    "factor": "by use / by maximum",
    "factor_printed": "the same from rounded numbers, as the lesson prints it",
    "kv_bytes_per_token": "memory per token",
    "kv_bytes": "memory of the cache",
    "engine_max_concurrency": "maximum concurrency, as the engine says",
    "weights_bytes": "memory of the weights",
    "memory_budget_bytes": "memory that the engine may take",
    "memory_left_bytes": "left for all else",
    "kv_budget_bytes": "memory set aside for the cache",
    "exercise_capacity_tokens": "question 7: capacity, tokens",
    "exercise_by_max": "question 7: requests, reserved by maximum length",
    "exercise_by_use": "question 7: requests, by mean use (a ceiling)",
}

TEXTS = {
    "kv_head": "KV cache: what paging buys",
    "kv_intro": "Paging makes room: a request takes memory block by block, when it needs it. Here "
    "the memory is short and the rule of reservation alone changes, with the same engine, kernel, "
    "requests and tokens of cache. The lesson's division of what one engine reported stands below.",
    # the sentences
    "kv_rows": "With {usable} tokens of KV cache on workload {workload}, on demand held {rows} "
    "requests at once on average ({most} at most), {times} as many as reserving by maximum length "
    "({rows_max}, {most_max} at most).",
    "kv_no_paging": "Of that factor, {exact} needs no paging: an allocator that knows each "
    "request's length held {rows}. On demand holds {added} as many as that.",
    "kv_no_gain": "An allocator that knows each request's length held {rows}, {exact} as many as "
    "by maximum length.",
    "kv_rows_each": "With {usable} tokens of KV cache on workload {workload}, requests at once on "
    "average: {each}.",
    "kv_speed": "Tokens per second, over those of reserving by maximum length: {each}.",
    "kv_speed_each": "{rule} {value} ({sure})",
    "kv_speed_says": "{rule} {value} ({sure}; {says})",
    "kv_beyond": "On demand over exact length: {value} ({sure}): {says}.",
    "kv_beyond_above": "paging adds speed to what knowing the length gives",
    "kv_beyond_below": "paging was slower than knowing the length",
    "kv_beyond_unsure": "not distinguishable from 1, so this data does not show that paging is "
    "faster than knowing the length",
    "kv_beyond_open": "without an interval, nothing can be concluded",
    "kv_memory": "Of the memory that was reserved, keys and values filled {each}.",
    "kv_memory_each": "{value} ({rule})",
    "kv_price": "The price of taking memory late: on demand had {preempted} preemptions a repeat, "
    "and {tokens} tokens were computed again. {others}",
    "kv_price_none": "Taking memory late had no price here: on demand never ran out of blocks. "
    "{others}",
    "kv_others_none": "No other rule preempted.",
    "kv_others_some": "Preemptions of the others: {each}.",
    "kv_check": "One block per request makes the same reservation with the engine's own block "
    "size: {rows} requests at once on average in {steps} steps, against {rows_max} in {steps_max} "
    "by the rule of maximum length. {says}",
    "kv_check_same": "The two agree, so the number of requests follows from the reservation and "
    "not from how it is made.",
    "kv_check_apart": "The two differ, so how the reservation is made plays a part.",
    "kv_check_speed": "Over the speed of that rule: {speed}.",
    "kv_bound": "The memory did not bind everywhere: all {slots} slots were taken without one "
    "preemption by {rules}. With more slots those would hold more.",
    "kv_sweep": "By maximum length, the loss follows from the maximum: {each}.",
    "kv_sweep_computed": "{each}. By arithmetic, {reserved} tokens, more than vLLM ever reserves, "
    "would leave {rows}",
    "kv_sweep_each": "{rows} requests at once on average where {reserved} tokens are reserved",
    "kv_blocks": "Where memory is not short ({workload}, {slots} slots), the block size alone: "
    "{each} (tokens per second{sure}).",
    "kv_blocks_each": "{value} with blocks of {size}",
    "kv_blocks_sure": ", 95 % interval",
    # tables
    "kv_what": "What each rule of reservation was worth",
    "why_no_reservations": "It needs engines that differ in their rule of reservation alone, with "
    "a memory that is short. This measures them:",
    "reservations_caption": "Rules of reservation on {workload}, {slots} slots, {usable} tokens of "
    "KV cache",
    "reservations_note": "Ratio to maximum: throughput over that of the maximum rule, repeat by "
    "repeat. Rows: requests at once; most in one step, and mean over the steps.",
    "beforehand_head": "The engines, and what was computed beforehand",
    "beforehand_caption": "Rows and steps, computed and measured",
    "beforehand_note": "Rows by arithmetic: the memory over what a running request takes, while "
    "others wait (at most the slots). The window has an end where nobody waits, so the mean is "
    "smaller.",
    "ladder_caption": "The ladder: how much of the memory held keys and values",
    "ladder_note": "Means over the window, weighted by time. Reserved and used: shares of the "
    "usable tokens. Used of reserved: what the rule wastes is the rest of it. Blocks of one size "
    "leave no gaps between them; the paper's first three rules also lost memory to such gaps, on "
    "another model and other requests.",
    "waits_caption": "Waiting for memory or a slot, by output length: median seconds, and the 90th "
    "percentile",
    "waits_note": "From a request's arrival until it was admitted first, over all repeats.",
    "waits_cell": "{median} ({p90})",
    "waits_head": "Waits by output length",
    "waits_of": "{tokens} tokens",
    "why_no_waits": "Its table holds no row.",
    "rest_caption": "Other maximum lengths and block sizes",
    "rest_what": "Other maximum lengths and block sizes",
    "why_no_rest": "They are sets of their own. This measures them:",
    # figure
    "kv_figure": "The KV cache over time, first repeat, one row of panels per rule. Pale: share of "
    "the usable tokens that is reserved. Dark: share that holds keys and values. Percent used: "
    "dark over pale. Right: requests at once. A triangle marks preemptions.",
    "kv_figure_what": "Reserved and used memory over time",
    "why_no_timeline": "Its table holds no row.",
    "kv_alt": "Reserved and used share of the KV cache and requests at once over time on "
    "workload {workload}. {panels}.",
    "kv_panel_alt": "{rule}: {reserved} reserved and {held} used on average, {most} requests at "
    "most, {end} s",
    "kv_panel_memory": "{used} used",
    "kv_panel_rows": "{mean} on average",
    "kv_axis": "seconds",
    "kv_share": "of usable",
    "kv_reserved": "reserved",
    "kv_held": "used: holds keys and values",
    "kv_in_flight": "requests at once",
    "kv_preempted": "preempted",
    # arithmetic
    "kv_caption": "KV cache: reported and derived",
    "kv_arithmetic_head": "KV cache arithmetic",
    "kv_missing": "No measured engine reported a paged KV cache.",
    "kv_note": "Requests by use are a ceiling: they would need every token of memory to be in use.",
    "kv_ladder_told": "The lesson divides by the mean request: {by_use} requests by mean use "
    "against {by_max} by maximum length, {factor}. Long requests run longer, so a running one "
    "has {running} tokens on average and not {mean}. That makes {on_demand} requests on demand, "
    "{exact} by exact length, {pow2} by the next power of two and {max} by maximum length: {gain}, "
    "of which {known} needs no paging.",
    "kv_exercise": "Question 7: {capacity} tokens hold {by_max} requests by maximum length and "
    "{by_use} by mean use. The second number is a ceiling: requests do not all have the mean "
    "length, and it leaves no room to grow.",
    "computed_caption": "Running requests by arithmetic, while others wait",
    "computed_note": "Mean over the steps of all requests of B. The lesson's tokens are counted "
    "one by one, those of this machine in its blocks, of its usable tokens.",
    "kv_of_running": "tokens each, {source}",
    "kv_of_requests": "requests, {source}",
    "kv_of_used_share": "used of reserved, {source}",
    "kv_of_gain": "over maximum, {source}",
}

LABELS = {
    "rule": "rule",
    "block_size": "block, tokens",
    "reserve_tokens": "reserves, tokens",
    "usable": "usable, tokens",
    "rows_max": "rows, most",
    "rows_mean": "rows, mean",
    "rows_computed": "rows, by arithmetic",
    "ratio_to_max": "ratio to maximum",
    "reserved_mean": "reserved",
    "held_mean": "used",
    "used_of_reserved": "used of reserved",
    "used_lesson": "by arithmetic, lesson\u2019s lengths",
    "used_paper": "PagedAttention paper",
    "preemptions": "preemptions",
    "recomputed_tokens": "tokens computed again",
}

GLOSSARY = [
    (
        "reservation",
        "How much memory a request takes for its keys and values when it is admitted. Maximum "
        "length: what the longest request could need. Next power of two: of prompt and output. "
        "Exact length: prompt and output. On demand: a block when the last one is full.",
    ),
    (
        "reserved, used",
        "Shares of the usable KV tokens: in blocks that requests hold, and in those that hold keys "
        "and values.",
    ),
    (
        "preemption",
        "A running request loses its blocks since there are no free ones; later it is computed "
        "again from its start.",
    ),
]
