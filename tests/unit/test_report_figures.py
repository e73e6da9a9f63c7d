"""The measured figures: slots as bars over time, repeats over time, ratios beside the lesson's."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pandas as pd
import pytest
import synthetic
from test_report_page import HOSTILE, make

from fourcells.report import gantt_figure, ratio_figure
from fourcells.report.catalogue import speaking
from fourcells.report.data import make_data
from fourcells.report.gantt_figure import COLOURS, HELD, gantt, groups_of
from fourcells.report.repeats_figure import DOUBT, axis_of, clock_times, repeats


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make(tmp_path_factory.mktemp("figures"), repeats=3, noise=0.05)


def words(figure) -> list[str]:
    """The texts of a figure, in drawing order."""
    root = ElementTree.fromstring(figure.svg)
    return ["".join(text.itertext()).strip() for text in root.iter("text")]


def alt(figure) -> str:
    return ElementTree.fromstring(figure.svg).get("aria-label")


def shapes(figure, **style: str) -> list[str]:
    """The outlines of all paths drawn so, those of the legend left out."""
    root = ElementTree.fromstring(figure.svg)
    wanted = {key.replace("_", "-"): value for key, value in style.items()}
    return [path.get("d") for path in root.iter("path") if wanted.items() <= path.attrib.items()]


def boxes(figure, **style: str) -> int:
    """How many outlines the paths drawn so are made of, but for one: that of the legend."""
    return sum(outline.count("M") for outline in shapes(figure, **style)) - 1


def test_every_request_has_its_bar(data):
    """Of each of the four lengths 16 requests, in two panels, before and after the first token."""
    (figure,) = gantt(data)
    for colour in COLOURS[:4]:
        assert boxes(figure, fill=colour) == 2 * 2 * 16
    # finished before their batch: all but the longest of the static engine
    assert boxes(figure, stroke=HELD["edgecolor"], stroke_width="0.4") == 48
    assert len(str(figure.svg).encode()) < 60_000


def test_the_panels_say_what_the_table_says(data):
    static, vllm = gantt_figure.panels(data)
    assert (static.engine, static.admission, vllm.engine) == ("static", "padded", "vllm")
    # 46 useful steps of 128 on average, all of one length
    assert static.idle == pytest.approx(1 - 46 / 128)
    # what is idle in a padded batch whose slots are all taken is held by finished requests
    assert static.held == pytest.approx(static.idle)
    rows = data.holders.query("engine == 'vllm' and workload == 'B' and slots == 16")
    busy = (rows.finished_s - rows.admitted_s).sum()
    assert vllm.idle == pytest.approx(1 - busy / (16 * rows.returned_s.max()))
    assert vllm.held == 0
    (figure,) = gantt(data)
    for panel in (static, vllm):
        told = f"{panel.window:.2f} s, {100 * panel.idle:.1f} % of slot seconds idle"
        assert any(told in text for text in words(figure))
        assert told in alt(figure)
    assert f"admitted at {rows.admitted_s.max():.2f} s" in alt(figure)
    assert "all 64 requests of workload B in 16 slots" in figure.caption


def test_in_vietnamese_the_numbers_are_so_too(data):
    with speaking("vi"):
        (figure,) = gantt(data)
        drawn = repeats(data)
    assert any(re.search(r"\d,\d\d s, 64,1 %", text) for text in words(figure))
    assert "idle" not in alt(figure) + figure.caption + drawn.caption
    assert re.search(r"[+−]\d,\d %", alt(drawn))


@pytest.mark.parametrize(("slower", "said"), [(1.0, "share one time axis"), (3.0, "has its own")])
def test_windows_too_different_have_their_own_axes(tmp_path, slower, said):
    a, c = synthetic.STEP_TIMES["static"]
    times = synthetic.STEP_TIMES | {"static": (slower * a, slower * c)}
    (figure,) = gantt(make(tmp_path, repeats=1, step_times=times))
    assert said in figure.caption
    own = [text for text in words(figure) if "of this panel alone" in text]
    assert len(own) == (2 if slower > 1 else 0)


def test_what_is_missing_is_left_out(data):
    def without(**keep):
        frame = data.holders
        for key, value in keep.items():
            frame = frame[frame[key].eq(value)]
        return gantt_figure.panels(replace(data, holders=frame))

    assert [panel.engine for panel in without(engine="vllm")] == ["vllm"]
    assert [panel.rows.workload.iloc[0] for panel in without(workload="A")] == ["A", "A"]
    # the answer speaks of 16 slots
    assert without(slots=256) == []
    assert gantt(make_data({}, {})) == [] and repeats(make_data({}, {})) is None
    alone = replace(data, ratios=data.ratios[:0], holders=data.holders.query("slots == 256"))
    (figure,) = gantt(alone)
    assert "More than 64 slots were never held" in figure.caption


def test_many_lengths_are_drawn_in_groups():
    assert groups_of([512, 32, 32, 64]) == [[32], [64], [512]]
    assert groups_of(range(10)) == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]


def test_a_pause_is_left_out_of_the_axis():
    starts = [0, 60, 120, 200, 5000, 5060, 5100]
    axis = axis_of([float(start) for start in starts])
    assert axis.stretches == [(0, 200), (5000, 5100)]
    assert axis.left_out == [4800]
    placed = [axis.place(start) for start in starts]
    assert placed == sorted(placed)
    # inside a stretch time is true to scale, and what lies between is a twentieth of the rest
    assert placed[:4] == [0, 60, 120, 200]
    assert placed[4] - placed[3] == pytest.approx(0.05 * 300)
    assert placed[3] < axis.breaks[0] < placed[4]
    assert placed[-1] == axis.length


@pytest.mark.parametrize(
    "starts",
    [[1e9], [1e9 + 30 * i for i in range(50)], [1e9 + 4000 * i for i in range(9)]],
)
def test_marks_of_the_axis_stand_apart(starts):
    axis = axis_of(starts)
    assert len(axis.stretches) == 1  # slow timings are no pauses
    at = [axis.place(mark) for mark in axis.marks()]
    assert at[0] == 0 and len(at) <= 9
    assert all(b - a >= 0.12 * axis.length for a, b in pairwise(at))


def test_the_date_stands_where_it_changes():
    moments = [pd.Timestamp(t, tz="UTC").timestamp() for t in ("2026-11-29 23:50", "2026-11-30")]
    assert clock_times([moments[0], *moments]) == [
        "23:50\n2026-11-29",
        "23:50",
        "00:00\n2026-11-30",
    ]


def test_points_are_the_timings_against_their_own_cells(data):
    figure = repeats(data)
    frame = data.timings
    change = (
        frame.tok_s / frame.groupby(["engine", "workload", "slots"]).tok_s.transform("mean") - 1
    )
    for engine in ("static", "vllm"):
        own = 100 * change[frame.engine.eq(engine)]
        low, high = (f"{x:+.1f} %".replace("-", "\u2212") for x in (own.min(), own.max()))
        assert f"{engine} from {low} to {high}" in alt(figure)
    assert f"{len(frame)} timings, one session" in figure.caption
    assert "All of them are clean" in figure.caption and not shapes(figure, stroke=DOUBT["color"])
    # the two engines are those that are compared, so there are no others
    assert "other engines" not in words(figure) and {"static", "vllm"} <= set(words(figure))


def test_a_timing_that_is_not_clean_is_marked_in_every_panel(tmp_path):
    def spoil(plan):
        synthetic.contend(synthetic.find(plan, "static", "B", repeat=2), share=0.4)

    figure = repeats(make(tmp_path, repeats=2, noise=0.05, spoil=spoil))
    panels = ("tok/s against", "share of CPU time", "the same work")
    assert len(shapes(figure, stroke=DOUBT["color"])) == len(panels) + 1  # the legend
    assert all(any(text.startswith(panel) for text in words(figure)) for panel in panels)
    assert "Not clean: static/B/slots16, repeat 2." in alt(figure)
    assert "other processes from 0.5 % to 40.0 %" in alt(figure)
    assert "not clean (1)" in figure.caption


def test_thresholds_are_drawn_where_they_are_known(data):
    dashed = {"stroke_dasharray": "6,3.6"}
    assert data.summary["thresholds"]["steal_share"] == 0.02
    assert len(shapes(repeats(data), **dashed)) == 2
    unknown = repeats(replace(data, summary={**data.summary, "thresholds": None}))
    assert not shapes(unknown, **dashed) and "Dashed" not in unknown.caption


def test_a_gpu_has_panels_of_its_own(data):
    assert "GPU" not in " ".join(words(repeats(data)))
    frame = data.timings.assign(sm_clock_mhz_min=1980.0, temperature_c_max=61.0)
    figure = repeats(replace(data, timings=frame))
    drawn = " ".join(words(figure))
    assert "GPU clock, lowest in the window (MHz)" in drawn and "hottest in the window" in drawn
    assert "(MHz): GPU from 1,980 to 1,980" in alt(figure)


def test_sessions_are_counted_and_pauses_told(tmp_path):
    def spoil(plan):
        for entry in plan:
            if entry["repeat"] == 2:
                synthetic.remeasure(entry, hours=30)

    figure = repeats(make(tmp_path, repeats=2, noise=0.05, spoil=spoil))
    assert "12 timings in 2 sessions" in figure.caption
    assert "the axis leaves out" in figure.caption
    # each of three panels shows the pause
    assert len(shapes(figure, stroke_dasharray="1,1.65")) == 3
    assert sum("2026-1" in text for text in words(figure)) == 2


def test_nothing_is_drawn_of_one_repeat_or_of_stale_timings(tmp_path, data):
    assert repeats(make(tmp_path, repeats=1)) is None
    stale = data.timings.assign(stale_key="seed")
    assert repeats(replace(data, timings=stale)) is None


def test_names_are_text(data):
    def renamed(frame):
        return frame.assign(**{k: frame[k].replace("vllm", HOSTILE) for k in ("engine",)})

    changed = {"holders": renamed(data.holders), "timings": renamed(data.timings)}
    changed["ratios"] = renamed(data.ratios)
    hostile = replace(data, **changed)
    for figure in (*gantt(hostile), repeats(hostile)):
        assert HOSTILE in alt(figure)
        assert "<script" not in figure.svg
        assert any(text.startswith("<script>") for text in words(figure))


def test_the_lessons_ratios_are_written_beside_their_diamonds(data):
    def drawn():
        root = ElementTree.fromstring(ratio_figure.ratio_figure(data))
        return ["".join(text.itertext()).strip() for text in root.iter("text")]

    main = data.ratios["name"].isin(["R_A", "R_B", "Q", "slots_ratio"])
    known = data.ratios[main].lesson.dropna().unique()
    assert len(known) >= 3
    assert {f"{value:.2f}x" for value in known} <= set(drawn())
    with speaking("vi"):
        assert {f"{value:.2f}x".replace(".", ",") for value in known} <= set(drawn())
        # the axis too
        assert not any(re.search(r"\d\.\d", text) for text in drawn())
