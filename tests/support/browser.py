"""Headless Chromium, driven over its DevTools pipe with the standard library alone.

One browser serves a module; each page is opened in the same tab. What a test wants to know of a page
that misbehaves is collected as it happens: dialogs, requests, errors of the console.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)
PATIENCE = 20.0


def chromium() -> str:
    """Return where the browser is; skip the test if there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if not (found and shutil.which("bash")):
        pytest.skip("there is no chromium to look at pages with")
    return found


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start a browser with a profile of its own, and end it."""
    heard, say = os.pipe()
    listen, said = os.pipe()
    # Its pipe is at 3 and 4, whatever numbers these have here.
    command = ["bash", "-c", f'exec "$@" 3<&{heard} 4>&{said}', "browser", chromium(), *FLAGS]
    process = subprocess.Popen(
        [*command, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=(heard, said),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(heard)
    os.close(said)
    try:
        yield Browser(say, listen).attached()
    finally:
        process.terminate()
        process.wait(PATIENCE)
        os.close(say)
        os.close(listen)


class Browser:
    """A tab."""

    def __init__(self, say: int, listen: int) -> None:
        self.say, self.listen = say, listen
        self.session = ""
        self.count = 0
        self.pending = b""
        self.dialogs: list[str] = []
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.loaded = False

    def attached(self) -> Self:
        """Take the first tab."""
        targets = self.send("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        options = {"targetId": target, "flatten": True}
        self.session = self.send("Target.attachToTarget", **options)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        return self

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command, and return its result."""
        self.count += 1
        own = self.count
        session = {"sessionId": self.session} if self.session else {}
        message = {"id": own, "method": method, "params": params, **session}
        os.write(self.say, json.dumps(message).encode() + b"\0")
        while (reply := self._next()).get("id") != own:
            self._note(reply)
        assert "error" not in reply, reply["error"]
        return reply["result"]

    def open(self, path: Path, width: int = 1280, *, dark: bool = False) -> Self:
        """Open a file, at a width, and forget what earlier pages did."""
        self.resize(width, dark=dark)
        self.dialogs, self.requests, self.errors, self.loaded = [], [], [], False
        self.send("Page.navigate", url=path.as_uri())
        while not self.loaded:
            self._note(self._next())
        return self

    def resize(self, width: int, *, dark: bool = False, height: int = 900) -> None:
        """Give the tab a width in CSS pixels, and a colour scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, script: str) -> Any:
        """Return what an expression comes to."""
        options = {"expression": script, "returnByValue": True, "awaitPromise": True}
        done = self.send("Runtime.evaluate", **options)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Write what the tab shows as PNG."""
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(data["data"]))

    def key(self, name: str) -> None:
        """Press a key where the focus is."""
        text = {"Enter": {"text": "\r"}}.get(name, {})
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode={"Enter": 13, "Tab": 9}[name], **text)  # fmt: skip

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.pending:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.listen], [], [], left)[0]:
                raise TimeoutError("the browser says nothing")
            part = os.read(self.listen, 1 << 20)
            assert part, "the browser has ended"
            self.pending += part
        line, _, self.pending = self.pending.partition(b"\0")
        return json.loads(line)

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
            self.send("Page.handleJavaScriptDialog", accept=False)
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"]["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str(params["args"]))
