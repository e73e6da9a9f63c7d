"""Every number on the page comes from a table: the page is read back and compared with the tables,
the summary and the lesson's figures. Tables are compared cell by cell, words number by number."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
import synthetic
import test_report_ideas as ideas
import test_report_kv as kv
from test_report_page import make
from traced.numbers import plain, tokens
from traced.page import Cell, Page, Table, Words, read
from traced.rows import CAPTION, Row, Some, matched, said
from traced.tables import TABLES
from traced.truth import Truth
from traced.words import SECTIONS, known

from fourcells.report import svg
from fourcells.report.catalogue import LANGUAGES, catalogue
from fourcells.report.data import load
from fourcells.report.downloads import downloads
from fourcells.report.page import render

pytestmark = pytest.mark.slow

# Every engine of the synthetic machine, on both workloads.
CELLS = [(engine, w, 16) for engine in synthetic.ENGINES for w in ("A", "B")]
CELLS += [("vllm", "A", 256), ("vllm", "B", 256)]
REPEATS, SAMPLES = 3, 2
WINDOWS = len(CELLS) * REPEATS * SAMPLES
# The lesson has six sections, and the page names those that it repeats.
LESSON_SECTIONS = {str(number) for number in range(1, 7)}
# What the commands of the page hold beside paths.
COMMANDS = re.compile(r"-j1\b|TARGET=0\.05\b")


def spoil(plan: list[dict]) -> None:
    """One timing contended, and measured again in another session."""
    entry = synthetic.find(plan, "static", "B", repeat=2)
    synthetic.contend(entry)
    synthetic.remeasure(entry, faster=1.25)
    synthetic.contend(synthetic.find(plan, "vllm_wave", "A", repeat=3))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables and summary of a whole run: what synthetic timings tell, and beside it the sets that
    they lack, as the tests of their sections make them."""
    folder = tmp_path_factory.mktemp("traced") / "results"
    folder.mkdir()
    with contextlib.chdir(folder.parent):
        # paths below results/, as the workflow has them
        make(
            Path("results"),
            spoil=spoil,
            repeats=REPEATS,
            noise=0.03,
            samples=SAMPLES,
            sample_noise=0.01,
            cells=CELLS,
        )
    more = kv.frames(repeats=REPEATS)
    frames = {name: more[name] for name in more if name.startswith("reservation")}
    frames["dose"] = pd.DataFrame(ideas.dose(REPEATS))
    frames["arrivals"] = pd.DataFrame(ideas.arrivals(REPEATS))
    frames["ablations"] = pd.DataFrame(ideas.ablations(REPEATS))
    for name, frame in frames.items():
        frame.to_parquet(folder / f"tables/{name}.parquet", index=False)
        frame.to_csv(folder / f"tables/{name}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def source(folder):
    """The page. The ids of its figures stay, which the page drops: they tell ticks from labels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svg, "_drop_idle_ids", lambda root: None)
        places = folder / "tables", folder / "summary.json"
        return render(load(*places), "en", downloads(*places))


@pytest.fixture(scope="module")
def page(source):
    return read(source)


@pytest.fixture(scope="module")
def truth(folder):
    return Truth.load(folder / "tables", folder / "summary.json")


class Check:
    """What may stand on the page: made once, used for many pages."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.names = _any_of(truth.names)
        self.allowed = {
            section: {f for kind, v in known(truth, section) for f in plain(kind, v)}
            for section in SECTIONS
        }

    def rest(self, text: str, language: str) -> str:
        """A text without its names and without the constants of the catalogue."""
        return self.names.sub("·", constants(language).sub("·", text))

    # Words: sentences, captions, headings, pictures and what is read aloud in their place.

    def words(self, page: Page) -> Iterator[tuple[Words, str]]:
        """Every piece of text whose numbers are to be traced, and what is left of it."""
        for words in page.words:
            if words.kind not in ("tick", "cell"):
                text = words.text
                if words.kind in ("pre", "code"):
                    text = COMMANDS.sub("·", text)
                yield words, self.rest(text, words.language)

    def untraced(self, page: Page) -> list[str]:
        """'en: answer: li: 2.98x', for every number that no value of its section explains."""
        return [
            f"{words}: {number}"
            for words, rest in self.words(page)
            for number in self._strange(words, rest)
        ]

    def _strange(self, words: Words, rest: str) -> Iterator[str]:
        allowed = LESSON_SECTIONS if words.kind == "eyebrow" else self.allowed[words.section]
        for token in tokens(rest, words.language):
            rest = rest.replace(token.shown, "", 1)
            if token.plain not in allowed:
                yield token.shown
        if re.search(r"\d", rest):
            yield rest

    # Tables: every cell shows what the tables say, and nothing else.

    def wrong(self, page: Page) -> list[str]:
        """Every cell that is wrong, every table that is unknown, every row that is missing."""
        found = [problem for table in page.tables for problem in self.wrong_in(table)]
        for language in LANGUAGES:
            for name, (_, count) in TABLES.items():
                tables = [
                    t for t in page.tables if t.language == language and caption_of(t) == name
                ]
                rows = sum(len(table.rows) for table in tables)
                wanted = count(self.truth) if count else max(rows, 1)
                if rows != wanted:
                    found.append(f"{language}: {name}: {rows} rows, the tables have {wanted}")
        return found

    def wrong_in(self, table: Table) -> Iterator[str]:
        """'en: ratios: Ratios, R_B, min: shows 2.98x, the tables say 2.95x'."""
        place = f"{table.language}: {table.section}: {table.caption}"
        name = caption_of(table)
        if name is None:
            yield f"{place}: an unknown table"
            return
        expect, _ = TABLES[name]
        labels = said(table.language, "labels")
        for cells in table.rows:
            row = cells[table.headings[0]].text
            told = expect(Row(table, cells, self.truth))
            told = {labels.get(key, key): wanted for key, wanted in told.items()}
            shown = cells | ({CAPTION: Cell(table.caption, None)} if CAPTION in told else {})
            for heading, cell in shown.items():
                problem = self._problem(cell, told.get(heading, []), table.language)
                if problem:
                    yield f"{place}, {row}, {heading}: {problem}"

    def _problem(self, cell: Cell, told: str | list, language: str) -> str:
        """Why a cell is not what the tables say; empty if it is."""
        if isinstance(told, str):
            return "" if cell.text == told else f"shows {cell.text}, the tables say {told}"
        values = [(kind, v) for kind, v in told if v is not None and v == v]
        forms = [plain(kind, value) for kind, value in values]
        shown = [token.plain for token in tokens(self.rest(cell.text, language), language)]
        if isinstance(told, Some):
            same = set(shown) <= set().union(*forms)
        else:
            same = len(shown) == len(forms)
            same = same and all(s in form for s, form in zip(shown, forms, strict=True))
        if cell.value is not None:
            same = same and bool(values) and close(cell.value, values[0][1])
        if same:
            return ""
        behind = "" if cell.value is None else f" (exactly {cell.value!r})"
        wanted = ", ".join(f"{'/'.join(sorted(form))} ({v!r})" for form, (_, v) in
                           zip(forms, values, strict=True))  # fmt: skip
        return f"shows {cell.text}{behind}, the tables say {wanted or 'no number'}"


def caption_of(table: Table) -> str | None:
    """The name of a table's caption in the catalogue."""
    texts = said(table.language, "texts")
    return next((name for name in TABLES if matched(texts[name], table.caption) is not None), None)


def close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def _any_of(texts: Iterable[str]) -> re.Pattern:
    """One of the texts, not as a part of a longer word or number."""
    longest_first = sorted(set(texts), key=len, reverse=True)
    words = "|".join(map(re.escape, longest_first))
    return re.compile(rf"(?<![\w.])(?:{words})(?!\w|[.,]\d)")


@cache
def constants(language: str) -> re.Pattern:
    """The pieces of the catalogue between its placeholders that hold a digit: '95 % interval'."""
    return _any_of(pieces(language))


def pieces(language: str) -> set[str]:
    found = set()
    for text in _texts(catalogue(language)):
        for piece in re.split(r"\{[^}]*\}", text):
            piece = " ".join(piece.split()).strip(" .,;:()[]…–")
            if re.search(r"\d", piece):
                found.add(piece)
    return found


def _texts(part: object) -> Iterable[str]:
    if isinstance(part, dict):
        for inner in part.values():
            yield from _texts(inner)
    elif isinstance(part, str):
        yield part


@pytest.fixture(scope="module")
def check(truth):
    return Check(truth)


def test_every_number_in_the_words_comes_from_a_table(check, page):
    assert check.untraced(page) == []
    # in every section of every language there was something to trace
    found = {(w.language, w.section) for w, rest in check.words(page) if tokens(rest, w.language)}
    silent = {"history", "page", "main", "header", "nav", "footer", "reproduce", "glossary"}
    assert found >= {(each, s) for each in LANGUAGES for s in set(SECTIONS) - silent}


def test_every_cell_of_every_table_shows_what_the_tables_say(check, page):
    assert check.wrong(page) == []
    assert sum(len(row) for table in page.tables for row in table.rows) > 5000


# The lesson's questions; what equal things divide to, two of a kind, and from how many repeats on
# outliers are looked for; the interval, its complement, and what it is of 3 repeats by bootstrap;
# percentiles; the lesson's card and slots.
CONSTANTS = {*"12345678", "95%", "5%", "75%", "90", "95", "99", "ungrouped 3060", "16", "256"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_figure_is_typed_into_the_catalogue(language):
    found = {token.plain for piece in pieces(language) for token in tokens(piece, language)}
    assert found <= CONSTANTS
    # without a word beside it, a constant would explain any number that is written so
    assert all(re.search(r"[^\W\d_]", piece) for piece in pieces(language))


def test_the_files_on_the_page_are_the_tables(page, folder, truth):
    assert set(page.downloads) >= {f"{name}.csv" for name in truth.tables} - {"requests.csv"}
    for name, address in page.downloads.items():
        content = base64.b64decode(address.partition("base64,")[2])
        if name.endswith(".csv"):
            table = truth.tables[name.removesuffix(".csv")]
            shown = pd.read_csv(io.BytesIO(content))
            assert list(shown) == list(table) and len(shown) == len(table), name
            for column in table.select_dtypes("number"):
                assert shown[column].astype(float).equals(table[column].astype(float)), column
        else:
            assert json.loads(content) == truth.summary


# The tests can fail: every number that is changed is found, and its place is told.

# What is changed: where to look from, the number there, what takes its place, what must be told.
MUTANTS = {
    "sentence": ('<ol class="answer">', r"([\d.]+)x its tokens", "7.77", "answer, li: 7.77"),
    "notice": ('class="notice bad"', r"2 of (\d+) ", "777", "en: notice: notice, li: 777"),
    "cell": ('id="ratios"', r'-value="[^"]+">(\d\.\d\d)x', "7.77", "geometric mean: shows 7.77x"),
    "exact number": ('id="cells"', r'data-value="([^"]+)"', "870.5", "(exactly 870.5)"),
    "interval": ('id="ratios"', r">\d\.\d\dx to (\d\.\d\d)x<", "7.77", "95 % interval: shows"),
    "count": ('id="noise"', r"<td[^>]*>(\d)</td>", "9", "n: shows 9"),
    "caption": ('id="figure-slots"', r"The same (\d+) useful", "88", "figcaption: 88"),
    "table caption": ('id="kv"', r"<caption><span>[^<]* (\d\d,\d{3}) ", "32,769", "32,769"),
    "heading": ('id="kv"', r"<th [^>]*>(\d+) tokens</th>", "33", "en: kv: Waiting for memory"),
    "note": ('id="noise"', r"takes\s+about ([\d.]+) minutes", "77.7", "en: noise: noise, p: 77.7"),
    "picture": ('id="figure-waterfall"', r">([\d.,]+) tok/s</text>", "7,777.7", "picture: 7,777.7"),
    "read aloud": ('id="figure-latency"', r"TTFT ([\d.]+)", "777.77", "aria-label of svg: 777.77"),
    "Vietnamese": ('id="vi-ratios"', r'-value="[^"]+">(\d,\d\d)x', "7,77", "vi: ratios"),
    "no thousands": ('id="throughput"', r">(\d,\d{3}\.\d)<", "1272.1", "picture: 1272.1"),
    "wrong signs": ('id="vi-throughput"', r">\u2212(\d\d,\d) %", "62.7", "vi: throughput"),
}  # fmt: skip


def changed(source: str, start: str, number: str, by: str) -> str:
    """The page with one number changed: the first that fits, after the start."""
    at = source.index(start)
    begin, end = (at + edge for edge in re.search(number, source[at:]).span(1))
    assert source[begin:end] != by
    return source[:begin] + by + source[end:]


@pytest.fixture(scope="module")
def mutants(source, page, check):
    """What is said of a page with every one of these numbers changed."""
    for start, number, by, _ in MUTANTS.values():
        source = changed(source, start, number, by)
    mutant = read(source)
    words = set(page.words)
    told = check.untraced(Page([each for each in mutant.words if each not in words]))
    for before, after in zip(page.tables, mutant.tables, strict=True):
        if before != after:
            told += check.wrong_in(after)
    return told


@pytest.mark.parametrize("kind", MUTANTS)
def test_a_changed_number_is_found_at_its_place(kind, mutants):
    *_, place = MUTANTS[kind]
    assert any(place in each for each in mutants), mutants


def test_only_what_was_changed_is_found(mutants):
    places = [place for *_, place in MUTANTS.values()]
    # the caption of a table is read aloud as well
    places.append("aria-label of div: 32,769")
    assert [each for each in mutants if not any(place in each for place in places)] == []


def test_a_number_of_another_repeat_is_found(check, page):
    """The tables have it, but not there."""
    table = page.table("en", "Ratios, repeat by repeat")
    first, second = table.headings[-2:]
    rows = [row | {first: row[second]} for row in table.rows]
    told = list(check.wrong_in(replace(table, rows=rows)))
    assert len(told) == len(rows)


def test_a_row_that_is_missing_is_found(check, page):
    table = page.table("en", "Timings")
    tables = [replace(t, rows=t.rows[1:]) if t is table else t for t in page.tables]
    short = Page(tables=[t for t in tables if caption_of(t) == "timings_caption"])
    assert f"en: timings_caption: {WINDOWS - 1} rows, the tables have {WINDOWS}" in check.wrong(
        short
    )


def test_most_wrong_last_digits_in_the_words_are_found(check, page):
    """How sharp the check of the words is. Those of tables are compared one by one."""
    caught = total = 0
    for words, rest in check.words(page):
        for token in tokens(rest, words.language):
            at = max(i for i, sign in enumerate(token.plain) if sign.isdigit())
            digit = (int(token.plain[at]) + 5) % 10
            other = f"{token.plain[:at]}{digit}{token.plain[at + 1 :]}"
            total += 1
            caught += other not in check.allowed[words.section]
    assert total > 1000 and caught / total > 0.75, (caught, total)
