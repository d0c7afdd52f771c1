"""Every printed number has a place, and each place shows it as it was printed."""

import itertools
import math
import re

import pandas as pd
import pytest
from printed_rows import events, systems, threads, whole

from storelab.analysis.figures import catalogue, draw, throughput
from storelab.analysis.latex import TABLES as TEX
from storelab.analysis.latex import distribution as latex_releases
from storelab.analysis.latex import rates as latex_one_client
from storelab.analysis.latex import reads as latex_storage_lab
from storelab.analysis.latex import systems as latex_table1
from storelab.analysis.records import published
from storelab.analysis.tables import TABLES, earlier, roles

PLACES = published.places()
KINDS = ("tables", "tex", "figures", "numbers")
# Columns that name a row, or hold no number.
WORDS = {
    "uds_headlines": {"system", "setting", "quantity", "unit", "source", "bound"},
    "uds1_2012_single_client_threads": {"operation", "object_size_printed", "note"},
    "uds_2015_sparse_reads": set(),
    "systems_2015": {"system", "name"},
    "hepix_2010_storage_lab": {"use_case", "solution"},
}


def test_every_printed_number_has_a_place():
    assert set(WORDS) == set(published.NAMES)
    for table, words in WORDS.items():
        t, places = published.load(table), [p for p in PLACES if p["table"] == table]
        cells = {(i, c) for c in set(t) - words for i in t.index[t[c].notna()]}
        lost = cells - {(i, c) for p in places for i in published.select_printed(p).index for c in p["columns"]}
        assert not lost, (table, sorted(lost))


def test_places_name_known_outputs():
    known = {"tables": set(TABLES), "tex": set(TEX), "figures": set(catalogue.FIGURES)}
    known["numbers"] = {r["name"] for r in published.numbers()}
    for place in PLACES:
        assert len(published.select_printed(place)), (place, "there is no such row")
        assert place["how"] and set(place) <= {"table", "rows", "columns", "how", *KINDS}, place
        named = {kind: set(place.get(kind, ())) for kind in KINDS}
        assert any(named.values()) and all(named[kind] <= known[kind] for kind in KINDS), place


def values_of(table: pd.DataFrame) -> set[object]:
    return {v for c in table for v in table[c].dropna()}


def cells_of(text: str) -> set[str]:
    """Return the cells of a table in TeX without markup."""
    text = text.replace(r"\,", "").replace("$", "").replace(r"\pm", "&").replace("~", " ").replace(r"\textbf{no}", "no")
    split = re.compile(r"&|\\\\|[a-z]* \(mean|: | new files and | GB")
    return {cell.strip() for line in text.splitlines() for cell in split.split(line)}


@pytest.fixture(scope="module")
def shown() -> dict[tuple[str, str], set[object]]:
    """Return kind and name of a place -> the numbers and words that it shows."""
    lab, one, stores = earlier.storage_lab_table(events()), earlier.one_client_table(threads()), systems()
    then = earlier.table(*whole())
    columns = ["source", "store", "workload", "engine", earlier.SELECTION, *earlier.TABLE2_COLUMNS]
    out = {
        ("tables", "one_client"): values_of(one[one["source"] != "measured"]),
        ("tables", "storage_lab"): values_of(lab[lab["source"] == "published"]),
        ("tables", "table1"): values_of(stores[stores["source"] == "published"]),
        ("tables", "earlier"): values_of(then[["printed"]]),
        ("tables", "table2"): values_of(earlier._published_table2(pd.DataFrame(columns=columns))),
        ("tables", "recovery"): {row["failed_operations"] for row in roles._published()},
        ("tex", "table_one_client"): cells_of(latex_one_client.one_client(one)),
        ("tex", "table_storage_lab"): cells_of(latex_storage_lab.storage_lab(lab)),
        ("tex", "table_one"): cells_of(latex_table1.table1(stores)),
        ("numbers", "all"): {float(r["value"]) for r in published.numbers() if not isinstance(r["value"], str)},
    }
    fig = draw.draw(catalogue.FIGURES["events_bars"], lab)
    bars = {round(b.get_width() * 1e6) for ax in fig.axes[1::2] for b in ax.patches}
    out["figures", "events_bars"] = bars | {int(t.get_text().split()[0]) for t in fig.legends[0].get_texts()}
    rows, out["figures", "threads"] = threads(), set()
    for size, measure in itertools.product((4000, 10**7), catalogue.FIGURES["threads"].measures):
        for line in throughput.values_of_2012(rows[rows["object_size_bytes"] == size], measure):
            out["figures", "threads"] |= {*line.at, *line.spread}
    drawn = [line for ax in draw.draw(catalogue.FIGURES["earlier"], then).axes for line in ax.lines]
    out["figures", "earlier"] = {float(x) for line in drawn if line.get_mfc() == "white" for x in line.get_xdata()}
    return out


def test_places_show_their_numbers_as_printed(shown):
    """events_throughput is tested with its table; `earlier` shows quotients."""
    for place in PLACES:
        values = values_of(published.select_printed(place))
        named = [(kind, name) for kind in ("tables", "figures", "tex") for name in place.get(kind, ())]
        for kind, name in named:
            if (kind, name) not in shown or name == "earlier":
                continue
            forms = {v: {v} if isinstance(v, str) or kind != "tex" else {f"{v:g}", f"{v:.0f}", str(v)} for v in values}
            lost = {v for v, texts in forms.items() if not texts & shown[kind, name]}
            assert not lost, (kind, name, lost)
        if place.get("numbers"):
            assert values <= shown["numbers", "all"], place
    headlines = [published.select_printed(p) for p in PLACES if "earlier" in p.get("tables", ())]
    assert values_of(pd.concat(headlines)) <= shown["tables", "earlier"]
    medians = {round(v, 6) for v in earlier.printed()["median"]}
    assert {round(v, 6) for v in shown["figures", "earlier"]} == medians


def test_daily_release_is_in_its_table(monkeypatch):
    row = {"store": "a", "workload": "publish", "stratum": 0, "n": 1, "days_published": 1, "days": 1, "day_s": 1.0}
    row |= {"repository_median_objects": 1.0, "repository_median_mb": 1.0, "all_retries": 0, "all_failures": 0}
    rows = pd.DataFrame([row | {"usual_lag_s": math.nan, "longest_lag_s": math.nan}])
    monkeypatch.setattr(latex_releases.releases, "summary", lambda _: rows)
    text = latex_releases.released(rows).replace(r"\,", "")
    for value in ("110", "18000000", "880000", "162000 $\\pm$ 28000", "7.45 $\\pm$ 3.78"):
        assert value in text, value
