"""The engine `fsspec` and the deployment axes through `measure.point`: the whole way from configuration to record."""

import pytest
from laboratory import holds

from storelab.core.errors import MeasurementFailed

pytestmark = pytest.mark.real


AXES = {"engine": "fsspec", "workers": 3, "clients": 2, "object_size": "20 kB"}
SWEEPS = {
    "put": {"workload": "put", "axes": AXES},
    "get": {"workload": "get", "axes": AXES},
    "range": {
        "workload": "get_range",
        "axes": {"clients": 2, "workers": 3, "object_size": "1 MB", "range_size": "5 kB"},
    },
}


def test_s3(lab, seaweedfs, keys):
    holds(lab({"kind": "s3", "endpoint": [e.url for e in seaweedfs.endpoints(2)]}, **SWEEPS), "s3")


def test_a_directory(lab, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "of someone else").write_text("stays")
    holds(lab({"kind": "directory", "path": str(tmp_path / "data")}, **SWEEPS), "file")
    assert (tmp_path / "data" / "of someone else").read_text() == "stays"


def test_a_wrong_answer_is_an_error(lab, tmp_path):
    """Objects that were cut short after they were staged: no byte of them counts."""
    (tmp_path / "data").mkdir()
    settings = {"kind": "directory", "path": str(tmp_path / "data")}
    lab(settings, get={"workload": "get", "axes": AXES})
    for path in (tmp_path / "data").rglob("data/payload-*/0*"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(MeasurementFailed, match="19999 B instead of 20000 B"):
        lab(settings, get={"workload": "get", "axes": AXES | {"workers": 4}})


@pytest.mark.heavy
def test_accounts_and_https(lab, port_block):
    """Two accounts own two buckets each; the front-end speaks https with a certificate of its own, s5cmd and s3fs verify
    it. Then five accounts for two clients."""
    axes = {"clients": 2, "workers": 2, "accounts": 2, "buckets": 4, "scheme": "https", "engine": ["s5cmd", "fsspec"]}
    many = axes | {"engine": "obstore", "accounts": 5, "buckets": 10}  # a client signs for several in turn
    measured = lab(
        {"kind": "seaweedfs", "port": port_block},
        put={"workload": "put", "axes": axes},
        get={"workload": "get", "axes": axes},
        more_put={"workload": "put", "axes": many},
        more_get={"workload": "get", "axes": many},
    )
    assert [p.axes["accounts"] for p, *_ in measured].count(5) == 2 and len(measured) == 6
    for p, record, rows in measured:
        assert record["store"]["deployment"]["tls"] and record["store"]["deployment"]["accounts"] >= p.axes["accounts"]
        if p.sweep == "more_get":
            assert len({r["object"] for r in rows}) == 12, "what lies in the buckets of all five"
        assert record["store"]["name"] == "one" and all(c["endpoint"].startswith("https://") for c in record["clients"])
        assert {r["error"] for r in rows} == {None} and {r["client"] for r in rows} == {0, 1}


@pytest.mark.heavy
def test_redundancy_and_volume_servers(lab, port_block):
    """Three volume servers, one copy against two: deployments of their own beside each other, one of them suspended."""
    axes = {"workers": 4, "object_size": "100 kB", "servers": 3, "redundancy": ["none", "replica-2"]}
    measured = lab(
        {"kind": "seaweedfs", "port": port_block, "volume_size": "64 MB", "max_volumes": 40},
        put={"workload": "put", "axes": axes},
    )
    deployments = {p.axes["redundancy"]: record["store"]["deployment"] for p, record, _ in measured}
    assert {d["daemons"]["volume"] for d in deployments.values()} == {3}
    assert deployments["none"]["redundancy"] == "none" and deployments["replica-2"]["redundancy"] == "replica-2"


@pytest.mark.heavy
def test_space(lab, port_block):
    """Two copies take twice the space of one; what was deleted comes back when the store is told to reclaim it."""
    axes = {"workers": 4, "object_size": "200 kB", "servers": 3, "redundancy": ["none", "replica-2"]}
    settings = {"kind": "seaweedfs", "port": port_block, "volume_size": "64 MB", "max_volumes": 40}
    measured = lab(settings, space={"workload": "space", "axes": axes})
    ratio = {}
    for point, record, rows in measured:
        o = record["observed"]
        assert o["objects"] >= len(rows) and o["stored_bytes"] == o["objects"] * 200_000
        ratio[point.axes["redundancy"]] = (o["used_after_put_bytes"] - o["used_before_bytes"]) / o["stored_bytes"]
        assert (
            o["used_after_reclaim_bytes"] - o["used_before_bytes"] < 0.2 * o["stored_bytes"] and len(o["returned"]) > 5
        )
    assert 0.98 < ratio["none"] < 1.2 and 1.96 < ratio["replica-2"] < 2.4
