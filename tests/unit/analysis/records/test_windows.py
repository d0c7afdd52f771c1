"""Windows of a run: overlap, first and last done, tail and steadiness, from operations at known times."""

import math

import numpy as np
import pytest
from small_records import campaign_of, operations

from campaigns import built
from storelab.analysis.records import campaign, windows
from storelab.core import records

S = 10**9


@pytest.fixture
def row(tmp_path):
    """Return a function that returns the row of a run with operations that end at given times.

    begins, stops: of its clients.
    """

    def made(ends, begins=(0,), stops=(10 * S,), failed=()):
        clients = [
            {"client": i, "start_ns": b, "end_ns": e} for i, (b, e) in enumerate(zip(begins, stops, strict=True))
        ]
        n, errors = len(ends), ["SlowDown" if e in failed else None for e in ends]
        rows = {"client": [0] * n, "op": ["GET"] * n, "count": [1] * n, "bytes": [10**6] * n, "error": errors}
        records.write_table(tmp_path / "raw" / "k" / "ops.0.parquet", records.OPS, rows | {"end_ns": ends})
        run = {"schema": 3, "start_ns": 1, "deadline_ns": 10 * S, "clients": clients, "files": {"ops.0.parquet": {}}}
        run["point"] = {"fixed": {"warm_up_ns": S}, "axes": {"clients": 1}}
        plan = {"points": [], "workloads": {}, "stores": {}}
        return windows.operations(campaign.Campaign(tmp_path, plan, {"k": run}, {})).loc["k"]

    return made


def test_window_and_tail_shorter_than_a_second(row):
    """0.4 s are between the warm-up and the end; the last operation ends 0.3 s later."""
    found = row([S, S + S // 5, S + S // 2, S + 7 * S // 10], begins=(1,), stops=(14 * S // 10,))
    assert found["overlap_length_s"] == pytest.approx(0.4, abs=1e-6) and found["tail_s"] == pytest.approx(0.3)
    assert found["overlap_operations"] == 1


def test_clients_that_do_not_overlap_have_no_window(row):
    found = row([2 * S, 6 * S], begins=(1, 5 * S), stops=(4 * S, 9 * S))
    assert (found["overlap_length_s"], found["overlap_operations"], found["steadiness"]) == (0, 0, "too short")
    assert math.isnan(found["overlap_rate_per_s"]) and math.isnan(found["overlap_throughput_mb_per_s"])
    assert found["first_done_length_s"] == pytest.approx(4) and found["first_done_operations"] == 1
    assert found["tail_s"] == pytest.approx(2), "from the first end to the last operation"


def test_no_tail_where_all_ended_before(row):
    found = row([2 * S, 3 * S])
    assert found["tail_s"] == 0 and found["last_done_length_s"] == pytest.approx(3)
    assert found["last_done_operations"] == 2


def test_good_and_failed_operations_of_each_window(row):
    """The warm-up ends at 1 s, the client at 4 s; each part has another number of each kind."""
    good = [S // 2, 2 * S, 3 * S, 4 * S, 5 * S]
    bad = [S // 4, S // 3, S, 2 * S + 1, 5 * S + 1, 5 * S + 2, 6 * S]
    found = row(good + bad, stops=(4 * S,), failed=bad)
    for kind, counts in {"operations": [3, 4, 5], "errors": [1, 4, 7], "bytes": [3e6, 4e6, 5e6]}.items():
        assert [found[f"{w}_{kind}"] for w in ("overlap", "first_done", "last_done")] == counts, kind
    assert (found["operations"], found["errors"]) == (5, 7)
    assert found["tail_s"] == pytest.approx(2), "failed operations count in the tail"
    assert found["last_done_rate_per_s"] == pytest.approx(5 / 6) and found["first_done_rate_per_s"] == pytest.approx(1)


def test_completions_of_one_point():
    t = windows.completions(campaign.load(built("example")), "alpha/put/clients~0002_rep~001", slices=10)
    assert sorted(t["client"].unique()) == [0, 1] and len(t) == 20
    assert (t["operations_per_s"] * 0.45).sum() == pytest.approx(450 + 400)


def test_number_of_slices_depends_on_window():
    """10 000 operations, and a swing of 8 periods: 40 slices show it; 20 and 10 slices do not."""
    seconds = (np.arange(40) + 0.5) / 40
    swing = 250 * (1 + 0.5 * np.sin(16 * np.pi * seconds + 1))
    assert windows.label(np.full(40, 25), 5) == "steady"
    assert windows.label(swing, 5) == "swinging"
    assert windows.label(swing, 3.9) == "steady", "a slice below a bin of 100 ms"
    assert windows.label(swing, 5, 500) == "swinging" and windows.label(swing, 5, 501) == "steady", "two a slice"
    assert windows.label(np.full(40, 25), 1.9) == windows.label(np.full(40, 49 / 40), 5) == "too short"
    assert windows.label(np.full(40, 10), 5, 81) == "too short" != windows.label(np.full(40, 10), 5, 80)
    assert windows.in_flight({"clients": 3, "workers": 4, "batch": 10, "object_size": 5}) == 120


@pytest.mark.parametrize("ends", [(1,), (-3, 0, 1, 2, 3, 9, 10, 11, 12), (2,), (3,), (10,), (14,), ()])
def test_windows_to_the_nanosecond(tmp_path, ends):
    """Agreed at 0, warm until 2, over at 10 ns: each window holds what ends in (begin, end]."""
    row = windows.operations(campaign_of(tmp_path, {"k": {"ops.0": operations(*ends)}})).loc["k"]
    last = max(ends, default=10)
    for name, begin, end in (("overlap", 2, 10), ("first_done", 0, 10), ("last_done", 0, last)):
        inside = sum(begin < e <= end for e in ends)
        found = [row[f"{name}_{c}"] for c in ("operations", "bytes", "errors")]
        assert found == [inside, 7 * inside, 0], name
        assert [row[f"{name}_{c}_s"] * S for c in ("begin", "end", "length")] == pytest.approx(
            [begin, end, end - begin]
        )
        if name != "overlap":  # whose rate is an estimate: test_rates.py
            rate = inside / (end - begin) * S if inside else math.nan
            assert row[f"{name}_rate_per_s"] == pytest.approx(rate, nan_ok=True)
            assert row[f"{name}_throughput_mb_per_s"] == pytest.approx(7 * rate / 1e6, nan_ok=True)
    assert row["tail_s"] * S == pytest.approx(max(0, last - 10)) and row["operations"] == len(ends)


def test_hung_operation_is_not_the_last_completion(tmp_path):
    row = windows.operations(campaign_of(tmp_path, {"k": {"ops.0": operations(5, 30, errors=(None, "Hung"))}})).loc["k"]
    assert row["last_done_end_s"] * S == pytest.approx(5) and (row["operations"], row["errors"]) == (1, 1)
    row = windows.operations(campaign_of(tmp_path, {"k": {"ops.0": operations(30, errors=("Hung",))}})).loc["k"]
    assert row["last_done_end_s"] * S == pytest.approx(10), "no completion: until the first client's end"


def test_completions_come_in_a_hundred_slices_for_each_client(tmp_path):
    """An operation ends in the middle of each hundredth; one more fails, and the other client has one."""
    ends = [10 * i + 5 for i in range(99)] + [1000]
    ops = operations(*ends, 13, errors=[None] * 100 + ["SlowDown"])
    found = windows.completions(campaign_of(tmp_path, {"k": {"ops.0": ops}}), "k")
    assert len(found) == 100 and found["second"].tolist() == pytest.approx([(10 * i + 5) / S for i in range(100)])
    assert set(found["operations_per_s"].round()) == {1e8} and found["mb_per_s"].tolist() == pytest.approx([700] * 100)
    two = ops | {"client": [0] * 100 + [1], "error": [None] * 101}
    found = windows.completions(campaign_of(tmp_path, {"k": {"ops.0": two}}), "k")
    assert len(found) == 200 and found.groupby("client")["operations_per_s"].sum().to_dict() == {0: 1e10, 1: 1e8}
    many = ops | {"count": [3] * 101}
    found = windows.completions(campaign_of(tmp_path, {"k": {"ops.0": many | {"error": [None] * 101}}}), "k", 10)
    assert found["operations_per_s"].mul(100 / S).round(6).tolist() == [33, *[30] * 9]
    none = windows.completions(campaign_of(tmp_path, {"k": {}}), "k")
    assert none.empty and [*none] == [*found] == ["second", "client", "operations_per_s", "mb_per_s"]
