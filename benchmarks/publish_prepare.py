"""Prepare a release without a store: make its days, and search new objects in a database of 18 million objects.

A part of `publish.py`; only `publish.py` may import it.
"""

import multiprocessing
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import psutil
from common import say

from storelab.core.campaign.release import Release as Settings
from storelab.datasets.release.build import Release
from storelab.datasets.release.state import Known

FILES = 162_000  # of a day at factor 1
STORED = {"mean": 20_950, "small": 2000}  # bytes of an object: files of 46 kB and of 4 kB
ALL = 18_000_000
MEMORY = Path("/dev/shm")


def _settings(kind: str, files: int) -> Settings:
    """Return settings for days of exactly this number of files, in the generated tree, with other sizes."""
    sizes = {"bytes_a_day": f"{STORED[kind] * FILES} B", "bytes_deviation": "0 B", "files_deviation": 0}
    return Settings.model_validate({"factor": files / FILES, "days": 2, **sizes})


def _second_day(settings: Settings, folder: str, result: Any) -> None:
    """Send the time and facts of the second day; the first one makes the tree. Runs in a separate process."""
    release = Release(settings)
    release.day(1, Path(folder))
    begun = time.monotonic()
    facts = release.day(2, Path(folder)).facts
    result.send((time.monotonic() - begun, {k: facts[k] for k in ("new_files", "raw_bytes", "new_bytes", "zlib")}))


class Watched:
    """The peak memory (GB, resident, shared pages counted in each process) of a process and its descendants."""

    def __init__(self, pid: int):
        self.process, self.most, self._ended = psutil.Process(pid), 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watched":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        ended = False
        while not ended:
            ended = self._ended.wait(0.05)  # the loop then samples a last time
            held = 0
            try:
                for process in (self.process, *self.process.children(recursive=True)):
                    held += process.memory_info().rss
            except psutil.Error:
                continue
            self.most = max(self.most, held / 1e9)


def _day(kind: str, files: int, at: Path | None) -> tuple[float, dict[str, Any], float]:
    """Return (seconds, facts, GB of memory) of a day."""
    folder = tempfile.mkdtemp(prefix="storelab-release-", dir=at)
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_second_day, args=(_settings(kind, files), folder, theirs))
    try:
        process.start()
        theirs.close()
        with Watched(process.pid or 0) as watched:
            seconds, facts = mine.recv()
        process.join()
    except EOFError:
        raise SystemExit("publish: a day could not be made, for the reason above") from None
    finally:
        process.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return seconds, facts, watched.most


def prepared(n: int, files: int) -> dict[str, list[float]]:
    """Return rates, memory and compression of days that are made in memory, and again on this disk.

    Rates are MB/s for `files` files of 46 kB, and files/s for four times that number of 4 kB.
    """
    values: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        values.setdefault(name, []).append(value)

    for i in range(n):
        for kind, count in (("mean", files), ("small", 4 * files)):
            for place, at in (("", MEMORY if MEMORY.is_dir() else None), ("disk_", None)):
                seconds, facts, held = _day(kind, count, at)
                speed, each = facts["raw_bytes"] / seconds / 1e6, facts["new_files"] / seconds
                note(
                    f"prepare_{place}mb_per_s" if kind == "mean" else f"prepare_{place}files_per_s",
                    speed if kind == "mean" else each,
                )
                note("prepare_gb", held)
                if not place:
                    note(f"prepare_{kind}_kb", facts["raw_bytes"] / facts["new_files"] / 1000)
                    note(f"prepare_{kind}_shrinks", facts["raw_bytes"] / facts["new_bytes"])
                say(
                    f"publish: {i + 1} of {n}: {kind} {place}{speed:.0f} MB/s, {each:.0f} files/s, "
                    f"{held:.2f} GB, {facts['zlib']}"
                )
    return values


def _names(random: Random, number: int) -> Iterator[tuple[str, int]]:
    for _ in range(number):
        yield random.randbytes(20).hex(), 46_000


def difference(n: int, objects: int, days: int, each: int) -> dict[str, list[float]]:
    """Return the time to find and store new names in a database on this disk, and its disk size and memory.

    The database has `objects` names, added in `days` days. Then n more days are added with `each` names, a tenth of
    them known.
    """
    values: dict[str, list[float]] = {}
    random = Random(18)
    with tempfile.TemporaryDirectory(prefix="storelab-known-") as folder:
        path = Path(folder) / "known.sqlite"
        begun, old = time.monotonic(), [("00" * 20, 1)]
        for day in range(1, days + 1):
            with Known(path) as known:
                _new(known, _names(random, objects // days - each // 10), day, objects // days - each // 10)
                old = list(_names(random, each // 10))
                _new(known, old, day, len(old))
            say(
                f"publish: database of {day * (objects // days) / 1e6:.1f} million objects "
                f"after {time.monotonic() - begun:.0f} s"
            )
        for i in range(n):
            asked = old + list(_names(random, each - len(old)))
            with Watched(psutil.Process().pid) as watched:
                begun = time.monotonic()
                with Known(path) as known:
                    _new(known, asked, days + 1 + i, each - len(old))
                values.setdefault("difference_18M_s", []).append(time.monotonic() - begun)
            held = sum(p.stat().st_size for p in Path(folder).iterdir()) / 1e9
            values.setdefault("difference_18M_disk_gb", []).append(held)
            values.setdefault("difference_18M_gb", []).append(watched.most)
    return values


def _new(known: Known, names: Iterable[tuple[str, int]], day: int, wanted: int) -> None:
    """Add names. End the benchmark unless `wanted` of them were new."""
    if (fresh := sum(1 for _ in known.add(names, day))) != wanted:
        raise SystemExit(f"publish: {fresh} names were new, {wanted} were expected")
