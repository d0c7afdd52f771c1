"""storelab's own access to a store, outside of measurements, independent of the protocol.

Buckets are buckets of S3, or folders of a file system; keys are below them. `workloads/staging/buckets.py` uses only
this interface.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from storelab.core.errors import MeasurementFailed
from storelab.host import patience

T = TypeVar("T")

# Return whether storelab wrote an object: (name of the bucket, whole key, bytes or None if unknown).
Ours = Callable[[str, str, int | None], bool]

# Kinds of entries.
OBJECT, OLD_VERSION, DELETE_MARKER, UPLOAD = "object", "old version", "delete marker", "unfinished upload"
UNLISTED = "unfinished uploads"  # which the server does not list for this account


class Entry(NamedTuple):
    """An entry of a bucket that a deletion removes or leaves.

    size: None if unknown; id: of a version or of an unfinished upload.
    """

    key: str
    size: int | None
    kind: str = OBJECT
    id: str = ""


class Retention(NamedTuple):
    """How a bucket keeps deleted data: `versioning` is '', 'Enabled' or 'Suspended'.

    lock: '' without object lock, 'on' without a default retention, otherwise its mode and time.
    """

    versioning: str = ""
    mfa_delete: bool = False
    lock: str = ""

    def meaning(self) -> str:
        """Return what this means for the objects of a campaign; '' for a bucket that keeps nothing."""
        out = []
        if self.versioning:
            out.append(f"versioning is {self.versioning}: overwritten and deleted objects use space until `clean`")
        if self.lock not in ("", "on"):
            out.append(f"object lock ({self.lock}): what storelab writes cannot be deleted earlier")
        elif self.lock:
            out.append("object lock is on without a default retention: `clean` can delete what storelab writes")
        if self.mfa_delete:
            out.append("MFA delete is on: `clean` cannot delete versions, so what storelab writes remains")
        return "; ".join(out)

    def reason(self) -> str:
        """Return why the server may refuse to delete a version; '' if the bucket gives no reason."""
        return "object lock" if self.lock else "MFA delete" if self.mfa_delete else ""


class NoSuchBucket(MeasurementFailed):
    """The bucket does not exist."""

    def __init__(self, bucket: str = "", place: str = "the store"):
        name = f" {bucket!r}" if bucket else ""
        super().__init__(f"{place}: NoSuchBucket: the bucket{name} does not exist; run `storelab stage --again`")


class BucketExists(Exception):
    """The bucket exists already."""


class BucketNotEmpty(MeasurementFailed):
    """The bucket is not empty and is therefore kept. `first`: one of the keys in it."""

    def __init__(self, place: str, first: str):
        super().__init__(f"{place} still contains {first!r} and is kept")
        self.first = first


class AccessRefused(Exception):
    """The server answers 403: the bucket belongs to another account, or the account lacks rights."""


class Access(ABC):
    """Access of one account to a store through one front-end. Thread-safe.

    All methods raise UserError if the user can fix the problem, MeasurementFailed if the system fails, in addition to
    the errors that they name. `place`: place in the configuration, for messages.
    """

    place: str
    deletes_at_once = 1000  # keys in one call of `delete`

    @abstractmethod
    def read(self, bucket: str, key: str, most: int | None = None) -> bytes | None:
        """Return the object, or its first `most` bytes; None if it does not exist.

        Raises NoSuchBucket, AccessRefused.
        """

    @abstractmethod
    def write(self, bucket: str, key: str, data: bytes) -> None:
        """Write a whole object; replace an existing one. Raises NoSuchBucket, AccessRefused."""

    @abstractmethod
    def keys(self, bucket: str, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Yield (key, bytes) of every object whose key begins with `prefix`.

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
        """Return the prefixes of keys below `above` (which ends in '/') up to the next '/', e.g. `a/b/` of `a/b/c`."""

    @abstractmethod
    def make_bucket(self, bucket: str) -> None:
        """Make a bucket. Raises BucketExists."""

    @abstractmethod
    def drop_bucket(self, bucket: str) -> None:
        """Remove a bucket without objects and versions, and empty folders in it. Raises StillHolds."""

    def entries(self, bucket: str, prefix: str = "") -> Iterator[Entry]:
        """Yield all entries that use space below `prefix`.

        These are objects, and in S3 also old versions, delete markers and unfinished uploads. Raises like `keys`.
        """
        return (Entry(key, size) for key, size in self.keys(bucket, prefix))

    def remove(self, bucket: str, entries: Sequence[Entry]) -> Mapping[Entry, str]:
        """Delete these entries, at most `deletes_at_once`; return refused entry -> error code of the server."""
        self.delete(bucket, [entry.key for entry in entries])
        return {}

    def retention(self, bucket: str) -> Retention:
        """Return how the bucket keeps deleted data, as far as the server reports it."""
        return Retention()

    def protected_by(self, bucket: str, entry: Entry) -> str:
        """Return what protects this version from deletion, such as `GOVERNANCE until 2026-12-01`; '' if unknown."""
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
