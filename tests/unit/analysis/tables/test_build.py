"""Tables are built only from whole records, and are the same for the same records."""

from importlib import import_module
from inspect import signature
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from make_examples import ONE_EACH, make
from paths import DATA

from campaigns import built
from storelab.analysis import tables
from storelab.analysis.records import campaign
from storelab.analysis.tables import build
from storelab.core import integrity, records
from storelab.core.errors import UserError

MEASURED = sorted(p.parents[1] for p in (DATA).glob("*/raw/plan.json"))


@pytest.fixture
def fresh(tmp_path):
    """Return a small campaign that a test may change."""
    sweeps = {"upload": {"workload": "put", "duration": "4 s", "axes": {"clients": [1, 2]}}}
    make(tmp_path, failed=(), sweeps=sweeps, repetitions=2)
    return tmp_path


def refused(folder, pattern):
    with pytest.raises(UserError, match=pattern):
        build.build(folder)


def test_build_writes_every_table(tmp_path):
    """Tables are also built if no point was measured."""
    make(tmp_path, failed=("read_entries", "put", "get"), sweeps=ONE_EACH, repetitions=1)
    made = build.build(tmp_path)
    assert sorted(made) == sorted((tmp_path / "tables").glob("*.csv")) and {p.stem for p in made} == set(build.NAMES)
    assert build.read(tmp_path, "throughput").empty
    assert set(build.read(tmp_path, "points")["state"]) == {"failed"}


def test_makers_name_functions_and_what_exists():
    known = {*tables.TABLES, *tables.GIVEN, "campaign", "plan", "tables"}
    for maker in [*tables.TABLES.values(), *tables.GIVEN.values(), *tables.NUMBERS.values()]:
        module, _, function = maker.function.rpartition(".")
        arguments = signature(getattr(import_module(f"{tables.__name__}.{module}"), function)).parameters
        assert len(arguments) >= len(maker.takes) and {*maker.takes} <= known, maker.function


def test_tables_are_made_once_on_request(monkeypatch):
    made = []

    class Counted(tables.Maker):
        def make(self, source):
            made.append(self.function)
            return [*(source[taken] for taken in self.takes), self.function]

    monkeypatch.setattr(
        build, "TABLES", {"bread": Counted("bread", "flour"), "cake": Counted("cake", "bread", "flour")}
    )
    monkeypatch.setattr(build, "GIVEN", {})
    goods = build.Tables(campaign.Campaign(Path(), {}, {}, {}), flour=1)
    assert made == [] and goods["cake"] == [[1, "bread"], 1, "cake"] and goods["bread"] == [1, "bread"]
    assert made == ["cake", "bread"] and {*goods} == {"campaign", "plan", "tables", "flour", "bread", "cake"}
    with pytest.raises(KeyError, match=r"^'milk'$"):
        goods["milk"]


def test_workload_without_data_has_no_row(tmp_path):
    make(tmp_path, failed=("read_entries", "put"), sweeps=ONE_EACH, repetitions=1)
    tables = build.Tables(campaign.load(tmp_path))
    assert tables["sparse"].empty and set(tables["throughput"]["workload"]) == {"get"}


def test_altered_record_stops_build(fresh):
    path = next((fresh / "raw").rglob("ops.0.parquet"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    refused(fresh, "wrong checksum")
    assert not (fresh / "tables").exists()


def test_edited_column_stops_build(fresh):
    """Edit a Parquet file and a head, and make all checksums again."""
    head = next((fresh / "raw").rglob("ops.0.parquet")).with_name("run.json")
    edited(head, lambda rows: rows.drop_columns("end_ns"))
    refused(fresh, "has columns or values that storelab does not write")
    records.write_summed(head, {k: v for k, v in records.read_json(head).items() if k != "start_ns"})
    integrity.write_sums(fresh / "raw")
    refused(fresh, "has no 'start_ns': the file is damaged")


def edited(head, change):
    """Change the operations of a record, and make all checksums again."""
    path = min(head.parent.glob("ops.0.*parquet"))
    pq.write_table(change(records.read_table(path)), path)
    run = records.read_json(head)
    records.write_summed(head, run | {"files": records.file_entries(head.parent.glob("*.parquet"))})
    raw = head.parent
    while not (raw / integrity.PLAN).exists():
        raw = raw.parent
    integrity.write_sums(raw)


def column(name, value):
    """Return a change that gives all rows of a column one value."""

    def change(rows):
        field = rows.schema.field(name)
        return rows.set_column(rows.schema.get_field_index(name), field, pa.array([value] * rows.num_rows, field.type))

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: pa.concat_tables([rows, rows]), r"has \d+ completed and \d+ failed operations, but run.json has"),
        (lambda rows: rows.slice(1), "completed and"),
        (lambda rows: rows.slice(0, 0), ""),
        (column("error", "Refused"), "has 0 completed and"),
        (column("count", 0), "an operation with the count 0"),
        (column("bytes", -1), "an operation of -1 bytes"),
        (column("end_ns", None), "an operation without an end"),
        (column("client", 7), "operations of another client"),
        (lambda rows: rows.drop_columns("first_byte_ns"), "does not write"),
        (
            lambda rows: rows.drop_columns("count").append_column("count", pa.array(["1"] * rows.num_rows)),
            "column 'count' of a file ops.*.parquet has the type VARCHAR|does not write",
        ),
    ],
)
def test_edited_operations_stop_build(fresh, change, words):
    for head in sorted((fresh / "raw").rglob("run.json")):
        edited(head, change)
    if words:
        refused(fresh, words)


def test_tables_of_a_repeated_point_have_the_attempt_in_their_names(fresh):
    """They are read and checked like all others."""
    heads = sorted((fresh / "raw").rglob("run.json"))
    for head in heads:
        run = records.read_json(head)
        names = [f"{Path(name).stem}.0123abcd.parquet" for name in run.pop("files")]
        for name in names:
            (head.parent / name.replace(".0123abcd", "")).rename(head.parent / name)
        records.finish(head.parent, run, names)
    integrity.write_sums(fresh / "raw")
    build.build(fresh, ["throughput"])
    edited(heads[0], lambda rows: pa.concat_tables([rows, rows]))
    refused(fresh, "completed and")


def test_edited_failure_stops_build(tmp_path):
    make(tmp_path, failed=("put",), sweeps={"up": {"workload": "put", "duration": "4 s"}}, repetitions=1)
    path = next((tmp_path / "raw").rglob("failed.json"))
    failure = {k: v for k, v in records.read_json(path).items() if k not in records.SUM_KEYS}
    for change, words in (
        ({"reason": None}, "`reason` cannot be None"),
        ({"point": failure["point"] | {"rep": 9}}, "is the record of another point"),
    ):
        records.write_summed(path, failure | change)
        integrity.write_sums(tmp_path / "raw")
        refused(tmp_path, words)


def test_missing_parquet_file_stops_build(fresh):
    next((fresh / "raw").rglob("ops.0.parquet")).unlink()
    refused(fresh, r"ops\.0\.parquet.*missing")


def test_missing_point_stops_build(fresh):
    for key in ("clients~0002_rep~001", "rep~002"):
        (fresh / "raw/alpha/put" / key / "run.json").unlink()
    refused(fresh, r"alpha/put/.*missing \(2 files")
    integrity.write_sums(fresh / "raw")
    for name in ("ops.0.parquet", "ops.1.parquet"):
        (fresh / "raw/alpha/put/rep~002" / name).unlink(missing_ok=True)
    integrity.write_sums(fresh / "raw")
    wanted = r"alpha/put/.*2 of 4 points.*`storelab run %s`"
    refused(fresh, wanted % fresh.name)
    content = records.read_json(fresh / "raw/plan.json")
    plan = {k: v for k, v in content.items() if k not in records.SUM_KEYS} | {"file": "other"}
    records.write_summed(fresh / "raw/plan.json", plan)
    integrity.write_sums(fresh / "raw")
    refused(fresh, wanted % f"other name={fresh.name}")


def test_record_of_another_point_stops_build(fresh):
    a, b = (fresh / "raw/alpha/put" / k / "run.json" for k in ("rep~001", "rep~002"))
    a.write_bytes(b.read_bytes())
    integrity.write_sums(fresh / "raw")
    refused(fresh, "another point")


def test_sealed_campaign_refuses_changed_records(fresh):
    first = campaign.seal(fresh)
    assert first["points"] == 4 and integrity.seal_of(fresh / "raw") == first and campaign.seal(fresh) == first
    build.build(fresh, ["points"])
    records.write_json(fresh / "raw/note.json", {})
    integrity.write_sums(fresh / "raw")
    refused(fresh, "sealed")


def test_seal_refuses_failures_without_option(tmp_path):
    make(tmp_path, failed=("alpha/put/rep~002",), sweeps=ONE_EACH)
    with pytest.raises(UserError, match=r"1 of 9 points.*did not arrive"):
        campaign.seal(tmp_path)
    assert campaign.seal(tmp_path, with_failures=True)["failed"] == 1


@pytest.mark.heavy
def test_same_records_give_the_same_tables(tmp_path):
    make(tmp_path)
    for path in build.build(tmp_path):
        assert path.read_bytes() == (built("example") / "tables" / path.name).read_bytes()


def test_measured_examples_are_readable():
    """Operations are counted without DuckDB."""
    assert MEASURED
    for folder in MEASURED:
        loaded = campaign.load(folder)
        tables = build.Tables(loaded)
        assert len(tables["points"]) == len(loaded.points)
        assert len(tables["resources"]) and tables["resources"]["client_cpu_median_cores"].notna().all()
        for row in tables["points"].query("state == 'ok'").to_dict("records"):
            ops = [pq.read_table(path) for path in (folder / "raw" / row["key"]).glob("ops.*.parquet")]
            good = [pc.sum(t.filter(pc.is_null(t["error"]))["count"]).as_py() or 0 for t in ops]
            assert row["operations"] == sum(good) > 0
            run = loaded.runs[row["key"]]
            begin = max(c.get("start_ns") or run["start_ns"] for c in run["clients"])
            end = min(min(c.get("end_ns") or run["deadline_ns"], run["deadline_ns"]) for c in run["clients"])
            lasted = (end - begin - run["point"]["fixed"]["warm_up_ns"]) / 1e9
            assert row["overlap_length_s"] == pytest.approx(lasted)
