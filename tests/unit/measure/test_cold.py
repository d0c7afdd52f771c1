"""Reads of each object once, and what proves that they were cold: shares by counting, proofs by hand."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from storelab.analysis.latex import throughput
from storelab.analysis.parts import cold as told_by_tables
from storelab.analysis.parts import groups
from storelab.core import clock, plan
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.engines.common import arrivals, shares
from storelab.engines.common.transfers import orders
from storelab.engines.contract import Job
from storelab.host import page_cache, proc
from storelab.measure import check, check_axes, cold
from storelab.stores import all_stores
from storelab.stores.base import Cooling
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads import WORKLOADS


def configured(sweep: dict, store: dict | None = None, **more) -> Config:
    return Config.model_validate(
        {
            "campaign": "c",
            "name": "c",
            "stores": {"one": store or {"kind": "s3", "endpoint": "http://127.0.0.1:1"}},
            "use_stores": ["one"],
            "repetitions": 1,
            "calibrate": False,
            "sweeps": {"a": sweep},
            **more,
        }
    )


def points(sweep: dict, **more) -> list:
    return plan.make(configured(sweep, **more), WORKLOADS)


def manifest(tmp_path: Path, objects: int, buckets: int) -> Path:
    from storelab.core.records import write_json
    from storelab.datasets import payload

    dataset = {"name": "d", "objects": objects, "buckets": buckets, "seed": 1, "object_size": 10}
    write_json(tmp_path / "m.json", {"dataset": dataset, "objects": payload.objects(dataset), "bodies": []})
    return tmp_path / "m.json"


def jobs(tmp_path, access, clients, objects, buckets=1, accounts=1, **axes) -> list[Job]:
    asked = {"access": access, "clients": clients, "buckets": buckets, "accounts": accounts, **axes}
    (point,) = points({"workload": "get", "objects": objects, "axes": {"engine": "obstore", **asked}})
    places = [Bucket(f"b{i}", "", i % accounts) for i in range(buckets)]
    path = manifest(tmp_path, objects, buckets)
    end = Endpoint("http://127.0.0.1:1")
    return [Job(point, i, end, places, tmp_path / str(i), path, account=i % accounts) for i in range(clients)]


@pytest.mark.parametrize("access", ["once", "cold"])
@pytest.mark.parametrize(
    ("clients", "objects", "buckets", "accounts"), [(1, 7, 1, 1), (3, 10, 2, 1), (4, 41, 4, 2), (5, 60, 6, 3)]
)
def test_each_object_is_read_by_one_client_once(tmp_path, access, clients, objects, buckets, accounts):
    seen = Counter()
    for job in jobs(tmp_path, access, clients, objects, buckets, accounts):
        own = shares.staged(job)[1]
        assert {o.place.account for o in own} <= {job.account}
        seen.update(o.key for o in own)
    assert len(seen) == objects and set(seen.values()) == {1}


def test_shares_are_even_drawn_by_the_seed_and_spread_over_the_buckets(tmp_path):
    split = [shares.staged(job)[1] for job in jobs(tmp_path, "once", 2, 40, buckets=2)]
    assert [len(own) for own in split] == [20, 20]
    assert all(len({o.number for o in own}) == 2 for own in split), "no client keeps to one bucket"
    again = [shares.staged(job)[1] for job in jobs(tmp_path, "once", 2, 40, buckets=2)]
    assert again == split and [o.key for o in split[0]] != sorted(o.key for o in split[0])


def test_warm_clients_share_all_objects_of_their_account(tmp_path):
    assert [len(shares.staged(job)[1]) for job in jobs(tmp_path, "warm", 3, 10)] == [10] * 3


def test_orders_end_where_each_is_read_once():
    import random

    endless = orders([1, 2, 3], random.Random(1))
    assert Counter(next(endless) for _ in range(9)) == {1: 3, 2: 3, 3: 3}
    assert list(orders([3, 1, 2], random.Random(1), once=True)) == [3, 1, 2]


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_workers_of_obstore_share_the_objects_of_their_client(tmp_path, workers):
    seen = Counter()
    for job in jobs(tmp_path, "cold", 2, 21, workers=workers):
        client = WORKLOADS["get"].client(job)
        client.paths = ["b0/"]
        client.prepare_tasks()
        seen.update(task.path for w in range(workers) for task in client.tasks(w))
    assert len(seen) == 21 and set(seen.values()) == {1}


def test_more_clients_than_objects_are_refused():
    (point,) = points({"workload": "get", "objects": 3, "axes": {"access": "once", "clients": 4}})
    with pytest.raises(UserError, match=r"sweeps.a.objects: 4 clients read each object once, and there are 3; raise"):
        WORKLOADS["get"].possible(point)
    (warm,) = points({"workload": "get", "objects": 3, "axes": {"clients": 4}})
    WORKLOADS["get"].possible(warm)


def test_the_default_renames_no_old_point():
    (point,) = points({"workload": "get"})
    assert point.key == "one/get/rep~001" and point.axes["access"] == "warm" and point.axes["working_set"] == 0


@pytest.mark.parametrize(
    ("size", "wanted", "objects"),
    [("1 MB", "10 MB", 10), ("3 MB", "10 MB", 4), ("4 kB", "0 B", 64), ("4 kB", "1 B", 1)],
)
def test_a_working_set_is_as_many_objects_as_make_it(size, wanted, objects):
    (point,) = points({"workload": "get", "axes": {"object_size": size, "working_set": wanted}})
    assert point.fixed["objects"] == point.dataset["objects"] == objects


def test_a_working_set_beyond_the_limits_is_refused_in_one_line():
    config = configured({"workload": "get", "axes": {"object_size": "1 GB", "working_set": "40 GB"}})
    with pytest.raises(
        UserError, match=r"limits.stored_bytes: campaign c needs 40 GB in store one, the limit is 20 GB"
    ):
        check.limits(config, plan.make(config, WORKLOADS))


@pytest.mark.parametrize(
    ("share", "whole", "dropped", "said"),
    [
        (0.0, True, True, "warm"),
        (0.1, True, True, "warm"),
        (0.5, True, True, "partly"),
        (0.89, True, True, "partly"),
        (0.9, True, False, "cold"),
        (1.3, True, False, "cold"),
        (16.0, False, False, "partly"),  # ranges: read-ahead may hide that half of them came from memory
        (16.0, False, True, "cold"),
        (0.05, False, True, "warm"),
    ],
)
def test_what_disk_reads_prove(share, whole, dropped, said):
    assert cold.proven(share, whole, dropped) == said


class Store:
    """A store on disk, as `Evidence` sees it."""

    def __init__(self, folder: Path, **facts):
        self.folder, self.managed, self.protocol, self.memory, self.kept = folder, True, "s3", False, 0.0
        vars(self).update(facts)

    def memory_only(self):
        return self.memory

    def data_folders(self):
        return [] if self.memory or not self.managed else [self.folder]

    def cool(self, front_ends, accounts):
        if not self.data_folders():
            return Cooling(why="nothing can be done")
        return Cooling(["done"], [self.folder], self.kept)

    def actors(self):
        return {"s3-1": os.getpid()}


def evidence(monkeypatch, tmp_path, store: Store, reads: int, served: int, access="cold", counted=True) -> dict:
    """`cold` of the record of a point of `served` bytes, of which `reads` came from disk."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    counters = iter([1000, 1000 + reads])
    monkeypatch.setattr(proc, "disk_reads", lambda pid: next(counters))
    monkeypatch.setattr(page_cache, "counted", lambda folder: counted)
    pq.write_table(pa.table({"bytes": [served]}), tmp_path / "ops.0.parquet")
    sweep = {"workload": "get", "axes": {"access": access, "engine": "obstore"}}
    (point,) = points(sweep)
    told = cold.Evidence(configured(sweep), store, point, {"manifest": None, "buckets": []})
    told.cool()
    told.begin(0)
    end = {"t0_ns": 0, "deadline_ns": 10**10, "end_ns": 10**10, "disk_read_bytes": 7}
    told.end([end])
    return told.record(tmp_path)["cold"]


@pytest.mark.parametrize(("reads", "said"), [(10**6, "cold"), (5 * 10**5, "partly"), (0, "warm")])
@pytest.mark.parametrize("access", ["warm", "once", "cold"])
def test_the_proof_comes_from_the_disks_alone(monkeypatch, tmp_path, access, reads, said):
    found = evidence(monkeypatch, tmp_path, Store(tmp_path), reads, 10**6, access)
    assert found["asked"] == access and found["proven"] == said and not found["why"]
    assert found["disk_share"] == reads / 10**6 and found["disk_read_bytes"] == reads and found["served_bytes"] == 10**6
    assert found["done"] == (["done"] if access == "cold" else [])


@pytest.mark.parametrize(
    ("facts", "counted", "why"),
    [
        ({"memory": True}, True, "its data lie in memory: no read of them is cold"),
        ({"managed": False}, True, "nothing can be done"),
        ({}, False, r"reads of \S+ are not counted as disk reads"),
        ({}, None, r"reads of \S+ are not counted as disk reads"),
    ],
)
def test_where_it_cannot_be_shown_the_record_says_why_and_claims_nothing(monkeypatch, tmp_path, facts, counted, why):
    import re

    found = evidence(monkeypatch, tmp_path, Store(tmp_path, **facts), 10**6, 10**6, counted=counted)
    assert re.fullmatch(why, found["why"]) and found["proven"] is None and found["disk_share"] is None


def test_counters_that_cannot_be_read(monkeypatch, tmp_path):
    (point,) = points({"workload": "get"})
    told = cold.Evidence(configured({"workload": "get"}), Store(tmp_path), point, {"manifest": None})
    monkeypatch.setattr(proc, "disk_reads", lambda pid: None)
    told.cool()
    told.begin(0)
    told.end([{"t0_ns": 0, "deadline_ns": 1, "end_ns": 1}])
    assert told.read is None and told._why(5) == "the counters of its processes cannot be read"


def test_of_ranges_what_stayed_cached_is_no_proof(monkeypatch, tmp_path):
    assert cold.proven(16.0, False, dropped=False) == "partly"
    found = evidence(monkeypatch, tmp_path, Store(tmp_path, kept=0.5), 10**6, 10**6)
    assert found["still_cached"] == 0.5


@pytest.mark.parametrize("ends", [[4 * 10**9, 6 * 10**9], [6 * 10**9, 10**10]])
def test_a_run_that_ends_early_says_so(tmp_path, capsys, ends):
    (point,) = points({"workload": "get", "warm_up": "1 s", "axes": {"access": "once"}})
    told = cold.Evidence(configured({"workload": "get"}), Store(tmp_path, managed=False), point, {"manifest": None})
    told.end([{"t0_ns": 0, "deadline_ns": 10**10, "end_ns": end} for end in ends])
    early = max(ends) < 10**10
    assert told.ended_early_s == (4.0 if early else None)
    assert ("all objects were read 4.0 s before the deadline" in capsys.readouterr().err) == early


def test_objects_that_last_no_longer_than_the_warm_up_make_no_record(tmp_path):
    (point,) = points({"workload": "get", "warm_up": "1 s", "axes": {"access": "once"}})
    told = cold.Evidence(configured({"workload": "get"}), Store(tmp_path, managed=False), point, {"manifest": None})
    with pytest.raises(MeasurementFailed, match=r"0.50 s after the start, within the warm-up: stage more objects"):
        told.end([{"t0_ns": 0, "deadline_ns": 10**10, "end_ns": end} for end in (5 * 10**8, 2 * 10**9)])


def test_asked_of_roles_and_of_points_that_read_nothing(monkeypatch, tmp_path):
    (point,) = points({"workload": "put"})
    assert cold.asked(point) is None
    roles = {
        "uploads": {"workload": "put", "axes": {"object_size": "4 kB"}},
        "reads": {"workload": "get", "axes": {"engine": "obstore", "access": "cold"}},
    }
    (several,) = points({"roles": roles})
    assert cold.asked(several) == "cold"
    told = cold.Evidence(configured({"workload": "get"}), Store(tmp_path), several, {"roles": [{}, {}]})
    assert told._why(5) == "several roles share the store, and its disk reads tell not whose they are"
    (one,) = points({"roles": {"reads": roles["reads"]}})
    told = cold.Evidence(configured({"workload": "get"}), Store(tmp_path), one, {"roles": [{"manifest": None}]})
    told.read = 5
    assert cold.asked(one) == "cold" and told.point.workload == "get" and "several" not in told._why(5)


def test_a_file_of_tmpfs_is_not_counted_and_a_file_of_a_disk_is(tmp_path):
    assert page_cache.counted(Path("/dev/shm")) is not True
    assert page_cache.counted(Path("/proc")) is None
    from storelab.host.folders import filesystem

    if filesystem(tmp_path) in ("ext4", "xfs", "btrfs"):
        assert page_cache.counted(tmp_path) is True


def test_places_are_looked_at_evenly_over_all_bytes(tmp_path, monkeypatch):
    for i in range(100):
        (tmp_path / f"{i:03d}").write_bytes(bytes(1000))
    looked = []
    cache = page_cache.PageCache([str(tmp_path)])
    monkeypatch.setattr(cache, "_look_at", lambda path, offsets: looked.extend((path.name, o) for o in offsets))
    cache.look(sorted(tmp_path.iterdir()))
    places = [1000 * int(name) + offset for name, offset in looked]
    assert places == [i * 100_000 // page_cache.PLACES for i in range(page_cache.PLACES)]


def test_holes_are_not_looked_at(tmp_path):
    """Their bytes come at once, whatever is cached."""
    with (tmp_path / "sparse").open("wb") as f:
        f.truncate(100 * 2**20)
        f.seek(50 * 2**20)
        f.write(bytes(4096))
    cache = page_cache.PageCache([str(tmp_path)])
    cache.look([tmp_path / "sparse"])
    assert cache.seen <= 2, "one extent"


def test_only_root_may_drop_all(monkeypatch):
    config = configured({"workload": "get", "axes": {"access": "cold"}}, drop_caches=True)
    told = plan.make(config, WORKLOADS)
    monkeypatch.setattr(page_cache, "may_drop_all", lambda: False)
    with pytest.raises(UserError, match=r"drop_caches: only root may tell the kernel .*; run as root, or leave"):
        cold.check(config, told)
    monkeypatch.setattr(page_cache, "may_drop_all", lambda: True)
    cold.check(config, told)


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ({"kind": "ceph"}, "keeps its data in memory"),
        ({"kind": "seaweedfs", "backing": "tmpfs", "directory": "/dev/shm/x"}, "keeps its data in memory"),
        ({"kind": "s3", "endpoint": "http://127.0.0.1:1"}, "is not storelab's"),
    ],
)
def test_check_says_where_nothing_is_cold(tmp_path, store, said):
    config = configured({"workload": "get", "axes": {"access": "cold"}}, store, state=str(tmp_path))
    (line,) = cold.notes(plan.make(config, WORKLOADS), all_stores(config))
    assert said in line


def test_check_says_nothing_of_a_store_on_disk_and_tells_working_sets(tmp_path):
    axes = {"access": "cold", "working_set": "1 GB", "object_size": "1 MB"}
    config = configured({"workload": "get", "axes": axes}, {"kind": "seaweedfs"}, state=str(tmp_path))
    (line,) = cold.notes(plan.make(config, WORKLOADS), all_stores(config))
    assert line.startswith("sweep a: a working set of 1 GB is ") and "times the memory of this host" in line


def test_what_is_due_after_the_end_is_not_missed():
    """An open loop of 100/s that ends at once, 1 s after its start: 100 or few more were due of the 1000."""
    now = clock.now_ns()
    loop = arrivals.Open(now - 10**9, now + 9 * 10**9, 100.0, 0, 1)
    assert 100 <= loop.missed() <= 200
    assert arrivals.Open(now - 10**10, now - 1, 100.0, 0, 1).missed() == 1000, "behind its deadline all are"


def test_events_end_behind_their_file(tmp_path):
    (point,) = points({"workload": "events", "axes": {"access": "cold", "step": 50}})
    job = Job(point, 0, Endpoint("http://127.0.0.1:1"), [Bucket("b", "", 0)], tmp_path, None)
    client = WORKLOADS["events"].client(job)
    client.step, client.entries = 50, 120
    assert [client.finished(n) for n in range(4)] == [False, False, False, True] and client.cold is False
    warm = WORKLOADS["events"].client(replace(job, point=points({"workload": "events"})[0]))
    warm.step, warm.entries = 50, 120
    assert not any(warm.finished(n) for n in range(9))


def test_every_engine_of_get_obeys_it():
    for engine in ("s5cmd", "fsspec", "obstore", "loadgen"):
        (point,) = points({"workload": "get", "axes": {"engine": engine, "access": "cold"}})
        config = configured({"workload": "get"})
        check_axes.possible(point, all_stores(config)["one"])


RUN = {"cold": {"proven": "cold", "disk_share": 1.25, "step": {"ratio": 2.0}}}


def test_what_tables_take_from_a_record():
    assert told_by_tables.of_run(RUN) == {
        "access_proven": "cold",
        "disk_reads_percent": 125.0,
        "first_over_again": 2.0,
    }
    nothing = dict.fromkeys(told_by_tables.COLUMNS)
    assert told_by_tables.of_run({}) == nothing, "an older record"
    assert told_by_tables.of_run({"cold": {"proven": None, "disk_share": None, "step": None}}) == nothing


def test_a_group_of_runs_has_every_proof_and_medians():
    runs = [told_by_tables.of_run({"cold": {"proven": p, "disk_share": s}}) for p, s in (("cold", 1), ("partly", 0.5))]
    frame = pd.DataFrame(runs).astype(told_by_tables.DTYPES)
    told = told_by_tables.of_group(frame)
    assert told["access_proven"] == "cold, partly" and told["disk_reads_percent"] == 75
    assert pd.isna(told["first_over_again"])
    none = told_by_tables.of_group(pd.DataFrame([told_by_tables.of_run({})]).astype(told_by_tables.DTYPES))
    assert none["access_proven"] is None and pd.isna(none["disk_reads_percent"])


def groups_of(*rows: dict) -> pd.DataFrame:
    """Rows of throughput.csv: columns of axes stand before `n`."""
    spread = {
        f"{m}_{part}_{u}": 5.0 for m, u in (("throughput", "mb_per_s"), ("rate", "per_s")) for part in groups.PARTS
    }
    empty = {"access_proven": None, "disk_reads_percent": None, "first_over_again": None}
    first = {"store": "s", "workload": "get", "workers": 8, "access": "", "n": 3}
    return pd.DataFrame([first | spread | empty | r for r in rows])


def test_the_paper_shows_what_was_asked_beside_what_was_proven():
    table = groups_of(
        {"access": "cold", "access_proven": "cold", "disk_reads_percent": 101.0, "first_over_again": 3.0},
        {"access": "warm", "access_proven": "warm", "disk_reads_percent": 0.0},
        {"access": "once"},
        {"access": "warm", "workers": 16, "access_proven": "warm"},
    )
    lines = [line for line in throughput.accesses(table).splitlines() if line.startswith("s &")]
    assert [line.split(" & ")[3:6] for line in lines] == [
        ["cold", "cold", "101"],
        ["once", "not shown", "--"],
        ["warm", "warm", "0"],
    ], "and no warm row that has nothing cold beside it"
    assert throughput.accesses(table[table["access"] == "warm"]) == ""
    assert throughput.accesses(table.drop(columns="access")) == ""
