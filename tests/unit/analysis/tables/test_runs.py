"""The runs on which claims are judged, table by table."""

import pandas as pd
import pytest

from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables.build import Tables
from storelab.analysis.tables.claims import Runs
from storelab.core import records

S = 10**9


@pytest.fixture
def campaign(tmp_path):
    """Two runs of 4 s without warm-up: jobs, that read 8 times, and readers of entries, that read twice."""
    row = {"client": 0, "read": 0, "entries": 10, "branches": 1, "baskets": 2, "needed_bytes": 1000, "open_ns": 0}
    row |= {"asked_bytes": 1500, "wire_bytes": 2000, "requests": 4}
    row |= dict.fromkeys(("plan_ns", "transfer_ns", "decompress_ns", "deserialise_ns"), 10**6)
    runs = {}
    for key, n in (("jobs", 8), ("entries", 2)):
        ends = [(i + 1) * S // 4 for i in range(n)]
        columns = {c: [row.get(c)] * n for c in records.READS}
        columns |= {"start_ns": [e - S // 4 for e in ends], "end_ns": ends}
        records.write_table(tmp_path / "raw" / key / "reads.0.parquet", records.READS, columns)
        clients = [{"client": 0, "host": "n", "start_ns": 0, "end_ns": 4 * S, "engine": {}}]
        runs[key] = {"start_ns": 0, "deadline_ns": 4 * S, "clients": clients, "files": {"reads.0.parquet": {}}}
        runs[key]["point"] = {"fixed": {"warm_up_ns": 0}, "axes": {"clients": 1}}
    plan = {"points": [{"key": "jobs", "workload": "events"}, {"key": "entries", "workload": "read_entries"}]}
    return Campaign(tmp_path, plan, runs, {})


PLAIN = pd.DataFrame(
    {"key": ["jobs", "entries", "gone"], "store": "a", "workload": ["events", "read_entries", "events"], "clients": 1}
).assign(state=["ok", "ok", "failed"], rep=1, shared_host=False, entry_fraction_percent=[None, 100.0, None])


def test_events_are_those_of_jobs(campaign):
    found = Runs(Tables(campaign, plain=PLAIN))["events"]
    assert found["key"].tolist() == ["jobs"] and found["events_per_s"].tolist() == [8 * 10 / 4]
    assert found["wire_bytes_per_event"].tolist() == [200] and found["requests_per_event"].tolist() == [0.4]


def test_reads_are_those_of_all_that_read(campaign):
    axes = {"entry_fraction_percent": "Float64", "clients": "Int64"}
    found = Runs(Tables(campaign, plain=PLAIN, axes=axes))["sparse"].set_index("key")
    assert found["reads_per_s"].to_dict() == {"jobs": 8 / 4, "entries": 2 / 0.5}, "two reads of a quarter of a second"
    assert found["amplification_ratio"].tolist() == [2, 2]


def test_reads_have_the_clusters_that_they_take():
    """Two of eight baskets of each branch, in a file that another read takes whole; another file has its own."""
    reads = pd.DataFrame({"key": list("abc"), "file_size": ["S", "S", "M"], "branches_per_read": [10.0, 10.0, 0.0]})
    reads = reads.assign(baskets_per_read=[20.0, 80.0, 0.0], entries_per_read=[3.0, 1000.0, 7.0])
    found = Runs({"read_runs": reads})["sparse"].set_index("key")
    assert found.loc["a", ["clusters_per_read", "file_clusters", "file_entries"]].tolist() == [2, 8, 1000]
    assert found.loc["c", "file_entries"] == 7 and pd.isna(found.loc["c", "clusters_per_read"])


def test_traffic_is_of_runs_that_can_show_a_balance():
    """A row per run, if its front-ends have as many clients, and carried enough to be compared."""
    carried = {"key": list("aabbccdd"), "store": "s", "duration_s": 5.0, "spread_percent": 2.0, "front_end": [1, 2] * 4}
    carried = pd.DataFrame(carried).assign(given_to=[1, 1, 1, 0, 1, 1, 1, 1], source="clients")
    carried["operations_per_s"] = [100.0, 90.0, 100.0, 50.0, 9.0, 1.0, None, None]
    carried.loc[carried["key"] == "d", "source"] = "counters"
    assert Runs({"traffic_runs": carried})["traffic"]["key"].tolist() == ["a", "d"]
    assert Runs({"traffic_runs": carried.iloc[:0]})["traffic"].empty


def test_roles_and_recovery_are_those_of_valid_runs():
    points = {"key": ["k", "bad"], "store": "a", "workload": "roles-x", "state": ["ok", "invalid"], "rep": 1}
    points = pd.DataFrame(points)
    of_roles = pd.DataFrame({"key": ["k", "k", "bad"], "role": ["up", "down", "up"], "does": ["put", "get", "put"]})
    tables = {"points": points, "roles_by": ["store", "workload"], "rated": points.assign(key="another", pause_s=-1)}
    tables["role_phases"] = of_roles.assign(phase="during", rate_per_s=[10.0, 20.0, 30.0])
    tables["recoveries"] = of_roles.assign(pause_s=[1.0, 2.0, 3.0], failed_operations=[0, 5, 9])
    runs = Runs(tables)
    recovery, roles = runs["recovery"], runs["roles"]
    assert recovery["pause_s"].tolist() == [1, 2] and recovery["failed_operations"].tolist() == [0, 5]
    assert recovery["role"].tolist() == ["up", "down"] and "rate_per_s" not in recovery
    assert roles["rate_per_s"].tolist() == [10, 20] and "pause_s" not in roles
    assert set(roles["store"]) == {"a"} and roles is runs["roles"], "made once"


def test_space_is_that_of_runs_that_used_it(tmp_path):
    used = {"objects": 3, "stored_bytes": 1000, "used_before_bytes": 500, "used_after_put_bytes": 2500}
    used |= {"used_after_delete_bytes": 2000, "used_after_reclaim_bytes": 500, "delete_s": 1.0, "reclaim_s": 1.0}
    observed = {"k": {"observed": used}, "other": {}}
    rows = pd.DataFrame({"key": ["k", "other"], "store": "a", "workload": "space", "state": "ok"})
    found = Runs({"campaign": Campaign(tmp_path, {}, observed, {}), "plain": rows})["space"]
    assert found["key"].tolist() == ["k"] and found["raw_per_byte_after_put_ratio"].tolist() == [2]


def test_tables_of_counts_keep_columns_of_claims():
    counts = {"store": ["a"], "scenario": ["overwrite"], "tried": [9], "anomalies": [1]}
    table = pd.DataFrame(counts | {"secret": [3]})
    assert Runs({"consistency": table})["consistency"].to_dict("list") == counts
    with pytest.raises(KeyError):
        Runs({})["nothing"]


def test_open_loops_are_not_speeds():
    rated = {"throughput_mb_per_s": 1.0, "rate_per_s": [97, 103, 98, 102, 99, 101], "key": list("abcdef")}
    rated = pd.DataFrame({f"overlap_{name}" if name != "key" else name: v for name, v in rated.items()})
    rated = rated.assign(state=["ok"] * 5 + ["invalid"], arrival_rate=[0, None, 0, 500, 500, 0])
    found = Runs({"rated": rated.assign(store="alpha", workload="get", object_size_bytes=10**7)})["throughput"]
    assert list(found["rate_per_s"]) == [97, 103, 98]
