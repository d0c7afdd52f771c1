"""Publish and replicate a release to a bucket that counts, fails and loses objects: order, requests, retries, debts."""

import hashlib
import itertools
import random
import re
import shutil
import sqlite3
import threading
import time
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import repositories
from repositories import KEYS, MANIFEST, REFLOG, REPOSITORY, changed, damaged, point, ran, root_of, stratum

from storelab.core.campaign.release import Release as Settings
from storelab.datasets.release import catalogs, names
from storelab.datasets.release.build import Item, Release
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.distribution import proof
from storelab.workloads.distribution import publish as client
from storelab.workloads.distribution import stratum as strata
from storelab.workloads.distribution.publish import Other, Replicator
from storelab.workloads.distribution.stratum import Failed, ObstoreStratum, spread

RELEASE = Settings(repository=REPOSITORY, factor=0.0001, days=4).as_dict()
WORKERS = 4


@dataclass
class Made:
    """Return a day of objects with random bytes, in the order of the kinds; its catalogs are not read."""

    folder: Path
    n: int
    kinds: dict[str, int]

    def __post_init__(self):
        rng, self.items = random.Random(self.n), []
        suffix = {"data": "", "chunk": "P", "catalog": "C"}
        for kind, count in self.kinds.items():
            for _ in range(count):
                digest = f"{rng.getrandbits(160):040x}"
                key = names.key(REPOSITORY, digest, suffix[kind])
                self.items.append((Item(key, 50, kind), rng.randbytes(50)))
        self.facts = {"root_catalog": digest, "new_files": 7, "raw_bytes": 99}
        for kind, key in (("reflog", REFLOG), ("manifest", MANIFEST)):
            self.items.append((Item(key, 9, kind), f"{kind} {self.n}".encode()))
        for item, body in self.items:
            (path := self.path(item)).parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)

    def objects(self):
        return (item for item, _ in self.items)

    def path(self, item):
        return self.folder / f"day-{self.n}" / item.key

    def keys(self, *kinds):
        return {item.key for item, _ in self.items if item.kind in kinds or not kinds}


@pytest.fixture
def day(tmp_path):
    return Made(tmp_path, 1, {"data": 40, "chunk": 5, "catalog": 6})


def test_day_is_uploaded_in_consistent_order(zero, day):
    zero.meet(3, "HEAD")
    assert client.publish(stratum(zero), [day], 16) == len(day.items)
    puts = [key for _, key in zero.requests("PUT")]
    kinds = {item.key: item.kind for item, _ in day.items}
    assert Counter(puts) == Counter(list(kinds)), "each once"
    assert {kinds[key] for key in puts[:45]} == {"data", "chunk"}
    assert {kinds[key] for key in puts[45:51]} == {"catalog"}
    assert puts[50:] == [names.key(REPOSITORY, day.facts["root_catalog"], "C"), REFLOG, MANIFEST]
    assert zero.objects == {item.key: body for item, body in day.items}
    assert 2 < zero.most <= 16


def test_requests_are_those_of_the_tool(zero, day):
    """HEAD before PUT of objects named by their content, the access header signed, types; no listing, no multipart."""
    client.publish(stratum(zero), [day], 4)
    assert {method for method, _ in zero.requests()} == {"HEAD", "PUT"}
    assert Counter(key for _, key in zero.requests("HEAD")) == Counter(day.keys("data", "chunk", "catalog"))
    for method, key, headers in zero.received:
        assert headers["x-amz-acl"] == "public-read"
        assert "x-amz-acl" in headers["Authorization"].split("SignedHeaders=")[1].split(",")[0]
        if method == "PUT":
            own = key in (REFLOG, MANIFEST)
            assert headers["Content-Type"] == ("application/x-cvmfs" if own else "application/octet-stream")
            assert headers["Cache-Control"] == ("max-age=61" if own else "max-age=259200")
    for key in day.keys("data"):
        assert [method for method, asked in zero.requests() if asked == key] == ["HEAD", "PUT"]


def test_tuned_pattern_sends_only_uploads(zero, day):
    own = stratum(zero, "tuned")
    client.publish(own, [day], 4)
    assert {method for method, _ in zero.requests()} == {"PUT"}
    assert all("x-amz-acl" not in headers for _, _, headers in zero.received)
    assert own.log.counts["puts"] == len(day.items) and own.log.counts["stored"] == len(day.items) - 2
    client.publish(own, [day], 4)  # what this process sent is not sent again
    assert len(zero.requests("PUT")) == len(day.items) + 2


def test_obstore_sends_the_same_objects(zero, day):
    own = stratum(zero, "tuned", ObstoreStratum)
    left = [503, 503]
    zero.answer = lambda method, key: (left.pop(), {}) if left and method == "PUT" else None
    client.publish(own, [day], 4)
    assert zero.objects == {item.key: body for item, body in day.items}
    assert own.log.counts["retries"] == 2 and own.log.counts["stored"] == len(day.items) - 2
    for method, key, headers in zero.received:
        assert method == "PUT" and headers["Cache-Control"] == ("max-age=61" if ".cvmfs" in key else "max-age=259200")
    assert own.there(MANIFEST) and not own.there("nothing") and own.get(MANIFEST) == b"manifest 1"
    with pytest.raises(FileNotFoundError):
        own.get("nothing")
    zero.answer = lambda method, key: (403, {})
    with pytest.raises(Failed):
        own.put("k", b"x")


def test_present_objects_are_not_sent_again(zero, day):
    there = sorted(day.keys("data"))[:7]
    zero.objects |= dict.fromkeys(there, b"x")
    own = stratum(zero)
    client.publish(own, [day], 4)
    assert not {key for _, key in zero.requests("PUT")} & set(there)
    n = len(day.items)
    assert own.log.counts["skipped"] == 7 and own.log.counts["puts"] == n - 7
    assert own.log.counts["heads"] == n - 2 and own.log.counts["bytes"] == 50 * (n - 2 - 7)


def test_some_failures_are_tried_again(zero):
    for answers, tries, good in (
        ([503, 502, 500], 4, True),
        ([503, 502, 500, 503], 4, False),
        (["hang up"] * 3, 4, True),
        ([429] * 9, 10, True),  # asked to wait: that is not a retry
        ([429, 503, 429, 503, 503], 6, True),
        ([400], 1, False),
        ([403], 1, False),
        ([501], 1, False),
    ):
        left, own = list(answers), stratum(zero)

        def answer(method, key, left=left):
            status = left.pop(0) if left else 0
            if status == "hang up":
                raise ConnectionError
            return (status, {"Retry-After": "0"} if status == 429 else {}) if status else None

        zero.answer, zero.objects = answer, {}
        zero.received.clear()
        if good:
            own.put("k", b"body", always=True)
            assert zero.objects == {"k": b"body"}
        else:
            with pytest.raises(Failed, match=f"PUT k: {answers[-1]}"):
                own.put("k", b"body", always=True)
        ops = own.log.ops()
        assert len(zero.received) == tries and ops["requests"] == [tries] and (ops["error"] == [None]) is good, answers
        assert own.log.counts["retries"] == tries - 1 and own.log.counts["failures"] == (not good), answers


class Gate:
    """A lock that records when a thread finds it locked."""

    def __init__(self):
        self.lock, self.blocked = threading.Lock(), threading.Event()

    def __enter__(self):
        if self.lock.locked():
            self.blocked.set()
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


def test_retry_holds_up_all_transfers_only_in_the_tool(zero, monkeypatch):
    for pattern, held in (("cvmfs", True), ("tuned", False)):
        own, waits, done = stratum(zero, pattern), threading.Event(), threading.Event()
        own.waiting, order, left = Gate(), [], {"slow": 1, "other": not held}  # how often each is asked to wait
        zero.answer = lambda method, key, left=left: (429, {}) if left[key] and not left.update({key: 0}) else None

        def sleep(seconds, own=own, waits=waits, done=done, order=order, held=held):
            if waits.is_set():  # the other transfer
                return
            waits.set()
            assert (own.waiting.blocked if held else done).wait(60)
            order.append("slept")

        def put(key, worker, own=own, waits=waits, done=done, order=order):
            if key == "other":
                waits.wait(60)
            own.put(key, b"x", worker, always=True)
            order.append(key)
            if key == "other":
                done.set()

        monkeypatch.setattr(strata, "time", SimpleNamespace(sleep=sleep, time=time.time))
        spread(["slow", "other"], put, 2)
        assert order[0] == ("slept" if held else "other") and sorted(order) == ["other", "slept", "slow"], pattern


def test_retry_after_is_respected_within_bounds(zero, monkeypatch):
    monkeypatch.setattr(strata, "THROTTLED_S", 0.25)
    for header, waited in (("3", 3), ("99", 10), (None, 0.25), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.25), ("-1", 0.25)):
        left, slept = [(429, {"Retry-After": header} if header else {})], []
        zero.answer = lambda method, key, left=left: left.pop() if left else None
        monkeypatch.setattr(strata, "time", SimpleNamespace(sleep=slept.append, time=time.time))
        stratum(zero).put("k", b"x", always=True)
        assert slept == [waited], header


def test_failed_day_leaves_the_manifest_and_is_sent_later(zero, tmp_path):
    first, second, third = (Made(tmp_path, n, {"data": 20, "catalog": 2}) for n in (1, 2, 3))
    own = stratum(zero)
    client.publish(own, [first], 4)
    broken = sorted(second.keys("catalog"))[0]
    zero.answer = lambda method, key: (403, {}) if key == broken and method == "PUT" else None
    with pytest.raises(Failed):
        client.publish(own, [second], 4)
    assert zero.objects[MANIFEST] == b"manifest 1" and zero.objects[REFLOG] == b"reflog 1"
    assert second.keys("data") <= zero.objects.keys(), "data come before catalogs"
    zero.answer = lambda method, key: None
    zero.received.clear()
    client.publish(own, [second, third], 4)
    sent = [key for _, key in zero.requests("PUT")]
    assert sent[-1] == MANIFEST and zero.objects[MANIFEST] == b"manifest 3" and sent.count(MANIFEST) == 1
    assert not set(sent) & second.keys("data") and set(sent) >= {broken} | third.keys()
    assert zero.objects.keys() == first.keys() | second.keys() | third.keys()


def test_first_failure_ends_all_and_is_raised():
    done = []

    def do(item, worker):
        if item == 50:
            raise ValueError("the fiftieth")
        done.append(item)

    def broken():
        yield 1
        raise KeyError("of the items")

    with pytest.raises(ValueError, match="the fiftieth"):
        spread(itertools.count(), do, 8)  # without end
    assert len(done) == len(set(done))
    with pytest.raises(KeyError):
        spread(broken(), lambda item, worker: None, 3)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the folder of the release with all days; making them takes longer than publishing them."""
    folder = tmp_path_factory.mktemp("release")
    Release(Settings.model_validate(RELEASE), processes=1).day(RELEASE["days"], folder)
    return folder


@pytest.fixture
def publish(made, tmp_path, monkeypatch):
    """Return a function that runs a client which publishes to a server: it returns the result and the rows of days."""
    for name, value in KEYS.environ().items():
        monkeypatch.setenv(name.replace("AWS_", client.SECOND_STORE), value)

    def run(server, kind=client.PublishClient, extra=None, **axes):
        task = point("publish", RELEASE, **{"workers": WORKERS, "days": 3} | axes)
        scratch = tmp_path / "scratch"
        job = Job(task, 0, Endpoint(server.url), [Bucket("b")], scratch, None, attempt="att", extra=extra or {})
        one = kind(job)
        shutil.copytree(made, one.folder)
        out = ran(one)
        assert not (scratch / "release").exists()
        return out

    return run


@pytest.fixture
def mirror(zero, one, publish):
    """Return a function that publishes to `zero` and replicates to `one`."""
    extra = {"stratum0": {"endpoint": {"url": zero.url}, "bucket": {"name": "b"}}}
    return lambda **axes: publish(one, client.ReplicateClient, extra, **axes)


def content(server) -> dict[str, bytes]:
    """Return the objects by their key below the attempt's prefix."""
    return {key.removeprefix("put/att/"): body for key, body in server.objects.items()}


def needed(root, objects) -> set[str]:
    return set(catalogs.references(root, objects.__getitem__, REPOSITORY))


def test_days_are_published_one_after_the_other(zero, publish):
    result, rows = publish(zero)
    assert [(r["day"], r["stratum"], r["state"]) for r in rows] == [(n, 0, "published") for n in (1, 2, 3)]
    assert all(a["end_ns"] <= b["begin_ns"] for a, b in itertools.pairwise(rows))
    there = content(zero)
    stored = {key: body for key, body in there.items() if names.parts(key)}
    assert sum(r["stored"] for r in rows) == len(stored)
    assert sum(r["bytes"] for r in rows) == sum(map(len, stored.values()))
    assert sum(r["puts"] for r in rows) == len(stored) + 2 * 3 == len(zero.requests("PUT"))
    assert all(c.ok for c in result.checks) and result.ops["error"].count(None) == len(zero.received)
    fields = names.manifest_fields(there[MANIFEST])
    assert fields["S"] == "3" and fields["N"] == REPOSITORY and needed(fields["C"], there) <= stored.keys()


@pytest.mark.heavy
def test_days_with_expired_signature_are_caught_up(zero, publish):
    """A server that checks dates refuses them; the next day sends the missing objects; they are not errors."""

    def dated(method, key):
        stamp = zero.received[-1][2]["X-Amz-Date"]
        old = time.time() - time.mktime(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) + time.timezone > 3600
        return (403, {}) if old else None

    zero.answer = dated
    result, rows = publish(zero, expired="2-3", days=4, workers=1)
    assert [r["state"] for r in rows] == ["published", "failed", "failed", "published"]
    assert [r["stored"] for r in rows][1:3] == [0, 0] and all("403" in r["reason"] for r in rows[1:3])
    assert rows[1]["failures"] == 1 and result.ops["error"] == [None] * len(result.ops["error"])
    there = content(zero)
    assert names.manifest_fields(there[MANIFEST])["S"] == "4" and needed(root_of(there), there) <= there.keys()


def test_run_that_its_deadline_ends_is_cut(zero, publish, monkeypatch):
    late = lambda: time.time_ns() + (10**15 if len(zero.requests("PUT")) > 25 else 0)  # noqa: E731
    monkeypatch.setattr(client.clock, "now_ns", late)
    result, rows = publish(zero)
    (check,) = result.checks
    assert not check.ok and "`duration`" in check.detail and rows[-1]["state"] in ("cut", "published")


def complete(server) -> None:
    """Check that each catalog has all its objects, so that an interrupted replication can continue by catalogs."""
    have = content(server)
    for key in have:
        if (names.parts(key) or ("", ""))[1] == "C":
            assert needed(names.parts(key)[0], have) <= have.keys()


@pytest.mark.parametrize("pattern", ["cvmfs", "tuned"])
def test_stratum_1_becomes_stratum_0(zero, one, mirror, pattern):
    one.answer = lambda method, key: complete(one) if method == "PUT" and key.endswith("C") else None
    result, rows = mirror(pattern=pattern)
    complete(one)
    days = [(n, s, "published") for n in (1, 2, 3) for s in (0, 1)]
    assert [(r["day"], r["stratum"], r["state"]) for r in rows] == days
    assert content(one) == content(zero)
    puts = Counter(key for _, key in one.requests("PUT"))
    assert {key: n for key, n in puts.items() if n > 1} == {f"put/att/{key}": 3 for key in (MANIFEST, REFLOG)}
    assert Counter(result.ops["op"])["PUT"] == sum(puts.values()), "operations are those of the point's store"
    gets = {r["day"]: r["gets"] for r in rows if r["stratum"] == 1}
    assert gets[3] < gets[1] * 3


def replicator(zero, one, prefix="put/att/"):
    return Replicator(stratum(zero, prefix="put/att/"), stratum(one, prefix=prefix), REPOSITORY, WORKERS)


@pytest.mark.heavy
def test_interrupted_replication_continues(zero, one, publish):
    publish(zero)
    one.answer = lambda method, key: (403, {}) if method == "PUT" and len(one.requests("PUT")) > 20 else None
    with pytest.raises(Failed):
        replicator(zero, one).run()
    complete(one)
    arrived = set(one.objects)
    assert 15 <= len(arrived) <= 20 and MANIFEST not in content(one)
    one.answer = lambda method, key: None
    one.received.clear()
    again = replicator(zero, one)  # another process: it knows nothing
    assert again.run() > 20
    assert not {key for _, key in one.requests("PUT")} & arrived
    assert needed(root_of(content(zero)), content(one)) <= content(one).keys()
    assert again.run() is None, "nothing is new"
    assert len(zero.requests("GET")) < 1000


def test_other_stratum_1_is_left_unchanged(zero, one, publish):
    publish(zero)
    mine = names.manifest_fields(content(zero)[MANIFEST])
    for objects, error, words in (
        ({MANIFEST: names.manifest_text(mine | {"N": "other.example.org"})}, Other, "'other.example.org'"),
        (
            {MANIFEST: names.manifest_text(mine | {"S": "9"})},
            Other,
            "revision 9, but stratum 0 has the older revision 3",
        ),
        ({MANIFEST: b"no manifest"}, Failed, "damaged"),
    ):
        one.objects = objects
        with pytest.raises(error, match=words):
            replicator(zero, one, "").run()
        assert not one.requests("PUT")
    one.objects = {}
    nothing = Replicator(stratum(one), stratum(zero, prefix="put/att/"), REPOSITORY, WORKERS)
    assert nothing.run() is None, "nothing was published yet"


@pytest.mark.heavy
def test_incomplete_stratum_0_is_not_replicated(zero, one, publish):
    publish(zero)
    whole, root = dict(zero.objects), f"put/att/{names.key(REPOSITORY, root_of(content(zero)), 'C')}"
    data = next(key for key in whole if (names.parts(key.removeprefix("put/att/")) or "00")[1] == "")
    for change in ({root: None}, {root: b"damaged"}, {data: None}):  # damaged data are copied: the proof finds them
        zero.objects, one.objects = changed(whole, change), {}
        with pytest.raises(Failed, match="stratum 0 is incomplete"):
            replicator(zero, one, "").run()
        assert MANIFEST not in one.objects


def test_shared_catalog_comes_before_both_others(zero, one):
    """The walk yields it after the first of them; in reverse order it would follow the other."""

    def catalog(nested):
        db = sqlite3.connect(":memory:")
        db.execute("CREATE TABLE catalog (hash BLOB)")
        db.execute("CREATE TABLE chunks (hash BLOB)")
        db.execute("CREATE TABLE nested_catalogs (path TEXT, sha1 TEXT, size INTEGER)")
        db.executemany("INSERT INTO nested_catalogs VALUES (?, ?, 0)", [(f"/{i}", d) for i, d in enumerate(nested)])
        db.commit()
        blob = zlib.compress(db.serialize())
        digest = hashlib.sha1(blob).hexdigest()
        zero.objects[names.key(REPOSITORY, digest, "C")] = blob
        return digest

    leaf = catalog([])
    left, right = catalog([leaf]), catalog([leaf, catalog([leaf, leaf])])
    root = catalog([left, right])
    fields = {"C": root, "S": "1", "N": REPOSITORY}
    zero.objects |= {MANIFEST: names.manifest_text(fields), REFLOG: b"a reflog"}
    assert Replicator(stratum(zero), stratum(one), REPOSITORY, WORKERS).run() == 7
    order = [names.parts(key)[0] for _, key in one.requests("PUT") if names.parts(key)]
    assert len(order) == 5 and order[0] == leaf and order[-1] == root


def test_proof_reads_everything_and_finds_faults(zero, publish):
    publish(zero)
    whole, asked = content(zero), []

    def fetch(key):
        asked.append(key)
        return whole[key]

    def proven(objects, *acknowledged):
        return proof.stratum("stratum 0", objects.__getitem__, REPOSITORY, 3, acknowledged)["ok"]

    assert proof.stratum("stratum 0", fetch, REPOSITORY, 3)["ok"]
    fields = names.manifest_fields(whole[MANIFEST])
    named = needed(fields["C"], whole)
    assert named | {MANIFEST, REFLOG} == set(asked) <= whole.keys()
    data = next(key for key in sorted(named) if names.parts(key)[1] == "")
    catalog = names.key(REPOSITORY, fields["C"], "C")
    for harm in (
        {data: damaged(whole[data])},
        {data: None},
        {catalog: None},
        {MANIFEST: None},
        {MANIFEST: names.manifest_text(fields | {"S": "2"})},
    ):
        assert not proven(changed(whole, harm)), harm.keys()
    assert proven(whole) and not proven(whole, names.key(REPOSITORY, "0" * 40)), "acknowledged, and not there"
    assert proof.stratum("stratum 1", {}.__getitem__, REPOSITORY, 0)["ok"], "nothing was ever published"


def test_last_day_of_a_stratum():
    rows = {
        "stratum": [0, 1, 0, 1, 0, 1, 0, 1],
        "day": [1, 1, 2, 2, 3, 3, 4, 4],
        "state": ["published", "published", "failed", "unchanged", "published", "failed", "failed", "published"],
    }
    assert (proof.last_day(rows, 0), proof.last_day(rows, 1)) == (3, 3)
    assert proof.last_day({name: column[:6] for name, column in rows.items()}, 1) == 1
    assert proof.last_day({name: [] for name in rows}, 0) == 0


def test_impossible_points_are_refused():
    refused = (
        ("publish", {"days": 5}, "days", "the 4 days of the release"),
        ("publish", {"expired": "5-2"}, "expired", "'5-2'"),
        ("publish", {"expired": "soon"}, "expired", "'soon'"),
        ("publish", {"clients": 2}, "clients", "2 clients"),
        ("publish", {"workers": 17}, "workers", "at most 16"),
        ("publish", {"engine": "obstore"}, "engine", "obstore"),
        ("publish", {"engine": "obstore", "pattern": "tuned", "expired": "2"}, "engine", "obstore"),
        ("replicate", {}, "stratum0", ""),
        ("replicate", {"stratum0": "s"}, "stratum0", "s"),
    )
    repositories.all_refused_at_axes(
        (f"{axis}: ", text, point(workload, RELEASE, **{"days": 3} | axes)) for workload, axes, axis, text in refused
    )


def test_objects_of_an_attempt_are_known_before():
    (made,) = WORKLOADS["publish"].expected_objects(point("publish", RELEASE), "att")
    for key in (names.key(REPOSITORY, "a" * 40), names.key(REPOSITORY, "b" * 40, "C"), MANIFEST, REFLOG):
        assert re.fullmatch(made.key, f"put/att/{key}")
        assert not re.fullmatch(made.key, f"put/other/{key}") and not re.fullmatch(made.key, f"put/att/x{key}")
