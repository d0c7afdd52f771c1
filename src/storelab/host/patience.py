"""End operations on a store outside of measurements after 60 s without progress.

Timeouts of libraries limit only the time between two packets. Operations would never end if a server sends a byte from
time to time, or endless pages.
"""

import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, Full, Queue
from typing import IO, Any, TypeVar

from storelab.core.errors import MeasurementFailed
from storelab.host import console, proc

STALLED_S = 60.0  # seconds without progress after which an operation is stopped
MESSAGE_S = 10.0  # seconds between two messages about slow progress
LOOK_S = 0.5  # seconds between two checks
BLOCK = 1000  # items that a thread passes to the caller together
MIN_PROGRESS_BYTES = 64_000  # traffic that counts as progress: more than keep-alive packets need

T = TypeVar("T")
_last_message = [0.0]  # time of the last message from any thread
_traffic, _traffic_lock = [-LOOK_S, 0.0], threading.Lock()  # time and result of the last count of this process's bytes


class Patience:
    """A time limit for one operation. `look` raises MeasurementFailed after `seconds` without progress.

    A call of `moved` is progress, and a change of `traffic` by 64 kB.
    """

    def __init__(
        self,
        what: str,
        done: Callable[[], str] = str,
        traffic: Callable[[], float] | None = None,
        seconds: float | None = None,
    ):
        self.what, self.done, self.traffic = what, done, traffic
        self.seconds = STALLED_S if seconds is None else seconds
        self.bytes = traffic() if traffic else 0.0
        self.last = time.monotonic()

    def moved(self) -> None:
        self.last = time.monotonic()

    def look(self) -> None:
        now = time.monotonic()
        if (
            self.traffic and abs((seen := self.traffic()) - self.bytes) >= MIN_PROGRESS_BYTES
        ):  # abs: closed connections reduce it
            self.bytes, self.last = seen, now
        state = f", {self.done()}" if self.done() else ""
        if (waited := now - self.last) >= self.seconds:
            raise MeasurementFailed(f"{self.what}: no progress for {self.seconds:.0f} s{state}")
        if waited >= MESSAGE_S and now - _last_message[0] >= MESSAGE_S:
            _last_message[0] = now
            console.report(
                f"    {self.what}: no progress for {waited:.0f} s{state}; it will be stopped after {self.seconds:.0f} s"
            )


def process_traffic() -> float:
    """Return the bytes that this process has transferred. They are counted at most every LOOK_S seconds."""
    with _traffic_lock:
        if (now := time.monotonic()) - _traffic[0] >= LOOK_S:
            _traffic[:] = now, proc.moved_bytes(os.getpid()) + proc.socket_bytes()
        return _traffic[1]


def call(what: str, function: Callable[[], T]) -> T:
    """Call the function in a thread and return its result. Without progress, stop waiting for the thread.

    Raises
    ------
    MeasurementFailed
        Nothing was transferred for 60 s.
    """
    out: list[tuple[bool, Any]] = []
    ended = threading.Event()

    def run() -> None:
        try:
            out.append((True, function()))
        except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
            out.append((False, error))
        ended.set()

    patience = Patience(what, traffic=process_traffic)
    threading.Thread(target=run, daemon=True, name="store").start()
    while not ended.wait(LOOK_S):
        patience.look()
    good, value = out[0]
    if good:
        return value
    try:
        raise value
    finally:
        del value, out[:]  # avoids a reference cycle of exception and frame


def stream(what: str, items: Callable[[], Iterator[T]]) -> Iterator[T]:
    """Yield the items of an iterator that runs in a thread as in `call`. Report the number of items if it is slow."""
    queue: Queue[tuple[str, Any]] = Queue(10)
    closed = threading.Event()

    def put(kind: str, value: Any) -> None:
        while not closed.is_set():
            try:
                queue.put((kind, value), timeout=LOOK_S)
                return
            except Full:
                continue

    def run() -> None:
        part: list[T] = []
        sent = 0.0
        try:
            for item in items():
                part.append(item)
                if len(part) >= BLOCK or time.monotonic() - sent >= LOOK_S:
                    put("items", part)
                    part, sent = [], time.monotonic()
                if closed.is_set():
                    return
            put("items", part)
            put("end", None)
        except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
            put("items", part)
            put("error", error)

    came = 0
    patience = Patience(what, lambda: f"{came} came" if came else "", process_traffic)
    threading.Thread(target=run, daemon=True, name="store").start()
    shown = time.monotonic()
    try:
        while True:
            try:
                kind, value = queue.get(timeout=LOOK_S)
            except Empty:
                patience.look()
                continue
            if kind == "end":
                return
            if kind == "error":
                raise value
            came += len(value)
            if (now := time.monotonic()) - shown >= MESSAGE_S:
                shown = now
                console.report(f"    {what}: {came} so far")
            yield from value
            patience.moved()  # the time of the caller does not count
    finally:
        closed.set()


def lines(pipe: IO[bytes], patience: Patience) -> Iterator[bytes]:
    """Yield the lines that a process prints, without line ends, until it closes the pipe.

    The caller reports progress to `patience`.
    """
    rest = b""
    while True:
        if select.select([pipe], [], [], LOOK_S)[0]:
            if not (data := os.read(pipe.fileno(), 1 << 16)):
                break
            *whole, rest = (rest + data).split(b"\n")
            yield from whole
        patience.look()
    if rest:
        yield rest
