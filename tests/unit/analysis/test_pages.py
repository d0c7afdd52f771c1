"""The page of `storelab quick`: its sections from tables of known numbers, as text and as HTML."""

import re
from html.parser import HTMLParser

import pandas as pd
import pytest

from campaigns import built
from storelab.analysis import pages
from storelab.analysis.pages import Page, Section
from storelab.analysis.tables import build


def test_page_shows_numbers_of_tables():
    page = pages.page(built("example"), "https://s3.example.org", 301.0)
    text = page.text()
    assert text.startswith("https://s3.example.org\n======================\n")
    assert "in 5 min 01 s" in " ".join(text.split()) and "Capabilities" not in text, "nothing was probed"
    titles = {s.title: s for s in page.sections}
    assert {"Sparse reads of a ROOT file", "Limits", "Failures"} < set(titles)
    rates = next(s for title, s in titles.items() if title.startswith("Uploads"))
    table = build.read(built("example"), "throughput").query("workload in ['put', 'get']")
    columns = ["rate_median_per_s", "throughput_median_mb_per_s"]
    for workload, name in (("put", "upload"), ("get", "download")):
        rows = [row for row in rates.rows if row[0].startswith(name)]
        shown = sorted([float(cell.split(" [")[0].replace(" ", "")) for cell in row[2:4]] for row in rows)
        expected = sorted(table[table["workload"] == workload][columns].to_numpy().tolist())
        assert len(rows) == 12 and [pytest.approx(row, rel=6e-3) for row in expected] == shown


def test_chart_shows_each_rate_on_a_logarithmic_axis():
    row = {"workload": "get", "object_size_bytes": 4000, "clients": 1, "workers": 4}
    columns = [f"throughput_{name}_mb_per_s" for name in ("low", "median", "high")]
    values = [(9, 10, 11), (float("nan"), 1000, float("nan")), (None, None, None)]
    table = pd.DataFrame([row | dict(zip(columns, v, strict=True)) for v in values])
    svg = pages.chart(table.astype(dict.fromkeys(columns, float)))
    centres = [float(text) for text in re.findall(r'<circle cx="([0-9.]+)"', svg)]
    assert len(centres) == 2 and svg.count("download of 4 kB × 4") == 3
    places = {label: float(x) for x, label in re.findall(r'<text x="([0-9.]+)" y="12" text-anchor="middle">(\d+)', svg)}
    assert list(places) == ["0", "10", "100", "1000"] or list(places) == ["1", "10", "100", "1000"]
    assert re.findall(r'stroke="#fff" [^>]*paint-order="stroke">([0-9]+)<', svg) == ["10", "1000"], "above the grid"
    assert centres == [places["10"], places["1000"]] and max(centres) < pages.WIDTH
    assert pages.chart(table.iloc[2:].astype(dict.fromkeys(columns, float))) == ""


def test_failed_run_is_listed_with_engine_and_reason():
    """The key of a point has no axes at their default."""
    keys = ["s/put/rep~001", "s/get/rep~001", "s/get/engine~loadgen_object_size~4kB_rep~002"]
    points = {"key": keys, "state": ["ok", "failed", "invalid"], "reason": [None, "no answer", "lost"]}
    engines = ["s5cmd", "s5cmd", "loadgen"]
    assert pages.failed_points(pd.DataFrame(points | {"engine": engines})).lines == [
        "get, engine s5cmd, rep 1: failed: no answer",
        "get, engine loadgen, object size 4kB, rep 2: invalid: lost",
    ]
    assert pages.failed_points(pd.DataFrame(points)).lines[0] == "get, rep 1: failed: no answer", (
        "no point has an engine"
    )


def test_rates_of_one_run_are_marked():
    row = {"workload": "get", "object_size_bytes": 4000, "clients": 1, "workers": 4, "errors": 0}
    rate = {"rate_median_per_s": 25.0, "throughput_median_mb_per_s": 0.1}
    several = {
        f"{name}_{end}_{unit}": v
        for name, unit in (("rate", "per_s"), ("throughput", "mb_per_s"))
        for end, v in (("low", 0.05), ("high", 30.0))
    }
    one = dict.fromkeys(several, float("nan"))
    shown = pages.rates(pd.DataFrame([row | rate | several | {"n": 3}, row | rate | one | {"n": 1}]))
    assert shown.rows[0][2] == "25.0 [0.1, 30.0]" and shown.rows[1][2:] == ["25 (n = 1)", "0.100 (n = 1)", "0"]
    assert shown.lines == ["n = 1: one run, which has no interval."]


def test_answers_other_than_yes_are_listed():
    rows = [("ranges", "one", "yes", ""), ("acl", "public_read", "no", "403\n Denied"), ("x", "y", "error", "lost")]
    found = pages.can(pd.DataFrame(rows, columns=["topic", "check", "answer", "evidence"])).lines
    assert len(found) == 3 and found[0].startswith("1 of 2 ")
    assert found[1].endswith("acl, public read: 403 Denied") and found[2].endswith("x, y")


def test_lower_bounds_of_latency_are_marked():
    row = {"workload": "get", "object_size_bytes": 4000, "clients": 1, "workers": 4}
    values = {"latency_p50_median_ms": 1.5, "latency_p90_median_ms": 2.0, "latency_p99_median_ms": None}
    table = pd.DataFrame([row | values | {"lower_bounds": "latency_p90"}, row | values | {"lower_bounds": None}])
    shown = pages.latencies(table)
    assert [r[2:] for r in shown.rows] == [["1.50", "≥ 2", "-"], ["1.50", "2", "-"]]
    assert shown.lines


def test_only_engines_that_read_are_explained():
    columns = {"entries_median_per_s": [13.0, 31.0], "entries_low_per_s": [None, 22.0]}
    columns |= {"entries_high_per_s": [None, 35.0], "needed_median_mb_per_s": [7.5, 16.9]}
    columns |= {"amplification_median_ratio": [None, 1.04], "requests_median_per_read": [2.0, 1.11], "n": [1, 3]}
    found = pd.DataFrame(columns | {"engine": ["uproot-s3fs", "planned"], "entry_fraction_percent": 1.0})
    both = pages.sparse(found)
    explained = ["planned", "uproot-s3fs", "n = 1", "moved / needed", "--"]
    assert [line.partition(":")[0] for line in both.lines] == explained and both.rows[0][1] == "13 (n = 1)"
    assert [row[0] for row in both.rows] == ["1 % of entries, uproot-s3fs", "1 % of entries, planned"]
    assert both.rows[1][1:] == ["31.0 [22.0, 35.0]", "16.9", "1.04", "1.11"]
    one = pages.sparse(found[found["engine"] == "planned"])
    assert [line.partition(":")[0] for line in one.lines] == ["planned", "moved / needed"]
    assert not pages.sparse(found[:0]).lines


class Words(HTMLParser):
    """Return the texts of a page, and its tags that are not closed."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th", "h1", "h2", "p"):
            self.cells.append(data)


def test_html_has_same_texts_escaped():
    evil = "<script>alert('x')</script>"
    page = Page(evil, "under & over", [Section("Title", ["", "n"], [[evil, "1"]], ["  a line", evil])])
    html = page.html()
    assert "<script" not in html
    read = Words(html)
    assert not read.open and read.cells == [evil, "under & over", "Title", "n", evil, "1", "a line", evil]


def test_text_is_aligned_and_wrapped():
    lines = Section("Title", ["", "n"], [["a", "1"], ["long name", "1000"]], ["  " + "word " * 60]).text()
    assert lines[2:5] == ["               n", "a              1", "long name   1000"]
    assert max(map(len, lines)) <= pages.WIDE and lines[6].startswith("    word")


def test_sections_of_campaigns_with_few_axes():
    """Tables lack the columns of axes that no point of their campaign has."""
    values = {"entries_median_per_s": 1.0, "entries_low_per_s": 1.0, "entries_high_per_s": 1.0}
    values |= {
        "needed_median_mb_per_s": 1.0,
        "amplification_median_ratio": 1.0,
        "requests_median_per_read": 1.0,
        "n": 1,
    }
    row = values | {"engine": "planned", "workload": "read_volume"}
    for more, found in (
        ({"volume_fraction_percent": 50.0}, "50 % of volume, planned"),
        ({"volume_fraction_percent": 50.0, "entry_fraction_percent": None}, "50 % of volume, planned"),
        ({"volume_fraction_percent": 50.0, "entry_fraction_percent": 1.0}, "1 % of entries, planned"),
        ({}, "read volume, planned"),
    ):
        assert pages.sparse(pd.DataFrame([row | more])).rows[0][0] == found
    for section in (pages.rates, pages.latencies, pages.sparse):
        assert not section(pd.DataFrame([row])[lambda t: t["workload"] == "put"]).rows
    for section in (pages.rates, pages.latencies):
        assert not section(pd.DataFrame([row])).rows, "reads do not upload or download objects"
