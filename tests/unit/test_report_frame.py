"""The frame of the page: languages, policy, colours, files, names of any script."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace

import pytest
import report
from test_report_page import HOSTILE, Page, hostile, make, part

from fourcells.report import page as frame
from fourcells.report import svg, waterfall
from fourcells.report.blocks import Question, Section
from fourcells.report.downloads import MOST_BYTES, downloads
from fourcells.report.grid import Cell, Column, Grid, timing_id
from fourcells.report.names import breakable, isolated, marked
from fourcells.report.page import render

ORDER = [
    *("answer", "slots", "cells", "throughput", "ratios", "ideas", "latency", "drain", "kv"),
    *("noise", "questions", "machine", "timings", "history", "reproduce", "glossary"),
]
HEBREW = "\u05e9\u05dc\u05d5\u05dd"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("frame")


@pytest.fixture(scope="module")
def data(folder):
    return make(folder, repeats=2)


@pytest.fixture(scope="module")
def files(data, folder):
    return downloads(folder / "tables", folder / "summary.json")


@pytest.fixture(scope="module", params=["en", "vi"])
def asked(request, data, files):
    """(language asked for, the other one, the document)."""
    other = "vi" if request.param == "en" else "en"
    return request.param, other, render(data, request.param, files)


def values(page: Page, key: str, tag: str | None = None) -> list[str]:
    return [v for t, k, v in page.attributes if k == key and tag in (None, t)]


def test_both_languages_are_there_with_ids_of_their_own(asked):
    language, other, source = asked
    whole = Page(source, None)
    assert source.startswith("<!DOCTYPE html>")
    assert values(whole, "lang", "html") == [language]
    assert whole.tags.count("main") == whole.tags.count("h1") == 2
    assert re.findall(r'<div class="page (\w+)" id="(\w+)" lang="(\w+)"', source) == [
        ("asked", language, language),
        ("other", other, other),
    ]
    ids = values(whole, "id")
    assert len(ids) == len(set(ids))
    assert {f"head-{name}" for name in ORDER} <= set(values(Page(source, language), "id"))
    assert {f"{other}-{name}" for name in ORDER} <= set(values(Page(source, other), "id"))


def test_every_anchor_and_label_leads_into_the_same_language(asked):
    language, other, source = asked
    for each, prefix in ((language, ""), (other, f"{other}-")):
        page = Page(source, each)
        inside = set(values(page, "id"))
        links = [v.removeprefix("#") for v in values(page, "href") if v.startswith("#")]
        # the switch, and the files: those stand outside both, behind an anchor per language
        outside = {"en", "vi"} | set(re.findall(r'id="((?:\w\w-)?files?(?:-\w+)?)"', source))
        assert inside.isdisjoint(outside - {each})
        for link in links:
            assert link in inside | outside, link
            if link in outside - {"en", "vi"}:
                assert link.removeprefix(prefix).startswith("file")
                assert link.startswith(prefix)
        assert set(values(page, "aria-labelledby")) <= inside
        uses = re.findall(r"url\(#([^)]+)\)", " ".join(v for _, _, v in page.attributes))
        assert uses and set(uses) <= inside
        assert f"{prefix}answer" in links  # the skip link


def test_the_contents_list_every_section_in_order(asked):
    language, other, source = asked
    for each, prefix in ((language, ""), (other, f"{other}-")):
        nav = source.split(f'id="{each}" lang')[1].split('<nav class="contents"')[1].split("</nav>")
        entries = re.findall(r'href="#([^"]+)">([^<]+)</a>', nav[0])
        assert [name for name, _ in entries] == [f"{prefix}{name}" for name in [*ORDER, "files"]]
        assert len({words for _, words in entries}) == len(entries)
        page = Page(source, each)
        sections = values(page, "id", "section")
        assert sections == [f"{prefix}{name}" for name in ORDER]


def test_what_is_shown_at_first_is_the_language_asked_for(asked):
    _, _, source = asked
    style = source.split("<style>")[1].split("</style>")[0]
    assert ".other { display: none; }" in style
    assert ":root:has(.other:target, .other :target) .asked { display: none; }" in style
    # words outside both languages stand once for each
    outside = source.split("</main>\n</div>")[-1]
    once, other = (outside.count(f'<span class="{role}" lang') for role in ("asked", "other"))
    assert once == other > 1


def test_the_policy_names_the_one_style_and_the_one_script(asked):
    _, _, source = asked
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', source)
    for kind in ("style", "script"):
        (text,) = re.findall(rf"<{kind}>(.*?)</{kind}>", source, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    # so no style attribute would be followed, and there is none
    keys = {key for _, key, _ in Page(source, None).attributes}
    assert "style" not in keys and not any(key.startswith("on") for key in keys)


def test_the_files_of_the_page_are_those_of_the_run(asked, folder, files):
    _, other, source = asked
    page = Page(source, None)
    links = [dict(a) for a in anchors(source) if "download" in dict(a)]
    assert {link["download"] for link in links} == {file.name for file in files}
    for link in links:
        name = link["download"]
        place = folder / (name if name == "summary.json" else f"tables/{name}")
        kind, _, content = link["href"].partition(";base64,")
        assert kind == ("data:application/json" if name == "summary.json" else "data:text/csv")
        assert base64.b64decode(content) == place.read_bytes()
    # below every table: the file that it comes from, in the language of the table
    below = [dict(a) for a in anchors(source) if "data-file" in dict(a)]
    ids = set(values(page, "id"))
    assert len(below) >= page.tags.count("table")
    for link in below:
        table = link["data-file"].removeprefix("download-")
        assert link["data-file"] in ids
        assert link["href"] in (f"#file-{table}", f"#{other}-file-{table}")


def anchors(source: str) -> list[list[tuple]]:
    found = []

    class Reader(Page):
        def handle_starttag(self, tag, attrs):
            super().handle_starttag(tag, attrs)
            if tag == "a":
                found.append(attrs)

    Reader(source, None)
    return found


def test_a_large_file_is_named_and_not_embedded(tmp_path):
    (tmp_path / "requests.csv").write_bytes(b"x" * (MOST_BYTES + 1))
    (tmp_path / "ratios.csv").write_bytes(b"x" * MOST_BYTES)
    ratios, requests = downloads(tmp_path, tmp_path / "none.json")
    assert (ratios.name, ratios.table, ratios.size) == ("ratios.csv", "ratios", MOST_BYTES)
    assert ratios.href.startswith("data:text/csv;base64,eHh4")
    assert (requests.path, requests.href) == ("results/tables/requests.csv", "")


def test_the_place_of_a_large_file_is_on_the_page(data, files):
    large = [replace(file, href="") if file.table == "ratios" else file for file in files]
    source = render(data, files=large)
    row = source.split('<li id="file-ratios">')[1].split("</li>")[0]
    assert "<code>results/tables/ratios.csv</code>" in row and "data:" not in row
    # a link below a table leads to this line, and starts nothing
    assert 'href="#file-ratios"' in source and 'data-file="download-ratios"' not in source


def test_without_files_there_are_no_links_to_them(data):
    source = render(data)
    assert 'href="#file' not in source and 'id="files"' not in source


def test_the_language_is_checked_on_the_command_line(folder, data, tmp_path, capsys):
    arguments = ["--tables", str(folder / "tables"), "--summary", str(folder / "summary.json")]
    output = tmp_path / "report.html"
    with pytest.raises(SystemExit) as stop:
        report.main([*arguments, "--output", str(output), "--language", "tlh"])
    assert stop.value.code == 2 and not output.exists()
    told = capsys.readouterr().err
    assert "--language" in told and "tlh" in told and "en" in told and "vi" in told
    assert report.main([*arguments, "--output", str(output), "--language", "vi"]) == 0
    source = output.read_text(encoding="utf-8")
    assert '<html lang="vi">' in source
    assert 'download="ratios.csv"' in source and 'download="summary.json"' in source


def test_numbers_are_written_as_each_language_writes_them(asked):
    _, _, source = asked
    for language, rate in (("en", r"\d,\d{3}\.\d"), ("vi", r"\d\.\d{3},\d")):
        assert re.search(rf'<td data-value="[\d.]+">{rate}</td>', part(source, language))


def test_the_exact_number_stands_where_the_words_do_not_say_it(asked, data):
    language, _, source = asked
    section = part(source, language).split('<section id="throughput"')[1]
    rows = section.split("</table>")[0]
    rate = data.throughput.query("engine == 'static' and workload == 'A'").tok_s.mean()
    exact = re.findall(r'data-value="([^"]+)"', rows)
    assert any(float(value) == pytest.approx(rate, rel=1e-9) for value in exact)
    assert "<td>16</td>" in rows and 'data-value="16"' not in rows


# Colours


def variables(style: str) -> tuple[dict, dict]:
    """The style sheet's colours, light and dark."""
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    return tuple(dict(re.findall(r"--([\w-]+): (#\w{6});", part)) for part in (light, dark))


def contrast(first: str, second: str) -> float:
    """The ratio that WCAG defines, 1 to 21."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dim = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.fixture(scope="module")
def themes():
    light, dark = variables((frame.HERE / "style.css").read_text(encoding="utf-8"))
    assert light.keys() == dark.keys() and len(light) > 10
    return {"light": light, "dark": dark}


def test_contrast_is_computed_as_wcag_does():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_stand_out_from_what_lies_behind_them(themes, theme):
    colours = themes[theme]
    for ground in ("paper", "tint", "lesson", "notice", "good", "bad"):
        for words in ("ink", "soft", "accent"):
            ratio = contrast(colours[words], colours[ground])
            assert ratio >= 4.5, f"{words} on {ground}: {ratio:.2f}"
    for mark in ("notice-line", "good-line", "bad-line"):
        assert contrast(colours[mark], colours["paper"]) >= 3, mark


def resolved(colour: str, themes: dict) -> str:
    """What a colour of a figure is on the dark page."""
    turned = svg.dark(colour)
    found = re.fullmatch(r"var\(--([\w-]+)\)", turned)
    return themes["dark"][found[1]] if found else turned


def test_figures_stay_readable_on_the_dark_page(themes):
    ink, paper = resolved("#1f2933", themes), themes["dark"]["paper"]
    assert resolved("#ffffff", themes) == paper
    for words in ("#1f2933", "#4b5563", "#6b7280", "#000000"):
        assert contrast(resolved(words, themes), paper) >= 4.5, words
    for bar in waterfall.COLOURS.values():
        # values and intervals are drawn in ink upon the bars
        assert contrast(resolved(bar, themes), ink) >= 4.5, bar
    for line in ("#0173b2", "#2f6ca3", "#4c78a8", "#b07d2b", "#de8f05"):
        assert contrast(resolved(line, themes), paper) >= 3, line


def test_every_colour_of_the_figures_has_its_dark_one(asked):
    _, _, source = asked
    style = source.split("<style>")[1].split("</style>")[0]
    dark = style[style.rindex("@media screen and (prefers-color-scheme: dark)") :]
    used = set(re.findall(r'(fill|stroke)="(#[0-9a-f]{6})"', source))
    assert len(used) > 10
    for key, colour in used:
        assert f'figure svg [{key}="{colour}"] {{ {key}: {svg.dark(colour)} }}' in dark


def test_an_svg_has_attributes_for_style_and_only_the_ids_it_uses():
    made = svg.clean(
        """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
        viewBox="0 0 100.1234 50" width="100pt" height="50pt" version="1.1"><style>* {}</style>
        <defs><path id="mark" style="stroke: #000000"
            d="M 0 1.23456 &#10;L -3 0.001 &#10;L 4 0 &#10;L 4 5 &#10;z"/></defs>
        <g id="idle"/><g id="xtick_1"><use xlink:href="#mark" x="10.555555" y="2"
            style="fill: #0173b2; stroke-width: 0.8"/></g>
        <text style="font: bold 10px 'DejaVu Sans', sans-serif; text-anchor: middle"
            transform="scale(0.00125)">a style="x: y"</text>
        <text style="font-size: 9px; font-family: 'DejaVu Sans'; fill: #4b5563">b</text></svg>""",
        "vi-name",
        "seen",
    )
    assert made == (
        '<svg viewBox="0 0 100.12 50" width="100pt" role="img" aria-label="seen">'
        '<defs><path id="vi-name-mark" d="M0 1.23L-3 0H4V5z" stroke="#000000" /></defs>'
        '<g /><g id="vi-name-xtick_1">'
        '<use href="#vi-name-mark" x="10.56" y="2" fill="#0173b2" stroke-width="0.8" /></g>'
        '<text transform="scale(0.00125)" text-anchor="middle" font-size="10px" font-weight="700"'
        ' fill="#1f2933">a style="x: y"</text>'
        '<text font-size="9px" fill="#4b5563">b</text></svg>'
    )


# Names


def test_a_right_to_left_name_cannot_turn_the_words_around_it():
    assert isolated("vllm, 16 slots") == "vllm, 16 slots"
    assert isolated(f"{HEBREW} {HEBREW}, 16 slots") == f"\u2068{HEBREW} {HEBREW}\u2069, 16 slots"
    # two names are two runs, and the number between them belongs to neither
    assert isolated(f"{HEBREW}, 16 / {HEBREW}").count("\u2068") == 2
    # a sign that commands a direction ends at once
    assert isolated("a\u202eb, 16") == "a\u2068\u202e\u2069b, 16"


def test_marked_names_are_escaped():
    assert marked(f'<b>"{HEBREW}" & \u202e') == (
        f"&lt;b&gt;&#34;<bdi>{HEBREW}</bdi>&#34; &amp; <bdi>\u202e</bdi>"
    )
    assert marked(marked("<")) == "&lt;"


def test_a_long_word_may_break_and_a_number_may_not():
    assert breakable("torch_continuous") == "torch_<wbr>continuous"
    assert breakable("vllm_wave, 16") == "vllm_wave, 16"
    assert breakable("1.262.500,123456 tok/s") == "1.262.500,123456 tok/s"
    assert breakable("a" * 30) == f"{'a' * 12}<wbr>{'a' * 12}<wbr>{'a' * 6}"
    # neither inside a tag nor inside an entity
    assert breakable(f'<{HEBREW}&"_long_name_here') == (
        f"&lt;<bdi>{HEBREW}</bdi>&amp;&#34;_<wbr>long_<wbr>name_<wbr>here"
    )


def test_names_of_other_scripts_are_set_apart_on_the_page(data):
    source = render(hostile(data))
    assert source.count(f"<bdi>{HEBREW}</bdi>") > 20
    # in a command the name stands as it is: it is copied
    commands = "".join(re.findall(r"<pre.*?</pre>", source, re.DOTALL))
    assert HEBREW in commands and "<bdi>" not in commands
    pictures = "".join(re.findall(r"<svg.*?</svg>", source, re.DOTALL))
    assert f"\u2068{HEBREW}\u2069" in pictures
    ids = values(Page(source, None), "id")
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[\w.~-]+", each, re.ASCII) for each in ids)


def test_different_cells_have_different_anchors():
    assert timing_id("static", "B", 16) == "timing-static-B-slots16"
    names = ["a b", "a-b", "a~20b", "a%20b", HOSTILE, HEBREW, "a", "b-c", "a-b-c", "c"]
    ids = {timing_id(engine, workload, 1) for engine in names for workload in names}
    assert len(ids) == len(names) ** 2
    assert all(re.fullmatch(r"[\w.~-]+", each, re.ASCII) for each in ids)


def test_each_cell_has_an_anchor_at_its_first_repeat(data, asked):
    language, other, source = asked
    ids = values(Page(source, language), "id", "tr")
    cells = data.timings[["engine", "workload", "slots"]].drop_duplicates()
    assert sorted(ids) == sorted(timing_id(*cell) for cell in cells.itertuples(index=False))
    assert values(Page(source, other), "id", "tr") == [f"{other}-{each}" for each in ids]
    first = source.split('id="timing-static-B-slots16"')[1].split("</tr>")[0]
    assert re.findall(r"<td>([^<]+)</td>", first)[:2] == ["16", "1"]  # slots, repeat


def test_a_question_and_a_linked_cell(data, monkeypatch):
    grid = Grid("Cells", [Column("engine", "name")], [[Cell("<vllm>", href="timings")]])
    ask = Question("Is it & why?", ["Because.", HOSTILE], ["noise", "timings"])
    made = [Section("noise", "Noise & drift"), Section("timings", "All <rows>", blocks=[ask, grid])]
    monkeypatch.setattr(frame, "sections", lambda data: made)
    source = render(data)
    assert "<h3>Is it &amp; why?</h3>" in source
    for prefix in ("", "vi-"):
        assert f'<a href="#{prefix}noise">Noise &amp; drift</a>' in source
        assert f'<a href="#{prefix}timings">&lt;vllm&gt;</a>' in source
    assert HOSTILE in "".join(Page(source).text)
