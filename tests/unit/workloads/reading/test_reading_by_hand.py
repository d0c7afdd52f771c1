"""What reads of ROOT files stand on, by hand: side-cars, kept headers, batches, folders of a client, rows, links, clocks, processes."""

import json
import threading
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storelab.core import calibration, records
from storelab.core.model import Point
from storelab.datasets.root import baskets, header, pages, reader
from storelab.datasets.root.header import Header
from storelab.engines.common import selections, shares, wire
from storelab.engines.contract import Job
from storelab.gang import clocks
from storelab.host import monitor, proc
from storelab.readplan import Link
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.calibrate import workload as calibrate
from storelab.workloads.reading import links

S, MS = 10**9, 10**6


def layout(*columns, names=("x",)):
    return baskets.Baskets(list(names), *(np.array(c, "i8") for c in columns))


# Side-cars and headers


def test_a_side_car_has_its_columns_and_says_of_what_it_is(tmp_path):
    """Each alone is not enough."""
    told = {"storelab": json.dumps({"tree": "t"})}
    good = pa.table({f.name: pa.array([], f.type) for f in baskets.SCHEMA}, schema=baskets.SCHEMA)
    other = pa.table({"branch": [1]})
    assert [(f.name, str(f.type)) for f in baskets.SCHEMA] == [
        ("branch", "dictionary<values=string, indices=int32, ordered=0>"),
        ("basket", "int32"),
        *((name, "int64") for name in ("entry_start", "entry_stop", "offset", "size")),
        ("crc32", "uint32"),
    ]
    for table, facts, right in ((good, told, True), (good, {}, False), (other, told, False), (other, {}, False)):
        pq.write_table(table.replace_schema_metadata(facts), tmp_path / "x.parquet")
        if right:
            assert baskets.facts(baskets.read(tmp_path / "x.parquet")) == {"tree": "t"}
        else:
            columns = ", ".join(table.schema.names)
            with pytest.raises(ValueError, match=f"x.parquet is no table of baskets: its columns are {columns}$"):
                baskets.read(tmp_path / "x.parquet")


class Held:
    """A branch of 9 entries, of which the header holds those from 6 on."""

    num_entries = 9

    def __init__(self, *counts):
        self.counts = counts

    @property
    def embedded_baskets(self):
        if not self.counts:
            raise ValueError("no basket")
        return [SimpleNamespace(num_entries=n) for n in self.counts]


def test_baskets_of_the_header_count_where_they_are_whole():
    for counts, found in (((3,), [3]), ((1, 0, 2), [1, 2]), ((2,), []), ((4,), []), ((0,), []), ((), [])):
        held = baskets._inside(Held(*counts), 6)
        assert isinstance(held, list) and [b.num_entries for b in held] == found, counts


def test_a_header_of_an_older_form_is_not_read(tmp_path):
    """The file says which form it is of: 2 today."""
    path = tmp_path / "h.parquet"
    Header("t", 5, layout([0], [0], [0], [5], [100], [9]), [None], {"url": "u"}).save(path)
    table = pq.read_table(path)
    facts = json.loads(table.schema.metadata[b"storelab"])
    assert facts["version"] == header.VERSION == 2 and table.schema.names == list(header.COLUMNS)
    for version in (2, 1, 3, None):
        changed = {"storelab": json.dumps(facts | {"version": version})}
        pq.write_table(table.replace_schema_metadata(changed), path)
        assert (Header.load(path, {"url": "u"}) is not None) == (version == 2)
    for broken in (b"", b"no parquet"):
        path.write_bytes(broken)
        assert Header.load(path, {"url": "u"}) is None
    pq.write_table(table.replace_schema_metadata({}), path)
    assert Header.load(path, {"url": "u"}) is None


# Batches


def by_sum(sizes, batch):
    """Parts of a list: a new one where the running sum passes the next multiple of `batch`."""
    out, total, before = [], 0, None
    for i, size in enumerate(sizes):
        total += size
        if total // batch != before:
            out.append([])
        before = total // batch
        out[-1].append(i)
    return out


def test_clusters_of_pages_are_read_together_as_far_as_a_batch_goes():
    """Whole clusters, by the running sum of their bytes; fields of a cluster are never apart."""
    clusters, fields = [30, 30, 30, 50, 10, 200, 40, 40], 2
    n = len(clusters)
    code, number = np.repeat(range(fields), n), np.tile(range(n), fields)
    size = np.tile(clusters, fields) // fields
    found = layout(code, number, 10 * number, 10 * number + 10, 1000 * np.arange(fields * n), size, names="ab")
    for batch in (1, 60, 100, 170, 10**6):
        one = pages.PageReader(SimpleNamespace(tuple=SimpleNamespace(name="t"), layout=found), 80, None, None)
        one.batch = batch
        groups = [sorted(set(number[part].tolist())) for part in one._batches(np.arange(fields * n))]
        rows = [len(part) for part in one._batches(np.arange(fields * n))]
        assert groups == by_sum(clusters, batch) and rows == [fields * len(g) for g in groups], batch
    assert list(one._batches(np.empty(0, "i8"))) == []


def test_branches_that_begin_together_keep_their_order():
    """60 branches of two baskets each, the second before the first in the file: by first entry, then as they lie there."""
    n = 60
    rng = np.random.default_rng(2)
    code, number = np.repeat(np.arange(n), 2), np.tile([0, 1], n)
    offset = np.where(number == 0, 10**6, 0) + 100 * rng.permutation(2 * n)
    size = rng.integers(5, 90, 2 * n)
    found = layout(code, number, 10 * number, 10 * number + 10, offset, size, names=[f"b{i}" for i in range(n)])
    one = reader.SelectionReader(Header("t", 20, found, [None] * n, {}), None, None, batch=300)
    rows = np.argsort(offset)
    order = sorted(rows.tolist(), key=lambda row: (found.entry_start[row], offset[row]))
    expected = [sorted((order[i] for i in part), key=lambda r: offset[r]) for part in by_sum(size[order], 300)]
    assert [part.tolist() for part in one._batches(rows)] == expected and len(expected) > 10


# Clients


def job(tmp_path, client, buckets, accounts=(0,), **more):
    point = Point("a", "list", {"clients": 8}, 1, "k", "s", 5, 0)
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"dataset": {"name": "keys-x"}, "clients": {"name": "wrong"}, "objects": {}}))
    return Job(point, client, Endpoint("http://h", "s3"), buckets, tmp_path, path, accounts=accounts, **more)


def test_folders_of_a_client_are_those_of_its_accounts_in_turn(tmp_path):
    """Client c begins with the c-th of its own, and goes round."""
    places = [Bucket(f"b{i}", f"p{i}/", i % 2) for i in range(6)]
    for accounts, own in (((0,), [0, 2, 4]), ((1,), [1, 3, 5]), ((0, 1), [0, 1, 2, 3, 4, 5])):
        for client in range(7):
            first = client % len(own)
            turn = [own[(first + i) % len(own)] for i in range(len(own))]
            found = shares.folders(job(tmp_path, client, places, accounts))
            assert found == [(i, f"p{i}/data/keys-x/keys/") for i in turn]


class Reads(selections.SelectionClient):
    """A client whose rows are given."""

    engine, libraries = "imagined", ()
    connect = fresh = open_file = selection = lambda self, *_: None

    def counts(self):
        return wire.Counts()


def test_rows_of_reads_are_as_records_have_them():
    """Good ones and failed ones by their end; every column of a record that such an operation has; requests vary and are counted."""
    point = SimpleNamespace(axes={"clients": 1}, seed=5, fixed={})
    one = Reads(SimpleNamespace(point=point, client=1, number=4, limits={}, extra={}, told=None))
    one.key, one.branches, one.unreadable = "p/file", ["x"], {}
    zeros = dict.fromkeys((*records.READS,), 0)
    zeros.pop("client")
    for end in (30, 10):
        one.reads.append(
            zeros | {"needed_bytes": 7, "wire_bytes": 9, "requests": 2, "start_ns": end - 5, "end_ns": end}
        )
    bad = {"bytes": 0, "wire_bytes": 1, "requests": 1, "start_ns": 15, "end_ns": 20, "status": 503, "error": "SlowDown"}
    one.ops.append(bad)
    found = one.result()
    assert found.ops == {
        "client": [4] * 3,
        "worker": [0] * 3,
        "op": ["READ"] * 3,
        "object": ["p/file"] * 3,
        "count": [1] * 3,
        "bytes": [7, 0, 7],
        "wire_bytes": [9, 1, 9],
        "requests": [2, 1, 2],
        "start_ns": [5, 15, 25],
        "end_ns": [10, 20, 30],
        "status": [200, 503, 200],
        "error": [None, "SlowDown", None],
    }
    assert set(found.ops) <= set(records.OPS) and set(found.reads) == set(records.READS)
    assert found.reads["client"] == [4, 4] and found.reads["end_ns"] == [30, 10]
    assert found.engine["requests_per_operation"] == {"READ": "varies, counted"}
    settings = {"grace": 0.2, "grace_s": 5.0}
    assert found.engine["name"] == "imagined" and found.engine["settings"] == settings
    assert found.engine["branches_chosen"] == 1 and found.engine["branches_left_out"] == 0
    assert found.engine["abandoned"] == {"reads": 0} | asdict(wire.Counts()) and found.engine["opening"] is None
    one.reads.clear()
    assert one.result().reads == {"client": []} and one.result().ops["error"] == ["SlowDown"]


def test_whose_connections_are_counted():
    """The port that is written, else the scheme's; none where the bytes come from elsewhere or over no wire."""
    for url, protocol, port in (
        ("http://h", "s3", 80),
        ("https://h", "s3", 443),
        ("https://h:9443", "http", 9443),
        ("root://h", "root", 1094),
        ("roots://h", "root", 1094),
        ("http://h", "webhdfs", None),
        ("file:///x", "file", None),
    ):
        found = wire.port_wire(Endpoint(url, protocol=protocol))
        assert (found.port if found else None) == port, url


def test_what_a_calibration_is():
    """It runs at the null server alone, and its operations are those that have a ceiling."""
    one = WORKLOADS["calibrate"]
    assert (one.name, one.needs, one.dataset) == ("calibrate", ("null_server",), None)
    assert [w.name for w in WORKLOADS.values() if "null_server" in w.needs] == ["calibrate"]
    assert set(calibrate.OPERATIONS) == set(calibration.OPERATIONS)
    assert all(name == w.name for name, w in calibrate.OPERATIONS.items())
    assert [a.name for a in one.axes] == [a.name for a in calibration.AXES]


def test_names_of_objects_to_delete():
    """100 000 requests of a client, 800 000 objects of a point."""
    for clients, batch, each in ((1, 1, 100_000), (1, 5, 500_000), (4, 5, 200_000), (1, 10, 800_000)):
        found = calibrate._names(SimpleNamespace(axes={"clients": clients, "batch": batch}))
        assert [len(names) for names in found] == [each] * clients
        for c, names in enumerate(found):
            assert names[0] == (0, f"put/{c}/0000000") and names[-1] == (0, f"put/{c}/{each - 1:07d}")


# Links that points share


def kept(tmp_path, monkeypatch, after_ns):
    """What a point finds of the link that another kept so long before."""
    link = asdict(Link(1e-3, 1e-5, 1e-4, 1e9, 1e8, 8))
    point = Point("a", "read_entries", {"engine": "planned", "clients": 1}, 0, "one", "s", 7, 0)
    (tmp_path / "result.0").write_text(json.dumps({"engine": {"link": link}}))
    job = {"extra": {"links": {"kept": str(tmp_path / "links" / "l.json")}}}
    monkeypatch.setattr(links.clock, "now_ns", lambda: 10**18)
    links.keep(point, job, tmp_path)
    monkeypatch.setattr(links.clock, "now_ns", lambda: 10**18 + after_ns)
    return links.known(tmp_path / "links" / "l.json", 1)


def test_a_link_is_good_for_an_hour(tmp_path, monkeypatch):
    for seconds, good in ((0, True), (3599, True), (3600, True), (3601, False), (-1, False)):
        found = kept(tmp_path, monkeypatch, seconds * S)
        assert (found is not None) == good, seconds
        assert not good or found["of"] == "one"
    assert kept(tmp_path, monkeypatch, 3600 * S + 1) is None
    (tmp_path / "links" / "l.json").write_text("{")
    assert links.known(tmp_path / "links" / "l.json", 1) is None


def test_clients_that_were_told_no_place_keep_nothing(tmp_path):
    """No result is read either: there is none."""
    point = Point("a", "read_entries", {"engine": "planned", "clients": 1}, 0, "one", "s", 7, 0)
    for job in ({}, {"extra": {}}, {"extra": {"pages": []}}, {"extra": {"links": {"of": "x", "links": []}}}):
        links.keep(point, job, tmp_path)
        assert list(tmp_path.iterdir()) == []


def test_what_decides_a_link():
    """Of all axes of readers: those of what is read do not; all others do."""
    config = SimpleNamespace(campaign_dir=Path("c"))
    free = "entry_fraction volume_fraction navigation step merge max_range_gap thrift max_amplification header access"
    seen = set()
    for name in ("read_entries", "read_volume", "replay", "events"):
        axes = {a.name: a.default for a in WORKLOADS[name].axes}
        place = links.place(config, Point("a", name, axes, 0, "k", "s", 7, 0))
        assert place.parent.parts == ("c", "work", "links")
        for axis in axes:
            other = links.place(config, Point("a", name, axes | {axis: "other"}, 0, "k", "s", 7, 0))
            assert (other == place) == (axis in free.split()), axis
            seen.add(axis)
    assert set(free.split()) <= seen


# Clocks and processes


def test_a_clock_that_was_closed_answers_no_more():
    """Its thread has ended, and its socket is closed."""
    server = clocks.Server(["127.0.0.1"])
    assert server.thread.is_alive() and server.thread.name == "clock" and server.thread.daemon
    server.close()
    assert not server.thread.is_alive() and server.thread not in threading.enumerate()
    assert server.socket.fileno() == -1


def test_a_number_that_another_process_got_is_not_of_the_tree(monkeypatch):
    """Process 7 ends after 5 s of CPU time; later a stranger has its number."""
    there = {7: proc.Process(5.0, 1.0, 100, 1, 1), 8: proc.Process(2.0, 0.5, 10, 7, 7)}
    monkeypatch.setattr(monitor.proc, "process", lambda files, pid: there.get(pid))
    tree = monitor.Tree(7)
    tree.members.add(8)
    assert tree.sample(None) == (7.0, 1.5, 110) == (*tree.sample(None)[:2], tree.rss)
    del there[7]
    assert tree.sample(None) == (7.0, 1.5, 10) and tree.members == {8}
    there[7] = proc.Process(1000.0, 1000.0, 10**9, 1, 1)
    assert tree.sample(None) == (7.0, 1.5, 10)
    del there[8]
    assert tree.sample(None) == tree.sample(None) == (7.0, 1.5, 0) and not tree.members and not tree.now


def test_a_daemon_that_began_anew_keeps_its_cpu_time(monkeypatch):
    there = {7: proc.Process(5.0, 1.0, 100, 1, 1)}
    monkeypatch.setattr(monitor.proc, "process", lambda files, pid: there.get(pid))
    monkeypatch.setattr(monitor.proc, "opened", lambda pid: {7: 3, 9: None}.get(pid))
    old = monitor.Tree(7)
    old.sample(None)
    assert old.look() == 3
    there[9] = proc.Process(0.5, 0.25, 20, 1, 1)
    new = monitor.Tree(9, old)
    assert new.files == 3 and new.sample(None) == (5.5, 1.25, 20)
    assert new.look() is None and monitor.Tree(9).sample(None) == (0.5, 0.25, 20)


def told(monkeypatch, age_ns, until_ns=3 * S, answer=False):
    """Seconds that are told until a sample is due, of a sample of this age: (when, which), and how often was looked anew."""
    now, seen, looks = [10**18], [], []
    monkeypatch.setattr(monitor.clock, "now_ns", lambda: now[0])
    monkeypatch.setattr(monitor.time, "thread_time", lambda: 0.0)
    monkeypatch.setattr(monitor.proc, "cpu", lambda files: looks.append(now[0]) or proc.Cpu(1.0, 1.0, 42.0))
    one = monitor.Monitor({}, dict, S, None, lambda at, used: seen.append((now[0] - 10**18, at - 10**18, used.host_s)))

    def wait(seconds):
        now[0] += round(seconds * S)
        return answer

    one._stop.wait = wait
    one._second_at, one._used_ns, one._used = 10**18 + S, 10**18 + S - age_ns, monitor.Used(7.0)
    one._tell_until(10**18 + until_ns, None, 10**18)
    return seen, looks


def test_what_is_told_is_two_samples_old_at_most(monkeypatch):
    """400 ms: what is older is looked at anew."""
    for age, anew in ((0, False), (399 * MS, False), (400 * MS, False), (400 * MS + 1, True), (S, True)):
        seen, looks = told(monkeypatch, age, S + 1)
        assert seen == [(S, S if anew else S - age, 42.0 if anew else 7.0)] and len(looks) == anew, age
    seen, looks = told(monkeypatch, 0, 4 * S)
    assert [when for when, *_ in seen] == [S, 2 * S, 3 * S] and len(looks) == 2
    assert all(b - a == S for a, b in pairwise(when for when, *_ in seen))
    assert told(monkeypatch, 0, S) == ([], []) == told(monkeypatch, 0, 3 * S, answer=True)
