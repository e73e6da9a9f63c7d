"""Bad input ends in one clear line that names the key, before anything is measured."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.pipeline


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("\nscale: demo\n", "\nscale: huge\n", "scale: 'huge' is not one of: smoke, demo, lesson"),
        (
            "    backend: vllm\n    baseline: static\n",
            "    backend: tgi\n    baseline: static\n",
            "engines.vllm.backend: 'tgi' is not one of: torch, vllm",
        ),
        ("slots: [16, 256]\n", "slots: [0]\n", "slots.0: 0 is too small; the least is 1"),
        ("slots: [16, 256]\n", "slots: [many]\n", "slots.0: 'many' is not of type integer"),
        ("# repeats: 5\n", "repeats: 0\n", "repeats: 0 is too small; the least is 1"),
        ("# repeats: 5\n", "repeat: 5\n", "top level: unknown key 'repeat'; allowed: "),
        (
            "    baseline: static\n",
            "    baseline: nobody\n",
            "engines.vllm.baseline: 'nobody' is not one of: static, torch_wave",
        ),
        (
            "    compare_with: A\n",
            "    compare_with: A\n  C: {}\n",
            "workloads.C: missing 'requests'",
        ),
        (
            "    output_tokens: [32, 64, 128, 512]\n    compare_with: A\n",
            "    output_tokens: [32, 64, 128, 516]\n    compare_with: A\n",
            "workloads.B.compare_with: B asks for 2960 output tokens and A for 2944",
        ),
        (
            "    output_tokens: [32, 64, 128, 512]\n    compare_with: A\n",
            "    output_tokens: [4096]\n    compare_with: A\n",
            "workloads.B: prompt + output reach 1056 tokens, more than "
            "scales.demo.max_model_len = 512",
        ),
        (
            "    output_tokens: [32, 64, 128, 512]\n    compare_with: A\n",
            "    output_tokens: []\n    compare_with: A\n",
            "workloads.B.output_tokens",
        ),
    ],
)
def test_a_bad_key_is_named(workflow, old, new, says):
    workflow.edit(old, new)
    done = workflow.snakemake()
    assert done.returncode != 0
    lines = [line for line in done.stdout.splitlines() if says in line]
    assert len(lines) == 1, done.stdout
    assert not (workflow.folder / "results").exists()


def test_a_cuda_scale_without_a_gpu_is_refused(workflow, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")  # no nvidia-smi, whatever the machine
    done = workflow.snakemake("--config", "scale=lesson")
    assert done.returncode != 0
    assert "scales.lesson.device: cuda, but no NVIDIA GPU answers here" in done.stdout
    assert not (workflow.folder / "results/timings").exists()


def test_vllm_that_is_not_installed_is_named(workflow, monkeypatch, tmp_path):
    # a finder that hides the package, in the way of a machine without it
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'vllm' else find(name, *a)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = workflow.snakemake("--config", "scale=smoke")
    assert done.returncode != 0
    assert "engines.vllm.backend: vllm needs the package vllm" in done.stdout
    assert not (workflow.folder / "results/timings").exists()
