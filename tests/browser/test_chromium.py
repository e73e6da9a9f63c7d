"""What is said where the browser, or what drives it, is not installed."""

from __future__ import annotations

import chromium
import pytest

pytestmark = pytest.mark.browser

APT = "sudo apt-get install --no-install-recommends"
NPM = "npm ci --prefix tests/browser"


@pytest.mark.parametrize(
    ("tools", "packages", "command"),
    [
        ({"chromium", "node", "npm"}, True, ""),
        ({"google-chrome", "node"}, True, ""),
        ({"node", "npm"}, True, f"{APT} chromium fonts-liberation"),
        ({"chromium", "node", "npm"}, False, NPM),
        ({"chromium", "node"}, False, f"{APT} npm && {NPM}"),
        (set(), False, f"{APT} chromium fonts-liberation nodejs npm && {NPM}"),
    ],
)
def test_the_command_installs_what_is_missing(monkeypatch, tools, packages, command):
    monkeypatch.setattr(chromium.shutil, "which", lambda name: name if name in tools else None)
    monkeypatch.setattr(chromium, "packages_in_place", lambda: packages)
    assert chromium.missing() == command


def test_packages_of_another_version_do_not_count(monkeypatch, tmp_path):
    (tmp_path / "package.json").write_text('{"devDependencies": {"axe-core": "4.14.1"}}')
    monkeypatch.setattr(chromium, "HERE", tmp_path)
    assert not chromium.packages_in_place()
    folder = tmp_path / "node_modules/axe-core"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"version": "4.14.0"}')
    assert not chromium.packages_in_place()
    (folder / "package.json").write_text('{"version": "4.14.1"}')
    assert chromium.packages_in_place()
