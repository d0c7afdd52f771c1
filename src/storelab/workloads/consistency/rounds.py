"""Do the work of one worker until the deadline: rounds of writes and reads of its keys.

One worker also checks buckets and a listing of many pages.

Every answer is compared with the writes that the store had acknowledged before the request. A wrong answer is an
anomaly. The request is then repeated every few milliseconds until the answer is right, until `BOUND_NS` has passed, or
until the deadline. A failed write or read is an error. After a failed write, answers are not judged.

Buckets are only made where storelab is allowed to make them. They stay empty, and exist one at a time. Their names
contain the attempt's random id. `stem()` returns their prefix, so that a later point can remove buckets that a crash
left.
"""

import random
import re
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from storelab.core import clock
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.consistency.seen import ABSENT, FAILED, OK, Ledger, Seen, TimeUp, View, body, difference

BOUND_NS = 5_000_000_000  # maximum time for which an anomaly is watched
PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.1
AGAIN = 3  # number of repetitions of a failed listing
MAX_REMEMBERED = 100_000  # maximum number of deleted keys that one worker remembers
RIGHT, LATE, NEVER, UNKNOWN = "right", "late", "never", "unknown"
Wrong = Callable[[Seen], str | None]
METHODS = {
    "PUT": "put",
    "GET": "get",
    "DELETE": "delete",
    "LIST": "list",
    "MAKE_BUCKET": "make_bucket",
    "DELETE_BUCKET": "drop_bucket",
    "HEAD_BUCKET": "head_bucket",
    "LIST_BUCKET": "list_bucket",
    "LIST_BUCKETS": "bucket_names",
}


class Worker:
    """A worker.

    Parameters
    ----------
    number
        Number of the worker.
    views
        One view for each front-end.
    ledger
        Records of the client.
    prefix
        Prefix of the worker's keys, which ends in '/'.
    size
        Size of an object in bytes.
    seed
        Seed of the random choices.
    """

    def __init__(self, number: int, views: list[View], ledger: Ledger, prefix: str, size: int, seed: int):
        self.number, self.views, self.ledger, self.prefix, self.size = number, views, ledger, prefix, size
        self.rng = random.Random(seed)
        # Deleted keys whose absence was confirmed, by the front-end through which they were deleted.
        self.gone: list[set[str]] = [set() for _ in views]
        self.deleted: list[str] = []  # the same keys as a list for random choices, including keys that came back
        self.looked_again: set[str] = set()
        self.anchor = f"{prefix}anchor"  # an object that always exists

    # Methods that send and record operations

    def ask(self, op: str, key: str, view: int, data: bytes = b"") -> Seen:
        """Perform one operation through a front-end. Raises TimeUp after the deadline, or LimitExceeded."""
        if self.ledger.left_ns() <= 0:
            raise TimeUp
        v = self.views[view]
        arguments = () if op == "LIST_BUCKETS" else (key, data) if op == "PUT" else (key,)
        seen: Seen = getattr(v, METHODS[op])(*arguments)
        moved = len(data) if op == "PUT" else len(seen.data or b"") if op == "GET" and seen.state == OK else 0
        name = v.prefix + key if op in ("PUT", "GET", "DELETE", "LIST") else key
        self.ledger.operation(self.number, "LIST" if op == "LIST_BUCKET" else op, name, moved, seen)
        return seen

    def known(self, scenario: str, same: bool, seen: Seen) -> bool:
        """Return False if a write or read failed. A failure is an error of the scenario, and not an anomaly."""
        if seen.state == FAILED:
            self.ledger.count(scenario, same, "errors")
        return seen.state != FAILED

    def look(
        self, scenario: str, same: bool, key: str, ask: Callable[[], Seen], wrong: Wrong, since: Seen | None, story: str
    ) -> str:
        """Judge one answer, and watch it if it is wrong.

        since: the acknowledged write that the answer must include.
        """
        seen = ask()
        if not self.known(scenario, same, seen):
            return UNKNOWN
        return self.judge(scenario, same, key, seen, ask, wrong, since, story)

    def judge(
        self,
        scenario: str,
        same: bool,
        key: str,
        seen: Seen,
        ask: Callable[[], Seen],
        wrong: Wrong,
        since: Seen | None,
        story: str,
    ) -> str:
        """Judge an existing answer that did not fail. Apart from that, it works like `look`."""
        finding = wrong(seen)
        if finding is None:
            self.ledger.count(scenario, same, "tried")
            return RIGHT
        begin = since.end_ns if since else seen.start_ns
        lasted, last, pause = None, seen.end_ns, PAUSE_S
        limit = min(begin + BOUND_NS, self.ledger.deadline_ns)
        try:
            while lasted is None and clock.now_ns() < limit:
                time.sleep(pause)
                pause = min(pause * 1.5, LONGEST_PAUSE_S)
                again = ask()
                last = again.end_ns
                if again.state != FAILED and wrong(again) is None:
                    lasted = last - begin
        finally:
            requested = f", requested {(seen.start_ns - begin) / 1e6:.1f} ms later" if since else ""
            self.ledger.anomaly(scenario, same, key, begin, lasted, last - begin, f"{story}{requested}: {finding}")
        return NEVER if lasted is None else LATE

    # Methods for the rounds

    def run(self, until_ns: int) -> None:
        """Run rounds until `until_ns`, and then check deleted keys until the deadline. Raises LimitExceeded."""
        try:
            n = 0
            while clock.now_ns() < until_ns and self.ledger.left_ns() > 0:
                self.round(n)
                n += 1
            self.last_look()
        except TimeUp:
            return

    def front_ends(self, n: int) -> tuple[int, int, bool]:
        """Return (writer, reader, True if both are the same front-end) of the n-th round.

        Every front-end writes in turn. In every second round, a different front-end reads.
        """
        count = len(self.views)
        writer = (self.number + n // 2) % count
        reader = writer if n % 2 == 0 or count == 1 else (writer + 1 + self.rng.randrange(count - 1)) % count
        return writer, reader, writer == reader

    def round(self, n: int) -> None:
        """Run one round with one key: put, get, list, overwrite, get and get again, delete, get, list.

        An older deleted key is checked afterwards. If an anomaly is never corrected, the round ends, because later
        steps would only report the same problem.
        """
        writer, reader, same = self.front_ends(n)
        key = f"{self.prefix}{n:07d}"
        one, two = (body(key, version, secrets.token_hex(8), self.size) for version in (1, 2))
        how = f"through front-end {writer}, read through {reader}"

        put, story = self.ask("PUT", key, writer, one), f"put {how}"
        if (
            not self.known("read_after_write", same, put)
            or self.get("read_after_write", same, key, reader, 1, one, put, story) == NEVER
            or self.listing("list_after_write", same, key, reader, partial(_not_listed, key, self.size), put, story)
            == NEVER
        ):
            return

        put, found = self.ask("PUT", key, writer, two), NEVER
        if self.known("overwrite", same, put):
            found = self.get("overwrite", same, key, reader, 2, two, put, f"overwritten {how}")
        if found == NEVER:
            return
        if found != UNKNOWN:
            for view in (reader, writer):
                story = f"version 2 was seen through front-end {reader}, read again through {view}"
                self.get("monotonic_reads", view == reader, key, view, 2, two, None, story)

        gone, story, read = self.ask("DELETE", key, writer), f"deleted {how}", NEVER
        if self.known("read_after_delete", same, gone):
            read = self.get("read_after_delete", same, key, reader, 0, b"", gone, story)
        if read == NEVER:
            return
        listed = self.listing("list_after_delete", same, key, reader, partial(still_listed, key, "keys"), gone, story)
        if read != UNKNOWN and listed in (RIGHT, LATE) and len(self.deleted) < MAX_REMEMBERED:
            self.gone[writer].add(key)
            self.deleted.append(key)
        if self.deleted:
            self.look_again(self.rng.choice(self.deleted), reader)

    def get(
        self,
        scenario: str,
        same: bool,
        key: str,
        view: int,
        version: int,
        expected: bytes,
        since: Seen | None,
        story: str,
    ) -> str:
        """Check an object that must be `expected`, or that must not exist (version 0)."""

        def wrong(seen: Seen) -> str | None:
            if version:
                return difference(seen, key, version, expected)
            return None if seen.state == ABSENT else f"still exists ({seen.status_text()}, {len(seen.data or b'')} B)"

        return self.look(scenario, same, key, lambda: self.ask("GET", key, view), wrong, since, story)

    def listing(self, scenario: str, same: bool, key: str, view: int, wrong: Wrong, since: Seen, story: str) -> str:
        """Check a listing of this worker's keys: it must work, be right about `key`, and not contain deleted keys."""
        seen = self.works(view)
        if seen.state != OK:
            self.ledger.count(scenario, same, "errors")
            return UNKNOWN
        verdict = self.judge(scenario, same, key, seen, lambda: self.list_keys(view), wrong, since, story)
        self.keys_come_back(seen, view)
        return verdict

    def list_keys(self, view: int) -> Seen:
        return self.ask("LIST", self.prefix, view)

    def works(self, view: int) -> Seen:
        """Return the store's first answer to a listing.

        A failed listing is repeated. It is an anomaly if the listing fails each time although an object in it can be
        read, or if the answer is "no such bucket". A temporary failure is an error.
        """
        first = last = self.list_keys(view)
        for _ in range(AGAIN if first.state == FAILED else 0):
            time.sleep(0.02)
            last = self.list_keys(view)
            if last.state != FAILED:
                break
        same = view == 0  # the bucket was made through front-end 0
        if first.state == OK:
            self.ledger.count("listing_works", same, "tried")
        elif last.state == OK or self.ask("GET", self.anchor, view).state != OK:
            self.ledger.count("listing_works", same, "errors")
        else:
            key, story = (
                self.views[view].prefix + self.prefix,
                f"objects can be read, and listed through front-end {view}",
            )

            def again() -> Seen:  # here, a failure counts as a wrong answer
                seen = self.list_keys(view)
                return replace(seen, state=ABSENT) if seen.state == FAILED else seen

            fails: Wrong = lambda s: f"fails ({s.status_text()})" if s.state != OK else None  # noqa: E731
            self.judge("listing_works", same, key, first, again, fails, None, story)
        return first

    def keys_come_back(self, seen: Seen, view: int) -> None:
        self.come_back("comes_back_listed", "keys that were gone", self.gone, seen, view, lambda: self.list_keys(view))

    def come_back(
        self, scenario: str, what: str, gone: list[set[str]], seen: Seen, view: int, ask: Callable[[], Seen]
    ) -> None:
        """Check that a listing contains no names whose absence was confirmed.

        Each listing is one try, counted separately for deletions through this front-end. gone: names by the front-end
        through which they were deleted. A name that came back is reported only once.
        """
        others = [names for writer, names in enumerate(gone) if writer != view]
        for same, sets in ((True, [gone[view]]), (False, others)):
            count = sum(map(len, sets))
            back = [name for name in seen.names if any(name in names for names in sets)]
            if back:
                for names in sets:
                    names.difference_update(back)
                story = f"{len(back)} of {count} deleted {what} are listed again through front-end {view}"
                self.judge(scenario, same, back[0], seen, ask, partial(_listed_again, back), None, story)
            elif count:
                self.ledger.count(scenario, same, "tried")

    def look_again(self, key: str, view: int) -> None:
        """Check that a deleted key still does not exist."""
        writer = next((w for w, names in enumerate(self.gone) if key in names), None)
        if writer is None:  # the key has already come back
            return
        story = f"deleted through front-end {writer}, absence confirmed, read again through {view}"
        verdict = self.get("comes_back", writer == view, key, view, 0, b"", None, story)
        self.looked_again.add(key)
        if verdict in (LATE, NEVER):
            self.gone[writer].remove(key)

    def last_look(self) -> None:
        """Check all deleted keys again, until the deadline.

        They are first checked by a listing through every front-end, and then one by one in random order.
        """
        for view in range(len(self.views)):
            seen = self.works(view)
            if seen.state == OK:
                self.keys_come_back(seen, view)
        for i, key in enumerate(self.rng.sample(self.deleted, len(self.deleted))):
            self.look_again(key, i % len(self.views))


def _not_listed(key: str, size: int, seen: Seen) -> str | None:
    if seen.state != OK or key not in seen.names:
        return f"is not among the {len(seen.names)} keys listed"
    return None if seen.names[key] == size else f"is listed with {seen.names[key]} B instead of {size} B"


def still_listed(name: str, what: str, seen: Seen) -> str | None:
    """Return what is wrong if a deleted name is still in the list, or None."""
    return f"is still among the {len(seen.names)} {what} listed" if name in seen.names else None


def _listed_again(back: list[str], seen: Seen) -> str | None:
    return ", ".join([name for name in back if name in seen.names][:3]) or None


MANY, PAGE = 1100, 1000  # number of keys in the long listing, and in one of its pages
MANY_BYTES = 256
MANY_S, MANY_THREADS = 30.0, 8  # maximum time for their upload, and minimum number of views that upload
BUCKET_EVERY_NS, MANY_EVERY_NS = 250_000_000, 500_000_000
MAX_BUCKETS, MAX_REFUSALS = 200, 3


def stem(bucket: Bucket, attempt: str) -> str:
    """Return the prefix of the names of the buckets that an attempt makes.

    With a number of five digits, names have at most 63 characters.
    """
    name = re.sub(r"[^a-z0-9-]", "-", attempt.lower())[:16]
    return f"{bucket.name[:-4].rstrip('-')[: 63 - len(name) - 8].rstrip('-')}-x{name}-"


class Many:
    """The keys of the long listing.

    `there` has the acknowledged keys. `unknown` has keys whose upload failed; they are not judged.
    """

    def __init__(self, prefix: str):
        self.prefix = prefix
        self.there: set[str] = set()
        self.unknown: set[str] = set()

    def upload(self, views: list[View]) -> None:
        """Upload the keys in parallel, with one thread per view, for at most `MANY_S`. This is not measured.

        If the first upload fails, nothing else is uploaded.
        """
        end = time.monotonic() + MANY_S
        # an order that differs from the order of the listing
        keys = [f"{self.prefix}{(i * 7919) % MANY:05d}" for i in range(MANY)]
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
    """A worker that also checks the long listing (`many`).

    If `bucket_stem` is set, it also makes and deletes buckets.
    """

    many: Many | None = None
    bucket_stem = ""

    def prepare(self, many: Many, bucket_stem: str) -> None:
        self.many, self.bucket_stem = many, bucket_stem
        self.next_many = self.next_bucket = self.many_turn = self.bucket_turn = self.refusals = 0
        self.bucket_gone: list[set[str]] = [set() for _ in self.views]  # like `gone`, for buckets
        self.buckets_left: set[str] = set()  # buckets that were made and are not known to be deleted
        self.asked = 0

    def round(self, n: int) -> None:
        now = clock.now_ns()
        if self.many and len(self.many.there) > PAGE and now >= self.next_many:
            self.list_many(self.many)
            self.next_many = clock.now_ns() + MANY_EVERY_NS
        if (
            self.bucket_stem
            and now >= self.next_bucket
            and self.bucket_turn < MAX_BUCKETS
            and self.refusals < MAX_REFUSALS
        ):
            self.bucket_round()
            self.next_bucket = clock.now_ns() + BUCKET_EVERY_NS
        super().round(n)

    def list_many(self, many: Many) -> None:
        """Check the listing of many pages for missing and repeated keys. All keys were written through front-end 0."""
        view = self.many_turn % len(self.views)
        self.many_turn += 1
        story = f"put through front-end 0, listed through {view}"
        ask = partial(self.ask, "LIST", many.prefix, view)
        self.look("listing_complete", view == 0, many.prefix, ask, many.wrong, None, story)

    def bucket_round(self) -> None:
        """Make, use, list and delete one bucket. Then check that one of all listed buckets exists."""
        n = self.bucket_turn
        self.bucket_turn += 1
        writer, reader, same = self.front_ends(n)
        name = f"{self.bucket_stem}{n:05d}"
        how = f"through front-end {writer}, read through {reader}"
        self.buckets_left.add(name)
        made = self.ask("MAKE_BUCKET", name, writer)
        if not self.known("bucket_usable", same, made):
            self.refusals += 1
            return
        self.refusals = 0
        story = f"bucket made {how}"
        verdicts = [
            self.look("bucket_usable", same, name, partial(self.ask, op, name, reader), _missing_object, made, story)
            for op in ("HEAD_BUCKET", "LIST_BUCKET")
        ]
        if NEVER not in verdicts:
            self.list_buckets("bucket_listed", name, writer, reader, lambda s: _unlisted(s, name), made, story)
        self.bucket_end(name, writer, reader)

    def bucket_end(self, name: str, writer: int, reader: int) -> None:
        same, how = writer == reader, f"bucket deleted through front-end {writer}, read through {reader}"
        dropped = self.ask("DELETE_BUCKET", name, writer)
        if not self.known("bucket_gone", same, dropped):
            return
        self.buckets_left.discard(name)
        self.look(
            "bucket_gone", same, name, partial(self.ask, "HEAD_BUCKET", name, reader), _remaining_object, dropped, how
        )
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
        """Check a list of all buckets: it must be right about `name`, and must not list deleted buckets."""
        ask, same = partial(self.ask, "LIST_BUCKETS", "", reader), writer == reader
        seen = ask()
        if not self.known(scenario, same, seen):
            return seen, UNKNOWN
        verdict = self.judge(scenario, same, name, seen, ask, wrong, since, story)
        self.come_back("bucket_comes_back", "buckets", self.bucket_gone, seen, reader, ask)
        return seen, verdict

    def listed_exists(self, seen: Seen, view: int) -> None:
        """Check that a listed bucket exists. Each call takes the next bucket of the list, of any owner, and only reads.

        If the bucket is missing, the buckets are listed again: one that is no longer listed was deleted by someone
        else, which is not an anomaly.
        """
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

        story = f"bucket listed through front-end {view}, read through {other}"
        self.look("listed_bucket_exists", view == other, name, ask, _missing_object, None, story)

    def close(self) -> None:
        """Delete the buckets that remain because the run ended in the middle of a round."""
        for name in self.buckets_left:
            self.views[0].drop_bucket(name)


def _missing_object(seen: Seen) -> str | None:
    return f"does not exist ({seen.status_text()})" if seen.state == ABSENT else None


def _remaining_object(seen: Seen) -> str | None:
    return f"still exists ({seen.status_text()})" if seen.state == OK else None


def _unlisted(seen: Seen, name: str) -> str | None:
    return None if name in seen.names else f"is not among the {len(seen.names)} buckets listed"
