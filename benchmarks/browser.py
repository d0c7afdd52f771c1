"""Control a headless Chromium, in which tests and benchmarks open pages of storelab.

It opens a page, records its requests and console messages, types, clicks and takes pictures. Pages in files are opened
without a network. It uses the DevTools protocol over a pipe, and therefore needs no port.
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
    """Return the path of an installed Chromium, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """A tab of the browser.

    requests: addresses that the page requested, without the page itself; errors: its error messages and exceptions.
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
            message = self._next(end)
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message.get("result", {})
            self._note(message)

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

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description") or details["text"])
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "assert"):
                self.errors.append(" ".join(str(a.get("value", a.get("description", ""))) for a in parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.errors.append(parameters["entry"]["text"])

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, awaited, as JSON. Raise RuntimeError if it throws."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return found["result"].get("value")

    def until(self, expression: str, limit_s: float = 20.0) -> Any:
        """Return the first value of an expression that is true. Raise TimeoutError if there is none in time."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if value := self.evaluate(expression):
                return value
            time.sleep(0.02)
        raise TimeoutError(expression)

    def open(self, path: Path, fragment: str = "", size: tuple[int, int] = (1400, 900), dark: bool = False) -> float:
        """Show a file; return the seconds until its first view is painted. Clear the recorded requests and errors."""
        return self.visit(f"{path.resolve().as_uri()}{fragment}", size, dark)

    def visit(self, url: str, size: tuple[int, int] = (1400, 900), dark: bool = False) -> float:
        """Show a page by its URL, like `open`."""
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
        """Show another view of the page."""
        before = self.evaluate("document.documentElement.dataset.ready")
        self.evaluate(f"location.hash = {json.dumps(fragment)}; true")
        self.until(f"document.documentElement.dataset.ready !== {json.dumps(before)}")

    def drawn(self) -> None:
        """Wait until the first two charts are drawn."""
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
        """Save the whole page as PNG, with a height of at most `most` pixels."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], most), "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(data))


def without_network() -> list[str]:
    """Return the command prefix that disables the network; empty if this needs root, or `unshare` is missing."""
    return ["unshare", "--net"] if os.geteuid() == 0 and shutil.which("unshare") else []


@contextmanager
def page(network: bool = False) -> Iterator[Page]:
    """Yield a tab of a new Chromium and stop it afterwards. Raise RuntimeError if none is installed.

    network: the page may use the network.
    """
    found = program()
    if found is None:
        raise RuntimeError("chromium is not installed")
    folder = tempfile.mkdtemp(prefix="storelab-browser-")
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()

    def pipes() -> None:
        first, second = os.dup(to_read), os.dup(from_write)  # the pipes may already have the numbers 3 and 4
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
