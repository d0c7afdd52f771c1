"""Collection of garbage, against a bucket in memory that fails as it is told: what goes, in which order, what an interruption leaves, what
the proof sees. Truth is a marking by brute force, and a reader of releases that is not storelab's."""

import itertools
import json
import os
import re
import resource
import sqlite3
import tempfile
import time
import zlib
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import bucket_server
import pytest
import release_reader

from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Part, Point
from storelab.datasets.release import catalogs, names, walk
from storelab.datasets.release.build import Release
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.distribution import collected, garbage, garbage_client, many, patterns, staged
from storelab.workloads.distribution.by_obstore import ObstoreStratum
from storelab.workloads.distribution.collector import Collector, NotWhole
from storelab.workloads.distribution.replicator import Other
from storelab.workloads.distribution.stratum import Failed, Log, OutOfTime, Stratum
from storelab.workloads.probe.plain_http import Reply
from storelab.workloads.roles import files_of
from storelab.workloads.staging import needs

KEYS = Credentials("an-access-key", "a-secret-key")
REPOSITORY = "sw.example.org"
DAYS, KEEP = 6, 2
CHUNKS = {"minimum": "20 kB", "average": "40 kB", "maximum": "80 kB"}  # so that files of a small release have some
SETTINGS = Settings(repository=REPOSITORY, factor=0.0001, days=DAYS, nights=2, chunks=CHUNKS)
MANIFEST, REFLOG = (f"{REPOSITORY}/{name}" for name in (names.MANIFEST, names.REFLOG))


@pytest.fixture
def server():
    with bucket_server.bucket() as server:
        yield server


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(patterns, "LONGEST_WAIT_S", 0.002)
    monkeypatch.setattr(garbage_client, "FIRST_PAUSE_S", 0.001)
    for name, value in KEYS.environ().items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """(objects of a repository after all days, root of each day)."""
    folder, objects, roots = tmp_path_factory.mktemp("release"), {}, []
    release = Release(SETTINGS, processes=1)
    for n in range(1, DAYS + 1):
        day = release.day(n, folder)
        objects |= {item.key: day.path(item).read_bytes() for item in day.objects()}
        roots.append(day.facts["root_catalog"])
    return objects, roots


def needed(objects: dict[str, bytes], root: str) -> set[str]:
    """All that a root needs, by brute force."""
    found, waiting = set(), [f"{root}C"]
    while waiting:
        found.add(name := waiting.pop())
        db = sqlite3.connect(":memory:")
        db.deserialize(zlib.decompress(objects[f"{REPOSITORY}/data/{name[:2]}/{name[2:]}"]))
        found |= {blob.hex() for (blob,) in db.execute("SELECT hash FROM catalog WHERE hash NOT NULL") if blob}
        found |= {blob.hex() + "P" for (blob,) in db.execute("SELECT hash FROM chunks")}
        waiting += [digest + "C" for (digest,) in db.execute("SELECT sha1 FROM nested_catalogs")]
    return {f"{REPOSITORY}/data/{name[:2]}/{name[2:]}" for name in found}


def alive(published, keep=KEEP) -> set[str]:
    objects, roots = published
    return set().union(*(needed(objects, root) for root in roots[-keep:]))


def dead(published, keep=KEEP) -> set[str]:
    return {key for key in published[0] if names.parts(key)} - alive(published, keep)


def stratum(server, pattern="cvmfs", kind=Stratum) -> Stratum:
    return kind(Endpoint(server.url), Bucket("b"), "", KEYS, patterns.PATTERNS[pattern], Log(0))


def whole(objects, published, keep=KEEP) -> None:
    """Just what is alive is there, bit by bit; another reader finds each kept day as it was; the reflog names just these."""
    before, roots = published
    left = alive(published, keep)
    assert objects == {key: before[key] for key in left} | {MANIFEST: before[MANIFEST], REFLOG: objects[REFLOG]}
    for root in roots[-keep:]:
        then, now = (
            release_reader.restore(root, lambda name, of=of: of[f"{REPOSITORY}/{name}"]) for of in (before, objects)
        )
        assert then == now and len(now) > 10
    assert walk.reflog_roots(objects[REFLOG]) == roots[-keep:]


def test_the_release_has_what_is_to_be_told_apart(published):
    """Else the other tests would prove little: chunks, data and catalogs of several levels among the dead and the alive, and shared ones."""
    objects, roots = published
    for some in (dead(published), alive(published)):
        assert {names.parts(key)[1] for key in some} == {"", "P", "C"} and len(some) > 30
    shared = needed(objects, roots[0]) & needed(objects, roots[1])
    assert shared and shared & dead(published) and needed(objects, roots[DAYS - KEEP - 1]) & alive(published)


@pytest.mark.parametrize(
    ("kind", "pattern", "batch", "workers"),
    [
        (Stratum, "cvmfs", 1, 16),
        (Stratum, "tuned", 7, 3),
        (ObstoreStratum, "tuned", 1, 5),
        (ObstoreStratum, "tuned", 9, 2),
    ],
)
def test_what_is_dead_goes_and_what_is_alive_stays(server, published, kind, pattern, batch, workers):
    server.objects, server.pause_s = dict(published[0]), 0.001
    own = stratum(server, pattern, kind)
    found = Collector(own, REPOSITORY, KEEP, workers, batch).run()
    whole(server.objects, published)
    wrong = dead(published)
    assert (found.dropped, found.kept) == (published[1][:-KEEP], published[1][-KEEP:])
    assert (found.dead, found.alive) == (len(wrong), alive(published))
    assert own.log.counts["deletes"] == len(wrong) and own.log.counts["failures"] == 0
    ops = own.log.ops()
    of = [i for i, op in enumerate(ops["op"]) if op in many.DELETIONS]
    assert sum(ops["count"][i] for i in of) == len(wrong) and {ops["bytes"][i] for i in of} == {0}
    singles, several = len(server.requests("DELETE")), len(server.requests("POST"))
    if batch == 1:
        assert (singles, several) == (len(wrong), 0)  # each once
        assert {key for _, key in server.requests("DELETE")} == wrong == {ops["object"][i] for i in of}
    else:
        assert several >= len(wrong) // batch and singles < several
        assert several <= len(wrong) // batch + 4  # the last of the data, and of each level of catalogs
    assert 1 < server.most <= workers + 1
    assert server.requests()[-1] == ("PUT", REFLOG) and [k for _, k in server.requests("PUT")] == [REFLOG]
    if kind is Stratum and pattern == "cvmfs":
        assert {headers["x-amz-acl"] for _, _, headers in server.asked} == {"public-read"}
    assert Collector(own, REPOSITORY, KEEP, workers, batch).run().dropped == []  # nothing is left to do
    assert len(server.requests("DELETE", "POST")) == singles + several


def test_data_go_before_catalogs_and_a_catalog_after_all_that_it_names(server, published):
    """So a collection that is cut off finds by the catalogs what is left."""
    server.objects, server.pause_s, seen = dict(published[0]), 0.001, []
    wrong = dead(published)

    def watch(method, key):
        if method == "DELETE" and key.endswith("C"):
            named = set(walk.contents(key, published[0][key], REPOSITORY)) & wrong
            seen.append((key, named & server.objects.keys()))
        if method == "PUT":
            assert not wrong & server.objects.keys()

    server.answer = watch
    Collector(stratum(server), REPOSITORY, KEEP, 16).run()
    assert len(seen) == sum(key.endswith("C") for key in wrong) > 5 and not any(left for _, left in seen)


@pytest.mark.parametrize(("share", "batch"), [(0, 1), (0.4, 1), (0.8, 10), (0.95, 1), (0.99, 10), (1, 1)])
def test_a_collection_that_is_cut_off_goes_on_and_ends_whole(server, published, share, batch):
    """The store dies after some share of the deletions (1: at the reflog); another process collects again."""
    server.objects = dict(published[0])
    wrong, taken = dead(published), []
    pattern = "cvmfs" if batch == 1 else "tuned"

    def die_later(method, key):
        if method == "DELETE":
            taken.append(key)
            return (403, {}) if len(taken) > share * len(wrong) else None
        return (403, {}) if method == "PUT" and share == 1 else None

    server.answer = die_later
    one = Collector(stratum(server, pattern), REPOSITORY, KEEP, 5, batch)
    with pytest.raises(Failed):
        one.run()
    gone = published[0].keys() - server.objects.keys()
    assert gone <= wrong and len(gone) <= share * len(wrong)
    assert server.objects[MANIFEST] == published[0][MANIFEST] and server.objects[REFLOG] == published[0][REFLOG]
    for root in published[1][-KEEP:]:
        assert needed(server.objects, root) <= server.objects.keys()
    server.answer = lambda method, key: None
    Collector(stratum(server, pattern), REPOSITORY, KEEP, 5, batch).run()
    whole(server.objects, published)


def test_interrupted_again_and_again_it_ends(server, published):
    """Each try does a few deletions, at random places of a schedule that four workers make."""
    server.objects, left = dict(published[0]), [0]

    def few(method, key):
        left[0] -= method == "DELETE"
        return (403, {}) if method == "DELETE" and left[0] < 0 else None

    server.answer = few
    for tries in itertools.count(1):
        left[0] = 60 * tries  # dead data that are gone are asked for again
        try:
            Collector(stratum(server, "tuned"), REPOSITORY, KEEP, 4, 5).run()
            break
        except Failed:
            assert tries < 9 and alive(published) <= server.objects.keys()
    assert tries > 2
    whole(server.objects, published)


def test_the_newest_days_stay_as_many_as_are_wanted(server, published):
    for keep in (4, 3, 1):  # one after the other
        server.objects = server.objects or dict(published[0])
        assert len(Collector(stratum(server), REPOSITORY, keep, 4).run().kept) == keep
        whole(server.objects, published, keep)
    server.asked.clear()
    for keep in (1, 2, DAYS + 5):
        assert Collector(stratum(server), REPOSITORY, keep, 4).run().dropped == []
    assert {method for method, _ in server.requests()} == {"GET"}


def test_a_root_newer_than_the_manifest_stays(server, published):
    """A publication was interrupted behind its reflog: running it again finishes it."""
    objects, roots = published
    fields = names.manifest_fields(objects[MANIFEST])
    server.objects = objects | {MANIFEST: names.manifest_text(fields | {"C": roots[-2]})}
    found = Collector(stratum(server), REPOSITORY, 1, 4).run()
    assert found.kept == roots[-2:]
    assert needed(objects, roots[-1]) | needed(objects, roots[-2]) <= server.objects.keys()
    assert (
        not needed(objects, roots[0]) - needed(objects, roots[-1]) - needed(objects, roots[-2]) & server.objects.keys()
    )


@pytest.mark.parametrize(
    ("harm", "error", "told"),
    [
        ("other", Other, "holds the repository 'other.example.org', not 'sw.example.org'"),
        ("nothing", NotWhole, "manifest or reflog cannot be read, nothing is deleted"),
        ("damaged", NotWhole, "manifest or reflog cannot be read, nothing is deleted: the manifest is damaged"),
        ("no reflog", NotWhole, "nothing is deleted"),
        ("bad reflog", NotWhole, "the reflog is damaged"),
        ("foreign reflog", NotWhole, "the reflog does not name the root of the manifest, nothing is deleted"),
        ("no kept root", NotWhole, "a root that is kept is not whole, nothing is deleted"),
        ("damaged kept root", NotWhole, "a root that is kept is not whole, nothing is deleted"),
    ],
)
def test_nothing_is_deleted_where_something_is_wrong(server, published, harm, error, told):
    objects, roots = published
    fields, kept = names.manifest_fields(objects[MANIFEST]), names.key(REPOSITORY, roots[-2], "C")
    change = {
        "other": {MANIFEST: names.manifest_text(fields | {"N": "other.example.org"})},
        "nothing": {MANIFEST: None},
        "damaged": {MANIFEST: objects[MANIFEST][:-5]},
        "no reflog": {REFLOG: None},
        "bad reflog": {REFLOG: b"no database"},
        "foreign reflog": {REFLOG: catalogs.reflog(REPOSITORY, [(roots[0], 1)])},
        "no kept root": {kept: None},
        "damaged kept root": {kept: zlib.compress(b"no catalog")},
    }[harm]
    server.objects = {key: body for key, body in (objects | change).items() if body is not None}
    before = dict(server.objects)
    with pytest.raises(error, match=re.escape(told)):
        Collector(stratum(server), REPOSITORY, KEEP, 4).run()
    assert server.objects == before and {method for method, _ in server.requests()} == {"GET"}


def test_a_dead_catalog_that_is_damaged_is_told(server, published):
    objects, roots = published
    bad = names.key(REPOSITORY, roots[0], "C")
    server.objects = objects | {bad: zlib.compress(b"no catalog")}
    with pytest.raises(NotWhole, match="a catalog cannot be read"):
        Collector(stratum(server), REPOSITORY, KEEP, 4).run()
    assert alive(published) <= server.objects.keys()


def test_nothing_is_deleted_after_the_deadline(server, published):
    server.objects, own = dict(published[0]), stratum(server)

    def late(method, key):
        if method == "DELETE":
            own.deadline_ns = 1

    server.answer = late
    with pytest.raises(OutOfTime):
        Collector(own, REPOSITORY, KEEP, 3).run()
    assert len(server.requests("DELETE")) <= 3


@pytest.mark.parametrize(
    ("codes", "good", "tries"),
    [
        (["NoSuchKey"], True, 1),
        (["AccessDenied"], False, 1),
        (["SlowDown"], True, 2),
        (["SlowDown", "AccessDenied"], False, 1),
    ],
)
def test_keys_that_a_request_for_several_did_not_delete(server, codes, good, tries):
    """200 is no proof: the body names them. What may be tried again is; what is not there is gone."""
    server.objects = {f"k{i} & <{i}>": b"x" for i in range(4)}
    keys, left = list(server.objects), list(codes)
    server.objects = {key.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"): b"" for key in keys}
    server.answer = lambda method, key: (409, {"code": left.pop(0)}) if method == "DELETE" and left else None
    own = stratum(server, "tuned")
    if good:
        own.delete(keys)
        assert own.log.counts["deletes"] == 4 and own.log.counts["failures"] == 0
    else:
        with pytest.raises(Failed, match="DELETE_MULTI"):
            own.delete(keys)
        assert own.log.counts["deletes"] == 0 and own.log.counts["failures"] == 1
    posts = [headers for method, _, headers in server.asked if method == "POST"]
    assert len(posts) == tries and all(headers["Content-MD5"] for headers in posts)
    assert bool(server.objects) is (not good or "NoSuchKey" in codes)


def test_an_answer_is_judged_by_its_body():
    def answer(*codes, status=200):
        text = "".join(f"<Error><Key>k</Key><Code>{code}</Code><Message>m</Message></Error>" for code in codes)
        return many.judged(Reply(status, {}, f"<DeleteResult>{text}</DeleteResult>".encode(), 11)).status

    assert answer() == 200 and answer("NoSuchKey") == 200 and answer(status=500) == 500
    assert answer("InternalError", "SlowDown") == 503 and answer("SlowDown", "AccessDenied") == 403


def test_more_connections_than_select_can_look_at(server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(2000, hard), hard))
    held = [os.dup(0) for _ in range(1050)]
    try:
        own = stratum(server)
        for _ in range(2):  # the second time over the same connection
            own.delete(["k"])
        assert own.wires[-1].opened == 1
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# The client


def axes(**more):
    own = {a.name: a.default for a in WORKLOADS["collect_garbage"].axes}
    return own | {"workers": 4, "days": DAYS, "keep": KEEP} | more


def point(**more) -> Point:
    fixed = {"duration_ns": 60 * 10**9, "warm_up_ns": 0, "data_seed": 1, "release": SETTINGS.told()}
    return Point("s", "collect_garbage", axes(**more), 1, "k", "nightly", 1, 1, fixed)


def run(server, tmp_path, lasts_s=60.0, kind=garbage_client.CollectClient, **more):
    """(result, rows of its tries) of a client; objects lie below the attempt's prefix."""
    one = kind(Job(point(**more), 0, Endpoint(server.url), [Bucket("b")], tmp_path / "scratch", None, attempt="att"))
    one.prepare()
    try:
        one.run(time.time_ns(), time.time_ns() + round(lasts_s * 1e9))
        result = one.result()
    finally:
        one.close()
    columns = result.tables["collections"]
    return result, [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def below(objects, prefix="put/att/"):
    return {prefix + key: body for key, body in objects.items()}


@pytest.mark.parametrize("more", [{}, {"engine": "obstore", "pattern": "tuned", "batch": 50}])
def test_a_client_collects_once(server, published, tmp_path, more):
    server.objects = below(published[0]) | {"put/other/k": b"of another role"}
    kind = garbage_client.ObstoreCollectClient if more else garbage_client.CollectClient
    result, (row,) = run(server, tmp_path, kind=kind, **more)
    assert server.objects.pop("put/other/k") == b"of another role"
    whole({key.removeprefix("put/att/"): body for key, body in server.objects.items()}, published)
    wrong = len(dead(published))
    assert row["state"] == "collected" and row["reason"] is None and row["begin_ns"] < row["marked_ns"] < row["end_ns"]
    assert (row["kept"], row["dropped"], row["alive"], row["dead"]) == (KEEP, DAYS - KEEP, len(alive(published)), wrong)
    assert row["deletes"] == wrong and row["requests"] == len(server.asked) and row["failures"] == 0
    (told,) = result.checks
    assert told.ok and told.detail == f"1 tries, {wrong} deletions"
    assert (
        result.engine["name"] == more.get("engine", "wire")
        and result.engine["settings"]["batch"] == axes(**more)["batch"]
    )


def test_a_collection_that_failed_is_run_again(server, published, tmp_path):
    server.objects, failed = below(published[0]), []

    def once(method, key):
        if method == "DELETE" and len(failed) < 2 and len(server.requests("DELETE")) > 30 * (1 + len(failed)):
            failed.append(key)
            return 403, {}

    server.answer = once
    result, rows = run(server, tmp_path)
    assert [r["state"] for r in rows] == ["failed", "failed", "collected"] and [r["number"] for r in rows] == [1, 2, 3]
    assert all("403" in r["reason"] for r in rows[:2]) and rows[0]["failures"] == 1
    assert result.checks[0].ok and Counter(result.ops["error"])[None] == len(server.asked) - 2
    whole({key.removeprefix("put/att/"): body for key, body in server.objects.items()}, published)


def test_a_client_whose_time_is_too_short_says_so(server, published, tmp_path):
    server.objects, server.pause_s = below(published[0]), 0.05
    result, rows = run(server, tmp_path, lasts_s=0.3)
    assert rows[-1]["state"] == "cut" and not result.checks[0].ok and "raise `duration`" in result.checks[0].detail
    server.answer = lambda method, key: (403, {}) if method == "DELETE" else None
    result, rows = run(server, tmp_path, lasts_s=0.3)
    assert not result.checks[0].ok


def test_a_client_leaves_somebody_elses_stratum_alone(server, published, tmp_path):
    fields = names.manifest_fields(published[0][MANIFEST]) | {"N": "other.example.org"}
    server.objects = below(published[0] | {MANIFEST: names.manifest_text(fields)})
    with pytest.raises(MeasurementFailed, match="holds the repository 'other"):
        run(server, tmp_path)
    assert not server.requests("DELETE", "POST", "PUT")


# Staging, and the proof


@pytest.fixture
def was(published) -> staged.Staged:
    objects, roots = published
    sizes = {key: len(body) for key, body in objects.items() if names.parts(key)}
    return staged.Staged(sizes, roots, frozenset(alive(published)))


class Access:
    """A store in a mapping: what is written is there; what is deleted goes, or not."""

    def __init__(self, objects, deletes=True):
        self.objects, self.deletes = objects, deletes

    def read(self, bucket, key):
        return self.objects.get(key)

    def write(self, bucket, key, data):
        self.objects[key] = data

    def delete(self, bucket, keys):
        if isinstance(self.deletes, Exception):
            raise self.deletes
        for key in keys if self.deletes else ():
            self.objects.pop(key, None)

    def keys(self, bucket, prefix=""):
        return ((key, len(body)) for key, body in self.objects.items() if key.startswith(prefix))


def test_days_are_staged_whole_and_what_they_need_is_known(published, was, monkeypatch):
    there, noted = {}, []

    def put(store, name, items):
        assert len(items) == 2 or len(items) <= sum(n for _, n in noted)  # noted before it is written
        there.update({bucket.prefix + key: path.read_bytes() for bucket, key, path in items})

    monkeypatch.setattr(staged.upload, "put_items", put)
    monkeypatch.setattr(staged, "MOST_OBJECTS", 40)
    store = SimpleNamespace(name="s", access=lambda account: Access(there))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        given = (store, Bucket("b", "mine/"), "put/att/", SETTINGS, DAYS, KEEP, Path(scratch))
        found = staged.days(*given, lambda *n: noted.append(n))
        assert not list(Path(scratch).iterdir())
    assert there == below(published[0], "mine/put/att/") and found == was
    assert len(noted) > 1 and tuple(map(sum, zip(*noted, strict=True))) == (sum(was.objects.values()), len(was.objects))


def looked(objects, was, later=None):
    """The counts, and which checks are good. later: objects a while later."""
    looks = iter([objects, objects if later is None else later])
    now = {}

    def listed():
        now.clear()
        now.update(next(looks))
        return list(now)

    counts, checks = collected.look(was, KEEP, REPOSITORY, now.__getitem__, listed, later_s=0)
    return counts, {c["name"]: c["ok"] for c in checks}, {c["name"]: c["detail"] for c in checks}


GOOD = {"all alive": True, "dead gone": True}


@pytest.fixture
def after(published):
    objects, roots = published
    log = walk.reflog_without(objects[REFLOG], set(roots[:-KEEP]))
    return {key: objects[key] for key in alive(published)} | {MANIFEST: objects[MANIFEST], REFLOG: log}


def test_the_proof_of_a_good_collection_counts_both(after, was, published):
    counts, good, told = looked(after, was)
    assert good == GOOD
    sizes = sum(len(published[0][key]) for key in dead(published))
    assert counts == {
        "alive": len(alive(published)),
        "dead": len(dead(published)),
        "dead_bytes": sizes,
        "read": len(after),
        "asked": len(dead(published)),
        "lost": 0,
        "lingering": 0,
        "left": 0,
        "others": 0,
    }
    assert told["all alive"] == f"{len(after)} objects read again, 0 problems"


@pytest.mark.parametrize("suffix", ["", "P", "C"])
def test_a_live_object_that_was_swept_or_damaged_is_seen(after, was, published, suffix):
    key = sorted(key for key in alive(published) if names.parts(key)[1] == suffix)[3]
    for harm in ({key: None}, {key: after[key][:-1] + bytes([after[key][-1] ^ 1])}):
        counts, good, told = looked({k: v for k, v in (after | harm).items() if v is not None}, was)
        assert good == GOOD | {"all alive": False} and counts["lost"] == 1 and key in told["all alive"]


@pytest.mark.parametrize("suffix", ["", "P", "C"])
def test_a_dead_object_that_was_left_is_seen(after, was, published, suffix):
    key = sorted(key for key in dead(published) if names.parts(key)[1] == suffix)[0]
    extra = {key: published[0][key]}
    counts, good, told = looked(after | extra, was)
    assert good == GOOD | {"dead gone": False} and (counts["lingering"], counts["left"]) == (1, 1)
    assert key in told["dead gone"]
    counts, good, _ = looked(after, was, later=after | extra)  # it comes back
    assert good == GOOD | {"dead gone": False} and (counts["lingering"], counts["left"]) == (0, 1)
    counts, good, _ = looked(after | extra, was, later=after)  # it goes late: that is told, and no failure
    assert good == GOOD and (counts["lingering"], counts["left"]) == (1, 0)


def test_a_dead_object_that_answers_and_is_not_listed_is_seen(after, was, published):
    key = min(dead(published))
    counts, checks = collected.look(
        was, KEEP, REPOSITORY, (after | {key: b"x"}).__getitem__, lambda: list(after), later_s=0
    )
    assert (counts["lingering"], counts["left"]) == (1, 1) and not checks[1]["ok"]


def test_what_nobody_put_there_is_seen(after, was):
    counts, good, told = looked(after | {names.key(REPOSITORY, "0" * 40): b"x"}, was)
    assert good == GOOD | {"dead gone": False} and counts["others"] == 1 and "nobody" in told["dead gone"]


def test_a_wrong_end_is_seen(after, was, published):
    objects, roots = published
    fields = names.manifest_fields(objects[MANIFEST])
    for harm in (
        {REFLOG: objects[REFLOG]},
        {MANIFEST: names.manifest_text(fields | {"C": roots[0]})},
        {MANIFEST: None},
        {REFLOG: None},
    ):
        _, good, _ = looked({k: v for k, v in (after | harm).items() if v is not None}, was)
        assert good == GOOD | {"all alive": False}, harm.keys()


def test_the_dead_are_looked_for_again_after_a_while(after, was):
    begun = time.monotonic()
    collected.look(was, KEEP, REPOSITORY, after.__getitem__, lambda: list(after), later_s=0.3)
    assert time.monotonic() - begun >= 0.3 and collected.LATER_S >= 5


def test_of_many_dead_objects_some_are_asked_for_and_all_are_listed(after, was, published, monkeypatch):
    monkeypatch.setattr(collected, "MOST_ASKED", 10)
    counts, good, _ = looked(after, was)
    assert 5 <= counts["asked"] <= 10 and good == GOOD
    every = sorted(dead(published))
    for key in (every[1], every[-1]):
        counts, good, _ = looked(after | {key: b"x"}, was)
        assert not good["dead gone"] and counts["left"] == 1


# The workload


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"keep": DAYS}, f"axes.keep: {DAYS} of {DAYS} days are kept: nothing is garbage"),
        ({"keep": 9}, f"axes.keep: 9 of {DAYS} days are kept"),
        ({"days": 7}, "axes.days: 7 days, and the release has 6"),
        ({"clients": 2}, "axes.clients: 2 clients, and a repository has one"),
        ({"batch": 1001, "pattern": "tuned"}, "axes.batch: 1001 objects are more than one request may delete"),
        ({"batch": 2}, "axes.batch: 2 objects in a request, and pattern cvmfs deletes one in each"),
        ({"engine": "obstore"}, "axes.engine: obstore sends no x-amz-acl"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(more, told):
    WORKLOADS["collect_garbage"].possible(point())
    WORKLOADS["collect_garbage"].possible(point(workers=1000, batch=1000, pattern="tuned", engine="obstore"))
    with pytest.raises(UserError) as caught:
        WORKLOADS["collect_garbage"].possible(point(**more))
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "deletes",
    [False, MeasurementFailed("1 objects were not deleted, the first with MethodNotAllowed"), UserError("s", "405")],
)
def test_a_store_that_deletes_nothing_is_refused(deletes):
    store = SimpleNamespace(name="archive", access=lambda account: Access({}, deletes))
    with pytest.raises(
        UserError, match=r"stores.archive: deletes nothing, and garbage is to be collected there"
    ) as caught:
        garbage._must_delete(store, Bucket("b"), "put/att/", REPOSITORY)
    assert "\n" not in str(caught.value)
    there = {}
    garbage._must_delete(SimpleNamespace(name="s", access=lambda a: Access(there)), Bucket("b"), "put/att/", REPOSITORY)
    assert not there


def test_hooks_prove_what_the_client_left(published, was, after, monkeypatch):
    """`after` looks at the attempt's own objects; `observe` tells what it saw."""
    monkeypatch.setattr(collected, "LATER_S", 0.0)
    workload, job = WORKLOADS["collect_garbage"], {"attempt": "att", "buckets": [{"name": "b", "prefix": "mine/"}]}
    for objects, good in ((after, True), (published[0], False)):
        garbage._staged["att"] = was
        there = below(objects, "mine/put/att/") | {"mine/put/other/k": b"x", "mine/.storelab": b"{}"}
        store = SimpleNamespace(name="s", access=lambda account, there=there: Access(there))
        checks = workload.after(store, point(), job, Path())
        assert all(c["ok"] for c in checks) is good and len(checks) == 2
        counts = workload.observe(store, point(), job, Path())["collection"]
        assert counts["left"] == (0 if good else len(dead(published))) and counts["others"] == 0
    assert not garbage._staged and not garbage._counts
    json.dumps(counts)


def test_files_of_a_role_are_all_that_its_clients_leave(tmp_path):
    """The proofs of `publish` and `collect_garbage` read tables of their own."""
    for name in ("ops.0", "ops.1", "days.1", "collections.1", "monitor.1", "days.0"):
        (tmp_path / f"{name}.parquet").touch()
    own = files_of(Part("deletions", 1, point(), 0, 0, range(1, 2)), tmp_path)
    assert {p.name for p in own.iterdir()} == {"ops.0.parquet", "days.0.parquet", "collections.0.parquet"}
    assert (own / "days.0.parquet").resolve() == (tmp_path / "days.1.parquet").resolve()


def test_what_is_staged_counts_against_the_limits():
    size = 7_450_000_000 * 0.0001
    total = needs.summarise([point()], "s")
    assert total.staged_bytes == pytest.approx(DAYS * size) and total.staged_objects == DAYS * 16
    assert total.scratch_bytes == pytest.approx(3 * size + needs.DAYS_BYTES)
