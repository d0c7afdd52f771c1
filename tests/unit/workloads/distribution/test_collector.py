"""Garbage collection in a bucket that fails on request: deleted objects, their order, the state after interruptions.

The expected result comes from a marking by brute force, and from a separate reader of releases.
"""

import json
import os
import re
import resource
import sqlite3
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import release_reader
from made_jobs import gang_job
from memory_access import MemoryAccess
from refusals import check_refused
from repositories import MANIFEST, REFLOG, REPOSITORY, all_refused_at_axes, changed, damaged, ran, stratum
from repositories import point as point_of

from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import MeasurementFailed, UserError
from storelab.datasets.release import catalogs, names
from storelab.datasets.release.build import Release
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.distribution import garbage, proof, workload
from storelab.workloads.distribution.garbage import Collector, IncompleteRoot
from storelab.workloads.distribution.publish import Other
from storelab.workloads.distribution.stratum import ONE, SEVERAL, Failed, ObstoreStratum, OutOfTime, Stratum, judged
from storelab.workloads.probe.plain_http import Reply
from storelab.workloads.staging import stage

DAYS, KEEP = 6, 2
CHUNKS = {"minimum": "20 kB", "average": "40 kB", "maximum": "80 kB"}  # so that files of a small release have some
SETTINGS = Settings(repository=REPOSITORY, factor=0.0001, days=DAYS, nights=2, chunks=CHUNKS)
GARBAGE = WORKLOADS["collect_garbage"]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Return (objects of a repository after all days, root of each day)."""
    folder, objects, roots = tmp_path_factory.mktemp("release"), {}, []
    release = Release(SETTINGS, processes=1)
    for n in range(1, DAYS + 1):
        day = release.day(n, folder)
        objects |= {item.key: day.path(item).read_bytes() for item in day.objects()}
        roots.append(day.facts["root_catalog"])
    return objects, roots


@pytest.fixture
def full(server, published):
    """Return a bucket that contains the repository."""
    server.objects = dict(published[0])
    return server


def needed(objects: dict[str, bytes], root: str) -> set[str]:
    """Return all keys that a root needs, by brute force."""
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


def collect(server, keep=KEEP, workers=4, batch=1, pattern="cvmfs"):
    return Collector(stratum(server, pattern), REPOSITORY, keep, workers, batch).run()


def is_whole(objects, published, keep=KEEP) -> None:
    """Check that exactly the live objects exist, unchanged, and that the reflog names exactly the kept roots."""
    before, roots = published
    live = {key: before[key] for key in alive(published, keep)}
    assert objects == live | {MANIFEST: before[MANIFEST], REFLOG: objects[REFLOG]}
    assert catalogs.reflog_roots(objects[REFLOG]) == roots[-keep:]


def test_release_tests_what_it_should(published):
    """There are chunks, data and catalogs of several levels among the dead and the alive, and shared ones.

    Another reader finds each kept day in the live objects as it was in all.
    """
    objects, roots = published
    for keys in (dead(published), alive(published)):
        assert {names.parts(key)[1] for key in keys} == {"", "P", "C"} and len(keys) > 30
    shared = needed(objects, roots[0]) & needed(objects, roots[1])
    assert shared and shared & dead(published) and needed(objects, roots[DAYS - KEEP - 1]) & alive(published)
    for keep in (1, KEEP, 3, 4):
        live = {key: objects[key] for key in alive(published, keep)}
        for root in roots[-keep:]:
            then, now = (
                release_reader.restore(root, lambda name, of=of: of[f"{REPOSITORY}/{name}"]) for of in (objects, live)
            )
            assert then == now and len(now) > 10


@pytest.mark.parametrize(
    ("kind", "pattern", "batch", "workers"),
    [
        (Stratum, "cvmfs", 1, 16),
        (Stratum, "tuned", 7, 3),
        (ObstoreStratum, "tuned", 1, 5),
        (ObstoreStratum, "tuned", 9, 2),
    ],
)
def test_dead_objects_go_and_live_ones_stay(full, published, kind, pattern, batch, workers):
    full.meet(2, "DELETE", "POST")
    own = stratum(full, pattern, kind)
    found = Collector(own, REPOSITORY, KEEP, workers, batch).run()
    is_whole(full.objects, published)
    wrong = dead(published)
    assert (found.dropped, found.kept) == (published[1][:-KEEP], published[1][-KEEP:])
    assert (found.dead, found.alive) == (len(wrong), alive(published))
    assert own.log.counts["deletes"] == len(wrong) and own.log.counts["failures"] == 0
    ops = own.log.ops()
    deletions = [i for i, op in enumerate(ops["op"]) if op in (ONE, SEVERAL)]
    assert sum(ops["count"][i] for i in deletions) == len(wrong) and {ops["bytes"][i] for i in deletions} == {0}
    singles, several = len(full.requests("DELETE")), len(full.requests("POST"))
    if batch == 1:
        assert (singles, several) == (len(wrong), 0), "each once"
        assert {key for _, key in full.requests("DELETE")} == wrong == {ops["object"][i] for i in deletions}
    else:
        more = 4  # the last of the data, and of each level of catalogs
        assert singles < several and len(wrong) // batch <= several <= len(wrong) // batch + more
    assert 1 < full.most <= workers + 1
    assert full.requests()[-1] == ("PUT", REFLOG) and [k for _, k in full.requests("PUT")] == [REFLOG]
    if (kind, pattern) == (Stratum, "cvmfs"):
        assert {headers["x-amz-acl"] for _, _, headers in full.received} == {"public-read"}
    assert Collector(own, REPOSITORY, KEEP, workers, batch).run().dropped == [], "nothing is left to do"
    assert len(full.requests("DELETE", "POST")) == singles + several


def test_catalog_goes_after_all_that_it_names(full, published):
    """A collection after an interruption therefore finds the remaining objects by the catalogs."""
    full.pause_s, seen = 0.001, []
    wrong = dead(published)

    def watch(method, key):
        if method == "DELETE" and key.endswith("C"):
            named = set(catalogs.contents(key, published[0][key], REPOSITORY)) & wrong
            seen.append(named & full.objects.keys())
        if method == "PUT":
            assert not wrong & full.objects.keys()

    full.answer = watch
    collect(full, workers=16)
    assert len(seen) == sum(key.endswith("C") for key in wrong) > 5 and not any(seen)


@pytest.mark.parametrize(("share", "batch"), [(0, 1), (0.4, 1), (0.8, 10), (0.95, 1), (0.99, 10), (1, 1)])
def test_interrupted_collection_continues(full, published, share, batch):
    """The store fails after a fraction of the deletions (1: at the reflog); another process collects again."""
    objects, roots = published
    wrong, taken = dead(published), []
    pattern = "cvmfs" if batch == 1 else "tuned"

    def die_later(method, key):
        if method == "DELETE":
            taken.append(key)
            return (403, {}) if len(taken) > share * len(wrong) else None
        return (403, {}) if method == "PUT" and share == 1 else None

    full.answer = die_later
    with pytest.raises(Failed):
        collect(full, workers=5, batch=batch, pattern=pattern)
    gone = objects.keys() - full.objects.keys()
    assert gone <= wrong and len(gone) <= share * len(wrong)
    assert full.objects[MANIFEST] == objects[MANIFEST] and full.objects[REFLOG] == objects[REFLOG]
    for root in roots[-KEEP:]:
        assert needed(full.objects, root) <= full.objects.keys()
    full.answer = lambda method, key: None
    collect(full, workers=5, batch=batch, pattern=pattern)
    is_whole(full.objects, published)


def test_newest_days_are_kept(full, published):
    for keep in (4, 3, 1):  # one after the other
        assert len(collect(full, keep).kept) == keep
        is_whole(full.objects, published, keep)
    full.received.clear()
    for keep in (1, 2, DAYS + 5):
        assert collect(full, keep).dropped == []
    assert {method for method, _ in full.requests()} == {"GET"}


def test_root_newer_than_the_manifest_stays(full, published):
    """A publication was interrupted after writing its reflog: the next one finishes it."""
    objects, roots = published
    full.objects[MANIFEST] = names.manifest_text(names.manifest_fields(objects[MANIFEST]) | {"C": roots[-2]})
    assert collect(full, 1).kept == roots[-2:]
    kept = needed(objects, roots[-1]) | needed(objects, roots[-2])
    assert kept <= full.objects.keys() and not (needed(objects, roots[0]) - kept) & full.objects.keys()


def test_nothing_is_deleted_from_a_damaged_repository(server, published):
    objects, roots = published
    fields, kept = names.manifest_fields(objects[MANIFEST]), names.key(REPOSITORY, roots[-2], "C")
    for change, error, words in (
        ({MANIFEST: names.manifest_text(fields | {"N": "other.example.org"})}, Other, "'other.example.org'"),
        ({MANIFEST: None}, IncompleteRoot, "manifest or reflog"),
        ({MANIFEST: objects[MANIFEST][:-5]}, IncompleteRoot, "the manifest is damaged"),
        ({REFLOG: None}, IncompleteRoot, "manifest or reflog"),
        ({REFLOG: b"no database"}, IncompleteRoot, "the reflog is damaged"),
        ({REFLOG: catalogs.reflog(REPOSITORY, [(roots[0], 1)])}, IncompleteRoot, "the reflog does not name the root"),
        ({kept: None}, IncompleteRoot, "is incomplete"),
        ({kept: zlib.compress(b"no catalog")}, IncompleteRoot, "is incomplete"),
    ):
        before = changed(objects, change)
        server.objects = dict(before)
        with pytest.raises(error, match=re.escape(words)):
            collect(server)
        assert server.objects == before and {method for method, _ in server.requests()} == {"GET"}, words


def test_damaged_dead_catalog_is_an_error(full, published):
    full.objects[names.key(REPOSITORY, published[1][0], "C")] = zlib.compress(b"no catalog")
    with pytest.raises(IncompleteRoot):
        collect(full)
    assert alive(published) <= full.objects.keys()


def test_nothing_is_deleted_after_the_deadline(full):
    own = stratum(full)

    def late(method, key):
        if method == "DELETE":
            own.deadline_ns = 1

    full.answer = late
    with pytest.raises(OutOfTime):
        Collector(own, REPOSITORY, KEEP, 3).run()
    assert len(full.requests("DELETE")) <= 3


def test_answer_to_several_deletions_names_failures(server):
    """The body of a status 200 names failed keys. Some may be tried again; a missing key counts as deleted."""
    keys = [f"k{i} & <{i}>" for i in range(4)]
    for codes, good, tries in (
        (["NoSuchKey"], True, 1),
        (["AccessDenied"], False, 1),
        (["SlowDown"], True, 2),
        (["SlowDown", "AccessDenied"], False, 1),
    ):
        left, own = list(codes), stratum(server, "tuned")
        escaped = [key.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for key in keys]
        server.objects = dict.fromkeys(escaped, b"")
        server.received.clear()
        server.answer = lambda method, key, left=left: (
            (409, {"code": left.pop(0)}) if method == "DELETE" and left else None
        )
        if good:
            own.delete(keys)
        else:
            with pytest.raises(Failed, match=SEVERAL):
                own.delete(keys)
        assert (own.log.counts["deletes"], own.log.counts["failures"]) == ((4, 0) if good else (0, 1)), codes
        posts = [headers for method, _, headers in server.received if method == "POST"]
        assert len(posts) == tries and all(headers["Content-MD5"] for headers in posts), codes
        assert bool(server.objects) is (not good or "NoSuchKey" in codes), codes


def test_answer_is_judged_by_its_body():
    for codes, status, found in (
        ((), 200, 200),
        (("NoSuchKey",), 200, 200),
        ((), 500, 500),
        (("InternalError", "SlowDown"), 200, 503),
        (("SlowDown", "AccessDenied"), 200, 403),
    ):
        text = "".join(f"<Error><Key>k</Key><Code>{code}</Code><Message>m</Message></Error>" for code in codes)
        reply = Reply(status, {}, f"<DeleteResult>{text}</DeleteResult>".encode(), 11)
        assert judged(reply).status == found, codes


def test_connections_beyond_those_of_select(server):
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


def point(**axes):
    return point_of("collect_garbage", SETTINGS.as_dict(), **{"workers": 4, "days": DAYS, "keep": KEEP} | axes)


def run(server, tmp_path, seconds=60.0, kind=garbage.CollectClient, **axes):
    """Run a client, whose objects are below the attempt's prefix; return its result and the rows of its tries."""
    job = Job(point(**axes), 0, Endpoint(server.url), [Bucket("b")], tmp_path / "scratch", None, attempt="att")
    return ran(kind(job), seconds)


def below(objects, prefix="put/att/"):
    return {prefix + key: body for key, body in objects.items()}


def above(objects):
    return {key.removeprefix("put/att/"): body for key, body in objects.items()}


@pytest.mark.parametrize("axes", [{}, {"engine": "obstore", "pattern": "tuned", "batch": 50}])
def test_client_collects_once(server, published, tmp_path, axes):
    server.objects = below(published[0]) | {"put/other/k": b"of another role"}
    kind = garbage.ObstoreCollectClient if axes else garbage.CollectClient
    result, (row,) = run(server, tmp_path, kind=kind, **axes)
    assert server.objects.pop("put/other/k") == b"of another role"
    is_whole(above(server.objects), published)
    wrong = len(dead(published))
    assert row["state"] == "collected" and row["reason"] is None and row["begin_ns"] < row["marked_ns"] < row["end_ns"]
    assert (row["kept"], row["dropped"], row["alive"], row["dead"]) == (KEEP, DAYS - KEEP, len(alive(published)), wrong)
    assert row["deletes"] == wrong and row["requests"] == len(server.received) and row["failures"] == 0
    (check,) = result.checks
    assert check.ok and check.detail == f"1 tries, {wrong} deletions"
    assert result.engine["name"] == axes.get("engine", "wire")
    assert result.engine["settings"]["batch"] == axes.get("batch", 1)


def test_failed_collection_is_run_again(server, published, tmp_path):
    server.objects, failed = below(published[0]), []

    def once(method, key):
        if method == "DELETE" and len(failed) < 2 and len(server.requests("DELETE")) > 30 * (1 + len(failed)):
            failed.append(key)
            return 403, {}

    server.answer = once
    result, rows = run(server, tmp_path)
    assert [(r["number"], r["state"]) for r in rows] == [(1, "failed"), (2, "failed"), (3, "collected")]
    assert all("403" in r["reason"] for r in rows[:2]) and rows[0]["failures"] == 1
    assert result.checks[0].ok and Counter(result.ops["error"])[None] == len(server.received) - 2
    is_whole(above(server.objects), published)


def test_client_without_enough_time_fails(server, published, tmp_path):
    server.objects, server.pause_s = below(published[0]), 0.05
    result, rows = run(server, tmp_path, 0.3)
    assert rows[-1]["state"] == "cut" and not result.checks[0].ok and "`duration`" in result.checks[0].detail
    server.answer, server.pause_s = lambda method, key: (403, {}) if method == "DELETE" else None, 0.0
    result, rows = run(server, tmp_path, 0.3)
    assert not result.checks[0].ok


def test_client_leaves_other_repositories_unchanged(server, published, tmp_path):
    fields = names.manifest_fields(published[0][MANIFEST]) | {"N": "other.example.org"}
    server.objects = below(published[0] | {MANIFEST: names.manifest_text(fields)})
    with pytest.raises(MeasurementFailed, match="has the repository 'other"):
        run(server, tmp_path)
    assert not server.requests("DELETE", "POST", "PUT")


# Staging, and the proof


@pytest.fixture
def was(published) -> proof.Staged:
    objects, roots = published
    sizes = {key: len(body) for key, body in objects.items() if names.parts(key)}
    return proof.Staged(sizes, roots, frozenset(alive(published)))


class Access(MemoryAccess):
    """A bucket in a mapping: written objects are there; deleted ones are gone, or stay on request."""

    def __init__(self, objects, deletes=True):
        super().__init__({"b": objects})
        self.deletes = deletes

    def delete(self, bucket, keys):
        if isinstance(self.deletes, Exception):
            raise self.deletes
        super().delete(bucket, keys if self.deletes else ())


def test_days_are_staged_whole(published, was, monkeypatch):
    there, noted = {}, []

    def put(store, name, items):
        assert len(items) == 2 or len(items) <= sum(n for _, n in noted), "noted before it is written"
        there.update({bucket.prefix + key: path.read_bytes() for bucket, key, path in items})

    monkeypatch.setattr(garbage.upload, "put_items", put)
    monkeypatch.setattr(garbage, "MAX_OBJECTS", 40)
    store = SimpleNamespace(name="s", access=lambda account: Access(there))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        given = (store, Bucket("b", "mine/"), "put/att/", SETTINGS, DAYS, KEEP, Path(scratch))
        found = garbage.stage_days(*given, lambda *n: noted.append(n))
        assert not list(Path(scratch).iterdir())
    assert there == below(published[0], "mine/put/att/") and found == was
    assert len(noted) > 1 and tuple(map(sum, zip(*noted, strict=True))) == (sum(was.objects.values()), len(was.objects))


def look(objects, was, later=None, unlisted=()):
    """Return the counts, the passed checks, and their details.

    later: objects at the second look; unlisted: keys that answer and are not listed.
    """
    looks, now = iter([objects, objects if later is None else later]), {}

    def listed():
        now.clear()
        now.update(next(looks))
        return [key for key in now if key not in unlisted]

    counts, checks = proof.look(was, KEEP, REPOSITORY, now.__getitem__, listed, later_s=0)
    return counts, {c["name"]: c["ok"] for c in checks}, {c["name"]: c["detail"] for c in checks}


GOOD = {"all alive": True, "dead gone": True}


@pytest.fixture
def after(published):
    objects, roots = published
    log = catalogs.reflog_without(objects[REFLOG], set(roots[:-KEEP]))
    return {key: objects[key] for key in alive(published)} | {MANIFEST: objects[MANIFEST], REFLOG: log}


def test_proof_of_a_good_collection_counts_all(after, was, published):
    counts, good, details = look(after, was)
    wrong = dead(published)
    counted = {"alive": len(alive(published)), "dead": len(wrong), "read": len(after), "asked": len(wrong)}
    counted["dead_bytes"] = sum(len(published[0][key]) for key in wrong)
    assert good == GOOD and counts == counted | dict.fromkeys(("lost", "lingering", "left", "others"), 0)
    assert details["all alive"] == f"{len(after)} objects read again, 0 problems"


def test_lost_and_damaged_live_objects_are_found(after, was, published):
    for suffix in ("", "P", "C"):
        key = sorted(key for key in alive(published) if names.parts(key)[1] == suffix)[3]
        for harm in ({key: None}, {key: damaged(after[key])}):
            counts, good, details = look(changed(after, harm), was)
            assert good == GOOD | {"all alive": False} and counts["lost"] == 1 and key in details["all alive"], suffix


def test_remaining_dead_objects_are_found(after, was, published):
    for suffix in ("", "P", "C"):
        key = sorted(key for key in dead(published) if names.parts(key)[1] == suffix)[0]
        more = after | {key: published[0][key]}
        for first, later, unlisted, found in (
            (more, more, (), (1, 1)),
            (after, more, (), (0, 1)),  # it comes back
            (more, after, (), (1, 0)),  # it goes late: that is counted, and not a failure
            (more, more, (key,), (1, 1)),  # it answers, and is not listed
        ):
            counts, good, details = look(first, was, later, unlisted)
            assert (counts["lingering"], counts["left"]) == found, (suffix, found)
            assert good == GOOD | {"dead gone": not found[1]} and (not found[1] or key in details["dead gone"])


def test_foreign_objects_are_found(after, was):
    counts, good, _ = look(after | {names.key(REPOSITORY, "0" * 40): b"x"}, was)
    assert good == GOOD | {"dead gone": False} and counts["others"] == 1


def test_wrong_manifest_or_reflog_is_found(after, was, published):
    objects, roots = published
    fields = names.manifest_fields(objects[MANIFEST])
    other = names.manifest_text(fields | {"C": roots[0]})
    for harm in ({REFLOG: objects[REFLOG]}, {MANIFEST: other}, {MANIFEST: None}, {REFLOG: None}):
        _, good, _ = look(changed(after, harm), was)
        assert good == GOOD | {"all alive": False}, harm.keys()


def test_second_check_comes_later(after, was, monkeypatch):
    slept = []
    monkeypatch.setattr(proof, "time", SimpleNamespace(monotonic=lambda: 100.0, sleep=slept.append))
    for later_s in (0.3, None):
        proof.look(was, KEEP, REPOSITORY, after.__getitem__, lambda: list(after), later_s)
    assert slept == pytest.approx([0.3, proof.LATER_S]) and proof.LATER_S >= 5


def test_many_dead_objects_are_sampled_and_listed(after, was, published, monkeypatch):
    monkeypatch.setattr(proof, "MAX_REQUESTED", 10)
    counts, good, _ = look(after, was)
    assert 5 <= counts["asked"] <= 10 and good == GOOD
    every = sorted(dead(published))
    for key in (every[1], every[-1]):
        counts, good, _ = look(after | {key: b"x"}, was)
        assert not good["dead gone"] and counts["left"] == 1


# The workload


def test_impossible_points_are_refused():
    GARBAGE.validate(point())
    GARBAGE.validate(point(workers=1000, batch=1000, pattern="tuned", engine="obstore"))
    refused = (
        ({"keep": DAYS}, "keep", f"{DAYS} of {DAYS} days"),
        ({"keep": 9}, "keep", f"9 of {DAYS} days"),
        ({"days": 7}, "days", "the 6 days of the release"),
        ({"clients": 2}, "clients", "2 clients"),
        ({"batch": 1001, "pattern": "tuned"}, "batch", "1001 objects"),
        ({"batch": 2}, "batch", "pattern cvmfs"),
        ({"engine": "obstore"}, "engine", "x-amz-acl"),
    )
    all_refused_at_axes((f"{axis}: ", text, point(**axes)) for axes, axis, text in refused)


def test_store_that_deletes_nothing_is_refused():
    for deletes in (False, MeasurementFailed("1 objects were not deleted"), UserError("s", "405")):
        store = SimpleNamespace(name="archive", access=lambda account, deletes=deletes: Access({}, deletes))
        check_refused("stores.archive: ", "", workload._must_delete, store, Bucket("b"), "put/att/", REPOSITORY)
    there = {}
    store = SimpleNamespace(name="s", access=lambda account: Access(there))
    workload._must_delete(store, Bucket("b"), "put/att/", REPOSITORY)
    assert not there


def test_hooks_prove_what_the_client_left(published, was, after, monkeypatch):
    """`after` checks the attempt's own objects; `observe` returns the counts."""
    monkeypatch.setattr(proof, "LATER_S", 0.0)
    job = gang_job(attempt="att", buckets=[Bucket("b", "mine/")])
    for objects, good in ((after, True), (published[0], False)):
        workload._attempts["att"] = workload.Attempt(staged=was)
        there = below(objects, "mine/put/att/") | {"mine/put/other/k": b"x", "mine/.storelab": b"{}"}
        store = SimpleNamespace(name="s", access=lambda account, there=there: Access(there))
        checks = GARBAGE.after(store, point(), job, Path())
        assert all(c["ok"] for c in checks) is good and len(checks) == 2
        counts = json.loads(json.dumps(GARBAGE.observe(store, point(), job, Path())["collection"]))
        assert counts["left"] == (0 if good else len(dead(published))) and counts["others"] == 0
        GARBAGE.cleanup(job)
    assert not workload._attempts


def test_staged_days_count_against_the_limits():
    size = 7_450_000_000 * 0.0001
    total = stage.summarise([point()], "s")
    assert total.staged_bytes == pytest.approx(DAYS * size) and total.staged_objects == DAYS * 16
    assert total.scratch_bytes == pytest.approx(3 * size + stage.DAYS_BYTES)
