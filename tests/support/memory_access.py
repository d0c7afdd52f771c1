"""A store in memory with the interface that storelab uses to stage and to clean up."""

from collections.abc import Iterable, Iterator

from storelab.stores.protocols.access import Access, BucketExists, NoSuchBucket


class MemoryAccess(Access):
    """A store in memory. files: bucket -> key -> content."""

    def __init__(self, files: dict[str, dict[str, bytes]] | None = None):
        self.files = {} if files is None else files

    def _bucket(self, bucket: str) -> dict[str, bytes]:
        if bucket not in self.files:
            raise NoSuchBucket(bucket)
        return self.files[bucket]

    def read(self, bucket: str, key: str, most: int | None = None) -> bytes | None:
        data = self._bucket(bucket).get(key)
        return data if data is None else data[:most]

    def write(self, bucket: str, key: str, data: bytes) -> None:
        self._bucket(bucket)[key] = data

    def keys(self, bucket: str, prefix: str = "") -> Iterator[tuple[str, int]]:
        yield from ((k, len(v)) for k, v in self._bucket(bucket).items() if k.startswith(prefix))

    def delete(self, bucket: str, keys: Iterable[str]) -> None:
        for key in keys:
            self._bucket(bucket).pop(key, None)

    def bucket_names(self) -> list[str]:
        return list(self.files)

    def prefixes(self, bucket: str, above: str) -> list[str]:
        below = (k.removeprefix(above) for k in self._bucket(bucket) if k.startswith(above))
        return [f"{above}{rest.split('/')[0]}/" for rest in below]

    def make_bucket(self, bucket: str) -> None:
        if bucket in self.files:
            raise BucketExists(bucket)
        self.files[bucket] = {}

    def drop_bucket(self, bucket: str) -> None:
        del self.files[bucket]
