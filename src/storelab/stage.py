"""Staging: a data set -> objects in the store and a manifest (level 3, measuring side). Staging twice moves nothing.

Proof that a data set lies in a store is an object of storelab's own beside it, `<data set>/.staged`, which holds the SHA-256
of the manifest; it is written last.
"""

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storelab import records, units
from storelab.config import Config
from storelab.datasets import payload
from storelab.model import MeasurementFailed, UserError
from storelab.stores.base import Bucket, Store

Progress = Callable[[str], None]


def manifest_path(config: Config, store: str, dataset: dict[str, Any]) -> Path:
    return config.raw / "manifests" / store / f"{dataset['name']}.json"


def dataset_bytes(dataset: dict[str, Any]) -> int:
    """Bytes that a data set takes in a store; of a ROOT file an upper estimate before it is made."""
    return dataset["objects"] * dataset["object_size"] if dataset["kind"] == "payload" else 50_000_000


def scratch_dir(config: Config) -> Path:
    """storelab's own folder on the scratch file system. Raises UserError where that is not there."""
    base = Path(config.scratch)
    if not base.is_dir():
        raise UserError("config.yaml: scratch", f"{config.scratch!r} is no folder", "name a tmpfs of this machine")
    folder = base / f"storelab-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def buckets_of(config: Config, store: Store, count: int) -> list[Bucket]:
    return [store.bucket(config.name, i) for i in range(count)]


def ensure(config: Config, store: Store, dataset: dict[str, Any], progress: Progress = print, again: bool = False) -> Path:
    """Make sure that `dataset` lies in `store` (which is up); returns the manifest's path.

    Raises UserError (read-only store without it, no room, foreign bucket) and MeasurementFailed (upload incomplete).
    """
    from storelab.stores import buckets, objects

    path = manifest_path(config, store.name, dataset)
    places = buckets_of(config, store, dataset["buckets"])
    s3, place = buckets.for_store(store), f"stores.{store.name}"
    marker = f"{places[0].prefix}data/{dataset['name']}/.staged"
    if path.exists() and not again and objects.read(s3, places[0].name, marker, place) == records.sha256(path).encode():
        return path
    if records.sealed(config.raw) and not path.exists():
        raise UserError(str(config.raw), "the campaign is sealed", "give the new campaign another name")
    build = _payload if dataset["kind"] == "payload" else _root
    manifest, files = build(config, store, dataset, places, path.parent)
    text = (json.dumps(manifest, indent=1) + "\n").encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    if again or objects.read(s3, places[0].name, marker, place) != digest:
        if getattr(store.settings, "read_only", False):
            raise UserError(
                f"stores.{store.name}",
                f"data set {dataset['name']} is not staged and the store is read-only",
                "stage it with a writable account first",
            )
        _check_room(store, dataset)
        buckets.ensure(store, store.endpoints(1)[0], config.name, places)
        _upload(store, manifest, files, progress)
        _verify(s3, places, manifest)
        objects.write(s3, places[0].name, marker, digest, place)
    records.write_atomic(path, text)
    return path


def _payload(
    config: Config, store: Store, dataset: dict[str, Any], places: list[Bucket], folder: Path
) -> tuple[dict[str, Any], list[Path]]:
    files = payload.body_files(scratch_dir(config), dataset["seed"], dataset["object_size"])
    manifest = _manifest(store, dataset, places, payload.body_sums(files), payload.objects(dataset))
    return manifest, files


def _root(config: Config, store: Store, dataset: dict[str, Any], places: list[Bucket], folder: Path) -> tuple[dict[str, Any], list[Path]]:
    from storelab.datasets import baskets, rootfile

    path = scratch_dir(config) / f"{dataset['name']}-{dataset['seed']}" / "events.root"
    path.parent.mkdir(exist_ok=True)
    facts = rootfile.generate(path, dataset["scale"], dataset["seed"])
    folder.mkdir(parents=True, exist_ok=True)
    sidecar = folder / f"{dataset['name']}.baskets.parquet"
    baskets.write(baskets.basket_table(path), sidecar)
    body = [{"size": facts["bytes"], "sha256": facts["sha256"]}]
    objects = {"key": [f"data/{dataset['name']}/events.root"], "bucket": [0], "body": [0]}
    return _manifest(store, dataset, places, body, objects) | {"root": {**facts, "sidecar": sidecar.name}}, [path]


def _manifest(
    store: Store, dataset: dict[str, Any], places: list[Bucket], bodies: list[dict[str, Any]], objects: dict[str, Any]
) -> dict[str, Any]:
    return {
        "schema": 1,
        "dataset": dataset,
        "store": store.name,
        "buckets": [[b.name, b.prefix] for b in places],
        "bodies": bodies,
        "objects": objects,
    }


def _check_room(store: Store, dataset: dict[str, Any]) -> None:
    free, need = store.free_bytes(), dataset_bytes(dataset)
    if free is not None and free < need:
        raise UserError(
            f"stores.{store.name}",
            f"{units.human_size(need)} of data set {dataset['name']} do not fit into {units.human_size(free)} free",
            "make room, or lower `objects`",
        )


def _upload(store: Store, manifest: dict[str, Any], files: list[Path], progress: Progress) -> None:
    """Upload by one `s5cmd run`, several at a time. Shows objects done and the time left at most every two seconds."""
    from storelab.engines import s5cmd

    columns, places = manifest["objects"], manifest["buckets"]
    lines = [
        f"cp {files[body]} s3://{places[b][0]}/{places[b][1]}{key}\n"
        for key, b, body in zip(columns["key"], columns["bucket"], columns["body"], strict=True)
    ]
    endpoint = store.endpoints(1)[0]
    environ = s5cmd.environ(endpoint) | store.credentials().environ()
    begun = shown = time.monotonic()
    process = subprocess.Popen(
        s5cmd.command(endpoint, 16), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, text=True
    )
    assert process.stdin and process.stdout and process.stderr
    errors: list[str] = []
    readers = threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True)
    feeder = threading.Thread(target=_feed, args=(process, lines), daemon=True)
    readers.start()
    feeder.start()
    done, total, size = 0, len(lines), sum(manifest["bodies"][b]["size"] for b in columns["body"])
    for line in process.stdout:
        done += '"success":true' in line
        if time.monotonic() - shown > 2:
            shown = time.monotonic()
            left = (shown - begun) / max(done, 1) * (total - done)
            progress(f"    staging {manifest['dataset']['name']}: {done} of {total} objects, about {units.human_duration(left * 1e9)} left")
    status = process.wait()
    readers.join(5)
    if status or done != total:
        raise MeasurementFailed(
            f"staging {manifest['dataset']['name']} into {store.name}: {total - done} of {total} objects failed: {' '.join(errors[:1]).strip()[:300]}"
        )
    progress(f"    staged {manifest['dataset']['name']} in {store.name}: {total} objects, {units.human_size(size)}")


def _feed(process: subprocess.Popen, lines: list[str]) -> None:
    assert process.stdin
    try:
        process.stdin.writelines(lines)
        process.stdin.close()
    except BrokenPipeError:
        return  # s5cmd ended early: its status and count say so


def _verify(s3: Any, places: list[Bucket], manifest: dict[str, Any]) -> None:
    """Every object is listed with its size. Raises MeasurementFailed."""
    from storelab.stores import buckets

    listed = {}
    for index, place in enumerate(places):
        for key, size in buckets.list_keys(s3, place, f"data/{manifest['dataset']['name']}/"):
            listed[index, key.removeprefix(place.prefix)] = size
    columns = manifest["objects"]
    for key, bucket, body in zip(columns["key"], columns["bucket"], columns["body"], strict=True):
        if listed.get((bucket, key)) != manifest["bodies"][body]["size"]:
            raise MeasurementFailed(
                f"staging: the store lists {listed.get((bucket, key))} B for {key} instead of {manifest['bodies'][body]['size']} B"
            )


def report(line: str) -> None:
    """Progress goes to standard error at once, so that Snakemake shows it."""
    print(line, file=sys.stderr, flush=True)
