"""What tests of stores and engines share: buckets of a campaign, processes that are gone, what every record must say."""

import psutil

from storelab.workloads.staging import buckets


def bucket_for(store, campaign: str, index: int = 0, account: int = 0):
    """A bucket of the campaign, made and marked."""
    bucket = store.bucket(campaign, index, account)
    buckets.ensure(store, campaign, [bucket])
    return bucket


def gone(pids) -> bool:
    return not any(psutil.pid_exists(p) and psutil.Process(p).status() != psutil.STATUS_ZOMBIE for p in pids)


def holds(measured, protocol):
    """What every record of this engine must say."""
    for point, record, rows in measured:
        size = point.axes.get("range_size") or point.axes["object_size"]
        assert len(rows) > 10 and {r["error"] for r in rows} == {None} and {r["bytes"] for r in rows} == {size}
        assert all(r["start_ns"] < r["end_ns"] <= record["deadline_ns"] for r in rows)
        assert {r["worker"] for r in rows} <= {0, 1, 2} and {r["client"] for r in rows} == {0, 1}
        assert record["engine"]["name"] == "fsspec" and record["engine"]["settings"]["protocol"] == protocol
        assert all(c["ok"] for c in record["checks"])
