"""Records: files are written whole or not at all, verified, and have the columns of their page."""

import errno
import hashlib
import os
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from paths import ROOT
from refusals import refusal
from small_plan import planned

from storelab.core import integrity, records
from storelab.core.model import Point
from storelab.measure import record


@pytest.fixture
def point():
    return planned()[0]


@pytest.fixture
def raw(tmp_path, point):
    """Return the records of a point with two operations, of which one failed."""
    folder = tmp_path / point.key
    folder.mkdir(parents=True)
    columns = {"client": [0, 0], "op": ["PUT", "PUT"], "object": ["k0", None], "count": [1, 1], "bytes": [4000, 0]}
    columns |= {"end_ns": [10, 20], "status": [0, 503], "error": [None, "SlowDown"]}
    records.write_table(folder / "ops.0.parquet", records.OPS, columns)
    records.finish(folder, {"point": point.to_json(), "clients": [{"client": 0}]})
    records.write_summed(tmp_path / "plan.json", {"points": [{"key": point.key, **records.as_json(point.identity())}]})
    integrity.write_sums(tmp_path)
    return tmp_path


def test_tables_are_read_as_pyarrow_reads_them(tmp_path):
    hist = [[{"upper_ns": 5, "count": 2}], None]
    parts = [{"end_ns": [1, 2], "op": ["GET", "PUT"], "error": [None, "late"], "latency_hist": hist}, {"end_ns": [3]}]
    files = [tmp_path / f"ops.{i}.parquet" for i in range(2)]
    for path, part in zip(files, parts, strict=True):
        records.write_table(path, records.OPS, part)
    for columns in (None, ["error", "end_ns"], ["latency_hist", "op"], ["end_ns"]):
        assert records.read_table(files, columns).equals(pq.read_table(files, columns=columns))
        assert records.read_table(files[1], columns).equals(pq.read_table(files[1], columns=columns))


def test_missing_and_damaged_tables_are_errors(tmp_path):
    (tmp_path / "ops.0.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ValueError, match="Parquet"):
        records.read_table(tmp_path / "ops.0.parquet")
    with pytest.raises(OSError, match=r"ops\.1"):
        records.read_table(tmp_path / "ops.1.parquet")


def test_record_is_valid_only_for_its_point(raw, point):
    folder = raw / point.key
    assert integrity.load_run(folder, point)
    object.__setattr__(point, "rep", 2)
    assert integrity.load_run(folder, point) is None


def test_incomplete_record_is_none(raw, point):
    head = raw / point.key / "run.json"
    text = head.read_text()
    head.write_text(text[:50])
    assert integrity.load_run(raw / point.key, point) is None
    head.write_text(text)
    (raw / point.key / "ops.0.parquet").unlink()
    assert integrity.load_run(raw / point.key, point) is None


def test_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    records.write_json(path, {"old": 1})
    monkeypatch.setattr(records.os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space") as refused:
        records.write_json(path, {"new": 2})
    assert refused.value.filename == str(path) and records.read_json(path) == {"old": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_record_lists_every_earlier_try(tmp_path, point, monkeypatch):
    """Failed twice, measured, measured again, and a last try that failed in spite of the record."""
    folder, now = tmp_path / "raw" / point.key, iter((10, 20, 50))
    monkeypatch.setattr(records.time, "time_ns", lambda: next(now))

    def measured(start_ns: int) -> list:
        work = tmp_path / str(start_ns)
        work.mkdir()
        record.put_in_place(records.RunRecord(point=point, start_ns=start_ns), work, folder)
        return [(t["time_ns"], t["outcome"], t["reason"]) for t in records.read_json(folder / "run.json")["earlier"]]

    records.fail(folder, point, "the store was down")
    records.fail(folder, point, "client 3 is missing")
    failures = [(10, "failed", "the store was down"), (20, "failed", "client 3 is missing")]
    assert measured(30) == failures and not (folder / "failed.json").exists()
    again = (30, "measured", "measured again by request")
    assert measured(40) == [*failures, again]
    records.fail(folder, point, "it was stopped")
    assert not (folder / "failed.json").exists()
    earlier = records.read_json(folder / "later.json")["earlier"]
    assert [t["time_ns"] for t in earlier] == [10, 20, 30, 40]
    assert [t["time_ns"] for t in records.earlier(folder, records.as_json(point.identity()))] == [10, 20, 30, 40, 50]
    object.__setattr__(point, "rep", 2)  # a record of another point does not count
    assert records.earlier(folder, records.as_json(point.identity())) == []


PAGES = ROOT / "docs"
WIDER = {"few words": "dictionary", "many words": "dictionary", "histogram": "list of (upper_ns, count)"}


def documented(title: str) -> dict[str, str]:
    """Return column -> type, as the tables below a heading of docs/records.md say; ranges (`a` … `b`) are left out."""
    page = (PAGES / "records.md").read_text()
    section = page[page.index(f"\n## {title}") + 1 :].partition("\n## ")[0]
    out = {}
    for names, kinds in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", section, re.M):
        columns, types = re.findall(r"`(\w+)`", names), kinds.replace(", null", "").strip()
        of = types.split(", ") if "(" not in types else [types]
        if "…" not in names:
            out |= dict(zip(columns, of if len(of) == len(columns) else of * len(columns), strict=True))
    return out


def test_tables_have_columns_and_types_of_their_page():
    phases = {"open_ns", "plan_ns", "transfer_ns", "decompress_ns", "deserialise_ns"}  # the page names them as a range
    for table in ("ops", "reads", "answers", "days", "launches", "collections"):
        kinds = {"ops": records.OPS, "reads": records.READS, **records.TABLES}[table]
        page, others = documented(f"`{table}.<client>.parquet`"), phases if table == "reads" else set()
        assert set(kinds) == set(page) | others and {kinds[c] for c in others} <= {"int64"}, table
        assert {c: WIDER.get(kinds[c], kinds[c]) for c in page} == page, table


def test_columns_of_consistency_tables():
    page = (PAGES / "records.md").read_text()
    section = page.partition("| `scenarios`: column |")[2].partition("| scenario | a try")[0]
    named = {c for row in re.findall(r"^\| (`[^|]+) \|", section, re.M) for c in re.findall(r"`(\w+)`", row)}
    kinds = dict.fromkeys(("scenario", "key", "evidence"), "string") | {"client": "int16", "same_front_end": "bool"}
    both = records.SCENARIOS | records.ANOMALIES
    assert both == {c: kinds.get(c, "int64") for c in named}


def test_monitor_has_the_columns_of_its_page():
    """docs/resources.md names counters of traffic in pairs: bytes and packets, received and sent."""
    section = (PAGES / "resources.md").read_text().partition("| column | of | meaning |")[2].partition("\n\n")[0]
    named = {c for row in re.findall(r"^\| (`[^|]+) \|", section, re.M) for c in re.findall(r"`(\w+)`", row)}
    traffic = {f"{way}_{what}" for way in ("rx", "tx") for what in ("bytes", "packets")}
    assert {*records.MONITOR} == named | traffic | {"files"}
    words, shares = {"host", "what", "name"}, {"cpu_user_s", "cpu_system_s"}
    kinds = dict.fromkeys(words, "string") | dict.fromkeys(shares, "float64")
    assert {c: kinds.get(c, "int64") for c in records.MONITOR} == records.MONITOR


def test_tables_are_packed_and_encoded(tmp_path):
    """Columns of few values are dictionaries, times and bytes are differences; nothing has statistics."""
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
    assert kept.column_names == [*records.OPS]
    assert kept["end_ns"].to_pylist() == columns["end_ns"] and kept["object"].to_pylist() == columns["object"]
    assert kept["latency_hist"].to_pylist() == columns["latency_hist"] and kept["worker"].null_count == n
    records.write_table(tmp_path / "none.parquet", records.DAYS, {})
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_damage_of_a_file_by_itself(tmp_path):
    path = tmp_path / "x.json"
    records.write_summed(path, {"a": 1, "sum": "another's", "summed": False})
    assert records.damage(path) is None and records.read_json(path)["a"] == 1
    text = path.read_text()
    assert records.read_json(path)["sum"] == hashlib.sha256(re.sub(r',\n "sum".*\n', "\n", text).encode()).hexdigest()
    for changed, found in (
        (text.replace('"a": 1', '"a": 2'), "does not match its checksum"),
        (text.replace(' "sum"', ' "gone"'), "lost its checksum"),
        (text[:-3], "is not JSON"),
        ("[1]", "is not a mapping"),
    ):
        path.write_text(changed)
        assert found in records.damage(path)
    path.write_text('{"a": 1}')
    assert records.damage(path) is None, "older versions wrote no checksum"
    path.unlink()
    assert records.damage(path) == f"cannot be read ({os.strerror(errno.ENOENT)})"
    path.mkdir()
    assert records.damage(path) == f"cannot be read ({os.strerror(errno.EISDIR)})"


def test_summed_file_has_the_format_of_its_page(tmp_path):
    """`summed` is its first key and `sum` its last; no number that JSON lacks."""
    text = records.with_sum({"a": [1], "summed": False}).decode()
    plain = '{\n "summed": true,\n "a": [\n  1\n ]\n}\n'
    assert text == plain[:-3] + f',\n "sum": "{hashlib.sha256(plain.encode()).hexdigest()}"\n}}\n'
    with pytest.raises(ValueError, match="JSON"):
        records.with_sum({"a": float("nan")})


def test_files_are_on_disk_before_they_have_their_name(tmp_path, monkeypatch):
    """Tables may be written without waiting for the disk, on request."""
    for sync, count in ((None, 1), (True, 1), (False, 0)):
        synced = []
        with monkeypatch.context() as patch:
            patch.setattr(records.os, "fsync", synced.append)
            records.write_table(tmp_path / "t", records.SCENARIOS, {"client": [1]}, *([] if sync is None else [sync]))
        assert len(synced) == count and pq.read_table(tmp_path / "t")["client"].to_pylist() == [1]
    (tmp_path / "a").write_text("x")
    done, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: done.append(str(Path(f"/proc/self/fd/{fd}").readlink())) or fsync(fd))
    monkeypatch.setattr(os, "replace", lambda a, b: done.append("replace") or replace(a, b))
    records.move_in(tmp_path / "a", tmp_path / "b")
    assert done == [str(tmp_path / "a"), "replace"] and (tmp_path / "b").read_text() == "x"


def test_sealed_records_have_declared_columns():
    """A renamed column would lose what was measured."""
    for table, declared in records.TABLES.items():
        for path in sorted(ROOT.glob(f"results/*/raw/**/{table}.0.parquet"))[:3]:
            assert {*pq.read_schema(path).names} <= {*declared}, path
    assert set(records.TABLES) >= {"anomalies", "scenarios", "answers", "days", "collections", "launches", "monitor"}


# Earlier tries, and records of other points and schemas

POINT = Point("s", "get", {"a": 1, "b": 2}, 1, "s/get/rep~001", "s", 7, 1).to_json()


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
    assert integrity.missing(tmp_path.parent, [tmp_path.name, "no"]) == ["no"]
    (tmp_path / "run.json").unlink()
    assert integrity.missing(tmp_path.parent, [tmp_path.name]) == [tmp_path.name]
    assert integrity.missing(tmp_path.parent, [tmp_path.name], True) == []


def test_later_schema_is_refused(tmp_path):
    assert records.SCHEMA == 4
    (tmp_path / "x.parquet").write_bytes(b"12345")
    files = {"x.parquet": {"bytes": 5, "sha256": hashlib.sha256(b"12345").hexdigest()}}
    for schema in (2, 4):
        records.write_json(tmp_path / "run.json", {"schema": schema, "point": POINT, "files": files})
        assert integrity.load_run(tmp_path)
    records.write_json(tmp_path / "run.json", {"schema": 5, "point": POINT, "files": files})
    assert "has schema 5" in refusal(integrity.load_run, tmp_path)
    records.write_json(tmp_path / "run.json", {"schema": 4, "point": POINT, "files": files})
    (tmp_path / "x.parquet").write_bytes(b"1234")
    assert integrity.load_run(tmp_path) is None
