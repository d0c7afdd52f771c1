"""verdicts.csv: subjects, best groups, verdicts and other rules that fired; on the terminal and in the paper."""

import math

import pandas as pd
import pytest
from click.testing import CliRunner
from make_examples import ONE_EACH, make
from tex_files import facts

from campaigns import built
from storelab.analysis.latex import verdicts as latex
from storelab.analysis.tables import build, verdicts
from storelab.analysis.tables.verdicts import Group, Subject
from storelab.cli import analysis


@pytest.fixture(scope="module")
def table():
    return build.read(built("example"), "verdicts")


def test_each_store_workload_and_size_has_a_row(table):
    assert list(table.columns) == list(verdicts.COLUMNS)
    found = table[table["workload"] == "put"]
    assert list(found["what"]) == ["4 kB objects", "10 MB objects"] and list(found["unit"]) == ["objects/s", "MB/s"]
    small = found.iloc[0]
    assert small[["store", "deployment", "engine", "n"]].tolist() == ["alpha", "alpha", "s5cmd", 3]
    assert small["where"] == "4 clients, 8 workers per client, 2 front-ends"
    assert small["best"] == pytest.approx(800, rel=0.02) and small["verdict"] == "front-ends"
    assert small["evidence"].startswith("2 against 1 front-end: x2.00, the ranges of 3 and 3 runs do not overlap")
    assert pd.isna(small["would_decide"])
    assert small["also"].startswith("concurrency: still rising at the most measured: ")


def test_open_loops_have_no_limit():
    found = build.read(built("timed"), "verdicts").query("workload == 'get'")
    assert list(found["what"]) == ["4 kB objects", "10 MB objects"] and set(found["n"]) == {1}


def test_terminal_and_paper_have_verdicts(table, tmp_path):
    found = CliRunner().invoke(analysis.verdict, ["--campaign-dir", str(built("example"))])
    assert found.exit_code == 0, found.output
    for part in ("alpha, put, s5cmd, 4 kB objects: ", "limited by: front-ends", "also: concurrency"):
        assert part in found.output, part
    tex = latex.verdicts(table)
    assert r"\label{tab:verdicts}" in tex and "front-ends" in tex and "objects/s" in tex
    blocks = [line for line in tex.splitlines() if "emph{alpha}" in line]
    assert blocks == [r"\multicolumn{4}{@{}l@{}}{\emph{alpha}} \\*"]
    make(tmp_path, failed=("put", "get", "read_entries"), repetitions=1, sweeps=ONE_EACH)
    build.build(tmp_path, ["verdicts", "points"])
    none = CliRunner().invoke(analysis.verdict, ["--campaign-dir", str(tmp_path)])
    assert none.exit_code != 0 and "no measured point" in str(none.exception)


# Subjects

BY = ["store", "workload", "clients", "part_size_bytes"]
NULL = pd.NA


def points(*rows):
    """Return runs: (clients, part size, speed) of each."""
    table = pd.DataFrame(rows, columns=["clients", "part_size_bytes", "value"])
    table = table.assign(store="a", workload="get", state="ok", reason=None, metric="throughput")
    return table.astype({"clients": "Int64", "part_size_bytes": "Int64"})


RUNS = points((1, 5, 10.0), (1, 5, 12.0), (4, 5, 40.0), (4, 5, 44.0), (1, NULL, 900.0), (4, 6, 800.0))
GROUPS = pd.DataFrame(
    {"store": "a", "workload": "get", "clients": [1, 4, 4, 4], "part_size_bytes": [5, 5, NULL, 6], "n": [2, 2, 7, 8]}
).astype({"part_size_bytes": "Int64"})


def about(size, **tables):
    own = RUNS[RUNS["part_size_bytes"] == size] if size else RUNS[RUNS["part_size_bytes"].isna()]
    given = {"points": RUNS, "throughput": GROUPS, "resources": GROUPS.assign(n=99, cores=2)}
    known = verdicts.Known(given | tables, BY, ["store", "workload", "part_size_bytes"])
    return known.subject(verdicts.identities(own, BY), own["value"])


def test_subject_has_its_runs_and_its_best_group():
    s = about(5)
    assert s.best == Group({"store": "a", "workload": "get", "clients": 4, "part_size_bytes": 5}, (40.0, 44.0))
    assert [g.values for g in s.groups] == [(10.0, 12.0), (40.0, 44.0)]
    assert (s.row["n"], s.row["cores"]) == (2, 2), "throughput.csv before resources.csv"
    assert s.points.index.tolist() == [0, 1, 2, 3], "a null is not a part size"
    none = about(None)
    assert none.points.index.tolist() == [4] and none.best.axes["part_size_bytes"] is None and none.row == {}


def test_subject_has_its_curves():
    assert about(5).curves.empty, "a campaign may have no scaling.csv"
    curves = pd.DataFrame({"store": "a", "workload": "get", "part_size_bytes": [5, 6, NULL], "axis": "clients"})
    curves = curves.astype({"part_size_bytes": "Int64"})
    assert about(5, scaling=curves).curves.index.tolist() == [0]
    assert about(None, scaling=curves).curves.index.tolist() == [2]
    assert about(5, scaling=curves.drop(columns="part_size_bytes")).curves.index.tolist() == [0, 1, 2]
    assert about(5, scaling=curves.iloc[:0]).curves.empty


def test_rows_with_the_same_axes():
    axes = [({"x": 1}, [0]), ({"x": None}, [1, 3]), ({"x": 2}, [2])]
    for wanted, kept in [*axes, ({"x": 1, "y": "b"}, []), ({"x": None, "y": "b"}, [3])]:
        for x in (pd.array([1, None, 2, None], dtype="Int64"), [1.0, math.nan, 2.0, math.nan]):
            table = pd.DataFrame({"x": x, "y": ["a", "a", "a", "b"]})
            assert verdicts.RowIndex(table, [*wanted]).find(wanted).index.tolist() == kept, wanted


def test_names_and_units_of_subjects():
    axes = {"store": "s", "workload": "get", "engine": "loadgen", "clients": 4, "object_size_bytes": 4000}
    axes |= {"payload": "unsigned", "balance": "client", "max_range_gap_bytes": None, "own_axis": 3}
    assert verdicts.described(axes) == ["4 kB objects", "payload unsigned", "own axis 3"]
    cases = {("get", True): "MB/s", ("get", False): "objects/s", ("delete", False): "operations/s"}
    assert {case: verdicts.units_of(*case) for case in cases} == cases
    assert set(verdicts.VARIED) == {
        *("clients", "workers", "buckets", "accounts", "front_ends", "part_size_bytes", "parallel_parts", "batch"),
        *("offset", "keys_per_worker", "page_size", "merge", "max_range_gap_bytes", "thrift", "max_amplification"),
    }


# Rows

CPU = {"host_cpu_median_percent": 95.0, "cores": 10, "client_cpu_median_cores": 9.0, "server_cpu_median_cores": 0.1}


def verdict_row(metric="throughput", groups=(), axes=None, invalid=0, **row):
    own = {"store": "a", "workload": "get", "engine": "loadgen", "object_size_bytes": 10**6, "clients": 2, "workers": 8}
    best = Group(own | (axes or {}), (100.0, 101.0, 102.0))
    ok = pd.DataFrame({"state": ["ok"] * 3 + ["invalid"] * invalid, "clients": 2, "workers": 8, "reason": "late"})
    others = tuple(Group(best.axes | changed, (1.0,)) for changed in groups)
    s = Subject(best, row, (best, *others), ok, pd.DataFrame())
    return verdicts._row({"store": "a", "workload": "get", "metric": metric}, s)


def test_full_links_are_named_and_contradictions_follow():
    full = {"link_of": "front-ends", "link_used_percent": 95, "link_bits_per_s": 6e8, "link_each": "2 × 300 Mbit/s"}
    row = verdict_row(**full, link_problem="9 Mbit/s cannot be")
    assert row["verdict"] == "front-ends' links (2 × 300 Mbit/s)" and row["would_decide"] == ""
    assert row["also"] == "contradiction: 9 Mbit/s cannot be"
    tex = latex.verdicts(pd.DataFrame([row]))
    assert r"front-ends' links (2 $\times$ 300 Mbit/s)" in tex and "contradiction" in tex
    open_ = verdict_row(link_problem="9 Mbit/s cannot be")
    assert open_["verdict"] == "not known" and "9 Mbit/s cannot be" in open_["would_decide"]
    both = latex.verdicts(pd.DataFrame([row, open_])).split(r"\end{fixedtable}")
    assert "not known" not in both[0] and "not known for a (get, " in both[1] and "9 Mbit/s cannot be" in both[1]
    assert "tabular" not in latex.verdicts(pd.DataFrame([open_]))
    many = pd.DataFrame([row] * 8)
    found = {n: facts(verdicts=pd.DataFrame(rows)) for n, rows in (("open", [open_]), ("one", [row]), ("many", many))}
    assert {n: (f["limits_named"], f["limits_long"]) for n, f in found.items()} == {
        "open": (False, False),
        "one": (True, False),
        "many": (True, True),
    }
    assert "longtable" in latex.verdicts(many) and "longtable" not in both[0]


def test_first_rule_is_the_verdict_and_others_follow():
    row = verdict_row(bound_by="client", ceiling_percent=97.0, **CPU, host_memory_median_percent=96.0)
    assert row["verdict"] == "client memory" and row["evidence"].startswith("96 % of the memory")
    also = [part.partition(": ")[0] for part in row["also"].split("; ")]
    assert also == ["client ceiling", "client CPU"] and row["would_decide"] == ""
    assert (row["best"], row["unit"], row["n"]) == (101.0, "MB/s", 3)
    alone = verdict_row(bound_by="client", ceiling_percent=97.0)
    assert (alone["verdict"], alone["also"]) == ("client ceiling", "")


def test_invalid_runs_and_exceeded_ceilings_follow():
    row = verdict_row(invalid=1, ceiling_percent=135.2)
    assert row["verdict"] == "not known"
    assert row["also"] == (
        "invalid runs: 1 of 4, the first with 2 clients, 8 workers per client: late; "
        "contradiction: the rate is 135 % of the calibrated ceiling"
    )


def test_rate_of_few_operations_is_marked():
    full = {"link_of": "clients", "link_used_percent": 95, "link_bits_per_s": 6e8, "link_each": "600 Mbit/s"}
    texts = [latex.verdicts(pd.DataFrame([verdict_row(**full, few=few)])) for few in (True, False)]
    assert ["fewer than 10 operations" in text and "101\\textsuperscript{f} MB/s" in text for text in texts] == [
        True,
        False,
    ]


def test_unknown_limit_names_missing_data():
    row = verdict_row()
    assert (row["verdict"], row["also"]) == ("not known", "") and "a calibration" in row["would_decide"]
    assert row["where"] == "2 clients, 8 workers per client" and row["engine"] == "loadgen"
    assert [*row] == list(verdicts.COLUMNS) and (row["store"], row["deployment"], row["workload"]) == ("a", "a", "get")
    assert row["what"] == "1 MB objects"


def test_place_of_best_rate_names_varied_axes():
    """Clients and workers always, others where they were varied, none that the workload lacks."""
    row = verdict_row("rate", [{"buckets": 1}], {"workers": None, "buckets": 5, "front_ends": 1})
    assert row["where"] == "2 clients, 5 buckets" and row["unit"] == "objects/s"
