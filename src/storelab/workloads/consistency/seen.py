"""What a look at a store shows, and bodies that say what they are. Pure."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

OK, ABSENT, FAILED = "ok", "absent", "failed"


@dataclass(frozen=True)
class Seen:
    """One answer, times in UTC ns. state: `ok`; `absent`: the store says that this is not there; `failed`: nothing is
    known.

    names: of a listing, name -> bytes (0 for buckets); repeated: names that were listed twice; error, message: of a
    failure or an absence, in the store's own words.
    """

    start_ns: int
    end_ns: int
    state: str = OK
    status: int = 0
    error: str | None = None
    message: str = ""
    data: bytes | None = None
    names: dict[str, int] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()
    requests: int | None = None

    def done(self) -> "Seen":
        """The answer to a write, which is not done where the store says that there is no such place."""
        return replace(self, state=FAILED) if self.state == ABSENT else self

    def gone(self) -> "Seen":
        """The answer to a deletion, which is as good where there was nothing."""
        return replace(self, state=OK) if self.state == ABSENT else self

    def said(self) -> str:
        """For evidence: status and words of the store."""
        return " ".join(str(part) for part in (self.status or "", self.error or self.state) if part)


def listed(entries: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """`names` and `repeated` of a listing of (name, bytes)."""
    pairs = list(entries)
    counts = Counter(name for name, _ in pairs)
    return {"names": dict(pairs), "repeated": tuple(name for name, n in counts.items() if n > 1)}


class View(ABC):
    """One front-end as one thread sees it: keys lie below the point's bucket and its prefix. What goes wrong in the
    store is in the answer; no method raises it."""

    bucket = prefix = ""  # the point's bucket, and what stands in it before every key

    @abstractmethod
    def put(self, key: str, body: bytes) -> Seen:
        """Write an object, new or over an older one."""

    @abstractmethod
    def get(self, key: str) -> Seen:
        """The whole object, as `data`."""

    @abstractmethod
    def delete(self, key: str) -> Seen:
        """`ok` also where the store says that there was nothing."""

    @abstractmethod
    def listing(self, bucket: str, prefix: str, cut: int) -> Seen:
        """All keys of a bucket that begin with `prefix`, every page, without their first `cut` characters."""

    def list(self, prefix: str) -> Seen:
        """All keys that begin with `prefix` (which ends in '/')."""
        return self.listing(self.bucket, self.prefix + prefix, len(self.prefix))

    @abstractmethod
    def make_bucket(self, bucket: str) -> Seen:
        """Make an empty bucket."""

    @abstractmethod
    def drop_bucket(self, bucket: str) -> Seen:
        """`ok` also where the store says that there is none."""

    @abstractmethod
    def head_bucket(self, bucket: str) -> Seen:
        """`ok` also for a bucket that is there and of someone else."""

    def list_bucket(self, bucket: str) -> Seen:
        """What is in a bucket other than the point's."""
        return self.listing(bucket, "", 0)

    @abstractmethod
    def bucket_names(self) -> Seen:
        """All buckets of the account, as `names`."""

    def first(self, key: str, body: bytes) -> Seen:
        """A `put` where the folder of the key may not be there yet."""
        return self.put(key, body)

    def close(self) -> None:
        """Close connections."""


def body(key: str, version: int, nonce: str, size: int) -> bytes:
    """`size` bytes that repeat one line with key, version and nonce: any mixture of two bodies shows."""
    line = f"storelab {key} version {version} {nonce}\n".encode()
    return (line * (size // len(line) + 1))[:size]


def recognise(data: bytes, size: int) -> tuple[str, int, str] | None:
    """(key, version, nonce) of a whole body of `size` bytes; None where it is none, or not whole."""
    parts = data.partition(b"\n")[0].decode("utf-8", "replace").split(" ")
    if len(parts) != 5 or parts[0] != "storelab" or parts[2] != "version" or not parts[3].isdigit():
        return None
    found = parts[1], int(parts[3]), parts[4]
    return found if data == body(*found, size) else None


def difference(seen: Seen, key: str, version: int, expected: bytes) -> str | None:
    """What is wrong with an answer that should be `expected`; None where nothing is."""
    if seen.state == ABSENT:
        return f"is not there ({seen.said()})"
    if seen.data == expected:
        return None
    found = recognise(seen.data or b"", len(expected))
    if found is None:
        return f"is no body that was written ({len(seen.data or b'')} B instead of {len(expected)} B)"
    if found[0] != key:
        return f"is the content of another key, {found[0]}"
    return (
        f"is version {found[1]} instead of {version}"
        if found[1] != version
        else f"is version {version} of another write ({found[2]})"
    )
