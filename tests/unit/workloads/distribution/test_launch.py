"""Starts of an application: the walk against a tree that was looked at by hand, the client against a bucket that counts, the cache's counters, the
table of made records."""

import hashlib
import itertools
import json
import os
import random
import struct
import time
import zlib
from collections import Counter
from types import SimpleNamespace

import bucket_server
import pandas as pd
import pytest
from launch_rows import S, make_table

from storelab.analysis.figures import catalogue, draw
from storelab.analysis.latex.distribution import launches as latex
from storelab.analysis.tables.distribution import launches
from storelab.core import records
from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.datasets.release import names
from storelab.datasets.release.build import Release
from storelab.engines.contract import Job
from storelab.measure import point as measuring
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.distribution.launch import applications, client, public, squid, staged
from storelab.workloads.distribution.launch import workload as launching

REPOSITORY = "sw.example.org"
# Two levels of catalogs; a folder without files, one with a link alone, a name of odd bytes, two files of one content, one file in chunks.
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


def released(folder):
    """(settings, objects by key) of that tree."""
    top = folder / "tree" / "v1"
    for name, body in TREE.items():
        (path := top / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    (top / "empty").mkdir()
    (top / "links").mkdir()
    (top / "links" / "l").symlink_to("../lib/e.so")
    settings = Settings(
        repository=REPOSITORY,
        tree={"path": str(folder / "tree"), "versions": ["v1"]},
        chunks={"minimum": "4 kB", "average": "8 kB", "maximum": "16 kB"},
    )
    (folder / "days").mkdir()
    day = Release(settings, processes=1).day(1, folder / "days")
    return settings, {item.key: day.path(item).read_bytes() for item in day.objects()}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return released(tmp_path_factory.mktemp("release"))


@pytest.fixture
def server(release):
    with bucket_server.bucket() as own:
        own.objects = {f"launch/x/{key}": body for key, body in release[1].items()}
        yield own


def place(path: str) -> tuple[int, int]:
    """As CernVM-FS hashes a path."""
    return struct.unpack("<qq", hashlib.md5(os.fsencode(path)).digest())


PATHS = {place(f"/v1/{name}"): name for name in TREE}


def root_of(objects) -> str:
    return names.manifest_fields(objects[f"{REPOSITORY}/{names.MANIFEST}"])["C"]


def chosen(release, number, start_files=ENOUGH, seed=7):
    _, objects = release
    return applications.choose(root_of(objects), objects.__getitem__, REPOSITORY, seed, number, start_files)


# --- which files a start reads


@pytest.fixture
def table(tmp_path):
    return make_table(tmp_path)


def test_an_application_has_the_files_of_one_subtree_each_once(release):
    """By the folders on disk: what lies below its catalog, without links, folders, and what other catalogs hold."""
    seen = Counter()
    for number in range(60):
        own = chosen(release, number)
        assert own == chosen(release, number)
        top = own.catalogs[-1].removeprefix("/v1/")
        assert own.catalogs == ["/v1", f"/v1/{top}"]
        assert sorted(PATHS[file] for file in own.files) == sorted(n for n in TREE if n.split("/")[0] == top)
        seen[top] += 1
    assert set(seen) == {"lib", "share"}  # the others have no file, and are drawn anew
    assert len({tuple(chosen(release, n).files) for n in range(20)}) > 5
    assert len(chosen(release, 3, start_files=1).files) <= 3


def test_a_repository_without_files_is_told(tmp_path):
    (tmp_path / "tree" / "v1").mkdir(parents=True)
    settings = Settings(repository=REPOSITORY, tree={"path": str(tmp_path / "tree"), "versions": ["v1"]})
    (tmp_path / "days").mkdir()
    day = Release(settings, processes=1).day(1, tmp_path / "days")
    objects = {item.key: day.path(item).read_bytes() for item in day.objects()}
    with pytest.raises(LookupError, match="no file"):
        chosen((settings, objects), 0)


def test_catalogs_are_drawn_in_proportion_to_their_size():
    weights = [10, 0, 30, 60]
    drawn = Counter(applications.drawn(weights, i / 1000) for i in range(1000))
    assert drawn == {0: 100, 2: 300, 3: 600}
    assert applications.drawn([5], 0.999999) == 0


def test_the_next_file_is_one_of_the_folder_as_often_as_is_said():
    """Expected by the rule itself, step by step: NEAR, and the share of the folder among all where any file is drawn."""
    rng, files = random.Random(4), [((f, i), (f, 0)) for f in range(12) for i in range(8)]
    same = expected = variance = 0.0
    firsts = Counter()
    for _ in range(150):
        walk = applications.walked(files, rng, ENOUGH)
        assert sorted(walk) == sorted(file for file, _ in files)
        left = Counter(dict.fromkeys(range(12), 8))
        firsts[walk[0]] += 1
        left[walk[0][0]] -= 1
        for before, file in itertools.pairwise(walk):
            here, every = left[before[0]], sum(left.values())
            p = applications.NEAR + (1 - applications.NEAR) * here / every if here else 0.0
            same, expected, variance = same + (file[0] == before[0]), expected + p, variance + p * (1 - p)
            left[file[0]] -= 1
    assert abs(same - expected) < 4.5 * variance**0.5
    assert len(firsts) > 60 and max(firsts.values()) < 12
    assert len(applications.walked(files, rng, 5)) == 5


def test_starts_have_as_many_files_as_is_said():
    found = [applications.start(3, c, n, 4, 100) for c in range(20) for n in range(100)]
    assert found[:10] == [applications.start(3, 0, n, 4, 100) for n in range(10)]
    files = sorted(n for _, n in found)
    assert abs(files[1000] - 100) < 3  # the median
    assert abs(files[round(0.8413 * 2000)] - 128.4) < 5  # e^0.25 above it
    assert files[0] >= 1 and files[-1] <= 300
    assert all(420 < n < 580 for n in Counter(which for which, _ in found).values())
    assert {applications.start(3, 0, n, 1, 1)[0] for n in range(50)} == {0}


# --- the client


def client_of(server, release, tmp_path, several=(), proxy=False, **axes):
    own = {a.name: a.default for a in WORKLOADS["launch"].axes} | {"start_files": ENOUGH} | axes
    task = Point("s", "launch", own, 1, "k", "starts", 5, 1, {"release": release[0].told()})
    several = several or [chosen(release, n) for n in range(own["applications"])]
    extra = {
        "url": "http://origin.example:1234/b/launch/x" if proxy else f"{server.url}/b/launch/x",
        "proxy": server.url if proxy else "",
        "repository": REPOSITORY,
        "applications": json.loads(json.dumps([{"catalogs": a.catalogs, "files": a.files} for a in several])),
    }
    return client.LaunchClient(Job(task, 0, Endpoint(server.url), [Bucket("b")], tmp_path, None, "a", extra=extra))


def after(server, release, tmp_path, several=(), starts=2, **axes):
    """The client after so many starts, its result, its rows."""
    one = client_of(server, release, tmp_path, several, **axes)
    one.prepare()
    one.deadline_ns = time.time_ns() + 60 * S
    try:
        for number in range(starts):
            one._launch(number)
        result = one.result()
    finally:
        one.close()
    rows = [dict(zip(result.tables["launches"], r, strict=True)) for r in zip(*one.rows.values(), strict=True)]
    assert records.LAUNCHES.keys() == result.tables["launches"].keys()
    return one, result, rows


def bodies(own):
    """What the application has to read, by the tree itself: content of each file of the walk, in its order."""
    return [TREE[PATHS[file]] for file in own.files]


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("seed_of", [0, 1, 2, 3])
def test_a_cold_start_reads_manifest_catalogs_and_the_walk(server, release, tmp_path, workers, seed_of):
    own = chosen(release, seed_of)
    _, result, rows = after(server, release, tmp_path, [own], workers=workers)
    keys = [key.removeprefix("launch/x/") for _, key in server.requests()]
    assert {method for method, _ in server.requests()} == {"GET"} and len(keys) % 2 == 0
    assert all("Authorization" not in headers for _, _, headers in server.asked)
    first, second = keys[: len(keys) // 2], keys[len(keys) // 2 :]
    assert sorted(first) == sorted(second)  # nothing is kept
    assert first[0] == f"{REPOSITORY}/{names.MANIFEST}" and first[1] == names.key(
        REPOSITORY, root_of(release[1]), names.CATALOG
    )
    assert [names.parts(key)[1] for key in first[2:4]] == ["C", "C"]
    # In their order, with one connection: each content once, and together the bytes of all files.
    data = [zlib.decompress(release[1][key]) for key in first[4:]]
    wanted = dict.fromkeys(bodies(own))
    assert sorted(len(d) for d in data if d in wanted) == sorted(len(w) for w in wanted if len(w) < 4000)
    assert sum(map(len, data)) == sum(map(len, wanted))
    if workers == 1:
        assert b"".join(data) == b"".join(wanted)
    for row in rows:
        assert (row["state"], row["reason"], row["files"]) == ("whole", None, len(own.files))
        assert row["raw_bytes"] == sum(map(len, bodies(own)))
        assert row["gets"] == len(first) and row["bytes"] == sum(len(release[1][key]) for key in first)
        assert row["objects"] == row["gets"] + row["kept"] and row["end_ns"] > row["begin_ns"]
        assert row["kept"] == len(own.files) - len(wanted)  # two files of one content
    assert all(c.ok for c in result.checks) and set(result.ops["error"]) == {None}
    assert len(result.ops["op"]) == len(keys) and result.connections["max"] <= workers + 1


def test_a_warm_client_reads_the_manifest_and_nothing_twice(server, release, tmp_path):
    _, _, rows = after(server, release, tmp_path, starts=3, client_cache="kept")
    assert max(Counter(key for _, key in server.requests() if not key.endswith(names.MANIFEST)).values()) == 1
    assert [row["gets"] for row in rows[1:]] == [1, 1] and rows[0]["gets"] > 5
    assert [row["objects"] for row in rows] == [rows[0]["objects"]] * 3
    assert [row["kept"] for row in rows[1:]] == [rows[0]["objects"] - 1] * 2
    assert [row["files"] for row in rows] == [rows[0]["files"]] * 3 and rows[0]["files"] > 2


def test_through_a_proxy_the_whole_url_is_asked_for(server, release, tmp_path):
    server.objects = {f"http://origin.example:1234/b/{key}": body for key, body in server.objects.items()}
    _, _, rows = after(server, release, tmp_path, starts=1, proxy=True)
    assert rows[0]["state"] == "whole"
    assert {headers["Host"] for _, _, headers in server.asked} == {"origin.example:1234"}


@pytest.mark.parametrize(
    ("harm", "kind", "content"),
    [
        (lambda body: body[:-1] + bytes([body[-1] ^ 1]), "ChecksumMismatch", False),
        (lambda body: None, "Http404", True),
    ],
)
def test_a_start_that_misses_something_has_failed(server, release, tmp_path, harm, kind, content):
    lib = next(a for a in (chosen(release, n) for n in range(30)) if a.catalogs[-1] == "/v1/lib")
    data = {k: names.parts(k.removeprefix("launch/x/")) for k in server.objects}
    whole = [k for k, parts in data.items() if parts and parts[1] == ""]
    key = next(k for k in whole if zlib.decompress(server.objects[k]) == TREE["lib/e.so"])
    server.objects = {k: v for k, v in (server.objects | {key: harm(server.objects[key])}).items() if v is not None}
    one, result, rows = after(server, release, tmp_path, [lib])
    assert [row["state"] for row in rows] == ["failed", "failed"] and rows[0]["files"] == 0
    assert kind.removeprefix("Http") in rows[0]["reason"] or "SHA-1" in rows[0]["reason"]
    assert result.ops["error"].count(kind) == 2 and kind in one.messages
    told = {c.name: c for c in result.checks}
    assert not told["starts"].ok and "2 failed" in told["starts"].detail and told["content"].ok is content


def test_a_start_that_the_deadline_cuts_is_none(server, release, tmp_path):
    one = client_of(server, release, tmp_path)
    one.prepare()
    server.pause_s = 0.02
    one.run(time.time_ns(), time.time_ns() + S // 20)
    assert one.rows["state"] == ["cut"] and one.rows["files"] == [0]
    (starts, _) = one.result().checks
    assert not starts.ok and "raise `duration`" in starts.detail
    one.close()


# --- what the coordinator does


@pytest.mark.parametrize(
    ("axes", "told"),
    [
        ({"days": 2}, "days: 2 days, and the release has 1"),
        ({"applications": 300, "start_files": 300}, "are more than a gang is told; keep their product below 20000"),
        ({"http_cache": "squid", "scheme": "https"}, "http_cache: https goes past an HTTP cache"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(release, axes, told):
    own = {a.name: a.default for a in WORKLOADS["launch"].axes} | axes
    point = Point("s", "launch", own, 1, "k", "starts", 1, 1, {"release": release[0].told()})
    with pytest.raises(UserError) as caught:
        WORKLOADS["launch"].possible(point)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_squid_that_is_not_there_is_told_before(release, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    own = {a.name: a.default for a in WORKLOADS["launch"].axes}
    point = Point("s", "launch", own | {"http_cache": "squid"}, 1, "k", "starts", 1, 1, {"release": release[0].told()})
    with pytest.raises(UserError, match=r"sweeps.starts.axes.http_cache: .*storelab install squid"):
        WORKLOADS["launch"].require(point)
    WORKLOADS["launch"].require(Point("s", "launch", own, 1, "k", "starts", 1, 1, {}))


def test_squid_is_asked_by_this_machine_alone_for_one_port_and_keeps_nothing_on_disk():
    text = squid.configuration(26500, 18333).splitlines()
    assert text[0] == "http_port 127.0.0.1:26500" and "acl origin port 18333" in text
    rules = [line for line in text if line.startswith("http_access")]
    assert rules == ["http_access allow localhost manager", "http_access allow localhost origin reading",
                     "http_access deny all"]  # fmt: skip
    assert not [line for line in text if line.startswith("cache_dir")] and "cache_mem 256 MB" in text
    assert {"access_log none", "cache_store_log none", "pid_filename none"} <= set(text)
    assert r"refresh_pattern /\.cvmfs[a-z]+$ 1 0% 1 override-lastmod" in text  # else a date would come before them
    assert "refresh_pattern . 4320 0% 4320 override-lastmod" in text and "cache deny manager" in text


def page(requests, hits, kbytes_in):
    """As Squid 5 writes it."""
    lines = {"client_http.requests": requests, "client_http.hits": hits, "client_http.errors": 1,
             "client_http.kbytes_in": 9, "client_http.kbytes_out": 70, "client_http.hit_kbytes_out": 30,
             "server.all.requests": requests - hits, "server.all.errors": 0, "server.all.kbytes_in": kbytes_in,
             "server.http.requests": 5, "cpu_time": "0.053213"}  # fmt: skip
    text = "sample_time = 1428883200.5 (Mon, 13 Apr 2015 00:00:00 GMT)\n"
    return text + "".join(f"{name} = {value}\n" for name, value in lines.items())


def test_what_squid_counted_is_that_between_two_looks():
    first, last = squid.parsed(page(3, 0, 10)), squid.parsed(page(104, 60, 35))
    assert first["origin_bytes"] == 10 * 1024
    told = squid.between(first, last)
    assert (told["requests"], told["hits"], told["origin_bytes"]) == (100, 60, 25 * 1024)  # the first look was counted
    assert told["origin_requests"] == 41 and told["errors"] == 0
    with pytest.raises(ValueError, match=r"no counter client_http\.requests"):
        squid.parsed("<html>denied</html>")


@pytest.mark.parametrize(
    ("endpoint", "bucket", "url"),
    [
        (Endpoint("http://h:1"), Bucket("b"), "http://h:1/b/launch/x"),
        (Endpoint("http://h:1", addressing="virtual"), Bucket("b", "p/c/"), "http://b.h:1/p/c/launch/x"),
        (Endpoint("http://h:1/dav/", protocol="http"), Bucket("b"), "http://h:1/dav/b/launch/x"),
    ],
)
def test_urls_of_a_repository(endpoint, bucket, url):
    assert public.url_of(endpoint, bucket, "launch/x/") == url


class Closed:
    """A bucket that is read without a signature only while a policy says so. accepts: policies that it takes."""

    def __init__(self, server, accepts=lambda policy: True):
        self.server, self.accepts, self.policies, self.put = server, accepts, [], None
        server.answer = self

    def __call__(self, method, key):
        if "policy" in key:
            self.policies.append(method)
            self.put = method == "PUT" and self.accepts(len(self.policies))
            return (204 if method == "DELETE" else 200 if self.put else 400), {}
        return None if self.put else (403, {})


def store(keys=True):
    own = Credentials("an-access-key", "a-secret-key") if keys else None
    return SimpleNamespace(name="s", credentials=lambda _: own)


TRIAL = f"{REPOSITORY}/{names.MANIFEST}"


def test_a_bucket_is_opened_and_closed_again(server):
    closed = Closed(server)
    opened = public.Opened(store(), Endpoint(server.url), Bucket("b"), "launch/x/", TRIAL)
    assert closed.policies == ["PUT"] and opened.url == f"{server.url}/b/launch/x"
    signed = [h for _, key, h in server.asked if "policy" in key]
    assert all("Authorization" in h for h in signed)
    assert all("Authorization" not in h for m, key, h in server.asked if m == "GET")
    opened.close()
    opened.close()
    assert closed.policies == ["PUT", "DELETE"]
    said = json.loads(public.policy("b", "launch/x/", "me"))["Statement"]
    assert said[0]["Resource"] == ["arn:aws:s3:::b/launch/x/*"] and said[0]["Action"] == ["s3:GetObject"]
    assert said[1]["Principal"] == {"AWS": ["me"]} and len(json.loads(public.policy("b", "x"))["Statement"]) == 1


def test_a_bucket_has_one_policy_and_so_one_role_that_opens_it(server):
    closed = Closed(server)
    opened = public.Opened(store(), Endpoint(server.url), Bucket("b"), "launch/x/", TRIAL)
    server.answer = lambda method, key: (403, {}) if "policy" not in key else (200, {})
    with pytest.raises(UserError, match=r"another role has opened its bucket.*sweeps with it") as refused:
        public.Opened(store(), Endpoint(server.url), Bucket("b"), "put/y/", TRIAL, "with it")
    assert refused.value.place == "stores.s" and closed.policies == ["PUT"]
    server.answer = closed
    opened.close()
    public.Opened(store(), Endpoint(server.url), Bucket("b"), "launch/x/", TRIAL).close()


def test_the_owner_is_named_only_where_the_store_takes_it(server):
    closed = Closed(server, accepts=lambda n: n == 2)
    public.Opened(store(), Endpoint(server.url), Bucket("b"), "launch/x/", TRIAL).close()
    assert closed.policies == ["PUT", "PUT", "DELETE"]


def test_what_is_open_already_is_left_as_it_is(server):
    public.Opened(store(), Endpoint(server.url), Bucket("b"), "launch/x/", TRIAL).close()
    assert [method for method, _ in server.requests()] == ["GET"]


@pytest.mark.parametrize(
    ("bucket", "keys", "told"),
    [
        (Bucket("b"), True, "a policy of the bucket: 400"),
        (Bucket("b", "mine/"), True, "not storelab's to open"),
        (Bucket("b"), False, "403"),
    ],
)
def test_a_store_that_wants_signatures_is_refused_in_one_line(server, bucket, keys, told):
    Closed(server, accepts=lambda _: False)
    with pytest.raises(UserError) as caught:
        public.Opened(store(keys), Endpoint(server.url), bucket, "launch/x/", TRIAL)
    assert told in str(caught.value) and "stores.s: cannot serve GETs without a signature" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_ends_an_attempt_is_called_whatever_happened(monkeypatch):
    called = []
    work = SimpleNamespace(ended=called.append)

    def fails(*_):
        raise MeasurementFailed("the store is gone")

    monkeypatch.setattr(measuring, "_write_job", fails)
    state = SimpleNamespace(stage=lambda *_: None)
    with pytest.raises(MeasurementFailed):
        measuring._attempted(SimpleNamespace(workload=work, job={"attempt": "a"}, state=state, work=None), [], "")
    assert called == [{"attempt": "a"}]
    order = []
    launching._served["a"] = launching.Served(
        SimpleNamespace(close=lambda: order.append("closed")), SimpleNamespace(stop=lambda: order.append("stopped"))
    )
    for _ in range(2):
        WORKLOADS["launch"].ended({"attempt": "a"})
    assert order == ["stopped", "closed"] and not launching._served


def test_a_repository_is_named_by_what_it_holds():
    told = Settings().told()
    same, *others = (staged.name_of(told, 1), staged.name_of(told, 2), staged.name_of(told | {"seed": 1}, 1))
    assert same == staged.name_of(json.loads(json.dumps(told)), 1) and len({same, *others}) == 3


# --- the table


def test_times_rates_and_caches_are_those_of_the_rows(table):
    plain, cached = (table[table["http_cache"] == name].iloc[0] for name in ("none", "squid"))
    assert (plain["n"], cached["n"]) == (2, 1)
    assert (plain["first_low_s"], plain["first_high_s"], plain["first_median_s"]) == (2.5, 5.0, 3.75)
    assert (plain["slowest_low_s"], plain["slowest_high_s"], cached["slowest_median_s"]) == (4, 8, 2)
    # In the window (102, 110]: starts of 2, 6 and 4 s, with 20, 10 and 10 files.
    assert plain["start_low_s"] == 4 and plain["start_p95_low_s"] == pytest.approx(5.8)
    assert plain["starts_median_per_s"] == pytest.approx(3 / 8) and plain["files_median_per_s"] == pytest.approx(5)
    assert plain["files_median_per_start"] == pytest.approx(90 / 5)
    assert plain["requests_median_per_start"] == pytest.approx((4 * 12 + 6) / 5)
    assert plain["kept_median_percent"] == pytest.approx(100 * 6 / 84)
    assert plain["fetched_median_mb"] == plain["origin_median_mb"] == pytest.approx(7)
    assert pd.isna(plain["hit_median_percent"]) and cached["hit_median_percent"] == 75
    assert cached["origin_median_mb"] == 2.5 and cached["fetched_median_mb"] == pytest.approx(7)
    assert (plain["failed"], cached["failed"]) == (2, 1) and plain["factor"] == 0.001


def test_a_cache_that_told_nothing_leaves_no_number(tmp_path):
    assert launches._origin(None, "squid", 5.0) is None and launches._hits(None) is None
    assert launches._hits({"requests": 0, "origin_requests": 0}) is None


def test_the_text_compares_what_differs_in_the_cache_alone(table):
    found = {name: value for name, value, _ in launches.numbers(table)}
    assert found == {
        "launches_files": 18,
        "launches_clients": "2 clients",
        "launches_together": "2 clients",
        "launches_store": "a",
        "launches_direct": 3.75,
        "launches_cached": 1.25,
        "launches_hits": 75.0,
    }
    assert launches.beside(table)["ratio"].iloc[0] == pytest.approx(3)
    alone = table[table["http_cache"] == "none"]
    assert [name for name, *_ in launches.numbers(alone)] == ["launches_files", "launches_clients"]
    assert latex.flags(table) == {"launch_cached": True} and latex.flags(alone) == {"launch_cached": False}
    assert launches.numbers(table.iloc[:0]) == [] and latex.flags(table.iloc[:0]) == {"launch_cached": False}


def test_the_figure_has_a_line_for_each_cache(table):
    figure = draw.draw(catalogue.FIGURES["launches"], table)
    first, files = figure.axes
    assert first.get_ylabel() == "Time to first run [s]" and files.get_ylabel() == "Files/s"
    assert len(first.containers) == len(files.containers) == 2
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said == ["no HTTP cache", "through Squid"]
    assert "share one host" in catalogue.caption(catalogue.FIGURES["launches"], table)
    assert draw.draw(catalogue.FIGURES["launches"], table.iloc[:0]) is None


def test_the_paper_tells_each_group(table):
    lines = [line for line in latex.table(table).splitlines() if line.startswith("a; ")]
    assert [line.split("&")[0].strip() for line in lines] == [
        "a; no HTTP cache; cold clients",
        "a; through Squid; cold clients",
    ]
    assert "& 2 & 2 & 3.75" in lines[0] and "& 75 & 2.5" in lines[1]
