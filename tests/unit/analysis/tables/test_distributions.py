"""distributions.csv: steps of the monitor in the window, quantiles compared with numpy, histograms; figure, LaTeX."""

import numpy as np
import pandas as pd
import pytest

from storelab.analysis.figures import catalogue, draw, panels
from storelab.analysis.figures import latency as figure
from storelab.analysis.latex import systems as latex
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import resources
from storelab.core import records

S = 10**9
BY = ["store", "workload", "engine", "object_size_bytes", "clients", "workers"]
MB = 10**6


def seen(second: float, what: str, name: str, **more) -> dict:
    return {"host": "h", "what": what, "name": name, "time_ns": int(second * S)} | more


def monitor(interface="eth0") -> list[dict]:
    """Return a sample per second from 0 to 5.

    The client takes 0.5, 0, 1, 1, 1 cores and has 100 to 105 MB. Its host receives 10 MB/s and sends 1 MB/s; another
    interface moves less. A store on another host does not count.
    """
    cpu, rows = np.cumsum([0, 0.5, 0, 1, 1, 1]), []
    for k in range(6):
        rows.append(seen(k, "client", "0", cpu_user_s=cpu[k] / 2, cpu_system_s=cpu[k] / 2, rss_bytes=(100 + k) * MB))
        rows.append(seen(k, "interface", interface, rx_bytes=10 * k * MB, tx_bytes=k * MB))
        rows.append(seen(k, "interface", "eth1", rx_bytes=k, tx_bytes=k))
        rows.append(seen(k, "server", "s3-1", cpu_user_s=9.0 * k, cpu_system_s=0.0, rss_bytes=10**9))
        rows.append(seen(k, "interface", "eth9", rx_bytes=99 * k * MB, tx_bytes=0, host="store"))
    return rows


def op(end_s: float, ms: float, **more) -> dict:
    times = {"start_ns": int(end_s * S - ms * MB), "end_ns": int(end_s * S)}
    return {"client": 0, "op": "GET", "count": 1, "bytes": 1, "status": 200} | times | more


def table(folder, ops=(), watched=(), runs=1, **change) -> pd.DataFrame:
    """Return runs of one point from 0 to 5 s with a warm-up of 1 s."""
    found, rows = {}, []
    for number in range(runs):
        key, files = f"k{number}", {}
        for name, kinds, given in (("ops", records.OPS, ops), ("monitor", records.MONITOR, watched)):
            if given:
                path = folder / "raw" / key / f"{name}.0.parquet"
                records.write_table(path, kinds, {c: [r.get(c) for r in given] for c in kinds})
                files[path.name] = {}
        found[key] = {"schema": 4, "start_ns": 0, "deadline_ns": 5 * S, "files": files}
        found[key] |= {"clients": [{"client": 0, "start_ns": 0}], "point": {"fixed": {"warm_up_ns": S}}}
        rows.append({"store": "alpha", "workload": "get", "engine": "obstore", "object_size_bytes": 4000, "clients": 1})
        rows[-1] |= {"workers": 1, "key": key, "state": "ok"}
    known = Campaign(folder, {"points": [], "workloads": {}, "stores": {}}, found, {})
    return resources.distributions_table(known, pd.DataFrame(rows).assign(**change), BY)


def quantity(found: pd.DataFrame, name: str) -> pd.Series:
    rows = found[found["quantity"] == name]
    assert len(rows) == 1
    return rows.iloc[0]


def test_samples_in_the_window(tmp_path):
    """Steps from 1 s on: CPU 0, 1, 1, 1 cores; memory is that of the samples after the warm-up, 102 to 105 MB."""
    found = table(tmp_path, watched=monitor())
    assert list(found["quantity"]) == ["sent", "received", "cpu", "memory"]
    cpu = quantity(found, "cpu")
    assert (cpu["samples"], cpu["zeros"], cpu["mean"], cpu["least"], cpu["most"]) == (4, 1, 0.75, 0, 1)
    assert (cpu["p5"], cpu["p25"], cpu["p50"]) == (0, 0, pytest.approx(1, rel=0.02)) and cpu["histogram"] == "0:3"
    memory = quantity(found, "memory")
    assert (memory["samples"], memory["mean"], memory["least"], memory["most"]) == (4, 103.5, 102, 105)
    for name, value in (("sent", 1), ("received", 10)):
        row = quantity(found, name)
        assert (row["samples"], row["zeros"], row["least"], row["most"], row["unit"]) == (4, 0, value, value, "MB/s")


def test_loopback_has_both_ends_and_counts_once(tmp_path):
    found = table(tmp_path, watched=monitor("lo"))
    assert list(found["quantity"]) == ["traffic", "cpu", "memory"] and quantity(found, "traffic")["mean"] == 10


def test_times_of_operations_against_numpy(tmp_path):
    """Not those of the warm-up, that failed, that ended after the first client, or whose start is not known."""
    times = np.random.default_rng(3).lognormal(2, 1, 2000)
    ops = [op(1.5 + 3 * i / 2000, t) for i, t in enumerate(times)]
    ops += [op(0.5, 9999), op(3, 9999, error="Timeout"), op(6, 9999), op(3, 9999) | {"start_ns": None}]
    row = quantity(table(tmp_path, ops), "operation_time")
    assert row["samples"] == 2000 and row["mean"] == pytest.approx(times.mean()) and row["unit"] == "ms"
    assert (row["least"], row["most"]) == pytest.approx((times.min(), times.max()), rel=1e-4)
    for name, level in resources.LEVELS.items():
        assert row[name] == pytest.approx(np.quantile(times, level, method="inverted_cdf"), rel=0.02), name
    counts = resources.unpacked(row["histogram"])
    edges = 10.0 ** (np.arange(counts.index.min() - 1, counts.index.max() + 1) / resources.COARSE)
    expected, _ = np.histogram(times, edges)
    assert counts.sum() == 2000
    every = counts.reindex(range(counts.index.min(), counts.index.max() + 1), fill_value=0)
    assert np.abs(every - expected).max() <= 1


def test_open_loop_counts_from_due_time_and_bins_count(tmp_path):
    due = [op(3, 1) | {"intended_ns": int(2.9 * S)}]
    assert quantity(table(tmp_path / "due", due), "operation_time")["mean"] == pytest.approx(100)
    hist = [{"upper_ns": u * MB, "count": n} for u, n in ((1, 5), (10, 2))]
    bins = op(2, 1) | {"start_ns": None, "count": 7, "latency_hist": hist}
    row = quantity(table(tmp_path / "bins", [bins]), "operation_time")
    assert row["samples"] == 7 and row["mean"] == pytest.approx(25 / 7) and row["most"] == 10


def test_valid_runs_of_a_group_are_taken_together(tmp_path):
    both = quantity(table(tmp_path, watched=monitor(), runs=2), "cpu")
    assert (both["n"], both["samples"], both["mean"], both["histogram"]) == (2, 8, 0.75, "0:6")
    assert table(tmp_path / "bad", watched=monitor(), state="invalid").empty
    assert table(tmp_path / "old").empty, "older records without a monitor"


def test_samples_of_zero(tmp_path):
    still = [r | ({"cpu_user_s": 1.0, "cpu_system_s": 1.0} if r["what"] == "client" else {}) for r in monitor()]
    row = quantity(table(tmp_path, watched=still), "cpu")
    assert (row["zeros"], row["p99"], row["most"], row["histogram"]) == (4, 0, 0, "")
    assert resources.unpacked(float("nan")).empty and resources.unpacked("3:2 5:1").to_dict() == {3: 2, 5: 1}


def several(folder) -> pd.DataFrame:
    """Return rows of two engines at 1 and 4 clients; only one of them records times."""
    one = table(folder, [op(2, 5), op(3, 50)], monitor())
    parts = [one.assign(clients=c, engine=e) for c in (1, 4) for e in ("obstore", "s5cmd")]
    rows = pd.concat(parts, ignore_index=True)
    return rows[(rows["engine"] == "obstore") | (rows["quantity"] != "operation_time")]


def test_figure_and_table_show_most_clients(tmp_path):
    rows = several(tmp_path)
    assert set(resources.shown(rows)["clients"]) == {4}
    fig = draw.draw(catalogue.FIGURES["distributions"], rows)
    labels = [ax.get_xlabel().replace("\n", " ") for ax in fig.axes]
    assert labels == [label for q, label in figure.COLUMNS.items() if q[0] not in ("traffic", "memory")]  # flat
    assert fig.axes[0].texts[-1].get_text() == "alpha: download of 4 kB, 4 clients"
    assert [t.get_text() for t in fig.legends[0].get_texts()] == ["obstore", "s5cmd"]
    assert [len(ax.lines) for ax in fig.axes] == [1, 4, 2] and fig.axes[0].get_xscale() == "log"
    heights = [sorted({*line.get_ydata()}) for line in (fig.axes[0].lines[0], fig.axes[2].lines[0])]
    assert heights[0] == [0, 50, 100] and heights[1][:2] == [0, 25], "a quarter of the samples of CPU is zero"
    text = latex.distributions(rows)
    assert "4 clients" in text and "1 client," not in text and text.count("CPU of a client") == 2


def test_panels_report_number_of_omitted_settings(tmp_path):
    one = table(tmp_path, [op(2, 5), op(3, 50)])
    every = [
        one.assign(engine=f"e{i}", store=store, p50=1.0 + i, mean=9.0 - i) for store in ("a", "b") for i in range(4)
    ]
    rows = pd.concat(every, ignore_index=True)
    fig = draw.draw(catalogue.FIGURES["distributions"], rows)
    assert "2 of 8 settings" in fig.axes[0].texts[-1].get_text() and len(fig.axes[0].lines) == 2
    assert {"a, e3", "b, e3"} <= {t.get_text() for t in fig.legends[0].get_texts()}, "the fastest of each system"
    stores = pd.concat([one, one.assign(store="beta", clients=2)], ignore_index=True)
    both = draw.draw(catalogue.FIGURES["distributions"], stores)
    assert [t.get_text() for t in both.legends[0].get_texts()] == ["alpha, obstore", "beta, obstore"]
    assert both.axes[0].texts[-1].get_text() == "download of 4 kB, 1 to 2 clients"
    several_sizes = [one.assign(object_size_bytes=1000 * (i + 1)) for i in range(figure.MAX_LINES + 2)]
    shown = draw.draw(catalogue.FIGURES["distributions"], pd.concat(several_sizes, ignore_index=True))
    assert len(shown.axes) == figure.MAX_LINES
    named = [one.assign(object_size_bytes=1000 * i, engine=f"{'e' * 60}{i}{j}") for i in range(5) for j in range(6)]
    crowded = draw.draw(catalogue.FIGURES["distributions"], pd.concat(named, ignore_index=True))
    assert len(crowded.legends[0].get_texts()) == 30 and crowded.get_figheight() == panels.PAGE
    caption = catalogue.caption(catalogue.FIGURES["distributions"], pd.concat(several_sizes, ignore_index=True))
    assert f"Shown: {figure.MAX_LINES} of {figure.MAX_LINES + 2}" in caption


def test_curves_stay_within_values(tmp_path):
    """Buckets of 6 % would draw 5 and 50 ms at their upper ends; memory of 100 to 105 MB has no panel."""
    rows = table(tmp_path, [op(2, 5), op(3, 50)])
    flat = rows.assign(quantity="memory", unit="MB", least=100.0, most=105.0, histogram="80:1 81:1")
    fig = draw.draw(catalogue.FIGURES["distributions"], pd.concat([rows, flat], ignore_index=True))
    (ax,) = fig.axes
    drawn = [x for x in ax.lines[0].get_xdata() if x > 0]
    assert (min(drawn), max(drawn)) == pytest.approx((5, 50)) and ax.get_xlabel().startswith("Time")


def test_columns_of_panels_have_plain_numbers(tmp_path):
    rows = several(tmp_path)
    larger = rows[rows["quantity"] != "operation_time"].assign(object_size_bytes=10**8)
    fig = draw.draw(catalogue.FIGURES["distributions"], pd.concat([rows, larger], ignore_index=True))
    last = fig.axes[3:]
    assert [t.get_text() for t in last[0].texts][:1] == ["not recorded"] and not last[0].lines and last[1].lines
    assert [ax.xaxis.get_major_formatter()(2000, None) for ax in last] == ["2\u2009000"] * 3
    none = draw.draw(catalogue.FIGURES["distributions"], rows[rows["engine"] == "s5cmd"])
    labels = [ax.get_xlabel().replace("\n", " ") for ax in none.axes]
    assert labels and figure.COLUMNS["operation_time",] not in labels, "a column without records is left out"


def test_samples_that_are_all_zero_are_recorded(tmp_path):
    rows = several(tmp_path)
    idle = rows["quantity"] == "cpu"
    rows.loc[idle, "histogram"] = np.nan
    rows.loc[idle, "zeros"] = rows.loc[idle, "samples"]
    fig = draw.draw(catalogue.FIGURES["distributions"], rows)
    cpu = next(ax for ax in fig.axes if ax.get_xlabel().startswith("CPU"))
    assert [{*line.get_ydata()} for line in cpu.lines] == [{0, 100}] * 2


def test_quantities_have_panels_and_names():
    assert {q for quantities in figure.COLUMNS for q in quantities} == set(resources.UNITS) == set(latex.QUANTITIES)
    empty = pd.DataFrame(columns=[*BY, *resources.DISTRIBUTION_COLUMNS])
    assert draw.draw(catalogue.FIGURES["distributions"], empty) is None


def test_mean_does_not_depend_on_order_of_buckets():
    """A query returns groups in any order, on which a sum of floats depends; tables must be identical to the bit."""
    totals = [0.1 * 3**k for k in range(40)]
    buckets = {"known": True, "bucket": range(40), "samples": 1, "total": totals, "least": 0.1, "most": 1e20}
    buckets = pd.DataFrame(buckets)
    means = {resources.distribution_of_group(buckets.sample(frac=1, random_state=k))["mean"] for k in range(20)}
    assert len(means) == 1
