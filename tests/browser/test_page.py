"""The page in a real browser: what it asks for, shows, gives away and prints."""

from __future__ import annotations

import pytest
import synthetic
from reports import make_report

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LANGUAGES = ("en", "vi")
PHONE = {"width": 390, "height": 844}
NO_SCRIPT = {"javaScriptEnabled": False}


@pytest.fixture
def spoiled(vietnamese, tmp_path):
    """A small page with something more at its end; `policy` keeps the content policy, which lets
    no style or script of ours through."""

    def spoil(more: str, policy: bool = False):
        source = vietnamese.page.read_text(encoding="utf-8")
        name = "Content-Security-Policy"
        assert source.count(name) == 1 and source.count("</body>") == 1
        source = source if policy else source.replace(name, "none")
        page = tmp_path / "spoiled.html"
        page.write_text(source.replace("</body>", f"{more}</body>"), encoding="utf-8")
        return page

    return spoil


# ---- what the page asks for


def test_no_request_leaves_the_page_and_nothing_complains(browser, full):
    seen = browser.look("press_everything", full.page)
    assert set(seen["requests"]) == {full.page.as_uri()}
    assert seen["complaints"] == [] and seen["dialogs"] == []


PICTURE = '<img alt="" src="https://elsewhere.invalid/seen.png">'


def test_a_request_would_be_seen(browser, spoiled):
    assert (
        "https://elsewhere.invalid/seen.png" in browser.look("wait", spoiled(PICTURE))["requests"]
    )


@pytest.mark.parametrize(
    "more",
    [PICTURE, "<script>alert(1)</script>", '<p style="color: red">styled</p>'],
    ids=["picture", "script", "style"],
)
def test_what_the_policy_forbids_would_be_seen(browser, spoiled, more):
    seen = browser.look("wait", spoiled(more, policy=True))
    assert any(told.startswith("error: policy violation") for told in seen["complaints"])
    assert seen["dialogs"] == []


# ---- languages


def assert_shows(place, language):
    assert place["shown"] == [language] and place["spoken"] == [language]
    assert len(place["headings"]) == 1


@pytest.mark.parametrize("context", [{}, NO_SCRIPT], ids=["script", "no-script"])
@pytest.mark.parametrize(
    ("report", "own", "other"), [("full", *LANGUAGES), ("vietnamese", "vi", "en")]
)
def test_the_switch_shows_the_other_language_alone(browser, request, report, own, other, context):
    page = request.getfixturevalue(report).page
    saw = browser.look("switch_language", page, context=context, to=other)
    assert_shows(saw["before"], own)
    assert_shows(saw["switched"], other)
    assert_shows(saw["followed"], other)
    assert saw["followed"]["hash"] == f"#{other}-latency"
    assert_shows(saw["back"], own)
    assert saw["before"]["document"] == own and saw["before"]["title"]
    assert (saw["before"]["buttons"] > 0) == (context != NO_SCRIPT)
    assert saw["before"]["headings"] != saw["switched"]["headings"]


@pytest.mark.parametrize("context", [{}, NO_SCRIPT], ids=["script", "no-script"])
@pytest.mark.parametrize(
    ("report", "anchor", "language"),
    [
        ("full", "vi-ratios", "vi"),
        ("full", "ratios", "en"),
        ("full", "vi-figure-latency", "vi"),
        ("vietnamese", "en-ratios", "en"),
        ("vietnamese", "ratios", "vi"),
    ],
)
def test_an_address_opens_its_language_at_its_section(
    browser, request, report, anchor, language, context
):
    page = request.getfixturevalue(report).page
    place = browser.look("open", page, anchor=anchor, context=context)
    assert_shows(place, language)
    assert 0 <= place["top"] < 0.2


def test_an_address_that_names_nothing_opens_the_pages_own_language(browser, full):
    assert_shows(browser.look("open", full.page, anchor="nothing"), "en")


# ---- downloads and copies


SOME = {"throughput.csv", "ratios.csv", "timings.csv"}


def assert_are_the_files(stored, files):
    for file in stored:
        with open(file["path"], "rb") as got:
            assert got.read() == files[file["name"]].read_bytes(), file
    assert {file["name"] for file in stored} >= SOME


@pytest.mark.parametrize("context", [{}, NO_SCRIPT], ids=["script", "no-script"])
def test_downloads_are_the_files_byte_for_byte(browser, full, tmp_path, context):
    given = {"links": "#files a[download]", "folder": str(tmp_path)}
    assert_are_the_files(browser.look("download", full.page, context=context, **given), full.files)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_link_below_a_table_gives_its_file(browser, full, tmp_path, language):
    given = {"links": ".page a[data-file]", "folder": str(tmp_path)}
    stored = browser.look("download", full.page, anchor=language, **given)
    assert_are_the_files(stored, full.files)
    for file in stored:
        assert file["href"].endswith(f"file-{file['name'].partition('.')[0]}")


@pytest.mark.parametrize("clipboard", [True, False], ids=["clipboard", "fallback"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_copy_buttons_copy_their_command(browser, full, language, clipboard):
    context = {"permissions": ["clipboard-read", "clipboard-write"]}
    copied = browser.look("copy", full.page, anchor=language, context=context, clipboard=clipboard)
    assert len(copied) >= 3
    for entry in copied:
        assert entry["clipboard"] == entry["command"]
    assert len({entry["command"] for entry in copied}) > 1


# ---- widths


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_width_scrolls_sideways_or_cuts_text(browser, full, language):
    saw = browser.look("widths", full.page, anchor=language, widths=[320, 390, 768, 1280])
    for at in saw:
        assert at["texts"] > 500
        assert at["cut"] == [] and at["broken"] == [], at["width"]
        assert at["page"] <= at["window"] == at["width"]


@pytest.mark.parametrize(
    ("more", "by"),
    [
        ('<p style="margin-left: 900px">far</p>', "window"),
        ('<p style="width: 3em; overflow: hidden; white-space: nowrap">long, long</p>', "side"),
        ('<div class="scroll"><p style="margin-left: -3em">before</p></div>', "before"),
        ('<p style="height: 1em; overflow: hidden">two<br>lines</p>', "by"),
    ],
    ids=["outside", "side", "before", "height"],
)
def test_cut_text_would_be_seen(browser, spoiled, more, by):
    (saw,) = browser.look("widths", spoiled(more), widths=[390])
    assert saw["cut"] and all(by in told.partition('": ')[2] for told in saw["cut"])
    assert (saw["page"] > 390) == (by == "window")


def test_a_broken_number_would_be_seen(browser, spoiled):
    narrow = '<p style="width: 2em; overflow-wrap: anywhere">1,262.9 tok/s</p>'
    (saw,) = browser.look("widths", spoiled(narrow), widths=[390])
    assert [told.rpartition(": ")[2] for told in saw["broken"]] == ["1,262.9"]


# ---- keys


@pytest.mark.parametrize("language", LANGUAGES)
def test_tab_reaches_all_that_can_be_used(browser, full, language):
    wanted = [".skip", "nav a", "a[hreflang]", "button.copy", "pre", ".scroll", "summary"]
    wanted += ["[data-file]", "#files a"]
    context = {"viewport": PHONE}
    saw = browser.look("tab_through", full.page, anchor=language, context=context, wanted=wanted)
    for part in saw["missed"]:
        assert part["count"] > 0, part["selector"]
        assert part["missed"] == [], part["selector"]
    for stop in saw["stops"]:
        assert stop["outline"] >= 2 and stop["inWindow"], stop
        assert stop["language"] in (language, ""), stop


def test_keys_skip_to_the_answer_and_scroll_a_wide_table(browser, full):
    saw = browser.look("use_keys", full.page, context={"viewport": PHONE})
    assert saw["after_skip"] == "#answer"
    assert saw["scrolled"] > 0


# ---- colours


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_stands_out_from_what_is_behind_it(browser, full, language, scheme):
    context = {"colorScheme": scheme}
    saw = browser.look("contrasts", full.page, anchor=language, context=context, limit=4.5)
    assert saw["html"] > 500 and saw["svg"] > 50
    assert saw["low"] == []


def test_dark_turns_page_and_figures(browser, full):
    light, dark = (
        browser.look("colours", full.page, context={"colorScheme": scheme})
        for scheme in ("light", "dark")
    )
    assert light["ground"] > 0.8 and light["text"] < 0.1
    assert dark["ground"] < 0.1 and dark["text"] > 0.5
    assert light["figures"] and dark["figures"]
    assert not set(light["figures"]) & set(dark["figures"])


def test_weak_text_would_be_seen(browser, spoiled):
    grey = '<p style="color: #999">weak</p>'
    on_bar = (
        '<svg viewBox="0 0 99 20" width="99"><rect width="99" height="20" fill="#222"/>'
        '<text x="5" y="14" font-size="10" fill="#333">bar</text></svg>'
    )
    saw = browser.look("contrasts", spoiled(grey + on_bar), limit=4.5)
    assert ["weak" in saw["low"][0], "bar" in saw["low"][1], len(saw["low"])] == [True, True, 2]


# ---- paper


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_print_is_whole_light_and_in_one_language(browser, full, language, scheme):
    # A4 at 96 px per inch, less the margins of the style sheet
    saw = browser.look(
        "print", full.page, anchor=language, context={"colorScheme": scheme}, width=673
    )
    assert_shows(saw, language)
    assert saw["folded"] > 0 and saw["hidden"] == []
    assert saw["controls"] == []
    assert saw["ground"] > 0.8 and saw["text"] < 0.1
    assert saw["cut"] == [] and saw["broken"] == [] and saw["page"] <= 673
    assert saw["pdf"] == "%PDF-"


# ---- names from the config

MARKUP = """<img src=x onerror=alert(1)> <script>alert("2")<b onclick='alert(3)'>&amp; $x_1$"""
RIGHT_TO_LEFT = "\u202eمحرك 🚀"
NAMES = {MARKUP: "static", RIGHT_TO_LEFT: "vllm", "\"quoted\" 'engine'": "vllm_wave"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A page whose engines have such names; one has a timing that is not clean, so that its name
    stands in a command."""
    folder = tmp_path_factory.mktemp("hostile")
    engines = {
        name: synthetic.ENGINES[like] | {"baseline": MARKUP if like != "static" else None}
        for name, like in NAMES.items()
    }
    plan = synthetic.write_timings(
        folder,
        repeats=2,
        cells=[(name, workload, 16) for name in NAMES for workload in ("A", "B")],
        engines=engines,
        step_times={name: synthetic.STEP_TIMES[like] for name, like in NAMES.items()},
    )
    synthetic.contend(synthetic.find(plan, MARKUP, "B", repeat=2))
    return make_report(folder, plan)


def without_isolates(words: str) -> str:
    """The text less the invisible signs that keep directions apart, white space as one blank."""
    return " ".join(words.translate(dict.fromkeys(range(0x2066, 0x206A))).split())


@pytest.mark.parametrize("language", LANGUAGES)
def test_names_of_engines_are_text(browser, full, hostile, language):
    usual = browser.look("anatomy", full.page, anchor=language)
    saw = browser.look("anatomy", hostile.page, anchor=language)
    for name in NAMES:
        assert name in without_isolates(saw["words"])
        # figures shorten what is long
        assert name[:15] in without_isolates(saw["figures"])
    # bdi: keeps the directions of a name and of the sentence around it apart
    assert set(saw["tags"]) <= {*usual["tags"], "bdi"}
    assert set(saw["attributes"]) <= set(usual["attributes"])
    assert saw["scripts"] == usual["scripts"] and saw["dialogs"] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_long_names_keep_the_page_narrow(browser, hostile, language):
    for at in browser.look("widths", hostile.page, anchor=language, widths=[320, 1280]):
        assert at["cut"] == [] and at["page"] <= at["width"]
