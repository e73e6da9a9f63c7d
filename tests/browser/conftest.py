"""A browser for all tests, and pages of synthetic timings to look at."""

from __future__ import annotations

import os

import pytest
import synthetic
from chromium import Chromium, missing
from reports import full_report, make_report


@pytest.fixture(scope="session")
def browser():
    command = missing()
    if command and os.environ.get("FOUR_CELLS_CI") == "1":
        pytest.fail(f"CI must have a browser: {command}")
    if command:
        pytest.skip(f"to see the page in a browser: {command}")
    with Chromium() as chromium:
        yield chromium


@pytest.fixture(scope="session")
def full(tmp_path_factory):
    """A page with every section."""
    return full_report(tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="session")
def vietnamese(tmp_path_factory):
    """A small page whose own language is Vietnamese."""
    folder = tmp_path_factory.mktemp("vietnamese")
    return make_report(folder, synthetic.write_timings(folder, repeats=1), "vi")
