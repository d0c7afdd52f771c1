"""The workloads `stat` and `list` at SeaweedFS: requests by a proxy, and listings that differ from what was staged."""

import pytest

from storelab.core.errors import MeasurementFailed
from storelab.datasets import payload as named
from storelab.workloads.staging import stage

pytestmark = [pytest.mark.real, pytest.mark.heavy]
AXES = {"object_size": "20 kB", "workers": 3, "buckets": 2}


def test_stat_is_one_request_without_body(lab, proxy, keys, engine):
    axes = AXES | {"engine": engine, "clients": 2}
    store = {"kind": "s3", "endpoint": proxy.url}
    ((_, record, rows),) = lab(store, asked={"workload": "stat", "objects": 8, "axes": axes})
    around = 200  # staging, checks and markers are requests too
    assert record["valid"] and len(rows) <= proxy.requests <= len(rows) + around
    assert proxy.received < 2000 * proxy.requests, "no content of objects was read"
    assert {(r["op"], r["error"], r["count"], r["bytes"], r["requests"]) for r in rows} == {("HEAD", None, 1, 0, 1)}
    assert len({r["object"] for r in rows}) == 8, "all staged objects are requested"
    assert {r["client"] for r in rows} == {0, 1} and all(r["start_ns"] < r["end_ns"] for r in rows)


def test_listing_is_one_request_a_page(lab, proxy, keys, engine):
    page = {"page_size": 100} if engine == "loadgen" else {}
    axes = {"engine": engine, "keys": 1050, "prefix_depth": 1, "workers": 2, "clients": 2} | page
    ((_, record, rows),) = lab({"kind": "s3", "endpoint": proxy.url}, listed={"workload": "list", "axes": axes})
    pages = 11 if engine == "loadgen" else 2
    around = 1050 + 300  # staging, its listings, checks and markers are requests too
    assert record["valid"] and pages * len(rows) < proxy.requests <= pages * len(rows) + around
    assert proxy.received > 1050 * len(rows) * 100, "the keys were received"
    found = {(r["op"], r["error"], r["count"], r["bytes"], r["requests"]) for r in rows}
    assert found == {("LIST", None, 1050, 0, pages)}
    if engine == "loadgen":
        listed = [c["engine"]["listed"] for c in record["clients"]]
        assert sum(n["pages"] for n in listed) == pages * len(rows)
        assert sum(n["keys"] for n in listed) == 1050 * len(rows)
        assert all(r["start_ns"] < r["first_byte_ns"] < r["end_ns"] for r in rows)


def test_changed_keys_are_errors_by_name(lab, external, keys, engine, monkeypatch):
    """The staged keys change after staging, before the clients begin."""
    whole = stage.stage_keys
    for count, reason, change in (
        (50, "1 of 50 keys are missing", lambda access, bucket, folder: access.delete(bucket, [f"{folder}17"])),
        (60, "keys/9x' is not a key", lambda access, bucket, folder: access.write(bucket, f"{folder}9x", b"1")),
        (70, "keys/21' has 1 B instead", lambda access, bucket, folder: access.write(bucket, f"{folder}21", b"1")),
    ):

        def changed(store, ways, places, dataset, body, change=change):
            whole(store, ways, places, dataset, body)
            change(ways[0], places[0].name, places[0].prefix + named.keys_folder(dataset))

        monkeypatch.setattr(stage, "stage_keys", changed)
        axes = {"engine": engine, "keys": count, "workers": 2}
        with pytest.raises(MeasurementFailed) as failed:
            lab(external, listed={"workload": "list", "axes": axes})
        assert reason in str(failed.value).replace('"', "'")
