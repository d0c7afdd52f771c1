"""Rates of few operations: closed forms, an independent sum of fractions, and cases without a rate."""

import math

import duckdb
import numpy as np
import pandas as pd
import pytest
from small_records import AGREED, campaign_of, operations

from storelab.analysis.records import windows

S = 10**9
BEGIN, END = 1.0, 3.5  # seconds of the window


def estimate(operations: list[tuple[float, ...]]) -> tuple[float, int]:
    """Return rate and number of operations. operations: (lane, start, end[, reward]) in seconds."""
    rows = [(lane, start, end, *(more or (1.0,))) for lane, start, end, *more in operations]
    table = pd.DataFrame(rows, columns=["lane", "start_ns", "end_ns", "reward"]).assign(key="k", client=0)
    times = {"overlap_begin_ns": BEGIN, "first_end_ns": END}
    table = table.assign(**times, cut_off=False, unstarted=False)
    table[["start_ns", "end_ns", *times]] = (table[["start_ns", "end_ns", *times]] * S).round().astype("int64")
    con = duckdb.connect()
    con.register("t", table)
    found = windows.closed_loop(con, "SELECT * FROM t", {"reward": "reward"})
    return (found.loc["k", "reward"], found.loc["k", "rate_operations"]) if len(found) else (math.nan, 0)


def loop(lane: int, durations) -> list[tuple[float, float, float]]:
    """Return the operations of one worker from 0 s; the last one starts in the window."""
    ends = np.cumsum(durations)
    return [(lane, end - d, end) for end, d in zip(ends, durations, strict=True) if end - d < END]


def test_constant_times_are_exact_for_any_duration():
    wrong = {}
    for duration in (0.01, 0.3, 0.7, 1.3, 2.4, 2.6, 3.4, 12.0):
        for workers in (1, 4):
            done = [op for lane in range(workers) for op in loop(lane, [duration] * 400)]
            rate, n = estimate(done)
            if rate != pytest.approx(workers / duration, rel=1e-6) or n < workers:
                wrong[duration, workers] = (rate, n)
    assert not wrong


def test_straggler_counts_with_its_own_time():
    """Three workers take 0.5 s, one takes 3 s: 3 / 0.5 + 1 / 3 per second."""
    done = [op for lane in range(3) for op in loop(lane, [0.5] * 9)] + loop(3, [3.0] * 2)
    assert estimate(done)[0] == pytest.approx(6 + 1 / 3)


def test_many_operations_count_by_their_share():
    rng = np.random.default_rng(1)
    done = [op for lane in range(5) for op in loop(lane, rng.gamma(3, 0.05, 400))]
    expected = sum(max(0.0, min(end, END) - max(start, BEGIN)) / (end - start) for _, start, end in done)
    assert estimate(done)[0] == pytest.approx(expected / (END - BEGIN))


def test_failed_operation_takes_time_and_earns_nothing():
    done = [(0, s, s + 0.5, float(s != 1.5)) for s in np.arange(0, 3.5, 0.5)]
    rate, n = estimate(done)
    assert rate == pytest.approx(4 / 2.5) and n == 5


def test_warm_up_counts_only_if_an_operation_lasts_the_window():
    """Two workers take 2.9 s, then 1.5 s. With a third that takes 3.6 s, all operations count."""
    short = loop(0, [2.9, 1.5]) + loop(1, [2.9, 1.5])
    assert estimate(short) == (pytest.approx(2 / 1.5), 2)
    busy, numbers = np.array([4.4, 4.4, 3.6]), np.array([2, 2, 1])
    correction = (1 + np.cov(numbers, busy)[0, 1] / (5 * busy.mean())) / (1 + busy.var(ddof=1) / (12.4 * busy.mean()))
    assert estimate(short + loop(2, [3.6])) == (pytest.approx(3 * 5 / 12.4 * correction), 5)


def test_no_rate_without_an_end_or_time():
    assert math.isnan(estimate([])[0])
    assert math.isnan(estimate([(0, 1.2, 1.2 - 0.4)])[0]), "a clock that was set back"
    assert math.isnan(estimate([(0, 4.0, 5.0)])[0]), "begins after the window"
    assert estimate([(0, 2.0, 2.0)] * 3)[0] == pytest.approx(3 / 2.5), "all at one instant, in the window"


def row(folder, **columns):
    """Return the row of a run of two clients that ends at 10 ns, of which 2 ns are warm-up."""
    n = len(columns["end_ns"])
    ops = {"client": [0] * n, "count": [1] * n, "bytes": [10**6] * n, "error": [None] * n} | columns
    for name in ("start_ns", "end_ns", "intended_ns"):
        ops |= {name: [AGREED + t for t in ops[name]]} if name in ops else {}
    return windows.operations(campaign_of(folder, {"k": {"ops.0": ops}})).loc["k"]


def test_reads_that_end_after_the_window_have_a_rate(tmp_path):
    """Four reads of 1 MB that last from the start until 16 ns, of a window that ends at 10 ns."""
    found = row(tmp_path, start_ns=[0] * 4, end_ns=[16] * 4, worker=[0, 1, 2, 3])
    assert found["overlap_operations"] == 0 and found["rate_operations"] == 4
    assert found["overlap_rate_per_s"] == pytest.approx(4 / 16 * S)
    assert found["overlap_throughput_mb_per_s"] == pytest.approx(4 / 16 * S)
    assert math.isnan(found["first_done_rate_per_s"]) and found["last_done_rate_per_s"] == pytest.approx(4 / 16 * S)


def test_hung_operations_leave_no_rate_and_failed_ones_zero(tmp_path):
    for error, rate in (("Hung", math.nan), ("SlowDown", 0.0)):
        found = row(tmp_path / error, start_ns=[0], end_ns=[16], worker=[0], error=[error])
        assert found["overlap_rate_per_s"] == pytest.approx(rate, nan_ok=True), error


def test_open_loop_counts_starts(tmp_path):
    """Every 2 ns one is due and starts at once; each takes 7 ns."""
    due = [1, 3, 5, 7, 9]
    found = row(tmp_path, start_ns=due, end_ns=[t + 7 for t in due], intended_ns=due, worker=[0] * 5)
    assert found["overlap_rate_per_s"] == pytest.approx(4 / 8 * S) and found["rate_operations"] == 4


def test_starts_of_s5cmd_are_inferred(tmp_path):
    """Check one worker that ends an operation every 2 ns.

    The operation that is cut off at 10 ns started at 9 ns and counts as one half: the mean of 1.8 ns plus the variance
    of 0.16 over the mean, as a whole number.
    """
    found = windows.operations(campaign_of(tmp_path, {"k": {"ops.0": operations(1, 3, 5, 7, 9)}})).loc["k"]
    assert found["overlap_rate_per_s"] == pytest.approx((0.5 + 3 + 1 / 2) / 8 * S)
    assert found["rate_operations"] == 4
