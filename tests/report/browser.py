"""A headless Chromium, driven over the WebDriver protocol; nothing but the two programs is needed."""

import base64
import http.client
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
KEYS = {"ArrowLeft": "\ue012", "ArrowRight": "\ue014", "Home": "\ue011", "End": "\ue010", "Escape": "\ue00c"}


def programs() -> tuple[str, str] | None:
    """Where Chromium and its driver are, if both are there."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    return (chromium, driver) if chromium and driver else None


class Browser:
    """One session: a window, its console, and the requests it makes."""

    def __init__(self, chromium: str, driver: str) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._driver = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True)
        assert self._driver.stdout is not None
        said = next(line for line in self._driver.stdout if "successfully on port" in line)
        self._port = int(re.search(r"on port (\d+)", said)[1])
        options = {"binary": chromium, "args": [*FLAGS, f"--user-data-dir={self._profile.name}"]}
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        self._session = ""
        session = self._ask("POST", "session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"session/{session['sessionId']}/"

    def close(self) -> None:
        self._ask("DELETE", self._session.rstrip("/"), whole=True)
        self._driver.terminate()
        self._driver.wait(timeout=20)
        self._driver.stdout.close()
        self._profile.cleanup()

    def open(self, page: Path) -> None:
        """Show the page; logs begin anew."""
        self.console(), self.requests()
        self._ask("POST", "url", {"url": page.as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function with this body returns."""
        return self._ask("POST", "execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector: str) -> str:
        """What a reader sees of the first such element."""
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def click(self, selector: str) -> None:
        self._ask("POST", f"element/{self._find(selector)}/click", {})

    def point(self, selector: str, share: float) -> None:
        """Move the pointer to this share of the element's width."""
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        width = self.run("return document.querySelector(arguments[0]).getBoundingClientRect().width", selector)
        origin = {"element-6066-11e4-a52e-4f735466cecf": self._find(selector)}
        move = {"type": "pointerMove", "duration": 0, "origin": origin, "x": round(width * (share - 0.5)), "y": 0}
        pointer = {"type": "pointer", "id": "mouse", "actions": [move]}
        self._ask("POST", "actions", {"actions": [pointer]})

    def press(self, selector: str, *keys: str) -> None:
        """Focus the element and press keys."""
        text = "".join(KEYS[key] for key in keys)
        self._ask("POST", f"element/{self._find(selector)}/value", {"text": text})

    def look(self, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Size and colours of the window."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", {"features": [scheme]})

    def console(self) -> list[str]:
        """What stands in the console since the last call: errors, warnings, refused requests."""
        return [entry["message"] for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """Addresses asked for since the last call."""
        entries = (json.loads(entry["message"])["message"] for entry in self._log("performance"))
        return [e["params"]["request"]["url"] for e in entries if e["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path: Path) -> None:
        """The whole page."""
        data = self.devtools("Page.captureScreenshot", {"captureBeyondViewport": True})["data"]
        path.write_bytes(base64.b64decode(data))

    def pdf(self) -> bytes:
        """The page as printed on A4."""
        paper = {"page": {"width": 21.0, "height": 29.7}, "background": True}
        return base64.b64decode(self._ask("POST", "print", paper))

    def devtools(self, command: str, parameters: Mapping[str, Any]) -> Any:
        return self._ask("POST", "goog/cdp/execute", {"cmd": command, "params": dict(parameters)})

    def _log(self, kind: str) -> list[dict[str, Any]]:
        return self._ask("POST", "se/log", {"type": kind})

    def _find(self, selector: str) -> str:
        found = self._ask("POST", "element", {"using": "css selector", "value": selector})
        return next(iter(found.values()))

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, whole: bool = False) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, "/" + (path if whole else self._session + path), data)
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        assert not (isinstance(value, dict) and "error" in value), value
        return value
