"""The paper's first page: its numbers, chosen by hand from tables made by hand, and no unmeasured ones.

Every campaign has an abstract with a number of each system that it measured, and without method.
"""

import re

import pandas as pd
import pytest
from garbage_rows import make_table as garbage_rows
from launch_rows import make_table as launch_rows
from release_rows import make_table as release_rows
from tex_files import TexFiles, facts

from campaigns import built
from storelab.analysis.latex import headlines as page
from storelab.analysis.tables import build

NONE = pd.DataFrame()


class Tables(dict):
    """Return tables by name; all others are empty."""

    def __missing__(self, name: str) -> pd.DataFrame:
        return pd.DataFrame()


def known(rows: pd.DataFrame | None = None, **tables: pd.DataFrame) -> dict:
    return page.headlines(Tables(tables, verdicts=verdicts() if rows is None else rows))


def groups(rows: list[dict], metric: str, unit: str) -> pd.DataFrame:
    """Return rows of a table of groups; `value` is the median, and its interval is a tenth to both sides."""
    out = []
    for row in rows:
        value = row.pop("value")
        values = dict(zip(("median", "low", "high"), (value, value * 0.9, value * 1.1), strict=True))
        out.append({"store": "alpha", "n": 6} | row | {f"{metric}_{part}_{unit}": v for part, v in values.items()})
    return pd.DataFrame(out)


def rates(*rows: dict) -> pd.DataFrame:
    """Return throughput.csv: MB/s of large objects, objects/s of small ones."""
    large = groups([dict(r) for r in rows if r["object_size_bytes"] >= 1e6], "throughput", "mb_per_s")
    small = groups([dict(r) for r in rows if r["object_size_bytes"] < 1e6], "rate", "per_s")
    table = pd.concat([large, small], ignore_index=True)
    return table.reindex(columns=[*table.columns, *(set(EMPTY) - set(table.columns))])


EMPTY = ("throughput_median_mb_per_s", "rate_median_per_s")
DOWN = {"workload": "get", "engine": "s5cmd", "object_size_bytes": 10_000_000}
UP = DOWN | {"workload": "put"}


def verdicts(*rows: tuple) -> pd.DataFrame:
    columns = ["deployment", "workload", "engine", "what", "unit", "best", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def cells(text: str) -> list[list[str]]:
    """Return the rows below the heading, by cell; lines of a cell are separated by `|`."""
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    return [
        [c.strip().replace(r"\newline ", "|") for c in line.split("&")] for line in body.split(r" \\") if line.strip()
    ]


def test_the_best_of_each_kind_with_interval_n_and_its_verdict():
    table = rates(
        DOWN | {"value": 700.0, "n": 6},
        DOWN | {"value": 800.0, "object_size_bytes": 100_000_000, "n": 5},
        DOWN | {"value": 900.0, "object_size_bytes": 4000},
        UP | {"value": 100.0, "n": 1},
    )
    known_verdicts = verdicts(
        ("alpha", "get", "s5cmd", "10 MB objects", "MB/s", 700.0, "buckets"),
        ("alpha", "get", "s5cmd", "100 MB objects", "MB/s", 800.0, "client network"),
        ("alpha", "get", "s5cmd", "4 kB objects", "objects/s", 900.0, "server CPU"),
        ("alpha", "put", "s5cmd", "10 MB objects", "MB/s", 100.0, "server CPU"),
        ("beta", "get", "s5cmd", "10 MB objects", "MB/s", 9000.0, "errors"),
    )
    best = known(known_verdicts, throughput=table)
    text = page.summary(best)
    for heading in ("Download, large [MB/s]", "Upload, large [MB/s]", "Download, small [objects/s]"):
        assert heading in text
    assert "Upload, small" not in text and "Latency" not in text and "Sparse" not in text
    speeds = ["800|[720, 880]|100~MB, n~=~5", "100|10~MB, n~=~1", "900|[810, 990]|4~kB, n~=~6"]
    limits = r"client network \emph{(download large)}|server CPU \emph{(upload large, download small)}"
    assert cells(text) == [["alpha", *speeds, limits]]
    known_verdicts = {name for name, holds in facts(headlines=best).items() if holds and "summary" in name}
    assert known_verdicts == {"summary_intervals"}


@pytest.mark.parametrize("name", ["broad", pytest.param("reference", marks=pytest.mark.heavy)])
def test_each_rate_has_the_verdict_on_itself(name):
    """Return the row of verdicts.csv with the same rate, in any unit."""
    tables = Tables({t: build.read(built(name), t) for t in ("throughput", "verdicts")})
    found = [h for of in page.headlines(tables).values() for h in of]
    on = tables["verdicts"].set_index(["deployment", "best"])["verdict"].sort_index()
    kinds = {h.kind for h in found}
    assert {"Download, small", "HEAD request"} <= kinds
    for h in found:
        [verdict] = [v for (system, best), v in on.items() if system == h.system and best == pytest.approx(h.size)]
        assert h.verdict == verdict, h.kind


def test_sentence_reports_few_operations():
    best = known(throughput=rates(DOWN | {"value": 700.0, "few": True}, UP | {"value": 7.0, "few": False}))
    text = page.abstract(best, NONE)
    assert "large downloads (fewer than 10 operations a run) and" in text and "superscript" not in text
    assert page.summary(best).count("superscript") == 1


def test_a_row_for_each_system_a_dash_for_what_was_not_measured():
    table = rates(DOWN | {"value": 500.0, "n": 1}, UP | {"value": 50.0, "n": 1, "store": "beta"})
    known_verdicts = verdicts(("alpha", "get", "s5cmd", "10 MB objects", "MB/s", 500.0, "disturbed"))
    best = known(known_verdicts, throughput=table)
    assert cells(page.summary(best)) == [
        ["alpha", "500|10~MB, n~=~1", "--", "disturbed"],
        ["beta", "--", "50.0|10~MB, n~=~1", "not known"],
    ]
    assert {k for k, v in facts(headlines=best).items() if v and "summary" in k} == {"summary_several", "summary_gaps"}


def test_rate_of_an_arrival_process_is_no_best():
    table = rates(DOWN | {"value": 500.0, "arrival_rate": 50.0}, DOWN | {"value": 400.0, "arrival_rate": 0.0})
    best = known(throughput=table)
    assert [row[:2] for row in cells(page.summary(best))] == [["alpha", "400|[360, 440]|10~MB, n~=~6"]]


def curves(**columns) -> pd.DataFrame:
    """Return scaling.csv of one store: downloads of 1 MB over 1 to 4 front-ends, by one client and by eight."""
    rows = {"store": "alpha", "workload": "get", "object_size_bytes": 10**6, "clients": [1, 8], "front_ends": pd.NA}
    rows |= {"axis": "front_ends", "metric": "throughput", "values": 3, "least": 1, "most": 4, "n": 9}
    rows |= {"curve": ["not rising", "still rising"], "linearity_value": [0.0, 0.99], "linearity_low": [-0.1, 0.985]}
    return pd.DataFrame(rows | {"linearity_high": [0.1, 1.0]} | columns)


def test_linearity_is_that_of_the_curve_that_scales_best():
    ends = [(c, f, 18.0 * min(c, f)) for c in (1, 8) for f in (4, 2, 1)]
    table = [DOWN | {"object_size_bytes": 10**6, "clients": c, "front_ends": f, "value": v} for c, f, v in ends]
    [first, _] = known(throughput=rates(*table), scaling=curves())["alpha"]
    assert first.clause == "a linearity of 0.99 [0.98, 1.00] over 1 to 4 front-ends"
    assert first.where == "download, 1~MB objects, 8 clients, 18 to 36 to 72~MB/s, n~=~3"
    [first] = known(scaling=curves(curve="undecided", n=3))["alpha"]
    assert (first.lines, first.clause) == (
        ("not decided", "n~=~1"),
        "runs that do not decide how rates scale with front-ends",
    )


def test_overlapping_ranges_are_no_ranking():
    cases = [  # speeds, each from 90 % to 110 %; which overlap
        ((100, 101, 102, 103), "all systems"),
        ((100, 101, 102), "all systems"),
        ((50, 101, 102), r"\texttt{c} and \texttt{b}"),
        ((85, 100, 120), r"\texttt{c} and \texttt{b}, \texttt{b} and \texttt{a}"),
        ((50, 80, 120, 180), ""),
        ((50, 80), ""),
    ]
    for speeds, result in cases:
        stores = zip("abcd", map(float, speeds), strict=False)
        table = rates(*(DOWN | {"value": speed, "store": store} for store, speed in stores))
        found = re.findall(
            r"anges overlap: (?:large download \()?([^).]*)", page.abstract(known(throughput=table), NONE)
        )
        assert found == [result] * bool(result), speeds
        single = page.abstract(known(throughput=table.assign(n=1)), NONE)
        assert "overlap" not in single, "a single run has no range"


def test_engines_are_named_where_they_differ():
    table = [DOWN | {"value": 500.0}, UP | {"value": 50.0, "engine": "obstore"}]
    assert "(10~MB, s5cmd)" in page.abstract(known(throughput=rates(*table)), NONE)
    assert "s5cmd" not in page.abstract(known(throughput=rates(table[0])), NONE)


def test_abstract_has_kinds_of_all_systems_first():
    def of(system: str, *kinds: str) -> list[page.Headline]:
        return [page.Headline(system, kind, "", "", (), "1", "", "", 1.0) for kind in kinds]

    few = {"a": of("a", "x", "y", "z"), "b": of("b", "x", "w", "z")}
    assert [[h.kind for h in own] for own in page.shortened(few, 2).values()] == [["x", "z"], ["x", "z"]]
    many = few | {"c": of("c", "z"), "d": of("d", "v", "z")}
    assert [[h.kind for h in own] for own in page.shortened(many, 2).values()] == [["z"]] * 4


def latency(**columns) -> pd.DataFrame:
    """Return a table with downloads of 4 kB with 1 and 16 in flight, downloads of 1 MB, and an upload."""
    names = ["store", "workload", "object_size_bytes", "n", "op", "concurrency"]
    rows = [("alpha", "get", 4000, 6, "GET", 16), ("alpha", "get", 4000, 5, "GET", 1)]
    rows += [("alpha", "get", 10**6, 6, "GET", 1), ("alpha", "put", 1000, 1, "PUT", 1)]
    rows += [("alpha", "read_entries", None, 6, "READ", 1)]
    table = pd.DataFrame(rows, columns=names).assign(lower_bounds=None, loop="closed")
    for name, values in {"p50": [9.0, 2.5, 1.5, 0.5, 0.1], "p99": [90.0, 25.0, 15.0, 5.0, 1.0]}.items():
        for part, factor in (("median", 1), ("low", 0.9), ("high", 1.1)):
            table[f"latency_{name}_{part}_ms"] = [factor * v for v in values]
    return table.assign(**columns)


def test_latency_is_that_of_the_smallest_download_with_the_fewest_in_flight():
    def latency_text(table: pd.DataFrame) -> str:
        return cells(page.summary(known(latency=table)))[0][1]

    assert latency_text(latency()) == "p50~2.50 [2.25, 2.75]|p99~25.0 [22.5, 27.5]|GET 4~kB, 1 in flight, n~=~5"
    assert latency_text(latency()[lambda t: t["op"] == "PUT"]) == "p50~0.500|p99~5.00|PUT 1~kB, 1 in flight, n~=~1"
    bounds = latency(lower_bounds="latency_p99, latency_p999")
    assert latency_text(bounds) == r"p50~2.50 [2.25, 2.75]|p99~$\geq$25.0 [22.5, 27.5]|GET 4~kB, 1 in flight, n~=~5"
    few = latency(latency_p99_median_ms=float("nan"))
    assert latency_text(few) == "p50~2.50 [2.25, 2.75]|GET 4~kB, 1 in flight, n~=~5"  # too few operations for it
    assert not known(latency=latency()[lambda t: t["op"] == "READ"])


def test_sparse_reads_are_those_of_the_smallest_part_and_the_fastest_reader():
    readers = [("uproot-s3fs", 0.1, 30.0), ("planned", 0.1, 60.0), ("planned", 1.0, 500.0), ("planned", 100.0, 9000.0)]
    rows = [
        {"workload": "read_entries", "engine": engine, "entry_fraction_percent": percent, "value": value}
        for engine, percent, value in readers
    ]
    sparse = groups(rows, "entries", "per_s").assign(volume_fraction_percent=100.0, clients=2)
    known_verdicts = verdicts(
        ("alpha", "read_entries", "planned", "file S, 1 % of entries", "operations/s", 50.0, "errors"),
        ("alpha", "read_entries", "planned", "file S, 0.1 % of entries", "operations/s", 6.0, "client CPU"),
        ("alpha", "read_entries", "uproot-s3fs", "file S, 0.1 % of entries", "operations/s", 7.0, "buckets"),
    )
    [row] = cells(page.summary(known(known_verdicts, sparse=sparse)))
    assert row == ["alpha", r"60.0|[54.0, 66.0]|0.1~\% of entries, planned, 2 clients, n~=~6", "client CPU"]
    few = sparse.assign(volume_fraction_percent=1.0, entries_median_per_s=999.0)
    both = pd.concat([sparse.assign(entries=sparse["entry_fraction_percent"] / 10), few])
    assert cells(page.summary(known(known_verdicts, sparse=both)))[0][1].startswith(
        "60.0|[54.0, 66.0]|0.0100 of 10 entries"
    )
    whole = sparse[sparse["entry_fraction_percent"] == 100]
    assert not known(known_verdicts, sparse=whole)  # a read of the whole file is not sparse


def test_sparse_reads_have_the_verdict_of_all_branches():
    axes = {"volume_fraction_percent": 100.0, "entry_fraction_percent": 0.1, "clients": 2}
    sparse = groups([{"workload": "read_entries", "engine": "planned", "value": 6.0} | axes], "entries", "per_s")
    one, every = (f"file M, 0.1 % of entries, {percent} % of volume" for percent in (1, 100))
    known_verdicts = verdicts(
        ("alpha", "read_entries", "planned", one, "operations/s", 12.0, "server CPU"),
        ("alpha", "read_entries", "planned", every, "operations/s", 6.0, "client CPU"),
    )
    [[reads]] = known(known_verdicts, sparse=sparse).values()
    assert reads.verdict == "client CPU"


def test_jobs_show_the_most_events():
    rows = [
        {"workload": "events", "engine": "fsspec", "navigation": "scan", "clients": c, "value": v}
        | {"cache": "none", "read_ahead_bytes": 0}
        for c, v in ((1, 400.0), (2, 700.0))
    ]
    known_verdicts = verdicts(("alpha", "events", "fsspec", "file S", "operations/s", 7.0, "client CPU"))
    best = known(known_verdicts, events=groups(rows, "events", "per_s"))
    assert cells(page.summary(best)) == [["alpha", "700|[630, 770]|2 jobs, no cache, n~=~6", "client CPU"]]


@pytest.mark.parametrize("number", [1, 13])
def test_nothing_measured_is_no_summary_and_many_systems_have_small_letters(number):
    assert known() == {} and page.abstract({}, pd.DataFrame()) == ""
    stores = [f"s{i:02}" for i in range(number)]
    table = rates(*(DOWN | {"value": 100.0 + i, "store": s} for i, s in enumerate(stores)))
    text = page.summary(known(throughput=table))
    assert ("\\tiny" in text) is (number == 13) and [row[0] for row in cells(text)] == stores


def test_many_systems_are_in_one_sentence_for_each_kind_of_work():
    speeds = {"a": 100.0, "b": 300.0, "c": 200.0, "d": 50.0}
    table = rates(*(DOWN | {"value": speed, "store": store} for store, speed in speeds.items()))
    found = [(s, "get", "s5cmd", "10 MB objects", "MB/s", 1.0, "errors" if s == "d" else "client CPU") for s in "abcd"]
    question, rates_said, limits, open_, *_ = page.abstract(
        known(verdicts(*found), throughput=table), NONE
    ).splitlines()
    assert question == "We ask of four storage systems how fast objects move and what limits these rates."
    order = re.findall(r"\\texttt\{(\w)\}[a-z ]* (\d+)", rates_said)
    assert order == [("b", "300"), ("c", "200"), ("a", "100"), ("d", "50")]
    assert rates_said.endswith("; 10~MB, n~=~6 for all.") and rates_said.count("n~=~6") == 1
    assert limits == r"Limited by client CPU: \texttt{a}, \texttt{b} and \texttt{c} (large download)."
    assert open_ == r"With failed operations at the best rate: \texttt{d} (large download)."


def test_findings_are_counted_once_for_all_systems():
    rows = [("p", "confirmed"), ("p", "refuted"), ("q", "refuted"), ("q", "refuted"), ("r", "undecided")]
    found = page.findings(pd.DataFrame(rows, columns=["claim", "verdict"]))
    assert found.endswith("2 could be decided: 1 does not hold and 1 holds for some systems only.")


CAMPAIGNS = ["broad", "systems", "two_stores", "timed", "calibrated", "several", "soak", "roles"]
SEALED = ["probes", "hepix2010-small", "collect2015-small", "cvmfs2015-small", "degraded-small", "tenants-small"]
METHOD = ("deadline", "repetition", "shuffled", "checksum", "rendezvous", "warm-up", "window", "generated", "records")


@pytest.mark.parametrize("name", [*CAMPAIGNS, *(pytest.param(name, marks=pytest.mark.heavy) for name in SEALED)])
def test_abstract_has_a_number_of_each_system_and_no_method(name):
    points = build.read(built(name), "points")
    text = TexFiles(name)["paper"]
    text = text.split(r"\begin{abstract}")[1].split(r"\end{abstract}")[0]
    shown = [line for line in text.splitlines() if line and not line.startswith("We ask")]
    for system in set(points.loc[points["state"] == "ok", "store"]) - {"none", "nullserver"}:
        assert any(re.search(rf"texttt.{system}[,}}].*?\d", line) for line in shown), system
    assert "nan" not in text and "--" not in text
    assert not [word for word in METHOD if word in text.lower()]


@pytest.mark.parametrize(
    ("table", "rows", "says"),
    [
        ("releases", release_rows, ("to publish a day", "behind its source")),
        ("launches", launch_rows, ("until an application ran",)),
        ("collections", garbage_rows, ("deletions/s in garbage collection", "of its rate of uploads meanwhile")),
    ],
)
def test_software_and_garbage_have_headlines(table, rows, says, tmp_path):
    text = page.abstract(known(**{table: rows(tmp_path)}), pd.DataFrame())
    for part in says:
        assert re.search(rf"\d[^.;]*{part}", text), text
