"""Bins of many operations: no operation is lost, and their histograms give quantiles to 2 %."""

import cProfile

import numpy as np
import pyarrow.parquet as pq

from storelab.analysis.statistics import medians
from storelab.analysis.tables import latency
from storelab.core import records
from storelab.engines.common import bins

T0 = 1_760_000_000_000_000_000
S = 10**9


def operations(n: int, seed: int = 1):
    rng = np.random.default_rng(seed)
    start = T0 + np.sort(rng.integers(0, 3 * S, n))
    return start, start + rng.lognormal(np.log(5e6), 1, n).astype(np.int64)


def test_edges_are_at_most_two_percent_apart():
    assert (np.diff(bins.EDGES) * 50 <= bins.EDGES[:-1]).all() and (np.diff(bins.EDGES) * 55 > bins.EDGES[:-1]).all()
    assert bins.EDGES[0] == 1000 and bins.EDGES[-1] >= 10**13


def test_five_million_operations_stay_single():
    assert bins.stay_single(1_250_000, 4) and not bins.stay_single(1_250_001, 4)


def test_bins_lose_nothing(tmp_path):
    start, end = operations(10_000)
    kinds = np.arange(10_000) % 10
    error = ["SlowDown" if k == 0 else None for k in kinds]
    size, status = np.where(kinds == 0, 0, 4000), np.where(kinds == 0, 503, 200).tolist()
    columns = bins.binned(T0, start, end, "GET", error, status, sums={"bytes": size, "requests": 1})
    records.write_table(tmp_path / "ops.0.parquet", records.OPS, columns | {"client": [0] * len(columns["op"])})
    rows = pq.read_table(tmp_path / "ops.0.parquet").to_pylist()
    assert sum(r["count"] for r in rows) == sum(r["requests"] for r in rows) == 10_000
    assert sum(r["bytes"] for r in rows) == size.sum()
    assert sum(r["count"] for r in rows if r["error"]) == 1000
    assert {(r["status"], r["error"]) for r in rows} == {(200, None), (503, "SlowDown")}
    for r in rows:
        assert sum(h["count"] for h in r["latency_hist"]) == r["count"]
        assert r["start_ns"] is None and r["intended_ns"] is None and (r["end_ns"] - T0) % bins.BIN_NS == 0
    for r in rows[:20]:
        inside = (end > r["end_ns"] - bins.BIN_NS) & (end <= r["end_ns"]) & ((kinds == 0) == bool(r["error"]))
        assert r["count"] == inside.sum()


def test_bin_includes_its_end_and_earlier_ones():
    ends = [T0 - 1, T0, T0 + 1, T0 + bins.BIN_NS]
    columns = bins.binned(T0, [T0 - 2 * S] * 4, ends, "PUT", sums={"bytes": [1, 2, 4, 8]})
    assert columns["end_ns"] == [T0, T0 + bins.BIN_NS] and columns["count"] == [2, 2] and columns["bytes"] == [3, 12]


def test_bins_have_the_given_width():
    start, end = operations(5000, seed=3)
    for width in (bins.BIN_NS, 250_000_000, 1_500_000_000):
        columns = bins.binned(T0, start, end, "GET", sums={"bytes": 10}, width_ns=width)
        assert sum(columns["count"]) == 5000 and len(set(columns["end_ns"])) == len(columns["end_ns"]), width
        for at, count in zip(columns["end_ns"], columns["count"], strict=True):
            assert (at - T0) % width == 0 and count == ((end > at - width) & (end <= at)).sum(), width


def test_open_loop_counts_from_intended_start():
    columns = bins.binned(T0, [T0 + S], [T0 + S + 1000], "GET", intended_ns=[T0])
    ((upper, count),) = columns["latency_hist"][0]
    assert count == 1 and S + 1000 <= upper <= 1.02 * (S + 1000)


def test_deletion_of_many_is_one_latency():
    columns = bins.binned(T0, [T0], [T0 + 1000], "DELETE_MULTI", sums={"count": [500]})
    assert columns["count"] == [500] and columns["latency_hist"] == [[(1000, 1)]]


def test_no_operations_make_no_rows(tmp_path):
    columns = bins.binned(T0, [], [], "GET", sums={"bytes": []})
    records.write_table(tmp_path / "ops.0.parquet", records.OPS, columns)
    assert pq.read_table(tmp_path / "ops.0.parquet").num_rows == 0


def test_quantiles_are_within_two_percent():
    for n in (20, 1000, 100_000):
        start, end = operations(n)
        wanted = np.quantile(end - start, latency.LEVELS, method="inverted_cdf")
        counts: dict[int, int] = {}
        for hist in bins.binned(T0, start, end, "GET")["latency_hist"]:
            for upper, count in hist:
                counts[upper] = counts.get(upper, 0) + count
        upper, count = (np.array(v) for v in zip(*sorted(counts.items()), strict=True))
        found = medians.histogram_quantiles(upper, count, latency.LEVELS)
        assert np.abs(found / wanted - 1).max() < 0.02, n


def test_work_grows_with_the_operations():
    """Calls of functions are counted: nothing else on the machine changes their number."""
    calls = {}
    for n in (5_000, 50_000):
        start, end = operations(n)
        profile = cProfile.Profile()
        columns = T0, start, end, ["GET"] * n, [None] * n, [200] * n
        profile.runcall(bins.binned, *columns, sums={"bytes": np.full(n, 4000)})
        calls[n] = sum(entry.callcount for entry in profile.getstats())
    assert calls[50_000] - calls[5_000] <= 10 * 45_000
