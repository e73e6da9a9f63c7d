"""`make precise`: when it goes on, by how much, and when it stops."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from itertools import pairwise
from types import SimpleNamespace

import precise
import pytest
import synthetic
import yaml
from synthetic import rewrite

from fourcells import config as settings


def limits(target=0.05, repeats=20, minutes=60.0):
    return SimpleNamespace(target=target, max_repeats=repeats, max_minutes=minutes)


def noisy(n, sd):
    """n values around 2 whose logs have exactly this deviation."""
    steps = [i - (n - 1) / 2 for i in range(n)]
    scale = math.sqrt(sum(s * s for s in steps) / (n - 1))
    return [2 * math.exp(sd * s / scale) for s in steps]


@pytest.mark.parametrize(
    ("n", "sd", "half"), [(3, 0.06, 0.16), (5, 0.10, 0.13), (10, 0.20, 0.154), (4, 0.0, 0.0)]
)
def test_half_width_is_that_of_the_t_interval(n, sd, half):
    # the table of half-widths in the notes on statistics
    assert precise.half_width(noisy(n, sd)) == pytest.approx(half, abs=0.005)


def test_one_value_has_no_half_width():
    assert precise.half_width([2.0]) is None


@pytest.mark.parametrize(("sd", "target", "least"), [(0.06, 0.05, 9), (0.02, 0.10, 3)])
def test_needed_repeats_are_the_fewest_within_the_target(sd, target, least):
    needed = precise.needed(noisy(5, sd), limits(target))
    assert needed == least
    assert precise.half_width(noisy(needed, sd)) <= target
    assert precise.half_width(noisy(needed - 1, sd)) > target


def test_needed_repeats_never_pass_the_limit():
    assert precise.needed(noisy(3, 0.5), limits(0.01, repeats=7)) == 7


def decide(values, repeats=None, minutes=1.0, cost=0.1, **changes):
    return precise.decide(values, repeats or len(values), limits(**changes), minutes, cost)


def test_one_repeat_gets_a_second():
    assert decide([2.0])[0] == 2
    assert "no interval yet" in decide([2.0])[1]


def test_it_stops_at_the_target():
    after, why = decide(noisy(5, 0.01))
    assert after is None and why == "the target is reached (--target 0.05)"
    assert decide(noisy(2, 0.5), target=1e9)[0] is None


def test_it_stops_at_the_limit_of_repeats():
    assert decide(noisy(3, 0.2), target=0.01)[0] == 6
    after, why = precise.decide(noisy(3, 0.2), 3, limits(0.01, repeats=3), 1.0, 0.1)
    assert after is None and "limit of 3 repeats (--max-repeats)" in why


@pytest.mark.parametrize(("spent", "cost"), [(60.0, None), (61.0, 0.1), (59.5, 1.0)])
def test_it_stops_at_the_limit_of_minutes_before_a_repeat_that_does_not_fit(spent, cost):
    after, why = precise.decide(noisy(3, 0.2), 3, limits(), spent, cost)
    assert after is None and "limit of 60 minutes (--max-minutes)" in why


def test_the_minutes_left_bound_the_next_round():
    assert precise.decide(noisy(5, 0.2), 5, limits(), 57.9, 1.0)[0] == 7


def test_never_more_than_doubled_and_at_least_one_more():
    assert decide(noisy(3, 0.2))[0] == 6
    # 9 would do by the deviation, 8 are there and just not within the target
    assert decide(noisy(8, 0.061))[0] == 9


def test_repeats_without_q_count_as_asked_for():
    # 5 asked for, two of them without Q
    assert decide(noisy(3, 0.06), repeats=5)[0] == 10


def test_the_summary_tells_q_or_why_there_is_none():
    entry = {"engine": "vllm", "baseline": "static", "slots": 16, "estimate": 2.0}
    summary = {"ratios": {"Q": entry | {"per_repeat": {"1": 1.9, "2": 2.1, "3": 2.0}}}}
    assert precise.told(summary).startswith("Q (vllm / static, 16 slots) = 2.000 [1.")
    assert precise.told(summary).endswith(", 3 repeats")
    one = {"ratios": {"Q": entry | {"per_repeat": {"1": 2.0}}}}
    assert precise.told(one).endswith("one repeat: no interval")
    for none in ({}, {"ratios": {}}, {"ratios": {"Q": {"per_repeat": {}}}}):
        with pytest.raises(ValueError, match="there is no Q: it needs an engine with a baseline"):
            precise.values_of(none)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the repository's config.yaml, as the working folder."""
    (tmp_path / "config.yaml").write_text((precise.ROOT / "config.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_overrides_are_those_of_snakemake(here):
    config = precise.read_config(["scale=smoke", "engines={vllm: {slots: [16]}}"])
    assert config["scale"] == "smoke"
    assert config["engines"]["vllm"] == {"backend": "vllm", "baseline": "static", "slots": [16]}
    assert settings.setting(config, "repeats") == 1
    with pytest.raises(ValueError, match="key=value"):
        precise.read_config(["smoke"])
    with pytest.raises(ValueError, match="scale"):
        precise.read_config(["scale=tiny"])


@pytest.mark.parametrize("spoil", ["baseline", "compare_with"])
def test_without_q_nothing_is_measured(here, capsys, monkeypatch, spoil):
    config = yaml.safe_load((here / "config.yaml").read_text())
    for each in [*config["engines"].values(), *config["workloads"].values()]:
        each.pop(spoil, None)
    (here / "config.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.setattr(precise, "snakemake", lambda *_: pytest.fail("measured"))
    assert precise.main([]) == 2
    assert "there is no Q" in capsys.readouterr().err


def test_a_folder_without_config_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert precise.main([]) == 2
    assert "config.yaml" in capsys.readouterr().err


def test_repeats_that_are_there_count_if_the_config_still_asks_so(here):
    config = precise.read_config(["scale=smoke"])
    assert precise.measured_repeats(config) == 0
    # the cells of a set that nobody asked for are not missing
    for cell in settings.sets(config)[settings.MAIN]:
        for repeat in (1, 2):
            path = here / f"results/timings/{cell.path}/{repeat}.parquet"
            spec = settings.spec(config, cell) | {"repeat": repeat}
            rows, _ = synthetic.serve(synthetic.DEMO["A"], 16, "padded", 0.01, 0.001)
            metadata = {"spec": spec, "protocol": spec["protocol"]}
            synthetic.write_parquet(path, rows, synthetic.TIMING, metadata)
    assert precise.measured_repeats(config) == 2
    rewrite(path, metadata=lambda meta: meta["spec"].update(seed=9))
    assert precise.measured_repeats(config) == 1


@pytest.fixture
def measured(here, monkeypatch):
    """Snakemake's place is taken: each round writes a summary with the first values of a list,
    and the repeats asked for are kept."""
    asked = []

    def run(repeats, _options):
        asked.append(repeats)
        values = {str(r): v for r, v in zip(range(1, repeats + 1), values_to_give, strict=False)}
        entry = {"engine": "v", "baseline": "s", "slots": 16, "estimate": 2.0}
        precise.SUMMARY.parent.mkdir(exist_ok=True)
        precise.SUMMARY.write_text(json.dumps({"ratios": {"Q": entry | {"per_repeat": values}}}))
        return 0

    values_to_give = [2 * math.exp(0.06 * s) for s in (1, -1, 0, 1, -1, 0, 1, -1, 0, 1, -1, 0)]
    monkeypatch.setattr(precise, "snakemake", run)
    return asked


def test_it_adds_blocks_until_the_target(measured, capsys):
    assert precise.main(["--target", "0.05", "--config", "repeats=3"]) == 0
    out = capsys.readouterr().out
    assert measured[0] == 3 and measured == sorted(set(measured)) and measured[-1] <= 12
    assert all(b <= 2 * a for a, b in pairwise(measured))
    assert "the target is reached (--target 0.05)" in out
    assert f"`repeats: {measured[-1]}` in config.yaml" in out
    assert f"--config repeats={measured[-1]}" in out


def test_a_limit_below_what_the_config_asks_is_kept(measured, capsys):
    assert precise.main(["--target", "0.001", "--max-repeats", "4", "--config", "repeats=6"]) == 0
    assert measured == [4]
    assert "limit of 4 repeats" in capsys.readouterr().out


def test_a_failed_workflow_ends_it(here, monkeypatch, capsys):
    monkeypatch.setattr(precise, "snakemake", lambda *_: 1)
    assert precise.main([]) == 1
    assert "Snakemake failed" in capsys.readouterr().err


def test_options_after_two_dashes_go_to_snakemake():
    options = precise.parse(["--config", "a=1", "b=2", "--", "--use-conda", "-n"])
    assert (options.config, options.snakemake) == (["a=1", "b=2"], ["--use-conda", "-n"])
    assert precise.parse([]).snakemake == []


@pytest.mark.parametrize(
    "arguments",
    [["--", "--config", "a=1"], ["--target", "0"], ["--max-repeats", "-1"], ["--target", "nan"]],
)
def test_options_that_cannot_be_used_are_refused(arguments):
    with pytest.raises(SystemExit) as stop:
        precise.parse(arguments)
    assert stop.value.code == 2


def test_ctrl_c_ends_the_child_cleanly(here):
    """The child gets one SIGINT and is waited for; nothing of it is left."""
    child = here / "snakemake.py"
    child.write_text(
        "import pathlib, time\n"
        "try:\n"
        "    pathlib.Path('started').touch()\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    time.sleep(0.5)\n"
        "    pathlib.Path('ended').touch()\n"
        "    raise SystemExit(1)\n"
    )
    script = precise.ROOT / "scripts" / "precise.py"
    # `-m snakemake` finds the file of that name in the working folder
    running = subprocess.Popen(
        [sys.executable, str(script)], cwd=here, stdout=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 30
    while not (here / "started").exists() and time.monotonic() < until:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=30)
    assert running.returncode == 130
    assert (here / "ended").exists()
    assert "what is measured stays" in out


def test_help(capsys):
    with pytest.raises(SystemExit) as stop:
        precise.main(["--help"])
    assert stop.value.code == 0
    assert "--max-minutes" in capsys.readouterr().out
