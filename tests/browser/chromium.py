"""One headless Chromium for all browser tests: what it needs, and looks at pages through it.

Why playwright-core and not selenium: one npm package without dependencies (Debian's Chromium needs
no driver of its version beside it, the Python locks stay as they are), and requests, downloads,
media emulation and contexts without JavaScript are part of it. JavaScript looks (looks.mjs), Python
judges.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# With --no-install-recommends Chromium comes without a font.
DEBIAN = {"chromium": "chromium fonts-liberation", "node": "nodejs", "npm": "npm"}


def browser_path() -> str | None:
    """The Chromium of this machine."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def packages_in_place() -> bool:
    """Whether node_modules has the versions that package.json names."""
    for name, version in json.loads((HERE / "package.json").read_text())["devDependencies"].items():
        described = HERE / "node_modules" / name / "package.json"
        if not described.exists() or json.loads(described.read_text())["version"] != version:
            return False
    return True


def missing() -> str:
    """The command that installs what the browser tests lack on this machine; empty if nothing."""
    there = packages_in_place()
    absent = [] if browser_path() else ["chromium"]
    # npm is needed only to fetch the packages
    absent += [tool for tool in ("node", *(() if there else ("npm",))) if not shutil.which(tool)]
    commands = []
    if absent:
        wanted = " ".join(DEBIAN[tool] for tool in absent)
        commands.append(f"sudo apt-get install --no-install-recommends {wanted}")
    if not there:
        commands.append("npm ci --prefix tests/browser")
    return " && ".join(commands)


class Chromium:
    """A running browser; leave the `with` block to end it."""

    def __enter__(self) -> Chromium:
        self._driver = subprocess.Popen(
            ["node", HERE / "driver.mjs", browser_path()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        return self

    def __exit__(self, *_) -> None:
        self._driver.stdin.close()
        self._driver.wait()

    def look(
        self, look: str, page: Path, *, anchor: str = "", context: dict | None = None, **given
    ):
        """Opens a page in a fresh context and returns what the function `look` of looks.mjs saw.

        Args:
            look: a function of looks.mjs.
            page: the file that is opened.
            anchor: part of the address after `#`.
            context: options of Playwright's context: viewport, colorScheme, javaScriptEnabled, ...
            given: arguments of the function.

        Raises:
            RuntimeError: the function failed, or the browser is gone.
        """
        url = page.resolve().as_uri() + (f"#{anchor}" if anchor else "")
        order = {"look": look, "url": url, "context": context or {}, "given": given}
        self._driver.stdin.write(json.dumps(order) + "\n")
        self._driver.stdin.flush()
        line = self._driver.stdout.readline()
        answer = json.loads(line) if line else {"error": "the browser is gone"}
        if "error" in answer:
            raise RuntimeError(f"{look} on {url}:\n{answer['error']}")
        return answer["saw"]
