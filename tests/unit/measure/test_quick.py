"""`storelab quick`: the page from records whose numbers are known, and what a person may type wrong."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pandas as pd
import pytest
from make_examples import make

from storelab.analysis import pages, quick_page
from storelab.analysis.pages import Page, Section
from storelab.analysis.tables import build
from storelab.cli import quick as command
from storelab.core.errors import MeasurementFailed, UserError
from storelab.measure import quick as measuring

SWEEPS = {
    "small_upload": {"workload": "put", "axes": {"engine": "obstore", "object_size": "4 kB", "workers": [1, 16]}},
    "large_download": {"workload": "get", "axes": {"engine": "obstore", "object_size": "10 MB", "workers": [1, 4]}},
    "sparse_reads": {"workload": "read_entries", "axes": {"entry_fraction": 1}},
}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quick") / "quick"
    make(folder, failed=(), sweeps=SWEEPS, repetitions=3)
    build.build(folder)
    return folder


@pytest.mark.heavy
def test_the_page_shows_what_the_tables_hold(campaign):
    page = quick_page.page(campaign, "https://s3.example.org", 301.0)
    text = page.text()
    assert text.startswith("https://s3.example.org\n======================\n") and "in 5 min 01 s" in " ".join(
        text.split()
    )
    rates = next(s for s in page.sections if s.title.startswith("How fast"))
    table = build.read(campaign, "throughput").query("workload in ['put', 'get']")
    assert len(rates.rows) == len(table) == 4
    assert [r[:2] for r in rates.rows] == [
        ["upload of 4 kB", "1"],
        ["upload of 4 kB", "16"],
        ["download of 10 MB", "1"],
        ["download of 10 MB", "4"],
    ]
    for row, (workload, workers) in zip(rates.rows, [("put", 1), ("put", 16), ("get", 1), ("get", 4)], strict=True):
        (was,) = table.query(f"workload == '{workload}' and workers == {workers}").to_dict("records")
        shown = [float(row[2].split(" [")[0].replace(" ", "")), float(row[3].split(" [")[0].replace(" ", ""))]
        assert shown == pytest.approx([was["rate_median_per_s"], was["throughput_median_mb_per_s"]], rel=6e-3)
    for title in ("How long one takes, in ms", "Sparse reads of a ROOT file", "What limited it"):
        assert any(s.title == title for s in page.sections), title
    assert "What it can do" not in text, "nothing was probed"


def test_a_run_that_does_not_count_is_told_with_its_reason():
    points = pd.DataFrame(
        {"key": ["s/put/rep~001", "s/get/rep~001"], "state": ["ok", "failed"], "reason": [None, "no answer"]}
    )
    assert quick_page.went_wrong(points).lines == ["get/rep~001: failed: no answer"]


def test_answers_that_are_no_plain_yes_are_told():
    rows = [("ranges", "one", "yes", ""), ("acl", "public_read", "no", "403\n Denied"), ("x", "y", "error", "lost")]
    told = quick_page.can(pd.DataFrame(rows, columns=["topic", "check", "answer", "evidence"]))
    assert told.lines == [
        "1 of 2 questions got a plain yes.",
        "  no: acl, public read: 403 Denied",
        "  not known, for errors: x, y",
    ]


def test_lower_bounds_of_latency_are_marked_and_no_others():
    row = {"workload": "get", "object_size_bytes": 4000, "clients": 1, "workers": 4}
    values = {"latency_p50_median_ms": 1.5, "latency_p90_median_ms": 2.0, "latency_p99_median_ms": None}
    table = pd.DataFrame([row | values | {"lower_bounds": "latency_p90"}, row | values | {"lower_bounds": None}])
    shown = quick_page.latencies(table)
    assert [r[2:] for r in shown.rows] == [["1.50", "≥ 2", "-"], ["1.50", "2", "-"]]
    assert shown.lines


class Words(HTMLParser):
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


def test_readers_are_explained_of_those_that_read(found_reads):
    both = quick_page.sparse(found_reads)
    assert [line.partition(":")[0] for line in both.lines] == ["planned", "uproot-s3fs"]
    assert [row[0] for row in both.rows] == ["1 % of entries, uproot-s3fs", "1 % of entries, planned"]
    assert both.rows[1][1:] == ["31.0 [22.0, 35.0]", "16.9", "1.04", "1.11"]
    one = quick_page.sparse(found_reads[found_reads["engine"] == "planned"])
    assert [line.partition(":")[0] for line in one.lines] == ["planned"]
    assert not quick_page.sparse(found_reads[:0]).lines


@pytest.fixture
def found_reads():
    return pd.DataFrame(
        {
            "engine": ["uproot-s3fs", "planned"],
            "entry_fraction_percent": 1.0,
            "entries_median_per_s": [13.0, 31.0],
            "entries_low_per_s": [12.0, 22.0],
            "entries_high_per_s": [14.0, 35.0],
            "needed_median_mb_per_s": [7.5, 16.9],
            "amplification_median_ratio": [1.0, 1.04],
            "requests_median_per_read": [2.0, 1.11],
        }
    )


def test_html_says_the_same_and_lets_nothing_through():
    evil = "<script>alert('x')</script>"
    page = Page(evil, "under & over", [Section("Title", ["", "n"], [[evil, "1"]], ["  a line", evil])])
    html = page.html()
    assert "<script" not in html
    read = Words(html)
    assert not read.open and read.cells == [evil, "under & over", "Title", "n", evil, "1", "a line", evil]


def test_text_is_aligned_and_its_lines_are_not_too_long():
    lines = Section("Title", ["", "n"], [["a", "1"], ["long name", "1000"]], ["  " + "word " * 60]).text()
    assert lines[2:5] == ["               n", "a              1", "long name   1000"]
    assert max(map(len, lines)) <= pages.WIDE and lines[6].startswith("    word")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://s3.example.org", "s3.example.org"),
        ("http://127.0.0.1:19109/", "127.0.0.1-19109"),
        ("http://[::1]:80", "1-80"),
        ("S3.Example.org", "endpoint"),
        ("https://a b/", "a-b"),
        ("http://x:99999", "endpoint"),
        ("", "endpoint"),
        ("https://[oops", "endpoint"),
    ],
)
def test_any_text_makes_a_name_of_a_store(url, name):
    from storelab.core.model import NAME

    assert command.store_name(url) == name and NAME.match(name)


def test_what_is_wrong_is_told_in_words_of_the_command_line():
    told = UserError(
        "stores.s3.example.org.endpoint", "no answer", "set the store's `region`, or the store's `profile`"
    )
    with (
        pytest.raises(UserError, match=re.escape("quick: no answer; set --region, or --profile")),
        command.spelled("s3.example.org"),
    ):
        raise told
    with pytest.raises(MeasurementFailed, match=r"^quick: gone$"), command.spelled("s3.example.org"):
        raise MeasurementFailed("stores.s3.example.org: gone")


def test_points_that_fail_in_a_row_end_it_and_single_ones_do_not(monkeypatch):
    asked: list[str] = []
    bad: set[str] = set()

    def point(config, points, key):
        asked.append(key)
        if key in bad:
            raise MeasurementFailed(f"{key}: no answer")

    monkeypatch.setattr(measuring.point, "point", point)
    points = [SimpleNamespace(key=k) for k in "abcdefg"]
    bad |= {"b", "d", "e"}
    measuring._all(None, points)
    assert asked == list("abcdefg")
    asked.clear()
    bad |= {"c"}
    with pytest.raises(MeasurementFailed, match="3 points in a row failed, the last is d: no answer"):
        measuring._all(None, points)
    assert asked == list("abcd")


def test_without_its_go_programs_obstore_measures(monkeypatch, tmp_path):
    from storelab.cli import Settings
    from storelab.install import golang

    monkeypatch.chdir(build.__file__.split("/src/")[0])
    settings = Settings("config.yaml", (), ())
    monkeypatch.setattr(golang, "present", lambda *_: True)
    assert command.without_loadgen(settings) == {}
    monkeypatch.setattr(golang, "present", lambda *_: False)
    config = settings.load_with({"campaign": "quick", **command.without_loadgen(settings)})
    engines = {str(s.axes.get("engine")) for s in config.sweeps.values()}
    assert not config.calibrate and engines == {"None", "obstore", "['uproot-s3fs', 'planned']"}
