"""One front-end of any protocol through fsspec and storelab's own access: folders and files.

An operation may be several requests (look for the folder, then list it); objects are moved as the engine `fsspec`
moves them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from storelab.core import clock
from storelab.engines.common.error_classes import classify
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.access import AccessRefused, NoSuchBucket
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.stores.protocols.open_access import open_access
from storelab.workloads.consistency.seen import ABSENT, FAILED, OK, Seen, View

_NOTHING = ".storelab-is-this-there"  # nobody makes an object of this name
_ABSENT = ("no such file", "[3011]")


class FilesView(View):
    """environ: holds the keys of S3, or the token (HTTP)."""

    def __init__(self, endpoint: Endpoint, bucket: Bucket, environ: Mapping[str, str], place: str = "store"):
        self.endpoint, self.place, self.prefix = endpoint, bucket, bucket.prefix
        keys = None
        if endpoint.protocol == "s3":
            keys = Credentials(
                environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"], environ.get("AWS_SESSION_TOKEN")
            )
        self.access = open_access(endpoint, keys, place, False)
        self.fs = filesystems.data(endpoint, environ, 1)
        self.pipes = endpoint.protocol in ("s3", "http")
        self.size = 0  # of the bodies: file systems that want to know the end are told

    def _path(self, key: str) -> str:
        return filesystems.path(self.endpoint, self.place, key)

    def _do(self, act: Callable[[], Any]) -> tuple[Seen, Any]:
        """(what was seen, what `act` returned). A missing file or bucket is `absent`."""
        begun = clock.now_ns()
        try:
            value = act()
            return Seen(begun, clock.now_ns()), value
        except (FileNotFoundError, NotADirectoryError, NoSuchBucket) as error:
            return Seen(begun, clock.now_ns(), ABSENT, error=type(error).__name__), None
        except Exception as error:  # noqa: BLE001 - every protocol's library throws classes of its own
            kind, status = classify(error)
            absent = status == 404 or (
                isinstance(error, OSError) and any(sign in str(error).lower() for sign in _ABSENT)
            )
            message = f"{type(error).__name__}: {error}"[:300]
            return Seen(begun, clock.now_ns(), ABSENT if absent else FAILED, status or 0, kind, message), None

    def _write(self, path: str, body: bytes) -> None:
        if self.pipes:
            self.fs.pipe_file(path, body)
            return
        with self.fs.open(path, "wb") as f:
            f.write(body)

    def put(self, key: str, body: bytes) -> Seen:
        self.size = len(body)
        seen, _ = self._do(lambda: self._write(self._path(key), body))
        return replace(seen, state=FAILED) if seen.state == ABSENT else seen

    def first(self, key: str, body: bytes) -> Seen:
        seen, _ = self._do(lambda: self.access.write(self.place.name, self.prefix + key, body))
        return replace(seen, state=FAILED) if seen.state == ABSENT else seen

    def get(self, key: str) -> Seen:
        # What the library keeps is no answer of the store: fsspec-xrootd reads on from a file that it has open, also
        # when it is deleted.
        self.fs.invalidate_cache()
        # One byte more than was written, so that a longer file shows.
        bounds = {} if self.pipes or self.endpoint.protocol == "file" else {"start": 0, "end": self.size + 1}
        seen, data = self._do(lambda: self.fs.cat_file(self._path(key), **bounds))
        return replace(seen, data=data)

    def delete(self, key: str) -> Seen:
        seen, _ = self._do(lambda: self.access.delete(self.place.name, [self.prefix + key]))
        return replace(seen, state=OK) if seen.state == ABSENT else seen

    def list(self, prefix: str) -> Seen:
        return self._listing(self.place.name, self.prefix + prefix, len(self.prefix))

    def _listing(self, bucket: str, prefix: str, cut: int) -> Seen:
        seen, found = self._do(lambda: list(self.access.keys(bucket, prefix)))
        names: dict[str, int] = {}
        repeated = []
        for key, size in found or ():
            if key[cut:] in names:
                repeated.append(key[cut:])
            names[key[cut:]] = size
        return replace(seen, names=names, repeated=tuple(repeated))

    def make_bucket(self, bucket: str) -> Seen:
        seen, _ = self._do(lambda: self.access.make_bucket(bucket))
        return replace(seen, state=FAILED) if seen.state == ABSENT else seen

    def drop_bucket(self, bucket: str) -> Seen:
        seen, _ = self._do(lambda: self.access.drop_bucket(bucket))
        return replace(seen, state=OK) if seen.state == ABSENT else seen

    def head_bucket(self, bucket: str) -> Seen:
        def look() -> None:
            try:
                self.access.read(bucket, _NOTHING)
            except AccessRefused:
                return  # it is there, and of someone else

        return self._do(look)[0]

    def list_bucket(self, bucket: str) -> Seen:
        return self._listing(bucket, "", 0)

    def bucket_names(self) -> Seen:
        seen, names = self._do(self.access.bucket_names)
        return replace(seen, names=dict.fromkeys(names or (), 0))
