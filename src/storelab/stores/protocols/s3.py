"""Access to an S3 store through boto3. Retries are off."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

from botocore.exceptions import ClientError

from storelab.core.errors import MeasurementFailed
from storelab.stores.protocols.access import (
    Access,
    AccessRefused,
    BucketExists,
    NoSuchBucket,
    Ours,
    StillHolds,
    nothing,
)
from storelab.stores.protocols.s3_mistakes import ERRORS, code, explain

BUSY = (
    "SlowDown",
    "InternalError",
    "ServiceUnavailable",
)  # of single keys: a store that is behind with its writes (MinIO)
PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)  # seconds; nothing is being measured while storelab tidies up
MOST_EMPTY = 1000  # pages in a row without an entry: some stores skip deleted objects so
ABSENT = {"NoSuchKey", "404"}
NO_LOCATION = {  # codes of servers that take no LocationConstraint, or not the name of the region
    *("InvalidLocationConstraint", "IllegalLocationConstraintException", "InvalidRegion", "InvalidArgument"),
    *("InvalidRequest", "MalformedXML", "NotImplemented", "400", "501"),
}
NOT_EMPTY = {"BucketNotEmpty", "VersionedBucketNotEmpty"}


class S3Access(Access):
    """`s3`: a boto3 client of one account at one front-end."""

    def __init__(self, s3: Any, place: str):
        self.s3, self.place = s3, place

    @contextmanager
    def _explained(self, bucket: str = "") -> Iterator[None]:
        try:
            yield
        except ERRORS as error:
            name = code(error)
            if name == "NoSuchBucket":
                raise NoSuchBucket(bucket, self.place) from None
            if name in ("AccessDenied", "403"):
                raise AccessRefused from explain(error, self.place)
            raise explain(error, self.place, bucket) from None

    def read(self, bucket: str, key: str, most: int | None = None) -> bytes | None:
        with self._explained(bucket):
            try:
                with closing(self.s3.get_object(Bucket=bucket, Key=key)["Body"]) as body:
                    return body.read(most)
            except ERRORS as error:
                if code(error) in ABSENT:
                    return None
                raise

    def write(self, bucket: str, key: str, data: bytes) -> None:
        with self._explained(bucket):
            self.s3.put_object(Bucket=bucket, Key=key, Body=data)

    def keys(self, bucket: str, prefix: str = "") -> Iterator[tuple[str, int]]:
        with self._explained(bucket):
            for page in self._pages("list_objects_v2", "Contents", "Key", Bucket=bucket, Prefix=prefix):
                for entry in page.get("Contents", []):
                    yield entry["Key"], entry["Size"]

    def _pages(self, operation: str, entries: str, name: str, **asked: Any) -> Iterator[dict[str, Any]]:
        """Pages of a listing.

        Raises MeasurementFailed for one without end: pages that repeat, or MOST_EMPTY without an entry in a row.
        """
        begun: set[str] = set()
        empty = 0
        for page in self.s3.get_paginator(operation).paginate(**asked):
            first = next((entry[name] for entry in page.get(entries, [])), None)
            empty = 0 if first is not None else empty + 1
            if first in begun or empty > MOST_EMPTY:
                told = f"a page that begins with {first!r} twice" if first in begun else f"{empty} empty pages in a row"
                raise MeasurementFailed(f"{self.place}: the server's listing has no end: {told}")
            if first is not None:
                begun.add(first)
            yield page

    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        left, errors = list(keys), []
        for pause in PAUSES:
            with self._explained(bucket):
                answer = self.s3.delete_objects(
                    Bucket=bucket, Delete={"Objects": [{"Key": k} for k in left], "Quiet": True}
                )
            errors = answer.get("Errors") or []
            if not errors or not all(str(e.get("Code")).startswith(BUSY) for e in errors):
                break
            left = [e["Key"] for e in errors]
            time.sleep(pause)
        if errors:
            raise MeasurementFailed(
                f"bucket {bucket}: {len(errors)} objects were not deleted, the first with {errors[0].get('Code')}"
            )

    def bucket_names(self) -> list[str]:
        with self._explained():
            pages = self._pages("list_buckets", "Buckets", "Name")
            return [b["Name"] for page in pages for b in page.get("Buckets", [])]

    def prefixes(self, bucket: str, above: str) -> list[str]:
        with self._explained(bucket):
            asked = {"Bucket": bucket, "Prefix": above, "Delimiter": "/"}
            pages = self._pages("list_objects_v2", "CommonPrefixes", "Prefix", **asked)
            return [p["Prefix"] for page in pages for p in page.get("CommonPrefixes", [])]

    def make_bucket(self, bucket: str) -> None:
        with self._explained(bucket):
            try:
                self._create(bucket)
            except ERRORS as error:
                if code(error) in ("BucketAlreadyExists", "BucketAlreadyOwnedByYou"):
                    raise BucketExists from None
                raise

    def _create(self, bucket: str) -> None:
        """Name the region again when it is not the first one of S3, as servers with regions want it.

        Servers that know no such location refuse it, and are asked without it.
        """
        region = self.s3.meta.region_name
        if region != "us-east-1":
            try:
                self.s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": region})
                return
            except ERRORS as error:
                if code(error) not in NO_LOCATION:
                    raise
                refused = error
            try:
                self.s3.create_bucket(Bucket=bucket)
            except ERRORS as error:
                raise (refused if code(error) in NO_LOCATION else error) from None
        else:
            self.s3.create_bucket(Bucket=bucket)

    def drop_bucket(self, bucket: str, ours: Ours = nothing) -> None:
        with self._explained(bucket):
            try:
                self.s3.delete_bucket(Bucket=bucket)
            except ERRORS as error:
                if code(error) not in NOT_EMPTY:
                    raise
                try:
                    self._drop_old_versions(bucket, ours)
                except ERRORS as unknown:
                    if code(unknown) != "NotImplemented":
                        raise
                    self._drop_emptied(bucket)
                    return
                self.s3.delete_bucket(Bucket=bucket)

    def _drop_emptied(self, bucket: str) -> None:
        """From a store without versions, whose nodes learn of a deletion one after the other (Garage)."""
        for pause in (*PAUSES, None):
            try:
                self.s3.delete_bucket(Bucket=bucket)
                return
            except ERRORS as error:
                if code(error) not in NOT_EMPTY or pause is None:
                    raise
            for held in self.s3.list_objects_v2(Bucket=bucket, MaxKeys=1).get("Contents", []) if pause > 1 else ():
                raise StillHolds(f"{self.place}: bucket {bucket} still holds {held['Key']}: it is left alone")
            time.sleep(pause)

    def _drop_old_versions(self, bucket: str, ours: Ours) -> None:
        """What deleted objects leave in a bucket with versions (of a probe that was killed). All stays where somebody
        else's are among them, or where an object can still be read."""
        old, marks, theirs = [], [], []
        for page in self.s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            for v in page.get("Versions", []):
                (theirs if v["IsLatest"] or not ours(bucket, v["Key"], v["Size"]) else old).append(v)
            for v in page.get("DeleteMarkers", []):
                (marks if ours(bucket, v["Key"], None) else theirs).append(v)
        if theirs:
            raise StillHolds(f"{self.place}: bucket {bucket} still holds {theirs[0]['Key']}: it is left alone")
        for entry in [*old, *marks]:  # the marks last: they hide the versions before them
            self.s3.delete_object(Bucket=bucket, Key=entry["Key"], VersionId=entry["VersionId"])

    def abandon(self, bucket: str, prefix: str, ours: Ours) -> list[str]:
        """Unfinished multipart uploads take space.

        Some servers do not delete a bucket that has them; others do not list them.
        """
        theirs: list[str] = []
        with suppress(ClientError):
            for page in self.s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=prefix):
                for upload in page.get("Uploads", []):
                    if not ours(bucket, upload["Key"], None):
                        theirs.append(upload["Key"])
                        continue
                    self.s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
        return theirs
