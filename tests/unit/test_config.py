"""config.yaml: what is accepted, what is refused and how, and which edits measure anew."""

import copy
from collections import Counter

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fourcells import config as settings
from fourcells import config_check, engines
from fourcells.config import Cell, canonical
from fourcells.config_check import ConfigError

BLOCK = {"engines": ["vllm"], "workloads": ["B"], "slots": [4, 16]}
WORKLOAD = {"requests": 4, "prompt_tokens": 4, "output_tokens": 4}


def put(config, path, value):
    """Sets the value at a path like `engines.vllm.slots`; `None` takes the key away."""
    *parents, last = path.split("/")
    for key in parents:
        config = config[key]
    if value is None:
        del config[last]
    else:
        config[last] = value


def refusal(config, schema):
    with pytest.raises(ConfigError) as error:
        config_check.check(config, schema)
    return str(error.value)


def specs(config):
    return {cell: canonical(settings.spec(config, cell)) for cell in settings.cells(config)}


# --- what is accepted


@pytest.mark.parametrize(("scale", "main"), [("smoke", 24), ("demo", 24), ("lesson", 32)])
def test_shipped_config_is_valid_at_every_scale(shipped, schema, scale, main):
    config = shipped | {"scale": scale}
    config_check.check(config, schema)
    counts = {name: len(cells) for name, cells in settings.sets(config).items()}
    sets = {"dose": 18, "arrivals": 4, "kv": 5, "kv_lengths": 2, "kv_blocks": 3}
    assert counts == {"main": main, **sets}


@pytest.mark.parametrize("scale", ["smoke", "demo", "lesson"])
def test_every_cell_has_an_environment(shipped, root, scale):
    config = shipped | {"scale": scale}
    for cell in settings.cells(config):
        name = engines.environment(settings.spec(config, cell))
        assert (root / f"envs/{name}.yaml").exists(), cell


def test_every_shipped_scale_is_tested(shipped):
    assert set(shipped["scales"]) == {"smoke", "demo", "lesson"}


@pytest.mark.parametrize(
    "name",
    ["😀", 'a"b', "a'b", "שלום", "two words", "có dấu", "2023_2", "a..b", "a.b", "-a", "$(x)", "x"],
)
def test_name_can_hold_what_a_folder_name_can(config, schema, name):
    config["workloads"][name] = dict(WORKLOAD)
    config["engines"][name] = {"backend": "vllm"}
    config_check.check(config, schema)
    assert Cell(name, name, 16) in settings.cells(config)


@pytest.mark.parametrize(
    "name",
    ["a/b", "/a", "a{b", "a}b", "{a}", ".a", ".", "..", "../a", " a", "a ", "", "a\tb", "a\nb"],
)
@pytest.mark.parametrize("place", ["workloads", "engines", "scales"])
def test_name_that_is_no_folder_name_is_refused(config, schema, place, name):
    config[place][name] = next(iter(config[place].values()))
    message = refusal(config, schema)
    assert message.startswith(f"{place}: the name {name!r} cannot be a folder name")
    assert "\n" not in message


def test_name_that_ends_with_a_newline_is_refused(config, schema):
    config["workloads"]["a\n"] = dict(WORKLOAD)
    assert refusal(config, schema).startswith("workloads: the name 'a\\n'")


def test_slots_010_are_eight_as_yaml_has_it(config, schema):
    config["slots"] = yaml.safe_load("[010]")
    del config["engines"]["static"]["slots"]
    config_check.check(config, schema)
    assert {cell.path for cell in settings.cells(config)} == {
        f"{engine}/{workload}/slots8" for engine in ("static", "vllm") for workload in "AB"
    }


def test_slots_as_a_float_make_no_other_folder(config, schema):
    config["slots"] = [16.0, 256]
    try:
        config_check.check(config, schema)
    except ConfigError:
        return
    assert {cell.path.rpartition("/")[2] for cell in settings.cells(config)} == {
        "slots16",
        "slots256",
    }


def test_totals_may_differ_without_a_comparison(config, schema):
    del config["workloads"]["B"]["compare_with"]
    config["workloads"]["A"]["output_tokens"] = 188
    config_check.check(config, schema)


def test_only_the_chosen_scale_must_hold_the_lengths(config, schema):
    config["workloads"]["long"] = {"requests": 1, "prompt_tokens": 1024, "output_tokens": 1024}
    config["scale"] = "lesson"
    config_check.check(config, schema)
    config["scale"] = "smoke"
    assert refusal(config, schema) == (
        "workloads.long: prompt + output reach 512 tokens, more than "
        "scales.smoke.max_model_len = 256"
    )


# --- what is refused: one line that names the key and what is allowed


@pytest.mark.parametrize(
    ("path", "value", "starts", "allowed"),
    [
        ("engines/vllm/backend", "sglang", "engines.vllm.backend: 'sglang'", "torch, vllm"),
        ("engines/vllm/backend", None, "engines.vllm: missing 'backend'", ""),
        ("scale", "huge", "scale: 'huge'", "one of: smoke, demo, lesson"),
        ("slotz", [1], "top level: unknown key 'slotz'", "scale, language, seed, repeats"),
        ("engines/vllm/slotz", [1], "engines.vllm: unknown key 'slotz'", "threads, workloads"),
        ("engines/vllm/options", {"blocks": 3}, "engines.vllm.options: unknown key", "block_size"),
        ("engines/static/options/block_size", 32, "engines.static.options: unknown", "admission"),
        (
            "engines/static/options/admission",
            "lazy",
            "engines.static.options.admission: 'lazy'",
            "padded, wave, continuous",
        ),
        (
            "engines/static/options/reservation",
            "max",
            "engines.static.options: unknown key 'reservation'",
            "admission, mode",
        ),
        (
            "engines/vllm/options",
            {"reservation": "all"},
            "engines.vllm.options.reservation: 'all'",
            "on_demand, exact, pow2, max",
        ),
        (
            "engines/vllm/options",
            {"block_size": "half"},
            "engines.vllm.options.block_size: 'half' is not a number of tokens or whole",
            "",
        ),
        ("engines/vllm/options", {"block_size": 0}, "engines.vllm.options.block_size: 0", "is 1"),
        (
            "engines/vllm/options",
            {"kv_tokens": 32_770},
            "engines.vllm.options.kv_tokens: 32770 is not divisible",
            "divide_lengths = 4",
        ),
        (
            "engines/vllm/options",
            {"reservation": "max", "reserve_tokens": 642},
            "engines.vllm.options.reserve_tokens: 642 is not divisible",
            "divide_lengths = 4",
        ),
        (
            "scales/demo/backends/vllm/kv_tokens",
            32_770,
            "scales.demo.backends.vllm.kv_tokens: 32770 is not divisible",
            "divide_lengths = 4",
        ),
        ("scales/demo/backends/vllm/blocks", 3, "scales.demo.backends.vllm: unknown", "block_size"),
        ("verdict/steal", 0.1, "verdict: unknown key 'steal'", "foreign_cpu_share, steal_share"),
        ("slots", [0], "slots.0: 0 is too small", "least is 1"),
        ("slots", ["ten"], "slots.0: 'ten'", "integer"),
        ("slots", "ten", "slots: 'ten'", "array"),
        ("slots", [True], "slots.0: True", "integer"),
        ("slots", [16, 16], "slots: [16, 16]", "non-unique"),
        ("slots", [], "slots: must not be empty", ""),
        ("slots", None, "top level: missing 'slots'", ""),
        ("engines/static/slots", [], "engines.static.slots: must not be empty", ""),
        ("engines/static/slots", [8], "engines.static.slots: 8 is not one of", "16, 256"),
        ("repeats", 0, "repeats: 0 is too small", "least is 1"),
        ("scales/demo/repeats", 0, "scales.demo.repeats: 0 is too small", "least is 1"),
        ("workloads", {}, "workloads: must not be empty", ""),
        ("engines", {}, "engines: must not be empty", ""),
        ("engines/vllm/workloads", ["C"], "engines.vllm.workloads: 'C'", "one of: A, B"),
        ("engines/vllm/baseline", "x", "engines.vllm.baseline: 'x'", "one of: static"),
        ("engines/vllm/baseline", "vllm", "engines.vllm.baseline: 'vllm'", "one of: static"),
        ("workloads/B/compare_with", "x", "workloads.B.compare_with: 'x'", "one of: A"),
        ("workloads/B/compare_with", "B", "workloads.B.compare_with: 'B'", "one of: A"),
        ("workloads/A/order", "random", "workloads.A.order: 'random'", "cyclic, sorted, shuffled"),
        ("workloads/A/requests", None, "workloads.A: missing 'requests'", ""),
        ("workloads/A/output_tokens", [], "workloads.A.output_tokens: must not be empty", ""),
        (
            "workloads/A/prompt_tokens",
            2000,
            "workloads.A: prompt + output reach 546 tokens",
            "max_model_len = 512",
        ),
        (
            "workloads/A/output_tokens",
            188,
            "workloads.B.compare_with: B asks for 2944 output tokens and A for 3008",
            "equal totals",
        ),
        (
            "workloads/A/output_tokens",
            186,
            "workloads.A.output_tokens: 186 is not divisible",
            "divide_lengths = 4",
        ),
        (
            "workloads/B/prompt_tokens",
            [128, 30],
            "workloads.B.prompt_tokens: 30 is not divisible",
            "divide_lengths = 4",
        ),
        ("scales/demo/model/shape", None, "scales.demo.model: missing 'shape'", ""),
        ("scales/lesson/model/revision", None, "scales.lesson.model: missing 'revision'", ""),
        ("scales/lesson/model/repository", None, "scales.lesson.model: missing 'repository'", ""),
        ("scales/demo/model/name", "../x", "scales.demo.model.name: the name '../x'", "no slash"),
        ("scales/demo/device", "tpu", "scales.demo.device: 'tpu'", "cpu, cuda"),
        ("scales/demo/dtype", "float16", "scales.demo.dtype: 'float16'", "float32, bfloat16"),
        ("seed", -1, "seed: -1 is too small", "least is 0"),
        ("language", "tlh", "language: 'tlh'", "one of: en, vi"),
        ("engines/vllm/device", "tpu", "engines.vllm.device: 'tpu'", "cpu, cuda"),
        ("engines/vllm/options", {"graphs": "ALL"}, "engines.vllm.options.graphs: 'ALL'", "FULL"),
        ("workloads/B/engines", ["x"], "workloads.B.engines: 'x'", "one of: static, vllm"),
        ("workloads/B/slots", [], "workloads.B.slots: must not be empty", ""),
        ("workloads/B/arrival", "late", "workloads.B.arrival: 'late'", "block, poisson"),
        ("workloads/B/arrival", "poisson", "workloads.B: arrival: poisson needs 'rate'", "second"),
        ("workloads/B/rate", 3, "workloads.B.rate: only", "arrival: poisson"),
        ("workloads/B/rate", 0, "workloads.B.rate: 0 is less than or equal", ""),
        ("sets", {"dose": []}, "sets.dose: must not be empty", ""),
        ("sets", {"tables": [dict(BLOCK)]}, "sets: the name 'tables'", "name of a rule"),
        ("sets", {"a b": [dict(BLOCK)]}, "sets: the name 'a b'", "target of Snakemake"),
        ("sets", {"x": [BLOCK | {"engines": ["y"]}]}, "sets.x.0.engines: 'y'", "static, vllm"),
        ("sets", {"x": [BLOCK | {"workloads": ["C"]}]}, "sets.x.0.workloads: 'C'", "A, B"),
        ("sets", {"x": [{"engines": ["vllm"]}]}, "sets.x.0: missing 'workloads', 'slots'", ""),
    ],
)
def test_bad_value_gives_one_line_with_the_key_and_what_is_allowed(
    config, schema, path, value, starts, allowed
):
    put(config, path, value)
    message = refusal(config, schema)
    assert message.startswith(starts)
    assert allowed in message
    assert "\n" not in message


@pytest.mark.parametrize("value", ["many", 0, [0], [8, "x"], 1.5])
def test_bad_length_is_told_what_a_length_is(config, schema, value):
    config["workloads"]["A"]["output_tokens"] = value
    message = refusal(config, schema)
    assert message.startswith("workloads.A.output_tokens")
    assert "too small" in message or "integer" in message


@pytest.mark.parametrize("place", ["workloads", "engines", "scales"])
def test_number_as_a_name_is_refused_with_the_remedy(config, schema, place):
    config[place].update(yaml.safe_load("2023_2: {}"))
    assert refusal(config, schema) == (
        f"{place}: the key 20232 was read as a int, not as text: put it in quotes"
    )


def test_value_of_two_lines_still_gives_one_line(config, schema):
    config["scale"] = "a\nb"
    assert refusal(config, schema) == "scale: 'a\\nb' is not one of: smoke, demo, lesson"


@pytest.mark.parametrize("seed", range(3))
def test_shuffling_keeps_a_prompt_and_its_output_together(config, schema, seed):
    config["seed"] = seed
    config["workloads"]["A"] = {
        "requests": 4,
        "prompt_tokens": [4, 4, 4, 1600],
        "output_tokens": [1600, 1600, 1600, 4],
        "order": "shuffled",
    }
    del config["workloads"]["B"]
    config_check.check(config, schema)
    config["workloads"]["A"]["output_tokens"] = [4, 4, 4, 1600]
    with pytest.raises(ConfigError, match="prompt \\+ output reach 800 tokens"):
        config_check.check(config, schema)


# --- cells


def test_cells_are_those_that_the_engines_take(config):
    assert {cell.path for cell in settings.cells(config)} == {
        "static/A/slots16",
        "static/B/slots16",
        "vllm/A/slots16",
        "vllm/B/slots16",
        "vllm/A/slots256",
        "vllm/B/slots256",
    }


def test_engine_may_take_one_workload_alone(config):
    config["engines"]["vllm"]["workloads"] = ["B"]
    assert {c.workload for c in settings.cells(config) if c.engine == "vllm"} == {"B"}


def test_engine_without_workloads_has_the_cells_of_sets_alone(config, schema):
    config["engines"]["vllm"]["workloads"] = []
    config["sets"] = {"dose": [BLOCK]}
    config_check.check(config, schema)
    found = settings.sets(config)
    assert {cell.engine for cell in found["main"]} == {"static"}
    assert found["dose"] == [Cell("vllm", "B", 4), Cell("vllm", "B", 16)]


def test_workload_may_name_its_engines_and_slots(config):
    config["workloads"]["B"] |= {"engines": ["vllm"], "slots": [16]}
    assert [cell.path for cell in settings.cells(config) if cell.workload == "B"] == [
        "vllm/B/slots16"
    ]
    config["workloads"]["B"]["engines"] = []
    assert {cell.workload for cell in settings.cells(config)} == {"A"}


def test_engine_of_another_device_has_no_cells(config, schema):
    config["engines"]["vllm"]["device"] = "cuda"
    assert {cell.engine for cell in settings.cells(config)} == {"static"}
    config["scale"] = "lesson"
    config_check.check(config, schema)
    assert {cell.engine for cell in settings.cells(config)} == {"static", "vllm"}


def test_set_adds_cells_and_moves_none(config):
    before = settings.order(config)
    config["sets"] = {"dose": [BLOCK, BLOCK | {"slots": [8]}], "main": [BLOCK | {"slots": [64]}]}
    main, dose = settings.sets(config)["main"], settings.sets(config)["dose"]
    # 16 slots are in main, and stay there
    assert dose == [Cell("vllm", "B", 4), Cell("vllm", "B", 8)]
    assert Cell("vllm", "B", 64) in main
    del config["sets"]["main"]
    assert [timing for timing in settings.order(config) if timing[0] not in dose] == before
    # each repeat is measured whole: its main part, then the set
    repeats = [repeat for _, repeat in settings.order(config)]
    assert repeats == sorted(repeats)
    first = [cell for cell, repeat in settings.order(config) if repeat == 1]
    assert set(first[-2:]) == set(dose)
    assert [t["set"] for t in settings.plan(config) if t["repeat"] == 1] == ["main"] * 6 + [
        "dose"
    ] * 2


def test_requests_that_keep_coming_need_continuous_admission(config, schema):
    config["workloads"]["B"] |= {"arrival": "poisson", "rate": 3}
    del config["workloads"]["B"]["compare_with"]
    assert refusal(config, schema) == (
        "workloads.B.arrival: requests that keep coming need an engine with admission: "
        "continuous; engines.static has padded"
    )
    config["workloads"]["B"]["engines"] = ["vllm"]
    config_check.check(config, schema)
    config["engines"]["vllm"]["options"] = {"admission": "wave"}
    assert "engines.vllm has wave" in refusal(config, schema)


def test_rate_and_seed_of_the_arrivals_are_part_of_the_spec(config):
    workload = config["workloads"]["B"]
    assert "arrival" not in settings.workload_spec(config, "B")
    workload |= {"arrival": "block"}
    assert "arrival" not in settings.workload_spec(config, "B")
    workload |= {"arrival": "poisson", "rate": 3}
    arrival = settings.workload_spec(config, "B")["arrival"]
    assert arrival == {"process": "poisson", "rate": 3, "seed": config["seed"]}
    workload["arrival_seed"] = 7
    config["scales"]["demo"]["multiply_rates"] = 2.5
    arrival = settings.workload_spec(config, "B")["arrival"]
    assert arrival == {"process": "poisson", "rate": 7.5, "seed": 7}


def test_top_of_the_config_wins_over_the_scale(config):
    assert settings.repeats(config) == range(1, 4)
    assert settings.setting(config, "threads") == 1
    config.update(repeats=2, threads=3)
    assert settings.repeats(config) == range(1, 3)
    assert settings.setting(config, "threads") == 3


def test_threads_of_one_engine_are_its_own(config):
    before = specs(config)
    config["engines"]["static"]["threads"] = 2
    for cell in settings.cells(config):
        spec = settings.spec(config, cell)
        assert spec["threads"] == (2 if cell.engine == "static" else 1)
        assert (canonical(spec) != before[cell]) == (cell.engine == "static")


# --- identity: which edits measure anew


def reordered(value, random):
    """The same config with the keys of every mapping in another order."""
    if not isinstance(value, dict):
        return value
    keys = list(value)
    random.shuffle(keys)
    return {key: reordered(value[key], random) for key in keys}


@given(random=st.randoms(use_true_random=False))
def test_key_order_changes_no_spec(shipped, random):
    assert specs(reordered(shipped, random)) == specs(shipped)


@given(random=st.randoms(use_true_random=False))
def test_key_order_changes_nothing_in_the_plan(shipped, random):
    plan = list(settings.plan(reordered(shipped, random)))
    assert canonical(plan) == canonical(list(settings.plan(shipped)))


def changed(before, after):
    return {cell for cell in before.keys() & after.keys() if before[cell] != after[cell]}


def test_option_of_an_engine_changes_its_own_specs_alone(config):
    before = specs(config)
    config["engines"]["vllm"]["options"] = {"block_size": 64}
    assert changed(before, specs(config)) == {c for c in before if c.engine == "vllm"}


def test_option_of_a_backend_changes_its_engines_alone(config):
    before = specs(config)
    config["scales"]["demo"]["backends"]["vllm"]["block_size"] = 64
    assert changed(before, specs(config)) == {c for c in before if c.engine == "vllm"}


def test_option_of_another_scale_changes_nothing(config):
    before = specs(config)
    config["scales"]["lesson"]["backends"]["vllm"]["block_size"] = 64
    assert specs(config) == before


def test_option_of_an_engine_wins_over_that_of_the_scale(config):
    config["engines"]["vllm"]["options"] = {"block_size": 64}
    options = settings.spec(config, Cell("vllm", "A", 16))["options"]
    assert options == {
        "enforce_eager": True,
        "engine_process": False,
        "block_size": 64,
        "kv_cache_gib": 1,
        "max_num_batched_tokens": 4096,
    }


@pytest.mark.parametrize(("scale", "by", "longest"), [("demo", 4, 512), ("lesson", 1, 2048)])
def test_sizes_of_kv_memory_are_divided_like_lengths(config, schema, scale, by, longest):
    """Capacity and reservation stay in proportion to the requests, whatever the scale."""
    config["scale"] = scale
    config["engines"]["vllm"]["options"] = {
        "reservation": "max",
        "reserve_tokens": 1024,
        "kv_tokens": 32_768,
        "block_size": "whole",
    }
    config_check.check(config, schema)
    options = settings.spec(config, Cell("vllm", "A", 16))["options"]
    assert options["kv_tokens"] == 32_768 // by
    assert options["reserve_tokens"] == 1024 // by
    assert options["block_size"] == longest


def test_usable_tokens_replace_the_memory_of_the_scale(config):
    options = config["engines"]["vllm"].setdefault("options", {})
    assert "kv_cache_gib" in settings.engine_options(config, "vllm")
    options["kv_tokens"] = 32_768
    assert "kv_cache_gib" not in settings.engine_options(config, "vllm")
    # who asks for both has to choose
    options["kv_cache_gib"] = 1
    assert "kv_cache_gib" in settings.engine_options(config, "vllm")
    assert options == {"kv_tokens": 32_768, "kv_cache_gib": 1}


def test_length_of_a_workload_changes_its_own_specs_alone(config):
    before = specs(config)
    config["workloads"]["B"]["output_tokens"] = [64, 32, 128, 512]
    assert changed(before, specs(config)) == {c for c in before if c.workload == "B"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("engines/vllm/baseline", None),
        ("workloads/B/compare_with", None),
        ("verdict", {"steal_share": 0.5}),
        ("verdict", None),
        ("engines/static/slots", [16, 256]),
        ("engines/static/workloads", ["B"]),
        ("slots", [16, 64, 256]),
        ("language", "vi"),
        ("repeats", 9),
        ("engines/new", {"backend": "torch", "baseline": "static"}),
        ("workloads/C", WORKLOAD),
        ("scales/lesson/threads", 64),
    ],
)
def test_edit_that_changes_no_measurement_changes_no_spec(config, path, value):
    before = specs(config)
    put(config, path, value)
    after = specs(config)
    assert before.keys() & after.keys()
    assert changed(before, after) == set()


def test_comment_changes_no_spec(root, shipped):
    text = (root / "config.yaml").read_text().replace("\n", "  # a comment\n")
    assert "a comment" in text
    assert specs(yaml.safe_load(text)) == specs(shipped)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("seed", 2),
        ("samples", 2),
        ("threads", 2),
        ("scale", "smoke"),
        ("scales/demo/dtype", "bfloat16"),
        ("scales/demo/max_model_len", 1024),
        ("scales/demo/divide_lengths", 2),
        ("scales/demo/model/std", 0.01),
        ("scales/demo/model/shape/vocab_size", 4096),
    ],
)
def test_edit_that_changes_every_measurement_changes_every_spec(config, path, value):
    before = specs(config)
    put(config, path, value)
    assert changed(before, specs(config)) == set(before)


def test_new_protocol_changes_every_spec(config, monkeypatch):
    before = specs(config)
    monkeypatch.setattr(settings, "PROTOCOL", settings.PROTOCOL + 1)
    assert changed(before, specs(config)) == set(before)


def test_canonical_json_keeps_letters_and_sorts_keys():
    assert canonical({"b": [2, 1], "a": "ä"}) == '{"a":"ä","b":[2,1]}'


def test_unused_parts_of_a_model_change_nothing(config):
    config["scale"] = "lesson"
    assert settings.model_spec(config) == {
        "path": "results/models/qwen2.5-1.5b-instruct",
        "weights": "hub",
        "repository": "Qwen/Qwen2.5-1.5B-Instruct",
        "revision": "989aa7980e4cf806f80c7fef2b1adb7bc71aa306",
    }


# --- order of measuring


def test_every_repeat_holds_every_cell_once(config):
    config["repeats"] = 5
    counts = Counter(settings.order(config))
    assert counts == {(cell, n): 1 for cell in settings.cells(config) for n in range(1, 6)}
    assert [repeat for _, repeat in settings.order(config)] == sorted(
        repeat for _, repeat in settings.order(config)
    )


def cells_by_repeat(config):
    order = settings.order(config)
    return [[cell for cell, r in order if r == n] for n in settings.repeats(config)]


def test_repeats_differ_in_their_order(config):
    config["repeats"] = 5
    assert len({tuple(cells) for cells in cells_by_repeat(config)}) == 5


def test_order_follows_the_seed(config):
    other = copy.deepcopy(config)
    assert settings.order(config) == settings.order(other)
    other["seed"] = 2
    assert settings.order(config) != settings.order(other)


def test_one_more_repeat_leaves_the_earlier_ones_in_place(config):
    config["repeats"] = 3
    three = settings.order(config)
    config["repeats"] = 4
    assert settings.order(config)[: len(three)] == three


def test_plan_gives_files_places_and_the_spec_with_its_repeat(config):
    plan = list(settings.plan(config))
    assert [timing["position"] for timing in plan] == list(range(1, 19))
    timing = next(
        t for t in plan if (t["engine"], t["workload"], t["repeat"]) == ("static", "B", 2)
    )
    assert timing["path"] == "results/timings/static/B/slots16/2.parquet"
    assert timing["steps"] == "results/steps/static/B/slots16/2.parquet"
    assert (timing["baseline"], timing["compare_with"]) == (None, "A")
    assert timing["admission"] == "padded"
    assert timing["spec"] == {
        **settings.spec(config, Cell("static", "B", 16)),
        "repeat": 2,
    }
