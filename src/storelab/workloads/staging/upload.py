"""Uploading the objects of a data set: where the store speaks S3 by s5cmd, or, many small ones, by loadgen if it is
built; else through fsspec."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryFile
from typing import Any

from storelab.core import units
from storelab.core.errors import MeasurementFailed
from storelab.host import patience, proc, processes
from storelab.host.console import report
from storelab.host.patience import Patience
from storelab.stores.base import Store
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.staging import by_loadgen

THREADS = 8
MANY, SMALL = 1000, 10**6  # objects, and bytes of each, that loadgen uploads where it is built
COPY_RATE = 10**7  # bytes/s: the least that a store copies inside; nothing moves through s5cmd meanwhile
MOST_IN_FLIGHT = 256 * 10**6  # bytes of bodies held by the threads


class Shown:
    """Objects done (or what else `noun` says) and the time left, at most every two seconds."""

    def __init__(self, name: str, total: int, verb: str = "staging", noun: str = "objects"):
        self.name, self.total, self.done, self.verb, self.noun = name, total, 0, verb, noun
        self.begun = self.shown = time.monotonic()

    def state(self) -> str:
        return f"{self.done} of {self.total} {self.noun} are done"

    def step(self, more: int = 1) -> None:
        self.done += more
        if time.monotonic() - self.shown > 2:
            self.shown = time.monotonic()
            left = (self.shown - self.begun) / max(1, self.done) * (self.total - self.done)
            report(
                f"    {self.verb} {self.name}: {self.done} of {self.total} {self.noun}, about "
                f"{units.human_duration(left * 1e9)} left"
            )


def upload(store: Store, places: list[Bucket], manifest: dict[str, Any], files: list[Path]) -> None:
    """All objects of the manifest, several at a time, each by the account that owns its bucket. Raises
    MeasurementFailed."""
    columns, name = manifest["objects"], manifest["dataset"]["name"]
    items = [
        (places[b], key, files[body])
        for key, b, body in zip(columns["key"], columns["bucket"], columns["body"], strict=True)
    ]
    if (
        manifest["dataset"]["kind"] == "root" and store.protocol == "s3"
    ):  # large: sent once, then copied inside the store
        put_items(store, name, items[:1])
        _copy_items(store, items[0], items[1:], Shown(name, len(items) - 1))
    else:
        put_items(store, name, items)
    size = sum(manifest["bodies"][b]["size"] for b in columns["body"])
    report(f"    staged {name} in {store.name}: {len(items)} objects, {units.human_size(size)}")


def _follow(run: "subprocess.Popen[bytes]", shown: Shown, what: str, seconds: float) -> None:
    """Count what s5cmd says is done, until it ends. Raises MeasurementFailed where nothing moves any more.

    Something moves when an object is done, or the process reads or writes: a large object takes its time.
    """
    waiting = Patience(what, shown.state, lambda: proc.moved_bytes(run.pid), seconds)
    assert run.stdout
    for line in patience.lines(run.stdout, waiting):
        if b'"success":true' in line:
            shown.step()
            waiting.moved()


def put_items(store: Store, name: str, items: list[tuple[Bucket, str, Path]], shown: Shown | None = None) -> None:
    """Upload (bucket, key below its prefix, file) each by the account that owns the bucket. shown: progress over
    several calls. Raises MeasurementFailed."""
    shown = shown or Shown(name, len(items))
    for account in sorted({bucket.account for bucket, _, _ in items}):
        mine = [item for item in items if item[0].account == account]
        if _many_and_small(mine) and by_loadgen.able(store):
            _by_loadgen(store, mine, shown)
        else:
            (_by_s5cmd if store.protocol == "s3" else _by_access)(store, account, mine, shown)


def _many_and_small(items: list[tuple[Bucket, str, Path]]) -> bool:
    """Where the work for each object counts, not its bytes."""
    files = {path for _, _, path in items}
    sizes = {path.stat().st_size for path in files}
    return len(items) >= MANY and len(sizes) == 1 and max(sizes) <= SMALL


def _by_loadgen(store: Store, items: list[tuple[Bucket, str, Path]], shown: Shown) -> None:
    files = sorted({path for _, _, path in items})
    number, size = {path: i for i, path in enumerate(files)}, files[0].stat().st_size
    named = [by_loadgen.Item(bucket, key, number[path], size) for bucket, key, path in items]
    by_loadgen.put(store, shown.name, named, files, shown.step)


def put_cut(store: Store, name: str, items: list[tuple[Bucket, str, int, int]], files: list[Path]) -> None:
    """Upload (bucket, key below its prefix, number of a file, bytes): so much of that file's begin each. Raises
    MeasurementFailed."""
    shown = Shown(name, len(items))
    if by_loadgen.able(store):
        by_loadgen.put(store, name, [by_loadgen.Item(*item) for item in items], files, shown.step)
        return

    def write(bucket: Bucket, key: str, body: int, size: int) -> None:
        with open(files[body], "rb") as f:
            store.access(bucket.account).write(bucket.name, bucket.prefix + key, f.read(size))

    _in_threads(write, items, max((size for *_, size in items), default=0), shown)


def _by_access(store: Store, account: int, items: list[tuple[Bucket, str, Path]], shown: Shown) -> None:
    access = store.access(account)
    bodies = {path: path.read_bytes() for _, _, path in items}
    largest = max(map(len, bodies.values()))
    _in_threads(lambda b, key, path: access.write(b.name, b.prefix + key, bodies[path]), items, largest, shown)


def _in_threads(write: Callable[..., None], items: Sequence[tuple[Any, ...]], largest: int, shown: Shown) -> None:
    """Call `write` for each item, by several threads, until one fails. Each access ends by itself what hangs."""
    pool = ThreadPoolExecutor(max(1, min(THREADS, MOST_IN_FLIGHT // max(largest, 1))))
    try:
        for _ in pool.map(lambda item: write(*item), items):
            shown.step()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _by_s5cmd(store: Store, account: int, items: list[tuple[Bucket, str, Path]], shown: Shown) -> None:
    from storelab.engines import s5cmd
    from storelab.engines import s5cmd as commands

    endpoint = store.endpoints(1)[0]
    lines = [
        commands.copy_line(
            path,
            commands.object_url(bucket.name, bucket.prefix + key),
            s5cmd.part_option(endpoint, path.stat().st_size),
        )
        for bucket, key, path in items
    ]
    _run_s5cmd(store, account, lines, shown)


def _copy_items(
    store: Store, source: tuple[Bucket, str, Path], items: list[tuple[Bucket, str, Path]], shown: Shown
) -> None:
    """Copies made by the store itself (CopyObject)."""
    from storelab.engines import s5cmd

    bucket, key, _ = source
    origin = s5cmd.object_url(bucket.name, bucket.prefix + key)
    lines = [s5cmd.copy_line(origin, s5cmd.object_url(place.name, place.prefix + name)) for place, name, _ in items]
    if lines:
        seconds = patience.STALLED_S + max(path.stat().st_size for _, _, path in items) / COPY_RATE
        _run_s5cmd(store, bucket.account, lines, shown, seconds)


def _run_s5cmd(store: Store, account: int, lines: list[str], shown: Shown, seconds: float = patience.STALLED_S) -> None:
    """One `s5cmd run`, which ends with this process. seconds: in which something must move.

    Raises MeasurementFailed where a line fails, or nothing moves any more.
    """
    from storelab.engines import s5cmd
    from storelab.engines import s5cmd as commands

    endpoint, keys = store.endpoints(1)[0], store.credentials(account)
    assert keys is not None
    before = shown.done
    # Files instead of pipes: nobody has to feed one while another is read.
    with TemporaryFile() as script, TemporaryFile() as errors:
        script.write(commands.encoded("".join(lines)))
        script.seek(0)
        run = subprocess.Popen(
            s5cmd.command(endpoint, 16),
            stdin=script,
            stdout=PIPE,
            stderr=errors,
            env=environment.client(os.environ, endpoint, keys),
            preexec_fn=processes.die_with_parent(),  # its environment holds the keys
        )
        try:
            _follow(run, shown, f"staging {shown.name} into {store.name}", seconds)
            run.wait(10)
        finally:
            processes.stop(run, 2.0)
        errors.seek(0)
        failed = len(lines) - (shown.done - before)
        if run.returncode or failed:
            raise MeasurementFailed(
                f"staging {shown.name} into {store.name}: {failed} of {len(lines)} objects failed: "
                f"{errors.readline().decode(errors='replace').strip()[:300]}"
            )
