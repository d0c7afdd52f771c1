"""Two sides of a comparison with given runs: rows, ratios, corrections and words, computed again here."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from storelab.analysis import compare
from storelab.core.errors import UserError

AXES = [("clients", "int", 1), ("object_size", "size", 4000)]
KEYS = ((1, 4000), (1, 10**7), (2, 4000), (2, 10**7))  # clients and size of the usual points


def plan(*names):
    """Return a plan whose workloads `get` and `put` know these axes."""
    columns = {"size": "object_size_bytes", "int": "clients"}
    declared = [{"name": n, "kind": k, "default": d, "column": columns[k]} for n, k, d in AXES if n in names]
    return {"workloads": {w: {"axes": declared} for w in ("get", "put")}}


def side(name, rows, store=None, axes=("clients", "object_size"), **columns):
    """rows: (store, workload, clients, size, rep, rate); MB/s are the rate times the size."""
    t = pd.DataFrame(rows, columns=["store", "workload", "clients", "object_size_bytes", "rep", "overlap_rate_per_s"])
    t["overlap_throughput_mb_per_s"] = t["overlap_rate_per_s"] * t["object_size_bytes"] / 1e6
    t = t.assign(state="ok", started="2026-01-02T03:04:05Z", **columns)
    t = t.drop(columns=[c for n, c in (("clients", "clients"), ("object_size", "object_size_bytes")) if n not in axes])
    return compare.Side(name, Path(name), plan(*axes), t, store, name)


def runs(scale, seed, store="s", workloads=("get",), clients=(1, 2), sizes=(4000, 10**7), n=5):
    rng = np.random.default_rng(seed)
    return [
        (store, w, c, s, rep, scale * c * rng.uniform(0.9, 1.1))
        for w in workloads
        for c in clients
        for s in sizes
        for rep in range(1, n + 1)
    ]


def test_every_row_of_a_comparison():
    rows_a, rows_b = runs(100, 1), [*runs(120, 2, n=6), *runs(5, 3, clients=(9,), sizes=(4000,))]
    latencies = {"latency_p50_ms": [float(i) for i in range(1, len(rows_b) + 1)]}
    bound = ["link" if c == 2 else None for _, _, c, *_ in rows_a]
    a, keys = side("a", rows_a, latency_p50_ms=[None] * len(rows_a), bound_by=bound), [*KEYS]
    table, alone = compare.compare(a, side("b", rows_b, **latencies))
    assert alone == (0, 1) and list(table["workload"]) == ["get"] * 4 + ["all"]
    assert list(zip(table["clients"][:4], table["object_size_bytes"][:4], strict=True)) == keys
    ps = []
    for row in table[:4].itertuples():
        factor = row.object_size_bytes / 1e6 if row.object_size_bytes >= 10**6 else 1
        assert row.metric == ("throughput" if row.object_size_bytes >= 10**6 else "rate")
        key = (row.clients, row.object_size_bytes)
        x, y = ([r[5] * factor for r in rows if r[2:4] == key] for rows in (rows_a, rows_b))
        assert (row.n_a, row.n_b, row.points) == (5, 6, 1) and (row.store_a, row.store_b) == ("s", "s")
        assert (row.median_a, row.median_b) == pytest.approx((np.median(x), np.median(y)))
        pairs = np.sort(np.log(np.divide.outer(y, x)).ravel())
        assert row.ratio == pytest.approx(math.exp(np.median(pairs)))
        p = stats.mannwhitneyu(y, x, method="exact").pvalue
        assert row.p == pytest.approx(p)
        ps.append(p)
        assert row.verdict == ("faster" if row.low > 1 else "undecided")
        assert row.bound_by == "link" if row.clients == 2 else pd.isna(row.bound_by)
    order = np.argsort(ps)
    corrected = np.empty(4)
    least = 1.0
    for rank in range(3, -1, -1):  # Benjamini and Hochberg, from the largest p on
        least = min(least, ps[order[rank]] * 4 / (rank + 1))
        corrected[order[rank]] = least
    assert list(table["p_corrected"][:4]) == pytest.approx(list(corrected))
    verdicts = [v if c < 0.05 else "undecided" for v, c in zip(table["verdict"], corrected, strict=False)]
    assert list(table["verdict_corrected"][:4]) == verdicts
    whole = table.iloc[4]
    assert whole["metric"] == "speed" and whole["points"] == 4 and (whole["n_a"], whole["n_b"]) == (5, 6)
    logs = [[np.mean([math.log(r[5]) for r in rows if r[2:4] == key]) for key in keys] for rows in (rows_a, rows_b)]
    assert whole["ratio"] == pytest.approx(math.exp(np.mean(np.subtract(logs[1], logs[0]))))
    assert whole["p_corrected"] == whole["p"]


def test_latencies_are_compared_too_and_lower_is_faster():
    rows = runs(100, 1, clients=(1,), sizes=(4000,))
    a = side("a", rows, latency_p50_ms=[10.0, 11, 12, 13, 14], latency_p99_ms=[5.0] * 5)
    b = side("b", rows, latency_p50_ms=[1.0, 2, 3, 4, 5], latency_p99_ms=[6.0] * 5)
    table, _ = compare.compare(a, b)
    assert list(table["metric"]) == ["rate", "latency_p50", "latency_p99", "speed", "latency_p50", "latency_p99"]
    assert list(table["verdict"]) == ["undecided", "faster", "slower"] * 2 and (table["points"] == 1).all()
    assert list(table["median_b"][1:3]) == [3.0, 6.0]
    slower = compare.slower(table)
    assert list(slower["metric"]) == ["latency_p99"] * 2
    assert [len(compare.slower(table, margin)) for margin in (19, 21)] == [2, 0]
    assert len(compare.slower(table, overall=True)) == 1


def test_slower_by_more_than_a_margin():
    rows = [("s", "get", c, 4000, rep, 100.0) for c in (1, 2) for rep in range(1, 6)]
    halved = [(*r[:5], 80.0 if r[2] == 1 else 130.0) for r in rows]
    table, _ = compare.compare(side("a", rows), side("b", halved))
    assert list(compare.slower(table)["clients"].dropna()) == [1]
    assert len(compare.slower(table, 19.9)) == 1 and len(compare.slower(table, 20.1)) == 0
    assert len(compare.slower(table, overall=True)) == 0


def test_missing_axis_has_its_default():
    a = side("a", runs(100, 1, clients=(1, 2), sizes=(4000,)))
    b = side("b", runs(100, 2, clients=(1,), sizes=(4000,)), axes=("object_size",))
    table, alone = compare.compare(a, b)
    assert alone == (1, 0) and list(table["clients"][:1]) == [1]


def test_points_without_counterpart_are_reported():
    with pytest.raises(UserError, match="no comparable point"):
        compare.compare(side("a", runs(1, 1, clients=(1,))), side("b", runs(1, 1, clients=(2,))))


def test_store_selection_is_resolved():
    both = side("both", [*runs(1, 1, "x"), *runs(1, 2, "y")])
    x, z = side("x", runs(1, 3, "x")), side("z", runs(1, 4, "z"))
    named = side("n", runs(1, 1, "x"), "x")
    for a, b, stores in (
        *((both, x, [None, None]), (x, z, ["x", "z"]), (named, both, ["x", "x"]), (both, named, ["x", "x"])),
        *((named, z, ["x", "z"]), (z, named, ["z", "x"])),
    ):
        assert [s.store for s in compare.matched(a, b)] == stores, (a.name, b.name)
    with pytest.raises(UserError, match="no store in common"):
        compare.matched(both, z)
    with pytest.raises(UserError, match="has several stores, but not z"):
        compare.matched(both, side("z", runs(1, 4, "z"), "z"))
    failed = both.points.assign(state=["failed" if s == "y" else "ok" for s in both.points["store"]])
    assert compare.Side("f", Path("f"), both.plan, failed, None, "").stores == ["x"]


def test_store_by_store():
    a, b = (
        side(n, [*runs(100, 1, "x", clients=(1,), sizes=(4000,)), *runs(200, seed, "y", clients=(1,), sizes=(4000,))])
        for n, seed in (("a", 2), ("b", 3))
    )
    table, _ = compare.compare(a, b)
    assert list(table["store_a"][:2]) == list(table["store_b"][:2]) == ["x", "y"] and table["ratio"][0] == 1
    shown = compare.described(table[table["workload"] != "all"])
    assert shown == ["x, get", "y, get"]


def test_words_of_rows():
    rows = [*runs(1, 1, clients=(1, 2), sizes=(4000,)), *runs(1, 1, workloads=("put",), clients=(1,), sizes=(4000,))]
    table, _ = compare.compare(side("a", rows), side("b", rows))
    points = table[table["workload"] != "all"]
    assert compare.described(points) == ["get, 1 client", "get, 2 clients", "put"]
    assert compare.in_common(points) == ["get: 4 kB objects", "put: 1 client, 4 kB objects"]


def test_days():
    rows = runs(1, 1)
    a, b = side("a", rows), side("b", rows)
    assert compare.dates(a) == ("2026-01-02",) and not compare.other_days(a, b)
    later = compare.replace(b, points=b.points.assign(started=["2026-01-03T00:00:00Z"] * 19 + [None]))
    assert compare.dates(later) == ("2026-01-03",) and compare.other_days(a, later) and compare.other_days(later, a)
    assert not compare.other_days(later, compare.replace(a, folder=later.folder)), "one campaign"
    both = compare.replace(b, points=b.points.assign(started=["2026-01-03T00:00:00Z"] * 19 + ["2026-01-02T00:00:00Z"]))
    assert compare.dates(both) == ("2026-01-02", "2026-01-03") and not compare.other_days(a, both)


def test_scatter_of_days_widens_intervals():
    """Three campaigns of other days: the variance of each point's mean logarithm over them, averaged over points."""
    a, b = side("a", runs(100, 1)), side("b", runs(130, 2))
    days = [
        side(f"d{i}", [(*r[:5], r[5] * factor) for r in runs(100, 10 + i)]) for i, factor in enumerate((1.0, 1.2, 0.9))
    ]
    plain, found = compare.compare(a, b)[0], compare.compare(a, b, days)[0]

    def log(s, key):
        t = s.points
        return np.log(t.loc[(t["clients"] == key[0]) & (t["object_size_bytes"] == key[1]), "overlap_rate_per_s"]).mean()

    logs = np.array([[log(d, key) for d in days] for key in KEYS])
    variance = np.var(logs, axis=1, ddof=1).mean()
    for i in range(4):
        reach = stats.t.ppf(0.975, 2) * math.sqrt(2 * variance)
        low = min(plain["low"][i], plain["ratio"][i] * math.exp(-reach))
        high = max(plain["high"][i], plain["ratio"][i] * math.exp(reach))
        assert (found["low"][i], found["high"][i]) == pytest.approx((low, high))
        assert found["ratio"][i] == plain["ratio"][i]
    reach = stats.t.ppf(0.975, 2) * math.sqrt(2 * np.var(logs.mean(0), ddof=1))
    assert found["low"][4] == pytest.approx(min(plain["low"][4], plain["ratio"][4] * math.exp(-reach)))
    t = abs(math.log(plain["ratio"][4])) / math.sqrt(2 * np.var(logs.mean(0), ddof=1))
    assert found["p"][4] == pytest.approx(max(plain["p"][4], 2 * stats.t.sf(t, 2)))


def test_a_side_is_read_by_folder_and_store(tmp_path):
    (tmp_path / "x" / "raw").mkdir(parents=True)
    (tmp_path / "x" / "raw" / "plan.json").write_text("{}")
    for text, store in (("x", None), ("x:s", "s"), (str(tmp_path / "x"), None), (f"{tmp_path / 'x'}:s", "s")):
        assert compare.split(text, lambda: tmp_path) == (tmp_path / "x", store)
    for text in ("y", ":x", ""):
        with pytest.raises(UserError, match="is not a measured campaign"):
            compare.split(text, lambda: tmp_path)
