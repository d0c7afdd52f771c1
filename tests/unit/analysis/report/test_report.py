"""The page of a campaign, `report.html`: all that tables, figures and records say stands in it, and nothing in it leaves its place."""

import csv
import html.parser
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import golden
import pandas as pd
import pyarrow.parquet as pq
import pytest
from make_examples import ONE_EACH, make

from storelab.analysis.report import build, details, library, page, rows, summary
from storelab.analysis.report.drawn import one_line
from storelab.analysis.tables import build as tables
from storelab.core.errors import UserError

# Their pages take longest.
LARGE = tuple(pytest.param(name, marks=pytest.mark.heavy) for name in ("reference", "reads", "intervals"))
CAMPAIGNS = (*LARGE, "failures", "soak")
ONE_WAY = (
    "events_throughput",
    "events_bars",
)  # intervals along both axes, or of bars: the page has the former's along y (docs/report.md)
HOSTILE = "</script><script>planted()</script><img src=x onerror=planted()>\u2028\"'&<!--"


class Asked(dict):
    """Name -> what `make` makes of it when it is first asked for."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        self.make = make

    def __missing__(self, name: str) -> Any:
        self[name] = self.make(name)
        return self[name]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Path]:
    """Campaign -> its folder with records, the golden set's tables, and the page."""

    def folder_of(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name) / name
        folder.mkdir()
        (folder / "raw").symlink_to(golden.raw_of(name))
        shutil.copytree(golden.GOLDEN / name / "expected" / "tables", folder / "tables")
        build.build(folder)
        return folder

    return Asked(folder_of)


@pytest.fixture(scope="module")
def pages(made) -> dict[str, dict]:
    """Campaign -> the blocks of its page, parsed back out of the HTML."""
    return Asked(lambda name: page.read((made[name] / "report.html").read_text()))


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_cell_of_every_table_stands_in_the_page(made, pages, name):
    files = sorted((made[name] / "tables").glob("*.csv"))
    assert len(files) > 25 and {f.stem for f in files} == set(pages[name]["tables"])
    for path in files:
        with path.open(newline="") as f:
            head, *body = csv.reader(f)
        table = pages[name]["tables"][path.stem]
        assert table["columns"] == head and table["rows"] == len(body)
        assert [list(row) for row in zip(*table["cells"], strict=True)] == body, path.stem


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_figure_has_its_caption_and_its_place(pages, name):
    captions = json.loads((golden.GOLDEN / name / "expected" / "captions.json").read_text())
    figures = pages[name]["figures"]
    assert list(figures) == list(captions) and len(figures) >= 1
    assert {name: figure["caption"] for name, figure in figures.items()} == captions


def test_a_campaign_in_which_every_point_failed_has_a_page(tmp_path):
    make(tmp_path, failed=("put", "get", "read_entries"), sweeps=ONE_EACH, repetitions=1)
    tables.build(tmp_path)
    build.build(tmp_path)
    facts = dict(page.read((tmp_path / "report.html").read_text())["head"]["facts"])
    assert facts["Points"] == "3 planned, 0 count, 3 failed" and "Measured" not in facts


def near(a, b, relative: float = 1e-5) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return math.isclose(a, b, rel_tol=relative, abs_tol=1e-9)


def points_of(panel: dict) -> tuple[list, list]:
    """Points [x, y] and intervals [x, low, high] of a panel of the page, as tests/support/golden.py says them of the printed figure."""
    points, intervals = [], []
    for line in panel["lines"]:
        names = line.get("at")
        for i, (x, y) in enumerate(zip(line["x"], line["y"], strict=True)):
            if x is None or y is None:
                continue
            points.append([x, names[i]] if names else [x, y])
            low, high = (line[part][i] if part in line else None for part in ("low", "high"))
            if low is not None and low != high:
                lying = panel["value"] == "x"
                intervals.append([[low, high], names[i] if names else y] if lying else [x, low, high])
    return points, intervals


def same_place(mine: list, theirs: list) -> bool:
    """Equal in value; along x the printed curves are a little aside, so that no bar hides another."""
    if isinstance(theirs[-1], str):
        flat = [*(theirs[0] if isinstance(theirs[0], list) else theirs[:1])]
        own = [*(mine[0] if isinstance(mine[0], list) else mine[:1])]
        return mine[-1] == theirs[-1] and all(near(a, b) for a, b in zip(own, flat, strict=True))
    if isinstance(theirs[0], list):
        return isinstance(mine[0], list) and all(
            near(a, b) for a, b in zip([*mine[0], mine[1]], [*theirs[0], theirs[1]], strict=True)
        )
    return near(mine[0], theirs[0], golden.NEAR) and all(near(a, b) for a, b in zip(mine[1:], theirs[1:], strict=True))


def unlike(mine: dict, theirs: dict) -> str:
    """In what a panel of the page differs from the printed one; empty where it does not."""
    if [mine[axis]["label"] for axis in "xy"] != [" ".join(theirs[axis]["label"].split()) for axis in "xy"]:
        return "labels"
    if mine[mine["value"]]["scale"] != theirs[mine["value"]]["scale"]:
        return "scale"
    for kind, known in zip(("points", "intervals"), points_of(mine), strict=True):
        wanted = [p for series in theirs["series"].values() for p in series.get(kind, []) if None not in p]
        if not all(any(same_place(p, q) for p in known) for q in wanted):
            return f"{kind} missing"
        if not all(any(same_place(p, q) for q in wanted) for p in known):
            return f"{kind} of nowhere"
    return ""


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_what_is_drawn_is_what_the_printed_figure_shows(pages, name):
    """Held against the golden set, which has read the printed figures' own artists."""
    printed = json.loads((golden.GOLDEN / name / "expected" / "figures.json").read_text())
    compared = 0
    for figure, drawn in pages[name]["figures"].items():
        if figure in ONE_WAY:
            continue
        left = list(drawn["panels"])
        assert len(left) == len(printed[figure]["panels"])
        for theirs in printed[figure]["panels"]:
            # Of figures without a specification those of one title stand together; the order of others is the printed one.
            among = left[:1] if drawn["filtered"] else left
            found = [mine for mine in among if not (differs := unlike(mine, theirs))]
            assert found, f"{figure}: {differs}"
            left.remove(found[0])
            compared += sum(len(series.get("points", [])) for series in theirs["series"].values())
    assert compared > 5


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_behind_a_row_and_a_symbol_are_just_its_points(pages, name):
    """`n` counts valid runs: so many of the points behind are valid, and all agree in every axis."""
    tables = pages[name]["tables"]

    def records(table: str) -> list[dict]:
        return [
            dict(zip(tables[table]["columns"], row, strict=True)) for row in zip(*tables[table]["cells"], strict=True)
        ]

    points, seen = records("points"), 0
    assert tables["points"]["behind"] == [str(place) for place in range(len(points))]
    for table in (t for t in tables if t != "points" and "key" in tables[t]["columns"] and tables[t]["behind"]):
        assert [points[int(i)]["key"] for i in tables[table]["behind"]] == [row["key"] for row in records(table)], table
    for table in ("throughput", "sparse", "latency", "resources"):
        for row, places in zip(records(table), tables[table]["behind"], strict=False):
            behind = [points[int(i)] for i in places.split()]
            like = [p for p in points if p["workload"] == row["workload"]]
            axes = [c for c in list(row)[: list(row).index("n")] if c in points[0] and any(p[c] for p in like)]
            assert all([p[c] for c in axes] == [row[c] for c in axes] for p in behind)
            assert sum(p["state"] == "ok" for p in behind) >= int(row["n"]), table
            if table in ("throughput", "sparse"):
                assert sum(p["state"] == "ok" for p in behind) == int(row["n"])
            seen += 1
    for figure in pages[name]["figures"].values():
        for line in (line for panel in figure["panels"] for line in panel["lines"] if figure["filtered"]):
            if not line.get("reference"):
                assert all(line["behind"]) and len(line["behind"]) == len(line["x"]) == len(line["n"])
                seen += 1
    assert seen


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_planned_point_is_there_with_what_is_behind_it(made, pages, name):
    plan = json.loads((made[name] / "raw" / "plan.json").read_text())
    order = [p["key"] for p in sorted(plan["points"], key=lambda p: p["order"])]
    blocks, head = pages[name], pages[name]["head"]
    told = {key: point for block in head["details"] for key, point in blocks[block].items()}
    assert (
        list(told) == order == blocks["tables"]["points"]["cells"][blocks["tables"]["points"]["columns"].index("key")]
    )
    for place, key in enumerate(order):
        assert key in blocks[f"details-{place // head['part']}"], "the page looks for it there"
        run = made[name] / "raw" / key / "run.json"
        if not run.exists():
            assert told[key]["facts"][0][0] == "Failed"
            continue
        record, tables = json.loads(run.read_text()), {t["title"]: t["rows"] for t in told[key]["tables"]}
        assert len(tables["Clients"]) == len(record["clients"])
        assert [row[0] for row in tables.get("Checks", [])] == [check["name"] for check in record["checks"]]
        facts = {heading: dict(rows) for heading, rows in told[key]["facts"]}
        assert facts["Engine"]["name"] == record["engine"]["name"]
        assert facts.get("Environment", {}).get("kernel") == record.get("environment", {}).get("kernel")


def test_over_its_time_a_point_shows_all_operations_that_ended_before_the_deadline(made, pages):
    found = 0
    for name in ("failures", "intervals"):
        told = {key: point for block in pages[name]["head"]["details"] for key, point in pages[name][block].items()}
        for path in sorted((made[name] / "raw").glob("*/*/*/run.json"))[:12]:
            run, key = json.loads(path.read_text()), str(path.parent.relative_to(made[name] / "raw"))
            rows = [
                r
                for file in run["files"]
                if file.startswith("ops.")
                for r in pq.read_table(path.parent / file).to_pylist()
            ]
            ended = [r for r in rows if run["start_ns"] < r["end_ns"] <= run["deadline_ns"]]
            good = sum(r["count"] for r in ended if r["error"] is None)
            panel = next(p for p in told[key]["panels"] if p["y"]["label"] == "Operations/s")
            line, lasts = panel["lines"][0], (run["deadline_ns"] - run["start_ns"]) / 1e9
            middles = line["x"]
            width = 2 * middles[0]
            lengths = [min(width, lasts - i * width) for i in range(len(middles))]
            shown = sum(y * length for y, length in zip(line["y"], lengths, strict=True))
            assert len(middles) <= details.STEPS and math.isclose(shown, good, rel_tol=2e-3, abs_tol=0.01), key
            found += 1
    assert found == 14


def test_the_summary_counts_what_failed(pages):
    facts = dict(pages["failures"]["head"]["facts"])
    assert facts["Points"] == "3 planned, 2 count, 1 failed"
    assert [1, "failed: there is no record", [0]] in pages["failures"]["head"]["notes"]
    assert dict(pages["intervals"]["head"]["facts"])["Points"] == "40 planned, 40 count"
    assert pages["intervals"]["head"]["filters"]["size"] == [["4000", "4 kB"], ["1000000", "1 MB"]]


def test_failures_of_invalid_points_are_told_beside_those_that_count():
    points = pd.DataFrame({"state": ["ok", "invalid", "failed"], "errors": pd.array([3, 49162, None], "Int64")})
    assert summary._failures(points) == "3, and 49 162 in invalid points"
    assert summary._counted("5 GB", points) == "5 GB in points that count" and summary._counted("", points) == ""
    assert summary._failures(points[:1]) == "3" and summary._counted("5 GB", points[:1]) == "5 GB"


def test_the_libraries_of_an_engine_stand_in_brackets():
    told = [("s5cmd", "v2.3.0"), ("uproot-s3fs", "uproot 5.7.7, s3fs 2026.9.0"), ("planned", None)]
    runs = {str(i): {"engine": {"name": name, "version": version}} for i, (name, version) in enumerate(told)}
    said = ["s5cmd v2.3.0", "uproot-s3fs (uproot 5.7.7, s3fs 2026.9.0)", "planned"]
    assert summary._engines(SimpleNamespace(runs=runs)) == said


def test_a_point_of_few_operations_has_few_steps_over_its_time():
    """Or most steps would have none, and look like a standstill."""

    def steps(operations: int, errors: int = 0) -> float:
        clients = [{"operations": operations, "errors": errors}]
        return 10**10 / details._step_ns(
            {"start_ns": 0, "deadline_ns": 10**10, "engine": {"name": "obstore"}, "clients": clients}
        )

    assert [steps(0), steps(24), steps(100), steps(60, 40), steps(10**6)] == [10, 10, 20, 20, details.STEPS]


def test_words_broken_behind_a_hyphen_are_joined_again():
    assert (
        one_line("a single value of front-\nends,\n all  of\n- them") == "a single value of front-ends, all of - them"
    )


class Markup(html.parser.HTMLParser):
    """Elements of a page with their attributes, and what stands between the tags of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_no_text_leaves_its_block(pages):
    blocks = {k: v for k, v in pages["failures"].items() if k not in ("library", "licences")}
    planted = json.loads(json.dumps(blocks).replace('"seaweedfs', f'"{json.dumps(HOSTILE)[1:-1]}'))
    planted["head"]["title"] = planted["head"]["name"] = HOSTILE
    text = page.filled(HOSTILE, planted, {"library": page.pack("1"), "licences": page.pack(HOSTILE)})
    plain = page.filled("title", blocks, {"library": page.pack("1"), "licences": page.pack("")})
    assert [tag for tag, _ in Markup(text).found] == [tag for tag, _ in Markup(plain).found]
    back = page.read(text)
    assert {k: v for k, v in back.items() if k not in ("library", "licences")} == planted
    assert "planted()" not in re.sub(
        r"<title>.*?</title>|<script type=.application/json.*?</script>", "", text, flags=re.DOTALL
    )
    assert "<script>planted" not in text and back["licences"] == HOSTILE


def test_marks_in_data_are_not_places_of_the_template():
    mark = "<!--storelab:style--> /*storelab:script*/"
    text = page.filled(mark, {"head": {"title": mark}}, {"library": page.pack(mark)})
    assert page.read(text) == {"head": {"title": mark}, "library": mark}
    assert text.count("color-scheme: light;") == page.filled("", {"head": {}}, {}).count("color-scheme: light;") == 1


def test_the_page_asks_for_nothing(made):
    text = (made["failures"] / "report.html").read_text()
    for tag, attributes in Markup(text).found:
        for name in ("src", "href", "action", "srcset", "data"):
            assert re.match(r"#|data:,", attributes.get(name, "#")), f"<{tag} {name}={attributes[name]}>"
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style
    policy = next(a["content"] for t, a in Markup(text).found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';") and "connect-src" not in policy and "http" not in policy


def test_same_records_same_bytes(made, tmp_path):
    first = (made["failures"] / "report.html").read_bytes()
    again = tmp_path / "elsewhere"
    shutil.copytree(made["failures"] / "tables", again / "tables")
    (again / "raw").symlink_to(golden.raw_of("failures"))
    assert build.build(again).read_bytes() == first


@pytest.mark.heavy
def test_the_page_of_the_reference_can_be_sent(made):
    assert (made["reference"] / "report.html").stat().st_size < 5e6


def test_the_sizes_are_bounded(monkeypatch):
    monkeypatch.setattr(rows, "MOST_CELLS", 10)
    cut = rows.table([["a", "b"], *([str(i), ""] for i in range(100))], ["1"] * 100)
    assert cut["rows"] == 100 and cut["cells"][0] == ["0", "1", "2", "3", "4"] and len(cut["behind"]) == 5
    clients = [{"client": i, "operations": i, "errors": 0} for i in range(details.MOST_CLIENTS + 9)]
    columns, told = details._clients({"clients": clients})
    assert (
        len(told) == details.MOST_CLIENTS + 1
        and told[-1][0].endswith(f" {len(clients)}")
        and len(told[-1]) == len(columns)
    )
    assert len(details._text("x" * 10**6)) < 2 * details.LONGEST


def test_numbers_that_json_does_not_know_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        page.as_json({"x": float("nan")})


def test_without_tables_or_library_it_is_a_line(tmp_path, monkeypatch):
    (tmp_path / "raw").symlink_to(golden.raw_of("failures"))
    with pytest.raises(UserError, match=r"tables.*is not there.*storelab tables"):
        build.build(tmp_path)
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: None)
    library.packed.cache_clear()
    with pytest.raises(UserError, match="Vega is not there"):
        library.packed()


def test_the_library_is_whole_and_its_licences_are_told():
    library.packed.cache_clear()
    told = {name: page.unpack(text) for name, text in library.packed().items()}
    assert "factory(global.vega = {})" in told["library"] and "vegaLite" in told["library"]
    assert "University of Washington" in told["licences"] and "d3-array" in told["licences"]
