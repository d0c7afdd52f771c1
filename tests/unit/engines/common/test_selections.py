"""Selection reads without a store: how long they may last, and their rows in the records."""

from dataclasses import asdict
from types import SimpleNamespace

from storelab.core import records
from storelab.engines.common import selections, wire


class Reads(selections.SelectionClient):
    """A client whose rows are given."""

    engine, libraries = "imagined", ()
    connect = fresh = open_file = selection = lambda self, *_: None

    def counts(self):
        return wire.Counts()


def test_reads_may_last_a_fifth_longer():
    assert [selections.allowed_s(s) for s in (1.0, 25.0, 60.0)] == [6.0, 30.0, 72.0]


def test_missing_side_car_names_the_object():
    error = selections.not_staged("b/k")
    assert isinstance(error, selections.WrongData) and error.kind == "SideCarMismatch" and "b/k" in str(error)


def test_reads_have_rows_of_the_records():
    """Good and failed reads are ordered by their end; every column of such an operation is there."""
    point = SimpleNamespace(axes={"clients": 1}, seed=5, fixed={})
    one = Reads(SimpleNamespace(point=point, client=1, number=4, limits={}, extra={}, told=None))
    one.key, one.branches, one.unreadable = "p/file", ["x"], {}
    good = dict.fromkeys(records.READS, 0) | {"needed_bytes": 7, "wire_bytes": 9, "requests": 2}
    good.pop("client")
    one.reads += [good | {"start_ns": end - 5, "end_ns": end} for end in (30, 10)]
    bad = {"bytes": 0, "wire_bytes": 1, "requests": 1, "start_ns": 15, "end_ns": 20, "status": 503, "error": "SlowDown"}
    one.ops.append(bad)
    found = one.result()
    same = {"client": 4, "worker": 0, "op": "READ", "object": "p/file", "count": 1}
    assert found.ops == {name: [value] * 3 for name, value in same.items()} | {
        "bytes": [7, 0, 7],
        "wire_bytes": [9, 1, 9],
        "requests": [2, 1, 2],
        "start_ns": [5, 15, 25],
        "end_ns": [10, 20, 30],
        "status": [200, 503, 200],
        "error": [None, "SlowDown", None],
    }
    assert set(found.ops) <= set(records.OPS) and set(found.reads) == set(records.READS)
    assert found.reads["client"] == [4, 4] and found.reads["end_ns"] == [30, 10]
    engine = {
        "name": "imagined",
        "settings": {"grace": 0.2, "grace_s": 5.0},
        "requests_per_operation": {"READ": "varies, counted"},
        "branches_chosen": 1,
        "branches_left_out": 0,
        "abandoned": {"reads": 0} | asdict(wire.Counts()),
        "opening": None,
    }
    assert engine.items() <= found.engine.items()
    one.reads.clear()
    assert one.result().reads == {"client": []} and one.result().ops["error"] == ["SlowDown"]
