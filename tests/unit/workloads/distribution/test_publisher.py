"""Publishing and replicating a release, against a bucket that counts, fails and forgets as it is told: order, pattern, retries, what is owed."""

import hashlib
import itertools
import json
import random
import re
import shutil
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import bucket_server
import pytest

from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.datasets.release import names, walk
from storelab.datasets.release.build import Release
from storelab.datasets.release.day import Item
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.distribution import client, patterns, proof, publisher
from storelab.workloads.distribution.by_obstore import ObstoreStratum
from storelab.workloads.distribution.replicator import Other, Replicator
from storelab.workloads.distribution.stratum import Failed, Log, OutOfTime, Stratum, spread

KEYS = Credentials("an-access-key", "a-secret-key")
REPOSITORY = "sw.example.org"
RELEASE = Settings(repository=REPOSITORY, factor=0.0001, days=4).told()
WORKER = 4
MADE: list[Path] = []


@pytest.fixture
def zero():
    with bucket_server.bucket() as server:
        yield server


@pytest.fixture
def one():
    with bucket_server.bucket() as server:
        yield server


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(patterns, "LONGEST_WAIT_S", 0.002)
    monkeypatch.setattr(patterns, "THROTTLED_S", 0.002)


def stratum(server, pattern="cvmfs", prefix="") -> Stratum:
    return Stratum(Endpoint(server.url), Bucket("b"), prefix, KEYS, patterns.PATTERNS[pattern], Log(0))


@dataclass
class Made:
    """A day by hand: objects of random bytes in the order of the kinds; nobody looks into its catalogs."""

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
        for kind, name in (("reflog", names.REFLOG), ("manifest", names.MANIFEST)):
            self.items.append((Item(f"{REPOSITORY}/{name}", 9, kind), f"{kind} {self.n}".encode()))
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


MANIFEST, REFLOG = (f"{REPOSITORY}/{name}" for name in (names.MANIFEST, names.REFLOG))


def test_a_day_arrives_in_the_order_that_keeps_the_repository_whole(zero, day):
    zero.pause_s = 0.002
    assert publisher.publish(stratum(zero), [day], 16) == len(day.items)
    puts = [key for _, key in zero.requests("PUT")]
    kinds = {item.key: item.kind for item, _ in day.items}
    root = names.key(REPOSITORY, day.facts["root_catalog"], "C")
    assert Counter(puts) == Counter(list(kinds))  # each once
    assert {kinds[key] for key in puts[:45]} == {"data", "chunk"}
    assert {kinds[key] for key in puts[45:51]} == {"catalog"}
    assert puts[50:] == [root, REFLOG, MANIFEST]
    assert zero.objects == {item.key: body for item, body in day.items}
    assert 2 < zero.most <= 16


def test_it_asks_as_the_tool_does(zero, day):
    """HEAD before PUT of what is named by its content, the access header signed on all requests, types, no listing, no multipart."""
    publisher.publish(stratum(zero), [day], 4)
    assert {method for method, _ in zero.requests()} == {"HEAD", "PUT"}
    assert Counter(key for _, key in zero.requests("HEAD")) == Counter(day.keys("data", "chunk", "catalog"))
    for method, key, headers in zero.asked:
        assert headers["x-amz-acl"] == "public-read"
        assert "x-amz-acl" in headers["Authorization"].split("SignedHeaders=")[1].split(",")[0]
        if method == "PUT":
            own = key in (REFLOG, MANIFEST)
            assert headers["Content-Type"] == ("application/x-cvmfs" if own else "application/octet-stream")
            assert headers["Cache-Control"] == ("max-age=61" if own else "max-age=259200")
    first = {key: [m for m, k in zero.requests() if k == key] for key in day.keys("data")}
    assert set(map(tuple, first.values())) == {("HEAD", "PUT")}


def test_tuned_looks_at_nothing_and_sends_no_access_header(zero, day):
    own = stratum(zero, "tuned")
    publisher.publish(own, [day], 4)
    assert {method for method, _ in zero.requests()} == {"PUT"}
    assert all("x-amz-acl" not in headers for _, _, headers in zero.asked)
    assert own.log.counts["puts"] == len(day.items) and own.log.counts["stored"] == len(day.items) - 2
    publisher.publish(own, [day], 4)  # what this process sent is not sent again
    assert len(zero.requests("PUT")) == len(day.items) + 2


def test_obstore_sends_the_same_objects_with_the_same_types(zero, day, monkeypatch):
    for name, value in KEYS.environ().items():
        monkeypatch.setenv(name, value)
    own = ObstoreStratum(Endpoint(zero.url), Bucket("b"), "", KEYS, patterns.PATTERNS["tuned"], Log(0))
    left = [503, 503]
    zero.answer = lambda method, key: (left.pop(), {}) if left and method == "PUT" else None
    publisher.publish(own, [day], 4)
    assert zero.objects == {item.key: body for item, body in day.items}
    assert own.log.counts["retries"] == 2 and own.log.counts["stored"] == len(day.items) - 2
    for method, key, headers in zero.asked:
        assert method == "PUT" and headers["Cache-Control"] == ("max-age=61" if ".cvmfs" in key else "max-age=259200")
    assert own.there(MANIFEST) and not own.there("nothing") and own.get(MANIFEST) == b"manifest 1"
    with pytest.raises(FileNotFoundError):
        own.get("nothing")
    zero.answer = lambda method, key: (403, {})
    with pytest.raises(Failed):
        own.put("k", b"x")


def test_what_is_there_is_not_sent_again(zero, day):
    there = sorted(day.keys("data"))[:7]
    zero.objects |= dict.fromkeys(there, b"x")
    own = stratum(zero)
    publisher.publish(own, [day], 4)
    assert not {key for _, key in zero.requests("PUT")} & set(there)
    assert own.log.counts["skipped"] == 7 and own.log.counts["puts"] == len(day.items) - 7
    assert own.log.counts["heads"] == len(day.items) - 2
    assert own.log.counts["bytes"] == 50 * (len(day.items) - 2 - 7)


@pytest.mark.parametrize(
    ("answers", "tries", "good"),
    [
        ([503, 502, 500], 4, True),
        ([503, 502, 500, 503], 4, False),
        (["hang up"] * 3, 4, True),
        ([429] * 9, 10, True),  # told to wait: no retry
        ([429, 503, 429, 503, 503], 6, True),
        ([400], 1, False),
        ([403], 1, False),
        ([501], 1, False),
    ],
)
def test_what_is_tried_again_and_how_often(zero, answers, tries, good):
    left = list(answers)

    def answer(method, key):
        if not left:
            return None
        if (status := left.pop(0)) == "hang up":
            raise ConnectionError
        return status, {"Retry-After": "0"} if status == 429 else {}

    zero.answer, own = answer, stratum(zero)
    if good:
        own.put("k", b"body", always=True)
        assert zero.objects == {"k": b"body"}
    else:
        with pytest.raises(Failed, match=f"PUT k: {answers[-1]}"):
            own.put("k", b"body", always=True)
    ops = own.log.ops()
    assert len(zero.asked) == tries and ops["requests"] == [tries] and (ops["error"] == [None]) is good
    assert own.log.counts["retries"] == tries - 1 and own.log.counts["failures"] == (not good)


def test_a_retry_holds_up_all_transfers_in_the_tool_and_one_when_tuned(zero, monkeypatch):
    monkeypatch.setattr(patterns, "THROTTLED_S", 0.3)
    for pattern, held in (("cvmfs", True), ("tuned", False)):
        zero.asked.clear()
        left = [429]
        zero.answer = lambda method, key, left=left: (left.pop(), {}) if key == "slow" and left else None
        own = stratum(zero, pattern)
        begun = time.monotonic()
        done = {}

        def put(key, worker, own=own, done=done, begun=begun):
            if key == "other":
                time.sleep(0.1)  # the other one waits by now
            own.put(key, b"x", worker, always=True)
            done[key] = time.monotonic() - begun

        spread(["slow", "other"], put, 2)
        assert (done["other"] >= 0.3) is held


def test_a_server_that_says_how_long_to_wait_is_heeded_within_bounds():
    from storelab.workloads.distribution.stratum import _throttled_s

    assert [_throttled_s(said) for said in ("3", "99", None, "Wed, 21 Oct 2015 07:28:00 GMT", "-1")] == [
        3,
        10,
        0.002,
        0.002,
        0.002,
    ]


def test_a_day_that_fails_leaves_the_manifest_and_the_next_one_sends_the_rest(zero, tmp_path):
    first, second, third = (Made(tmp_path, n, {"data": 20, "catalog": 2}) for n in (1, 2, 3))
    own = stratum(zero)
    publisher.publish(own, [first], 4)
    broken = sorted(second.keys("catalog"))[0]
    zero.answer = lambda method, key: (403, {}) if key == broken and method == "PUT" else None
    with pytest.raises(Failed):
        publisher.publish(own, [second], 4)
    assert zero.objects[MANIFEST] == b"manifest 1" and zero.objects[REFLOG] == b"reflog 1"
    assert second.keys("data") <= zero.objects.keys()  # data come before catalogs
    zero.answer = lambda method, key: None
    zero.asked.clear()
    publisher.publish(own, [second, third], 4)
    sent = [key for _, key in zero.requests("PUT")]
    assert sent[-1] == MANIFEST and zero.objects[MANIFEST] == b"manifest 3" and sent.count(MANIFEST) == 1
    assert not set(sent) & second.keys("data") and set(sent) >= second.keys("catalog") & {broken} | third.keys()
    assert zero.objects.keys() == first.keys() | second.keys() | third.keys()


def test_nothing_begins_after_the_deadline(zero, day):
    own = stratum(zero)
    own.deadline_ns = time.time_ns() - 1
    with pytest.raises(OutOfTime):
        publisher.publish(own, [day], 4)
    assert not zero.asked


def test_the_first_failure_ends_all_and_is_raised():
    done = []

    def do(item, worker):
        if item == 50:
            raise ValueError("the fiftieth")
        done.append(item)
        time.sleep(0.001)

    with pytest.raises(ValueError, match="the fiftieth"):
        spread(range(10_000), do, 8)
    assert len(done) < 200 and len(done) == len(set(done))

    def broken():
        yield 1
        raise KeyError("of the items")

    with pytest.raises(KeyError):
        spread(broken(), lambda item, worker: None, 3)


# With real days, made small


@pytest.fixture(scope="module", autouse=True)
def made(tmp_path_factory):
    """The release's folder with all its days: to make them takes longer than to publish them."""
    folder = tmp_path_factory.mktemp("release")
    Release(Settings.model_validate(RELEASE), processes=1).day(RELEASE["days"], folder)
    MADE.append(folder)
    yield
    MADE.clear()


def job(server, tmp_path, **axes) -> Job:
    own = {a.name: a.default for a in WORKLOADS["publish"].axes} | {"workers": WORKER, "days": 3} | axes
    fixed = {"duration_ns": 60 * 10**9, "warm_up_ns": 0, "data_seed": 1, "release": RELEASE}
    point = Point("s", "publish", own, 1, "k", "nightly", 1, 1, fixed)
    return Job(point, 0, Endpoint(server.url), [Bucket("b")], tmp_path / "scratch", None, attempt="att")


def published(server, tmp_path, monkeypatch, kind=client.PublishClient, extra=None, **axes):
    """The client after its run, and the columns of its days as rows."""
    for name, value in KEYS.environ().items():
        monkeypatch.setenv(name, value)
        monkeypatch.setenv(name.replace("AWS_", client.BESIDE), value)
    task = job(server, tmp_path, **axes)
    task.extra.update(extra or {})
    one = kind(task)
    shutil.copytree(MADE[0], one.folder)
    one.prepare()
    try:
        one.run(time.time_ns(), time.time_ns() + 60 * 10**9)
        result = one.result()
    finally:
        one.close()
    columns = result.tables["days"]
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return one, result, rows


def content(server) -> dict[str, bytes]:
    """Key below the attempt's prefix -> bytes."""
    return {key.removeprefix("put/att/"): body for key, body in server.objects.items()}


def test_days_are_published_one_after_the_other(zero, tmp_path, monkeypatch):
    _, result, rows = published(zero, tmp_path, monkeypatch)
    assert [(r["day"], r["stratum"], r["state"]) for r in rows] == [(n, 0, "published") for n in (1, 2, 3)]
    assert all(a["end_ns"] <= b["begin_ns"] for a, b in itertools.pairwise(rows))
    stored = {key: body for key, body in content(zero).items() if names.parts(key)}
    assert sum(r["stored"] for r in rows) == len(stored)
    assert sum(r["bytes"] for r in rows) == sum(map(len, stored.values()))
    assert sum(r["puts"] for r in rows) == len(stored) + 2 * 3 == len(zero.requests("PUT"))
    assert all(c.ok for c in result.checks) and result.ops["error"].count(None) == len(zero.asked)
    fields = names.manifest_fields(content(zero)[MANIFEST])
    assert fields["S"] == "3" and fields["N"] == REPOSITORY
    assert not (tmp_path / "scratch" / "release").exists()
    needed = set(walk.references(fields["C"], content(zero).__getitem__, REPOSITORY))
    assert needed <= stored.keys()


@pytest.mark.heavy
def test_days_with_an_expired_signature_are_flat_and_the_next_catches_up(zero, tmp_path, monkeypatch):
    """A server that looks at the date refuses them; what they lacked comes on the day after; they are no errors of the run."""

    def dated(method, key):
        stamp = zero.asked[-1][2]["X-Amz-Date"]
        old = time.time() - time.mktime(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) + time.timezone > 3600
        return (403, {}) if old else None

    zero.answer = dated
    _, result, rows = published(zero, tmp_path, monkeypatch, expired="2-3", days=4, workers=1)
    assert [r["state"] for r in rows] == ["published", "failed", "failed", "published"]
    assert [r["stored"] for r in rows][1:3] == [0, 0] and all("403" in r["reason"] for r in rows[1:3])
    assert rows[1]["failures"] == 1 and result.ops["error"] == [None] * len(result.ops["error"])
    last = names.manifest_fields(content(zero)[MANIFEST])
    assert last["S"] == "4"
    assert set(walk.references(last["C"], content(zero).__getitem__, REPOSITORY)) <= content(zero).keys()


def test_a_run_that_its_deadline_ends_says_how_far_it_came(zero, tmp_path, monkeypatch):
    monkeypatch.setattr(
        client.clock, "now_ns", lambda: time.time_ns() + (10**15 if len(zero.requests("PUT")) > 25 else 0)
    )
    _, result, rows = published(zero, tmp_path, monkeypatch)
    (check,) = result.checks
    assert not check.ok and "raise `duration`" in check.detail and rows[-1]["state"] in ("cut", "published")


def mirrored(zero, one, tmp_path, monkeypatch, **axes):
    extra = {"stratum0": {"endpoint": {"url": zero.url}, "bucket": {"name": "b"}}}
    return published(one, tmp_path, monkeypatch, client.ReplicateClient, extra, **axes)


def complete(server) -> None:
    """No catalog is there before all that it names: then a replication that is cut off can go on by catalogs alone."""
    have = content(server)
    for key in have:
        if (names.parts(key) or ("", ""))[1] == "C":
            root = names.parts(key)[0]
            assert set(walk.references(root, have.__getitem__, REPOSITORY)) <= have.keys()


@pytest.mark.parametrize("pattern", ["cvmfs", "tuned"])
def test_stratum_1_becomes_what_stratum_0_is(zero, one, tmp_path, monkeypatch, pattern):
    def watch(method, key):
        if method == "PUT" and key.endswith("C"):
            complete(one)

    one.answer = watch
    _, result, rows = mirrored(zero, one, tmp_path, monkeypatch, pattern=pattern)
    complete(one)
    assert [(r["day"], r["stratum"], r["state"]) for r in rows] == [
        (n, s, "published") for n in (1, 2, 3) for s in (0, 1)
    ]
    assert content(one) == content(zero)
    puts = Counter(key for _, key in one.requests("PUT"))
    assert {key: n for key, n in puts.items() if n > 1} == {f"put/att/{key}": 3 for key in (MANIFEST, REFLOG)}
    assert Counter(result.ops["op"])["PUT"] == sum(puts.values())  # operations are those of the point's store
    gets = {r["day"]: r["gets"] for r in rows if r["stratum"] == 1}
    assert gets[3] < gets[1] * 3


@pytest.mark.heavy
def test_a_replication_that_was_cut_off_goes_on(zero, one, tmp_path, monkeypatch):
    published(zero, tmp_path, monkeypatch)
    source = stratum(zero, prefix="put/att/")
    puts = []

    def die_later(method, key):
        if method == "PUT":
            puts.append(key)
        return (403, {}) if method == "PUT" and len(puts) > 20 else None

    one.answer = die_later
    with pytest.raises(Failed):
        Replicator(source, stratum(one, prefix="put/att/"), REPOSITORY, WORKER).run()
    complete(one)
    arrived = set(one.objects)
    assert 15 <= len(arrived) <= 20 and MANIFEST not in content(one)
    one.answer = lambda method, key: None
    one.asked.clear()
    again = Replicator(source, stratum(one, prefix="put/att/"), REPOSITORY, WORKER)  # another process: it knows nothing
    assert again.run() > 20
    assert not {key for _, key in one.requests("PUT")} & arrived
    fields = names.manifest_fields(content(zero)[MANIFEST])
    assert set(walk.references(fields["C"], content(one).__getitem__, REPOSITORY)) <= content(one).keys()
    assert again.run() is None  # nothing is new
    assert len(zero.requests("GET")) < 1000


def test_a_stratum_1_that_holds_something_else_is_left_alone(zero, one, tmp_path, monkeypatch):
    published(zero, tmp_path, monkeypatch)
    mine = names.manifest_fields(content(zero)[MANIFEST])
    source = stratum(zero, prefix="put/att/")
    for other, told in (
        ({"N": "other.example.org"}, "holds the repository 'other.example.org'"),
        ({"S": "9"}, "has revision 9, stratum 0 only 3"),
    ):
        one.objects = {MANIFEST: names.manifest_text(mine | other)}
        with pytest.raises(Other, match=told):
            Replicator(source, stratum(one), REPOSITORY, WORKER).run()
        assert not one.requests("PUT")
    one.objects = {MANIFEST: b"no manifest"}
    with pytest.raises(Failed, match="damaged"):
        Replicator(source, stratum(one), REPOSITORY, WORKER).run()
    one.objects = {}
    assert Replicator(stratum(one), source, REPOSITORY, WORKER).run() is None  # nothing was published yet


@pytest.mark.heavy
def test_a_stratum_0_that_lacks_something_is_not_replicated(zero, one, tmp_path, monkeypatch):
    published(zero, tmp_path, monkeypatch)
    whole = dict(zero.objects)
    source = stratum(zero, prefix="put/att/")
    root = names.key(REPOSITORY, names.manifest_fields(content(zero)[MANIFEST])["C"], "C")
    for key in (
        f"put/att/{root}",
        next(key for key in whole if (names.parts(key.removeprefix("put/att/")) or "00")[1] == ""),
    ):
        for harm in (None, b"damaged"):
            if harm and not key.endswith("C"):
                continue  # data are copied as they are: the proof finds them
            zero.objects = {k: v for k, v in (whole | {key: harm}).items() if v is not None}
            one.objects = {}
            with pytest.raises(Failed, match="stratum 0 is not whole"):
                Replicator(source, stratum(one), REPOSITORY, WORKER).run()
            assert MANIFEST not in one.objects


def test_a_catalog_that_two_others_name_comes_before_both(zero, one):
    """The walk gives it behind the first of them: upside down it would follow the other."""
    import sqlite3
    import zlib

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
    assert Replicator(stratum(zero), stratum(one), REPOSITORY, WORKER).run() == 7
    order = [names.parts(key)[0] for _, key in one.requests("PUT") if names.parts(key)]
    assert len(order) == 5 and order[0] == leaf and order[-1] == root


def test_the_proof_reads_everything_and_sees_what_is_wrong(zero, tmp_path, monkeypatch):
    published(zero, tmp_path, monkeypatch)
    whole, asked = content(zero), []

    def fetch(key):
        asked.append(key)
        return whole[key]

    good = proof.stratum("stratum 0", fetch, REPOSITORY, 3)
    assert good["ok"] and set(asked) <= whole.keys()
    fields = names.manifest_fields(whole[MANIFEST])
    needed = set(walk.references(fields["C"], whole.__getitem__, REPOSITORY))
    assert needed | {MANIFEST, REFLOG} == set(asked)
    data = next(key for key in sorted(needed) if names.parts(key)[1] == "")
    catalog = names.key(REPOSITORY, fields["C"], "C")
    for harm in (
        {data: whole[data][:-1] + bytes([whole[data][-1] ^ 1])},
        {data: None},
        {catalog: None},
        {MANIFEST: None},
        {MANIFEST: names.manifest_text(fields | {"S": "2"})},
    ):
        broken = {key: body for key, body in (whole | harm).items() if body is not None}
        assert not proof.stratum("stratum 0", broken.__getitem__, REPOSITORY, 3)["ok"], harm.keys()
    lost = proof.stratum("stratum 0", whole.__getitem__, REPOSITORY, 3, [names.key(REPOSITORY, "0" * 40)])
    assert not lost["ok"]  # acknowledged, and not there
    assert proof.stratum("stratum 1", {}.__getitem__, REPOSITORY, 0)["ok"]  # nothing was ever published


def test_which_day_a_stratum_has_at_the_end():
    rows = {
        "stratum": [0, 1, 0, 1, 0, 1, 0, 1],
        "day": [1, 1, 2, 2, 3, 3, 4, 4],
        "state": ["published", "published", "failed", "unchanged", "published", "failed", "failed", "published"],
    }
    assert (proof.last_day(rows, 0), proof.last_day(rows, 1)) == (3, 3)
    assert proof.last_day({name: column[:6] for name, column in rows.items()}, 1) == 1
    assert proof.last_day({name: [] for name in rows}, 0) == 0


@pytest.mark.parametrize(
    ("workload", "axes", "told"),
    [
        ("publish", {"days": 5}, "axes.days: 5 days, and the release has 4"),
        ("publish", {"expired": "5-2"}, "axes.expired: '5-2' is no day and no span of days"),
        ("publish", {"expired": "soon"}, "axes.expired: 'soon'"),
        ("publish", {"clients": 2}, "axes.clients: 2 clients, and a repository has one publisher"),
        ("publish", {"workers": 17}, "axes.workers: 17 connections, and pattern cvmfs has 16 at most"),
        ("publish", {"engine": "obstore"}, "axes.engine: obstore signs by itself"),
        ("publish", {"engine": "obstore", "pattern": "tuned", "expired": "2"}, "axes.engine: obstore"),
        ("replicate", {}, "axes.stratum0: no store is named"),
        ("replicate", {"stratum0": "s"}, "axes.stratum0: both strata lie on s"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(workload, axes, told):
    own = {a.name: a.default for a in WORKLOADS[workload].axes} | {"days": 3} | axes
    point = Point("s", workload, own, 1, "k", "nightly", 1, 1, {"release": RELEASE})
    with pytest.raises(UserError) as caught:
        WORKLOADS[workload].possible(point)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_settings_of_a_release_come_back_from_a_record():
    chunks = {"minimum": "1 MiB", "average": "2 MiB", "maximum": "5 MB"}
    given = Settings(
        factor=0.5, bytes_a_day="3 GB", bytes_deviation="0 B", chunks=chunks, tree={"path": "/t", "versions": ["a"]}
    )
    for settings in (Settings(), given):
        assert Settings.model_validate(json.loads(json.dumps(settings.told()))) == settings


def test_what_an_attempt_makes_is_known_before():
    point = Point("s", "publish", {}, 1, "k", "nightly", 1, 1, {"release": RELEASE})
    (made,) = WORKLOADS["publish"].makes(point, "att")
    for key in (names.key(REPOSITORY, "a" * 40), names.key(REPOSITORY, "b" * 40, "C"), MANIFEST, REFLOG):
        assert re.fullmatch(made.key, f"put/att/{key}")
        assert not re.fullmatch(made.key, f"put/other/{key}") and not re.fullmatch(made.key, f"put/att/x{key}")
