"""What storelab itself does in a store, outside of every measurement, whatever the protocol.

Buckets are buckets of S3, or folders of a file system; keys lie below them. `workloads/staging/buckets.py` rests on
this interface alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from storelab.core.errors import MeasurementFailed
from storelab.host import patience

T = TypeVar("T")

# Whether storelab wrote an object: name of the bucket, whole key, bytes (None where nobody knows them).
Ours = Callable[[str, str, int | None], bool]

# Kinds of entries.
OBJECT, OLD_VERSION, DELETE_MARKER, UPLOAD = "object", "old version", "delete marker", "unfinished upload"
UNLISTED = "unfinished uploads"  # that the server does not list for this account


class Entry(NamedTuple):
    """A thing in a bucket that a deletion removes, or leaves.

    size: None where it is not known. id: of a version or of an unfinished upload.
    """

    key: str
    size: int | None
    kind: str = OBJECT
    id: str = ""


class Retention(NamedTuple):
    """How a bucket keeps what was deleted: `versioning` is '', 'Enabled' or 'Suspended'.

    lock: '' without object lock, 'on' without a default retention, else mode and time of it.
    """

    versioning: str = ""
    mfa_delete: bool = False
    lock: str = ""

    def meaning(self) -> str:
        """Return what this means for the objects of a campaign; '' for a bucket that keeps nothing."""
        out = []
        if self.versioning:
            out.append(f"versioning is {self.versioning}: overwritten and deleted objects take space until `clean`")
        if self.lock not in ("", "on"):
            out.append(
                f"object lock ({self.lock}): what storelab writes cannot be deleted before, and stays until then"
            )
        elif self.lock:
            out.append("object lock is on without a default retention: `clean` can delete what storelab writes")
        if self.mfa_delete:
            out.append("MFA delete is on: `clean` cannot delete versions, and what storelab writes stays")
        return "; ".join(out)

    def reason(self) -> str:
        """Return why the server may refuse to delete a version; '' where the bucket gives no reason."""
        return "object lock" if self.lock else "MFA delete" if self.mfa_delete else ""


class NoSuchBucket(MeasurementFailed):
    """The bucket is not there."""

    def __init__(self, bucket: str = "", place: str = "the store"):
        name = f" {bucket!r}" if bucket else ""
        super().__init__(f"{place}: NoSuchBucket: the bucket{name} is not there; run `storelab stage --again`")


class BucketExists(Exception):
    """The bucket was made by someone meanwhile."""


class StillHolds(MeasurementFailed):
    """The bucket is not empty: it is left alone. `first`: one of the keys in it."""

    def __init__(self, place: str, first: str):
        super().__init__(f"{place} still holds {first!r}: it is left alone")
        self.first = first


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
        """Return the object, or its first `most` bytes; None where it is absent.

        Raises NoSuchBucket, AccessRefused.
        """

    @abstractmethod
    def write(self, bucket: str, key: str, data: bytes) -> None:
        """A whole object, replaced where it is there. Raises NoSuchBucket, AccessRefused."""

    @abstractmethod
    def keys(self, bucket: str, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Yield (key, bytes) of every object whose key begins with `prefix`.

        Raises NoSuchBucket, and MeasurementFailed where the server lists only a part of them.
        """

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
    def drop_bucket(self, bucket: str) -> None:
        """Remove a bucket without objects and versions; empty folders in it go too. Raises StillHolds."""

    def entries(self, bucket: str, prefix: str = "") -> Iterator[Entry]:
        """Yield all that takes space below `prefix`: objects, and in S3 old versions, delete markers and unfinished
        uploads.

        Raises as `keys`.
        """
        return (Entry(key, size) for key, size in self.keys(bucket, prefix))

    def remove(self, bucket: str, entries: Sequence[Entry]) -> Mapping[Entry, str]:
        """Delete these entries, `deletes_at_once` at most; return what the server refuses, with its error code."""
        self.delete(bucket, [entry.key for entry in entries])
        return {}

    def retention(self, bucket: str) -> Retention:
        """Return how the bucket keeps what was deleted, as far as the server says."""
        return Retention()

    def held_by(self, bucket: str, entry: Entry) -> str:
        """Return what protects this version from deletion, such as `GOVERNANCE until 2026-12-01`; '' if not known."""
        return ""


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

    def drop_bucket(self, bucket: str) -> None:
        self._call(f"removing bucket {bucket}", lambda: self.way.drop_bucket(bucket))

    def entries(self, bucket: str, prefix: str = "") -> Iterator[Entry]:
        return patience.stream(f"{self.place}: listing {bucket}/{prefix}", lambda: self.way.entries(bucket, prefix))

    def remove(self, bucket: str, entries: Sequence[Entry]) -> Mapping[Entry, str]:
        return self._call(f"deleting {len(entries)} objects of {bucket}", lambda: self.way.remove(bucket, entries))

    def retention(self, bucket: str) -> Retention:
        return self._call(f"looking at bucket {bucket}", lambda: self.way.retention(bucket))

    def held_by(self, bucket: str, entry: Entry) -> str:
        return self._call(f"looking at {bucket}/{entry.key}", lambda: self.way.held_by(bucket, entry))
