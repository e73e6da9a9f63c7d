"""`snakemake --report` over a finished run: page, figures and tables, each with its caption."""

from __future__ import annotations

import base64
import html
import json
import re
import subprocess
import sys
import zipfile
from xml.etree import ElementTree

import pytest

pytestmark = [pytest.mark.pipeline, pytest.mark.slow]

SVG = "{http://www.w3.org/2000/svg}"
# The programs of the rule that makes the page, and the library that they import.
IMPORTED = """
import sys
sys.path.insert(0, "scripts")
import figures, report
print(*(m.__file__ for n, m in sys.modules.items() if n.split(".")[0] == "fourcells"), sep="\\n")
"""


@pytest.fixture(scope="module", autouse=True)
def nowhere():
    """No address is reached, so that a report which asks for one fails."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            patch.setenv(name, "http://127.0.0.1:9")
        yield


@pytest.fixture(scope="module")
def made(smoke, tmp_path_factory):
    """Snakemake's report, one HTML file."""
    file = tmp_path_factory.mktemp("report") / "snakemake.html"
    smoke.run("--report", str(file))
    return file.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def results(made):
    """What the report holds: path -> name, caption, labels, content."""
    return told(made, "results")


@pytest.fixture(scope="module")
def page(smoke):
    return (smoke.folder / "results/report.html").read_text(encoding="utf-8")


def told(made: str, name: str) -> dict:
    """One of the report's variables."""
    script = made.partition(f'<script id="{name}">')[2]
    return json.JSONDecoder().raw_decode(script.partition(" = ")[2])[0]


def content(result: dict) -> bytes:
    return base64.b64decode(result["data_uri"].partition("base64,")[2])


def figures(page: str) -> dict[str, str]:
    """name -> the figure of the page in the language that was asked for."""
    found = re.findall(r'<figure id="figure-([^"]+)".*?</figure>', page, re.DOTALL)
    return {name: page.partition(f'<figure id="figure-{name}"')[2].partition("</figure>")[0]
            for name in found}  # fmt: skip


def words(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())


def test_it_holds_the_page_its_figures_and_the_tables_behind_them(smoke, made, page, results):
    tables = {f.stem for f in (smoke.folder / "results/tables").glob("*.csv")} - {"requests"}
    drawn = figures(page)
    assert len(drawn) >= 7 and len(tables) >= 20
    assert set(results) == {
        "results/report.html",
        *(f"results/figures/{name}.svg" for name in drawn),
        *(f"results/tables/{name}.csv" for name in tables),
    }
    assert set(told(made, "categories")) == {"Page", "Figures", "Tables"}
    labels = [result["labels"] for path, result in results.items() if path.endswith(".svg")]
    assert {label["figure"] for label in labels} == set(drawn)


def test_every_caption_is_there_and_those_of_figures_are_the_page_s(page, results):
    assert all(len(words(result["caption"])) > 40 for result in results.values())
    for name, figure in figures(page).items():
        caption = figure.partition("<figcaption>")[2].partition("</figcaption>")[0]
        assert words(results[f"results/figures/{name}.svg"]["caption"]) == words(caption)


def test_figures_stand_alone_and_show_what_the_page_shows(page, results):
    for name, figure in figures(page).items():
        root = ElementTree.fromstring(content(results[f"results/figures/{name}.svg"]))
        assert root.tag == f"{SVG}svg"
        paper = root.find(f"{SVG}rect")
        assert paper.get("fill") == "#ffffff"
        assert [paper.get(key) for key in ("x", "y", "width", "height")] == (
            root.get("viewBox").split()
        )
        shown = [" ".join("".join(text.itertext()).split()) for text in root.iter(f"{SVG}text")]
        on_page = [words(text) for text in re.findall(r"<text.*?</text>", figure, re.DOTALL)]
        assert shown == on_page and shown


def test_tables_and_page_are_those_of_the_run(smoke, results):
    for path, result in results.items():
        assert content(result) == (smoke.folder / path).read_bytes(), path


def test_the_report_loads_nothing_from_elsewhere(made):
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*//[^"]*"', made) == []


def test_as_an_archive_it_holds_the_files(smoke, results, tmp_path):
    file = tmp_path / "snakemake.zip"
    smoke.run("--report", str(file))
    names = zipfile.ZipFile(file).namelist()
    for path in results:
        assert any(name.endswith(path.rpartition("/")[2]) for name in names), path


def test_captions_of_the_rules_name_no_figure(smoke):
    """What is measured changes from run to run; these files do not."""
    for file in (smoke.folder / "rules/captions").glob("*.rst"):
        text = re.sub(r":encoding: utf-8", "", file.read_text(encoding="utf-8"))
        assert not re.search(r"\d", text), file.name


def test_all_that_the_page_imports_is_an_input_of_its_rule(smoke):
    """Else an edit would leave an old page."""
    listed = subprocess.run(
        [sys.executable, "-c", IMPORTED],
        cwd=smoke.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    library = smoke.folder / "scripts/fourcells"
    imported = {file for file in listed.stdout.splitlines() if not file.endswith("/__init__.py")}
    assert any(file.endswith("report/page.py") for file in imported)
    rows = [line.split("\t") for line in smoke.run("--detailed-summary").splitlines()]
    (inputs,) = [row[4].split(",") for row in rows if row[0] == "results/report.html"]
    inputs = {str(smoke.folder / name) for name in inputs}
    texts = {str(file) for file in (library / "report").rglob("*.*") if file.suffix != ".pyc"}
    assert (imported | texts) - inputs == set()


def test_another_language_makes_the_page_and_nothing_else(smoke):
    assert smoke.planned("--config", "language=vi") == {"report": 1}
