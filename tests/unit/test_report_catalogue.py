"""The catalogue of texts: both languages say the same things, in full and in their own form."""

from __future__ import annotations

import ast
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from string import Formatter

import pandas as pd
import pytest
import test_report_ideas
import test_report_kv
from synthetic import contend, find, remeasure, rewrite
from test_report_page import make

from fourcells import witness, witness_gpu
from fourcells.analysis.variance import advice
from fourcells.report import catalogue as texts
from fourcells.report import data_words
from fourcells.report import numbers as n
from fourcells.report.catalogue import LANGUAGES, TEXTS, catalogue, language, speaking
from fourcells.report.data import make_data
from fourcells.report.page import render

REPORT = Path(texts.__file__).parent
# What is written alike in both languages: terms of the field that stay English, units, formulas.
ALIKE = {
    "1 − min/max", "CPU", "CV", "Continuous", "E2E p90, s", "GPU", "GPU, W", "GPU, °C", "Graham",
    "KV cache", "Padded", "R, Q", "TTFT", "TTFT p90, s", "Wave", "a, c, p, d", "a, ms", "bootstrap",
    "commit", "engine", "max/min − 1", "n", "p, ms", "padded, continuous", "slot", "slot {n}",
    "step", "{one} x {two}", "{path}.parquet: {what}",
}  # fmt: skip
# Parts that are looked up by words of the tables, not by words of the code.
BY_DATA = {
    "admissions", "factors", "fact_names", "glossary", "kinds", "kind_titles", "kv_names", "paths",
    "ratio_names", "rules", "said", "sources", "values",
}  # fmt: skip
# How the names of texts begin that the code makes of words.
MADE = (
    "cells_continuous_", "cells_one_", "cells_padded_", "cells_removes", "cells_steps_", "drain_",
    "factor_", "interaction_", "kv_beyond_", "kv_of_", "limit_missing_", "nav_", "off_",
    "one_way_", "q1_loop", "says_", "what_",
)  # fmt: skip


def flat(language: str) -> dict[tuple[str, str], str]:
    """(part, key) -> text of one language; a word of the glossary and its meaning apart."""
    found = {}
    for part, words in catalogue(language).items():
        for key, text in words.items():
            parts = text.items() if isinstance(text, dict) else [("", text)]
            found |= {(part, f"{key} {name}".strip()): each for name, each in parts}
    return found


def pieces(text: str) -> tuple[set[str], str]:
    """Names of the placeholders, and all that stands between them."""
    parsed = list(Formatter().parse(text))
    return {name for _, name, _, _ in parsed if name}, "".join(part for part, *_ in parsed)


def test_the_languages_have_the_same_parts_and_keys():
    english, *others = (flat(each).keys() for each in LANGUAGES)
    for other in others:
        assert english - other == set()
        assert other - english == set()


def test_a_text_takes_the_same_values_in_every_language():
    english, *others = map(flat, LANGUAGES)
    for other in others:
        for key in english.keys() & other.keys():
            assert pieces(other[key])[0] == pieces(english[key])[0], key


def test_no_text_is_left_untranslated():
    english, vietnamese = flat("en"), flat("vi")
    alike = {text for key, text in english.items() if text == vietnamese.get(key)}
    # a text of placeholders and signs alone has nothing to translate
    wordy = {text for text in alike if re.search(r"[^\W\d_]", pieces(text)[1])}
    assert wordy - ALIKE == set()
    assert ALIKE - wordy == set()


def test_an_unknown_language_and_a_key_that_stands_twice_are_refused(tmp_path, monkeypatch):
    with pytest.raises(KeyError, match="'tlh' is not one of: en, vi"), speaking("tlh"):
        pass
    (tmp_path / "en").mkdir()
    for name in ("a", "b"):
        words = {"texts": {"answer": name, name: name}}
        (tmp_path / "en" / f"{name}.yaml").write_text(json.dumps(words))
    monkeypatch.setattr(texts, "FOLDER", tmp_path)
    # not the catalogue that is kept from the real folder
    with pytest.raises(ValueError, match=r"b\.yaml: texts: a second time: answer"):
        catalogue.__wrapped__("en")


def test_speaking_ends_where_it_began():
    with pytest.raises(ZeroDivisionError), speaking("vi"):
        assert (language(), TEXTS["answer"]) == ("vi", catalogue("vi")["texts"]["answer"])
        raise ZeroDivisionError
    assert (language(), TEXTS["answer"]) == ("en", catalogue("en")["texts"]["answer"])


def words_of_the_code() -> set[str]:
    """Every name that stands in a string of the code, and every one that the templates ask for."""
    found: set[str] = set()
    for file in REPORT.glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        strings = (x.value for x in ast.walk(tree) if isinstance(x, ast.Constant))
        found |= {w for s in strings if isinstance(s, str) for w in re.split(r"[^\w ]|\s", s)}
    for file in REPORT.glob("*.j2"):
        found |= set(re.findall(r"""(?:\bt\.|texts\.|["'])(\w+)""", file.read_text("utf-8")))
    return found


def test_every_text_is_used():
    used = words_of_the_code()
    keys = {key for part, key in flat("en") if part not in BY_DATA}
    assert {key for key in keys - used if not key.startswith(MADE)} == set()
    # each beginning stands in the code too
    assert set(MADE) - used == set()


@pytest.mark.parametrize(
    ("write", "value", "english", "vietnamese"),
    [
        (n.rate, 1262.5, "1,262.5", "1.262,5"),
        (n.rate, -1262.5, "\u22121,262.5", "\u22121.262,5"),
        (n.integer, 1_234_567, "1,234,567", "1.234.567"),
        (n.ratio, 2.981, "2.98x", "2,98x"),
        (n.ratio, 4.1e-5, "4.1e-05x", "4,1e-05x"),
        (n.percent, 0.641, "64.1 %", "64,1 %"),
        (n.seconds, 0.0213, "0.021", "0,021"),
        (n.size, 500, "500 bytes", "500 byte"),
        (n.size, 219328 * 28672, "5.86 GiB", "5,86 GiB"),
        (n.tick, 0.25, "0.25", "0,25"),
        (n.tick, 2000.0, "2,000", "2.000"),
        (n.tick, -1.5, "\u22121.5", "\u22121,5"),
    ],
)
def test_numbers_are_written_as_the_language_does(write, value, english, vietnamese):
    assert write(value) == english
    with speaking("vi"):
        assert write(value) == vietnamese


# --- what the analysis says ---


@pytest.mark.parametrize(
    ("english", "vietnamese"),
    [
        (
            "With 3 repeats the extra gain is 2.02x [1.91x, 2.14x]; without repeat 1 it is 1.99x "
            "[1.77x, 2.24x].",
            "Với 3 lượt lặp, mức lợi thêm là 2,02x [1,91x; 2,14x]; không có lượt lặp 1 thì là "
            "1,99x [1,77x; 2,24x].",
        ),
        (
            "results/timings/a/B/slots16/1.parquet: its host is x, not y; its version of vllm is "
            "2.9, not 2.10",
            "results/timings/a/B/slots16/1.parquet: máy chủ của nó là x, không phải y; phiên bản "
            "vllm của nó là 2.9, không phải 2.10",
        ),
        ("An interval within 5 % takes about 1,204 repeats: 1,201 more, about 40 hours.",
         "Muốn khoảng tin cậy nằm trong 5 % cần khoảng 1.204 lượt lặp: thêm 1.201 lượt, mất khoảng "
         "40 giờ."),
        ("219328 / 312.5, a ceiling", "219328 / 312,5, một trần trên"),
        ("a sentence of tomorrow, of 1.5", "a sentence of tomorrow, of 1.5"),
    ],
)  # fmt: skip
def test_sentences_of_the_analysis_are_said_in_the_language(english, vietnamese):
    assert data_words.said(english) == english
    with speaking("vi"):
        assert data_words.said(english) == vietnamese


def trouble(plan) -> None:
    """Everything that may be said against timings."""
    contend(find(plan, "static", "B"))
    remeasure(find(plan, "vllm", "A"), faster=1.1)
    remeasure(find(plan, "vllm", "B"), counts=False)
    for repeat in (1, 2, 3):
        remeasure(find(plan, "vllm", "A", 256, repeat), faster=1.2, run=f"again{repeat}")

    def older(meta: dict) -> None:
        meta["provenance"]["versions"]["vllm"] = "0.23.0"
        meta["provenance"]["host"] = "another"
        meta["provenance"]["git"] = {"commit": "1" * 40, "dirty": True}

    def other_spec(meta: dict) -> None:
        meta["spec"]["threads"] = 2

    for entry, change in (
        (find(plan, "vllm", "B", 16, 2), older),
        (find(plan, "static", "A", 16, 3), other_spec),
    ):
        for key in ("path", "steps"):
            rewrite(entry[key], metadata=change)


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    cells = [("static", "A", 16), ("static", "B", 16), ("static_again", "A", 16)]
    cells += [("vllm", workload, slots) for workload in "AB" for slots in (16, 256)]
    return make(
        tmp_path_factory.mktemp("troubled"),
        repeats=4,
        noise=0.03,
        samples=2,
        sample_noise=0.01,
        cells=cells,
        drop=[0],
        spoil=trouble,
    )


def said_by_the_analysis(data) -> list[str]:
    """Every English sentence in tables and summary that reaches the page."""
    summary = data.summary
    found = [*summary["publishable"]["reasons"], summary["lesson_claim"]["sentence"]]
    found += [s for each in summary["limits"]["by_ratio"].values() for s in each["sentences"]]
    found += [each["what"] for kind in ("stale", "elsewhere") for each in data.trust(kind)]
    found += [each["reason"] for each in data.trust("missing_sources")]
    found += [*data.attempts.reason, *data.attempts.problem, *data.variance.advice]
    found += [*data.kv[data.kv.unit.ne("share") & ~_by_rule(data.kv)].formula, *data.controls.name]
    return [sentence for sentence in found if isinstance(sentence, str)]


def _by_rule(kv: pd.DataFrame) -> pd.Series:
    """The rows that have a table of their own, which shows no formula."""
    return kv.quantity.str.match(r"(running|requests|used_share)_(on_demand|exact|pow2|max)$")


def test_every_sentence_of_the_analysis_is_known(troubled):
    sentences = said_by_the_analysis(troubled)
    assert {s for s in sentences if not data_words.known(s)} == set()
    # the data were made to be spoken against
    told = " ".join(sentences)
    for words in ("planned files missing", "not clean", "another spec", "several sessions",
                  "its host is", "its version of", "several commits", "not committed",
                  "replaced timings of vllm went up", "measured again", "More ",
                  "first attempt", "is not output_tokens"):  # fmt: skip
        assert words in told, words


def test_what_a_witness_cannot_tell_and_what_holds_a_clock_down_is_known():
    for words in (*witness.MISSING.values(), *witness_gpu.THROTTLING.values(), "no"):
        assert data_words.known(words), words


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize("between", [0, 0.1])
@pytest.mark.parametrize("best", [None, 1, 2, 4])
def test_every_advice_is_known(repeats, samples, between, best):
    assert data_words.known(advice(repeats, samples, between, best))


# --- no English in the code ---

# Units, names of things and identifiers that every language shares.
SHARED = {
    "UTC", "KiB", "MiB", "GiB", "English", "Tiếng Việt", "clean", "contended", "mixed_session",
    "preempted", "short_output", "stale_spec", "throttled", "continuous", "padded", "wave",
}  # fmt: skip


class Visible(HTMLParser):
    """What a reader of one language's page sees or hears, without commands."""

    HEARD = ("aria-label", "title", "alt", "data-copy", "data-copied", "data-uncopied")

    def __init__(self, source: str, language: str):
        super().__init__()
        self.words, self._inside, self._silent, self._language = [], 0, 0, language
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if self._inside or given.get("id") == self._language:
            self._inside += tag == "div"
            self._silent += tag in ("pre", "code", "style", "script")
            self.words += [given[key] for key in self.HEARD if given.get(key)]

    def handle_endtag(self, tag):
        if self._inside:
            self._inside -= tag == "div"
            self._silent -= tag in ("pre", "code", "style", "script")

    def handle_data(self, data):
        if self._inside and not self._silent:
            self.words.append(data)


def names(value: object) -> set[str]:
    """Every text in the data that is a name: keys and values of the summary's facts, names of
    engines and workloads."""
    if isinstance(value, dict):
        return set().union(*(names(each) for pair in value.items() for each in pair), set())
    if isinstance(value, list):
        return set().union(*map(names, value), set())
    return {value} if isinstance(value, str) else set()


def names_of(data) -> set[str]:
    summary = data.summary
    found = names([summary.get(key) for key in ("machine", "measured", "applied")])
    for frame in vars(data).values():
        if isinstance(frame, pd.DataFrame):
            for column in ("engine", "workload", "baseline", "other", "reference", "option",
                           "value", "reference_value", "name", "git_commit"):  # fmt: skip
                found |= {v for v in frame.get(column, []) if isinstance(v, str)}
    found |= {c[:length] for c in data.timings.git_commit.dropna() for length in (10, 12)}
    return found | set(data.kv.source.dropna())


def marked(text: str | dict) -> str | dict:
    """The text with a sign in place of every letter outside its placeholders."""
    if isinstance(text, dict):
        return {key: marked(words) for key, words in text.items()}
    made = ""
    for literal, name, spec, _ in Formatter().parse(text):
        literal = literal.replace("{", "{{").replace("}", "}}")
        made += re.sub(r"[^\W\d_]", "\u00a4", literal)
        if name is not None:
            made += f"{{{name}:{spec}}}" if spec else f"{{{name}}}"
    return made


def leftovers(data, monkeypatch) -> list[str]:
    """The words on the page that come from no catalogue and are no names."""
    real = catalogue

    def shown(language: str) -> dict[str, dict]:
        parts = real("en")
        if language == "en":
            return parts
        return {p: words if p == "digits" else {k: marked(t) for k, t in words.items()}
                for p, words in parts.items()}  # fmt: skip

    kept = {"vi": shown("vi"), "en": real("en")}
    monkeypatch.setattr(texts, "catalogue", kept.__getitem__)
    # where a long name may break, it is still one
    source = render(data, "vi").replace("<wbr>", "")
    known = sorted(names_of(data) | SHARED, key=len, reverse=True)
    found = []
    for text in Visible(source, "vi").words:
        # commands, paths of timings, then names
        rest = re.sub(r"`[^`]*`|[\w./-]*/slots\d+(/\d+\.parquet)?", " ", text)
        for name in known:
            rest = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ", rest)
        if re.search(r"[A-Za-z]{2}", rest):
            found.append(text.strip())
    return found


def kv_frames() -> dict[str, pd.DataFrame]:
    """Those of the section's tests, with a formula of the analysis in place of theirs."""
    made = test_report_kv.frames()
    return made | {"kv": made["kv"].assign(formula="as the engine reports it")}


@pytest.mark.slow
@pytest.mark.parametrize("which", ["troubled", "ideas", "kv", "nothing"])
def test_every_word_of_the_page_comes_from_the_catalogue(which, request, monkeypatch):
    data = {
        "troubled": lambda: request.getfixturevalue("troubled"),
        "ideas": lambda: make_data(test_report_ideas.frames(), {}),
        "kv": lambda: make_data(kv_frames(), {}),
        "nothing": lambda: make_data({}, {}),
    }[which]()
    assert leftovers(data, monkeypatch) == []


def test_a_word_of_the_code_would_be_found(monkeypatch):
    monkeypatch.setattr(n, "percent", lambda value, sign=False: "per cent")
    assert any("per cent" in text for text in leftovers(make_data({}, {}), monkeypatch))
