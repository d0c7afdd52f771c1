"""The page of a campaign, `report.html`: it contains tables, figures and records, and no data leave their block."""

import collections
import csv
import functools
import html.parser
import json
import math
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import figure_data
import pandas as pd
import pyarrow.parquet as pq
import pytest
from make_examples import ONE_EACH, make

import campaigns
from storelab.analysis.report import build, details, page
from storelab.analysis.report.charts import one_line
from storelab.analysis.tables import build as tables
from storelab.core import integrity
from storelab.core.errors import UserError

CAMPAIGNS = ("broad", "roles", pytest.param("reference", marks=pytest.mark.heavy))
# Figures with intervals along both axes, or of bars: the page has those along y (docs/report.md).
ONE_WAY = ("events_throughput", "events_bars")
ASIDE = 0.3  # relative: curves are shifted along x at most this far, so that no bar hides another
HOSTILE = "</script><script>planted()</script><img src=x onerror=planted()>\u2028\"'&<!--"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a function: campaign -> its folder with records, tables and the page."""

    @functools.cache
    def folder_of(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name) / name
        folder.mkdir()
        (folder / "raw").symlink_to(campaigns.built(name) / "raw")
        shutil.copytree(campaigns.built(name) / "tables", folder / "tables")
        build.build(folder)
        return folder

    return folder_of


@pytest.fixture(scope="module")
def pages(made):
    """Return a function: campaign -> the blocks of its page, parsed back out of the HTML."""
    return functools.cache(lambda name: page.read((made(name) / "report.html").read_text()))


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_page_has_every_cell_of_every_table(made, pages, name):
    files = sorted((made(name) / "tables").glob("*.csv"))
    assert len(files) > 25 and {f.stem for f in files} == set(pages(name)["tables"])
    for path in files:
        with path.open(newline="") as f:
            head, *body = csv.reader(f)
        table = pages(name)["tables"][path.stem]
        assert table["columns"] == head and table["rows"] == len(body)
        assert [list(row) for row in zip(*table["cells"], strict=True)] == body, path.stem


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_page_has_every_figure_with_its_caption(pages, name):
    index = json.loads((campaigns.typeset(name) / "figures" / "index.json").read_text())["figures"]
    captions = {figure: entry["caption"] for figure, entry in index.items()}
    figures = pages(name)["figures"]
    assert list(figures) == list(captions) and len(figures) >= 1
    assert {name: figure["caption"] for name, figure in figures.items()} == captions


def test_campaign_of_failed_points_has_a_page(tmp_path):
    make(tmp_path, failed=("put", "get", "read_entries"), sweeps=ONE_EACH, repetitions=1)
    tables.build(tmp_path)
    build.build(tmp_path)
    facts = dict(page.read((tmp_path / "report.html").read_text())["head"]["facts"])
    assert facts["Points"] == "3 planned, 0 valid, 3 failed" and "Measured" not in facts


def near(a, b, relative: float = 1e-5) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return math.isclose(a, b, rel_tol=relative, abs_tol=1e-9)


def points_of(panel: dict) -> tuple[list, list]:
    """Return points [x, y] and intervals [x, low, high] of a panel of the page, as `figure_data` describes them."""
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
    """Compare values; along x, the printed curves are shifted a little, so that no bar hides another."""
    if isinstance(theirs[-1], str):
        flat = [*(theirs[0] if isinstance(theirs[0], list) else theirs[:1])]
        own = [*(mine[0] if isinstance(mine[0], list) else mine[:1])]
        return mine[-1] == theirs[-1] and all(near(a, b) for a, b in zip(own, flat, strict=True))
    if isinstance(theirs[0], list):
        pairs = zip([*mine[0], mine[1]], [*theirs[0], theirs[1]], strict=True) if isinstance(mine[0], list) else ()
        return isinstance(mine[0], list) and all(near(a, b) for a, b in pairs)
    return near(mine[0], theirs[0], ASIDE) and all(near(a, b) for a, b in zip(mine[1:], theirs[1:], strict=True))


def unlike(mine: dict, theirs: dict) -> str:
    """Return the differences between a panel of the page and the printed one; empty if there are none."""
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
def test_page_draws_what_the_printed_figure_shows(pages, name, tmp_path):
    printed = figure_data.describe_campaign(campaigns.built(name), tmp_path)
    compared = 0
    for figure, drawn in pages(name)["figures"].items():
        if figure in ONE_WAY:
            continue
        left = list(drawn["panels"])
        assert len(left) == len(printed[figure]["panels"])
        for theirs in printed[figure]["panels"]:
            # Figures without a specification have panels of one title together; others have the printed order.
            among = left[:1] if drawn["filtered"] else left
            found = [mine for mine in among if not (differs := unlike(mine, theirs))]
            assert found, f"{figure}: {differs}"
            left.remove(found[0])
            compared += sum(len(series.get("points", [])) for series in theirs["series"].values())
    assert compared > 5


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_rows_and_symbols_lead_to_their_points(pages, name):
    """`n` counts valid runs: the number of valid points behind it, which agree in every axis."""
    tables = pages(name)["tables"]

    def records(table: str) -> list[dict]:
        rows = zip(*tables[table]["cells"], strict=True)
        return [dict(zip(tables[table]["columns"], row, strict=True)) for row in rows]

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
    for figure in pages(name)["figures"].values():
        for line in (line for panel in figure["panels"] for line in panel["lines"] if figure["filtered"]):
            if not line.get("reference"):
                assert all(line["behind"]) and len(line["behind"]) == len(line["x"]) == len(line["n"])
                seen += 1
    assert seen


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_planned_point_has_its_details(made, pages, name):
    plan = json.loads((made(name) / "raw" / "plan.json").read_text())
    order = [p["key"] for p in sorted(plan["points"], key=lambda p: p["order"])]
    blocks, head = pages(name), pages(name)["head"]
    content = {key: point for block in head["details"] for key, point in blocks[block].items()}
    table = blocks["tables"]["points"]
    assert list(content) == order == table["cells"][table["columns"].index("key")]
    for place, key in enumerate(order):
        assert key in blocks[f"details-{place // head['part']}"], "the page looks for the value there"
        if not integrity.has(made(name) / "raw", key):
            assert content[key]["facts"][0][0] == "Failed"
            continue
        record = integrity.read(made(name) / "raw", key)
        tables = {t["title"]: t["rows"] for t in content[key]["tables"]}
        assert len(tables["Clients"]) == len(record["clients"])
        assert [row[0] for row in tables.get("Checks", [])] == [check["name"] for check in record["checks"]]
        facts = {heading: dict(rows) for heading, rows in content[key]["facts"]}
        assert facts.get("Engine", {}).get("name") == record["engine"].get("name")
        assert facts.get("Environment", {}).get("kernel") == record.get("environment", {}).get("kernel")


def test_rate_over_time_adds_up_to_the_operations(made, pages):
    found = 0
    for name in ("broad", "roles"):
        content = {key: point for block in pages(name)["head"]["details"] for key, point in pages(name)[block].items()}
        for path in sorted((made(name) / "raw").glob("*/*/*/run.json"))[:12]:
            run, key = json.loads(path.read_text()), str(path.parent.relative_to(made(name) / "raw"))
            files = [path.parent / file for file in run["files"] if file.startswith("ops.")]
            rows = [row for file in files for row in pq.read_table(file).to_pylist()]
            ended = [r for r in rows if run["start_ns"] < r["end_ns"] <= run["deadline_ns"]]
            good = sum(r["count"] for r in ended if r["error"] is None)
            panel = next(p for p in content[key]["panels"] if p["y"]["label"] == "Operations/s")
            line, lasts = panel["lines"][0], (run["deadline_ns"] - run["start_ns"]) / 1e9
            middles = line["x"]
            width = 2 * middles[0]
            lengths = [min(width, lasts - i * width) for i in range(len(middles))]
            shown = sum(y * length for y, length in zip(line["y"], lengths, strict=True))
            assert len(middles) <= details.STEPS and math.isclose(shown, good, rel_tol=2e-3, abs_tol=0.01), key
            found += 1
    assert found == 24


def test_summary_counts_failed_and_invalid_points(pages):
    head = pages("broad")["head"]
    states = collections.Counter(pd.read_csv(campaigns.built("broad") / "tables/points.csv")["state"])
    assert states["failed"] == 1 and states["invalid"] == 2
    points = f"{states.total()} planned, {states['ok']} valid, 2 invalid, 1 failed"
    assert dict(head["facts"])["Points"] == points
    (failed,) = (note for note in head["notes"] if note[1] == "failed: there is no record")
    assert failed[0] == 1 and len(failed[2]) == 1
    assert head["filters"]["size"] == [["100", "100 B"], ["4000", "4 kB"], ["10000000", "10 MB"]]
    assert dict(pages("roles")["head"]["facts"])["Points"] == "33 planned, 32 valid, 1 invalid"


def test_failures_of_invalid_points_are_counted_apart():
    points = pd.DataFrame({"state": ["ok", "invalid", "failed"], "errors": pd.array([3, 49162, None], "Int64")})
    assert build._failures(points) == "3, and 49 162 in invalid points"
    assert build._counted("5 GB", points) == "5 GB in valid points" and build._counted("", points) == ""
    assert build._failures(points[:1]) == "3" and build._counted("5 GB", points[:1]) == "5 GB"


def test_engine_names_its_libraries():
    found = [("s5cmd", "v2.3.0"), ("uproot-s3fs", "uproot 5.7.7, s3fs 2026.9.0"), ("planned", None)]
    runs = {str(i): {"engine": {"name": name, "version": version}} for i, (name, version) in enumerate(found)}
    result = ["s5cmd v2.3.0", "uproot-s3fs (uproot 5.7.7, s3fs 2026.9.0)", "planned"]
    assert build._engines(SimpleNamespace(runs=runs)) == result


def test_few_operations_give_few_steps_over_time():
    """Otherwise most steps would have no operations, and look like a standstill."""

    def steps(operations: int, errors: int = 0) -> float:
        run = {"start_ns": 0, "deadline_ns": 10**10, "engine": {"name": "obstore"}}
        return 10**10 / details._step_ns(run | {"clients": [{"operations": operations, "errors": errors}]})

    assert [steps(0), steps(24), steps(100), steps(60, 40), steps(10**6)] == [10, 10, 20, 20, details.STEPS]


def test_words_broken_at_a_hyphen_are_joined():
    text = "a single value of front-\nends,\n all  of\n- them"
    assert one_line(text) == "a single value of front-ends, all of - them"


class Markup(html.parser.HTMLParser):
    """Return the elements of a page with their attributes, and the text between the tags of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_hostile_text_stays_in_its_block(pages):
    blocks = {k: v for k, v in pages("broad").items() if k not in ("library", "licences")}
    planted = json.loads(json.dumps(blocks).replace('"seaweedfs', f'"{json.dumps(HOSTILE)[1:-1]}'))
    planted["head"]["title"] = planted["head"]["name"] = HOSTILE
    text = page.filled(HOSTILE, planted, {"library": page.pack("1"), "licences": page.pack(HOSTILE)})
    plain = page.filled("title", blocks, {"library": page.pack("1"), "licences": page.pack("")})
    assert [tag for tag, _ in Markup(text).found] == [tag for tag, _ in Markup(plain).found]
    back = page.read(text)
    assert {k: v for k, v in back.items() if k not in ("library", "licences")} == planted
    blocks_of_data = r"<title>.*?</title>|<script type=.application/json.*?</script>"
    assert "planted()" not in re.sub(blocks_of_data, "", text, flags=re.DOTALL)
    assert "<script>planted" not in text and back["licences"] == HOSTILE


def test_template_marks_in_data_stay_text():
    mark = "<!--storelab:style--> /*storelab:script*/"
    text = page.filled(mark, {"head": {"title": mark}}, {"library": page.pack(mark)})
    assert page.read(text) == {"head": {"title": mark}, "library": mark}
    assert text.count("color-scheme: light;") == page.filled("", {"head": {}}, {}).count("color-scheme: light;") == 1


def test_page_makes_no_requests(made):
    text = (made("broad") / "report.html").read_text()
    for tag, attributes in Markup(text).found:
        for name in ("src", "href", "action", "srcset", "data"):
            assert re.match(r"#|data:,", attributes.get(name, "#")), f"<{tag} {name}={attributes[name]}>"
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style
    policy = next(a["content"] for t, a in Markup(text).found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';") and "connect-src" not in policy and "http" not in policy


def test_same_records_make_same_bytes(made, tmp_path):
    first = (made("roles") / "report.html").read_bytes()
    again = tmp_path / "elsewhere"
    shutil.copytree(made("roles") / "tables", again / "tables")
    (again / "raw").symlink_to(campaigns.built("roles") / "raw")
    assert build.build(again).read_bytes() == first


@pytest.mark.heavy
def test_page_of_the_reference_is_below_5_mb(made):
    assert (made("reference") / "report.html").stat().st_size < 5e6


def test_large_tables_are_cut(monkeypatch):
    monkeypatch.setattr(build, "MAX_CELLS", 10)
    cut = build.table_block([["a", "b"], *([str(i), ""] for i in range(100))], ["1"] * 100)
    assert cut["rows"] == 100 and cut["cells"][0] == ["0", "1", "2", "3", "4"] and len(cut["behind"]) == 5
    clients = [{"client": i, "operations": i, "errors": 0} for i in range(details.MAX_CLIENTS + 9)]
    columns, found = details._clients({"clients": clients})
    assert len(found) == details.MAX_CLIENTS + 1 and len(found[-1]) == len(columns)
    assert found[-1][0].endswith(f" {len(clients)}")
    assert len(details._text("x" * 10**6)) < 2 * details.LONGEST


def test_nan_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        page.as_json({"x": float("nan")})


def test_missing_tables_are_a_user_error(tmp_path):
    (tmp_path / "raw").symlink_to(campaigns.built("broad") / "raw")
    with pytest.raises(UserError, match=r"tables.*does not exist.*storelab tables"):
        build.build(tmp_path)


def test_library_is_complete_with_licences():
    page.packed_libraries.cache_clear()
    content = {name: page.unpack(text) for name, text in page.packed_libraries().items()}
    assert "factory(global.vega = {})" in content["library"] and "vegaLite" in content["library"]
    assert "University of Washington" in content["licences"] and "d3-array" in content["licences"]
