"""Starts of an application: the walk in a known tree, the client, Squid's counters, and public buckets."""

import dataclasses
import hashlib
import itertools
import json
import os
import random
import re
import struct
import subprocess
import time
import zlib
from collections import Counter
from functools import partial
from types import SimpleNamespace

import bucket_server
import pytest
import small_plan
import trustme
from answer_server import answering
from made_jobs import POINT, gang_job
from refusals import check_refused
from repositories import KEYS, MANIFEST, REPOSITORY, all_refused_at_axes, changed, damaged, root_of
from repositories import point as point_of
from small_plan import configured

from storelab.core import records
from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import MeasurementFailed, UserError
from storelab.datasets.release import names
from storelab.datasets.release.build import Release
from storelab.engines.contract import Job
from storelab.host import scratch
from storelab.measure import deployment
from storelab.measure import point as measuring
from storelab.stores import all_stores
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.distribution import launch, served, squid
from storelab.workloads.distribution import workload as launching

S = 10**9
LAUNCH = WORKLOADS["launch"]
# Two levels of catalogs; names of odd bytes, two files of one content, one file in chunks.
TREE = {
    "lib/core/a.so": b"a" * 400,
    "lib/core/b.so": b"b" * 300,
    "lib/core/c.so": b"a" * 400,
    "lib/extra/d.so": b"d" * 200,
    "lib/e.so": b"e" * 100,
    "share/long.dat": random.Random(1).randbytes(40_000),
    "share/f.txt": b"f" * 50,
    "share/g\udcff.txt": b"g" * 60,
}
ENOUGH = 1000


def published(folder):
    """Return (settings, objects by key) of the tree in `folder`/tree."""
    tree = {"path": str(folder / "tree"), "versions": ["v1"]}
    chunks = {"minimum": "4 kB", "average": "8 kB", "maximum": "16 kB"}
    settings = Settings(repository=REPOSITORY, tree=tree, chunks=chunks)
    (folder / "days").mkdir()
    day = Release(settings, processes=1).day(1, folder / "days")
    return settings, {item.key: day.path(item).read_bytes() for item in day.objects()}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Return (settings, objects by key) of the tree, with a folder without files, and one with only a link."""
    folder = tmp_path_factory.mktemp("release")
    top = folder / "tree" / "v1"
    for name, body in TREE.items():
        (path := top / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    (top / "empty").mkdir()
    (top / "links").mkdir()
    (top / "links" / "l").symlink_to("../lib/e.so")
    return published(folder)


@pytest.fixture
def server(release):
    with bucket_server.bucket() as own:
        own.objects = {f"launch/x/{key}": body for key, body in release[1].items()}
        yield own


def place(path: str) -> tuple[int, int]:
    """Return the hash of a path, as CernVM-FS computes it."""
    return struct.unpack("<qq", hashlib.md5(os.fsencode(path)).digest())


PATHS = {place(f"/v1/{name}"): name for name in TREE}


def chosen(release, number, start_files=ENOUGH):
    _, objects = release
    return launch.choose(root_of(objects), objects.__getitem__, REPOSITORY, 7, number, start_files)


def test_application_has_each_file_of_a_subtree_once(release):
    """They are the files below its catalog, without links, folders, and files of other catalogs."""
    seen = Counter()
    for number in range(60):
        own = chosen(release, number)
        assert own == chosen(release, number)
        top = own.catalogs[-1].removeprefix("/v1/")
        assert own.catalogs == ["/v1", f"/v1/{top}"]
        assert sorted(PATHS[file] for file in own.files) == sorted(n for n in TREE if n.split("/")[0] == top)
        seen[top] += 1
    assert set(seen) == {"lib", "share"}, "the others have no file, and are drawn again"
    assert len({tuple(chosen(release, n).files) for n in range(20)}) > 5
    assert len(chosen(release, 3, start_files=1).files) <= 3


def test_repository_without_files_is_an_error(tmp_path):
    (tmp_path / "tree" / "v1").mkdir(parents=True)
    with pytest.raises(LookupError, match="no file"):
        chosen(published(tmp_path), 0)


def test_catalogs_are_drawn_by_their_size():
    weights = [10, 0, 30, 60]
    assert Counter(launch.drawn(weights, i / 1000) for i in range(1000)) == {0: 100, 2: 300, 3: 600}
    assert launch.drawn([5], 0.999999) == 0


def test_next_file_is_near_with_the_known_probability():
    """The rule gives the probability of each step: NEAR, and the folder's fraction when any file is drawn."""
    rng, files = random.Random(4), [((f, i), (f, 0)) for f in range(12) for i in range(8)]
    same = expected = variance = 0.0
    firsts = Counter()
    for _ in range(150):
        walk = launch.walked(files, rng, ENOUGH)
        assert sorted(walk) == sorted(file for file, _ in files)
        left = Counter(dict.fromkeys(range(12), 8))
        firsts[walk[0]] += 1
        left[walk[0][0]] -= 1
        for before, file in itertools.pairwise(walk):
            here, every = left[before[0]], sum(left.values())
            p = launch.NEAR + (1 - launch.NEAR) * here / every if here else 0.0
            same, expected, variance = same + (file[0] == before[0]), expected + p, variance + p * (1 - p)
            left[file[0]] -= 1
    assert abs(same - expected) < 4.5 * variance**0.5
    assert len(firsts) > 60 and max(firsts.values()) < 12
    assert len(launch.walked(files, rng, 5)) == 5


def test_numbers_of_files_follow_their_distribution():
    found = [launch.start(3, c, n, 4, 100) for c in range(20) for n in range(100)]
    assert found[:10] == [launch.start(3, 0, n, 4, 100) for n in range(10)]
    files = sorted(n for _, n in found)
    assert abs(files[1000] - 100) < 3  # the median
    assert abs(files[round(0.8413 * 2000)] - 128.4) < 5  # e^0.25 above it
    assert files[0] >= 1 and files[-1] <= 300
    assert all(420 < n < 580 for n in Counter(which for which, _ in found).values())
    assert {launch.start(3, 0, n, 1, 1)[0] for n in range(50)} == {0}


def point(release, **axes):
    return point_of("launch", release.as_dict(), **axes)


@pytest.fixture
def client_of(server, release, tmp_path):
    """Return a function that returns a client of these applications, or of the number that it chooses."""

    def make(several=(), proxy=False, **axes):
        task = point(release[0], **{"start_files": ENOUGH} | axes)
        several = several or [chosen(release, n) for n in range(task.axes["applications"])]
        extra = {
            "url": "http://origin.example:1234/b/launch/x" if proxy else f"{server.url}/b/launch/x",
            "proxy": server.url if proxy else "",
            "repository": REPOSITORY,
            "applications": json.loads(json.dumps([{"catalogs": a.catalogs, "files": a.files} for a in several])),
        }
        job = Job(task, 0, Endpoint(server.url), [Bucket("b")], tmp_path, None, "a", extra=extra)
        return launch.LaunchClient(job)

    return make


@pytest.fixture
def after(client_of):
    """Return a function that returns a client after a number of starts, its result, and its rows."""

    def run(several=(), starts=2, **axes):
        one = client_of(several, **axes)
        one.prepare()
        one.deadline_ns = time.time_ns() + 600 * S
        try:
            for number in range(starts):
                one._launch(number)
            result = one.result()
        finally:
            one.close()
        assert records.LAUNCHES.keys() == result.tables["launches"].keys()
        return one, result, [dict(zip(one.rows, row, strict=True)) for row in zip(*one.rows.values(), strict=True)]

    return run


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_cold_start_reads_manifest_catalogs_and_files(server, release, after, workers, number):
    own, objects = chosen(release, number), release[1]
    _, result, rows = after([own], workers=workers)
    keys = [key.removeprefix("launch/x/") for _, key in server.requests()]
    assert {method for method, _ in server.requests()} == {"GET"} and len(keys) % 2 == 0
    assert all("Authorization" not in headers for _, _, headers in server.received)
    first, second = keys[: len(keys) // 2], keys[len(keys) // 2 :]
    assert sorted(first) == sorted(second), "nothing is kept"
    assert first[:2] == [MANIFEST, names.key(REPOSITORY, root_of(objects), names.CATALOG)]
    assert [names.parts(key)[1] for key in first[2:4]] == ["C", "C"]
    bodies = [TREE[PATHS[file]] for file in own.files]
    # Each content once; in their order, with one connection; together the bytes of all files.
    data, wanted = [zlib.decompress(objects[key]) for key in first[4:]], dict.fromkeys(bodies)
    assert sorted(len(d) for d in data if d in wanted) == sorted(len(w) for w in wanted if len(w) < 4000)
    assert sum(map(len, data)) == sum(map(len, wanted))
    if workers == 1:
        assert b"".join(data) == b"".join(wanted)
    for row in rows:
        assert (row["state"], row["reason"], row["files"]) == ("whole", None, len(own.files))
        assert row["raw_bytes"] == sum(map(len, bodies))
        assert row["gets"] == len(first) and row["bytes"] == sum(len(objects[key]) for key in first)
        assert row["objects"] == row["gets"] + row["kept"] and row["end_ns"] > row["begin_ns"]
        assert row["kept"] == len(own.files) - len(wanted), "two files of one content"
    assert all(c.ok for c in result.checks) and set(result.ops["error"]) == {None}
    assert len(result.ops["op"]) == len(keys) and result.connections["max"] <= workers + 1


def test_warm_client_reads_only_the_manifest_again(server, after):
    _, _, rows = after(starts=3, client_cache="kept")
    assert max(Counter(key for _, key in server.requests() if not key.endswith(names.MANIFEST)).values()) == 1
    assert [row["gets"] for row in rows[1:]] == [1, 1] and rows[0]["gets"] > 5
    assert [row["objects"] for row in rows] == [rows[0]["objects"]] * 3
    assert [row["kept"] for row in rows[1:]] == [rows[0]["objects"] - 1] * 2
    assert [row["files"] for row in rows] == [rows[0]["files"]] * 3 and rows[0]["files"] > 2


def test_proxy_gets_whole_urls(server, after):
    server.objects = {f"http://origin.example:1234/b/{key}": body for key, body in server.objects.items()}
    _, _, rows = after(starts=1, proxy=True)
    assert rows[0]["state"] == "whole"
    assert {headers["Host"] for _, _, headers in server.received} == {"origin.example:1234"}


def test_start_with_a_bad_object_fails(server, release, after):
    lib = next(a for a in (chosen(release, n) for n in range(30)) if a.catalogs[-1] == "/v1/lib")
    whole = dict(server.objects)
    data = [k for k in whole if (names.parts(k.removeprefix("launch/x/")) or ("", "C"))[1] == ""]
    key = next(k for k in data if zlib.decompress(whole[k]) == TREE["lib/e.so"])
    for body, kind, reason, content in (
        (damaged(whole[key]), "ChecksumMismatch", "SHA-1", False),
        (None, "Http404", "404", True),
    ):
        server.objects = changed(whole, {key: body})
        one, result, rows = after([lib])
        assert [row["state"] for row in rows] == ["failed", "failed"] and rows[0]["files"] == 0
        assert reason in rows[0]["reason"] and result.ops["error"].count(kind) == 2 and kind in one.messages
        checks = {c.name: c for c in result.checks}
        assert not checks["starts"].ok and "2 failed" in checks["starts"].detail and checks["content"].ok is content


def test_start_that_the_deadline_cuts_does_not_count(server, client_of, monkeypatch):
    late = lambda: time.time_ns() + (10**15 if len(server.requests()) >= 3 else 0)  # noqa: E731
    monkeypatch.setattr(launch.clock, "now_ns", late)
    one = client_of()
    one.prepare()
    one.run(time.time_ns(), time.time_ns() + 600 * S)
    assert one.rows["state"] == ["cut"] and one.rows["files"] == [0]
    (starts, _) = one.result().checks
    assert not starts.ok and "`duration`" in starts.detail
    one.close()


def test_impossible_points_are_refused(release):
    refused = (
        ({"days": 2}, "days", "the 1 days of the release"),
        ({"applications": 300, "start_files": 300}, "", "20000"),
        ({"http_cache": "squid", "scheme": "https"}, "http_cache", "https"),
    )
    all_refused_at_axes((axis, text, point(release[0], **axes)) for axes, axis, text in refused)


def test_missing_squid_is_refused_before(release, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    LAUNCH.require(point(release[0]))
    squid = point(release[0], http_cache="squid")
    check_refused("sweeps.nightly.axes.http_cache: ", "storelab install squid", LAUNCH.require, squid)


def test_squid_serves_this_machine_and_keeps_nothing_on_disk():
    text = squid.configuration(26500, 18333).splitlines()
    assert text[0] == "http_port 127.0.0.1:26500"
    rules = [line.removeprefix("http_access ") for line in text if line.startswith("http_access")]
    assert rules == ["allow localhost manager", "allow localhost origin reading", "deny all"]
    assert not [line for line in text if line.startswith("cache_dir")]
    assert {"acl origin port 18333", "cache_mem 256 MB", "cache deny manager"} <= set(text)
    assert {"access_log none", "cache_store_log none", "pid_filename none"} <= set(text)
    # Without `override-lastmod` a date would come before them.
    assert r"refresh_pattern /\.cvmfs[a-z]+$ 1 0% 1 override-lastmod" in text
    assert "refresh_pattern . 4320 0% 4320 override-lastmod" in text


def page(requests, hits, kbytes_in):
    """Return a page of counters as Squid 5 writes it."""
    counters = {"client_http.requests": requests, "client_http.hits": hits, "client_http.errors": 1}
    counters |= {"client_http.kbytes_in": 9, "client_http.kbytes_out": 70, "client_http.hit_kbytes_out": 30}
    counters |= {"server.all.requests": requests - hits, "server.all.errors": 0, "server.all.kbytes_in": kbytes_in}
    counters |= {"server.http.requests": 5, "cpu_time": "0.053213"}
    text = "sample_time = 1428883200.5 (Mon, 13 Apr 2015 00:00:00 GMT)\n"
    return text + "".join(f"{name} = {value}\n" for name, value in counters.items())


def test_shared_files_of_other_processes_stay(tmp_path, monkeypatch):
    """Another container may use the same tmpfs, and the same port. Only files of killed processes are removed."""
    monkeypatch.setattr(squid, "SHARED", tmp_path)
    with subprocess.Popen(["true"]) as ended:
        pass
    here, namespace = squid.service(26500), squid.processes.pid_namespace()
    killed = here.replace(f"p{os.getpid():x}n", f"p{ended.pid:x}n")
    kept = [
        f"{here}-x.shm",
        f"{killed[: killed.index('n', 5)]}n{namespace + 1:x}-x.shm",
        "storelab26500-x.shm",
        "other.shm",
    ]
    for name in (*kept, f"{killed}-x.shm"):
        (tmp_path / name).touch()
    squid.remove_left()
    assert {p.name for p in tmp_path.iterdir()} == set(kept)
    assert re.fullmatch("[a-z0-9]{1,32}", squid.service(26599)), "what Squid accepts as a name"


def test_counters_of_squid_are_differences():
    first, last = squid.parsed(page(3, 0, 10)), squid.parsed(page(104, 60, 35))
    assert first["origin_bytes"] == 10 * 1024
    found = squid.between(first, last)
    assert (found["requests"], found["hits"], found["origin_bytes"]) == (100, 60, 25 * 1024), "without the first look"
    assert found["origin_requests"] == 41 and found["errors"] == 0
    with pytest.raises(ValueError, match=r"client_http\.requests"):
        squid.parsed("<html>denied</html>")


def test_urls_of_a_repository():
    for endpoint, bucket, url in (
        (Endpoint("http://h:1"), Bucket("b"), "http://h:1/b/launch/x"),
        (Endpoint("http://h:1", addressing="virtual"), Bucket("b", "p/c/"), "http://b.h:1/p/c/launch/x"),
        (Endpoint("http://h:1/dav/", protocol="http"), Bucket("b"), "http://h:1/dav/b/launch/x"),
    ):
        assert served.url_of(endpoint, bucket, "launch/x/") == url


class Closed:
    """A bucket that can be read without a signature only while a policy allows it. accepts: policies that it takes."""

    def __init__(self, server, accepts=lambda policy: True):
        self.server, self.accepts, self.policies, self.put = server, accepts, [], None
        server.answer = self

    def __call__(self, method, key):
        if "policy" in key:
            self.policies.append(method)
            self.put = method == "PUT" and self.accepts(len(self.policies))
            return (204 if method == "DELETE" else 200 if self.put else 400), {}
        return None if self.put else (403, {})


def opened(server, prefix="launch/x/", *, bucket=Bucket("b"), keys=KEYS, **more):  # noqa: B008  frozen
    store = SimpleNamespace(name="s", credentials=lambda _: keys)
    return served.Opened(store, Endpoint(server.url), bucket, prefix, MANIFEST, **more)


def test_bucket_is_opened_and_closed_again(server):
    closed = Closed(server)
    one = opened(server)
    assert closed.policies == ["PUT"] and one.url == f"{server.url}/b/launch/x"
    assert all("Authorization" in h for _, key, h in server.received if "policy" in key)
    assert all("Authorization" not in h for m, key, h in server.received if m == "GET")
    for _ in range(2):
        one.close()
        assert closed.policies == ["PUT", "DELETE"]
    first, second = json.loads(served.signing.policy("b", "launch/x/", "me"))["Statement"]
    assert first["Resource"] == ["arn:aws:s3:::b/launch/x/*"] and first["Action"] == ["s3:GetObject"]
    assert second["Principal"] == {"AWS": ["me"]} and len(json.loads(served.signing.policy("b", "x"))["Statement"]) == 1


def test_bucket_is_opened_by_one_role(server):
    """It has one policy."""
    closed = Closed(server)
    one = opened(server)
    server.answer = lambda method, key: (403, {}) if "policy" not in key else (200, {})
    with pytest.raises(UserError, match=r"another role has made its bucket public.*sweeps with it") as refused:
        opened(server, "put/y/", what="with it")
    assert refused.value.place == "stores.s" and closed.policies == ["PUT"]
    server.answer = closed
    one.close()
    opened(server).close()


def test_owner_is_named_only_where_the_store_takes_it(server):
    closed = Closed(server, accepts=lambda n: n == 2)
    opened(server).close()
    assert closed.policies == ["PUT", "PUT", "DELETE"]


def test_open_bucket_is_left_unchanged(server):
    opened(server).close()
    assert [method for method, _ in server.requests()] == ["GET"]


def test_repository_is_read_over_tls(tmp_path):
    """The authority of the endpoint is verified, as for every other request of storelab."""
    authority, other = trustme.CA(), trustme.CA()
    for name, one in (("right", authority), ("other", other)):
        one.cert_pem.write_to_path(str(tmp_path / name))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server"))
    with answering(lambda request: (200, {}, b""), tmp_path / "server") as port:
        url = f"https://127.0.0.1:{port}"
        endpoint = Endpoint(url, ca_file=str(tmp_path / "right"))
        assert served.denied_reason(f"{url}/b/x", endpoint) == ""
        assert served.denied_reason(f"{url}/b/x", dataclasses.replace(endpoint, verify=False, ca_file=None)) == ""
        assert "certificate" in served.denied_reason(
            f"{url}/b/x", dataclasses.replace(endpoint, ca_file=str(tmp_path / "other"))
        )


def test_store_that_needs_signatures_is_refused(server):
    Closed(server, accepts=lambda _: False)
    for bucket, keys, words in (
        (Bucket("b"), KEYS, "a policy of the bucket: 400"),
        (Bucket("b", "mine/"), KEYS, "storelab did not make the bucket"),
        (Bucket("b"), None, "403"),
    ):
        check_refused("stores.s: ", words, partial(opened, server, bucket=bucket, keys=keys))


def test_failed_attempt_is_ended(monkeypatch, tmp_path):
    ended, order = [], []

    def fails(*_):
        raise MeasurementFailed("the store is gone")

    job = gang_job(attempt="a")
    work = SimpleNamespace(cleanup=ended.append, direction="read")
    monkeypatch.setattr(measuring, "prepare", fails)
    monkeypatch.setattr(measuring.workloads, "workload_of", lambda point: work)
    monkeypatch.setattr(measuring.jobs, "job_of_point", lambda *_: job)
    monkeypatch.setattr(measuring.deployment, "bring_up", lambda *_: None)
    monkeypatch.setattr(measuring.deployment, "stage_data", lambda *_: ({}, None))
    config = configured(results=str(tmp_path))
    with pytest.raises(MeasurementFailed):
        measuring.measure(config, [], POINT, None, SimpleNamespace(stage=lambda *_: None), None, "")
    assert ended == [job]
    bucket = SimpleNamespace(close=lambda: order.append("closed"))
    launching._attempts["a"] = launching.Attempt(bucket, SimpleNamespace(stop=lambda: order.append("stopped")))
    for _ in range(2):
        LAUNCH.cleanup(job)
    assert order == ["stopped", "closed"] and not launching._attempts


def test_repository_is_named_by_its_content():
    found = Settings().as_dict()
    same, *others = (served.name_of(found, 1), served.name_of(found, 2), served.name_of(found | {"seed": 1}, 1))
    assert same == served.name_of(json.loads(json.dumps(found)), 1) and len({same, *others}) == 3


def test_repository_is_staged_once_and_noted(tmp_path, release):
    """Objects are noted before they are written, so that `storelab clean` finds all of them."""
    settings, objects = release
    for name in ("files", "scratch"):
        (tmp_path / name).mkdir()
    folders = {name: str(tmp_path / name) for name in ("results", "state", "scratch")}
    config = small_plan.configured(stores={"a": {"kind": "directory", "path": str(tmp_path / "files")}}, **folders)
    store = all_stores(config)["a"]
    found = served.ensure(config, store, settings.as_dict(), 1)
    assert found.prefix == f"launch/{served.name_of(settings.as_dict(), 1)}/" and found.repository == REPOSITORY
    there = {p for p in (tmp_path / "files").rglob("*") if p.is_file() and "launch" in p.parts}
    times = {path: path.stat().st_mtime_ns for path in there}
    assert len(there) == len(objects) + 1, "and the mark"
    assert served.ensure(config, store, settings.as_dict(), 1) == found
    assert not list(scratch.folder(config.scratch).glob("launch-*"))
    assert {path: path.stat().st_mtime_ns for path in there} == times
    deployment.clean(config, store)
    assert not [path for path in there if path.exists()]
