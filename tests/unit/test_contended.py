"""`make contended`: which timings are not clean, and the commands that help."""

from __future__ import annotations

import json
import shlex

import contended
import pytest
import synthetic
import tables
from synthetic import find

AGAIN = "snakemake -j1 --use-conda --forcerun"


@pytest.fixture
def plan(tmp_path):
    return synthetic.write_timings(tmp_path / "it's $HOME", repeats=2)


def run(folder, plan, capsys):
    """What the command prints, line by line."""
    (folder / "plan.json").write_text(json.dumps(plan))
    arguments = ["--plan", folder / "plan.json", "--output-dir", folder / "tables"]
    assert tables.main([str(a) for a in [*arguments, "--summary", folder / "summary.json"]]) == 0
    capsys.readouterr()
    arguments = ["--tables", str(folder / "tables"), "--plan", str(folder / "plan.json")]
    assert contended.main(arguments) == 0
    return capsys.readouterr().out.splitlines()


def paths(line):
    """The timings that a command measures again, as a shell reads it."""
    words = shlex.split(line)
    assert words[:4] == AGAIN.split()
    return words[4:]


def test_all_clean(tmp_path, plan, capsys):
    assert run(tmp_path, plan, capsys) == ["all 12 timings are clean"]


def test_every_unclean_timing_with_its_figures_and_commands(tmp_path, plan, capsys):
    one, two = find(plan, "static", "B"), find(plan, "vllm", "B", 256, 2)
    synthetic.contend(one, share=0.4)
    two["spec"]["options"]["enforce_eager"] = True
    lines = run(tmp_path, plan, capsys)
    assert lines[0] == "2 of 12 timings are not clean:"
    at = lines.index("static/B/slots16, repeat 1: contended")
    assert "foreign share of the machine 40.0 %" in lines[at + 1]
    assert "foreign CPU" in lines[at + 1] and "stolen" not in lines[at + 1]
    assert paths(lines[at + 2]) == [one["path"]]
    at = lines.index("vllm/B/slots256, repeat 2: stale_spec")
    assert "options.enforce_eager" in lines[at + 1]
    assert paths(lines[at + 2]) == [two["path"]]
    at = lines.index("All of them again:")
    assert paths(lines[at + 1]) == [one["path"], two["path"]]
    assert len(lines) == at + 2  # no repeat mixes sessions


def test_a_repeat_of_mixed_sessions_comes_with_the_command_for_the_whole(tmp_path, plan, capsys):
    synthetic.remeasure(find(plan, "static", "B", repeat=2))
    lines = run(tmp_path, plan, capsys)
    (at,) = [i for i, line in enumerate(lines) if line.startswith("Repeat 2 mixes")]
    assert paths(lines[at + 1]) == [e["path"] for e in plan if e["repeat"] == 2]


def test_the_worst_window_is_told(tmp_path, capsys):
    plan = synthetic.write_timings(tmp_path, repeats=1, samples=2)

    def see(meta):
        first, second = meta["witness"]["windows"]
        first |= {"foreign_cpu_share": 0.2, "foreign_cpu_s": 1.5}
        second |= {"foreign_cpu_share": 0.1, "foreign_cpu_s": 0.7, "steal_s": 0.4}

    synthetic.rewrite(plan[0]["path"], metadata=see)
    lines = run(tmp_path, plan, capsys)
    assert lines[0] == "1 of 6 timings are not clean:"
    assert "foreign CPU 1.50 s; foreign share of the machine 20.0 %; stolen 0.40 s" in lines[3]


def test_timings_without_a_row_are_not_called_clean(tmp_path, plan, capsys):
    more = [*plan, plan[0] | {"repeat": 3, "path": "results/3.parquet"}]
    run(tmp_path, plan, capsys)
    (tmp_path / "plan.json").write_text(json.dumps(more))
    arguments = ["--tables", str(tmp_path / "tables"), "--plan", str(tmp_path / "plan.json")]
    assert contended.main(arguments) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("not measured yet: 1 of 13 timings")
    assert last == "all 12 timings are clean"


def test_without_tables_it_says_what_to_run(tmp_path, capsys):
    arguments = ["--tables", str(tmp_path / "none"), "--plan", str(tmp_path / "plan.json")]
    assert contended.main(arguments) == 0
    assert "no tables yet" in (said := capsys.readouterr().out)
    assert said.rstrip().endswith("snakemake -j1 --use-conda")


def test_help(capsys):
    with pytest.raises(SystemExit) as stop:
        contended.main(["--help"])
    assert stop.value.code == 0
    assert "not clean" in capsys.readouterr().out
