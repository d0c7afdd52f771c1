"""The workload `stat` at SeaweedFS: what a proxy counts, what is recorded, and answers that are wrong."""

import pytest
from counting_proxy import CountingProxy
from laboratory import LOADGEN_IS_BUILT, NO_LOADGEN

pytestmark = pytest.mark.real
ENGINES = ("obstore", "loadgen")
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
