"""A headless Chromium, driven over the WebDriver protocol by its own driver: as much of it as the tests need."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
_TAB = "\ue004"
_WAIT = 30  # seconds for an answer of the driver


class Browser:
    """One session. Scripts are function bodies that return JSON values."""

    def __init__(self, base: str) -> None:
        self._base = base

    def call(self, method: str, path: str, **body: Any) -> Any:
        """The value that the driver answers with."""
        data = json.dumps(body).encode() if method == "POST" else None
        request = urllib.request.Request(
            self._base + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=_WAIT) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as failure:
            raise RuntimeError(failure.read().decode()) from failure

    def open(self, page: Path) -> None:
        # Keys go to a page that has the focus, which another browser on this machine may have taken.
        self.devtools("Emulation.setFocusEmulationEnabled", enabled=True)
        self.call("POST", "/url", url=page.as_uri())

    def run(self, script: str) -> Any:
        return self.call("POST", "/execute/sync", script=script, args=[])

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self.call("POST", "/goog/cdp/execute", cmd=command, params=parameters)

    def media(self, kind: str = "screen", scheme: str = "light") -> None:
        """Emulate `screen` or `print`, and the preferred colour scheme."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.devtools("Emulation.setEmulatedMedia", media=kind, features=features)

    def width(self, pixels: int) -> None:
        """Give the page a viewport of that width."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=pixels,
            height=800,
            deviceScaleFactor=1,
            mobile=pixels < 600,
        )

    def tab(self) -> None:
        """Press the tabulator key."""
        keys = [{"type": "keyDown", "value": _TAB}, {"type": "keyUp", "value": _TAB}]
        self.call("POST", "/actions", actions=[{"type": "key", "id": "keyboard", "actions": keys}])

    def console(self) -> list[str]:
        """Messages of the console so far, from warnings up."""
        entries = self.call("POST", "/se/log", type="browser")
        return [e["message"] for e in entries if e["level"] in ("WARNING", "SEVERE")]

    def requests(self, page: Path) -> list[str]:
        """Addresses that `page` has asked for so far, its own included."""
        events = [
            json.loads(e["message"])["message"] for e in self.call("POST", "/se/log", type="performance")
        ]
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [s["request"]["url"] for s in sent if s.get("documentURL") == page.as_uri()]

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        image = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(image["data"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a new, empty profile; both CHROMIUM and DRIVER must be there."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        driver = subprocess.Popen(
            [str(DRIVER), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            server = f"http://127.0.0.1:{_port(driver)}"
            options = {"binary": CHROMIUM, "args": [*_FLAGS, f"--user-data-dir={profile}"]}
            wanted = {
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }
            opened = Browser(server).call("POST", "/session", capabilities={"alwaysMatch": wanted})
            session = Browser(f"{server}/session/{opened['sessionId']}")
            try:
                yield session
            finally:
                session.call("DELETE", "")
        finally:
            driver.terminate()
            driver.wait(timeout=_WAIT)


def _port(driver: subprocess.Popen[str]) -> int:
    assert driver.stdout is not None
    for line in driver.stdout:
        if "started successfully on port" in line:
            return int(line.rsplit(" ", 1)[1].rstrip(".\n"))
    raise RuntimeError("the driver did not start")
