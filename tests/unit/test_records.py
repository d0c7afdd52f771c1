"""Records: atomic or nothing, verified, sealed."""

import pyarrow.parquet as pq
import pytest

from storelab.core import evidence, plan, records
from storelab.core.campaign import live
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.measure import record
from storelab.workloads import WORKLOADS


@pytest.fixture
def point():
    config = Config.model_validate(
        {
            "campaign": "x",
            "name": "x",
            "stores": {"a": {"kind": "seaweedfs"}},
            "use_stores": ["a"],
            "calibrate": False,
            "sweeps": {"up": {"workload": "put"}},
        }
    )
    return plan.make(config, WORKLOADS)[0]


@pytest.fixture
def raw(tmp_path, point):
    folder = tmp_path / point.key
    folder.mkdir(parents=True)
    columns = {
        "client": [0, 0],
        "op": ["PUT", "PUT"],
        "object": ["k0", None],
        "count": [1, 1],
        "bytes": [4000, 0],
        "end_ns": [10, 20],
        "status": [0, 503],
        "error": [None, "SlowDown"],
    }
    records.write_table(folder / "ops.0.parquet", records.OPS, columns)
    records.finish(folder, {"point": records.as_json(point.identity())})
    records.write_summed(tmp_path / "plan.json", {"points": [{"key": point.key, **records.as_json(point.identity())}]})
    evidence.write_sums(tmp_path)
    return tmp_path


def test_the_table_has_the_schema_and_the_missing_columns_are_null(raw, point):
    table = pq.read_table(raw / point.key / "ops.0.parquet")
    assert table.schema.names == list(records.OPS)
    assert table["start_ns"].null_count == 2
    assert table["error"].to_pylist() == [None, "SlowDown"]


def test_a_record_is_valid_for_its_own_point_only(raw, point):
    folder = raw / point.key
    assert evidence.load_run(folder, point)
    object.__setattr__(point, "rep", 2)
    assert evidence.load_run(folder, point) is None


def test_a_record_of_before_an_axis_came_is_valid(raw, point):
    """A new axis in a later version renames no old point: it stands at its default in the record that does not know it."""
    folder = raw / point.key
    object.__setattr__(point, "axes", {**point.axes, "accounts": 1})
    assert evidence.load_run(folder, point)
    object.__setattr__(point, "axes", {k: v for k, v in point.axes.items() if k not in ("accounts", "buckets")})
    assert evidence.load_run(folder, point), "a plan of before, in a campaign that a later version went on with"
    object.__setattr__(point, "axes", {**point.axes, "clients": 99})
    assert evidence.load_run(folder, point) is None


def test_a_record_without_its_tables_is_none(raw, point):
    (raw / point.key / "ops.0.parquet").unlink()
    assert evidence.load_run(raw / point.key, point) is None


def test_a_truncated_head_is_none(raw, point):
    head = raw / point.key / "run.json"
    head.write_text(head.read_text()[:50])
    assert evidence.load_run(raw / point.key, point) is None


def test_a_failure_leaves_no_record_and_a_success_ends_it(raw, point):
    folder = raw / "a" / "put" / "other"
    records.fail(folder, point, "the store died")
    assert records.read_json(folder / "failed.json")["reason"] == "the store died"
    assert records.missing(raw, ["a/put/other"]) and not records.missing(raw, ["a/put/other"], failed_counts=True)
    records.finish(folder, {"point": {}})
    assert not (folder / "failed.json").exists()


def test_verify_is_content_with_what_was_written(raw):
    assert evidence.verify(raw) == 3


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        (lambda raw, p: (raw / p.key / "ops.0.parquet").write_bytes(b"PAR1"), "wrong checksum"),
        (lambda raw, p: (raw / p.key / "ops.0.parquet").unlink(), "raw record is missing"),
        (lambda raw, p: (raw / "new.json").write_text("{}"), "is not in SHA256SUMS"),
        (lambda raw, p: (raw / "SHA256SUMS").unlink(), "was not collected"),
    ],
)
def test_verify_names_what_is_missing_altered_or_foreign(raw, point, harm, line):
    harm(raw, point)
    with pytest.raises(UserError, match=line):
        evidence.verify(raw)


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    records.write_json(path, {"old": 1})
    monkeypatch.setattr(records.os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        records.write_json(path, {"new": 2})
    assert records.read_json(path) == {"old": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_a_record_tells_of_every_earlier_try(tmp_path, point, monkeypatch):
    """Failed twice, measured, measured again, and a last try that failed beside the record."""
    folder, now = tmp_path / "raw" / point.key, iter((10, 20, 50))
    monkeypatch.setattr(records.time, "time_ns", lambda: next(now))

    def measured(start_ns: int) -> list:
        work = tmp_path / str(start_ns)
        work.mkdir()
        run = {"point": records.as_json(point.identity()), "start_ns": start_ns}
        record.put_in_place(run, work, folder)
        return [(t["time_ns"], t["outcome"], t["reason"]) for t in records.read_json(folder / "run.json")["earlier"]]

    records.fail(folder, point, "the store was down")
    records.fail(folder, point, "client 3 is missing")
    failures = [(10, "failed", "the store was down"), (20, "failed", "client 3 is missing")]
    assert measured(30) == failures and not (folder / "failed.json").exists()
    again = (30, "measured", "measured again by request")
    assert measured(40) == [*failures, again]
    records.fail(folder, point, "it was stopped")
    assert not (folder / "failed.json").exists(), "never beside a record"
    earlier = records.read_json(folder / "later.json")["earlier"]
    assert [t["time_ns"] for t in earlier] == [10, 20, 30, 40]
    assert [t["time_ns"] for t in records.earlier(folder, records.as_json(point.identity()))] == [10, 20, 30, 40, 50]
    object.__setattr__(point, "rep", 2)  # another point's record tells nothing of this one
    assert records.earlier(folder, records.as_json(point.identity())) == []


def test_a_file_that_cannot_be_read_is_damage(tmp_path):
    assert records.damage(tmp_path / "none.json") == "cannot be read (No such file or directory)"


def test_the_state_of_a_live_view_holds_no_number_that_json_lacks(tmp_path):
    live.write(tmp_path, {"rate": 1.5})
    assert live.read(tmp_path)["rate"] == 1.5
    with pytest.raises(ValueError, match="JSON"):
        live.write(tmp_path, {"rate": float("nan")})
    assert live.read(tmp_path)["rate"] == 1.5
