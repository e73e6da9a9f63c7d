"""The witness: what else the machine did, from counters and from real processes."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from fourcells import witness
from fourcells.witness import Snapshot, between, verdict

BEFORE = Snapshot(wall=100.0, busy=50.0, own=10.0, steal=1.0, involuntary=7, pressure=2.0)
AFTER = Snapshot(wall=110.0, busy=61.0, own=18.0, steal=1.5, involuntary=9, pressure=2.25)


@pytest.fixture(autouse=True)
def two_cores(request, monkeypatch):
    if "real" not in request.node.name:
        monkeypatch.setattr(os, "cpu_count", lambda: 2)


def test_shares_are_of_the_whole_machine():
    assert between(BEFORE, AFTER) == {
        "seconds": 10.0,
        "own_cpu_s": 8.0,
        "foreign_cpu_s": 3.0,
        "foreign_cpu_share": 0.15,
        "steal_s": 0.5,
        "steal_share": 0.025,
        "pressure_s": 0.25,
        "involuntary_switches": 2,
    }


def test_own_work_is_not_foreign():
    busy_alone = replace(AFTER, busy=58.0)
    assert between(BEFORE, busy_alone)["foreign_cpu_share"] == 0.0


def test_rounding_of_the_counters_gives_no_negative_share():
    assert between(BEFORE, replace(AFTER, busy=57.99))["foreign_cpu_s"] == 0.0


def test_unknown_sources_stay_null():
    before = replace(BEFORE, steal=None, pressure=None)
    seen = between(before, replace(AFTER, steal=None, pressure=None))
    assert (seen["steal_s"], seen["steal_share"], seen["pressure_s"]) == (None, None, None)
    assert verdict({**seen, "foreign_cpu_share": 0.0}, {}) == ["clean"]


@pytest.mark.parametrize(
    ("foreign", "steal", "thresholds", "expected"),
    [
        (0.0, 0.0, {}, "clean"),
        (0.05, 0.02, {}, "clean"),
        (0.0501, 0.0, {}, "contended"),
        (0.0, 0.0201, {}, "contended"),
        (0.0501, None, {}, "contended"),
        (0.3, 0.0, {"foreign_cpu_share": 0.5}, "clean"),
        (0.3, 0.03, {"foreign_cpu_share": 0.5}, "contended"),
        (0.01, 0.0, {"foreign_cpu_share": 0}, "contended"),
    ],
)
def test_verdict_follows_the_thresholds(foreign, steal, thresholds, expected):
    seen = {"foreign_cpu_share": foreign, "steal_share": steal}
    assert verdict(seen, thresholds) == [expected]


def test_default_thresholds_are_those_of_the_shipped_config(shipped):
    assert shipped["verdict"] == witness.THRESHOLDS


# --- real processes

SPIN = "import os, time; print(os.getpid(), flush=True); end = time.time() + 5\nwhile time.time() < end: pass"


def watch(seconds=0.5):
    before = witness.snapshot(time.monotonic())
    time.sleep(seconds)
    return between(before, witness.snapshot(time.monotonic()))


def test_real_spinner_elsewhere_is_foreign():
    """Forked twice in a session of its own, so that it is no child of this process."""
    started = subprocess.run(
        ["sh", "-c", 'setsid "$0" -c "$1" & read -r _ || true', sys.executable, SPIN],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ) if False else None
    assert started is None
