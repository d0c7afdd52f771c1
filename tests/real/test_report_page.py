"""The page in a browser, opened as a file without a network: its requests, its content, clicks and keys."""

import json
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import browser
import pytest
from paths import ROOT

import campaigns
from storelab.analysis.report import build, page
from storelab.core import integrity

pytestmark = [pytest.mark.real, pytest.mark.heavy]
AXE = ROOT / ".storelab" / "node" / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = "</script><img src=x onerror=planted()><script>planted()</script>"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Path]:
    """Campaign -> its page."""
    out = {}
    for name in ("reference", "broad", "roles"):
        folder = tmp_path_factory.mktemp(name) / name
        folder.mkdir()
        (folder / "raw").symlink_to(campaigns.built(name) / "raw")
        shutil.copytree(campaigns.built(name) / "tables", folder / "tables")
        out[name] = build.build(folder)
    return out


@pytest.fixture(scope="module")
def tab():
    if browser.program() is None:
        pytest.skip("chromium is not installed: envs/apt.sh chromium")
    with browser.page() as found:
        yield found


def count(tab, selector: str) -> int:
    """Return the number of elements that a selector of CSS finds."""
    return tab.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")


def quiet(tab, path: Path) -> None:
    """Check that the page requested nothing but itself, and had no error."""
    assert [r for r in tab.requests if r.partition("#")[0] != path.resolve().as_uri()] == []
    assert tab.errors == []


@pytest.mark.parametrize("name", ("reference", "broad", "roles"))
def test_all_views_are_drawn_without_a_request_or_an_error(made, tab, name):
    tab.open(made[name])
    blocks = page.read(made[name].read_text())
    assert "points" in tab.evaluate("document.querySelector('main').textContent").lower()
    tab.go("#print")
    tab.until("[...document.querySelectorAll('.chart')].every((c) => c.children.length)", 60)
    panels = [panel for figure in blocks["figures"].values() for panel in figure["panels"]]
    drawn = [p for p in panels if any(part["x"] for part in p["lines"] + p.get("areas", []))]
    assert (count(tab, ".chart"), count(tab, ".chart svg")) == (len(panels), len(drawn))
    point = f"point/{blocks['tables']['points']['cells'][-1][0]}"
    for view in ("figures", "tables", "points", "table/points", point, "nonsense"):
        tab.go(f"#{view}")
        assert tab.evaluate("document.querySelector('main h1').textContent")
    quiet(tab, made[name])


def test_frame_in_another_page_draws_all_its_figures(made, tab, tmp_path):
    """As the output of a notebook: as high as its content, values on hovering, no requests."""
    figures = page.read(made["broad"].read_text())["figures"]
    path = tmp_path / "output.html"
    path.write_text(f'<!doctype html><html data-ready="1"><main>{page.frame(figures, page.packed_libraries())}</main>')
    tab.visit(path.resolve().as_uri())
    inside = "document.querySelector('iframe').contentDocument"
    tab.until(
        f"{inside}?.querySelector('.chart svg') && [...{inside}.querySelectorAll('.chart')].every((c) => c.children.length)",
        60,
    )
    panels = [panel for figure in figures.values() for panel in figure["panels"]]
    drawn = [p for p in panels if any(part["x"] for part in p["lines"] + p.get("areas", []))]
    assert tab.evaluate(f"{inside}.querySelectorAll('.chart svg').length") == len(drawn) > 10
    tab.until(f"document.querySelector('iframe').clientHeight >= {inside}.body.scrollHeight")
    x, y = tab.evaluate(
        f"(() => {{ const r = {inside}.querySelector('.chart .mark-symbol path').getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] }})()"
    )
    left, top = tab.evaluate(
        "(() => { const r = document.querySelector('iframe').getBoundingClientRect(); return [r.x, r.y] })()"
    )
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + left, y=y + top)
    assert "runs: " in tab.until(f"!{inside}.getElementById('tip').hidden && {inside}.getElementById('tip').innerText")
    quiet(tab, path)


def test_a_chart_has_a_symbol_for_each_value_at_its_place(made, tab):
    """There is one for each value; higher values are higher."""
    tab.open(made["reference"], "#figure/throughput_download")
    tab.drawn()
    line = page.read(made["reference"].read_text())["figures"]["throughput_download"]["panels"][0]
    values = sorted(y for own in line["lines"] for y in own["y"])
    seen = tab.evaluate(
        "[...document.querySelector('.chart').querySelectorAll('.mark-symbol path')].map((p) => p.getBoundingClientRect()).map((r) => r.top + r.height / 2)"
    )
    assert len(seen) == len(values)
    height = sorted(seen, reverse=True)
    top, bottom = height[-1], height[0]
    for value, at in zip(values, height, strict=True):
        assert abs((bottom - at) / (bottom - top) - (value - values[0]) / (values[-1] - values[0])) < 0.02


def test_hover_shows_values_and_clicks_open_runs(made, tab):
    tab.open(made["reference"], "#figure/throughput_download")
    tab.drawn()
    places = tab.evaluate(
        "[...document.querySelectorAll('.chart .mark-symbol path')].map((p) => p.getBoundingClientRect())"
        ".map((r) => [r.x + r.width / 2, r.y + r.height / 2])"
    )
    for x, y in places:  # lines of limits have symbols too, without runs
        tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        shown = tab.until("!document.getElementById('tip').hidden && document.getElementById('tip').innerText")
        if "runs: 6" in shown:
            break
    assert "95 % interval" in shown and "runs: 6" in shown and "points: 6" in shown
    tab.click(x, y)
    tab.until("location.hash.startsWith('#runs/')")
    tab.until("document.querySelector('main h1').textContent === '6 points'")
    key = tab.evaluate("document.querySelector('main td a').textContent")
    tab.evaluate("document.querySelector('main td a').click()")
    tab.until(f"document.querySelector('main code')?.textContent === {json.dumps(key)}")
    result = tab.evaluate("document.querySelector('main').innerText")
    run = integrity.read(made["reference"].parent / "raw", key)
    assert run["environment"]["kernel"] in result and run["engine"]["version"] in result and "operations/s" in result
    quiet(tab, made["reference"])


def test_filters_and_scale_are_in_the_address_of_all_views(made, tab):
    path = made["reference"]
    tab.open(path, "#table/throughput")
    every = count(tab, "main tbody tr")
    tab.evaluate("[...document.querySelectorAll('.chip')].find((c) => c.textContent === '1 MB').click()")
    tab.until(f"document.querySelectorAll('main tbody tr').length < {every}")
    left = count(tab, "main tbody tr")
    cells = page.read(path.read_text())["tables"]["throughput"]
    sizes = cells["cells"][cells["columns"].index("object_size_bytes")]
    assert left == sum(s in ("", "1000000") for s in sizes) and "size=1000000" in tab.evaluate("location.hash")
    tab.evaluate("document.querySelector('nav a[href^=\"#figures\"]').click()")
    tab.until("document.querySelector('main h1').textContent === 'Figures'")
    tab.evaluate(
        "document.getElementById('figure-metadata_download').scrollIntoView()"
    )  # only charts in sight are drawn
    tab.until(
        "[...document.querySelectorAll('#figure-metadata_download .chart')].some((c) => c.textContent.startsWith('No value'))"
    )
    tab.open(path, "#figure/entries?scale=linear")
    tab.drawn()
    linear = tab.evaluate("document.querySelector('.panels').textContent")
    tab.go("#figure/entries?scale=log")
    tab.drawn()
    assert tab.evaluate("document.querySelector('.panels').textContent") != linear
    quiet(tab, path)


def test_a_table_is_sorted_by_click_and_key_and_downloaded_as_its_file(made, tab):
    path = made["reference"]
    tab.open(path, "#table/throughput")
    column = "document.querySelectorAll('main th button')"
    place = tab.evaluate(
        f"[...{column}].findIndex((b) => b.textContent.replaceAll('\\u200b', '') === 'rate_median_per_s')"
    )
    cells = f"[...document.querySelectorAll('main tbody tr')].map((r) => r.children[{place + 1}].textContent.replaceAll('\\u202f', ''))"
    tab.evaluate(f"{column}[{place}].click()")
    up = [float(v) for v in tab.evaluate(cells)]
    tab.evaluate(f"{column}[{place}].focus()")
    tab.press("Enter", text="\r")
    down = [float(v) for v in tab.evaluate(cells)]
    assert up == sorted(up) and down == up[::-1] and len(up) > 5
    assert tab.evaluate("document.activeElement.closest('th').getAttribute('aria-sort')") == "descending"
    assert "sort=-rate_median_per_s" in tab.evaluate("location.hash")
    blocks = page.read(path.read_text())["tables"]
    for name in ("throughput", "claims", "points", "environment"):
        text = tab.evaluate(
            f"storelab.block('tables').then((t) => storelab.csvOf(t.{name}.columns, t.{name}.cells[0].map((_, i) => t.{name}.cells.map((c) => c[i]))))"
        )
        assert text == (path.parent / "tables" / f"{name}.csv").read_text(), name
    assert blocks
    quiet(tab, path)


def test_planted_markup_stays_text(made, tab, tmp_path):
    blocks = {k: v for k, v in page.read(made["broad"].read_text()).items() if k not in ("library", "licences")}
    text, hostile = json.dumps(blocks), json.dumps(HOSTILE)[1:-1]
    for word in ('"alpha', '"nullserver', "operations/s due"):
        text = text.replace(word, ('"' if word[0] == '"' else "") + hostile)
    planted = json.loads(text)
    planted["head"]["title"] = HOSTILE
    for figure in planted["figures"].values():
        for panel in figure["panels"]:
            panel["title"] = panel["x"]["label"] = HOSTILE
            panel["x"]["names"] = {"1": HOSTILE, "50": "'];planted();['", "100": '"];planted();["'}
    target = tmp_path / "report.html"
    target.write_text(page.filled(HOSTILE, planted, page.packed_libraries()))
    tab.open(target)
    tab.evaluate("globalThis.planted = () => { globalThis.reached = true }; true")
    for view in ("overview", "print", "figures", "table/throughput", "points", "runs/0.1.2"):
        tab.go(f"#{view}?x=1")
        tab.evaluate("new Promise((done) => setTimeout(done, 300))")
        assert not tab.evaluate("globalThis.reached === true || document.querySelector('main img') !== null")
    assert HOSTILE in tab.evaluate("document.querySelector('main').textContent")
    quiet(tab, target)


def test_other_data_can_take_its_place_while_it_is_open(made, tab):
    tab.open(made["broad"], "#overview")
    head = page.read(made["broad"].read_text())["head"] | {"title": "Another title"}
    tab.evaluate(f"storelab.replace({{head: {json.dumps(head)}}})")
    assert tab.evaluate("document.querySelector('h1').textContent") == "Another title"
    quiet(tab, made["broad"])


def axe() -> str:
    """axe-core, fetched once by npm, at a pinned version."""
    if not AXE.exists():
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed, which fetches axe-core")
        folder = AXE.parents[2]
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)]
        command = ["npm", "install", *options, "axe-core@4.10.3"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            pytest.skip(f"axe-core cannot be fetched: {done.stderr.strip()[-200:]}")
    return AXE.read_text()


@pytest.mark.parametrize("dark", (False, True))
def test_axe_finds_nothing_serious(made, tab, dark):
    script = axe()
    views = [("reference", view) for view in ("overview", "figures", "table/throughput?sort=n")]
    for name, view in [*views, ("broad", "overview")]:
        tab.open(made[name], f"#{view}", dark=dark)
        tab.evaluate("new Promise((done) => setTimeout(done, 500))")
        tab.evaluate(f"{script}; true")
        found = tab.evaluate("axe.run().then((r) => r.violations.map((v) => [v.impact, v.id, v.nodes[0].html]))")
        assert [v for v in found if v[0] in ("serious", "critical")] == [], (name, view)


@pytest.mark.parametrize("size", ((500, 900), (1400, 900), (360, 800)))
def test_nothing_is_wider_than_the_page(made, tab, size):
    for name in ("reference", "broad"):
        tab.open(made[name], size=size)
        for view in ("overview", "figures", "table/throughput", "points"):
            tab.go(f"#{view}?scale=log")
            assert tab.evaluate("document.documentElement.scrollWidth") <= size[0], (name, view)


def test_on_a_narrow_page_a_row_is_a_card_with_all_of_it_in_sight(made, tab):
    """In a wide table, what limited a store is far to the right."""
    tab.open(made["reference"], size=(500, 900))
    inside = "[...document.querySelectorAll('.cards')].every((c) => c.scrollWidth <= c.clientWidth)"
    assert tab.evaluate(inside)
    right = "[...document.querySelectorAll('.cards td')].filter((c) => c.dataset.of === 'limited by').map((c) => c.getBoundingClientRect().right)"
    found = tab.evaluate(right)
    rows = page.read(made["reference"].read_text())["tables"]["verdicts"]["rows"]
    assert len(found) == rows > 5 and max(found) <= 500
    tab.open(made["reference"])
    assert tab.evaluate(inside)
    assert tab.evaluate("getComputedStyle(document.querySelector('.cards tr')).display") != "block"


def test_a_value_between_two_that_are_missing_has_a_dot(made, tab):
    tab.open(made["reference"], "#overview")
    line = {"name": "p50", "colour": "#0173b2", "marker": "none", "dash": "-"}
    lines = [line | {"x": [1, 2, 3, 4, 5, 6], "y": [2, None, 3, None, 4, 5]}]
    axis = {"label": "", "scale": "linear"}
    panel = {"title": "", "x": axis, "y": axis, "value": "y", "lines": lines, "levels": []}
    figures = {"f": {"title": "f", "caption": "", "note": "", "table": "points", "filtered": False, "panels": [panel]}}
    tab.evaluate(f"storelab.replace({{figures: {json.dumps(figures)}}})")
    tab.go("#figure/f")
    tab.drawn()
    dots = "[...document.querySelectorAll('.chart .mark-symbol path')].filter((p) => getComputedStyle(p).opacity > 0).length"
    assert tab.evaluate(dots) == 2
    quiet(tab, made["reference"])


def test_steps_of_an_axis_stay_equal_where_it_is_short(made, tab):
    tab.open(made["reference"], "#figure/earlier")
    tab.drawn()
    found = tab.evaluate(
        "[...document.querySelectorAll('.chart')].map((c) => [...c.querySelectorAll('.mark-text.role-axis-label')].at(0)).map((g) => [...g.querySelectorAll('text')].filter((t) => getComputedStyle(t).opacity > 0).map((t) => t.textContent.replaceAll('\u202f', '')))"
    )
    panels = page.read(made["reference"].read_text())["figures"]["earlier"]["panels"]
    linear = [axis for axis, panel in zip(found, panels, strict=True) if panel["x"]["scale"] == "linear"]
    assert linear
    for axis in linear:
        values = [float(text) for text in axis]
        assert len(values) > 1 and len({round(b - a, 6) for a, b in pairwise(values)}) == 1, axis


def test_no_line_of_the_grid_crosses_a_printed_value(made, tab):
    tab.open(made["broad"])
    tab.go("#print")
    texts = ".chart .mark-text.role-mark text"
    tab.until(f"document.querySelectorAll('{texts}').length", 60)
    looks = tab.evaluate(f"[...document.querySelectorAll('{texts}')].map((t) => getComputedStyle(t).paintOrder)")
    assert {look.split()[0] for look in looks} == {"stroke"}
