"""Printed numbers next to measured ones: divided by the numbers of their setting, in figures as hollow points."""

import pandas as pd
import pytest
from printed_rows import whole
from throughput_rows import groups

from storelab.analysis.figures import catalogue, draw, panels, throughput
from storelab.analysis.figures import systems as figure_earlier
from storelab.analysis.latex import verdicts as latex
from storelab.analysis.records import published
from storelab.analysis.tables import earlier

PRINTED = published.load("uds1_2012_single_client_threads")


def test_printed_numbers_are_divided_by_clients_of_their_setting():
    t = earlier.printed()
    t = t[t["over"].isin(["clients", "front_ends"])].set_index("setting")
    assert t.loc["5 clients, download 4 kB", "median"] == 8500 / 5
    assert t.loc["21 clients, 21 accounts, 2100 buckets, upload 4 kB", "median"] == pytest.approx(1400 / 21)
    assert t.loc["20 clients, download throughput", "median"] == pytest.approx(18e9 / 8 / 1e6 / 20)
    assert t.loc["one client, upload 4 kB, 5 buckets", "median"] == 118
    assert set(t.loc["per front-end, download 100 MB", "median"]) == {1000}
    assert not t.index.str.contains("linear until|network limit, reached|CvmFS|chassis").any(), "nothing to divide by"
    whole = t["over"].eq("front_ends") | t.index.str.startswith("one client")
    assert (t["printed"] == t["median"]).sum() == whole.sum()


def test_measured_rows_are_best_by_the_same_measure():
    found = earlier.table(groups(clients=[1, 4], front_ends=[1, 4], value=[100.0, 200.0]))
    ours = found[found["source"] == "measured"].set_index("measure")
    assert list(ours.index) == ["per client"], "small uploads were not printed per front-end"
    assert (ours["median"].iloc[0], ours["low"].iloc[0], ours["high"].iloc[0]) == pytest.approx((100, 90, 110))
    assert "1 client" in ours["setting"].iloc[0] and set(found["what"]) == {"Uploads"}
    large = {"workload": "get", "object_size_bytes": 10**8, "value": [100.0, 300.0]}
    two = earlier.table(groups(clients=[1, 4], front_ends=[1, 2], **large))
    ours = two[two["source"] == "measured"].set_index("measure")
    assert ours["median"].to_dict() == {"per client": 100, "per front-end": 150, "of the whole system": 300}
    assert set(two[two["measure"] == "of the whole system"]["what"]) == {"Throughput, up or down"}
    assert two[two["measure"] == "per front-end"]["printed"].max() == 1000


@pytest.mark.parametrize(("balance", "each"), [("client", 100), (None, 100), ("round_robin", 50)])
def test_client_of_one_front_end_uses_no_other(balance, each):
    """One client, two front-ends, 100 downloads/s: one front-end had them all, unless the client used both."""
    made = {"workload": "get", "clients": [1, 4], "front_ends": [2, 2], "value": [100.0, 90.0]}
    found = earlier.table(groups(**made, balance=balance))
    ours = found[(found["source"] == "measured") & (found["what"] == "Downloads")].set_index("measure")["median"]
    assert ours.to_dict() == (
        {"per client and per front-end": 100} if each == 100 else {"per client": 100, "per front-end": each}
    )


def test_equal_measures_are_one():
    """One client at one front-end: the same number by all measures, next to what was printed by either."""
    found = earlier.table(groups(workload="get", object_size_bytes=10**8, clients=[1], value=[100.0], few=True))
    whole = found["what"].str.startswith("Throughput")
    assert set(found[~whole]["measure"]) == {"per client and per front-end"}
    found = found[~whole]
    assert list(found["median"]).count(100) == 1 and {1000.0, 125.0} <= set(found["median"])
    tex = latex.earlier(found)
    assert tex.count("textsuperscript{f}") == 2 and "fewer than 10 operations" in tex
    assert "textsuperscript" not in latex.earlier(found.assign(few=False))


def test_other_sizes_have_no_rows():
    assert earlier.table(groups(workload=["stat"])).empty
    assert earlier.table(groups(object_size_bytes=[100_000])).empty, "the printed objects had 4 kB"
    assert earlier.table(pd.DataFrame()).empty
    assert latex.earlier(earlier.table(groups(clients=[1]))).count("published: ") == 5


def test_figure_of_many_systems_fits_a_page():
    one = earlier.table(groups(clients=[1]))
    ours = one[one["source"] == "measured"]
    many = pd.concat([one, *(ours.assign(system=f"system {i}") for i in range(60))], ignore_index=True)
    assert draw.draw(catalogue.FIGURES["earlier"], many).get_figheight() == panels.PAGE


def test_numbers_without_divisor_are_of_the_whole_system():
    t = earlier.printed()
    whole = t[t["over"] == earlier.WHOLE]
    assert list(whole["setting"].str.partition(",")[0]) == ["no-cache", "2 x 10 Gb", "2 x 10 Gb"]
    assert list(whole["median"]) == [4100, 2500, 2500] and list(whole["printed"]) == [4100, 20, 20]
    get = {"workload": "get", "clients": [1, 4], "value": [100.0, 300.0]}
    found = earlier.table(groups(**get, access=["cold", "warm"]))
    cold = found[(found["what"] == earlier.WHAT[earlier.COLD]) & (found["source"] == "measured")]
    assert list(cold["median"]) == [100], "cached data do not count"
    assert earlier.WHAT[earlier.COLD] not in set(earlier.table(groups(**get, access="warm"))["what"])


def test_throughput_per_gigabit_of_link():
    """18 of 20 Gb/s are 112.5 MB/s for each Gbit/s, 350 MB/s over three links of 1 Gb/s 116.7; a full link has 125."""
    t = earlier.printed()
    by_link = t[t["over"] == earlier.LINK].set_index("setting")["median"]
    assert by_link["20 clients, download throughput"] == 112.5
    assert by_link["per front-end, 3 clients x 10 threads, download throughput"] == pytest.approx(350 / 3)
    assert set(by_link[by_link.index.str.contains("network limit")]) == {125}
    assert not by_link.index.str.contains("kB").any()
    rates = groups(workload="get", object_size_bytes=10**8, clients=[1, 4])
    used = rates.assign(link_median_percent=[50.0, 80.0], link_low_percent=[40.0, 76.0], link_high_percent=[60.0, 84.0])
    found = earlier.table(rates, used)
    ours = found[(found["measure"] == "per Gbit/s of link") & (found["source"] == "measured")]
    assert set(ours["what"]) == {"Download", "Throughput, up or down"}
    assert list(ours["median"]) == [100, 100] and list(ours["low"]) == [95, 95] and list(ours["high"]) == [105, 105]
    unknown = used.assign(link_median_percent=float("nan"))
    assert "per Gbit/s of link" not in set(earlier.table(rates, unknown)["measure"]), "not known to the driver"


def of_threads(size: int, **more) -> pd.DataFrame:
    both = [groups(workload=w, object_size_bytes=size, workers=[1, 8, 64], **more) for w in ("put", "get")]
    return pd.concat(both, ignore_index=True)


def hollow(fig) -> list[tuple[list[float], list[float]]]:
    lines = [line for ax in fig.axes for line in ax.lines if line.get_markerfacecolor() == "white"]
    assert all(line.get_linestyle() in ("None", "none", "") for line in lines), "no line joins them"
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in lines if len(line.get_xdata())]


SIZES = [(4000, "4 kB", "files_per_s"), (4096, "4 kB", "files_per_s"), (10**7, "10 MB", "mb_per_s")]


@pytest.mark.parametrize(("size", "printed", "column"), SIZES)
def test_threads_of_2012_are_hollow_in_the_same_axes(size, printed, column):
    fig = draw.draw(catalogue.FIGURES["threads"], of_threads(size))
    found = hollow(fig)
    for operation in ("upload", "download"):
        own = PRINTED[(PRINTED["object_size_printed"] == printed) & (PRINTED["operation"] == operation)]
        assert (list(own["threads"]), list(own[column])) in found, operation
    assert len(found) == 2
    labels = [t.get_text() for t in fig.legends[0].get_texts()]
    theirs = [f"published 2012: {operation} (UDS 1, 1 bucket)" for operation in ("upload", "download")]
    assert [t for t in labels if t.startswith("published 2012")] == theirs
    high = own[column].max() if column == "mb_per_s" else 100
    assert fig.axes[0].get_ylim()[1] >= high and fig.axes[0].get_xlim()[1] >= own["threads"].max()
    caption = catalogue.caption(catalogue.FIGURES["threads"], of_threads(size))
    assert "published in 2012" in caption and "as printed" in caption


def test_other_sizes_and_several_clients_have_no_published_points():
    known = catalogue.FIGURES["threads"]
    for change in ({"size": 10**6}, {"size": 4000, "clients": 2}):
        rows = of_threads(**change)
        assert hollow(draw.draw(known, rows)) == [] and "2012" not in catalogue.caption(known, rows), change
        assert [*throughput.values_of_2012(rows, known.measures[0])] == []


def test_axis_reaches_published_points():
    """Ours end at 4 workers, theirs at 200 threads: the axis has ticks for both."""
    few = groups(object_size_bytes=4000, workers=[1, 2, 4])
    ax = draw.draw(catalogue.FIGURES["threads"], few).axes[0]
    ticks = [round(t) for t in ax.get_xticks()]
    assert ax.get_xscale() == "log" and min(ticks) == 1 and max(ticks) == 200


def test_figure_names_year_and_system():
    table = earlier.table(*whole())
    fig = draw.draw(catalogue.FIGURES["earlier"], table)
    names = [" ".join(t.get_text().split()) for ax in fig.axes for t in ax.get_yticklabels()]
    content = {"published 2013: UDS 1, 5 clients", "published 2015: UDS 2, per front-end"}
    assert content | {"published 2012: UDS 1, one client, 5 buckets", "alpha"} <= set(names)
    assert all(n == "alpha" or n.startswith("published 20") for n in names)
    assert len(fig.axes) == len(table.groupby(["what", "measure"]))
    lines = [line for ax in fig.axes for line in ax.lines if len(line.get_xdata()) > 1]
    assert {line.get_linestyle() for line in lines} <= {"None", "none", ""}, "no line joins points"
    assert figure_earlier.earlier(table.iloc[:0]) is None
