"""Uploading the objects of a data set: by s5cmd where the store speaks S3, else through fsspec."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryFile
from typing import Any

from storelab.core import units
from storelab.core.errors import MeasurementFailed
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import Bucket

THREADS = 8
MOST_IN_FLIGHT = 256 * 10**6  # bytes of bodies held by the threads


def report(line: str) -> None:
    """Progress goes to standard error at once, so that Snakemake shows it."""
    print(line, file=sys.stderr, flush=True)


class Shown:
    """Objects done and the time left, at most every two seconds."""

    def __init__(self, name: str, total: int):
        self.name, self.total, self.done = name, total, 0
        self.begun = self.shown = time.monotonic()

    def step(self) -> None:
        self.done += 1
        if time.monotonic() - self.shown > 2:
            self.shown = time.monotonic()
            left = (self.shown - self.begun) / self.done * (self.total - self.done)
            report(
                f"    staging {self.name}: {self.done} of {self.total} objects, about "
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


def put_items(store: Store, name: str, items: list[tuple[Bucket, str, Path]]) -> None:
    """Upload (bucket, key below its prefix, file) each by the account that owns the bucket. Raises
    MeasurementFailed."""
    shown = Shown(name, len(items))
    for account in sorted({bucket.account for bucket, _, _ in items}):
        mine = [item for item in items if item[0].account == account]
        (_by_s5cmd if store.protocol == "s3" else _by_access)(store, account, mine, shown)


def _by_access(store: Store, account: int, items: list[tuple[Bucket, str, Path]], shown: Shown) -> None:
    access = store.access(account)
    largest = max(path.stat().st_size for _, _, path in items)
    bodies = {path: path.read_bytes() for _, _, path in items}
    with ThreadPoolExecutor(max(1, min(THREADS, MOST_IN_FLIGHT // max(largest, 1)))) as pool:
        for _ in pool.map(lambda item: access.write(item[0].name, item[0].prefix + item[1], bodies[item[2]]), items):
            shown.step()


def _by_s5cmd(store: Store, account: int, items: list[tuple[Bucket, str, Path]], shown: Shown) -> None:
    from storelab.engines.s5cmd import client

    endpoint = store.endpoints(1)[0]
    lines = [
        f"cp {client.part_option(endpoint, path.stat().st_size)}{path} s3://{bucket.name}/{bucket.prefix}{key}\n"
        for bucket, key, path in items
    ]
    _run_s5cmd(store, account, lines, shown)


def _copy_items(
    store: Store, source: tuple[Bucket, str, Path], items: list[tuple[Bucket, str, Path]], shown: Shown
) -> None:
    """Copies made by the store itself (CopyObject)."""
    bucket, key, _ = source
    origin = f"s3://{bucket.name}/{bucket.prefix}{key}"
    lines = [f"cp {origin} s3://{place.name}/{place.prefix}{name}\n" for place, name, _ in items]
    if lines:
        _run_s5cmd(store, bucket.account, lines, shown)


def _run_s5cmd(store: Store, account: int, lines: list[str], shown: Shown) -> None:
    """One `s5cmd run`. Raises MeasurementFailed where a line fails."""
    from storelab.engines.s5cmd import client

    endpoint, keys = store.endpoints(1)[0], store.credentials(account)
    assert keys is not None
    before = shown.done
    # Files instead of pipes: nobody has to feed one while another is read.
    with TemporaryFile("w+") as script, TemporaryFile("w+") as errors:
        script.writelines(lines)
        script.seek(0)
        environ = client.environ(endpoint) | keys.environ()
        run = subprocess.Popen(client.command(endpoint, 16), stdin=script, stdout=PIPE, stderr=errors, env=environ)
        with run as process:
            for line in process.stdout or ():
                if b'"success":true' in line:
                    shown.step()
        errors.seek(0)
        failed = len(lines) - (shown.done - before)
        if process.returncode or failed:
            raise MeasurementFailed(
                f"staging {shown.name} into {store.name}: {failed} of {len(lines)} objects failed: "
                f"{errors.readline().strip()[:300]}"
            )
