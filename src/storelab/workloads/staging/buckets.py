"""Buckets and objects of a campaign: make, mark, list, delete.

Safety rests here: storelab writes only where its own marker object lies, `<prefix>.storelab` with {campaign, created},
and deletes below it only
what it wrote itself (`written.py`). A bucket is reached through the account that owns it.
"""

import functools
import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores.base import Store
from storelab.stores.protocols.access import Access, AccessRefused, BucketExists, NoSuchBucket, Ours, StillHolds
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.staging.written import MARKER

THREADS = 16
OTHER_NAME = "use another campaign name or `prefix`"


def marked(access: Access, bucket: Bucket) -> str | None:
    """The campaign that storelab marked this bucket (or prefix) for; None without a marker. Raises NoSuchBucket,
    AccessRefused."""
    try:
        data = access.read(bucket.name, bucket.prefix + MARKER, 10_000)
        return str(json.loads(data)["campaign"]) if data is not None else None
    except (ValueError, KeyError, TypeError):
        return None


def _place(store: Store, bucket: Bucket) -> str:
    return f"stores.{store.name}: bucket {bucket.name}" + (f", prefix {bucket.prefix}" if bucket.prefix else "")


def accesses(store: Store, buckets: Sequence[Bucket]) -> dict[int, Access]:
    """Account -> its access, of every account that owns one of `buckets`."""
    return {account: store.access(account) for account in sorted({b.account for b in buckets})}


def present(ways: dict[int, Access], bucket: Bucket) -> bool:
    """True if the bucket is there and bears a mark of storelab."""
    try:
        return marked(ways[bucket.account], bucket) is not None
    except (NoSuchBucket, AccessRefused):
        return False


def _examine(access: Access, store: Store, campaign: str, bucket: Bucket) -> bool:
    """True if the bucket is there and ours, False if it is to be made. Raises UserError if it is of someone else."""
    place = _place(store, bucket)
    try:
        owner = marked(access, bucket)
        if owner is None and bucket.prefix and not next(list_keys(access, bucket), None):
            return False
    except NoSuchBucket:
        if not bucket.prefix:
            return False
        raise UserError(
            f"stores.{store.name}",
            f"NoSuchBucket: the bucket {bucket.name!r} is not there",
            "check the store's `bucket`",
        ) from None
    except AccessRefused:
        raise UserError(
            place, "is of someone else (403)" if not bucket.prefix else "denies access (403)", OTHER_NAME
        ) from None
    if owner is None:
        raise UserError(
            place, "is of someone else: it bears no mark of storelab", f"{OTHER_NAME}, or remove it if it is yours"
        )
    if owner != campaign:
        raise UserError(place, f"is of someone else: it is marked for the campaign {owner!r}", OTHER_NAME)
    return True


def ensure(store: Store, campaign: str, buckets: Sequence[Bucket]) -> None:
    """Make and mark those of `buckets` that are missing, in parallel; nothing is written if one belongs to someone
    else.

    Raises UserError (someone else's bucket; missing in a read-only store), MeasurementFailed.
    """
    ways = accesses(store, buckets)
    with ThreadPoolExecutor(THREADS) as pool:
        there = list(pool.map(lambda b: _examine(ways[b.account], store, campaign, b), buckets))
        missing = [b for b, ok in zip(buckets, there, strict=True) if not ok]
        if missing and store.settings.read_only:
            raise UserError(
                _place(store, missing[0]),
                "is not staged, and the store is read-only",
                "stage it with `read_only: false` first",
            )
        # All buckets first, then all markers: SeaweedFS 4.48 locks up for good when a bucket is made while another
        # gets its first object.
        made: list[Bucket] = []
        marked_: list[Bucket] = []
        try:
            list(pool.map(lambda b: (_make(ways[b.account], store, b), made.append(b)), missing))
            list(pool.map(lambda b: (_mark(ways[b.account], store, campaign, b), marked_.append(b)), missing))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            for bucket in made:
                if bucket not in marked_ and not bucket.prefix:  # this call made it, and nobody knows of it yet
                    with suppress(UserError, MeasurementFailed, NoSuchBucket, AccessRefused):
                        ways[bucket.account].drop_bucket(bucket.name)
            raise


def _make(access: Access, store: Store, bucket: Bucket) -> None:
    if bucket.prefix:
        return
    try:
        access.make_bucket(bucket.name)
    except BucketExists:
        raise UserError(_place(store, bucket), "is of someone else: it appeared just now", OTHER_NAME) from None
    except AccessRefused:
        raise _refused(store) from None


def _mark(access: Access, store: Store, campaign: str, bucket: Bucket) -> None:
    mark = {"campaign": campaign, "created": datetime.now(UTC).isoformat(timespec="seconds")}
    try:
        access.write(bucket.name, bucket.prefix + MARKER, json.dumps(mark).encode())
    except AccessRefused:
        raise _refused(store) from None


def _refused(store: Store) -> UserError:
    return UserError(
        f"stores.{store.name}",
        "AccessDenied: the server denies access (403)",
        "check the rights of these credentials, or name the store's `bucket`",
    )


def list_keys(access: Access, bucket: Bucket, prefix: str = "") -> Iterator[tuple[str, int]]:
    """(key, bytes) of every object below `bucket.prefix + prefix`, in the server's order, without the marker; keys are
    whole."""
    for key, size in access.keys(bucket.name, bucket.prefix + prefix):
        if key != bucket.prefix + MARKER:
            yield key, size


class Removed(NamedTuple):
    """What was deleted, and what is not storelab's and stays: its number, and the first of it.

    Markers are not counted; prefixes in the one given bucket count as buckets.
    """

    objects: int
    buckets: int = 0
    stays: int = 0
    first: str = ""

    def and_(self, other: "Removed") -> "Removed":
        return Removed(*(a + b for a, b in zip(self[:3], other[:3], strict=True)), self.first or other.first)

    def told(self) -> str:
        """What stays, '' where nothing does."""
        if not self.stays:
            return ""
        return f"{self.stays} objects that storelab did not write stay, the first is {self.first}"

    def __str__(self) -> str:
        done = f"{self.objects} objects, {self.buckets} buckets"
        return f"{done}; {self.told()}" if self.stays else done


def delete_prefix(access: Access, bucket: Bucket, prefix: str = "", *, ours: Ours) -> Removed:
    """Delete the objects below `bucket.prefix + prefix` that are `ours`; the marker and all others stay.

    Raises UserError without storelab's marker, MeasurementFailed where the server does not delete.
    """
    place, step = f"bucket {bucket.name}", access.deletes_at_once
    try:
        if marked(access, bucket) is None:
            raise UserError(place, "bears no mark of storelab: nothing is deleted", "delete by hand what is yours")
        theirs: list[str] = []  # the first of them is named
        stays = 0

        def own() -> Iterator[str]:
            nonlocal stays
            for key, size in list_keys(access, bucket, prefix):
                if ours(bucket.name, key, size):
                    yield key
                else:
                    theirs[1:], stays = [f"{bucket.name}/{key} ({size} B)"], stays + 1

        keys, total = own(), 0
        with ThreadPoolExecutor(8) as pool:
            while wave := list(islice(keys, 8 * step)):  # bounded: a bucket may hold millions
                list(
                    pool.map(
                        lambda part: access.delete(bucket.name, part),
                        [wave[i : i + step] for i in range(0, len(wave), step)],
                    )
                )
                total += len(wave)
        return Removed(total, 0, stays, *theirs[:1])
    except NoSuchBucket:
        return Removed(0)
    except AccessRefused:
        raise UserError(place, "the server denies access (403)", "check the rights of these credentials") from None


def drop(access: Access, bucket: Bucket, ours: Ours) -> Removed:
    """Delete the objects that are `ours`, the marker last, and the bucket, unless it is a prefix. Where something else
    is in it, marker and bucket stay.

    Raises as `delete_prefix`.
    """
    gone = delete_prefix(access, bucket, ours=ours)
    if begun := access.abandon(bucket.name, bucket.prefix, ours):
        gone = gone.and_(Removed(0, 0, len(begun), f"{bucket.name}/{begun[0]} (an unfinished upload)"))
    mark = access.read(bucket.name, bucket.prefix + MARKER, 10_000) if not gone.stays else None
    if mark is None:
        return gone
    access.delete(bucket.name, [bucket.prefix + MARKER])
    try:
        if not bucket.prefix:
            access.drop_bucket(bucket.name, lambda name, key, size: key == MARKER or ours(name, key, size))
    except StillHolds as held:
        access.write(bucket.name, MARKER, mark)
        return gone._replace(stays=1, first=str(held).partition(" still holds ")[2].partition(":")[0])
    return gone._replace(buckets=1)


def _candidates(access: Access, store: Store, campaign: str, account: int) -> list[Bucket]:
    """Buckets (or prefixes) of this account that bear the campaign's name."""
    first = store.bucket(campaign, 0, account)
    if first.prefix:
        above = first.prefix.rstrip("/").rpartition("/")[0] + "/"
        return [Bucket(first.name, prefix, account) for prefix in access.prefixes(first.name, above)]
    pattern = re.compile(re.escape(first.name[:-4]) + r"\d{4,}\Z")
    return [Bucket(name, "", account) for name in access.bucket_names() if pattern.match(name)]


def own_buckets(store: Store, campaign: str) -> list[Bucket]:
    """Buckets (or prefixes in the one given bucket) of all accounts that bear the marker of this campaign, by name."""
    out: list[Bucket] = []
    for account in range(store.accounts()):
        access = store.access(account)
        try:
            found = sorted(_candidates(access, store, campaign, account), key=lambda b: (b.name, b.prefix))
            with ThreadPoolExecutor(THREADS) as pool:
                owners = pool.map(marked, [access] * len(found), found)
                out += [b for b, owner in zip(found, owners, strict=True) if owner == campaign]
        except (NoSuchBucket, AccessRefused):
            raise _refused(store) from None
    return out


def remove(store: Store, campaign: str, ours: Ours) -> Removed:
    """Delete the campaign's objects and, but for the one given bucket, its buckets.

    Touches only what is `ours` in places that bear the campaign's marker. Raises UserError for a read-only store.
    """
    if store.settings.read_only:
        raise UserError(f"stores.{store.name}", "is read-only: nothing is deleted", "set its `read_only` to false")
    own = own_buckets(store, campaign)
    ways = accesses(store, own)
    return functools.reduce(Removed.and_, (drop(ways[b.account], b, ours) for b in own), Removed(0))
