"""ROOT as a reader: its values against those of uproot, its counts against a proxy on the wire."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import uproot
from counting_proxy import RootProxy
from laboratory import needs_xrootd
from staged_root import failed, job_for, prepared, read, run, staged_root

from storelab.core import clock
from storelab.engines.common import selections
from storelab.install import wheels
from storelab.stores import make
from storelab.stores.external import DirectorySettings as Directory
from storelab.stores.xrootd.store import Settings as XRootD
from storelab.workloads import WORKLOADS

if not wheels.has("ROOT"):
    pytest.skip("ROOT is not installed: storelab install root", allow_module_level=True)
pytestmark = [pytest.mark.real, pytest.mark.heavy]
BUCKET = "storelab-root-reference"


def reads_of(job):
    """Return the rows of a run's reads and of its failures."""
    selections.GRACE = 10.0
    global kept  # otherwise the file is closed before the proxy is read, and the answer to that is on the wire too
    client = WORKLOADS[job.point.workload].client(job)
    client.prepare()
    start = clock.now_ns()
    client.run(start, start + 4_000_000_000)  # enough for two reads on a busy machine
    kept = client
    return client.reads, client.ops


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Return (store, endpoint, folder, facts) of a directory."""
    folder = tmp_path_factory.mktemp("local")
    (folder / "data").mkdir()
    store = make("one", Directory(kind="directory", path=str(folder / "data")), folder / "state")
    with staged_root(store, BUCKET, folder) as (endpoint, where, facts):
        yield store, endpoint, where, facts


@pytest.fixture
def client(local):
    _, endpoint, folder, facts = local
    with prepared(BUCKET, folder, facts) as one:

        def root(url=None, workload="read_entries", key="good", protocol="file", **axes):
            return one(url or endpoint.url, workload, {"engine": "root"} | axes, key, protocol=protocol)

        yield root


def test_local_files_are_read(client):
    for workload, axes in (
        ("read_entries", {"entry_fraction": 1.0}),
        ("read_volume", {"volume_fraction": 5.0}),
        ("read_entries", {}),
    ):
        result = read(client(workload=workload, **axes), 2)
        assert not failed(result), result.checks
        reads, settings = result.reads, result.engine["settings"]
        assert len(reads["read"]) == 2 and set(reads["wire_bytes"]) == {None} and min(reads["requests"]) >= 1
        both = zip(reads["asked_bytes"], reads["needed_bytes"], strict=True)
        assert all(a >= 0.98 * n for a, n in both), "nothing is kept between reads"
        assert all(min(reads[k]) > 0 for k in ("transfer_ns", "decompress_ns", "deserialise_ns"))
        assert result.engine["version"].startswith("ROOT 6.") and settings["cache_bytes"] == 40_000_000
        assert {"content", "entries decoded", "side-car"} <= {c.name for c in result.checks}


def test_values_are_those_of_uproot(client, local):
    """Read jagged and flat branches, some of which have a counter that was not chosen."""
    from storelab.engines import root

    one = client(volume_fraction=50.0)
    with uproot.open(local[2] / "s.root") as file:
        tree = file[local[3]["tree"]]
        one.branches = [b for b in one.branches if tree[b].typename.endswith("[]") or b.endswith("9")]
    one.open_file()
    entries = np.array([3, 4, 250, 251, 700, 999])
    with uproot.open(local[2] / "s.root") as file:
        tree = file[local[3]["tree"]]
        for i in range(0, len(one.branches), 7):
            array = tree[one.branches[i]].array(library="np")[entries]
            flat = np.concatenate([np.atleast_1d(a) for a in array])
            assert one.tree.values(i, entries).tobytes() == flat.tobytes(), one.branches[i]
    assert one.tree.counters > 0 and root.root_version().startswith("ROOT 6")


def test_changed_byte_fails_check(client):
    result, _ = run(client(key="bad"), 0.7)
    assert "content" in failed(result) or set(result.ops["error"]) == {"OSError"}, result.checks


def test_other_and_missing_files_are_errors(client, local):
    one = client()
    one.staged.size[5] += 1
    result, _ = run(one, 0.5)
    assert failed(result) == {"reads", "side-car"} and set(result.ops["error"]) == {"SideCarMismatch"}
    result, _ = run(client(key="nothing-here"), 0.5)
    assert failed(result) == {"reads"} and set(result.ops["error"]) == {"OSError"}


@needs_xrootd[0]
@needs_xrootd[1]
def test_counts_are_those_of_proxy(tmp_path):
    """Compare wire bytes and read calls of whole runs. ROOT runs in another process: it would stop the proxy."""
    settings = XRootD(kind="xrootd", protocol="root", subnet="10.213.98.0/30")
    store = make("xr", settings, tmp_path / "state")
    store.up()
    try:
        with staged_root(store, BUCKET, tmp_path) as (_, folder, facts):
            for axes in ({"entry_fraction": 1.0}, {"volume_fraction": 5.0}):
                every = {a.name: a.default for a in WORKLOADS["read_entries"].axes} | {"engine": "root"} | axes
                with (
                    RootProxy(store.namespace.server, settings.port) as proxy,
                    ProcessPoolExecutor(1, get_context("spawn")) as other,
                ):
                    job = job_for(BUCKET, folder, facts, proxy.url, "read_entries", every, protocol="root")
                    reads, failures = other.submit(reads_of, job).result(60)
                    assert len(reads) > 1 and not failures
                    assert sum(r["wire_bytes"] for r in reads) == proxy.received
                    assert sum(r["requests"] for r in reads) == proxy.kinds["read"] + proxy.kinds["readv"]
    finally:
        store.down()


def test_records_need_bytes_of_other_engines(lab, tmp_path):
    (tmp_path / "data").mkdir()
    axes = {"engine": ["root", "planned"], "volume_fraction": 5.0, "clients": 2}
    measured = lab(
        {"kind": "directory", "path": str(tmp_path / "data")},
        one={"workload": "read_volume", "axes": axes, "duration": "3 s"},
    )
    needed = {}
    for _, record, rows in measured:
        assert {r["error"] for r in rows} == {None} and all(c["ok"] for c in record["checks"])
        needed[record["engine"]["name"]] = {r["bytes"] for r in rows}
    assert needed.keys() == {"root", "planned"} and needed["root"] == needed["planned"]
