"""A real browser: Debian's Chromium, driven by playwright (``pip install -e '.[browser]'``)."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = "TRACEGRADE_TEST_CHROMIUM"  # where it is, unless it is called chromium and on the path


def chromium() -> str | None:
    """The program; None when there is none."""
    return os.environ.get(CHROMIUM) or shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def browser() -> Iterator["Browser"]:
    """A browser that is closed at the end; skips the test, saying what is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install -e '.[browser]'")
    program = chromium()
    if program is None:
        pytest.skip(f"needs Chromium: apt-get install chromium, or {CHROMIUM}=PATH")
    with sync_api.sync_playwright() as playwright:
        # Without its sandbox, which needs rights that containers do not give; it sees nothing but our own page.
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


def axe() -> str:
    """The text of axe-core; skips the test when it is not there."""
    package = pytest.importorskip("axe_playwright_python", reason="needs axe-core: pip install -e '.[browser]'")
    return Path(package.__file__).with_name("axe.min.js").read_text()
