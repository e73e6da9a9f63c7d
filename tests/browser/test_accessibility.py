"""axe-core on what is on the screen: both languages, light and dark, wide and phone."""

from __future__ import annotations

import warnings

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SERIOUS = {"serious", "critical"}
WINDOWS = {"wide": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "vi"])
def test_axe_finds_nothing_serious(browser, full, language, scheme, window):
    context = {"colorScheme": scheme, "viewport": WINDOWS[window]}
    saw = browser.look("axe", full.page, anchor=language, context=context)
    assert saw["passed"] > 20
    for found in saw["violations"]:
        if found["impact"] not in SERIOUS:
            warnings.warn(
                f"axe, {found['impact']}: {found['help']}: {found['where']}", stacklevel=1
            )
    assert [found for found in saw["violations"] if found["impact"] in SERIOUS] == []


def test_axe_would_find_it(browser, tmp_path):
    page = tmp_path / "bad.html"
    page.write_text('<html><title>bad</title><button></button><p style="color:#bbb">weak')
    saw = browser.look("axe", page)
    rules = {found["rule"] for found in saw["violations"] if found["impact"] in SERIOUS}
    assert {"button-name", "color-contrast", "html-has-lang"} <= rules
