"""Uploading the objects of a data set: where the store speaks S3 by s5cmd, or, many small ones, by storelab's own load
generator if it is built, some thousand a second; else through fsspec.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from storelab import install
from storelab.core import records, units
from storelab.core.errors import MeasurementFailed
from storelab.engines import loadgen
from storelab.host import patience, proc, processes
from storelab.host.console import report
from storelab.host.patience import Patience
from storelab.install import golang
from storelab.stores.base import Store
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Bucket

THREADS = 8
MANY, SMALL = 1000, 10**6  # objects, and bytes of each, that loadgen uploads where it is built
COPY_RATE = 10**7  # bytes/s: the least that a store copies inside; nothing moves through s5cmd meanwhile
MOST_IN_FLIGHT = 256 * 10**6  # bytes of bodies held by the threads
BLOCK = 50_000  # objects that a process is told of
WORKERS = 32
ROUNDS = 3  # in which what failed is tried again
LONGEST_S = 4 * 3600  # of a process, as the program bounds it
SLOWEST = 10**7  # bytes/s: with fewer, objects in flight may take longer than the bound without progress


class Item(NamedTuple):
    """One object to upload: key below the bucket's prefix, number of its body, bytes of it."""

    bucket: Bucket
    key: str
    body: int
    size: int


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
        if _many_and_small(mine) and loadgen_reaches(store):
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
    named = [Item(bucket, key, number[path], size) for bucket, key, path in items]
    put_by_loadgen(store, shown.name, named, files, shown.step)


def put_cut(store: Store, name: str, items: list[tuple[Bucket, str, int, int]], files: list[Path]) -> None:
    """Upload (bucket, key below its prefix, number of a file, bytes): so much of that file's begin each. Raises
    MeasurementFailed."""
    shown = Shown(name, len(items))
    if loadgen_reaches(store):
        put_by_loadgen(store, name, [Item(*item) for item in items], files, shown.step)
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

    endpoint = store.endpoints(1)[0]
    lines = [
        s5cmd.copy_line(
            path,
            s5cmd.object_url(bucket.name, bucket.prefix + key),
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

    endpoint, keys = store.endpoints(1)[0], store.credentials(account)
    assert keys is not None
    before = shown.done
    # Files instead of pipes: nobody has to feed one while another is read.
    with TemporaryFile() as script, TemporaryFile() as errors:
        script.write(s5cmd.encoded("".join(lines)))
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


def loadgen_reaches(store: Store) -> bool:
    """Return whether the program is built and reaches the store: by its protocol, and without a proxy."""
    return (
        store.protocol == "s3"
        and golang.present(golang.LOADGEN, install.tools_folder())
        and not environment.proxy(store.endpoints(1)[0])
    )


def put_by_loadgen(
    store: Store, name: str, items: Sequence[Item], bodies: list[Path], step: Callable[[int], Any]
) -> None:
    """Upload the items, each by the account that owns its bucket. bodies: files of one length, no shorter than what is
    cut from them; step: is told how many more are done. Raises MeasurementFailed."""
    for account in sorted({item.bucket.account for item in items}):
        mine = [item for item in items if item.bucket.account == account]
        for begin in range(0, len(mine), BLOCK):
            left, said = mine[begin : begin + BLOCK], ""
            for _ in range(ROUNDS):
                left, said = _loadgen_round(store, name, account, left, bodies, step)
                if not left:
                    break
            else:
                raise MeasurementFailed(
                    f"staging {name} into {store.name}: {len(left)} of {len(items)} objects failed, also when tried "
                    f"{ROUNDS} times: {said}"
                )


def _loadgen_round(
    store: Store, name: str, account: int, items: list[Item], bodies: list[Path], step: Callable[[int], Any]
) -> tuple[list[Item], str]:
    """What of the items failed, and the first reason."""
    keys = store.credentials(account)
    assert keys is not None
    places = sorted({item.bucket for item in items}, key=lambda b: (b.name, b.prefix))
    number = {place: i for i, place in enumerate(places)}
    now = time.time_ns()
    with tempfile.TemporaryDirectory(prefix="storelab-staging-", dir=bodies[0].parent) as folder:
        ops = Path(folder) / "ops.parquet"
        job = {
            "schema": loadgen.SCHEMA,
            "endpoints": loadgen.described(store.endpoints(1)[:1]),
            "buckets": [place.name for place in places],
            "operations": [{"op": "PUT"}],
            "objects": {
                "key": [item.bucket.prefix + item.key for item in items],
                "bucket": [number[item.bucket] for item in items],
                "body": [item.body for item in items],
                "size": [item.size for item in items],
            },
            "object_size": bodies[0].stat().st_size,
            "bodies": [str(path) for path in bodies],
            "workers": min(WORKERS, len(items)),
            "records": str(ops),
            "start_ns": now,
            "deadline_ns": now + LONGEST_S * 10**9,
            "timeout_s": loadgen.TIMEOUT_S,
        }
        seconds = patience.STALLED_S + job["workers"] * max(item.size for item in items) / SLOWEST
        summary = _run_loadgen(job, keys.environ(), step, f"staging {name} into {store.name}", seconds)
        if not summary["errors"]:
            return [], ""
        table = records.read_table(ops, ["object", "error"])
        failed = set(table.filter(table["error"].is_valid())["object"].to_pylist())
    said = next(iter(summary["messages"].values()), "nobody says why")
    return [item for item in items if item.bucket.prefix + item.key in failed], said


def _run_loadgen(
    job: dict[str, Any],
    keys: dict[str, str],
    step: Callable[[int], Any],
    what: str = "staging",
    seconds: float = patience.STALLED_S,
) -> dict[str, Any]:
    """One run of the program, followed to its end; its summary.

    Raises MeasurementFailed, also where no object is stored for `seconds`: errors are no progress.
    """
    run = subprocess.Popen(
        [loadgen.binary()],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment.explicit(os.environ) | keys,
        preexec_fn=processes.die_with_parent(),
    )
    assert run.stdin and run.stderr
    done, other, summary = 0, [], None
    waiting = Patience(what, lambda: f"{done} of {len(job['objects']['key'])} objects are done", None, seconds)
    try:
        run.stdin.write(json.dumps(job).encode() + b"\n")
        run.stdin.close()
        for line in patience.lines(run.stderr, waiting):
            try:
                ((kind, told),) = json.loads(line).items()
            except (ValueError, AttributeError):
                other.append(line.decode(errors="replace").strip())
                continue
            if kind in ("progress", "summary") and (more := told["operations"] - done):
                step(more)
                done += more
                waiting.moved()
            summary = told if kind == "summary" else summary
        status = run.wait(10)
    except BrokenPipeError:
        status = run.wait(10)
    finally:
        processes.stop(run, 2.0)
    if summary is None or status:
        raise MeasurementFailed(f"staging: loadgen failed (status {status}): {processes.why_ended(other, 3)}")
    return summary
