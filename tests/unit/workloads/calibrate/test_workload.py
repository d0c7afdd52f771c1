"""What `calibrate` and cold reads prepare for their clients, and small facts of records, registries and clocks."""

import ctypes
import hashlib
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from storelab.analysis.parts.registry import Made
from storelab.analysis.records import campaign
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.datasets import payload
from storelab.engines.common import selections
from storelab.engines.contract import Job
from storelab.gang import clocks
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.calibrate import local_copies, workload

FIXED = {"data_seed": 11, "duration_ns": 10**9}


def point(operation="get", target="network", engine="obstore", **axes):
    every = {a.name: a.default for a in WORKLOADS["calibrate"].axes}
    told = (
        every | {"operation": operation, "target": target, "engine": engine, "object_size": 3000, "clients": 2} | axes
    )
    return Point("nullserver", "calibrate", told, 1, f"nullserver/calibrate/{operation}", "s", 5, 0, FIXED)


@pytest.fixture
def prepared(tmp_path):
    """What `before` leaves of a point: (job, bodies that the null server was given)."""

    def before(p):
        (tmp_path / "scratch").mkdir(exist_ok=True)
        config = SimpleNamespace(scratch=tmp_path / "scratch", campaign_dir=tmp_path / "campaign")
        given = []
        store = SimpleNamespace(name="nullserver", folder=tmp_path / "state" / "nullserver", add_bodies=given.extend)
        job = {
            **{"limits": {"throughput": 5, "requests_per_s": 6, "room_bytes": 7}, "attempt": "1"},
            **{"buckets": [asdict(Bucket("b", "", 0)), asdict(Bucket("c", "", 0))]},
        }
        WORKLOADS["calibrate"].before(config, store, p, job)
        return job, given

    return before


@pytest.mark.parametrize("operation", ["get", "get_range"])
def test_downloads_of_the_null_server(prepared, tmp_path, operation):
    """A key's last but one part names its body, by which the server finds it; each has its true size and hash."""
    p = point(operation, range_size=100)
    job, given = prepared(p)
    assert job["limits"] == {"throughput": None, "requests_per_s": None, "room_bytes": 7} and "extra" not in job
    path = Path(job["manifest"])
    assert path.is_absolute() and path.parent == tmp_path / "campaign" / "work" / p.key / "1"
    told = json.loads(path.read_text())
    assert told["buckets"] == [["b", ""]] and told["store"] == "nullserver"
    assert [f.stat().st_size for f in given] == [3000] * payload.BODIES and len({f.read_bytes() for f in given}) == len(
        given
    )
    assert told["bodies"] == [{"size": 3000, "sha256": hashlib.sha256(f.read_bytes()).hexdigest()} for f in given]
    columns = told["objects"]
    assert len(columns["key"]) == len(set(columns["key"])) == workload.KEYS and set(columns["bucket"]) == {0}
    for key, body in zip(columns["key"], columns["body"], strict=True):
        assert key.startswith("data/") and key.split("/")[-2] == given[body].name
    assert {columns["body"].count(b) for b in range(len(given))} == {workload.KEYS // len(given)}, "each as often"
    assert len(columns["bucket"]) == len(columns["body"]) == workload.KEYS
    assert (told["dataset"]["object_size"], told["dataset"]["seed"], told["dataset"]["kind"]) == (3000, 11, "payload")


def test_listings_of_the_null_server(prepared):
    """The folder's name tells its keys, as the name of the staged data set does."""
    job, given = prepared(point("list", keys=5000, prefix_depth=2))
    told = json.loads(Path(job["manifest"]).read_text())
    assert not given and told["dataset"]["name"] == "keys-3kB-5000x1-depth2" and told["buckets"] == [["b", ""]]
    assert told["dataset"]["keys"] == 5000 and told["dataset"]["depth"] == 2 and told["objects"]["key"] == []
    job, given = prepared(point("stat"))
    assert len(given) == payload.BODIES and len(json.loads(Path(job["manifest"]).read_text())["objects"]["key"]) == 64


@pytest.mark.parametrize(
    ("axes", "says"),
    [({}, "keys: list needs some"), ({"keys": 2 * 10**6}, "too many"), ({"keys": 9, "prefix_depth": 1}, "levels deep")],
)
def test_listings_that_cannot_be(axes, says):
    with pytest.raises(UserError, match=says):
        WORKLOADS["calibrate"].possible(point("list", engine="loadgen", **axes))
    WORKLOADS["calibrate"].possible(point("list", engine="loadgen", keys=1000))


def test_uploads_and_deletions_of_the_null_server(prepared):
    job, given = prepared(point("put"))
    assert not given and "manifest" not in job and "extra" not in job
    job, given = prepared(point("delete"))
    assert not given and "manifest" not in job
    names = job["extra"]["objects"]
    assert len(names) == 2 and len({key for mine in names for _, key in mine}) == sum(map(len, names)) == 200_000


@pytest.mark.parametrize(("target", "operation"), [("memory", "copy"), ("tmpfs", "write"), ("disk", "read")])
def test_local_points_get_a_folder_on_disk(prepared, tmp_path, target, operation):
    job, given = prepared(point(operation, target, "none"))
    assert job["extra"] == {"disk": str(tmp_path / "state" / "nullserver" / "calibrate")}
    assert not given and "manifest" not in job and job["limits"]["throughput"] is None


def job_of(p, tmp_path):
    return Job(p, 0, Endpoint("http://127.0.0.1:9", "s3"), [Bucket("b", "", 0)], tmp_path, None)


def test_clients_are_those_of_the_operation(tmp_path):
    for operation in ("put", "get", "get_range", "delete", "stat", "list"):
        p = point(operation, keys=1000 if operation == "list" else 0)
        client = WORKLOADS["calibrate"].client(job_of(p, tmp_path))
        other = WORKLOADS[operation].client(job_of(workload.stand_in(p), tmp_path))
        assert type(client) is type(other) and client.job.point.workload == operation
        assert client.job.point.axes == other.job.point.axes and client.job.point.axes["object_size"] == 3000
    for operation, target in (("copy", "memory"), ("write", "tmpfs"), ("read", "disk")):
        client = WORKLOADS["calibrate"].client(job_of(point(operation, target, "none"), tmp_path))
        assert type(client) is local_copies.CLIENTS[operation] and client.job.point.workload == "calibrate"


# Cold reads


@pytest.mark.parametrize("backing", ["disk", "memory", "tmpfs"])
def test_cold_reads_drop_the_pages_of_the_folders_in_which_the_data_lie(tmp_path, backing):
    jobs = {}
    for kind in ("file", "managed", "external"):
        store = SimpleNamespace(
            **{"protocol": "file" if kind == "file" else "s3", "managed": kind == "managed", "path": tmp_path},
            **{"data": tmp_path / "data", "deployment": lambda: {"backing": backing}},
        )
        for access in ("cold", "warm"):
            jobs[kind, access] = {"buckets": [{"name": "z"}, {"name": "a"}, {"name": "z"}]}
            p = SimpleNamespace(axes={"access": access, "engine": "uproot-s3fs"})
            WORKLOADS["read_entries"].before(None, store, p, jobs[kind, access])
    assert all("extra" not in job for (_, access), job in jobs.items() if access == "warm")
    kept = {kind: job["extra"]["pages"] for (kind, access), job in jobs.items() if access == "cold"}
    if backing == "disk":
        assert kept == {
            "file": [str(tmp_path / "a"), str(tmp_path / "z")],
            "managed": [str(tmp_path / "data")],
            "external": [],
        }
    else:
        assert kept == {"file": [], "managed": [], "external": []}, "there is nothing to drop"


# Small facts


def test_what_is_known_and_what_is_made_make_up_one_mapping():
    maker = SimpleNamespace(declared=("b", "c"), make=lambda name, source: f"made {name} of {source['a']}")
    made = Made({"a": 1, "b": "known"}, maker)
    assert len(made) == 3 == len(list(made)) and set(made) == {"a", "b", "c"}
    assert (made["b"], made["c"]) == ("known", "made c of 1") and len(made) == 3


def test_a_later_schema_is_told_with_its_number(monkeypatch, tmp_path):
    told = {}
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "plan.json").write_text("{}")
    monkeypatch.setattr(campaign.evidence, "plan_of", lambda raw: told)
    for schema in (None, 1):
        told |= {} if schema is None else {"schema": schema}
        assert campaign.read_plan(tmp_path) is told
    told |= {"schema": 7}
    with pytest.raises(UserError, match="has schema 7, which this storelab does not know; use a later"):
        campaign.read_plan(tmp_path)


def test_measuring_processes_do_without_pandas(tmp_path):
    """Though it was already looked for by others: ours is asked first."""
    code = """
import sys
from storelab.core import records
from pathlib import Path
from storelab.gang import prefork
prefork.without_pandas()
records.write_table(Path(sys.argv[1]), {"n": "int64"}, {"n": [1, 2]})
try:
    import pandas
except ModuleNotFoundError as error:
    print(error.name, "pandas" in sys.modules)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "t.parquet")], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["pandas", "False"] and (tmp_path / "t.parquet").exists()


def test_without_pandas_asks_first(monkeypatch):
    """In this process: nothing may stand before it."""
    from storelab.gang import prefork

    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    prefork.without_pandas()
    with pytest.raises(ModuleNotFoundError, match="does without pandas"):
        sys.meta_path[0].find_spec("pandas")
    assert sys.meta_path[0].find_spec("numpy") is None


@pytest.mark.parametrize(("status", "state", "told"), [(0, 0, 250_000), (0, 64, None), (5, 0, 250_000), (-1, 0, None)])
def test_the_kernels_bound_on_its_clock(monkeypatch, status, state, told):
    """struct timex: the fourth word is maxerror in us, the sixth the status; bit 0x40: nobody disciplines the clock."""

    def adjtimex(reference):
        words = ctypes.cast(reference, ctypes.POINTER(ctypes.c_long * 64)).contents
        words[:7] = [0, 1, 2, 250, 4, state, 0x40]
        return status

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(adjtimex=adjtimex))
    assert clocks.kernel_error_ns() == told


def test_the_error_of_another_file_has_its_class():
    error = selections.not_staged("b/k")
    assert (
        isinstance(error, selections.WrongData)
        and error.kind == "SideCarMismatch"
        and "baskets of b/k are not" in str(error)
    )
