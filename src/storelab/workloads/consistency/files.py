"""One front-end of any protocol through fsspec and storelab's own access: folders and files.

An operation may be several requests (look for the folder, then list it); objects are moved as the engine `fsspec`
moves them.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from storelab.core import clock
from storelab.engines.common.error_classes import classify
from storelab.stores.protocols import filesystems, open_access
from storelab.stores.protocols.access import AccessRefused, NoSuchBucket
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads.consistency.seen import ABSENT, FAILED, Seen, View, listed

_NOTHING = ".storelab-is-this-there"  # no object ever has this name
_ABSENT = ("no such file", "[3011]")


class FilesView(View):
    """environ: holds the keys of S3, or the token (HTTP)."""

    def __init__(self, endpoint: Endpoint, bucket: Bucket, environ: Mapping[str, str]):
        self.endpoint, self.place, self.bucket, self.prefix = endpoint, bucket, bucket.name, bucket.prefix
        self.access = open_access(endpoint, Credentials.found(environ), "store")
        self.fs = filesystems.data(endpoint, environ, 1)
        self.pipes = endpoint.protocol in ("s3", "http")
        self.size = 0  # of the bodies: file systems that want to know the end are told

    def _path(self, key: str) -> str:
        return filesystems.path(self.endpoint, self.place, key)

    def _do(self, act: Callable[[], Any], show: Callable[[Any], dict[str, Any]] = lambda _: {}) -> Seen:
        """What was seen. A missing file or bucket is `absent`. show: fields of Seen from what `act` returned."""
        begun = clock.now_ns()
        try:
            value = act()
            return Seen(begun, clock.now_ns(), **show(value))
        except (FileNotFoundError, NotADirectoryError, NoSuchBucket) as error:
            return Seen(begun, clock.now_ns(), ABSENT, error=type(error).__name__)
        except Exception as error:  # noqa: BLE001 - every protocol's library throws classes of its own
            kind, status = classify(error)
            absent = status == 404 or (
                isinstance(error, OSError) and any(sign in str(error).lower() for sign in _ABSENT)
            )
            message = f"{type(error).__name__}: {error}"[:300]
            return Seen(begun, clock.now_ns(), ABSENT if absent else FAILED, status or 0, kind, message)

    def _write(self, path: str, body: bytes) -> None:
        if self.pipes:
            self.fs.pipe_file(path, body)
        else:
            with self.fs.open(path, "wb") as f:
                f.write(body)

    def put(self, key: str, body: bytes) -> Seen:
        self.size = len(body)
        return self._do(lambda: self._write(self._path(key), body)).done()

    def first(self, key: str, body: bytes) -> Seen:
        return self._do(lambda: self.access.write(self.bucket, self.prefix + key, body)).done()

    def get(self, key: str) -> Seen:
        # What the library keeps is no answer of the store: fsspec-xrootd goes on reading a file that it has open, even
        # after its deletion.
        self.fs.invalidate_cache()
        # One byte more than was written, so that a longer file shows.
        bounds = {} if self.pipes or self.endpoint.protocol == "file" else {"start": 0, "end": self.size + 1}
        return self._do(lambda: self.fs.cat_file(self._path(key), **bounds), lambda data: {"data": data})

    def delete(self, key: str) -> Seen:
        return self._do(lambda: self.access.delete(self.bucket, [self.prefix + key])).gone()

    def listing(self, bucket: str, prefix: str, cut: int) -> Seen:
        return self._do(
            lambda: list(self.access.keys(bucket, prefix)),
            lambda found: listed((key[cut:], size) for key, size in found),
        )

    def make_bucket(self, bucket: str) -> Seen:
        return self._do(lambda: self.access.make_bucket(bucket)).done()

    def drop_bucket(self, bucket: str) -> Seen:
        return self._do(lambda: self.access.drop_bucket(bucket)).gone()

    def head_bucket(self, bucket: str) -> Seen:
        def look() -> None:
            with suppress(AccessRefused):  # it is there, and of someone else
                self.access.read(bucket, _NOTHING)

        return self._do(look)

    def bucket_names(self) -> Seen:
        return self._do(self.access.bucket_names, lambda names: {"names": dict.fromkeys(names, 0)})
