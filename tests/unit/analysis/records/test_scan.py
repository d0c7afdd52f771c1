"""Rows of Parquet files in one scan, each with the value that its file maps to."""

from small_records import AGREED, campaign_of, operations

from storelab.analysis.records import scan

MS = 10**6


def test_two_scans_at_once_are_apart(tmp_path):
    """All rows are of one database."""
    tables = {"first": {"ops.0": operations(1, 2, 3)}, "second": {"ops.0": operations(4, 5)}}
    campaign = campaign_of(tmp_path, tables)
    both, alone = scan.connect(campaign, "ops"), scan.connect(campaign, "ops", ["second"])
    rows = f"SELECT end_ns - {AGREED}, key FROM rows ORDER BY end_ns"
    assert both.execute(rows).fetchall() == [*((n, "first") for n in (1, 2, 3)), (4, "second"), (5, "second")]
    assert alone.execute(rows).fetchall() == [(4, "second"), (5, "second")]


def test_records_of_older_schemas_have_the_later_columns_as_null(tmp_path):
    """The monitor's `files` came with schema 4; a run with an older schema has null there, next to any other run."""
    least = {"host": ["n"], "what": ["host"], "name": ["n"], "time_ns": [1]}
    tables = {"old": {"monitor.n": least}, "new": {"monitor.n": least | {"files": [12]}}}
    campaign = campaign_of(tmp_path, tables, old={"schema": 3}, new={"schema": 4})
    rows = scan.connect(campaign, "monitor").execute("SELECT key, files FROM rows ORDER BY key").fetchall()
    assert rows == [("new", 12), ("old", None)]
    only = campaign_of(tmp_path, {"old": {"monitor.n": least}}, old={"schema": 3})
    assert scan.connect(only, "monitor").execute("SELECT files FROM rows").fetchall() == [(None,)]
    assert scan.ADDED == {
        "ops": {"intended_ns": "BIGINT", "endpoint": "SMALLINT"},
        "monitor": {"files": "BIGINT"},
    }, "docs/records.md, `schema`: 1 had no `intended_ns`, 2 no `endpoint`, 3 no `files` of the monitor"


def test_runs_without_schema_are_read_with_others(tmp_path):
    tables = {k: {"ops.0": operations(*range(n))} for k, n in (("none", 3), ("two", 4), ("four", 5))}
    campaign = campaign_of(tmp_path, tables, two={"schema": 2}, four={"schema": 4})

    def counted(keys=None):
        con = scan.connect(campaign, "ops", keys)
        return dict(con.execute("SELECT key, count(*) FROM rows GROUP BY key").fetchall()) if con else None

    assert counted() == {"none": 3, "two": 4, "four": 5}
    assert counted(iter(["none", "four", "gone"])) == {"none": 3, "four": 5}
    assert counted([]) is None and scan.connect(campaign, "reads") is None


def test_bounds_of_a_run(tmp_path):
    """From the last client's start, and the warm-up, to the first one's end, at the latest the deadline."""
    clients = [(1, 9), (3, 30), (None, None)]
    clients = [{"start_ns": b and AGREED + b, "end_ns": e and AGREED + e} for b, e in clients]
    fixed = {"fixed": {"warm_up_ns": 2, "bin_ns": 50}}
    content = {"k": {"clients": clients, "point": fixed}, "none": {"clients": []}}
    found = scan.bounds(campaign_of(tmp_path, {"k": {}, "none": {}}, **content)).set_index("key")
    assert found.loc["k"].to_dict() == {
        **{"agreed_ns": AGREED, "overlap_begin_ns": AGREED + 5, "first_end_ns": AGREED + 9, "bin_ns": 50}
    }
    assert found.loc["none"].tolist() == [AGREED, AGREED + 2, AGREED + 10, 100 * MS]
