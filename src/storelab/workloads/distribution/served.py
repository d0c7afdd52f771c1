"""Serve the repository that clients of `launch` read, in the campaign's first bucket, without signatures.

It is published once for all points with the same settings, below `launch/<name>/`. A mark is written last.

Clients of CernVM-FS read without a signature. A store without keys serves the repository directly. In S3, a policy of
the bucket makes only the repository public while a point is measured. storelab sets policies only on buckets that it
made itself.
"""

import hashlib
import json
import re
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from storelab.core import units
from storelab.core.axes.distribution import MAX_BYTES, PATTERNS, TUNED, objects_of
from storelab.core.campaign.release import Release as Settings
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.datasets.release import names
from storelab.datasets.release.build import Day, Release
from storelab.host import scratch
from storelab.stores.base import Store
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.access import AccessRefused, NoSuchBucket
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads.base import Made
from storelab.workloads.distribution import proof
from storelab.workloads.distribution.publish import publish
from storelab.workloads.distribution.stratum import Log, Stratum
from storelab.workloads.probe import signing
from storelab.workloads.probe.plain_http import Connection, Reply, status_text
from storelab.workloads.staging import buckets, stage, written

THREADS = 8
BLOCK = 500  # maximum number of objects in memory, for stores without S3
MARK = ".staged"


class Staged(NamedTuple):
    """A staged repository: its bucket, its prefix, and the root catalog that its manifest names."""

    bucket: Bucket
    prefix: str
    repository: str
    root: str


def name_of(release: dict[str, Any], days: int) -> str:
    """Return a name that depends on the published content."""
    return hashlib.sha256(json.dumps([release, days], sort_keys=True).encode()).hexdigest()[:16]


def made(name: str, repository: str) -> list[Made]:
    """Return the possible objects of the repository."""
    begin = f"launch/{name}/"
    return [
        Made(objects_of(begin, repository), 1, MAX_BYTES),
        Made(rf"{begin}{re.escape(MARK)}", len(name), len(name)),
    ]


def ensure(config: Config, store: Store, release: dict[str, Any], days: int) -> Staged:
    """Upload the repository if it is not in the store, which must be running.

    Raises MeasurementFailed. Raises UserError if the store is read-only or has not enough space.
    """
    place, name = stage.buckets_of(config, store, 1)[0], name_of(release, days)
    prefix, repository = f"launch/{name}/", release["repository"]
    access = store.access(place.account)
    with suppress(NoSuchBucket, AccessRefused):
        if access.read(place.name, f"{place.prefix}{prefix}{MARK}", 1000) == name.encode():
            return _found(store, place, prefix, repository)
    if store.settings.read_only:
        problem = f"the repository of {days} days is not staged, and the store is read-only"
        raise UserError(f"stores.{store.name}", problem, "stage it with a writable account first")
    buckets.prepare(config, store, [place])
    written.note_made(config, store, name, made(name, repository))
    with tempfile.TemporaryDirectory(prefix=f"launch-{name}-", dir=scratch.folder(config.scratch)) as folder:
        objects = size = 0
        source = Release(Settings.model_validate(release))
        for n in range(1, days + 1):
            day = source.day(n, Path(folder))
            sizes = [item.bytes for item in day.objects()]
            objects, size = objects + len(sizes), size + sum(sizes)
            stage.require_space(store, sum(sizes), "a day", "`release.factor`")
            _send(store, place, prefix, day)
            shutil.rmtree(day.folder)
    access.write(place.name, f"{place.prefix}{prefix}{MARK}", name.encode())
    size_text = f"{objects} objects, {units.human_size(size)}"
    stage.report(f"    staged the repository of {days} days in {store.name}: {size_text}")
    return _found(store, place, prefix, repository)


def _found(store: Store, place: Bucket, prefix: str, repository: str) -> Staged:
    fetch = proof.reader(store.access(place.account), place, prefix)
    fields = names.manifest_fields(fetch(f"{repository}/{names.MANIFEST}"))
    return Staged(place, prefix, repository, fields["C"])


def _send(store: Store, place: Bucket, prefix: str, day: Day) -> None:
    """Upload all objects of a day, with the headers of CernVM-FS if the protocol is S3."""
    if store.protocol == "s3":
        keys = store.credentials(place.account)
        with closing(Stratum(store.endpoints(1)[0], place, prefix, keys, PATTERNS[TUNED], Log(0))) as stratum:
            publish(stratum, [day], THREADS)
        return
    access, items = store.access(place.account), list(day.objects())
    with ThreadPoolExecutor(THREADS) as pool:
        for i in range(0, len(items), BLOCK):
            todo = [
                pool.submit(access.write, place.name, place.prefix + prefix + item.key, day.path(item).read_bytes())
                for item in items[i : i + BLOCK]
            ]
            for one in todo:
                one.result()


RIGHTS_TIMEOUT_S = 5.0  # maximum time in s until a policy takes effect in the whole store
_OPEN: set[tuple[str, str]] = set()  # (URL of a store, bucket) for which this process set a policy


def url_of(endpoint: Endpoint, bucket: Bucket, prefix: str) -> str:
    """Return the URL of `prefix` in a bucket, without a '/' at its end."""
    scheme, host, path, *_ = urlsplit(endpoint.url)
    below = quote(f"{bucket.prefix}{prefix}".strip("/"))
    if endpoint.protocol == "s3" and endpoint.addressing == "virtual":
        return f"{scheme}://{bucket.name}.{host}/{below}"
    return f"{scheme}://{host}{path.rstrip('/')}/{quote(bucket.name)}/{below}"


def _connection(url: str, endpoint: Endpoint, timeout: float = 60.0) -> Connection:
    context = filesystems.tls_context(endpoint) if url.startswith("https") else None
    return Connection(url, context, timeout)


def denied_reason(url: str, endpoint: Endpoint) -> str:
    """Return the answer to an unsigned GET of this URL, or '' if the object is served."""
    with closing(_connection(url, endpoint, 10.0)) as wire:
        try:
            reply = wire.send("GET", urlsplit(url).path)
            return "" if reply.status == 200 else status_text(reply)
        except (OSError, HTTPException) as error:
            return str(error) or type(error).__name__


class Opened:
    """A repository that is served without signatures until `close`.

    Raises UserError if the store does not serve it.
    """

    def __init__(
        self, store: Store, endpoint: Endpoint, bucket: Bucket, prefix: str, trial: str, what: str = "of `launch`"
    ):
        """trial: key, below the prefix, of an existing object; what: the sweeps that need it, for messages."""
        self.endpoint, self.bucket, self.opened_key = endpoint, bucket, (endpoint.url, bucket.name)
        self.keys = store.credentials(bucket.account)
        self.url, self.policy = url_of(endpoint, bucket, prefix), False
        wanted = f"{self.url}/{quote(trial)}"
        if not (why := denied_reason(wanted, endpoint)):
            return
        if self.keys is not None and endpoint.protocol == "s3":
            refused = self._open(f"{bucket.prefix}{prefix}")
            end = time.monotonic() + RIGHTS_TIMEOUT_S
            while self.policy and (why := denied_reason(wanted, endpoint)) and time.monotonic() < end:
                time.sleep(0.1)
            why = refused or why
        if why:
            self.close()
            raise UserError(
                f"stores.{store.name}",
                f"does not answer unsigned GETs ({why}), and clients of CernVM-FS send no others",
                f"remove the store from sweeps {what}, or make its bucket publicly readable",
            )

    def _open(self, prefix: str) -> str:
        """Make the prefix publicly readable. Return the reason of a failure, or ''."""
        if self.bucket.prefix:
            return "storelab did not make the bucket"
        if self.opened_key in _OPEN:
            return "another role has made its bucket public, and a bucket has only one policy"
        assert self.keys is not None
        for owner in (self.keys.access_key, None):  # most servers do not accept an access key as a name
            reply = self._ask("PUT", signing.policy(self.bucket.name, prefix, owner))
            if reply.good:
                self.policy = True
                _OPEN.add(self.opened_key)
                return ""
        return f"a policy of the bucket: {status_text(reply)}"

    def _ask(self, method: str, body: bytes | None = None) -> Reply:
        """Send a signed request for the `?policy` of the bucket. Raises MeasurementFailed if there is no answer."""
        assert self.keys is not None
        url, path = signing.place(self.endpoint, self.bucket.name)
        query, digest = {"policy": ""}, hashlib.sha256(body or b"").hexdigest()
        with closing(_connection(url, self.endpoint)) as wire:
            headers = signing.sign(method, wire.host, path, query, {}, digest, self.keys, self.endpoint.region)
            try:
                return wire.send(method, f"{path}?{signing.query_of(query)}", headers, body)
            except (OSError, HTTPException) as error:
                raise MeasurementFailed(f"{self.endpoint.url}: {error} to {method} of a bucket's policy") from None

    def close(self) -> None:
        """Remove the policy if there is one."""
        if self.policy:
            self.policy = False
            _OPEN.discard(self.opened_key)
            self._ask("DELETE")
