"""Make, mark, list and delete the buckets and objects of a campaign.

storelab writes only where its marker object is, `<prefix>.storelab` with {campaign, created, writer}. It deletes only
objects that it wrote itself (`written.py`). A bucket is accessed through the account that owns it.
"""

import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from storelab.core.errors import MeasurementFailed, UserError, shown
from storelab.stores.base import Store
from storelab.stores.protocols.access import (
    DELETE_MARKER,
    OBJECT,
    UNLISTED,
    UPLOAD,
    Access,
    AccessRefused,
    BucketExists,
    BucketNotEmpty,
    Entry,
    NoSuchBucket,
    Ours,
)
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.staging import written
from storelab.workloads.staging.written import MARKER

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config

THREADS = 16
OTHER_NAME = "use another campaign name or `prefix`"
MAX_MARK = 10_000  # maximum bytes of a marker object
PROGRESS = 100_000  # number of entries of a listing after which a line is printed
MAX_NAME = 200  # maximum characters of a key in a message
# Waiting times in seconds before each new listing. The second listing finds delete markers. The others find entries
# that a server still lists.
LOOKS = (0.0, 0.0, 0.2, 0.5, 1.0, 2.0, 4.0)
NOT_DELETED = "the server acknowledged the deletion and still lists them"
HIDING = "they hide versions that stay"


def mark_of(access: Access, bucket: Bucket) -> dict[str, Any] | None:
    """Return the mark of storelab in this bucket (or prefix): `campaign` and, if present, `writer`.

    Return None if there is no mark.

    Raises NoSuchBucket or AccessRefused.
    """
    try:
        data = access.read(bucket.name, bucket.prefix + MARKER, MAX_MARK + 1)
        if data is None or len(data) > MAX_MARK:
            return None
        mark = json.loads(data)
        return {**mark, "campaign": str(mark["campaign"])}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def marked(access: Access, bucket: Bucket) -> str | None:
    """Return the campaign in the marker of this bucket (or prefix), or None. Raises the same errors as `mark_of`."""
    mark = mark_of(access, bucket)
    return mark["campaign"] if mark else None


def _place(store: Store, bucket: Bucket) -> str:
    return f"stores.{store.name}: bucket {bucket.name}" + (f", prefix {bucket.prefix}" if bucket.prefix else "")


def accesses(store: Store, buckets: Sequence[Bucket]) -> dict[int, Access]:
    """Return the access of every account that owns one of `buckets`, by account."""
    return {account: store.access(account) for account in sorted({b.account for b in buckets})}


def present(ways: dict[int, Access], bucket: Bucket) -> bool:
    """Return True if the bucket exists and has a mark of storelab."""
    try:
        return marked(ways[bucket.account], bucket) is not None
    except (NoSuchBucket, AccessRefused):
        return False


def _examine(access: Access, store: Store, campaign: str, bucket: Bucket) -> bool:
    """Return True if the bucket exists and is ours, and False if it must be made. Raises UserError if it is foreign."""
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
            f"NoSuchBucket: the bucket {bucket.name!r} does not exist",
            "check the store's `bucket`",
        ) from None
    except AccessRefused:
        raise UserError(
            place, "belongs to someone else (403)" if not bucket.prefix else "denies access (403)", OTHER_NAME
        ) from None
    if owner is None:
        raise UserError(
            place, "belongs to someone else: it has no mark of storelab", f"{OTHER_NAME}, or remove it if it is yours"
        )
    if owner != campaign:
        raise UserError(place, f"belongs to someone else: it is marked for the campaign {shown(owner)}", OTHER_NAME)
    return True


def prepare(config: "Config", store: Store, places: Sequence[Bucket]) -> None:
    """Make the missing buckets of the campaign, with the mark of this storelab. Raises the same errors as `ensure`."""
    ensure(store, config.name, places, written.writer(config, store))


def ensure(store: Store, campaign: str, buckets: Sequence[Bucket], writer: Mapping[str, str] | None = None) -> None:
    """Make and mark the missing buckets in parallel. Nothing is written if one of them belongs to someone else.

    Raises UserError for a foreign bucket, or a missing bucket in a read-only store. Raises MeasurementFailed.
    """
    mark = {"campaign": campaign, "created": datetime.now(UTC).isoformat(timespec="seconds")}
    mark |= {"writer": writer} if writer else {}
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
        # All buckets are made before all markers are written. SeaweedFS 4.48 locks up permanently if a bucket is made
        # while another bucket gets its first object.
        made: list[Bucket] = []
        marked_: list[Bucket] = []
        try:
            list(pool.map(lambda b: (_make(ways[b.account], store, b), made.append(b)), missing))
            if (
                missing
                and not store.managed
                and (kept := ways[missing[0].account].retention(missing[0].name).meaning())
            ):
                _report(f"    {store.name}: bucket {missing[0].name}: {kept}")
            list(pool.map(lambda b: (_mark(ways[b.account], store, mark, b), marked_.append(b)), missing))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            for bucket in made:
                if bucket not in marked_ and not bucket.prefix:  # made by this call, and not marked yet
                    with suppress(UserError, MeasurementFailed, NoSuchBucket, AccessRefused):
                        ways[bucket.account].drop_bucket(bucket.name)
            raise


def _report(line: str) -> None:
    # imported here, because planning does not need numpy, which is slow to import
    from storelab.workloads.staging.upload import report

    report(line)


def _make(access: Access, store: Store, bucket: Bucket) -> None:
    if bucket.prefix:
        return
    try:
        access.make_bucket(bucket.name)
    except BucketExists:
        raise UserError(_place(store, bucket), "belongs to another user, who has just created it", OTHER_NAME) from None
    except AccessRefused:
        raise _refused(store) from None


def _mark(access: Access, store: Store, mark: Mapping[str, Any], bucket: Bucket) -> None:
    try:
        access.write(bucket.name, bucket.prefix + MARKER, json.dumps(mark).encode())
    except AccessRefused:
        raise _refused(store) from None


def _refused(store: Store) -> UserError:
    return UserError(
        f"stores.{store.name}",
        "AccessDenied: the server denies access (403)",
        "check the rights of these credentials, or set the store's `bucket`",
    )


def list_keys(access: Access, bucket: Bucket, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield the complete key and the bytes of every object below `bucket.prefix + prefix`, in the server's order.

    The marker is omitted.
    """
    for key, size in access.keys(bucket.name, bucket.prefix + prefix):
        if key != bucket.prefix + MARKER:
            yield key, size


def _counted(n: int, noun: str, several: str = "") -> str:
    return f"{n} {noun if n == 1 else several or noun + 's'}"


class Kept(NamedTuple):
    """The entries of storelab that could not be deleted: the reason, their number, and the first entry."""

    reason: str
    count: int
    first: str


class Removed(NamedTuple):
    """The result of a deletion.

    Markers are not counted. In a bucket that the user assigned, prefixes count as buckets.

    Attributes
    ----------
    stays, first
        Number of entries that this storelab did not write, and the first of them.
    hidden
        Number of deleted old versions, delete markers and unfinished uploads.
    kept
        Entries of storelab that could not be deleted.
    left
        Buckets that were not deleted.
    unmarked
        Buckets with a name of the campaign but without a mark. They remain if storelab is killed while it makes them.
    """

    objects: int
    buckets: int = 0
    stays: int = 0
    first: str = ""
    hidden: int = 0
    kept: tuple[Kept, ...] = ()
    left: tuple[str, ...] = ()
    unmarked: tuple[str, ...] = ()

    def and_(self, other: "Removed") -> "Removed":
        kept = {k.reason: k for k in self.kept}
        for k in other.kept:
            kept[k.reason] = kept[k.reason]._replace(count=kept[k.reason].count + k.count) if k.reason in kept else k
        return Removed(
            self.objects + other.objects,
            self.buckets + other.buckets,
            self.stays + other.stays,
            self.first or other.first,
            self.hidden + other.hidden,
            tuple(kept.values()),
            self.left + other.left,
            self.unmarked + other.unmarked,
        )

    @property
    def complete(self) -> bool:
        """Return True if no known entry of storelab is left."""
        return not any(k.count for k in self.kept)

    def remainder(self) -> str:
        """Return a description of the entries that were not deleted, or ''."""
        out = []
        if self.stays:
            out.append(f"kept {_counted(self.stays, 'object')} not written by this storelab, the first is {self.first}")
        for k in self.kept:
            if k.count:
                number = _counted(k.count, "own entry", "own entries")
                out.append(f"could not delete {number} ({k.reason}), the first is {k.first}")
            else:
                out.append(f"some own entries may remain ({k.reason})")
        if self.left:
            out.append(f"kept {_counted(len(self.left), 'bucket')} with marks, the first is {self.left[0]}")
        if self.unmarked:
            number = f"{_counted(len(self.unmarked), 'bucket')} without a mark of storelab"
            out.append(f"kept {number}, the first is {self.unmarked[0]}; remove them if they are yours")
        return "; ".join(out)

    def __str__(self) -> str:
        more = f", {self.hidden} old versions, delete markers and unfinished uploads" if self.hidden else ""
        done = f"{_counted(self.objects, 'object')}{more}, {_counted(self.buckets, 'bucket')}"
        return f"{done}; {rest}" if (rest := self.remainder()) else done


def plain(text: str) -> str:
    """Return a foreign name for a message on one line.

    Names with special characters are quoted, and long names are cut.
    """
    return text if text.isprintable() and len(text) <= MAX_NAME else shown(text, MAX_NAME)


@dataclass
class _Purge:
    """A deletion of entries of one bucket, with counts of the found entries and of the results."""

    access: Access
    bucket: Bucket
    prefix: str
    ours: Callable[[Entry], bool]
    kinds: Counter[str] = field(default_factory=Counter)  # kind -> number of deleted entries
    refused: dict[Entry, str] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)  # keys of storelab with versions that cannot be deleted
    unlisted: bool = False
    waiting: bool = False  # True if there are delete markers for the second listing
    found: dict[str, tuple[int, Entry]] = field(
        default_factory=dict
    )  # kind -> (number, first) of our entries in the last listing
    theirs: tuple[int, str] = (0, "")

    def run(self) -> Removed:
        """Delete, and list again, until no entry is left that can be deleted."""
        try:
            for number, pause in enumerate(LOOKS):
                time.sleep(pause)
                self._look(delete=number < len(LOOKS) - 1, markers=number > 0)
                if not self._again() and not (self.waiting and number == 0):
                    break
        except MeasurementFailed as error:
            done = Removed(self.kinds[OBJECT], hidden=self.kinds.total() - self.kinds[OBJECT])
            raise MeasurementFailed(f"{error}; removed before: {done}") from None
        return self._result()

    def _again(self) -> bool:
        return any(number for number, _ in self.found.values())

    def _look(self, delete: bool, markers: bool) -> None:
        """List all entries, and delete ours unless the server has refused to delete.

        Delete markers are deleted after the versions.
        """
        before, self.found, self.theirs = self.kinds.copy(), {}, (0, "")
        held: set[str] = set()
        tried: Counter[str] = Counter()
        entries = self._campaign_entries(held, markers)
        with ThreadPoolExecutor(8) as pool:
            step = self.access.deletes_at_once
            # in blocks, because a bucket can have millions of entries
            while wave := list(itertools.islice(entries, 8 * step)):
                if not delete:
                    continue
                parts = [wave[i : i + step] for i in range(0, len(wave), step)]
                tried.update(e.kind for e in wave)
                for refused in pool.map(lambda part: self.access.remove(self.bucket.name, part), parts):
                    self.refused |= refused
                    tried.subtract(e.kind for e in refused)
                self.kinds = before + tried
        # Entries that were deleted before and are listed again were not really deleted.
        again = Counter({kind: number for kind, (number, _) in self.found.items()})
        self.kinds = Counter({kind: max(0, before[kind] - again[kind]) + tried[kind] for kind in {*before, *tried}})
        self.held = held | {e.key for e in self.refused if e.kind != UPLOAD}

    def _campaign_entries(self, held: set[str], markers: bool) -> Iterator[Entry]:
        """Yield the entries to delete, and count the entries of others."""
        for number, entry in enumerate(self.access.entries(self.bucket.name, self.bucket.prefix + self.prefix), 1):
            if not number % PROGRESS:
                _report(f"    bucket {self.bucket.name}: {number} entries listed, {self.theirs[0]} of others")
            if entry.kind == UNLISTED:
                self.unlisted = True
            elif not self.ours(entry):
                if entry.key == self.bucket.prefix + MARKER:
                    continue
                size = f"{entry.size} B" if entry.size is not None else entry.kind
                self.theirs = self.theirs[0] + 1, self.theirs[1] or f"{self._shown(entry)} ({size})"
                if entry.id and entry.kind != UPLOAD and self.ours(entry._replace(size=None)):
                    held.add(entry.key)
            elif entry not in self.refused and not (entry.kind == DELETE_MARKER and entry.key in self.held):
                if entry.kind == DELETE_MARKER and not markers:
                    self.waiting = True
                    continue
                number, first = self.found.get(entry.kind, (0, entry))
                self.found[entry.kind] = number + 1, first
                yield entry
            elif entry.kind == DELETE_MARKER and entry not in self.refused:
                self.refused[entry] = HIDING

    def _shown(self, entry: Entry) -> str:
        return plain(f"{self.bucket.name}/{entry.key}")

    def _result(self) -> Removed:
        kept: dict[str, list[Entry]] = {}
        for entry, why in self.refused.items():
            kept.setdefault(why, []).append(entry)
        reasons = self.access.retention(self.bucket.name).reason() if kept else ""
        out = []
        for why, entries in kept.items():
            by = self.access.protected_by(self.bucket.name, entries[0]) if why != HIDING else ""
            reason = why if why == HIDING else f"{reasons}, {why}" if reasons else f"the server refuses: {why}"
            out.append(Kept(reason, len(entries), self._shown(entries[0]) + (f" ({by})" if by else "")))
        if self._again():
            first = next(iter(self.found.values()))[1]
            out.append(Kept(NOT_DELETED, sum(n for n, _ in self.found.values()), self._shown(first)))
        if self.unlisted:
            out.append(Kept("the account may not list unfinished uploads", 0, ""))
        hidden = self.kinds.total() - self.kinds[OBJECT]
        return Removed(self.kinds[OBJECT], 0, self.theirs[0], self.theirs[1], hidden, tuple(out))


def delete_prefix(access: Access, bucket: Bucket, prefix: str = "", *, ours: Ours) -> Removed:
    """Delete all entries below `bucket.prefix + prefix` that are `ours`, including old versions and unfinished uploads.

    The marker and foreign entries are not deleted. Raise UserError if storelab's marker is missing, and
    MeasurementFailed if the listing is incomplete.
    """
    mark = bucket.prefix + MARKER
    with _denied(bucket):
        try:
            if marked(access, bucket) is None:
                problem = "has no mark of storelab: nothing is deleted"
                raise UserError(f"bucket {bucket.name}", problem, "delete your objects with another tool")
            return _Purge(access, bucket, prefix, lambda e: e.key != mark and ours(bucket.name, e.key, e.size)).run()
        except NoSuchBucket:
            return Removed(0)


@contextmanager
def _denied(bucket: Bucket) -> Iterator[None]:
    """Raise UserError if the server denies access."""
    try:
        yield
    except AccessRefused:
        problem = "the server denies access (403)"
        raise UserError(f"bucket {bucket.name}", problem, "check the rights of these credentials") from None


def drop(access: Access, bucket: Bucket, ours: Ours, foreign: str = "") -> Removed:
    """Delete the entries that are `ours`, then the marker, and then the bucket (unless it is a prefix).

    Marker and bucket are not deleted if the bucket has other entries, or if another storelab wrote the mark. foreign:
    the writer of the mark if it is another storelab, otherwise ''.

    Raise the same errors as `delete_prefix`.
    """
    gone, mark = delete_prefix(access, bucket, ours=ours), bucket.prefix + MARKER
    stays = f"{bucket.name}/{bucket.prefix}".rstrip("/") + (f" (marked by {foreign})" if foreign else "")
    with _denied(bucket):
        try:
            data = access.read(bucket.name, mark, MAX_MARK)
        except NoSuchBucket:
            return gone
        if data is None or gone.stays or foreign or not gone.complete:
            return gone._replace(left=(stays,))
        last = _Purge(access, bucket, MARKER, lambda e: e.key == mark).run()
        if not last.complete:
            return gone.and_(last._replace(objects=0, hidden=0, left=(stays,)))
        try:
            if not bucket.prefix:
                access.drop_bucket(bucket.name)
        except BucketNotEmpty as held:
            access.write(bucket.name, MARKER, data)
            return gone._replace(stays=1, first=plain(f"{bucket.name}/{held.first}"), left=(stays,))
        return gone._replace(buckets=1)


def _candidates(access: Access, store: Store, campaign: str, account: int) -> Iterable[Bucket]:
    """Return the buckets (or prefixes) of this account that have the campaign's name.

    If the server denies the list of all buckets (MinIO does so for an account without buckets), request each bucket.
    """
    first = store.bucket(campaign, 0, account)
    if first.prefix:
        above = first.prefix.rstrip("/").rpartition("/")[0] + "/"
        return [Bucket(first.name, prefix, account) for prefix in access.prefixes(first.name, above)]
    pattern = re.compile(re.escape(first.name[:-4]) + r"\d{4,}\Z")
    try:
        return [Bucket(name, "", account) for name in access.bucket_names() if pattern.match(name)]
    except AccessRefused:
        numbered = (store.bucket(campaign, number, account) for number in itertools.count())
        return list(itertools.takewhile(lambda bucket: _exists(access, bucket), numbered))


def _exists(access: Access, bucket: Bucket) -> bool:
    """Return True if the bucket exists. Raises AccessRefused."""
    try:
        marked(access, bucket)
        return True
    except NoSuchBucket:
        return False


def _named(store: Store, campaign: str) -> list[tuple[Bucket, dict[str, Any] | None]]:
    """Return the buckets (or prefixes) of all accounts with a name of this campaign, with their marks, by name."""
    out: list[tuple[Bucket, dict[str, Any] | None]] = []
    for account in range(store.accounts()):
        access = store.access(account)
        try:
            found = sorted(_candidates(access, store, campaign, account), key=lambda b: (b.name, b.prefix))
            with ThreadPoolExecutor(THREADS) as pool:
                marks = list(pool.map(lambda b, access=access: mark_of(access, b), found))
        except (NoSuchBucket, AccessRefused):
            raise _refused(store) from None
        out += zip(found, marks, strict=True)
    return out


def campaign_buckets(store: Store, campaign: str) -> list[Bucket]:
    """Return the buckets (or prefixes in an assigned bucket) of all accounts with this campaign's mark, by name."""
    return [bucket for bucket, mark in _named(store, campaign) if mark and mark["campaign"] == campaign]


def remove(
    store: Store, campaign: str, ours: Ours, foreign: Callable[[Mapping[str, Any]], str] = lambda _: ""
) -> Removed:
    """Delete the campaign's objects and its buckets, except for a bucket that the user assigned.

    Only objects that are `ours`, in places with the campaign's marker, are deleted. foreign: a function that returns
    the name of another storelab that wrote a mark, or '' for this one. Buckets with foreign marks are not deleted.
    Raises UserError for a read-only store.
    """
    if store.settings.read_only:
        raise UserError(f"stores.{store.name}", "is read-only: nothing is deleted", "set its `read_only` to false")
    named = _named(store, campaign)
    campaign_buckets = [(bucket, mark) for bucket, mark in named if mark and mark["campaign"] == campaign]
    ways = accesses(store, [bucket for bucket, _ in campaign_buckets])
    unmarked = tuple(f"{bucket.name}/{bucket.prefix}".rstrip("/") for bucket, mark in named if not mark)
    gone, failed = Removed(0, unmarked=unmarked), []
    for bucket, mark in campaign_buckets:  # a failure in one bucket must not prevent removing the others
        try:
            gone = gone.and_(drop(ways[bucket.account], bucket, ours, foreign(mark)))
        except MeasurementFailed as error:
            failed.append(str(error))
    if failed:
        raise MeasurementFailed(
            f"{failed[0]}; {len(failed)} of {len(campaign_buckets)} buckets failed; of the others: {gone}"
        )
    return gone
