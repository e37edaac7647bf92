"""Headless Chromium with a single tab, which notes what a page does that it shouldn't."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser, and end it; skip the test where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("there is no chromium to look at pages with")
    with api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield Browser(chromium.new_page())
        chromium.close()


class Browser:
    """A tab; dialogs, requests and errors are those of the page that is open."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.dialogs: list[str] = []
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("dialog", lambda it: (self.dialogs.append(it.message), it.dismiss()))
        page.on("request", lambda it: self.requests.append(it.url))
        page.on("pageerror", lambda it: self.errors.append(str(it)))
        page.on("console", self._hear)

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning", "assert"):
            self.errors.append(message.text)

    def open(self, path: Path, width: int = 1280) -> None:
        """Open a file, at a width in CSS pixels."""
        self.page.set_viewport_size({"width": width, "height": 900})
        self.dialogs, self.requests, self.errors = [], [], []
        self.page.goto(path.as_uri())

    def run(self, script: str) -> Any:
        """Return what an expression comes to."""
        return self.page.evaluate(script)
