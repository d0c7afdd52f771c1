"""Upload the objects of a data set.

S3 stores are filled by s5cmd. Many small objects are uploaded by loadgen if it is built, with some thousand objects per
second. Other stores are filled through fsspec.
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
# loadgen is used, if it is built, for at least this number of objects of at most this size in bytes
MANY, SMALL = 1000, 10**6
COPY_RATE = 10**7  # bytes/s: minimum rate of copies in a store, during which s5cmd transfers no data
MAX_IN_FLIGHT = 256 * 10**6  # maximum bytes of bodies in the threads
BLOCK = 50_000  # number of objects for one process
WORKERS = 32
ROUNDS = 3  # number of attempts for objects that failed
LONGEST_S = 4 * 3600  # maximum duration of a process in s
SLOWEST = 10**7  # bytes/s: at a lower rate, objects in flight can take longer than the limit without progress


class Item(NamedTuple):
    """One object to upload: key relative to the bucket's prefix, number of its body, and its size in bytes."""

    bucket: Bucket
    key: str
    body: int
    size: int


class ProgressLine:
    """A progress line with the number of completed objects (or `noun`) and the remaining time.

    It is printed at most every two seconds.
    """

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
    """Upload all objects of the manifest, several at a time, each by the account that owns its bucket.

    Raises MeasurementFailed.
    """
    columns, name = manifest["objects"], manifest["dataset"]["name"]
    items = [
        (places[b], key, files[body])
        for key, b, body in zip(columns["key"], columns["bucket"], columns["body"], strict=True)
    ]
    if (
        manifest["dataset"]["kind"] == "root" and store.protocol == "s3"
    ):  # large files are sent once, and then copied in the store
        put_items(store, name, items[:1])
        _copy_items(store, items[0], items[1:], ProgressLine(name, len(items) - 1))
    else:
        put_items(store, name, items)
    size = sum(manifest["bodies"][b]["size"] for b in columns["body"])
    report(f"    staged {name} in {store.name}: {len(items)} objects, {units.human_size(size)}")


def _follow(run: "subprocess.Popen[bytes]", shown: ProgressLine, what: str, seconds: float) -> None:
    """Count the objects that s5cmd reports as done, until it ends. Raises MeasurementFailed if there is no progress.

    There is progress if an object is done, or if the process reads or writes, because a large object takes time.
    """
    waiting = Patience(what, shown.state, lambda: proc.moved_bytes(run.pid), seconds)
    assert run.stdout
    for line in patience.lines(run.stdout, waiting):
        if b'"success":true' in line:
            shown.step()
            waiting.moved()


def put_items(
    store: Store, name: str, items: list[tuple[Bucket, str, Path]], shown: ProgressLine | None = None
) -> None:
    """Upload (bucket, relative key, file), each by the account that owns the bucket. Raises MeasurementFailed.

    shown: a progress line that is used for several calls.
    """
    shown = shown or ProgressLine(name, len(items))
    for account in sorted({bucket.account for bucket, _, _ in items}):
        mine = [item for item in items if item[0].account == account]
        if _many_and_small(mine) and loadgen_reaches(store):
            _by_loadgen(store, mine, shown)
        else:
            (_by_s5cmd if store.protocol == "s3" else _by_access)(store, account, mine, shown)


def _many_and_small(items: list[tuple[Bucket, str, Path]]) -> bool:
    """Return True if the time depends on the number of objects and not on their bytes."""
    files = {path for _, _, path in items}
    sizes = {path.stat().st_size for path in files}
    return len(items) >= MANY and len(sizes) == 1 and max(sizes) <= SMALL


def _by_loadgen(store: Store, items: list[tuple[Bucket, str, Path]], shown: ProgressLine) -> None:
    files = sorted({path for _, _, path in items})
    number, size = {path: i for i, path in enumerate(files)}, files[0].stat().st_size
    named = [Item(bucket, key, number[path], size) for bucket, key, path in items]
    put_by_loadgen(store, shown.name, named, files, shown.step)


def put_cut(store: Store, name: str, items: list[tuple[Bucket, str, int, int]], files: list[Path]) -> None:
    """Upload (bucket, relative key, number of a file, bytes): the first `bytes` bytes of this file.

    Raises MeasurementFailed.
    """
    shown = ProgressLine(name, len(items))
    if loadgen_reaches(store):
        put_by_loadgen(store, name, [Item(*item) for item in items], files, shown.step)
        return

    def write(bucket: Bucket, key: str, body: int, size: int) -> None:
        with open(files[body], "rb") as f:
            store.access(bucket.account).write(bucket.name, bucket.prefix + key, f.read(size))

    _in_threads(write, items, max((size for *_, size in items), default=0), shown)


def _by_access(store: Store, account: int, items: list[tuple[Bucket, str, Path]], shown: ProgressLine) -> None:
    access = store.access(account)
    bodies = {path: path.read_bytes() for _, _, path in items}
    largest = max(map(len, bodies.values()))
    _in_threads(lambda b, key, path: access.write(b.name, b.prefix + key, bodies[path]), items, largest, shown)


def _in_threads(
    write: Callable[..., None], items: Sequence[tuple[Any, ...]], largest: int, shown: ProgressLine
) -> None:
    """Call `write` for each item in several threads, until one call fails. Each access has its own timeouts."""
    pool = ThreadPoolExecutor(max(1, min(THREADS, MAX_IN_FLIGHT // max(largest, 1))))
    try:
        for _ in pool.map(lambda item: write(*item), items):
            shown.step()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _by_s5cmd(store: Store, account: int, items: list[tuple[Bucket, str, Path]], shown: ProgressLine) -> None:
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
    store: Store, source: tuple[Bucket, str, Path], items: list[tuple[Bucket, str, Path]], shown: ProgressLine
) -> None:
    """Copy the source inside the store (CopyObject)."""
    from storelab.engines import s5cmd

    bucket, key, _ = source
    origin = s5cmd.object_url(bucket.name, bucket.prefix + key)
    lines = [s5cmd.copy_line(origin, s5cmd.object_url(place.name, place.prefix + name)) for place, name, _ in items]
    if lines:
        seconds = patience.STALLED_S + max(path.stat().st_size for _, _, path in items) / COPY_RATE
        _run_s5cmd(store, bucket.account, lines, shown, seconds)


def _run_s5cmd(
    store: Store, account: int, lines: list[str], shown: ProgressLine, seconds: float = patience.STALLED_S
) -> None:
    """Run `s5cmd run` once. It ends with this process. seconds: maximum time without progress.

    Raises MeasurementFailed if a line fails, or if there is no progress.
    """
    from storelab.engines import s5cmd

    endpoint, keys = store.endpoints(1)[0], store.credentials(account)
    assert keys is not None
    before = shown.done
    # Files are used instead of pipes, because a full pipe would block s5cmd while another pipe is read.
    with TemporaryFile() as script, TemporaryFile() as errors:
        script.write(s5cmd.encoded("".join(lines)))
        script.seek(0)
        run = subprocess.Popen(
            s5cmd.command(endpoint, 16),
            stdin=script,
            stdout=PIPE,
            stderr=errors,
            env=environment.client(os.environ, endpoint, keys),
            preexec_fn=processes.die_with_parent(),  # it must not continue, because its environment contains the keys
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
                f"{s5cmd.error_text(errors.readline().decode(errors='replace').strip())[:300]}"
            )


def loadgen_reaches(store: Store) -> bool:
    """Return True if loadgen is built and can access the store: by its protocol, and without a proxy."""
    return (
        store.protocol == "s3"
        and golang.present(golang.LOADGEN, install.tools_folder())
        and not environment.proxy(store.endpoints(1)[0])
    )


def put_by_loadgen(
    store: Store, name: str, items: Sequence[Item], bodies: list[Path], step: Callable[[int], Any]
) -> None:
    """Upload the items, each by the account that owns its bucket. Raises MeasurementFailed.

    bodies: files of the same length, which is at least the size of the largest item; step: a function that is called
    with the number of objects done since its last call.
    """
    for account in sorted({item.bucket.account for item in items}):
        mine = [item for item in items if item.bucket.account == account]
        for begin in range(0, len(mine), BLOCK):
            left, reason = mine[begin : begin + BLOCK], ""
            for _ in range(ROUNDS):
                left, reason = _loadgen_round(store, name, account, left, bodies, step)
                if not left:
                    break
            else:
                raise MeasurementFailed(
                    f"staging {name} into {store.name}: {len(left)} of {len(items)} objects failed, after "
                    f"{ROUNDS} attempts: {reason}"
                )


def _loadgen_round(
    store: Store, name: str, account: int, items: list[Item], bodies: list[Path], step: Callable[[int], Any]
) -> tuple[list[Item], str]:
    """Return the items that failed, and the first reason."""
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
    reason = next(iter(summary["messages"].values()), "no reason was reported")
    return [item for item in items if item.bucket.prefix + item.key in failed], reason


def _run_loadgen(
    job: dict[str, Any],
    keys: dict[str, str],
    step: Callable[[int], Any],
    what: str = "staging",
    seconds: float = patience.STALLED_S,
) -> dict[str, Any]:
    """Run loadgen once, wait until it ends, and return its summary.

    Raises MeasurementFailed, also if no object is stored for `seconds`. Errors do not count as progress.
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
                ((kind, values),) = json.loads(line).items()
            except (ValueError, AttributeError):
                other.append(line.decode(errors="replace").strip())
                continue
            if kind in ("progress", "summary") and (more := values["operations"] - done):
                step(more)
                done += more
                waiting.moved()
            summary = values if kind == "summary" else summary
        status = run.wait(10)
    except BrokenPipeError:
        status = run.wait(10)
    finally:
        processes.stop(run, 2.0)
    if summary is None or status:
        raise MeasurementFailed(f"staging: loadgen failed (status {status}): {processes.why_ended(other, 3)}")
    return summary
