"""A release published and replicated between two buckets of a real SeaweedFS: records, tables and objects."""

import pyarrow.parquet as pq
import pytest
from laboratory import configured

from storelab.analysis.tables import build
from storelab.core import integrity, records
from storelab.core.errors import MeasurementFailed, UserError
from storelab.datasets.release import catalogs, names
from storelab.measure import check, plan_file, point
from storelab.stores import all_stores
from storelab.workloads import WORKLOADS
from storelab.workloads.distribution import proof
from storelab.workloads.staging import stage

pytestmark = [pytest.mark.real, pytest.mark.heavy]
REPOSITORY = "sw.example.org"


@pytest.fixture
def campaign(external, keys, tmp_path):
    """Return a function that plans the points of sweeps over two stores, which are buckets of one."""
    stores = {name: external | {"prefix": name} for name in ("stratum-0", "stratum-1")}

    def planned(nights=7, **sweeps):
        release = {"repository": REPOSITORY, "factor": 0.0003, "days": 6, "nights": nights}
        sweeps = {n: {"duration": "60 s", "warm_up": "0 s"} | s for n, s in sweeps.items()}
        more = {"name": "nightly", "stores_to_measure": ["stratum-1"], "release": release}
        return configured(tmp_path, stores, sweeps, **more)

    return planned


def test_two_strata_grow_day_by_day(campaign, seaweedfs):
    axes = {"stratum0": "stratum-0", "days": 4, "pattern": ["cvmfs", "tuned"], "workers": 8, "expired": "2-3"}
    config, points = campaign(both={"workload": "replicate", "axes": axes})
    check.everything(config, points, WORKLOADS, all_stores(config))
    plan_file.write(config, points, WORKLOADS)
    for chosen in points:
        run = point.point(config, points, chosen.key).to_json()
        checks = {c["name"]: c for c in run["checks"]}
        assert checks.keys() == {"days", "stratum 0 whole", "stratum 1 whole"} and all(c["ok"] for c in checks.values())
        assert run["valid"] and run["observed"]["stratum0"]["name"] == "stratum-0"
        rows = pq.read_table(config.raw / chosen.key / "days.0.parquet").to_pylist()
        assert [(r["day"], r["stratum"]) for r in rows] == [(n, s) for n in (1, 2, 3, 4) for s in (0, 1)]
        refused = [r["state"] == "failed" for r in rows if r["stratum"] == 0]
        assert refused in ([False] * 4, [False, True, True, False])  # a store that looks at dates, or one that does not
        stores = all_stores(config)
        read = {}
        for store, stratum in (("stratum-0", 0), ("stratum-1", 1)):
            bucket = stage.buckets_of(config, stores[store], 1)[0]
            fetch = proof.reader(stores[store].access(0), bucket, f"put/{run['attempt']}/")
            fields = names.manifest_fields(fetch(f"{REPOSITORY}/{names.MANIFEST}"))
            assert fields["S"] == "4"
            read[stratum] = {key: fetch(key) for key in catalogs.references(fields["C"], fetch, REPOSITORY)}
        assert read[0] == read[1] and len(read[0]) > 100
        ops = pq.read_table(config.raw / chosen.key / "ops.0.parquet").to_pylist()
        assert {r["error"] for r in ops} == {None} and {r["op"] for r in ops} >= {"PUT", "HEAD"}
    integrity.write_sums(config.raw)
    build.build(config.campaign_dir)
    table = build.read(config.campaign_dir, "releases")
    assert len(table) == 2 * 4 * 2 and table["n"].eq(1).all() and table["factor"].eq(0.0003).all()
    last = table[table["day"] == 4]
    assert (last["published"] == 1).all() and (last["repository_median_mb"] > 0).all()
    assert table.loc[(table["day"] == 4) & (table["stratum"] == 1), "lag_median_s"].notna().all()
    secret = seaweedfs.credentials().secret_key.encode()
    for path in config.campaign_dir.rglob("*"):
        assert not path.is_file() or secret not in path.read_bytes(), path


def test_garbage_is_collected_during_uploads_and_publication(campaign, monkeypatch):
    """Two collections, one of them by requests for several objects."""
    monkeypatch.setattr(proof, "LATER_S", 0.5)
    days = {"keep": 1}  # of 5, the default
    roles = {
        "uploads": {"workload": "put", "axes": {"engine": "obstore", "object_size": "10 kB", "workers": 2}},
        "others": {"workload": "publish", "axes": {"days": 1, "workers": 4}},
        "deletions": {"workload": "collect_garbage", "axes": days | {"workers": 40}, "begin": "20 %"},
        "several": {
            "workload": "collect_garbage",
            "axes": days | {"pattern": "tuned", "batch": 20, "workers": 4},
            "begin": "20 %",
        },
    }
    config, (planned,) = campaign(2, collect={"duration": "6 s", "roles": roles})
    check.everything(config, [planned], WORKLOADS, all_stores(config))
    plan_file.write(config, [planned], WORKLOADS)
    run = point.point(config, [planned], planned.key).to_json()
    checks = {c["name"]: c["ok"] for c in run["checks"]}
    wanted = {
        f"{role}: {check}" for role in ("deletions", "several") for check in ("collected", "all alive", "dead gone")
    }
    assert checks.keys() >= wanted | {"uploads: all listed", "others: stratum 0 whole"} and all(checks.values())
    store = all_stores(config)["stratum-1"]
    bucket, access = stage.buckets_of(config, store, 1)[0], store.access(0)
    for role, rank in (("deletions", 2), ("several", 3)):
        seen = run["observed"][role]["collection"]
        assert seen["dead"] > 50 and seen["alive"] > 50 and seen["left"] == seen["lost"] == seen["others"] == 0
        (row,) = pq.read_table(config.raw / planned.key / f"collections.{rank}.parquet").to_pylist()
        assert row["state"] == "collected" and row["deletes"] == seen["dead"] == row["dead"]
        assert row["requests"] < row["deletes"] if role == "several" else row["requests"] > row["deletes"]
        begin = f"put/{run['attempt']}-{rank}/"
        fetch = proof.reader(access, bucket, begin)
        fields = names.manifest_fields(fetch(f"{REPOSITORY}/{names.MANIFEST}"))
        assert fields["S"] == "5" and catalogs.reflog_roots(fetch(f"{REPOSITORY}/{names.REFLOG}")) == [fields["C"]]
        alive = set(catalogs.references(fields["C"], fetch, REPOSITORY))
        listed = {key.partition(begin)[2] for key, _ in access.keys(bucket.name, bucket.prefix + begin)}
        assert listed == alive | {f"{REPOSITORY}/{name}" for name in (names.MANIFEST, names.REFLOG)}
    integrity.write_sums(config.raw)
    build.build(config.campaign_dir)
    rows = build.read(config.campaign_dir, "collections").set_index("role")
    assert set(rows.index) == {"deletions", "several"} and (rows["dead"] == rows["deletes"]).all()
    assert rows["deletes_per_s"].to_list() == pytest.approx((rows["dead"] / rows["sweep_s"]).to_list())
    assert (rows["uploads_after_ratio"] > 0).all() and (rows["tries"] == 1).all()
    phases = build.read(config.campaign_dir, "roles")
    assert set(phases.loc[phases["role"] == "uploads", "phase"]) == {"before", "during", "after"}
    assert build.read(config.campaign_dir, "releases").empty


def test_point_without_enough_time_fails(campaign):
    config, points = campaign(short={"workload": "publish", "duration": "100 ms", "axes": {"days": 6}})
    plan_file.write(config, points, WORKLOADS)
    with pytest.raises(MeasurementFailed, match=r"of 6 days done, .*set a longer `duration`"):
        point.point(config, points, points[0].key)
    assert "set a longer `duration`" in records.read_json(config.raw / points[0].key / "failed.json")["reason"]


@pytest.mark.parametrize(
    ("axes", "reason"),
    [
        ({"stratum0": "stratum-9"}, "the store 'stratum-9' is not defined"),
        ({"stratum0": "stratum-1"}, "both strata are on stratum-1"),
    ],
)
def test_impossible_second_store_is_refused(campaign, axes, reason):
    config, points = campaign(both={"workload": "replicate", "axes": axes})
    with pytest.raises(UserError, match=reason):
        check.everything(config, points, WORKLOADS, all_stores(config))
