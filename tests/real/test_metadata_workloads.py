"""The workloads `stat` and `list` at SeaweedFS: what a proxy counts, what is recorded, and answers that are wrong."""

from contextlib import contextmanager

import pytest
from counting_proxy import CountingProxy
from laboratory import LOADGEN_IS_BUILT, NO_LOADGEN

from storelab.core.errors import MeasurementFailed
from storelab.datasets import keys as named
from storelab.workloads.staging import many_keys

pytestmark = pytest.mark.real
ENGINES = [pytest.param("obstore", marks=pytest.mark.heavy), "loadgen"]
AXES = {"object_size": "20 kB", "workers": 3, "buckets": 2}


@pytest.fixture(params=ENGINES)
def engine(request) -> str:
    if request.param == "loadgen" and not LOADGEN_IS_BUILT:
        pytest.skip(NO_LOADGEN)
    return request.param


def behind(proxy) -> dict:
    return {"kind": "s3", "endpoint": proxy.url}


def test_each_operation_is_one_request_without_a_body(lab, seaweedfs, keys, engine):
    with CountingProxy("127.0.0.1", int(seaweedfs.endpoints(1)[0].url.rpartition(":")[2])) as proxy:
        axes = AXES | {"engine": engine, "clients": 2}
        ((_, record, rows),) = lab(behind(proxy), asked={"workload": "stat", "objects": 8, "axes": axes})
        around = 200  # staging, checks and markers are requests too
        assert record["valid"] and len(rows) <= proxy.requests <= len(rows) + around
        assert proxy.received < 2000 * proxy.requests, "no object's content came"
    assert len(rows) > 20 and {r["op"] for r in rows} == {"HEAD"} and {r["error"] for r in rows} == {None}
    assert {(r["count"], r["bytes"], r["requests"]) for r in rows} == {(1, 0, 1)}
    assert len({r["object"] for r in rows}) == 8, "all staged objects are asked for"
    assert {r["client"] for r in rows} == {0, 1} and all(r["start_ns"] < r["end_ns"] for r in rows)


def test_a_listing_is_as_many_requests_as_it_has_pages(lab, seaweedfs, keys, engine):
    with CountingProxy("127.0.0.1", int(seaweedfs.endpoints(1)[0].url.rpartition(":")[2])) as proxy:
        page = {"page_size": 100} if engine == "loadgen" else {}
        axes = {"engine": engine, "keys": 1050, "prefix_depth": 1, "workers": 2, "clients": 2} | page
        ((_, record, rows),) = lab(behind(proxy), listed={"workload": "list", "axes": axes})
        pages = 11 if engine == "loadgen" else 2
        around = 1050 + 300  # staging, its listings, checks and markers are requests too
        assert record["valid"] and pages * len(rows) < proxy.requests <= pages * len(rows) + around
        assert proxy.received > 1050 * len(rows) * 100, "the keys came"
    assert rows and {(r["op"], r["error"], r["count"], r["bytes"], r["requests"]) for r in rows} == {
        ("LIST", None, 1050, 0, pages)
    }
    if engine == "loadgen":
        told = [c["engine"]["listed"] for c in record["clients"]]
        assert sum(t["pages"] for t in told) == pages * len(rows) and sum(t["keys"] for t in told) == 1050 * len(rows)
        assert all(r["start_ns"] < r["first_byte_ns"] < r["end_ns"] for r in rows)


@contextmanager
def meanwhile(monkeypatch, act):
    """After staging, before the clients begin: something is done to the staged keys."""
    whole = many_keys.stage

    def stage(store, ways, places, dataset, body):
        whole(store, ways, places, dataset, body)
        act(ways[0], places[0], places[0].prefix + named.folder(dataset))

    with monkeypatch.context() as patched:
        patched.setattr(many_keys, "stage", stage)
        yield


@pytest.mark.parametrize(
    ("count", "says", "act"),
    [
        (50, "1 of 50 keys did not come", lambda access, place, folder: access.delete(place.name, [f"{folder}17"])),
        (60, 'keys/9x" is not a key', lambda access, place, folder: access.write(place.name, f"{folder}9x", b"1")),
        (
            70,
            'keys/21" has 1 B instead of 100 B',
            lambda access, place, folder: access.write(place.name, f"{folder}21", b"1"),
        ),
    ],
)
def test_what_is_not_as_it_was_staged_is_an_error_by_name(lab, seaweedfs, keys, engine, monkeypatch, count, says, act):
    with meanwhile(monkeypatch, act), pytest.raises(MeasurementFailed) as failed:
        axes = {"engine": engine, "keys": count, "workers": 2}
        lab({"kind": "s3", "endpoint": seaweedfs.endpoints(1)[0].url}, listed={"workload": "list", "axes": axes})
    assert says in str(failed.value).replace("'", '"')
