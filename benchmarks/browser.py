"""A headless Chromium for pages of storelab, with the network off where the page is a file: opens a file, tells what
the page asked for and what it wrote to its console, types, clicks, and takes pictures. It speaks the DevTools protocol
over a pipe, so that it needs no port.
"""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
)
LIMIT_S = 60.0


def program() -> str | None:
    """A Chromium that is installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """One tab.

    requests: addresses that it asked for, but the page itself; errors: what it wrote as errors, and threw.
    """

    def __init__(self, process: subprocess.Popen, write: int, read: int) -> None:
        self.process, self._write, self._read = process, write, read
        self._numbers, self._buffer = itertools.count(1), b""
        self.requests: list[str] = []
        self.errors: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._call(method, session=self._session, **parameters)

    def _call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        end = time.monotonic() + LIMIT_S
        while True:
            told = self._next(end)
            if told.get("id") == number:
                if "error" in told:
                    raise RuntimeError(f"{method}: {told['error']}")
                return told.get("result", {})
            self._note(told)

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            data = os.read(self._read, 1 << 20)
            if not data:
                raise RuntimeError("Chromium ended")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, told: dict[str, Any]) -> None:
        what = told.get("params", {})
        match told.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(what["request"]["url"])
            case "Runtime.exceptionThrown":
                details = what["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description") or details["text"])
            case "Runtime.consoleAPICalled" if what["type"] in ("error", "assert"):
                self.errors.append(" ".join(str(a.get("value", a.get("description", ""))) for a in what["args"]))
            case "Log.entryAdded" if what["entry"]["level"] == "error":
                self.errors.append(what["entry"]["text"])

    def evaluate(self, expression: str) -> Any:
        """What JavaScript gives, awaited, as JSON. Raises RuntimeError where it throws."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return found["result"].get("value")

    def until(self, expression: str, limit_s: float = 20.0) -> Any:
        """The first value of an expression that is true. Raises TimeoutError."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if value := self.evaluate(expression):
                return value
            time.sleep(0.02)
        raise TimeoutError(expression)

    def open(self, path: Path, fragment: str = "", size: tuple[int, int] = (1400, 900), dark: bool = False) -> float:
        """Show a file; seconds until its first view stands, as it is painted. The tab forgets what was before."""
        return self.visit(f"{path.resolve().as_uri()}{fragment}", size, dark)

    def visit(self, url: str, size: tuple[int, int] = (1400, 900), dark: bool = False) -> float:
        """As `open`, of any address."""
        self.call("Page.navigate", url="about:blank")
        self.until("location.href === 'about:blank'")
        self.requests, self.errors = [], []
        width, height = size
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        begun = time.monotonic()
        self.call("Page.navigate", url=url)
        self.until("document.documentElement?.dataset.ready > 0")
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
        return time.monotonic() - begun

    def go(self, fragment: str) -> None:
        """Another view of the page."""
        before = self.evaluate("document.documentElement.dataset.ready")
        self.evaluate(f"location.hash = {json.dumps(fragment)}; true")
        self.until(f"document.documentElement.dataset.ready !== {json.dumps(before)}")

    def drawn(self) -> None:
        """Wait until all charts in sight are drawn."""
        self.until("[...document.querySelectorAll('.chart')].slice(0, 2).every((c) => c.children.length)")

    def press(self, key: str, code: str = "", text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, **more)

    def click(self, x: float, y: float) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="left" if kind != "mouseMoved" else "none",
                clickCount=1,
            )

    def picture(self, path: Path, most: int = 6000) -> None:
        """The whole page as PNG, at most so high."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], most), "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(data))


def without_network() -> list[str]:
    """Command prefix that takes the network away; empty where only root may."""
    return ["unshare", "--net"] if os.geteuid() == 0 and shutil.which("unshare") else []


@contextmanager
def page(network: bool = False) -> Iterator[Page]:
    """A tab of a Chromium of its own, which is ended again. network: it may have one. Raises RuntimeError where none is
    installed."""
    found = program()
    if found is None:
        raise RuntimeError("chromium is not installed")
    folder = tempfile.mkdtemp(prefix="storelab-browser-")
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()

    def pipes() -> None:
        first, second = os.dup(to_read), os.dup(from_write)  # 3 and 4 may be among them
        os.dup2(first, 3)
        os.dup2(second, 4)

    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [
        *([] if network else without_network()),
        found,
        *OPTIONS,
        *sandbox,
        f"--user-data-dir={folder}",
        "about:blank",
    ]
    process = subprocess.Popen(
        command,
        preexec_fn=pipes,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        yield Page(process, to_write, from_read)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(to_write)
        os.close(from_read)
        shutil.rmtree(folder, ignore_errors=True)
