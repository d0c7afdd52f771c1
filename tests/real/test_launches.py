"""Applications started from a release in a real SeaweedFS, with and without a real Squid in front of it."""

import os

import psutil
import pyarrow.parquet as pq
import pytest
from laboratory import configured

from storelab.analysis.tables import build
from storelab.core import integrity
from storelab.core.errors import UserError
from storelab.install import debian
from storelab.measure import check, plan_file, point
from storelab.stores import all_stores
from storelab.stores.managed import network
from storelab.workloads import WORKLOADS
from storelab.workloads.distribution import squid
from storelab.workloads.staging import buckets, written

pytestmark = [pytest.mark.real, pytest.mark.heavy]


@pytest.fixture
def campaign(external, keys, tmp_path):
    """Return a function that plans the points of a sweep with these axes."""

    def planned(**axes):
        stores = {"one": external | {"prefix": "sw"}}
        sweep = {"workload": "launch", "duration": "1 s", "warm_up": "0 s", "axes": axes}
        return configured(tmp_path, stores, {"starts": sweep}, name="starts", release={"factor": 0.0003, "days": 2})

    return planned


def squids() -> set[int]:
    return {p.pid for p in psutil.process_iter(["name"]) if p.info["name"] == "squid"}


@pytest.mark.skipif(not debian.installed("squid"), reason="Squid is not installed: storelab install squid")
def test_starts_through_squid_and_past_it(campaign):
    caches = {"http_cache": ["none", "squid"], "client_cache": ["none", "kept"]}
    config, points = campaign(days=2, start_files=20, clients=2, **caches)
    check.everything(config, points, WORKLOADS, all_stores(config))
    plan_file.write(config, points, WORKLOADS)
    before, ports = squids(), {p for p in squid.PORTS if not network.free(squid.ADDRESS, p)}
    for chosen in points:
        run = point.point(config, points, chosen.key).to_json()
        checks = {c["name"]: c for c in run["checks"]}
        assert run["valid"] and all(c["ok"] for c in checks.values()), checks
        ops = [row for c in (0, 1) for row in pq.read_table(config.raw / chosen.key / f"ops.{c}.parquet").to_pylist()]
        assert {row["error"] for row in ops} == {None}
        cache = run["observed"].get("http_cache")
        if chosen.axes["http_cache"] == "none":
            assert cache is None and "through the cache" not in checks
            continue
        assert cache["version"] and cache["requests"] == len(ops) and cache["errors"] == 0
        different = {row["object"] for row in ops}
        # Each object came from the store once; the manifest stays fresh for a minute.
        assert cache["origin_requests"] == len(different)
        assert 0 <= cache["requests"] - cache["hits"] - len(different) < 60
        size = sum({row["object"]: row["bytes"] for row in ops}.values())
        assert 0.9 * size <= cache["origin_bytes"] <= size + 2048 * len(different)
    assert squids() == before
    assert {p for p in squid.PORTS if not network.free(squid.ADDRESS, p)} == ports
    integrity.write_sums(config.raw)
    build.build(config.campaign_dir)
    table = build.read(config.campaign_dir, "launches")
    assert len(table) == 4 and (table["first_median_s"] > 0).all() and (table["files_median_per_s"] > 0).all()
    assert (table.loc[table["client_cache"] == "kept", "kept_median_percent"] > 30).all()
    by = table.set_index(["http_cache", "client_cache"])
    assert by.loc[("squid", "none"), "hit_median_percent"] > 50
    assert by.loc[("squid", "none"), "origin_median_mb"] < by.loc[("none", "none"), "origin_median_mb"]
    store = all_stores(config)["one"]
    gone = buckets.remove(store, config.name, written.noted(config, store))  # all of it is known as storelab's
    assert not gone.stays and gone.buckets == 1 and gone.objects > 50


@pytest.mark.skipif(not debian.installed("squid"), reason="Squid is not installed: storelab install squid")
def test_squid_runs_as_user_nobody_and_leaves_nothing(campaign, seaweedfs):
    origin = seaweedfs.endpoints(1)[0].url
    own = squid.Squid(origin, "here")
    try:
        process = psutil.Process(own.process.pid)
        assert process.username() == ("nobody" if os.geteuid() == 0 else psutil.Process().username())
        own_files = [f.path for f in process.open_files()]
        assert all(f.startswith(f"/dev/shm/{squid.service(own.port)}-") for f in own_files), own_files
        assert network.get(squid.ADDRESS, own.port, f"http://127.0.0.1:{own.port + 1}/", 5)[0] == 403  # another port
        assert network.get(squid.ADDRESS, own.port, f"{origin}/", 5, method="DELETE")[0] == 403
    finally:
        own.stop()
    assert not psutil.pid_exists(own.process.pid) and network.free(squid.ADDRESS, own.port)
    assert not list(squid.SHARED.glob(f"{squid.NAME}{own.port}-*"))


def test_store_that_needs_signatures_is_refused(campaign, monkeypatch):
    monkeypatch.setattr("storelab.workloads.probe.signing.policy", lambda *_: b"no policy")
    monkeypatch.setattr("storelab.workloads.distribution.served.RIGHTS_TIMEOUT_S", 0.5)
    config, points = campaign(days=1, start_files=5)
    plan_file.write(config, points, WORKLOADS)
    with pytest.raises(UserError, match=r"stores\.one: does not answer unsigned GETs"):
        point.point(config, points, points[0].key)
