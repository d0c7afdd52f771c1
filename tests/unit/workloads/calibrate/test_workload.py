"""The data that `calibrate` prepares for its clients at the null server, and the pages that cold reads drop."""

import hashlib
import json
from types import SimpleNamespace

import pytest
from made_jobs import gang_job
from refusals import NONE, check_refused

from storelab.core import calibration
from storelab.core.model import Point
from storelab.datasets import payload
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads import WORKLOADS, calibrate

CALIBRATE = WORKLOADS["calibrate"]
FIXED = {"data_seed": 11, "duration_ns": 10**9}
LOCAL = {"copy": "memory", "write": "tmpfs", "read": "disk"}


def point(operation="get", target="network", engine="obstore", **axes):
    defaults = {a.name: a.default for a in CALIBRATE.axes}
    values = {"operation": operation, "target": target, "engine": engine, "object_size": 3000, "clients": 2} | axes
    return Point("nullserver", "calibrate", defaults | values, 1, f"nullserver/calibrate/{operation}", "s", 5, 0, FIXED)


@pytest.fixture
def prepared(tmp_path):
    """Return a function that returns the job of a point, and the bodies that the null server received."""

    def before(p):
        (tmp_path / "scratch").mkdir(exist_ok=True)
        config = SimpleNamespace(scratch=tmp_path / "scratch", campaign_dir=tmp_path / "campaign")
        given = []
        store = SimpleNamespace(name="nullserver", folder=tmp_path / "state" / "nullserver", add_bodies=given.extend)
        limits = {"throughput": 5, "requests_per_s": 6, "room_bytes": 7}
        job = gang_job(limits=limits, attempt="1", buckets=[Bucket("b"), Bucket("c")])
        CALIBRATE.before(config, store, p, job)
        assert job.limits == {"throughput": None, "requests_per_s": None, "room_bytes": 7}
        return job, given

    return before


def test_calibration_runs_at_the_null_server():
    """Its operations are those that have a ceiling, with the names of their workloads."""
    assert (CALIBRATE.name, CALIBRATE.needs, CALIBRATE.dataset) == ("calibrate", ("null_server",), None)
    assert [w.name for w in WORKLOADS.values() if "null_server" in w.needs] == ["calibrate"]
    assert set(calibrate.OPERATIONS) == set(calibration.OPERATIONS)
    assert all(name == w.name for name, w in calibrate.OPERATIONS.items())
    assert [a.name for a in CALIBRATE.axes] == [a.name for a in calibration.AXES]


def test_downloads_name_their_bodies(prepared, tmp_path):
    """The null server finds a body by the second last part of a key; each has its true size and hash."""
    for operation in ("get", "get_range"):
        p = point(operation, range_size=100)
        job, given = prepared(p)
        path = job.manifest
        assert path.is_absolute() and path.parent == tmp_path / "campaign" / "work" / p.key / "1"
        manifest = json.loads(path.read_text())
        assert manifest["buckets"] == [["b", ""]] and manifest["store"] == "nullserver" and not job.extra
        contents = [f.read_bytes() for f in given]
        assert [len(body) for body in contents] == [3000] * payload.BODIES and len(set(contents)) == len(contents)
        assert manifest["bodies"] == [{"size": 3000, "sha256": hashlib.sha256(b).hexdigest()} for b in contents]
        keys, bodies, place = (manifest["objects"][name] for name in ("key", "body", "bucket"))
        assert len(keys) == len(set(keys)) == len(bodies) == len(place) == calibrate.KEYS and set(place) == {0}
        for key, body in zip(keys, bodies, strict=True):
            assert key.startswith("data/") and key.split("/")[-2] == given[body].name
        assert {bodies.count(b) for b in range(len(given))} == {calibrate.KEYS // len(given)}, "each equally often"
        assert {"object_size": 3000, "seed": 11, "kind": "payload"}.items() <= manifest["dataset"].items()


def test_listings_name_a_folder_and_uploads_nothing(prepared):
    """The folder has the name of the staged data set, from which the null server derives the keys."""
    job, given = prepared(point("list", keys=5000, prefix_depth=2))
    manifest = json.loads(job.manifest.read_text())
    assert not given and manifest["dataset"]["name"] == "keys-3kB-5000x1-depth2" and manifest["buckets"] == [["b", ""]]
    assert manifest["dataset"]["keys"] == 5000 and manifest["dataset"]["depth"] == 2
    assert manifest["objects"]["key"] == []
    job, given = prepared(point("stat"))
    assert len(given) == payload.BODIES and len(json.loads(job.manifest.read_text())["objects"]["key"]) == 64
    job, given = prepared(point("put"))
    assert not given and job.manifest is None and not job.extra


def test_deletions_have_more_names_than_time(prepared, monkeypatch):
    """Each client has names for a number of requests, up to a number of objects of the whole point."""
    assert (calibrate.DELETIONS, calibrate.MAX_DELETIONS) == (100_000, 800_000)
    monkeypatch.setattr(calibrate, "DELETIONS", 1000)
    monkeypatch.setattr(calibrate, "MAX_DELETIONS", 8000)
    for clients, batch, number in ((1, 1, 1000), (1, 5, 5000), (4, 5, 2000), (1, 10, 8000)):
        job, given = prepared(point("delete", clients=clients, batch=batch))
        names = job.extra["objects"]
        assert not given and job.manifest is None
        assert names == [[(0, f"put/{c}/{i:07d}") for i in range(number)] for c in range(clients)], (clients, batch)


def test_local_points_get_a_folder_on_disk(prepared, tmp_path):
    for operation, target in LOCAL.items():
        job, given = prepared(point(operation, target, "none"))
        assert job.extra == {"disk": str(tmp_path / "state" / "nullserver" / "calibrate")}
        assert not given and job.manifest is None


def job_of(p, tmp_path):
    return Job(p, 0, Endpoint("http://127.0.0.1:9", "s3"), [Bucket("b", "", 0)], tmp_path, None)


def test_clients_are_those_of_the_operation(tmp_path):
    for operation in ("put", "get", "get_range", "delete", "stat", "list"):
        p = point(operation, keys=1000 if operation == "list" else 0)
        client = CALIBRATE.client(job_of(p, tmp_path))
        other = WORKLOADS[operation].client(job_of(calibrate.stand_in(p), tmp_path))
        assert type(client) is type(other) and client.job.point.workload == operation
        assert client.job.point.axes == other.job.point.axes and client.job.point.axes["object_size"] == 3000
    for operation, target in LOCAL.items():
        client = CALIBRATE.client(job_of(point(operation, target, "none"), tmp_path))
        assert type(client) is calibrate.CLIENTS[operation] and client.job.point.workload == "calibrate"


def test_cold_reads_drop_pages_of_the_data(tmp_path):
    """It is only done if the data are on disk, and on this host."""
    disk = {"file": [str(tmp_path / "a"), str(tmp_path / "z")], "managed": [str(tmp_path / "data")], "external": []}
    for backing in ("disk", "memory", "tmpfs"):
        for kind, pages in disk.items():
            protocol = "file" if kind == "file" else "s3"
            store = SimpleNamespace(protocol=protocol, managed=kind == "managed", path=tmp_path, data=tmp_path / "data")
            store.deployment = lambda backing=backing: {"backing": backing}
            for access in ("cold", "warm"):
                job = gang_job(buckets=[Bucket("z"), Bucket("a"), Bucket("z")])
                p = SimpleNamespace(axes={"access": access, "engine": "uproot-s3fs"})
                WORKLOADS["read_entries"].before(None, store, p, job)
                found = job.extra.get("pages")
                assert found == ((pages if backing == "disk" else []) if access == "cold" else None), (backing, kind)


def test_possible_calibrations():
    """Cases: axes, and the axis that is refused."""
    copy, local = {"operation": "copy"}, {"engine": "none"}
    cases = [
        *[({}, None), ({"operation": "put"}, None), ({"operation": "delete"}, None)],
        ({"operation": "delete", "engine": "s5cmd"}, "engine"),
        *[({"operation": "get_range", "range_size": 5}, None), ({"operation": "get_range"}, "range_size")],
        *[(copy, "operation"), ({"target": "memory"}, "operation"), (local, "engine")],
        *[({"target": "memory"} | copy, "engine"), ({"target": "memory"} | copy | local, None)],
        *[({"target": target, "operation": "write"} | local, None) for target in ("tmpfs", "disk")],
        *[({"target": "disk", "operation": "read"} | local, None), ({"target": "disk"} | copy | local, "operation")],
        *[({"operation": "list", "keys": 1000}, None), ({"operation": "list"}, "keys")],
        *[({"operation": "list", "keys": 2 * 10**6}, "keys")],
        *[({"operation": "list", "keys": 9, "prefix_depth": 1}, "prefix_depth")],
    ]
    for axes, refused in cases:
        p, text = point(**{"engine": "loadgen"} | axes), refused or NONE
        check_refused(f"sweeps.{p.sweep}.axes.{refused}: ", text, calibrate.CALIBRATE.validate, p)


def test_stand_in_has_axes_of_its_operation():
    found = calibrate.stand_in(point("put", clients=3, object_size=77))
    assert found.workload == "put" and set(found.axes) == {a.name for a in WORKLOADS["put"].axes}
    assert (found.axes["clients"], found.axes["object_size"], found.axes["buckets"]) == (3, 77, 1)
