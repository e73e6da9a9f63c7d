"""The page as a whole: real tables in, HTML out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pytest
import report
import tables
from synthetic import write_timings

from fourcells.report import numbers
from fourcells.report.data import load
from fourcells.report.page import render

HOSTILE = """<script>alert("1")</script> & 'q' $x_1$ {{ 7*7 }} {engine} 🚀 שלום"""


class Page(HTMLParser):
    """Text, tables by caption (rows of cell texts), attributes and open tags of the page in one
    language, or (None) of the whole document."""

    def __init__(self, source: str, language: str | None = "en"):
        super().__init__()
        self.tags, self.attributes, self.text, self.tables = [], [], [], {}
        self._row, self._cell, self._skip = [], None, False
        self.feed(source if language is None else part(source, language))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, key, value or "") for key, value in attrs]
        self._skip = tag in ("style", "script")
        if tag == "table":
            self._rows = []
        elif tag == "tr":
            self._row = []
        elif tag in ("td", "th", "caption"):
            self._cell = []

    def handle_endtag(self, tag):
        if tag in ("style", "script"):
            self._skip = False
        if tag == "caption":
            self.tables["".join(self._cell)] = self._rows
        elif tag in ("td", "th"):
            self._row.append("".join(self._cell))
        elif tag == "tr":
            self._rows.append(self._row)

    def handle_data(self, data):
        if self._skip:
            return
        self.text.append(data)
        if self._cell is not None:
            self._cell.append(data)

    def table(self, start: str) -> list[dict]:
        """The rows of the table whose caption starts so, by heading."""
        head, *rows = next(
            rows for caption, rows in self.tables.items() if caption.startswith(start)
        )
        return [dict(zip(head, row, strict=True)) for row in rows]


def part(source: str, language: str) -> str:
    """What the document holds in one language."""
    (found,) = re.findall(
        rf'<div class="page [a-z]+" id="{language}".*?</main>\n</div>', source, re.DOTALL
    )
    return found


def make(folder, drop=(), spoil=None, **changes):
    """Data of synthetic timings; `drop` takes planned entries away before they are read, `spoil`
    is given the plan to change what it likes."""
    plan = write_timings(folder, **changes)
    if spoil:
        spoil(plan)
    for index in drop:
        for key in ("path", "steps"):
            (folder / plan[index][key]).unlink()
    (folder / "plan.json").write_text(json.dumps(plan))
    arguments = ["--plan", folder / "plan.json", "--output-dir", folder / "tables"]
    assert tables.main([str(a) for a in [*arguments, "--summary", folder / "summary.json"]]) == 0
    return load(folder / "tables", folder / "summary.json")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make(tmp_path_factory.mktemp("three"), repeats=3, noise=0.05)


@pytest.fixture(scope="module")
def source(data):
    return render(data)


def assert_no_null_shown(page: Page) -> None:
    words = re.findall(r"[\w<>]+", " ".join(page.text))
    assert not {"nan", "NaN", "None", "NaT", "<NA>", "inf"} & set(words)
    shown = " ".join(value for _, key, value in page.attributes if key in ("aria-label", "d"))
    assert not re.search(r"\bnan\b|None", shown)


def test_ratios_on_the_page_are_those_of_the_table(data, source):
    rows = Page(source).table("Ratios")
    # the others have tables of their own
    main = data.ratios[data.ratios["name"].isin(["R_A", "R_B", "Q", "slots_ratio"])]
    groups = main.groupby(["name", "engine", "slots"], sort=False)
    assert len(rows) == len(groups)
    for (name, engine, slots), part in groups:
        (row,) = [r for r in rows if r["ratio"] == name and r["slots"] == str(slots)]
        assert engine in row["what is divided"]
        for key, column in {
            "geometric mean": "geometric_mean",
            "min": "min",
            "max": "max",
            "lesson (RTX 3060)": "lesson",
        }.items():
            assert row[key] == f"{part[column].iloc[0]:.2f}x"
        for repeat, value in zip(part.repeat, part.value, strict=True):
            assert row[f"repeat {repeat}"] == f"{value:.2f}x"
        assert row["n"] == "3"


def test_throughput_stands_beside_the_lesson_and_is_a_mean_over_repeats(data, source):
    rows = Page(source).table("Tokens per second")
    row = next(r for r in rows if (r["engine"], r["workload"]) == ("static", "B"))
    rates = data.throughput.query("engine == 'static' and workload == 'B'").tok_s
    assert row["mean tok/s"] == f"{rates.mean():,.1f}"
    assert (row["min"], row["max"]) == (f"{rates.min():,.1f}", f"{rates.max():,.1f}")
    assert row["lesson (RTX 3060)"] == "310.9"


def test_nothing_is_loaded_from_elsewhere(source):
    page = Page(source, None)
    assert "http" not in source.replace("http-equiv", "")
    for tag, key, value in page.attributes:
        if key in ("src", "href", "srcset", "action"):
            assert value.startswith(("#", "data:")), (tag, key, value)
        assert value.count("url(") == value.count("url(#"), (tag, key, value)
    assert "url(" not in source[source.index("<style>") : source.index("</style>")]


def test_tables_and_figures_are_labelled(source):
    for language in ("en", "vi"):
        page = Page(source, language)
        scopes = [value for tag, key, value in page.attributes if (tag, key) == ("th", "scope")]
        assert len(scopes) == page.tags.count("th")
        assert page.tags.count("caption") == page.tags.count("table")
        assert page.tags.count("figcaption") == page.tags.count("figure") == page.tags.count("svg")
        labels = [v for tag, key, v in page.attributes if (tag, key) == ("svg", "aria-label")]
        assert len(labels) >= 5 and all(len(label) > 80 for label in labels)


def test_the_same_data_gives_the_same_bytes(data, source):
    assert render(data) == source


def test_one_repeat_has_no_spread(tmp_path):
    page = Page(render(make(tmp_path, repeats=1)))
    assert_no_null_shown(page)
    text = " ".join(page.text)
    assert "one repeat: no interval" in text
    assert "One repeat: no spread" in text
    assert not re.search(r"was (faster|slower) than", text)
    cells = {cell for rows in page.tables.values() for row in rows for cell in row}
    assert not cells & {"faster", "slower"}
    assert "min" not in page.table("Ratios")[0]


def test_no_null_is_shown(source):
    assert_no_null_shown(Page(source))


@pytest.mark.parametrize(
    "cells",
    [
        [("static", "A", 16)],
        [("vllm", "B", 256)],
        [("static", "B", 16), ("vllm", "B", 16)],
        [("static", "A", 16), ("vllm", "B", 16)],
    ],
    ids=["one-cell", "only-mixed", "one-workload", "no-pair"],
)
def test_what_cannot_be_formed_is_said(tmp_path, cells):
    page = Page(render(make(tmp_path, repeats=2, cells=cells)))
    assert_no_null_shown(page)
    assert "not in this run" in " ".join(page.text)
    assert page.tags.count("h2") >= 10  # every section stays


def test_missing_timings_come_with_their_command(tmp_path):
    page = Page(render(make(tmp_path, drop=[1], repeats=2)))
    assert_no_null_shown(page)
    text = "".join(page.text)
    commands = re.findall(r"snakemake -j1 --use-conda \S*timings/static/B/slots16/1.parquet", text)
    assert len(commands) == 1
    assert page.table("Ratios")[1]["repeat 1"] == numbers.MISSING


def test_a_verdict_is_shown_with_its_command(data):
    timings = data.timings.copy()
    timings.loc[0, "verdict"] = "contended,throttled"
    page = Page(render(replace(data, timings=timings)))
    text = "".join(page.text)
    assert "1 of 18 timings carry a verdict other than clean (contended 1, throttled 1)" in text
    assert "--forcerun results/timings/static/A/slots16/1.parquet" in text
    assert "contended, throttled" in [row["verdict"] for row in page.table("Timings")]


def hostile(data):
    """The same data with a hostile engine, workload and model name."""

    def rename(frame: pd.DataFrame) -> pd.DataFrame:
        names = {"engine": "vllm", "workload": "B", "baseline": "static", "source": "vllm/16"}
        for column, old in names.items():
            if column in frame:
                frame = frame.assign(**{column: frame[column].replace({old: HOSTILE + old})})
        return frame

    frames = {
        key: rename(getattr(data, key)) for key in data.__dataclass_fields__ if key != "summary"
    }
    summary = data.summary | {"measured": data.measured | {"model": HOSTILE, "missing": [HOSTILE]}}
    return replace(data, **frames, summary=summary)


def test_names_from_the_config_are_text(data):
    source = render(hostile(data))
    assert source.count("<script") == 1  # the page's own
    for language in ("en", "vi"):
        page = Page(source, language)
        assert "script" not in page.tags
        text = "".join(page.text)
        assert "49" not in text.split("alert")[1][:60]
        assert text.count(HOSTILE) > 10
        assert not [key for _, key, _ in page.attributes if key == "style" or key.startswith("on")]
    svg = source[source.index('id="figure-throughput"') : source.index('id="figure-latency"')]
    assert "$" in svg and "<script" not in svg


def test_command_line_writes_the_page_whole(tmp_path, capsys):
    make(tmp_path, repeats=1)
    output = tmp_path / "made" / "report.html"
    arguments = ["--tables", str(tmp_path / "tables"), "--summary", str(tmp_path / "summary.json")]
    assert report.main([*arguments, "--output", str(output)]) == 0
    assert output.read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert [p.name for p in output.parent.iterdir()] == ["report.html"]
    arguments[1] = str(tmp_path / "nothing")
    assert report.main([*arguments, "--output", str(output)]) == 2
    assert "nothing" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        report.main(["--help"])
    assert stop.value.code == 0
