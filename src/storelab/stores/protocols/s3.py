"""Access to an S3 store through boto3. Retries are off."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from botocore.exceptions import ClientError

from storelab.core.errors import MeasurementFailed
from storelab.stores.protocols.access import (
    DELETE_MARKER,
    OBJECT,
    OLD_VERSION,
    UNLISTED,
    UPLOAD,
    Access,
    AccessRefused,
    BucketExists,
    Entry,
    NoSuchBucket,
    Retention,
    StillHolds,
)
from storelab.stores.protocols.s3_mistakes import ERRORS, code, explain

BUSY = (
    "SlowDown",
    "InternalError",
    "ServiceUnavailable",
)  # of single keys: a store that is behind with its writes (MinIO)
PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)  # seconds; nothing is being measured while storelab tidies up
ABSENT = {"NoSuchKey", "404"}
NO_LOCATION = {  # codes of servers that take no LocationConstraint, or not the name of the region
    *("InvalidLocationConstraint", "IllegalLocationConstraintException", "InvalidRegion", "InvalidArgument"),
    *("InvalidRequest", "MalformedXML", "NotImplemented", "400", "501"),
}
GONE = ABSENT | {"NoSuchVersion", "NoSuchUpload"}
REFUSED = {"AccessDenied", "403"}
NOT_EMPTY = {"BucketNotEmpty", "VersionedBucketNotEmpty"}
MAX_PAGES = 100_000  # of a listing, of up to 1000 entries each; a longer one has no end
MAX_EMPTY_PAGES = 1000  # one after the other

# Listings: operation -> lists of entries in a page, and member of the answer -> parameter that continues it.
_TOKEN = {"NextContinuationToken": "ContinuationToken"}
_UPLOADS = {"NextKeyMarker": "KeyMarker", "NextUploadIdMarker": "UploadIdMarker"}
_VERSIONS = {"NextKeyMarker": "KeyMarker", "NextVersionIdMarker": "VersionIdMarker"}
LISTINGS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "list_objects_v2": (("Contents", "CommonPrefixes"), _TOKEN),
    "list_object_versions": (("Versions", "DeleteMarkers"), _VERSIONS),
    "list_multipart_uploads": (("Uploads",), _UPLOADS),
    "list_buckets": (("Buckets",), {"ContinuationToken": "ContinuationToken"}),
}


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
                body = self.s3.get_object(Bucket=bucket, Key=key)["Body"]
            except ERRORS as error:
                if code(error) in ABSENT:
                    return None
                raise
            try:
                return body.read(most)
            finally:
                body.close()

    def write(self, bucket: str, key: str, data: bytes) -> None:
        with self._explained(bucket):
            self.s3.put_object(Bucket=bucket, Key=key, Body=data)

    def _listed(self, operation: str, **query: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (name of the list, entry) of every page.

        Raise MeasurementFailed where the server says that there is more without a way to ask for it, or where its pages
        repeat or have no end: what was not listed is neither counted nor deleted.
        """
        lists, onward = LISTINGS[operation]
        following: dict[str, Any] = {}
        before: set[str] = set()  # entries of the last page: some servers begin with its last entry again
        firsts: set[str] = set()
        asked: list[dict[str, Any]] = []
        empty = 0
        for _ in range(MAX_PAGES):
            page = getattr(self.s3, operation)(**query, **following)
            entries = [(name, entry) for name in lists for entry in page.get(name) or ()]
            marks = [_mark(name, entry) for name, entry in entries]
            if marks and marks[0] in firsts:
                raise self._incomplete(operation, query, "its pages repeat")
            firsts.update(marks[:1])
            for mark, entry in zip(marks, entries, strict=True):
                if mark not in before:
                    yield entry
            before, empty = set(marks), 0 if marks else empty + 1
            following = {parameter: page[name] for name, parameter in onward.items() if page.get(name)}
            if not page.get("IsTruncated", operation == "list_buckets" and bool(following)):
                return
            if not following:
                raise self._incomplete(operation, query, "the server says that there is more, but not how to go on")
            if following in asked or empty > MAX_EMPTY_PAGES:
                raise self._incomplete(operation, query, "its pages repeat")
            asked = [*asked[-9:], following]
        raise self._incomplete(operation, query, f"it has no end after {MAX_PAGES} pages")

    def _incomplete(self, operation: str, query: Mapping[str, Any], why: str) -> MeasurementFailed:
        what = f"bucket {query['Bucket']}" if "Bucket" in query else "buckets"
        return MeasurementFailed(f"{self.place}: the listing of {what} ({operation}) is incomplete: {why}")

    def keys(self, bucket: str, prefix: str = "") -> Iterator[tuple[str, int]]:
        with self._explained(bucket):
            for _, entry in self._listed("list_objects_v2", Bucket=bucket, Prefix=prefix):
                yield entry["Key"], entry["Size"]

    def entries(self, bucket: str, prefix: str = "") -> Iterator[Entry]:
        """Versions are listed where the bucket has or had versioning, or where the server does not say.

        Some servers do not delete a bucket with unfinished uploads; others do not list them.
        """
        with self._explained(bucket):
            if self._versioned(bucket):
                for name, v in self._listed("list_object_versions", Bucket=bucket, Prefix=prefix):
                    if name == "DeleteMarkers":
                        yield Entry(v["Key"], None, DELETE_MARKER, v["VersionId"])
                    else:
                        yield Entry(v["Key"], v["Size"], OBJECT if v.get("IsLatest") else OLD_VERSION, v["VersionId"])
            else:
                yield from (Entry(key, size) for key, size in self.keys(bucket, prefix))
            try:
                for _, upload in self._listed("list_multipart_uploads", Bucket=bucket, Prefix=prefix):
                    yield Entry(upload["Key"], None, UPLOAD, upload["UploadId"])
            except ClientError as error:
                if code(error) in REFUSED:
                    yield Entry(prefix, None, UNLISTED)

    def _versioned(self, bucket: str) -> bool:
        """Whether the bucket can have old versions. A server that does not tell is asked for them."""
        with suppress(ClientError):
            return bool(self.s3.get_bucket_versioning(Bucket=bucket).get("Status"))
        with suppress(ClientError):
            page = self.s3.list_object_versions(Bucket=bucket)
            ids = {v.get("VersionId") for v in page.get("Versions", ())} - {None, "", "null"}
            return bool(ids or page.get("DeleteMarkers"))
        return False

    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        refused = self.remove(bucket, [Entry(key, None) for key in keys])
        if refused:
            first = next(iter(refused.values()))
            raise MeasurementFailed(f"bucket {bucket}: {len(refused)} objects were not deleted, the first with {first}")

    def remove(self, bucket: str, entries: Sequence[Entry]) -> dict[Entry, str]:
        refused: dict[Entry, str] = {}
        for entry in (e for e in entries if e.kind == UPLOAD):
            with self._explained(bucket):
                try:
                    self.s3.abort_multipart_upload(Bucket=bucket, Key=entry.key, UploadId=entry.id)
                except ClientError as error:
                    if code(error) not in GONE:
                        refused[entry] = code(error)
        left = {(e.key, e.id): e for e in entries if e.kind != UPLOAD}
        errors: dict[Entry, str] = {}
        for pause in PAUSES if left else ():
            errors = self._delete_objects(bucket, left)
            if not errors or not all(why.startswith(BUSY) for why in errors.values()):
                break
            left = {(e.key, e.id): e for e in errors}
            time.sleep(pause)
        return refused | errors

    def _delete_objects(self, bucket: str, entries: Mapping[tuple[str, str], Entry]) -> dict[Entry, str]:
        """Delete objects by one request; return what the server refuses, with its error code."""
        named = [{"Key": key} | ({"VersionId": version} if version else {}) for key, version in entries]
        with self._explained(bucket):
            try:
                answer = self.s3.delete_objects(Bucket=bucket, Delete={"Objects": named, "Quiet": True})
            except ClientError as error:  # with MFA delete the whole request is refused
                if code(error) in REFUSED and any(version for _, version in entries):
                    return dict.fromkeys(entries.values(), code(error))
                raise
        out: dict[Entry, str] = {}
        for error in answer.get("Errors") or ():
            if (why := str(error.get("Code"))) not in GONE:
                known = entries.get((error["Key"], error.get("VersionId") or ""))
                same_key = (e for e in entries.values() if e.key == error["Key"])
                out |= dict.fromkeys([known] if known else same_key, why)
        return out

    def retention(self, bucket: str) -> Retention:
        versioning, mfa, lock = "", False, ""
        with self._explained(bucket):
            with suppress(ClientError):
                found = self.s3.get_bucket_versioning(Bucket=bucket)
                versioning, mfa = found.get("Status", ""), found.get("MFADelete") == "Enabled"
            with suppress(ClientError):
                found = self.s3.get_object_lock_configuration(Bucket=bucket).get("ObjectLockConfiguration", {})
                rule = found.get("Rule", {}).get("DefaultRetention", {})
                time_ = next((f"{rule[unit]} {unit.lower()}" for unit in ("Days", "Years") if rule.get(unit)), "")
                lock = f"{rule.get('Mode')} for {time_}" if time_ else "on" if found.get("ObjectLockEnabled") else ""
        return Retention(versioning, mfa, lock)

    def held_by(self, bucket: str, entry: Entry) -> str:
        this, out = {"Bucket": bucket, "Key": entry.key, "VersionId": entry.id}, []
        if entry.id and entry.kind in (OBJECT, OLD_VERSION):
            with suppress(ClientError, KeyError):
                kept = self.s3.get_object_retention(**this)["Retention"]
                out.append(f"{kept['Mode']} until {kept['RetainUntilDate']:%Y-%m-%d %H:%M %Z}")
            with suppress(ClientError, KeyError):
                if self.s3.get_object_legal_hold(**this)["LegalHold"]["Status"] == "ON":
                    out.append("legal hold")
        return ", ".join(out)

    def bucket_names(self) -> list[str]:
        with self._explained():
            return [bucket["Name"] for _, bucket in self._listed("list_buckets")]

    def prefixes(self, bucket: str, above: str) -> list[str]:
        with self._explained(bucket):
            pages = self._listed("list_objects_v2", Bucket=bucket, Prefix=above, Delimiter="/")
            return [entry["Prefix"] for name, entry in pages if name == "CommonPrefixes"]

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

    def drop_bucket(self, bucket: str) -> None:
        """Versions are looked at first, for some servers delete a bucket that has them.

        Others learn late that a bucket was emptied (Garage), so that both are tried for some seconds.
        """
        for pause in (*PAUSES, None):
            with self._explained(bucket):
                held = self._held(bucket)
                if not held:
                    try:
                        self.s3.delete_bucket(Bucket=bucket)
                        return
                    except ERRORS as error:
                        if code(error) not in NOT_EMPTY or pause is None:
                            raise
            if pause is None:
                break
            time.sleep(pause)
        raise StillHolds(f"{self.place}: bucket {bucket}", held)

    def _held(self, bucket: str) -> str:
        """Return a key of the bucket, also of an old version or a delete marker; '' where there is none."""
        for operation in ("list_object_versions", "list_objects_v2"):
            with suppress(ClientError):
                page = getattr(self.s3, operation)(Bucket=bucket, MaxKeys=1)
                for name in LISTINGS[operation][0]:
                    for entry in page.get(name) or ():
                        return str(entry.get("Key", ""))
        return ""


def _mark(name: str, entry: Mapping[str, Any]) -> str:
    """Return what tells an entry of a listing from all others."""
    return "\0".join([name, *(str(entry.get(member)) for member in ("Key", "Prefix", "Name", "VersionId", "UploadId"))])
