"""Stage data sets: objects in the store, and a manifest. Staging a second time transfers nothing.

The proof that a data set is in a store is an object of storelab next to it, `<data set>/.staged`, with the SHA-256 of
the manifest. It is written last. In folders with many small keys, existing objects are kept, and the others are
uploaded in blocks. An interrupted staging therefore continues where it stopped, and memory is limited for any number of
keys. `Summary` has what a plan requires of a store and of tmpfs before the clients start.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import folders, integrity, records, units
from storelab.core.axes import mixes
from storelab.core.campaign.release import a_day, a_night
from storelab.core.engines import CATALOGUE
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.datasets import own_file, payload
from storelab.datasets.payload import BODIES
from storelab.datasets.root import baskets, generated
from storelab.host import patience, scratch
from storelab.stores.base import Store
from storelab.stores.protocols.access import Access, AccessRefused, NoSuchBucket
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.staging import buckets, upload, written
from storelab.workloads.staging.upload import ProgressLine, report
from storelab.workloads.staging.written import root_copies

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config


BLOCK = 50_000  # number of keys, in a folder of many keys, that are passed to s5cmd at a time
MAX_OTHERS = 10**6  # maximum number of foreign objects that are listed among those of a data set
UNKNOWN_BYTES = 10**9  # assumed size of a file behind a URL before it is downloaded


def manifest_path(config: "Config", store: str, dataset: dict[str, Any]) -> Path:
    """Return the path of the file that lists the staged objects of a data set in a store."""
    return config.raw / "manifests" / store / f"{dataset['name']}.json"


def dataset_bytes(dataset: dict[str, Any]) -> int:
    """Return the bytes of a data set in a store. For a ROOT file that is not made yet, return an upper estimate."""
    if dataset["kind"] != "root":
        return dataset["objects"] * dataset["object_size"]
    copies = root_copies(dataset)
    if "file" in dataset:
        path = Path(dataset["file"]).expanduser()
        return copies * (path.stat().st_size if path.is_file() else UNKNOWN_BYTES)
    return copies * generated.most_bytes(dataset["scale"])


def buckets_of(config: "Config", store: Store, count: int, accounts: int = 1) -> list[Bucket]:
    """Return the first `count` buckets of the campaign.

    The accounts own the buckets in turn, and each account numbers its buckets separately. Points with different numbers
    of accounts therefore share buckets.
    """
    return [store.bucket(config.name, i // accounts, i % accounts) for i in range(count)]


def ensure(config: "Config", store: Store, dataset: dict[str, Any], again: bool = False) -> Path:
    """Stage `dataset` in the running `store` if it is not there, and return the path of the manifest.

    Raises UserError if the store is read-only without the data set, has no space, or has a foreign bucket. Raises
    MeasurementFailed if the upload is incomplete.
    """
    folders.require_trusted(config)
    path = manifest_path(config, store.name, dataset)
    places = buckets_of(config, store, dataset["buckets"], dataset.get("accounts", 1))
    ways = buckets.accesses(store, places)
    first, marker = ways[places[0].account], f"{places[0].prefix}data/{dataset['name']}/{written.STAGED}"
    if path.exists() and not again and not integrity.error_of_manifest(path):
        manifest = records.read_json(path)
        if (
            _read(first, places[0], marker) == _mark_of(manifest)
            and manifest["buckets"] == [[p.name, p.prefix] for p in places]
            and ("file" not in dataset or own_file.unchanged(dataset, manifest))
        ):
            return path
    if records.sealed(config.raw) and not path.exists():
        raise UserError(str(config.raw), "the campaign is sealed", "choose another name for the new campaign")
    build = _root if dataset["kind"] == "root" else _payload
    manifest, files = build(config, store, dataset, places, path.parent)
    digest = _mark_of(manifest)
    if again or _read(first, places[0], marker) != digest:
        if getattr(store.settings, "read_only", False):
            raise UserError(
                f"stores.{store.name}",
                f"data set {dataset['name']} is not staged and the store is read-only",
                "stage it with a writable account first",
            )
        require_space(store, dataset_bytes(dataset), f"data set {dataset['name']}", "`objects`")
        buckets.prepare(config, store, places)
        written.note_dataset(config, store, dataset, [body["size"] for body in manifest["bodies"]], places)
        if dataset["kind"] == "keys":
            stage_keys(store, ways, places, dataset, files[0])
        else:
            upload.upload(store, places, manifest, files)
            _verify(ways, places, manifest)
        first.write(places[0].name, marker, digest)
    extra = [path.with_name(name) for name in [manifest.get("root", {}).get("sidecar")] if name]
    records.write_summed(path, manifest | {"files": records.file_entries(extra)})
    return path


def _mark_of(manifest: dict[str, Any]) -> bytes:
    """Return the proof in the store for the data set of a manifest: the SHA-256 of the manifest.

    Checksums of local files are omitted, because a side-car file is not the same everywhere.
    """
    kept = {k: v for k, v in manifest.items() if k not in ("files", *records.SUM_KEYS)}
    return records.sha256_of((json.dumps(kept, indent=1) + "\n").encode()).encode()


def _payload(
    config: "Config", store: Store, dataset: dict[str, Any], places: list[Bucket], folder: Path
) -> tuple[dict[str, Any], list[Path]]:
    files = payload.body_files(scratch.folder(config.scratch), dataset["seed"], dataset["object_size"])
    manifest = manifest_of(store, dataset, places, payload.body_sums(files), written.columns(dataset))
    return manifest, files


def _root(
    config: "Config", store: Store, dataset: dict[str, Any], places: list[Bucket], folder: Path
) -> tuple[dict[str, Any], list[Path]]:
    path = scratch.folder(config.scratch) / f"{dataset['name']}-{dataset['seed']}" / "events.root"
    path.parent.mkdir(exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    sidecar = folder / f"{dataset['name']}.baskets.parquet"
    if "file" in dataset:
        path = _fetched(config, dataset, path.parent)
        facts, table = own_file.look(path, dataset["scale"], dataset["tree"], trying(path.name))
        baskets.write(table, sidecar)
        root = {**facts, "sidecar": sidecar.name}
        left_out = facts["unreadable"]  # the manifest lists all of these branches
        first = next((f"; the first is {name}: {reason[:150]}" for name, reason in left_out.items()), "")
        report(f"    {path.name}: {facts['branches']} branches or fields, {len(left_out)} of them are left out{first}")
    else:
        root = generated.generate_with_side_car(
            path, sidecar, dataset["scale"], dataset["seed"], dataset.get("codec", "zstd")
        )
    objects = written.columns(dataset)
    return manifest_of(store, dataset, places, [{"size": root["bytes"], "sha256": root["sha256"]}], objects) | {
        "root": root
    }, [path]


def _fetched(config: "Config", dataset: dict[str, Any], folder: Path) -> Path:
    """Return the path of the user's file. Raises MeasurementFailed if a download transfers nothing for 60 s."""
    place = f"files.{dataset['scale']}.path"
    try:
        return patience.call(
            f"{place}: downloading {dataset['file']}",
            lambda: own_file.fetch(dataset["file"], folder, place, config.limits.stored_bytes),
        )
    except MeasurementFailed:
        for left in folder.glob(f"*.{os.getpid()}.tmp"):
            left.unlink()
        raise


def trying(name: str) -> Callable[[int], None]:
    """Return a function that shows the progress of testing a file's branches, for `step` of `own_file.look`."""
    shown: list[ProgressLine] = []

    def step(total: int) -> None:
        if not shown:
            shown.append(ProgressLine(name, total, "trying", "branches"))
        shown[0].step()

    return step


def manifest_of(
    store: Store, dataset: dict[str, Any], places: list[Bucket], bodies: list[dict[str, Any]], objects: dict[str, Any]
) -> dict[str, Any]:
    """Return the manifest of objects in a store.

    bodies: size and SHA-256 of each distinct body; objects: the columns `key`, `bucket` (number in `places`) and `body`
    (number in `bodies`).
    """
    return {
        "schema": 1,
        "dataset": dataset,
        "store": store.name,
        "buckets": [[b.name, b.prefix] for b in places],
        "bodies": bodies,
        "objects": objects,
    }


def require_space(store: Store, size: int, what: str, lower: str) -> None:
    """Raise UserError if the store has less free space than `what` needs. lower: the setting that reduces the size."""
    free = store.free_bytes()
    if free is not None and free < size:
        problem = f"{units.human_size(size)} of {what} do not fit into {units.human_size(free)} of free space"
        raise UserError(f"stores.{store.name}", problem, f"free space, or reduce {lower}")


def _read(access: Access, bucket: Bucket, key: str) -> bytes | None:
    """Return the object, or None if the object, its bucket, or the right to read it is missing.

    In all these cases, the data set was not staged by this campaign.
    """
    with suppress(NoSuchBucket, AccessRefused):
        return access.read(bucket.name, key, 10 * written.STAGED_BYTES)
    return None


def _verify(ways: dict[int, Any], places: list[Bucket], manifest: dict[str, Any]) -> None:
    """Check that every object is listed with its size. Raises MeasurementFailed."""
    columns = manifest["objects"]
    wanted = {
        (bucket, key): manifest["bodies"][body]["size"]
        for key, bucket, body in zip(columns["key"], columns["bucket"], columns["body"], strict=True)
    }
    listed: dict[tuple[int, str], int] = {}
    others = 0
    for index, place in enumerate(places):
        for key, size in buckets.list_keys(ways[place.account], place, f"data/{manifest['dataset']['name']}/"):
            if (found := (index, key.removeprefix(place.prefix))) in wanted:
                listed[found] = size
            elif (others := others + 1) > MAX_OTHERS:
                raise MeasurementFailed(f"staging: the store lists more than {MAX_OTHERS} foreign objects")
    for found, size in wanted.items():
        if (got := listed.get(found)) != size:
            raise MeasurementFailed(f"staging: the store lists {got} B for {found[1]} instead of {size} B")


def stage_keys(
    store: Store, ways: Mapping[int, Access], places: list[Bucket], dataset: Mapping[str, Any], body: Path
) -> None:
    """Upload the missing keys, so that every folder has exactly its keys. Raises MeasurementFailed."""
    there = [_listed_objects(ways[place.account], place, dataset) for place in places]
    missing = (
        (place, payload.keys_folder(dataset) + payload.key_name(dataset["keys"], dataset["depth"], n), body)
        for place, known in zip(places, there, strict=True)
        for n in range(dataset["keys"])
        if not known[n]
    )
    count = sum(known.count(0) for known in there)
    shown = ProgressLine(dataset["name"], count)
    while block := list(islice(missing, BLOCK)):
        upload.put_items(store, dataset["name"], block, shown)
    for place in places:
        if left := _listed_objects(ways[place.account], place, dataset).count(0):
            raise MeasurementFailed(f"staging: bucket {place.name} does not list {left} of {dataset['keys']} keys")
    size = units.human_size(dataset["objects"] * dataset["object_size"])
    report(f"    staged {dataset['name']} in {store.name}: {dataset['objects']} objects, {size}")


def _listed_objects(access: Access, place: Bucket, dataset: Mapping[str, Any]) -> bytearray:
    """Return, for each number, 1 if its object is listed with its size. Raises MeasurementFailed for foreign keys."""
    found, below = bytearray(dataset["keys"]), place.prefix + payload.keys_folder(dataset)
    for key, size in buckets.list_keys(access, place, payload.keys_folder(dataset)):
        n = payload.key_number(dataset["keys"], dataset["depth"], key.removeprefix(below))
        if n is None:
            raise MeasurementFailed(f"staging: {place.name}/{key} is among the keys of {dataset['name']}")
        found[n] = size == dataset["object_size"]
    return found


# bytes of the days of a release that are made before they are uploaded, in addition to the last day
DAYS_BYTES = 64_000_000


@dataclass
class Summary:
    """The requirements of a plan for one store.

    Only staged data are counted in bytes, because the amount that clients upload until the deadline is not known in
    advance.
    """

    points: Counter[str] = field(default_factory=Counter)  # number of points of each workload
    seconds: Counter[str] = field(default_factory=Counter)  # total duration of the windows of each workload in seconds
    staged_bytes: int = 0
    staged_objects: int = 0
    buckets: int = 0
    scratch_bytes: int = 0


def scratch_bytes(point: Point) -> int:
    """Return the maximum bytes of tmpfs that the clients of a point need on one host.

    These are the bodies and, for downloads, the downloaded files and the objects in flight.
    """
    if release := point.fixed.get("release"):  # the day is stored as plain files, and one more file is spooled
        if CATALOGUE[point.axes["engine"]].through_files:  # the data are plain files, and one more file is spooled
            return 3 * a_night(release)
        return 3 * a_day(release)[1] + (DAYS_BYTES if point.workload == "collect_garbage" else 0)
    if "sizes" in point.fixed:
        return BODIES * mixes.largest(point.fixed["sizes"])
    what = point.axes.get("operation", point.workload)  # the operation of a calibration
    if what not in ("put", "get", "get_range", "delete", "space", "write", "read"):
        return 0
    size = point.axes["object_size"]
    engine = CATALOGUE.get(point.axes["engine"])  # a calibration without a server has no engine
    if engine and not engine.through_files:  # answers stay in memory
        return BODIES * size
    ring = point.axes["clients"] * (max(point.axes["workers"], BODIES) + BODIES + point.axes["workers"]) * size
    return BODIES * size + (ring if what in ("get", "write", "read") else 0)


def summarise(points: list[Point], store: str) -> Summary:
    """Return the totals of the points of one store. A data set counts only once."""
    out, store_points = Summary(), [p for p in points if p.store == store]
    for p in store_points:
        out.points[p.workload] += 1
        out.seconds[p.workload] += p.fixed["duration_ns"] / 1e9
        out.buckets = max(out.buckets, p.axes.get("buckets", p.axes.get("accounts", 1)))
        out.scratch_bytes = max(out.scratch_bytes, sum(scratch_bytes(part.point) for part in p.parts()))
    datasets = {q.dataset["name"]: q.dataset for q in in_parts(store_points) if q.dataset}.values()
    made = [_made(p) for p in store_points]
    out.staged_bytes = sum(map(dataset_bytes, datasets)) + max((size for _, size in made), default=0)
    staged = (d.get("objects") or root_copies(d) for d in datasets)
    out.staged_objects = sum(staged) + max((n for n, _ in made), default=0)
    return out


def _made(point: Point) -> tuple[int, int]:
    """Return the number and the bytes of the objects that are made for a point before its clients start."""
    parts = in_parts([point])
    sizes: list[tuple[int, float]] = [
        (q.fixed["objects"], q.axes["object_size"]) for q in parts if q.workload == "delete"
    ]
    for q in parts:
        if q.workload == "collect_garbage":
            n, size = a_day(q.fixed["release"])
            sizes.append((n * q.axes["days"], size / n))
    sizes += [(q.fixed["objects"], mixes.mean(q.fixed["sizes"])) for q in parts if "sizes" in q.fixed]
    return sum(n for n, _ in sizes), round(sum(n * size for n, size in sizes))


def in_parts(points: list[Point]) -> list[Point]:
    """Return the points, with each point of several roles replaced by the points of its roles."""
    return [part.point for p in points for part in p.parts()]
