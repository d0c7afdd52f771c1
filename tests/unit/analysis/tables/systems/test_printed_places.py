"""No printed number is forgotten: the list of places covers each, and each place has it, as printed.

Also the tables that set printed ones beside ours, by hand.
"""

import math
import re

import pandas as pd
import pytest
from throughput_rows import groups

from storelab.analysis.figures import catalogue, draw, resources
from storelab.analysis.figures.systems import earlier as figure_earlier
from storelab.analysis.latex import FILE
from storelab.analysis.latex.distribution import releases as latex_releases
from storelab.analysis.latex.systems import one_client as latex_one_client
from storelab.analysis.latex.systems import storage_lab as latex_storage_lab
from storelab.analysis.latex.systems import table1 as latex_table1
from storelab.analysis.records import published
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import TABLE
from storelab.analysis.tables.roles import recovery
from storelab.analysis.tables.sparse import table2
from storelab.analysis.tables.systems import one_client, storage_lab, table1
from storelab.analysis.tables.verdicts import earlier

PLACES = published.places()
KINDS = ("tables", "tex", "figures", "numbers")
# What is no number, or names a row.
WORDS = {
    "uds_headlines": {"system", "setting", "quantity", "unit", "source", "bound"},
    "uds1_2012_single_client_threads": {"operation", "object_size_printed", "note"},
    "uds_2015_sparse_reads": set(),
    "systems_2015": {"system", "name"},
    "hepix_2010_storage_lab": {"use_case", "solution"},
}


def cells(table: str) -> set[tuple[int, str]]:
    """(row, column) of every number that was printed, and of every answer."""
    t = published.load(table)
    return {(i, c) for c in set(t) - WORDS[table] for i in t.index[t[c].notna()]}


@pytest.mark.parametrize("table", published.NAMES)
def test_every_printed_number_has_a_place(table):
    covered = {(i, c) for p in PLACES if p["table"] == table for i in published.standing(p).index for c in p["columns"]}
    assert cells(table) <= covered, sorted(cells(table) - covered)


@pytest.mark.parametrize("place", PLACES, ids=lambda p: f"{p['table']} {p.get('rows', '')}")
def test_a_place_is_there(place):
    assert len(published.standing(place)), "it is about no row"
    assert place["how"] and set(place) <= {"table", "rows", "columns", "how", *KINDS}
    named = {kind: set(place.get(kind, ())) for kind in KINDS}
    assert any(named.values())
    assert named["tables"] <= set(TABLE.declared) and named["tex"] <= set(FILE.declared)
    assert named["figures"] <= set(catalogue.FIGURES)
    assert named["numbers"] <= {r["name"] for r in published.numbers()}


# --- what stands in each place ----------------------------------------------------------------------------------------------------------


def threads() -> pd.DataFrame:
    """throughput.csv of one client with the printed operations and sizes."""
    parts = [
        groups(workload=w, object_size_bytes=s, workers=[1, 8, 64], value=[10.0, 80.0, 90.0])
        for w in ("put", "get")
        for s in (4000, 10**7)
    ]
    return pd.concat(parts, ignore_index=True)


def whole() -> tuple[pd.DataFrame, pd.DataFrame]:
    """throughput.csv and resources.csv with everything that earlier.csv has a measure for."""
    parts = [
        groups(workload=w, object_size_bytes=s, clients=[1, 4], front_ends=[1, 2], access=a)
        for w, s, a in (("put", 4000, None), ("get", 4000, "cold"), ("put", 10**8, None), ("get", 10**8, "warm"))
    ]
    rates = pd.concat(parts, ignore_index=True)
    used = rates.assign(**{f"link_{part}_percent": 80.0 for part in ("median", "low", "high")})
    return rates, used


def events() -> pd.DataFrame:
    """events.csv of two systems, two settings, both navigations, two numbers of jobs."""
    rows = []
    for store, factor in (("alpha", 1), ("beta", 2)):
        for cache, gain in (("none", 1), ("readahead", 3)):
            for navigation in ("scan", "random"):
                for jobs in (1, 4):
                    value = 100.0 * factor * gain * jobs
                    row = {"store": store, "workload": "events", "engine": "fsspec", "navigation": navigation}
                    row |= {"cache": cache, "read_ahead_bytes": 2**21 * (gain > 1), "clients": jobs, "files": 4}
                    row |= {"n": 3, "interval": "range", "nodes": 1, "shared_host": True, "duration_s": 60.0}
                    for name, unit, times in (
                        ("events", "per_s", 1),
                        ("wire", "mb_per_s", 0.1),
                        ("asked", "mb_per_s", 9),
                        ("processed", "events", 60),
                    ):
                        row |= {
                            f"{name}_{p}_{unit}": value * times * f
                            for p, f in (("median", 1), ("low", 0.9), ("high", 1.1))
                        }
                    rows.append(row)
    return pd.DataFrame(rows)


def probed() -> pd.DataFrame:
    """One store with both questions, one with one of them."""
    asked = [("ranges", "multi-range 2", "no"), ("multipart", "upload", "yes")]
    rows = [{"store": "alpha", "redundancy": "default", "topic": t, "check": c, "answer": a} for t, c, a in asked]
    return pd.DataFrame([*rows, {**rows[0], "store": "beta", "answer": "yes"}])


RUN = {
    "store": {"name": "alpha", "kind": "ceph", "version": "16.2.15 (abc)"},
    "clients": [],
}
DEPLOYED = {"system": "Ceph", "front_ends": 2, "servers": 3, "redundancy": "replica-3"}


def systems() -> pd.DataFrame:
    runs = {
        "a": RUN | {"store": RUN["store"] | {"deployment": DEPLOYED}},
        "b": RUN | {"store": RUN["store"] | {"deployment": DEPLOYED | {"front_ends": 4}}},
    }
    return table1.table(Campaign(None, {"points": []}, runs, {}), probed())


def numbers_of(table: pd.DataFrame) -> set[object]:
    return {v for c in table for v in table[c].dropna()}


def plain(text: str) -> set[str]:
    """The cells of a table in TeX, without what sets them."""
    text = text.replace(r"\,", "").replace("$", "").replace(r"\pm", "&").replace("~", " ")
    return {
        cell.strip()
        for line in text.splitlines()
        for cell in re.split(r"&|\\\\|[a-z]* \(mean|: | new files and | GB", line)
    }


@pytest.fixture(scope="module")
def standing() -> dict[tuple[str, str], set[object]]:
    """Kind and name of a place -> the numbers and words that it shows."""
    lab, one, systems_ = storage_lab.table(events()), one_client.table(threads()), systems()
    out = {
        ("tables", "one_client"): numbers_of(one[one["source"] != "measured"]),
        ("tables", "storage_lab"): numbers_of(lab[lab["source"] == "published"]),
        ("tables", "table1"): numbers_of(systems_[systems_["source"] == "published"]),
        ("tables", "earlier"): numbers_of(earlier.table(*whole())[["printed"]]),
        ("tables", "table2"): numbers_of(
            table2._published(
                pd.DataFrame(columns=["source", "store", "workload", "engine", table2.SELECTION, *table2.COLUMNS])
            )
        ),
        ("tables", "recovery"): {row["failed_operations"] for row in recovery._published()},
        ("tex", "table_one_client"): plain(latex_one_client.one_client(one)),
        ("tex", "table_storage_lab"): plain(latex_storage_lab.storage_lab(lab)),
        ("tex", "table_one"): plain(latex_table1.table1(systems_)),
    }
    fig = draw.draw(catalogue.FIGURES["events_bars"], lab)
    bars = {round(b.get_width() * 1e6) for ax in fig.axes[1::2] for b in ax.patches}
    jobs = {int(t.get_text().split()[0]) for t in fig.legends[0].get_texts()}
    out["figures", "events_bars"] = bars | jobs
    rows = threads()
    lines = [
        line
        for size in (4000, 10**7)
        for measure in catalogue.FIGURES["threads"].measures
        for line in resources.of_2012(rows[rows["object_size_bytes"] == size], measure)
    ]
    out["figures", "threads"] = {v for line in lines for v in [*line.at, *line.spread]}
    drawn = draw.draw(catalogue.FIGURES["earlier"], earlier.table(*whole()))
    out["figures", "earlier"] = {
        float(x) for ax in drawn.axes for line in ax.lines if line.get_mfc() == "white" for x in line.get_xdata()
    }
    out["numbers", "all"] = {float(r["value"]) for r in published.numbers() if not isinstance(r["value"], str)}
    return out


def test_a_place_has_its_numbers_as_printed(standing):
    for place in PLACES:
        values = published.standing(place)
        for kind in ("tables", "figures"):
            for name in place.get(kind, ()):
                known = standing.get((kind, name))
                if known is None or name == "earlier":  # events_throughput: test_events_processed; earlier: below
                    continue
                lost = {v for v in numbers_of(values) if v not in known}
                assert not lost, (kind, name, lost)
        for name in place.get("tex", ()):
            if (shown := standing.get(("tex", name))) is None:
                continue
            said = {v: {v} if isinstance(v, str) else {f"{v:g}", f"{v:.0f}", str(v)} for v in numbers_of(values)}
            words = {r"\textbf{no}": "no"}
            lost = {v for v, forms in said.items() if not forms & {words.get(cell, cell) for cell in shown}}
            assert not lost, (name, lost)
        if place.get("numbers"):
            assert numbers_of(values) <= standing["numbers", "all"]
    headlines = [p for p in PLACES if "earlier" in p.get("tables", ())]
    assert numbers_of(pd.concat([published.standing(p) for p in headlines])) <= standing["tables", "earlier"]
    medians = sorted({round(v, 6) for v in earlier.printed()["median"]})
    assert sorted({round(v, 6) for v in standing["figures", "earlier"]}) == medians


def test_the_daily_release_stands_in_its_table(monkeypatch):
    rows = pd.DataFrame(
        [
            {
                "store": "a",
                "workload": "publish",
                "stratum": 0,
                "n": 1,
                "days_published": 1,
                "days": 1,
                "repository_median_objects": 1.0,
                "repository_median_mb": 1.0,
                "day_s": 1.0,
                "usual_lag_s": math.nan,
                "longest_lag_s": math.nan,
                "all_retries": 0,
                "all_failures": 0,
            }
        ]
    )
    monkeypatch.setattr(latex_releases.releases, "summary", lambda _: rows)
    text = latex_releases.table(rows).replace(r"\,", "")
    for value in ("110", "18000000", "880000", "162000 $\\pm$ 28000", "7.45 $\\pm$ 3.78"):
        assert value in text, value


# --- the tables by hand -----------------------------------------------------------------------------------------------------------------


def test_one_client_keeps_both_sides_apart():
    t = one_client.table(threads())
    ours = t[t["source"] == "measured"]
    assert (
        len(ours) == 12
        and list(ours["rate_median_per_s"][:3]) == [10, 80, 90]
        and ours["rate_spread_per_s"].isna().all()
    )
    theirs = t[t["source"] != "measured"]
    assert len(theirs) == 36 and theirs["rate_low_per_s"].isna().all() and set(theirs["system"]) == {one_client.SYSTEM}
    only = one_client.table(groups(object_size_bytes=[4096]))
    assert set(only["operation"]) == {"upload"} and len(only) == 12 + 1
    for change in ({"clients": [2]}, {"object_size_bytes": [10**6]}, {"workload": ["stat"]}):
        assert one_client.table(groups(**change)).empty
    lines = [line.split(" & ") for line in latex_one_client.one_client(t).splitlines()]
    assert ["8", r"33.9 $\pm$ 4.4", r"0.13 $\pm$ 0.02", r"80.0 [72.0, 88.0] \\"] in lines
    assert ["64", "--", "--", r"90.0 [81.0, 99.0] \\"] in lines
    (block,) = (line for line in latex_one_client.one_client(t).splitlines() if "upload of 4~kB" in line)
    assert block.startswith(r"\multicolumn{4}"), "as many columns as the table has"
    assert ["200", r"51.2 $\pm$ 3.4", r"0.19 $\pm$ 0.01", r"-- \\"] in lines


def test_settings_of_one_client_are_told_apart():
    """Points that differ in something else stand in columns of their own, the usual ones first; of many, five are shown."""
    usual = groups(object_size_bytes=4000, workers=[1, 8, 12], value=[10.0, 20.0, 21.0])
    other = groups(object_size_bytes=4000, workers=[1, 8, 12], front_ends=2, value=[30.0, 40.0, 41.0])
    both = [usual, other] + [groups(object_size_bytes=4000, workers=[1], buckets=b) for b in (2, 3, 4, 5, 6)]
    t = one_client.table(pd.concat(both, ignore_index=True))
    assert set(t["setting"].dropna()) == {"", "2 front-ends"}
    text = latex_one_client.one_client(t)
    assert "5 of 7 settings" in text and "front-ends" not in text.partition(r"\midrule")[0]
    line = next(line for line in text.splitlines() if line.startswith("8 & 33.9"))
    assert line.count(" & ") == 7 and "20.0 [18.0, 22.0]" in line and "40.0" not in line


def test_two_numbers_of_threads_are_no_table_beside_the_printed_one():
    """Eighteen printed rows with dashes beside them told nothing: they stand in the table of what was printed then."""
    few = [groups(object_size_bytes=4000, workers=[1, 8]), groups(object_size_bytes=4000, workers=[12], buckets=4)]
    enough = groups(object_size_bytes=10**7, workers=[1, 8, 12], store="beta")
    for rows, systems in ((few, 0), ([*few, enough], 1)):
        t = one_client.table(pd.concat(rows, ignore_index=True))
        assert latex_one_client.one_client(t).count(r"\begin{longtable}") == systems
        assert latex_one_client.flags(t) == {"one_client": systems > 0}
    assert latex_one_client.flags(one_client.table(groups(clients=[2]))) == {"one_client": False}


def test_the_storage_laboratory_keeps_lost_cells_empty():
    t = storage_lab.table(events())
    theirs, ours = t[t["source"] == "published"], t[t["source"] == "measured"]
    lost = theirs[(theirs["system"] == "AFS native") & (theirs["navigation"] == "scan") & (theirs["jobs"] == 40)]
    assert len(lost) == 1 and lost[["mb_per_s", "events"]].isna().all().all()
    assert len(theirs) == 80 and theirs["events_per_s"].isna().all(), "their period is not known"
    row = ours[(ours["system"] == "beta") & (ours["setting"] == "readahead of 2 MiB") & (ours["jobs"] == 4)].iloc[0]
    assert (row["events"], row["events_per_s"], row["mb_per_s"], row["period_s"]) == (144_000, 2400, 240, 60)
    assert set(storage_lab.best_settings(t)["setting"]) == {"readahead of 2 MiB"}
    local = events().assign(**{f"wire_{p}_mb_per_s": math.nan for p in ("median", "low", "high")})
    local = storage_lab.table(local)
    assert local[local["source"] == "measured"]["mb_per_s"].notna().all(), (
        "what was asked for, where nobody tells the wire's"
    )
    one = storage_lab.table(events().query("navigation == 'scan'"))
    assert set(one["navigation"]) == {"scan"} and storage_lab.table(pd.DataFrame()).empty
    text = latex_storage_lab.storage_lab(t)
    assert text.count(r"\label{tab:lab_") == 2 and r"AFS native & 192 & -- & 277 & --" in text
    assert r"\multicolumn{9}{@{}r@{}}{continued}" in text


def test_the_bars_of_2010_are_hollow_on_axes_of_their_own():
    fig = draw.draw(catalogue.FIGURES["events_bars"], storage_lab.table(events()))
    ours, theirs = fig.axes[0], fig.axes[1]
    assert theirs.get_title().startswith("published 2010") and theirs.get_xlabel() != ours.get_xlabel()
    assert {b.get_facecolor() for b in theirs.patches} == {(1.0, 1.0, 1.0, 1.0)}
    assert [t.get_text() for t in ours.get_yticklabels()] == ["alpha\nreadahead of 2 MiB", "beta\nreadahead of 2 MiB"]
    assert sorted(b.get_width() for b in ours.patches) == [300, 600, 1200, 2400]
    lost = published.load("hepix_2010_storage_lab").query("use_case == 'CMS'")["events"].isna().sum()
    scan = next(ax for ax in fig.axes[1::2] if "CMS" in ax.get_title())
    assert sum("not printed" in t.get_text() for t in scan.texts) == lost == 10
    assert draw.draw(catalogue.FIGURES["events_bars"], storage_lab.table(pd.DataFrame())) is None


def test_todays_stores_stand_below_those_of_2015():
    t = systems()
    assert list(t["source"]) == ["published"] * 5 + ["measured"] * 2
    ours = t[t["source"] == "measured"].set_index("system")
    assert (ours.loc["alpha", "multipart_upload"], ours.loc["alpha", "multi_range_get"]) == ("yes", "no")
    assert (ours.loc["alpha", "front_ends"], ours.loc["alpha", "storage_nodes"]) == (4, 3)
    assert pd.isna(ours.loc["beta", "multipart_upload"]) and pd.isna(ours.loc["beta", "front_ends"])
    text = latex_table1.table1(t)
    assert r"Amazon S3 & -- & -- & -- & -- & -- & \textbf{no} & -- \\" in text
    assert r"Huawei UDS, first generation & 768 & 7 & 384 & 2 & \textbf{no} & yes & -- \\" in text
    assert r"alpha: Ceph 16.2.15 & -- & 4 & 3 & -- & yes & \textbf{no} & replica-3 \\" in text
    assert table1.table(Campaign(None, {"points": []}, {}, {}), pd.DataFrame()).empty


def test_the_figure_of_then_and_now_names_year_and_system():
    table = earlier.table(*whole())
    fig = draw.draw(catalogue.FIGURES["earlier"], table)
    names = [" ".join(t.get_text().split()) for ax in fig.axes for t in ax.get_yticklabels()]
    for said in (
        "published 2013: UDS 1, 5 clients",
        "published 2015: UDS 2",
        "published 2012: UDS 1, one client, 5 buckets",
    ):
        assert said in names, said
    assert "alpha" in names and all(n == "alpha" or n.startswith("published 20") for n in names)
    assert len(fig.axes) == len(table.groupby(["what", "measure"])) and not any(
        len(line.get_xdata()) > 1 and line.get_linestyle() not in ("None", "none", "")
        for ax in fig.axes
        for line in ax.lines
    ), "nothing is joined"
    assert figure_earlier.earlier(table.iloc[:0]) is None
