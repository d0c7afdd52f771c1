"""Buckets and objects through boto3: make, mark, list, delete (level 2, measuring side; never used inside a measurement).

Safety rests here: storelab writes only where its own marker object lies, `<prefix>.storelab` with {campaign, created}, and
deletes only below it. Retries are off unless asked for.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from storelab.model import MeasurementFailed, UserError
from storelab.stores.base import Bucket, Endpoint, Store
from storelab.stores.clients import client, for_store
from storelab.stores.mistakes import ERRORS, code, explain

__all__ = ["ERRORS", "client", "delete_prefix", "ensure", "explain", "for_store", "list_keys", "marked", "own_buckets", "remove"]

MARKER = ".storelab"
THREADS = 16


def marked(s3: Any, bucket: Bucket) -> str | None:
    """The campaign that storelab marked this bucket (or prefix) for; None without a marker. Raises botocore's errors (NoSuchBucket …)."""
    try:
        answer = s3.get_object(Bucket=bucket.name, Key=bucket.prefix + MARKER)
        return str(json.loads(answer["Body"].read(10_000))["campaign"])
    except s3.exceptions.NoSuchKey:
        return None
    except (ValueError, KeyError, TypeError):
        return None


def _place(store: Store, bucket: Bucket) -> str:
    return f"stores.{store.name}: bucket {bucket.name}" + (f", prefix {bucket.prefix}" if bucket.prefix else "")


def _examine(s3: Any, store: Store, campaign: str, bucket: Bucket) -> bool:
    """True if the bucket is there and ours, False if it is to be made. Raises UserError if it is of someone else."""
    place, mend = _place(store, bucket), "use another campaign name or `prefix`"
    try:
        owner = marked(s3, bucket)
        if owner is None and bucket.prefix and not next(list_keys(s3, bucket), None):
            return False
    except ERRORS as error:
        name = code(error)
        if name in ("NoSuchBucket", "404") and not bucket.prefix:
            return False
        if name in ("AccessDenied", "403"):
            raise UserError(place, "is of someone else (403)" if not bucket.prefix else "denies access (403)", mend) from None
        raise explain(error, f"stores.{store.name}") from None
    if owner is None:
        raise UserError(place, "is of someone else: it bears no mark of storelab", f"{mend}, or remove it if it is yours")
    if owner != campaign:
        raise UserError(place, f"is of someone else: it is marked for the campaign {owner!r}", mend)
    return True


def ensure(store: Store, endpoint: Endpoint, campaign: str, buckets: Sequence[Bucket]) -> None:
    """Make and mark those of `buckets` that are missing, in parallel; nothing is written if one of them is of someone else.

    Raises UserError (someone else's bucket; missing in a read-only store), MeasurementFailed.
    """
    s3 = for_store(store, endpoint)
    with ThreadPoolExecutor(THREADS) as pool:
        there = list(pool.map(lambda b: _examine(s3, store, campaign, b), buckets))
        missing = [b for b, ok in zip(buckets, there, strict=True) if not ok]
        if missing and store.settings.read_only:
            raise UserError(
                _place(store, missing[0]), "is not staged, and the store is read-only", "stage it with `read_only: false` first"
            )
        # All buckets first, then all markers: SeaweedFS 4.48 locks up for good when a bucket is made while another gets its first object.
        made: list[Bucket] = []
        marked_: list[Bucket] = []
        try:
            list(pool.map(lambda b: (_make(s3, store, campaign, b), made.append(b)), missing))
            list(pool.map(lambda b: (_mark(s3, store, campaign, b), marked_.append(b)), missing))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            for bucket in made:
                if bucket not in marked_ and not bucket.prefix:
                    with suppress(*ERRORS):  # this call made it, and nobody knows of it yet
                        s3.delete_bucket(Bucket=bucket.name)
            raise


def _make(s3: Any, store: Store, campaign: str, bucket: Bucket) -> None:
    if bucket.prefix:
        return
    try:
        s3.create_bucket(Bucket=bucket.name, **_location(s3))
    except ERRORS as error:
        if code(error) in ("BucketAlreadyExists", "BucketAlreadyOwnedByYou"):
            problem = "is of someone else: it appeared just now"
            raise UserError(_place(store, bucket), problem, "use another campaign name or `prefix`") from None
        raise explain(error, f"stores.{store.name}") from None


def _mark(s3: Any, store: Store, campaign: str, bucket: Bucket) -> None:
    mark = {"campaign": campaign, "created": datetime.now(UTC).isoformat(timespec="seconds")}
    try:
        s3.put_object(Bucket=bucket.name, Key=bucket.prefix + MARKER, Body=json.dumps(mark).encode(), ContentType="application/json")
    except ERRORS as error:
        raise explain(error, f"stores.{store.name}") from None


def _location(s3: Any) -> dict[str, Any]:
    """Amazon wants the region again when it is not its first one; others refuse to be asked."""
    region, host = s3.meta.region_name, urlsplit(s3.meta.endpoint_url).hostname or ""
    return {"CreateBucketConfiguration": {"LocationConstraint": region}} if host.endswith("amazonaws.com") and region != "us-east-1" else {}


def list_keys(s3: Any, bucket: Bucket, prefix: str = "") -> Iterator[tuple[str, int]]:
    """(key, bytes) of every object below `bucket.prefix + prefix`, in the server's order, without the marker; keys are whole."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket.name, Prefix=bucket.prefix + prefix):
        for entry in page.get("Contents", []):
            if entry["Key"] != bucket.prefix + MARKER:
                yield entry["Key"], entry["Size"]


def delete_prefix(s3: Any, bucket: Bucket, prefix: str = "") -> int:
    """Delete every object below `bucket.prefix + prefix` but the marker; returns their number.

    Raises UserError without storelab's marker, MeasurementFailed where the server does not delete.
    """
    place = f"bucket {bucket.name}"
    try:
        if marked(s3, bucket) is None:
            raise UserError(place, "bears no mark of storelab: nothing is deleted", "delete by hand what is yours")
        keys = (key for key, _ in list_keys(s3, bucket, prefix))
        with ThreadPoolExecutor(8) as pool:
            total = 0
            while wave := list(islice(keys, 8000)):  # bounded: a bucket may hold millions
                parts = [wave[i : i + 1000] for i in range(0, len(wave), 1000)]
                total += sum(pool.map(lambda part: _delete(s3, bucket, part), parts))
            return total
    except ERRORS as error:
        raise explain(error, place) from None


def _delete(s3: Any, bucket: Bucket, keys: Sequence[str]) -> int:
    answer = s3.delete_objects(Bucket=bucket.name, Delete={"Objects": [{"Key": k} for k in keys], "Quiet": True})
    if errors := answer.get("Errors"):
        raise MeasurementFailed(f"bucket {bucket.name}: {len(errors)} objects were not deleted, the first with {errors[0].get('Code')}")
    return len(keys)


def _candidates(s3: Any, store: Store, campaign: str) -> Iterable[Bucket]:
    """Buckets (or prefixes) that bear the campaign's name."""
    first = store.bucket(campaign, 0)
    if first.prefix:
        above = first.prefix.rstrip("/").rpartition("/")[0] + "/"
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=first.name, Prefix=above, Delimiter="/")
        return [Bucket(first.name, p["Prefix"]) for page in pages for p in page.get("CommonPrefixes", [])]
    pattern = re.compile(re.escape(first.name[:-4]) + r"\d{4,}\Z")
    pages = s3.get_paginator("list_buckets").paginate()
    return [Bucket(b["Name"]) for page in pages for b in page.get("Buckets", []) if pattern.match(b["Name"])]


def own_buckets(store: Store, endpoint: Endpoint, campaign: str) -> list[Bucket]:
    """Buckets (or prefixes in the one given bucket) that bear the marker of this campaign, by name."""
    s3 = for_store(store, endpoint)
    try:
        found = sorted(_candidates(s3, store, campaign), key=lambda b: (b.name, b.prefix))
        with ThreadPoolExecutor(THREADS) as pool:
            return [b for b, owner in zip(found, pool.map(lambda b: marked(s3, b), found), strict=True) if owner == campaign]
    except ERRORS as error:
        raise explain(error, f"stores.{store.name}") from None


class Removed(NamedTuple):
    """What `remove` deleted; markers are not counted, prefixes in the one given bucket count as buckets."""

    objects: int
    buckets: int

    def __str__(self) -> str:
        return f"{self.objects} objects, {self.buckets} buckets"


def remove(store: Store, campaign: str) -> Removed:
    """Delete the campaign's objects and, but for the one given bucket, its buckets.

    Touches only what bears the campaign's marker. Raises UserError for a read-only store.
    """
    if store.settings.read_only:
        raise UserError(f"stores.{store.name}", "is read-only: nothing is deleted", "set its `read_only` to false")
    endpoint = store.endpoints(1)[0]
    s3, own = for_store(store, endpoint), own_buckets(store, endpoint, campaign)
    objects = 0
    for bucket in own:
        objects += delete_prefix(s3, bucket)
        try:
            _abort_uploads(s3, bucket)
            s3.delete_object(Bucket=bucket.name, Key=bucket.prefix + MARKER)
            if not bucket.prefix:
                s3.delete_bucket(Bucket=bucket.name)
        except ERRORS as error:
            raise explain(error, _place(store, bucket)) from None
    return Removed(objects, len(own))


def _abort_uploads(s3: Any, bucket: Bucket) -> None:
    """Unfinished multipart uploads take space, and some servers do not delete a bucket that has them; others do not list them."""
    with suppress(ClientError):
        for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket.name, Prefix=bucket.prefix):
            for upload in page.get("Uploads", []):
                s3.abort_multipart_upload(Bucket=bucket.name, Key=upload["Key"], UploadId=upload["UploadId"])
