"""A way into several data servers that hold parts of one tree, outside of every measurement.

A redirector lists, makes and removes folders on one of them only, and waits before it makes a file. So storelab goes to
the data servers themselves, as a site's own tools do; the redirector learns of it from them.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores.protocols.access import Access, BucketExists, NoSuchBucket

if TYPE_CHECKING:  # it loads urllib3, which planning does not need
    from storelab.stores.protocols.files import FilesAccess


class JoinedAccess(Access):
    """ways: into each data server, in the order of their numbers."""

    deletes_at_once = 100  # as of FilesAccess

    def __init__(self, ways: "Sequence[FilesAccess]", place: str):
        self.ways, self.place = list(ways), place

    def _from(self, bucket: str, key: str) -> "list[FilesAccess]":
        """The servers in the order in which this key's are tried: a new file goes to the first."""
        first = zlib.crc32(f"{bucket}/{key}".encode()) % len(self.ways)
        return self.ways[first:] + self.ways[:first]

    def read(self, bucket: str, key: str, most: int | None = None) -> bytes | None:
        """What any server has. Raises the error of one that does not answer only where no other one has it."""
        trouble: UserError | MeasurementFailed | None = None
        without = 0
        for way in self._from(bucket, key):
            try:
                if (data := way.read(bucket, key, most)) is not None:
                    return data
            except NoSuchBucket:
                without += 1
            except (UserError, MeasurementFailed) as error:
                trouble = error
        if trouble:
            raise trouble
        if without == len(self.ways):
            raise NoSuchBucket(bucket, self.place)
        return None

    def write(self, bucket: str, key: str, data: bytes) -> None:
        ways = self._from(bucket, key)
        next((way for way in ways if way.holds(bucket, key)), ways[0]).write(bucket, key, data)

    def keys(self, bucket: str, prefix: str = "") -> Iterator[tuple[str, int]]:
        seen: set[str] = set()
        for way in self._with(bucket):
            for key, size in way.keys(bucket, prefix):
                if key not in seen:
                    seen.add(key)
                    yield key, size

    def _with(self, bucket: str) -> "list[FilesAccess]":
        """The servers that have this bucket. Raises NoSuchBucket where none has."""
        found = [way for way in self.ways if way.holds(bucket)]
        if not found:
            raise NoSuchBucket(bucket, self.place)
        return found

    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        for way in self.ways:
            way.delete(bucket, keys)

    def bucket_names(self) -> list[str]:
        return sorted({name for way in self.ways for name in way.bucket_names()})

    def prefixes(self, bucket: str, above: str) -> list[str]:
        return sorted({found for way in self._with(bucket) for found in way.prefixes(bucket, above)})

    def make_bucket(self, bucket: str) -> None:
        """On every server."""
        there = 0
        for way in self.ways:
            try:
                way.make_bucket(bucket)
            except BucketExists:
                there += 1
        if there == len(self.ways):
            raise BucketExists(bucket)

    def drop_bucket(self, bucket: str) -> None:
        for way in self.ways:
            if way.holds(bucket):
                way.drop_bucket(bucket)
