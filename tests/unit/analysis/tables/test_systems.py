"""Systems side by side: space, consistency and capabilities, the systems of 2015, their figures and LaTeX."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest
from printed_rows import systems
from scipy import stats
from tex_files import TexFiles

from campaigns import built
from storelab.analysis import pages
from storelab.analysis.figures import catalogue
from storelab.analysis.figures import systems as figures_of_systems
from storelab.analysis.figures.draw import draw
from storelab.analysis.latex import systems as latex_table1
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import build, earlier, guarantees, resources

S = 10**9


@pytest.fixture(scope="module")
def tex():
    return TexFiles("systems")


@pytest.fixture(scope="module")
def throughput():
    return build.read(built("systems"), "throughput")


def test_space_counts_raw_bytes_of_each_stored_byte():
    table = build.read(built("systems"), "space").query("store == 'alpha'").set_index("redundancy")
    for redundancy, copies in (("default", 1), ("replica-2", 2), ("replica-3", 3)):
        row = table.loc[redundancy]
        assert row["raw_per_byte_after_put_median_ratio"] == pytest.approx(copies)
        assert row["raw_per_byte_after_delete_median_ratio"] == pytest.approx(copies / 10, rel=1e-3)
        assert row["raw_per_byte_after_reclaim_median_ratio"] == 0 and row["n"] == 1 and row["objects"] == 101


def test_only_rates_are_in_tables_of_rates(throughput):
    assert set(throughput["workload"]) == {"put", "get"}
    assert set(build.read(built("systems"), "verdicts")["workload"]) == {"put", "get"}


def test_figure_and_table_of_systems(throughput, tex):
    fig = draw(catalogue.FIGURES["systems"], throughput)
    names = [t.get_text() for t in fig.axes[0].get_yticklabels()]
    expected = ["beta, replica-2", "beta", "alpha, replica-2", "alpha"]
    assert names == expected, "a deployment as configured has the name of its store"
    assert len(fig.axes) == 4 and "n = 1 run" in fig.get_supxlabel()
    assert "alpha, replica-2 & s5cmd" in tex["table_systems"]
    assert "Uploads 4 kB" in tex["table_systems"].replace("~", " ").replace(r"\\{}", " ")


def test_figure_of_systems_has_the_load_that_all_were_under(throughput):
    """Most clients; no panel of two systems where others have three."""
    table = throughput[throughput["redundancy"] != "replica-2"]
    three = pd.concat([table, table[table["store"] == "beta"].assign(store="gamma")])
    three = three[(three["store"] != "gamma") | (three["workload"] == "put")]
    loaded = pd.concat([three.assign(clients=1, rate_median_per_s=7.0), three.assign(clients=4)])
    found = figures_of_systems._comparable(loaded)
    assert set(found["clients"]) == {4} and set(found["workload"]) == {"put"}
    assert set(found["deployment"]) == {"alpha", "beta", "gamma"}
    two = figures_of_systems._comparable(table)
    assert set(two["workload"]) == {"put", "get"} and set(two["deployment"]) == {"alpha", "beta"}


def test_figure_of_buckets(throughput):
    assert draw(catalogue.FIGURES["front_ends"], throughput) is None
    more = throughput[throughput["buckets"] == throughput["buckets"].max()].assign(buckets=40)
    fig = draw(catalogue.FIGURES["buckets"], pd.concat([throughput, more]))
    assert {ax.get_xlabel() for ax in fig.axes} == {"Buckets"}
    assert "alpha, replica-2, uploads of 4 kB" in {ax.get_title() for ax in fig.axes}


def test_front_ends_on_shared_cores_are_undecided():
    table, known = build.read(built("example"), "throughput"), catalogue.FIGURES["front_ends"]
    table = pd.concat([table, table[table["front_ends"] == 2].assign(front_ends=4)])
    assert "it cannot show" in draw(known, table).get_supxlabel().replace("\n", " ")
    assert "cannot show" in catalogue.caption(known, table)


def test_paper_has_tables_of_systems(tex):
    assert "multi range 2 & \\textbf{differs} & yes" in tex["table_capabilities"]
    assert "single range & yes & yes" in tex["table_capabilities"]
    assert "no word of it" in tex["table_evidence"] and "\\&" in tex["table_evidence"]
    assert "single range" not in tex["table_evidence"] and r"\label{sec:systems}" in tex["paper"]
    assert "0 of 200" in tex["table_consistency"] and "another front-end & 0 of 100" in tex["table_consistency"]
    table = build.read(built("systems"), "consistency")
    assert table["fraction_upper95"].max() < 0.03 and table["errors"].sum() == 4 and table["tried"].notna().all()


def test_documentation_page_of_capabilities():
    text = pages.capabilities_page(build.read(built("systems"), "capabilities"), "example", "results/example")
    assert "| multi range 2 | **differs** | yes |" in text and "| | alpha | beta |" in text
    assert "| alpha | multi range 2 | differs | 206 with the first range only & no word of it |" in text


# Space


def observed(**used):
    return {f"used_{state}_bytes": value for state, value in used.items()}


def test_space_is_a_median_over_runs():
    usual = {"objects": 4, "stored_bytes": 2_000_000, "delete_s": 0.5, "reclaim_s": 2.0}
    usual |= observed(before=1000, after_put=6_001_000, after_delete=501_000, after_reclaim=1000)
    other = usual | observed(after_put=8_001_000, after_delete=701_000) | {"objects": 6, "reclaim_s": 4.0}
    seen = {"a": {"observed": usual}, "b": {"observed": other}, "c": {}, "d": {"observed": usual | {"stored_bytes": 0}}}
    rows = pd.DataFrame({"key": list("abcd"), "store": "s", "workload": "space", "state": ["ok"] * 4})
    (row,) = resources.space_table(SimpleNamespace(runs=seen), rows, ["store", "workload"]).to_dict("records")
    expected = {"n": 2, "coverage_percent": 50.0, "objects": 5.0, "stored_mb": 2.0, "delete_s": 0.5, "reclaim_s": 3.0}
    ratios = {"put": (3.5, 3.0, 4.0), "delete": (0.3, 0.25, 0.35), "reclaim": (0.0, 0.0, 0.0)}
    for state, values in ratios.items():
        for part, value in zip(("median", "low", "high"), values, strict=True):
            expected[f"raw_per_byte_after_{state}_{part}_ratio"] = value
    assert {name: row.pop(name) for name in ("interval", "store", "workload")} and row == pytest.approx(expected)


def test_space_counts_runs_that_reclaimed():
    runs = {}
    for key, after in (("a", 120), ("b", 110), ("c", math.nan)):
        used = observed(before=100, after_put=400, after_delete=300, after_reclaim=after)
        runs[key] = {"observed": used | {"stored_bytes": 100, "objects": 4, "delete_s": 1.0, "reclaim_s": 2.0}}
    rows = pd.DataFrame({"key": list("abc"), "store": "s", "workload": "space", "state": ["ok"] * 3})
    found = resources.space_table(SimpleNamespace(runs=runs), rows, ["store"]).iloc[0]
    assert found["n"] == 2 and found["raw_per_byte_after_put_median_ratio"] == 3.0
    ends = [found[f"raw_per_byte_after_reclaim_{part}_ratio"] for part in ("low", "high")]
    assert ends == pytest.approx([0.1, 0.2])


# Consistency


def test_row_of_consistency():
    tries = pd.DataFrame({"point": ["a", "a", "b"], "tried": [10, 20, 30], "anomalies": [1, 0, 2], "errors": [4, 0, 1]})
    lasted = {"lasted_ns": [2 * S, None, 6 * S], "watched_ns": [7 * S, 9 * S, 8 * S]}
    wrong = pd.DataFrame(lasted | {"evidence": ["first", "second", "third"]})
    of = {"store": "s", "scenario": "overwrite", "same_front_end": True}
    assert guarantees._consistency_row(of, tries, wrong) == {
        **{"store": "s", "scenario": "overwrite", "front_end": "same", "runs": 2, "tried": 60, "anomalies": 3},
        **{"errors": 5, "fraction": 0.05, "fraction_upper95": pytest.approx(stats.beta.ppf(0.95, 4, 57))},
        **{"never_right": 1, "lasted_median_s": 4.0, "lasted_max_s": 6.0, "watched_max_s": 9.0, "example": "first"},
    }
    none = guarantees._consistency_row(of | {"same_front_end": False}, tries.assign(tried=0, anomalies=0), wrong[:0])
    names = ("front_end", "fraction", "lasted_max_s", "example", "never_right")
    assert [none[name] for name in names] == ["other", None, None, None, 0]


# The systems of 2015


def test_stores_of_today_follow_those_of_2015():
    t = systems()
    assert list(t["source"]) == ["published"] * 5 + ["measured"] * 2
    ours = t[t["source"] == "measured"].set_index("system")
    columns = ["multipart_upload", "multi_range_get", "front_ends", "storage_nodes"]
    assert ours.loc["alpha", columns].tolist() == ["yes", "no", 4, 3]
    assert ours.loc["beta", ["multipart_upload", "front_ends"]].isna().all()
    text = latex_table1.table1(t)
    assert r"Amazon S3 & -- & -- & -- & -- & -- & \textbf{no} & -- \\" in text
    assert r"Huawei UDS, first generation & 768 & 7 & 384 & 2 & \textbf{no} & yes & -- \\" in text
    assert r"alpha: Ceph 16.2.15 & -- & 4 & 3 & -- & yes & \textbf{no} & replica-3 \\" in text
    assert earlier.table1(Campaign(None, {"points": []}, {}, {}), pd.DataFrame()).empty
