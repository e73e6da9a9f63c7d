"""The witness: what else the machine did, from counters and from real processes."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace

import psutil
import pytest

from fourcells import verdict, witness
from fourcells.witness import Counters, Watch, between

BEFORE = Counters(
    wall=100.0,
    busy=50.0,
    own=10.0,
    steal=1.0,
    pressure=2.0,
    involuntary={1: 3, 2: 4},
    quota_stops=3,
    swapped=4096,
)
AFTER = Counters(
    wall=110.0,
    busy=61.0,
    own=18.0,
    steal=1.5,
    pressure=2.25,
    involuntary={1: 4, 3: 1},
    quota_stops=3,
    swapped=4096,
)
OPTIONAL = {"steal", "pressure", "involuntary", "quota_stops", "swapped"}


@pytest.fixture(autouse=True)
def two_cores(request, monkeypatch):
    if "real" not in request.node.name:
        monkeypatch.setattr(os, "cpu_count", lambda: 2)


def test_shares_are_of_the_whole_machine():
    assert between(BEFORE, AFTER) == {
        "seconds": 10.0,
        "own_cpu_s": 8.0,
        "own_cpu_share": 0.8,
        "foreign_cpu_s": 3.0,
        "foreign_cpu_share": 0.15,
        "steal_s": 0.5,
        "steal_share": 0.025,
        "pressure_s": 0.25,
        "involuntary_switches": 2,
        "quota_stops": 0,
        "swapped_bytes": 0,
    }


def test_own_work_is_not_foreign():
    assert between(BEFORE, replace(AFTER, busy=58.0))["foreign_cpu_share"] == 0.0


def test_rounding_of_the_counters_gives_no_negative_share():
    assert between(BEFORE, replace(AFTER, busy=57.99))["foreign_cpu_s"] == 0.0


def test_unknown_sources_stay_null_and_accuse_nobody():
    unknown = dict.fromkeys(OPTIONAL)
    seen = between(replace(BEFORE, **unknown), replace(AFTER, **unknown, busy=58.0))
    null = {name for name, value in seen.items() if value is None}
    assert null == {
        "steal_s",
        "steal_share",
        "pressure_s",
        "involuntary_switches",
        "quota_stops",
        "swapped_bytes",
    }
    assert verdict.of_machine([seen]) == []


def test_source_that_is_known_at_one_end_alone_is_null():
    assert between(replace(BEFORE, steal=None), AFTER)["steal_share"] is None


def test_kernel_without_pressure_gives_null(monkeypatch):
    monkeypatch.setattr(witness, "_read", lambda path: None)
    counters = witness.read_counters()
    assert (counters.pressure, counters.quota_stops, counters.involuntary) == (None, None, None)
    assert counters.busy > 0


# --- the verdict


@pytest.mark.parametrize(
    ("foreign", "steal", "thresholds", "expected"),
    [
        (0.0, 0.0, {}, []),
        (0.05, 0.02, {}, []),
        (0.0501, 0.0, {}, ["contended"]),
        (0.0, 0.0201, {}, ["contended"]),
        (0.0501, None, {}, ["contended"]),
        (0.3, 0.0, {"foreign_cpu_share": 0.5}, []),
        (0.3, 0.03, {"foreign_cpu_share": 0.5}, ["contended"]),
        (0.01, 0.0, {"foreign_cpu_share": 0}, ["contended"]),
    ],
)
def test_verdict_follows_the_thresholds(foreign, steal, thresholds, expected):
    seen = {
        "foreign_cpu_s": foreign * 20,
        "foreign_cpu_share": foreign,
        "steal_s": None if steal is None else steal * 20,
        "steal_share": steal,
    }
    assert verdict.of_machine([seen], thresholds) == expected


def test_ticks_of_the_kernel_do_not_make_a_short_window_contended():
    seen = {"foreign_cpu_s": 0.05, "foreign_cpu_share": 0.5}
    assert verdict.of_machine([seen]) == []
    assert verdict.of_machine([{**seen, "foreign_cpu_s": 0.06}]) == ["contended"]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({"swapped_bytes": 2**20}, []),
        ({"swapped_bytes": 2**20 + 1}, ["contended"]),
        ({"quota_stops": 1}, ["throttled"]),
        ({"gpu": {"throttled": ["hardware slowdown"]}}, ["throttled"]),
        ({"gpu": {"foreign_processes": [7], "throttled": ["x"]}}, ["contended", "throttled"]),
        ({"gpu": None}, []),
    ],
)
def test_other_sources_accuse_too(seen, expected):
    assert verdict.of_machine([seen]) == expected


def test_one_window_accuses_its_timing():
    busy = {"foreign_cpu_s": 1.0, "foreign_cpu_share": 0.5}
    stolen = {"steal_s": 1.0, "steal_share": 0.5}
    assert verdict.of_machine([{}, busy, {}]) == ["contended"]
    assert verdict.of_machine([{}, stolen]) == ["contended"]


def test_verdict_of_a_timing_is_never_empty():
    assert verdict.whole() == verdict.whole([], []) == ["clean"]
    assert verdict.whole(["throttled"], ["cache_hit", "throttled"]) == ["cache_hit", "throttled"]


def test_shipped_config_has_the_default_thresholds(shipped):
    assert shipped["verdict"] == {name: verdict.THRESHOLDS[name] for name in shipped["verdict"]}


# --- real processes

SPIN = """
import os, sys, time
print(os.getpid(), flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end: pass
"""


@pytest.fixture
def spinner():
    """Starts a process that burns one core; `apart`: forked twice, so that it is no child."""
    started = []

    def start(*, apart, seconds=10.0):
        command = ["setsid", "--fork"] if apart else []
        command += [sys.executable, "-c", SPIN, str(seconds)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append((process, int(process.stdout.readline())))
        if apart:
            process.wait()
        return started[-1]

    yield start
    for process, pid in started:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def family():
    return {child.pid for child in psutil.Process().children(recursive=True)}


def watch(action=lambda: time.sleep(0.5)):
    with Watch("cpu") as watching:
        action()
    return watching.result


def test_real_spinner_elsewhere_is_foreign(spinner):
    _, pid = spinner(apart=True)
    assert pid not in family()
    seen = watch()
    assert seen["foreign_cpu_s"] > 0.2
    assert seen["own_cpu_s"] < 0.1
    assert seen["foreign_cpu_share"] == pytest.approx(
        seen["foreign_cpu_s"] / seen["seconds"] / os.cpu_count()
    )
    limit = {"foreign_cpu_share": 0.1 / os.cpu_count()}
    assert verdict.of_machine([seen], limit) == ["contended"]


def test_real_child_is_not_foreign(spinner):
    _, pid = spinner(apart=False)
    assert pid in family()
    assert watch()["own_cpu_s"] > 0.2


def test_real_child_that_ends_in_the_window_is_not_foreign(spinner):
    def run_a_child():
        process, _ = spinner(apart=False, seconds=0.4)
        process.wait()

    assert watch(run_a_child)["own_cpu_s"] > 0.2


def test_real_grandchild_that_ends_in_the_window_is_not_foreign(spinner):
    """An engine process has workers of its own; their time is ours, ended or not."""
    script = f"{SPIN}\n"  # the grandchild's
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]]); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", child, script, "0.6"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    process.stdout.readline()
    seen = watch(lambda: time.sleep(0.8))
    process.communicate("\n")
    assert seen["own_cpu_s"] > 0.2


def test_real_window_tells_every_value_or_why_not():
    seen = watch()
    assert seen["seconds"] == pytest.approx(0.5, abs=0.3)
    assert 0 <= seen["foreign_cpu_share"] <= 1.1
    assert seen["samples"] >= 1
    assert 0 < seen["cost_s"] < 0.1
    null = {name for name, value in seen.items() if value is None}
    # the other halves of a pair have the reason of the first
    assert null - {"steal_share", "frequency_mhz_max"} == set(seen["missing"])
    assert seen["missing"]["gpu"] == "the engine runs on the CPU"


def test_real_counters_only_grow():
    before = witness.read_counters()
    after = witness.read_counters()
    for field in fields(Counters):
        one, two = getattr(before, field.name), getattr(after, field.name)
        if field.name == "involuntary":
            one, two = (sum(counts.values()) for counts in (one, two))
        assert one is two is None or 0 <= one <= two


def test_real_children_that_end_leave_no_negative_count(spinner):
    """More children than cores, so that each is switched out; their counts end with them."""
    children = [spinner(apart=False, seconds=0.5)[0] for _ in range(2 * os.cpu_count())]
    time.sleep(0.3)
    seen = watch(lambda: [child.wait() for child in children])
    assert seen["involuntary_switches"] >= 0
