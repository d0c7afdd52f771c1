"""The interface for access to a store outside of measurements. It is the same for all protocols.

A bucket is an S3 bucket, or a folder of a file system that contains the keys. `workloads/staging/buckets.py` uses only
this interface.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from storelab.core.errors import MeasurementFailed
from storelab.host import patience

T = TypeVar("T")

# A function that returns whether storelab wrote an object. It gets bucket, key, and size in bytes (None if unknown).
Ours = Callable[[str, str, int | None], bool]

# Kinds of entries.
OBJECT, OLD_VERSION, DELETE_MARKER, UPLOAD = "object", "old version", "delete marker", "unfinished upload"
UNLISTED = "unfinished uploads"  # kind of an entry for uploads that the server does not list for this account


class Entry(NamedTuple):
    """An entry of a bucket that can be deleted.

    `size` is in bytes, or None if it is unknown. `id` is the id of a version or of an unfinished upload.
    """

    key: str
    size: int | None
    kind: str = OBJECT
    id: str = ""


class Retention(NamedTuple):
    """The settings of a bucket that retain deleted data.

    `versioning` is '', 'Enabled' or 'Suspended'. `lock` is '' without object lock, 'on' for object lock without a
    default retention, and otherwise mode and time of the default retention.
    """

    versioning: str = ""
    mfa_delete: bool = False
    lock: str = ""

    def meaning(self) -> str:
        """Return how these settings affect the objects of a campaign; '' if deleted data are not retained."""
        out = []
        if self.versioning:
            out.append(f"versioning is {self.versioning}: overwritten and deleted objects use space until `clean`")
        if self.lock not in ("", "on"):
            out.append(f"object lock ({self.lock}): objects of storelab cannot be deleted earlier")
        elif self.lock:
            out.append("object lock is on without a default retention: `clean` can delete the objects of storelab")
        if self.mfa_delete:
            out.append("MFA delete is on: `clean` cannot delete versions, so the objects of storelab remain")
        return "; ".join(out)

    def reason(self) -> str:
        """Return the setting because of which the server can refuse to delete a version; '' if there is none."""
        return "object lock" if self.lock else "MFA delete" if self.mfa_delete else ""


class NoSuchBucket(MeasurementFailed):
    """A bucket does not exist."""

    def __init__(self, bucket: str = "", place: str = "the store"):
        name = f" {bucket!r}" if bucket else ""
        super().__init__(f"{place}: NoSuchBucket: the bucket{name} does not exist; run `storelab stage --again`")


class BucketExists(Exception):
    """A bucket already exists."""


class BucketNotEmpty(MeasurementFailed):
    """A bucket cannot be removed because it is not empty. `first` is one of its keys."""

    def __init__(self, place: str, first: str):
        super().__init__(f"{place} still contains {first!r} and is not removed")
        self.first = first


class AccessRefused(Exception):
    """A request was answered with status 403: the bucket belongs to another account, or the account lacks rights."""


class Access(ABC):
    """Access of one account to a store through one front-end. It is thread-safe.

    In addition to the errors in their descriptions, all methods raise UserError if the user can fix the problem, and
    MeasurementFailed if the system fails. `place` is the place in the configuration, for messages.
    """

    place: str
    deletes_at_once = 1000  # maximum number of keys in one call of `delete`

    @abstractmethod
    def read(self, bucket: str, key: str, most: int | None = None) -> bytes | None:
        """Return the object, or its first `most` bytes; None if it does not exist.

        Raises NoSuchBucket, AccessRefused.
        """

    @abstractmethod
    def write(self, bucket: str, key: str, data: bytes) -> None:
        """Write a whole object. An existing object is replaced. Raises NoSuchBucket, AccessRefused."""

    @abstractmethod
    def keys(self, bucket: str, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Yield key and size (bytes) of every object whose key begins with `prefix`.

        Raises NoSuchBucket, and MeasurementFailed if the listing is incomplete.
        """

    @abstractmethod
    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        """Remove these objects, at most `deletes_at_once`."""

    @abstractmethod
    def bucket_names(self) -> list[str]:
        """Return all buckets that this account sees."""

    @abstractmethod
    def prefixes(self, bucket: str, above: str) -> list[str]:
        """Return the prefixes of keys below `above`, which ends in '/', up to the next '/'.

        For example, `a/b/` is returned for the key `a/b/c` and `above` = `a/`.
        """

    @abstractmethod
    def make_bucket(self, bucket: str) -> None:
        """Create a bucket. Raises BucketExists."""

    @abstractmethod
    def drop_bucket(self, bucket: str) -> None:
        """Remove an empty bucket, with empty folders in it. Raises BucketNotEmpty if it has objects or versions."""

    def entries(self, bucket: str, prefix: str = "") -> Iterator[Entry]:
        """Yield all entries that use space below `prefix`.

        These are objects, and in S3 also old versions, delete markers and unfinished uploads. Raises the same errors as
        `keys`.
        """
        return (Entry(key, size) for key, size in self.keys(bucket, prefix))

    def remove(self, bucket: str, entries: Sequence[Entry]) -> Mapping[Entry, str]:
        """Delete these entries, at most `deletes_at_once`. Return the server's error code for each refused entry."""
        self.delete(bucket, [entry.key for entry in entries])
        return {}

    def retention(self, bucket: str) -> Retention:
        """Return the settings of the bucket that retain deleted data, as far as the server reports them."""
        return Retention()

    def protected_by(self, bucket: str, entry: Entry) -> str:
        """Return the protection of this version, such as `GOVERNANCE until 2026-12-01`; '' if it is unknown."""
        return ""


class PatientAccess(Access):
    """An access whose calls raise MeasurementFailed after 60 s without progress (`host/patience.py`)."""

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

    def drop_bucket(self, bucket: str) -> None:
        self._call(f"removing bucket {bucket}", lambda: self.way.drop_bucket(bucket))

    def entries(self, bucket: str, prefix: str = "") -> Iterator[Entry]:
        return patience.stream(f"{self.place}: listing {bucket}/{prefix}", lambda: self.way.entries(bucket, prefix))

    def remove(self, bucket: str, entries: Sequence[Entry]) -> Mapping[Entry, str]:
        return self._call(f"deleting {len(entries)} objects of {bucket}", lambda: self.way.remove(bucket, entries))

    def retention(self, bucket: str) -> Retention:
        return self._call(f"inspecting bucket {bucket}", lambda: self.way.retention(bucket))

    def protected_by(self, bucket: str, entry: Entry) -> str:
        return self._call(f"inspecting {bucket}/{entry.key}", lambda: self.way.protected_by(bucket, entry))
