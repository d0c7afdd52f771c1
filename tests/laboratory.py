"""What every record of a transfer must say, for tests of engines and stores."""


def holds(measured, protocol):
    """What every record of this engine must say."""
    for point, record, rows in measured:
        size = point.axes.get("range_size") or point.axes["object_size"]
        assert len(rows) > 10 and {r["error"] for r in rows} == {None} and {r["bytes"] for r in rows} == {size}
        assert all(r["start_ns"] < r["end_ns"] <= record["deadline_ns"] for r in rows)
        assert {r["worker"] for r in rows} <= {0, 1, 2} and {r["client"] for r in rows} == {0, 1}
        assert record["engine"]["name"] == "fsspec" and record["engine"]["settings"]["protocol"] == protocol
        assert all(c["ok"] for c in record["checks"])
