"""Each engine with each operation on a shared store, and the engine `fsspec` with separate deployments.

The tests go from configuration to record. Reads and deletions end with the objects, others with a short window.
"""

import pytest
from laboratory import holds

from storelab.core import engines
from storelab.core.errors import MeasurementFailed

pytestmark = pytest.mark.real
AXES = {"workers": 3, "clients": 2, "object_size": "20 kB"}
RANGES = {"object_size": "1 MB", "range_size": "5 kB"}

ONCE = {"access": "once"}
OBJECTS = 40

# workload -> (axes, operations, bytes of each, or None)
OPERATIONS = {
    "put": ({}, {"PUT"}, 20_000),
    "get": (ONCE, {"GET"}, 20_000),
    "get_range": (ONCE | RANGES, {"GET_RANGE"}, 5000),
    "stat": ({}, {"HEAD"}, 0),
    "list": ({"keys": 50}, {"LIST"}, 0),
    "delete": ({}, {"DELETE"}, 0),
    "mix": ({"mix": "all"}, {"GET", "PUT", "HEAD", "LIST", "DELETE"}, None),
}
TRANSFERS = ("s5cmd", "fsspec", "obstore", "loadgen")
PAIRS = [(e.name, w) for e in engines.ALL if e.name in TRANSFERS for w in OPERATIONS if w in e.uses]


@pytest.mark.parametrize(("engine", "workload"), PAIRS, indirect=["engine"])
def test_engine_does_operation(lab, seaweedfs, keys, engine, workload):
    axes, operations, size = OPERATIONS[workload]
    axes = {k: v for k, v in AXES.items() if k != "object_size" or workload not in ("list", "mix", "delete")} | axes
    ends = workload in ("get", "get_range", "delete")  # when each object was used once
    sweep = {"workload": workload, "objects": OBJECTS, "duration": "20 s" if ends else "2 s", "warm_up": "1 ms"}
    sweep |= {"axes": axes | {"engine": engine}}
    urls = [e.url for e in seaweedfs.endpoints(2)]
    ((_, record, rows),) = lab({"kind": "s3", "endpoint": urls}, it=sweep)
    assert record["valid"] and all(c["ok"] for c in record["checks"]) and record["engine"]["name"] == engine
    assert rows and {r["op"] for r in rows} <= operations and {r["error"] for r in rows} == {None}
    assert {r["client"] for r in rows} == {0, 1}
    assert not ends or len({r["object"] for r in rows}) == len(rows) == OBJECTS
    assert size is None or {r["bytes"] for r in rows} == {size}
    if engine != "s5cmd":  # it reports no beginning and no worker
        assert all(record["start_ns"] <= r["start_ns"] < r["end_ns"] for r in rows)
        assert {r["worker"] for r in rows} <= set(range(3))


# The engine `fsspec`, and deployments

FSSPEC = AXES | {"engine": "fsspec"}


@pytest.mark.heavy
def test_fsspec_measures_directory(lab, tmp_path):
    """Foreign files stay, and objects that were cut short after they were staged are errors."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "of someone else").write_text("stays")
    settings = {"kind": "directory", "path": str(tmp_path / "data")}
    sweeps = {
        "put": {"workload": "put", "axes": FSSPEC},
        "get": {"workload": "get", "axes": FSSPEC},
        "range": {"workload": "get_range", "axes": {"clients": 2, "workers": 3} | RANGES},
    }
    holds(lab(settings, **sweeps), "file")
    assert (tmp_path / "data" / "of someone else").read_text() == "stays"
    for path in (tmp_path / "data").rglob("data/payload-*/0*"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(MeasurementFailed, match="19999 B instead of 20000 B"):
        lab(settings, get={"workload": "get", "axes": FSSPEC | {"workers": 4}})


@pytest.mark.heavy
def test_accounts_and_https(lab, port_block):
    """Two accounts own two buckets each, over https; then five accounts for two clients that sign in turn."""
    axes = {"clients": 2, "workers": 2, "accounts": 2, "buckets": 4, "scheme": "https", "engine": ["s5cmd", "fsspec"]}
    many = axes | {"engine": "obstore", "accounts": 5, "buckets": 10}
    measured = lab(
        {"kind": "seaweedfs", "port": port_block},
        put={"workload": "put", "axes": axes},
        get={"workload": "get", "axes": axes},
        more_put={"workload": "put", "axes": many},
        more_get={"workload": "get", "axes": many},
    )
    assert [p.axes["accounts"] for p, *_ in measured].count(5) == 2 and len(measured) == 6
    for p, record, rows in measured:
        deployment = record["store"]["deployment"]
        assert deployment["tls"] and deployment["accounts"] >= p.axes["accounts"]
        if p.sweep == "more_get":
            assert len({r["object"] for r in rows}) == 12, "objects in the buckets of all five"
        assert record["store"]["name"] == "one" and all(c["endpoint"].startswith("https://") for c in record["clients"])
        assert {r["error"] for r in rows} == {None} and {r["client"] for r in rows} == {0, 1}


@pytest.mark.heavy
def test_redundancy_takes_servers_and_space(lab, port_block):
    """Two copies take twice the space of one, which comes back when the store reclaims it."""
    axes = {"workers": 4, "object_size": "200 kB", "servers": 3, "redundancy": ["none", "replica-2"]}
    settings = {"kind": "seaweedfs", "port": port_block, "volume_size": "64 MB", "max_volumes": 40}
    ratio = {}
    for point, record, rows in lab(settings, space={"workload": "space", "axes": axes}):
        deployment, o = record["store"]["deployment"], record["observed"]
        assert deployment["daemons"]["volume"] == 3 and deployment["redundancy"] == point.axes["redundancy"]
        stored, before = o["stored_bytes"], o["used_before_bytes"]
        assert o["objects"] >= len(rows) and stored == o["objects"] * 200_000
        ratio[point.axes["redundancy"]] = (o["used_after_put_bytes"] - before) / stored
        assert o["used_after_reclaim_bytes"] - before < 0.2 * stored and len(o["returned"]) > 5
    assert 0.98 < ratio["none"] < 1.2 and 1.96 < ratio["replica-2"] < 2.4
