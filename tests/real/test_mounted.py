"""GlusterFS and OpenAFS as storelab starts, mounts, uses, loses, finds and stops them: one of each is shared by what measures."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from laboratory import bucket_for

from storelab.core import clock, plan, stores
from storelab.core.campaign.faults import Act, resolved
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.measure import point
from storelab.measure.faults.runner import Runner
from storelab.stores import all_stores, make
from storelab.stores.posix.mounted import Mounted, mounted
from storelab.workloads import WORKLOADS

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.heavy]
S = 10**9
FIXED = [
    Path(p)
    for p in ("/var/lib/glusterd", "/run/gluster", "/etc/openafs", "/etc/openafs/server", "/var/lib/openafs", "/")
]
KINDS = [k for k in stores.KINDS if issubclass(stores.load(k), Mounted)]
SUBNETS = (f"10.{140 + i // 16384 % 50}.{i // 64 % 256}.{i % 64 * 4}/30" for i in itertools.count(os.getpid() * 64))
WINDOWS = {"duration": "400 ms", "warm_up": "1 ms"}
SWEEPS = {
    "put": {"workload": "put", "axes": {"engine": "fsspec", "workers": 2, "object_size": "20 kB"}, **WINDOWS},
    "get": {
        "workload": "get",
        "objects": 8,
        "axes": {"engine": "fsspec", "workers": 2, "object_size": "1 MB"},
        **WINDOWS,
    },
    "sparse": {"workload": "read_volume", "axes": {"engine": "planned", "volume_fraction": 5.0}, **WINDOWS},
    "asked": {"workload": "probe", **WINDOWS, "duration": "50 ms"},
    "judged": {"workload": "consistency", "axes": {"engine": "fsspec", "clients": 2}, **WINDOWS},
}


def settings(kind: str, **more) -> dict:
    """Skips with the line that says what is missing."""
    found = {"kind": kind, "subnet": next(SUBNETS), **more}
    try:
        make("one", stores.load(kind).Settings.model_validate(found), Path("none")).require()
    except UserError as error:
        pytest.skip(str(error))
    return found


def left_behind(store) -> list[str]:
    """Processes, namespace, link and mounts of a store that is down."""
    folder = str(store.folder)
    out = [str(p.pid) for p in psutil.process_iter(["cmdline"]) if folder in " ".join(p.info["cmdline"] or ())]
    names = [Path("/run/netns") / store.namespace.name, Path("/sys/class/net") / store.namespace.name]
    out += [str(n) for n in names if n.exists()]
    return out + [line for line in Path("/proc/mounts").read_text().splitlines() if folder in line]


@pytest.fixture(scope="module", params=KINDS)
def lab(request, tmp_path_factory):
    """(store that runs, what measures the points of a sweep in it: rows of operations, record, folder of the point)."""
    folder = tmp_path_factory.mktemp(request.param)
    common = {"campaign": "lab", "name": "lab", "results": str(folder / "results"), "state": str(folder / "state")}
    common |= {"repetitions": 1, "calibrate": False, "use_stores": ["one"], "sweeps": SWEEPS}
    config = Config.model_validate(common | {"stores": {"one": settings(request.param)}})
    points = {p.sweep: p for p in plan.make(config, WORKLOADS)}
    store = all_stores(config)["one"]

    def measured(sweep: str):
        record = point.point(config, list(points.values()), points[sweep].key)
        at = config.raw / points[sweep].key
        assert all(c["ok"] for c in record["checks"]), record["checks"]
        return [r for table in sorted(at.glob("ops.*.parquet")) for r in pq.read_table(table).to_pylist()], record, at

    try:
        store.up()
        yield store, measured
    finally:
        store.down()
    assert left_behind(store) == []


def test_put_get_and_selections(lab):
    store, measured = lab
    for sweep, least in (("put", 1), ("get", 1), ("sparse", 1)):
        rows, record, _ = measured(sweep)
        assert len(rows) >= least and {r["error"] for r in rows} == {None}, sweep
    told = record["store"]["deployment"]
    assert told["system"] == store.system and told["version"][0].isdigit() and told["daemons"]["mount"] == 1
    assert str(store.folder) not in str(told)
    assert set(store.actors()) >= {n for stage in store.stages(["mount-1"]) for n in stage}


def test_probe(lab):
    """All that is asked in a short time has the answer yes; the rest stands in docs/capabilities.md."""
    store, measured = lab
    _, _, at = measured("asked")
    found = {(r["topic"], r["check"]): r for r in pq.read_table(at / "answers.0.parquet").to_pylist()}
    wrong = {check for (_, check), r in found.items() if r["answer"] not in ("yes", "not tried")}
    assert found and wrong <= {"glusterfs": set(), "openafs": {"extended attributes"}}[store.settings.kind]


def test_consistency(lab):
    _, measured = lab
    _, _, at = measured("judged")
    tables = sorted(at.glob("scenarios.*.parquet"))
    rows = [r for table in tables for r in pq.read_table(table).to_pylist()]
    assert sum(r["tried"] for r in rows) and not [r for r in rows if r["anomalies"] or r["errors"]]


def test_a_brick_is_killed_and_comes_back(lab):
    """What is written meanwhile is read while the brick is gone, and is on the brick in the end."""
    store, _ = lab
    if store.bears() == 0:
        pytest.skip("it has one server")
    bucket, way = bucket_for(store, "faulty"), store.access()
    bodies = {f"k{i}": os.urandom(50_000) for i in range(12)}
    given = [{"at": "200 ms", "act": "kill", "actor": "data.1"}, {"at": "2500 ms", "act": "restart", "actor": "data.1"}]
    acts = resolved([Act.model_validate(a) for a in given], 60 * S, 1.0, "faults.f")
    with Runner(store, "f", acts, report=print) as runner:
        t0_ns = clock.now_ns() + S // 10
        runner.start(t0_ns)
        clock.sleep_until(t0_ns + S)
        for key, body in bodies.items():
            way.write(bucket.name, key, body)
        assert {key: way.read(bucket.name, key) for key in bodies} == bodies
        assert not list((store.data / "brick-2" / bucket.name).glob("k*"))
        clock.sleep_until(t0_ns + 3 * S)
        runner.settle(60)
    states = [e["state"] for e in runner.events if e["kind"] == "state"]
    assert runner.failed() == [] and runner.recovered and states[0] == states[-1] == "clean" and "degraded" in states
    on_it = {p.name: p.read_bytes() for p in (store.data / "brick-2" / bucket.name).glob("k*")}
    assert on_it == bodies
    assert store.status().state == "up" and {key: way.read(bucket.name, key) for key in bodies} == bodies


def test_suspended_and_woken(lab):
    store, _ = lab
    pids = store.actors()
    store.suspend()
    told = {psutil.Process(p).status() for p in pids.values()}
    assert psutil.STATUS_STOPPED in told and told <= {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}
    store.up()
    assert store.actors() == pids and store.access().bucket_names()


KILLED = """
import json, os, sys
from pathlib import Path
from storelab.core import stores
from storelab.stores import make
given = json.loads(sys.argv[1])
store = make("one", stores.load(given["kind"]).Settings.model_validate(given), Path(sys.argv[2]))
real = store.daemons._record
store.daemons._record = lambda daemon, process: real(daemon, process) if daemon.name != "mount-1" else os.kill(os.getpid(), 9)
store.up()
"""


@pytest.mark.parametrize("kind", KINDS)
def test_killed_in_the_middle_of_up(kind, tmp_path):
    """With all servers there and a mount that nobody recorded: `down` leaves nothing, and touches no place of the system's."""
    given = settings(kind)
    before = {place: place.stat().st_mtime_ns for place in FIXED if place.exists()}
    store = make("one", stores.load(kind).Settings.model_validate(given), tmp_path)
    command = [sys.executable, "-c", KILLED, json.dumps(given), str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert store.namespace.processes()
    store.down()
    assert left_behind(store) == [] and not mounted(store.mount_point())
    assert {place: place.stat().st_mtime_ns for place in before} == before
