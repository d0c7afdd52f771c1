"""What storelab itself does in a store, outside of every measurement, whatever the protocol.

Buckets are buckets of S3, or folders of a file system; keys lie below them. `workloads/staging/buckets.py` rests on
this interface alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from storelab.core.errors import MeasurementFailed
from storelab.host import patience

T = TypeVar("T")

# Whether storelab wrote an object: name of the bucket, whole key, bytes (None where nobody knows them).
Ours = Callable[[str, str, int | None], bool]


def nothing(bucket: str, key: str, size: int | None) -> bool:
    """No object is ours."""
    return False


class NoSuchBucket(MeasurementFailed):
    """The bucket is not there."""

    def __init__(self, bucket: str = "", place: str = "the store"):
        name = f" {bucket!r}" if bucket else ""
        super().__init__(f"{place}: NoSuchBucket: the bucket{name} is not there; run `storelab stage --again`")


class BucketExists(Exception):
    """The bucket was made by someone meanwhile."""


class StillHolds(MeasurementFailed):
    """The bucket holds what storelab did not write: it is left alone."""


class AccessRefused(Exception):
    """The server answers 403: the bucket is of someone else, or the account may not."""


class Access(ABC):
    """One account's way into a store through one front-end. Thread-safe.

    All methods raise UserError where a person can mend it, MeasurementFailed where the system fails, besides what they
    name. `place`: place in the configuration, for messages.
    """

    place: str
    deletes_at_once = 1000  # keys in one call of `delete`

    @abstractmethod
    def read(self, bucket: str, key: str, most: int | None = None) -> bytes | None:
        """The whole object, or its first `most` bytes; None where it is absent. Raises NoSuchBucket, AccessRefused."""

    @abstractmethod
    def write(self, bucket: str, key: str, data: bytes) -> None:
        """A whole object, replaced where it is there. Raises NoSuchBucket, AccessRefused."""

    @abstractmethod
    def keys(self, bucket: str, prefix: str = "") -> Iterator[tuple[str, int]]:
        """(key, bytes) of every object whose key begins with `prefix`. Raises NoSuchBucket."""

    @abstractmethod
    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        """Remove these objects, `deletes_at_once` at most."""

    @abstractmethod
    def bucket_names(self) -> list[str]:
        """All buckets that this account sees."""

    @abstractmethod
    def prefixes(self, bucket: str, above: str) -> list[str]:
        """The keys' beginnings below `above` (which ends in '/') up to the next '/', e.g. `a/b/` of `a/b/c`."""

    @abstractmethod
    def make_bucket(self, bucket: str) -> None:
        """Raises BucketExists."""

    @abstractmethod
    def drop_bucket(self, bucket: str, ours: Ours = nothing) -> None:
        """Remove a bucket without objects.

        Empty folders in it go too, and old versions of objects that are `ours`. Raises StillHolds.
        """

    def abandon(self, bucket: str, prefix: str, ours: Ours) -> list[str]:
        """Give up what of `ours` was begun below `prefix` and never finished (multipart uploads); returns the keys of
        others.

        Nothing where there is no such thing.
        """
        return []


class PatientAccess(Access):
    """An access in which whatever moves nothing for 60 s ends with MeasurementFailed (`host/patience.py`)."""

    def __init__(self, way: Access):
        self.way, self.place, self.deletes_at_once = way, way.place, way.deletes_at_once

    def _call(self, what: str, function: Callable[[], T]) -> T:
        return patience.call(f"{self.place}: {what}", function)

    def read(self, bucket: str, key: str, most: int | None = None) -> bytes | None:
        return self._call(f"reading {bucket}/{key}", lambda: self.way.read(bucket, key, most))

    def write(self, bucket: str, key: str, data: bytes) -> None:
        self._call(f"writing {bucket}/{key}", lambda: self.way.write(bucket, key, data))

    def keys(self, bucket: str, prefix: str = "") -> Iterator[tuple[str, int]]:
        return patience.stream(f"{self.place}: listing {bucket}/{prefix}", lambda: self.way.keys(bucket, prefix))

    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        self._call(f"deleting {len(keys)} objects of {bucket}", lambda: self.way.delete(bucket, keys))

    def bucket_names(self) -> list[str]:
        return self._call("listing buckets", self.way.bucket_names)

    def prefixes(self, bucket: str, above: str) -> list[str]:
        return self._call(f"listing {bucket}/{above}", lambda: self.way.prefixes(bucket, above))

    def make_bucket(self, bucket: str) -> None:
        self._call(f"making bucket {bucket}", lambda: self.way.make_bucket(bucket))

    def drop_bucket(self, bucket: str, ours: Ours = nothing) -> None:
        self._call(f"removing bucket {bucket}", lambda: self.way.drop_bucket(bucket, ours))

    def abandon(self, bucket: str, prefix: str, ours: Ours) -> list[str]:
        return self._call(f"listing unfinished uploads of {bucket}", lambda: self.way.abandon(bucket, prefix, ours))
