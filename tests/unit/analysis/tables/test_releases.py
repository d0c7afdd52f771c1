"""releases.csv: size of a repository, duration of a day, delay of stratum 1; figure and LaTeX."""

import made_records
import pandas as pd
import pytest
from release_rows import day, make_table
from tex_files import facts

from storelab.analysis.figures import catalogue, draw
from storelab.analysis.latex import distribution as latex
from storelab.analysis.records import published
from storelab.analysis.tables import releases
from storelab.core import records

TOGETHER = ((0, "published", 10), (1, "failed", 15))


@pytest.fixture
def table(tmp_path):
    return make_table(tmp_path)


def test_days_that_stratum_1_did_not_get():
    """Check days that are late or missing in stratum 1.

    In `a` it missed day 2 and got it with day 3, in `b` the last day is missing, in `c` it got none; `d` is not valid,
    and `e` has no stratum 1.
    """
    rows = [
        *[("a", 0, 1, "published", 10), ("a", 1, 1, "published", 15), ("a", 0, 2, "published", 20)],
        *[("a", 1, 2, "failed", 25), ("a", 0, 3, "published", 30), ("a", 1, 3, "published", 35)],
        *[("a", 0, 4, "failed", 40), ("a", 1, 4, "unchanged", 45), ("b", 1, 1, "published", 15)],
        *[("b", 0, 1, "published", 10), ("b", 0, 2, "published", 20), ("b", 1, 2, "failed", 25)],
        *[(key, stratum, 1, state, end) for key in "cd" for stratum, state, end in TOGETHER],
        ("e", 0, 1, "published", 10),
    ]
    days = pd.DataFrame(rows, columns=["key", "stratum", "day", "state", "end_ns"])
    points = pd.DataFrame({"key": list("abcde"), "state": ["ok"] * 3 + ["invalid", "ok"], "days": 4})
    found = releases.with_published(days, points).set_index("key")
    behind = {key: (r["behind"], r["published_days"]) for key, r in found.iterrows()}
    assert behind == {"a": (0, 3), "b": (1, 2), "c": (1, 1)}
    assert releases.with_published(days[days["key"] == "e"], points).empty  # a campaign that replicates nothing


def column(table, stratum, name):
    return [None if pd.isna(v) else float(v) for v in table[table["stratum"] == stratum].sort_values("day")[name]]


def test_growth_times_and_lags(table):
    assert list(table["n"].unique()) == [2] and len(table) == 8  # the invalid run is in no median
    assert column(table, 0, "repository_median_objects") == [10, 40, 40, 50]
    assert column(table, 1, "repository_median_objects") == [10, 14, 40, 40]
    assert column(table, 0, "repository_median_mb") == [3, 6, 6, 9]  # between those of the runs: 2 and 4, …
    assert column(table, 0, "repository_low_mb") == [2, 4, 4, 6]
    assert column(table, 0, "repository_high_mb") == [4, 8, 8, 12]
    assert column(table, 0, "new_median_objects") == [10, 30, 0, 10]
    assert column(table, 0, "publication_median_s") == [10, 10, None, 1]
    assert column(table, 1, "publication_median_s") == [4, None, 9, None]
    lags = [4, 20, None, None]  # day 2 came with the replication of day 3; day 4 never did
    assert column(table, 1, "lag_median_s") == lags
    assert column(table, 0, "lag_median_s") == [None] * 4
    assert column(table, 0, "published") == [2, 2, 0, 2] and column(table, 1, "published") == [2, 0, 2, 0]
    assert column(table, 1, "failures") == [1, 3, 1, 1]
    assert column(table, 0, "whole_median_s") == [12, 12, None, 3] and column(table, 1, "whole_median_s") == [None] * 4


def test_day_of_the_real_tool_has_no_time_of_publication(tmp_path):
    """It makes a day while it publishes it, and does not count its requests."""
    unknown = dict.fromkeys(("prepare_ns", "heads", "puts", "retries", "failures"))
    rows = [day(1, 0, "published", 0, 10, **unknown), day(2, 0, "failed", 20, 25, stored=None, size=None, **unknown)]
    rows.append(day(3, 0, "published", 30, 50, **unknown))
    runs = {"k": {"point": {"fixed": {"release": {"factor": 0.001}}}}}
    found = releases.days_of_runs(made_records.campaign(tmp_path, "days", records.DAYS, {"k": rows}, runs))
    points = pd.DataFrame({"key": ["k"], "state": ["ok"], "shared_host": pd.array([True], "boolean")})
    points = points.assign(store="a", workload="publish", engine="cvmfs")
    made = releases.releases_table(found, points, ["store", "workload", "engine"])
    assert column(made, 0, "publication_median_s") == [None] * 3 and column(made, 0, "heads") == [None] * 3
    assert column(made, 0, "whole_median_s") == [10, None, 20] and column(made, 0, "gets") == [1, 1, 1]
    assert column(made, 0, "repository_median_objects")[-1] == 20
    assert pd.isna(releases.summary(made)["day_s"].iloc[0])


def test_summary_is_that_of_the_last_day(table):
    zero, one = releases.summary(table).to_dict("records")
    assert (zero["days"], zero["days_published"], zero["repository_median_objects"], zero["day_s"]) == (4, 3, 50, 10)
    assert (one["days_published"], one["usual_lag_s"], one["longest_lag_s"], one["all_failures"]) == (2, 12, 20, 6)
    numbers = [("releases_factor", "factor 0.001", ""), ("releases_days", 4, ""), ("releases_flat", 1, "")]
    numbers.insert(0, ("releases_left", 10, ""))
    assert releases.releases_numbers(table) == numbers
    assert releases.releases_numbers(table.iloc[:0]) == []
    alone = releases.releases_numbers(table[table["stratum"] == 0])
    assert alone == numbers[1:], "without replication there is no delay"


def test_headlines_name_store_of_stratum(table):
    """Stratum 0 of a replication is on `b`; runs that only publish are preferred, however long they take."""
    assert {h.kind: h.system for h in latex.releases_headlines(table)} == {"Publishing": "b", "Replication": "a"}
    alone = table[table["stratum"] == 0].assign(workload="publish", publication_median_s=99.0)
    found = next(h for h in latex.releases_headlines(pd.concat([table, alone])) if h.kind == "Publishing")
    assert (found.system, found.value) == ("a", "99~s")


def test_figure_has_both_strata_and_published_growth(table):
    assert published.release() == (162_000, 7.45) and published.release_at_end() == (18_000_000, 880)
    figure = draw.draw(catalogue.FIGURES["releases"], table)
    assert len(figure.axes) == 2
    for ax, a_day in zip(figure.axes, (7450 * 0.001, 162_000 * 0.001), strict=True):
        dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
        assert [list(line.get_ydata()) for line in dashed] == [pytest.approx([a_day * d for d in range(5)])]
        assert len(ax.containers) == 2
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["stratum 0 on b", "stratum 1 on a"]
    assert draw.draw(catalogue.FIGURES["releases"], table.iloc[:0]) is None
    assert "n = 2 runs" in catalogue.caption(catalogue.FIGURES["releases"], table)


def test_figure_of_many_days_has_lines(table):
    """No symbol hides the flat stretch, and no curve is shifted by days."""
    days = pd.concat([table.assign(day=table["day"] + 4 * k) for k in range(10)], ignore_index=True)
    ax = draw.draw(catalogue.FIGURES["releases"], days).axes[0]
    grown = [line for line in ax.lines if line.get_linestyle() == "-"]
    assert len(grown) == 2 and all(list(line.get_xdata()) == sorted(set(days["day"])) for line in grown)
    assert all(line.get_markevery()[1] > 3 for line in grown) and not ax.containers
    assert len(ax.collections) == 2, "bands from low to high"


def test_paper_has_both_strata_and_2015(table):
    text = latex.released(table)
    lines = [line for line in text.splitlines() if "&" in line]
    assert any(line.startswith("b; replication & 0 &") for line in lines)
    assert any(line.startswith("a; replication & 1 &") for line in lines)
    assert any("& 0 & 2 & 3 of 4 & 50 & 9" in line for line in lines), lines
    assert any("& 1 & 2 & 2 of 4 & 40" in line for line in lines)
    assert any("2015" in line and "110" in line and r"18\,000\,000" in line and r"880\,000" in line for line in lines)
    one = table[(table["stratum"] == 0) & (table["day"] < 3)]
    assert [dict(n[:2] for n in releases.releases_numbers(rows))["releases_flat"] for rows in (table, one)] == [1, 0]
    assert [facts(releases=rows)["replicated"] for rows in (table, one, table.iloc[:0])] == [True, False, False]
