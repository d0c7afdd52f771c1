"""What one worker of the point looks at besides: buckets made and deleted, and a listing of many pages.

Only where storelab may make buckets. Those made here stay empty, one at a time: their names bear the attempt's random
id, and `stem()` says which they are, so that a later point removes what a crash left.
"""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from storelab.core import clock
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.consistency.rounds import LATE, NEVER, RIGHT, UNKNOWN, Worker, Wrong, still_listed
from storelab.workloads.consistency.seen import ABSENT, FAILED, OK, Seen, View, body

MANY, PAGE = 1100, 1000  # keys of the long listing, and of one page of it
MANY_BYTES = 256
MANY_S, MANY_THREADS = 30.0, 8  # how long their upload may take; by as many views at least
BUCKET_EVERY_NS, MANY_EVERY_NS = 250_000_000, 500_000_000
MOST_BUCKETS, MOST_REFUSALS = 200, 3


def stem(bucket: Bucket, attempt: str) -> str:
    """What the names of an attempt's own buckets begin with; at most 63 characters with a number of five digits behind
    it."""
    own = re.sub(r"[^a-z0-9-]", "-", attempt.lower())[:16]
    return f"{bucket.name[:-4].rstrip('-')[: 63 - len(own) - 8].rstrip('-')}-x{own}-"


class Many:
    """The keys of the long listing. `there`: acknowledged; `unknown`: their upload failed, so nothing is said of
    them."""

    def __init__(self, prefix: str):
        self.prefix = prefix
        self.there: set[str] = set()
        self.unknown: set[str] = set()

    def upload(self, views: list[View]) -> None:
        """In parallel, one thread per view, until all are there or `MANY_S` is over. Not measured. With a page or less
        nothing is tried."""
        end = time.monotonic() + MANY_S
        keys = [f"{self.prefix}{(i * 7919) % MANY:05d}" for i in range(MANY)]  # not in the order of the listing
        if views[0].first(keys[0], body(keys[0], 1, "many", MANY_BYTES)).state != OK:
            return
        self.there.add(keys[0])

        def put(worker: int) -> None:
            for key in keys[1 + worker :: len(views)]:
                if time.monotonic() > end:
                    return
                done = views[worker].put(key, body(key, 1, "many", MANY_BYTES)).state == OK
                (self.there if done else self.unknown).add(key)

        with ThreadPoolExecutor(len(views)) as pool:
            list(pool.map(put, range(len(views))))

    def wrong(self, seen: Seen) -> str | None:
        missing = sorted(self.there - seen.names.keys())
        foreign = sorted(seen.names.keys() - self.there - self.unknown)
        sizes = sorted(k for k in self.there if seen.names.get(k, MANY_BYTES) != MANY_BYTES)
        parts = (
            ("missing", missing),
            ("listed twice", sorted(seen.repeated)),
            ("never written", foreign),
            ("of a wrong size", sizes),
        )
        found = [f"{len(keys)} {what} ({', '.join(keys[:3])})" for what, keys in parts if keys]
        return f"of {len(self.there)} keys {', '.join(found)}" if found else None


class NamespaceWorker(Worker):
    """A worker that also looks at the long listing (`many`) and, where `bucket_stem` is given, makes and deletes
    buckets."""

    many: Many | None = None
    bucket_stem = ""

    def prepare(self, many: Many, bucket_stem: str) -> None:
        self.many, self.bucket_stem = many, bucket_stem
        self.next_many = self.next_bucket = self.many_turn = self.bucket_turn = self.refusals = 0
        self.bucket_gone: list[set[str]] = [set() for _ in self.views]  # as `gone`, of buckets
        self.buckets_left: set[str] = set()  # made, and not deleted as far as is known
        self.asked = 0

    def round(self, n: int) -> None:
        now = clock.now_ns()
        if self.many and len(self.many.there) > PAGE and now >= self.next_many:
            self.list_many(self.many)
            self.next_many = clock.now_ns() + MANY_EVERY_NS
        if (
            self.bucket_stem
            and now >= self.next_bucket
            and self.bucket_turn < MOST_BUCKETS
            and self.refusals < MOST_REFUSALS
        ):
            self.bucket_round()
            self.next_bucket = clock.now_ns() + BUCKET_EVERY_NS
        super().round(n)

    def list_many(self, many: Many) -> None:
        """The listing of many pages: complete, nothing twice? All keys were put through front-end 0."""
        view = self.many_turn % len(self.views)
        self.many_turn += 1
        story = f"put through front-end 0, listed through {view}"
        self.look(
            "listing_complete",
            view == 0,
            many.prefix,
            lambda: self.ask("LIST", many.prefix, view),
            many.wrong,
            None,
            story,
        )

    def bucket_round(self) -> None:
        """One bucket: made, used, listed; deleted, gone, not listed; and one of all that are listed: is it there?"""
        n = self.bucket_turn
        self.bucket_turn += 1
        writer, reader, same = self.front_ends(n)
        name = f"{self.bucket_stem}{n:05d}"
        how = f"through front-end {writer}, looked at through {reader}"
        self.buckets_left.add(name)
        made = self.ask("MAKE_BUCKET", name, writer)
        if not self.known("bucket_usable", same, made):
            self.refusals += 1
            return
        self.refusals = 0
        story = f"bucket made {how}"
        verdicts = [
            self.look("bucket_usable", same, name, partial(self.ask, op, name, reader), _not_there, made, story)
            for op in ("HEAD_BUCKET", "LIST_BUCKET")
        ]
        if NEVER not in verdicts:
            self.list_buckets("bucket_listed", name, writer, reader, lambda s: _unlisted(s, name), made, story)
        self.bucket_end(name, writer, reader)

    def bucket_end(self, name: str, writer: int, reader: int) -> None:
        same, how = writer == reader, f"bucket deleted through front-end {writer}, looked at through {reader}"
        dropped = self.ask("DELETE_BUCKET", name, writer)
        if not self.known("bucket_gone", same, dropped):
            return
        self.buckets_left.discard(name)
        self.look("bucket_gone", same, name, partial(self.ask, "HEAD_BUCKET", name, reader), _still_there, dropped, how)
        seen, verdict = self.list_buckets(
            "bucket_unlisted", name, writer, reader, partial(still_listed, name, "buckets"), dropped, how
        )
        if verdict in (RIGHT, LATE):
            self.bucket_gone[writer].add(name)
        if verdict != UNKNOWN:
            self.listed_exists(seen, reader)

    def list_buckets(
        self, scenario: str, name: str, writer: int, reader: int, wrong: Wrong, since: Seen, story: str
    ) -> tuple[Seen, str]:
        """A list of all buckets: what does it say of `name`, does it show again what was gone?"""
        ask, same = partial(self.ask, "LIST_BUCKETS", "", reader), writer == reader
        seen = ask()
        if not self.known(scenario, same, seen):
            return seen, UNKNOWN
        verdict = self.judge(scenario, same, name, seen, ask, wrong, since, story)
        self.come_back("bucket_comes_back", "buckets", self.bucket_gone, seen, reader, ask)
        return seen, verdict

    def listed_exists(self, seen: Seen, view: int) -> None:
        """One of the listed buckets in turn, whosever it is: does it exist? Read only. A bucket that somebody deletes
        meanwhile is no longer listed when it is asked for again, and is then no anomaly."""
        listed = sorted(name for name in seen.names if not name.startswith(self.bucket_stem))
        if not listed:
            return
        name, other = listed[self.asked % len(listed)], (view + self.asked // len(listed)) % len(self.views)
        self.asked += 1

        def ask() -> Seen:
            head = self.ask("HEAD_BUCKET", name, other)
            if head.state == ABSENT:
                again = self.ask("LIST_BUCKETS", "", view)
                if again.state == FAILED or name not in again.names:
                    return replace(head, state=again.state)
            return head

        story = f"bucket listed through front-end {view}, looked at through {other}"
        self.look("listed_bucket_exists", view == other, name, ask, _not_there, None, story)

    def close(self) -> None:
        """Delete the buckets that an end in the middle of a round left."""
        for name in self.buckets_left:
            self.views[0].drop_bucket(name)


def _not_there(seen: Seen) -> str | None:
    return f"does not exist ({seen.said()})" if seen.state == ABSENT else None


def _still_there(seen: Seen) -> str | None:
    return f"still exists ({seen.said()})" if seen.state == OK else None


def _unlisted(seen: Seen, name: str) -> str | None:
    return None if name in seen.names else f"is not among the {len(seen.names)} buckets listed"
