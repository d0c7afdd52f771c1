"""Records: atomic or nothing, verified, sealed."""

import errno
import hashlib
import os
import re

import pyarrow.parquet as pq
import pytest
from paths import ROOT

from storelab.core import evidence, plan, records
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


@pytest.mark.parametrize("columns", [None, ["error", "end_ns"], ["latency_hist", "op"], ["end_ns"]])
def test_tables_are_read_as_pyarrow_reads_them(tmp_path, columns):
    hist = [[{"upper_ns": 5, "count": 2}], None]
    parts = [{"end_ns": [1, 2], "op": ["GET", "PUT"], "error": [None, "late"], "latency_hist": hist}, {"end_ns": [3]}]
    files = [tmp_path / f"ops.{i}.parquet" for i in range(2)]
    for path, part in zip(files, parts, strict=True):
        records.write_table(path, records.OPS, part)
    assert records.read_table(files, columns).equals(pq.read_table(files, columns=columns))
    assert records.read_table(files[1], columns).equals(pq.read_table(files[1], columns=columns))


def test_a_table_that_is_missing_or_damaged_is_told(tmp_path):
    (tmp_path / "ops.0.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ValueError, match="Parquet"):
        records.read_table(tmp_path / "ops.0.parquet")
    with pytest.raises(OSError, match=r"ops\.1"):
        records.read_table(tmp_path / "ops.1.parquet")


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


PAGES = ROOT / "docs"
WIDER = {"few words": "dictionary", "many words": "dictionary", "histogram": "list of (upper_ns, count)"}


def told(title: str) -> dict[str, str]:
    """Column -> type, as the tables below a heading of docs/records.md say; ranges (`a` … `b`) are not read."""
    page = (PAGES / "records.md").read_text()
    section = page[page.index(f"\n## {title}") + 1 :].partition("\n## ")[0]
    out = {}
    for names, kinds in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", section, re.M):
        columns, types = re.findall(r"`(\w+)`", names), kinds.replace(", null", "").strip()
        of = types.split(", ") if "(" not in types else [types]
        if "…" not in names:
            out |= dict(zip(columns, of if len(of) == len(columns) else of * len(columns), strict=True))
    return out


@pytest.mark.parametrize(
    ("table", "untold"),
    [
        ("ops", set()),
        ("reads", {"open_ns", "plan_ns", "transfer_ns", "decompress_ns", "deserialise_ns"}),
        ("answers", set()),
        ("days", set()),
        ("launches", set()),
        ("collections", set()),
    ],
)
def test_a_table_has_the_columns_and_types_of_its_page(table, untold):
    kinds = {"ops": records.OPS, "reads": records.READS, **records.TABLES}[table]
    page = told(f"`{table}.<client>.parquet`")
    assert set(kinds) == set(page) | untold and {kinds[c] for c in untold} <= {"int64"}
    assert {c: WIDER.get(kinds[c], kinds[c]) for c in page} == page


def test_tries_and_wrong_answers_have_the_columns_of_their_page():
    first = ["client", "scenario", "same_front_end"]
    assert [*records.SCENARIOS] == [*first, "tried", "anomalies", "errors"]
    assert {*records.ANOMALIES} == {*first, "key", "start_ns", "lasted_ns", "watched_ns", "evidence"}
    rows = re.findall(
        r"^\| `(tried|same_front_end|key|start_ns|lasted_ns|watched_ns|evidence)`",
        (PAGES / "records.md").read_text(),
        re.M,
    )
    assert {*rows} == {"tried", "same_front_end", "key", "start_ns", "lasted_ns", "watched_ns", "evidence"}
    both = {"client": "int16", "scenario": "string", "same_front_end": "bool"}
    assert both.items() <= records.SCENARIOS.items() and both.items() <= records.ANOMALIES.items()
    assert {records.SCENARIOS[c] for c in ("tried", "anomalies", "errors")} == {"int64"}
    assert {records.ANOMALIES[c] for c in ("start_ns", "lasted_ns", "watched_ns")} == {"int64"}
    assert {records.ANOMALIES[c] for c in ("key", "evidence")} == {"string"}


def test_the_monitor_has_the_columns_of_its_page():
    """docs/resources.md; counters of traffic in pairs: bytes and packets, received and sent."""
    section = (PAGES / "resources.md").read_text().partition("| column | of | meaning |")[2].partition("\n\n")[0]
    named = {c for row in re.findall(r"^\| (`[^|]+) \|", section, re.M) for c in re.findall(r"`(\w+)`", row)}
    traffic = {f"{way}_{what}" for way in ("rx", "tx") for what in ("bytes", "packets")}
    assert {*records.MONITOR} == named | traffic | {"files"}
    words, shares = {"host", "what", "name"}, {"cpu_user_s", "cpu_system_s"}
    kinds = dict.fromkeys(words, "string") | dict.fromkeys(shares, "float64")
    assert {c: kinds.get(c, "int64") for c in records.MONITOR} == records.MONITOR


def test_the_names_of_the_tables_beside_the_operations():
    assert {*records.TABLES} == {"anomalies", "scenarios", "answers", "days", "collections", "launches", "monitor"}
    of = {"anomalies": "evidence", "scenarios": "tried", "answers": "check", "days": "stratum", "monitor": "rss_bytes"}
    of |= {"collections": "marked_ns", "launches": "application"}
    assert all(column in records.TABLES[name] for name, column in of.items())
    assert (records.SCHEMA, records.HUNG, records.FAILED, records.LATER) == (4, "Hung", "failed.json", "later.json")
    assert records.FRONT_END_LINK.format(3) == "fe3"


def test_how_a_table_lies_in_its_file(tmp_path):
    """Few values as a dictionary, times and bytes as differences, all of it packed, no statistics: they take room and nobody asks."""
    n = 1000
    columns = {"client": [0] * n, "op": ["GET"] * n, "object": [f"k{i % 7}" for i in range(n)], "count": [1] * n}
    columns |= {"bytes": [4000] * n, "end_ns": [10**18 + 10**6 * i for i in range(n)], "requests": [1] * n}
    columns["latency_hist"] = [[{"upper_ns": 5, "count": 2}]] * n
    records.write_table(tmp_path / "ops.0.parquet", records.OPS, columns)
    file = pq.ParquetFile(tmp_path / "ops.0.parquet")
    group = file.metadata.row_group(0)
    parts = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert not any(part.is_stats_set for part in parts.values())
    assert {part.compression for part in parts.values()} == {"ZSTD"}
    as_dictionary = {name for name, part in parts.items() if part.has_dictionary_page}
    assert {"client", "op", "object", "count"} <= as_dictionary and not {"bytes", "end_ns", "requests"} & as_dictionary
    assert {n for n, p in parts.items() if "DELTA_BINARY_PACKED" in p.encodings} == {
        *("bytes", "wire_bytes", "start_ns", "first_byte_ns", "end_ns", "intended_ns")
    }
    kept = file.read()
    assert kept["end_ns"].to_pylist() == columns["end_ns"] and kept["object"].to_pylist() == columns["object"]
    assert kept["latency_hist"].to_pylist() == columns["latency_hist"] and kept["worker"].null_count == n
    records.write_table(tmp_path / "none.parquet", records.DAYS, {})
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_what_is_wrong_with_a_file_by_itself(tmp_path):
    path = tmp_path / "x.json"
    records.write_summed(path, {"a": 1, "sum": "another's", "summed": False})
    assert records.damage(path) is None and records.read_json(path)["a"] == 1
    text = path.read_text()
    assert records.read_json(path)["sum"] == hashlib.sha256(re.sub(r',\n "sum".*\n', "\n", text).encode()).hexdigest()
    for changed, said in (
        (text.replace('"a": 1', '"a": 2'), "does not agree with its own sum"),
        (text.replace(' "sum"', ' "gone"'), "lost the sum of its own"),
        (text[:-3], "is not JSON"),
        ("[1]", "holds no mapping"),
    ):
        path.write_text(changed)
        assert said in records.damage(path)
    path.write_text('{"a": 1}')
    assert records.damage(path) is None, "older than sums are"
    path.unlink()
    path.mkdir()
    assert records.damage(path) == f"cannot be read ({os.strerror(errno.EISDIR)})"


def test_a_summed_file_reads_as_its_page_says(tmp_path):
    """`summed` is its first key and `sum` its last; no number that JSON lacks."""
    text = records.with_sum({"a": [1], "summed": False}).decode()
    plain = '{\n "summed": true,\n "a": [\n  1\n ]\n}\n'
    assert text == plain[:-3] + f',\n "sum": "{hashlib.sha256(plain.encode()).hexdigest()}"\n}}\n'
    with pytest.raises(ValueError, match="JSON"):
        records.with_sum({"a": float("nan")})


@pytest.mark.parametrize("sync", [None, True, False])
def test_a_table_is_on_disk_before_it_has_its_name_unless_it_need_not(tmp_path, monkeypatch, sync):
    synced = []
    monkeypatch.setattr(records.os, "fsync", synced.append)
    records.write_table(tmp_path / "t", records.SCENARIOS, {"client": [1]}, *([] if sync is None else [sync]))
    assert len(synced) == (0 if sync is False else 1) and pq.read_table(tmp_path / "t")["client"].to_pylist() == [1]


# Earlier tries, and records of other points and schemas

POINT = {"store": "s", "workload": "get", "axes": {"a": 1, "b": 2}, "rep": 1}


def test_points_differ_by_every_known_axis():
    """An axis that only one of two points has is at its default in the other."""
    for change, same in (
        ({}, True),
        ({"store": "t"}, False),
        ({"workload": "put"}, False),
        ({"rep": 2}, False),
        ({"axes": {"a": 2}}, False),
        ({"axes": {"a": 1, "new": 5}}, True),
        ({"axes": {"new": 5}}, True),
    ):
        both = records.same_point(POINT, POINT | change), records.same_point(POINT | change, POINT)
        assert both == (same, same), change


def test_earlier_tries_are_listed_once(tmp_path):
    old = {"time_ns": 3, "outcome": "failed", "reason": "first"}
    measured = {"time_ns": 9, "outcome": "measured", "reason": "x"}
    records.write_json(tmp_path / "run.json", {"point": POINT, "start_ns": 9, "earlier": [old]})
    failure = {"point": POINT, "time_ns": 12, "reason": "late", "earlier": [old, measured]}
    records.write_json(tmp_path / "failed.json", failure)
    found = [tuple(t[k] for k in ("time_ns", "outcome", "reason")) for t in records.earlier(tmp_path, POINT)]
    assert found == [(3, "failed", "first"), (9, "measured", "x"), (12, "failed", "late")]
    assert records.earlier(tmp_path, POINT | {"rep": 2}) == []
    assert records.missing(tmp_path.parent, [tmp_path.name, "no"]) == ["no"]
    (tmp_path / "run.json").unlink()
    assert records.missing(tmp_path.parent, [tmp_path.name]) == [tmp_path.name]
    assert records.missing(tmp_path.parent, [tmp_path.name], True) == []


def test_later_schema_is_refused(tmp_path):
    assert records.SCHEMA == 4
    (tmp_path / "x.parquet").write_bytes(b"12345")
    files = {"x.parquet": {"bytes": 5, "sha256": hashlib.sha256(b"12345").hexdigest()}}
    for schema in (2, 4):
        records.write_json(tmp_path / "run.json", {"schema": schema, "point": POINT, "files": files})
        assert evidence.load_run(tmp_path)
    records.write_json(tmp_path / "run.json", {"schema": 5, "point": POINT, "files": files})
    with pytest.raises(UserError, match="has schema 5"):
        evidence.load_run(tmp_path)
    records.write_json(tmp_path / "run.json", {"schema": 4, "point": POINT, "files": files})
    (tmp_path / "x.parquet").write_bytes(b"1234")
    assert evidence.load_run(tmp_path) is None
