"""Cold reads: the data that a point needs, and disk reads that prove that nothing came from memory."""

import os
from pathlib import Path

import pytest
import small_plan
from made_jobs import client_result, gang_job
from refusals import NONE, check_refused, refusal
from small_plan import URL

from storelab.core import plan
from storelab.core.errors import MeasurementFailed
from storelab.host import page_cache, proc
from storelab.measure import check, cold
from storelab.stores import all_stores
from storelab.stores.base import Cooling
from storelab.stores.config import Config
from storelab.workloads import WORKLOADS

GET = {"workload": "get"}


def configured(sweep: dict, store: dict | None = None, **more) -> Config:
    return small_plan.configured(stores={"a": store or URL}, sweeps={"s": sweep}, **more)


def point(sweep: dict):
    (one,) = plan.make(configured(sweep), WORKLOADS)
    return one


def test_more_clients_than_objects_are_refused():
    few = point(GET | {"objects": 3, "axes": {"access": "once", "clients": 4}})
    check_refused("sweeps.s.objects: 4 clients", "there are only 3", WORKLOADS["get"].validate, few)
    WORKLOADS["get"].validate(point(GET | {"objects": 3, "axes": {"clients": 4}}))


def test_working_set_decides_number_of_objects():
    for size, wanted, objects in (("1 MB", "10 MB", 10), ("3 MB", "10 MB", 4), ("4 kB", "0 B", 64), ("4 kB", "1 B", 1)):
        one = point(GET | {"axes": {"object_size": size, "working_set": wanted}})
        assert one.fixed["objects"] == one.dataset["objects"] == objects
    config = configured(GET | {"axes": {"object_size": "1 GB", "working_set": "40 GB"}})
    check_refused("limits.stored_bytes: ", "40 GB", check.limits, config, plan.make(config, WORKLOADS))


def test_only_root_may_drop_all_caches(monkeypatch):
    config = configured(GET | {"axes": {"access": "cold"}}, drop_caches=True)
    planned = plan.make(config, WORKLOADS)
    for able in (False, True):
        monkeypatch.setattr(page_cache, "may_drop_all", lambda able=able: able)
        message = refusal(cold.check, config, planned)
        assert message == NONE if able else message.startswith("drop_caches: "), message


def test_check_notes_stores_that_cannot_be_cold(tmp_path):
    axes = {"axes": {"access": "cold"}}
    for store, words in (
        ({"kind": "ceph"}, "in memory"),
        ({"kind": "seaweedfs", "backing": "tmpfs", "directory": "/dev/shm/x"}, "in memory"),
        (URL, "storelab does not manage store a"),
    ):
        config = configured(GET | axes, store, state=str(tmp_path))
        (line,) = cold.notes(plan.make(config, WORKLOADS), all_stores(config))
        assert words in line
    axes["axes"] |= {"working_set": "1 GB", "object_size": "1 MB"}
    config = configured(GET | axes, {"kind": "seaweedfs"}, state=str(tmp_path))
    (line,) = cold.notes(plan.make(config, WORKLOADS), all_stores(config))
    assert line.startswith("sweep s: a working set of 1 GB is "), "its size, and nothing of a store on disk"


class Store:
    """A store on disk, as `Evidence` uses it."""

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


def result(end=10**10, deadline=10**10):
    return client_result(deadline_ns=deadline, end_ns=end, disk_read_bytes=7)


def collected(store: Store, one, job=None) -> cold.CacheCheck:
    return cold.CacheCheck(configured(GET), store, one, job or gang_job())


@pytest.fixture
def evidence(monkeypatch, tmp_path):
    """Return a function that returns `cold` of the record of a point of `served` bytes with `reads` from disk."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def found(reads=10**6, served=10**6, access="cold", counted=True, **facts) -> dict:
        counters = iter([1000, 1000 + reads])
        monkeypatch.setattr(proc, "disk_reads", lambda pid: next(counters))
        monkeypatch.setattr(page_cache, "counted", lambda folder: counted)
        pq.write_table(pa.table({"bytes": [served]}), tmp_path / "ops.0.parquet")
        one = collected(Store(tmp_path, **facts), point(GET | {"axes": {"access": access, "engine": "obstore"}}))
        one.cool()
        one.begin(0)
        one.end([result()])
        return one.record(tmp_path)

    return found


def test_disk_reads_decide_what_is_proven():
    for share, whole, dropped, expected in (
        (0.0, True, True, "warm"),
        (0.1, True, True, "warm"),
        (0.5, True, True, "partly"),
        (0.89, True, True, "partly"),
        (0.9, True, False, "cold"),
        (1.3, True, False, "cold"),
        (16.0, False, False, "partly"),  # ranges: read-ahead may hide that half of them came from memory
        (16.0, False, True, "cold"),
        (0.05, False, True, "warm"),
    ):
        assert cold.proven(share, whole, dropped) == expected, (share, whole, dropped)


def test_proof_depends_on_disk_reads_only(evidence):
    for access in ("warm", "once", "cold"):
        for reads, expected in ((10**6, "cold"), (5 * 10**5, "partly"), (0, "warm")):
            found = evidence(reads, access=access)
            assert found["asked"] == access and found["proven"] == expected and not found["why"]
            assert found["disk_share"] == reads / 10**6 and found["disk_read_bytes"] == reads
            assert found["served_bytes"] == 10**6 and found["done"] == (["done"] if access == "cold" else [])
    assert evidence(kept=0.5)["still_cached"] == 0.5


def test_record_without_proof_has_a_reason(evidence):
    for facts, counted, words in (
        ({"memory": True}, True, "in memory"),
        ({"managed": False}, True, "nothing can be done"),
        ({}, False, "not counted as disk reads"),
        ({}, None, "not counted as disk reads"),
    ):
        found = evidence(counted=counted, **facts)
        assert words in found["why"] and found["proven"] is None and found["disk_share"] is None, facts


def test_unreadable_counters_prove_nothing(monkeypatch, tmp_path):
    one = collected(Store(tmp_path), point(GET))
    monkeypatch.setattr(proc, "disk_reads", lambda pid: None)
    one.cool()
    one.begin(0)
    one.end([result(1, 1)])
    assert one.read is None and "counters" in one._why(5)


def test_early_end_is_recorded_and_printed(tmp_path, capsys):
    once = point(GET | {"warm_up": "1 s", "axes": {"access": "once"}})
    for last, early_s in ((6, 4.0), (10, None)):
        one = collected(Store(tmp_path, managed=False), once)
        one.end([result(4 * 10**9), result(last * 10**9)])
        assert one.ended_early_s == early_s
        assert ("4.0 s" in capsys.readouterr().err) is (early_s is not None)
    with pytest.raises(MeasurementFailed, match=r"0\.50 s .*within the warm-up"):
        one.end([result(5 * 10**8), result(2 * 10**9)])


def test_point_of_several_roles_proves_nothing(tmp_path):
    assert cold.access_mode(point({"workload": "put"})) is None
    roles = {
        "uploads": {"workload": "put", "axes": {"object_size": "4 kB"}},
        "reads": {"workload": "get", "axes": {"engine": "obstore", "access": "cold"}},
    }
    several, single = point({"roles": roles}), point({"roles": {"reads": roles["reads"]}})
    assert cold.access_mode(several) == cold.access_mode(single) == "cold"
    assert "roles" in collected(Store(tmp_path), several, gang_job(roles=[gang_job(), gang_job()]))._why(5)
    one = collected(Store(tmp_path), single, gang_job(roles=[gang_job()]))
    one.read = 5
    assert one.point.workload == "get" and "roles" not in one._why(5)
