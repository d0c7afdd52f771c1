"""Operations of roles in phases and in steps of time, compared with plain loops over drawn operations."""

import pandas as pd
import pytest
from role_records import BIN, KILL, MS, RESTART, T0, WIDE, S

from role_records import campaign_of, counted, deletions, drawn, ns, of_role, upload  # isort: skip

from storelab.analysis.records import roles


def in_phases(folder, rows, run=None):
    run = run or deletions(5, 10, KILL, RESTART)
    return roles.in_phases(campaign_of(folder, rows, run)).cells.set_index(["role", "cell"])


@pytest.mark.parametrize("binned, width", [(False, BIN), (True, BIN), (True, WIDE)])
def test_phases_count_what_ends_in_them(tmp_path, binned, width):
    rows, run = drawn(f"phases {binned}", binned, width)
    found = in_phases(tmp_path, rows, run)
    cuts = {"before": (1, 5), "during": (5, 9.5), "after": (9.5, 20)}
    own = {("uploads", name): span for name, span in cuts.items()}
    own |= {("deletions", "during"): (6, 9.5), ("deletions", "after"): (9.5, 10)}  # its own warm-up is cut
    assert set(found.index) == set(own)
    for (role, name), span in own.items():
        low, high = map(ns, span)
        row, mine = found.loc[(role, name)], of_role(rows, role)
        assert (row["operations"], row["bytes"]) == pytest.approx(counted(mine, low, high, True, width)), (role, name)
        assert row["errors"] == pytest.approx(counted(mine, low, high, False, width)[0]), (role, name)
        work = counted(mine, low, high, True, width)[0] if binned else 0
        for r in (r for r in mine if r["error"] is None and r["start_ns"]):
            inside = max(0, min(high, r["end_ns"]) - max(low, r["start_ns"])) / (r["end_ns"] - r["start_ns"])
            work += inside - (binned and low < r["end_ns"] <= high)
        assert (row["work"], row["work_bytes"]) == pytest.approx((work, 1000 * work)), (role, name)
        if not binned:
            took = sorted(r["end_ns"] - r["start_ns"] for r in mine if r["error"] is None and low < r["end_ns"] <= high)
            assert row["latency_p50_ms"] == took[-(-len(took) // 2) - 1] / MS
            assert row["latency_max_ms"] == took[-1] / MS
            assert pd.isna(row["latency_p99_ms"]) == (len(took) < 100)


@pytest.mark.parametrize(
    "binned, step, width",
    [(False, BIN, BIN), pytest.param(True, BIN, BIN, marks=pytest.mark.heavy), (True, S, BIN), (True, S, WIDE)],
)
def test_steps_count_what_ends_in_them(tmp_path, binned, step, width):
    rows, run = drawn(f"steps {binned} {step}", binned, width)
    made = roles.in_steps(campaign_of(tmp_path, rows, run), pd.DataFrame({"key": ["k"], "step_ns": [step]}))
    names = ["operations", "bytes", "errors"]
    found = {place: list(row) for place, row in made.cells.set_index(["role", "cell"])[names].iterrows()}
    assert min(cell for _, cell in found) == 0, "operations that ended before the start are in no step"
    for role in ("uploads", "deletions"):
        mine = of_role(rows, role)
        for cell in range(22 * S // step):
            low, high = T0 + cell * step, T0 + (cell + 1) * step
            good, failed = counted(mine, low, high, True, width), counted(mine, low, high, False, width)[0]
            assert found.get((role, cell), [0, 0, 0]) == pytest.approx([*good, failed]), (role, cell)
    for (role, status), errors in made.statuses.groupby(["role", "status"])["errors"].sum().items():
        mine = [r for r in of_role(rows, role) if r["status"] == status]
        assert errors == pytest.approx(counted(mine, T0, T0 + 30 * S, False, width)[0]), (role, status)


def hung(begun, client=0, due=None, took=None):
    """Return a hung operation, given up at 23 s; in a bin, `took` is the upper end of its latency."""
    row = {"client": client, "op": "PUT", "count": 1, "bytes": 0, "status": None, "end_ns": ns(23), "error": "Hung"}
    row |= {"start_ns": None if took else ns(begun), "intended_ns": None if due is None else ns(due)}
    return row | {"latency_hist": [{"upper_ns": took, "count": 1}] if took else None}


def test_hung_operations_are_longer_than_all_that_ended(tmp_path):
    """Three of eleven uploads hung: one from before the fault, one from during it, one at the end."""
    times = ((2, 5), (3, 7), (6, 10), (7, 20), (8, 30), (8.5, 40), (9, 50), (12, 60))
    made = in_phases(tmp_path, [*(upload(*t) for t in times), hung(4.5, due=4), hung(8), hung(15)])
    before, during, after = (made.loc[("uploads", name)] for name in ("before", "during", "after"))
    assert before["latency_max_ms"] == 7 and pd.isna(before["lower_bounds"]) and not before["hung"] > 0
    # 10 20 30 40 50, then at least 15 s and 19 s: the fourth of seven is p50, the seventh would be p90 of ten or more
    assert during["latency_p50_ms"] == 40 and pd.isna(during["latency_p90_ms"]) and during["hung"] == 2
    assert during["latency_max_ms"] == 19_000 and during["lower_bounds"] == "latency_max"
    # 60 ms, then at least 8 s, 15 s, 19 s: the second of four
    assert (after["latency_p50_ms"], after["hung"], after["not_begun"]) == (8000, 3, 0)
    assert after["lower_bounds"] == "latency_p50, latency_max" and after["operations"] == 1


def test_phase_in_which_all_hung_has_a_row(tmp_path):
    """Hung operations in bins lasted at least as long as the lower end of their bucket."""
    made = in_phases(tmp_path, [hung(7, client=2), hung(0, took=9 * S), hung(0, took=2 * S)])
    assert made["hung"].to_dict() == {
        **{("deletions", "during"): 1, ("deletions", "after"): 1},
        **{("uploads", "after"): 1},  # given up 3 s after the run: one began at 14 s, the other after the run
    }
    assert made.loc[("deletions", "during"), "latency_max_ms"] == 16_000
    assert made["latency_p50_ms"].isna().all(), "one operation has no median"
    assert made.loc[("uploads", "after"), "latency_max_ms"] == pytest.approx(9000 / 1.02)


def test_operations_never_begun_waited_until_their_role_ended(tmp_path):
    """Two uploading clients with 4 operations/s due: each has every second one, half a second apart."""
    run = deletions(5, 10, KILL, RESTART)
    run["roles"] = [run["roles"][0] | {"axes": {"arrival_rate": 4}}, run["roles"][1]]
    run["clients"] = [c | {"engine": {"not_begun": n}} for c, n in zip(run["clients"], (3, 25, None), strict=True)]
    made = in_phases(tmp_path, [upload(12)], run)
    # due at 20, 19.5, 19 s; and at 20, 19.5 … 8 s: 4 of them before 9.5 s (8, 8.5, 9 and not 9.5 itself)
    assert made.loc[("uploads", "during"), "not_begun"] == 3 and made.loc[("uploads", "after"), "not_begun"] == 28 - 2
    assert made.loc[("uploads", "during"), "latency_max_ms"] == 12_000
    assert made.loc[("uploads", "after"), "lower_bounds"] == "latency_p50, latency_p90, latency_max"
    assert not (made.index.get_level_values("cell") == "before").any()


def test_the_longest_of_a_bin_is_the_end_of_its_last_bucket():
    """(upper end in ms, operations): 1000 up to 1 ms, then one of 500 ms; and a cell with a single bucket."""
    first = pd.DataFrame({"upper_ns": [MS, 2 * MS, 500 * MS], "operations": [600, 400, 1]}).assign(cell=0)
    other = pd.DataFrame({"upper_ns": [3 * MS], "operations": [5]}).assign(cell=1)
    found = roles._bucket_operations(pd.concat([first, other]).assign(key="k", role="up"))
    assert found["cell"].tolist() == [0, 1] and found["latency_max_ms"].tolist() == [500, 3]
    assert found.loc[0, "latency_p50_ms"] == pytest.approx(1, rel=0.02) and found.loc[0, "latency_p99_ms"] <= 2
    assert found.loc[0, ["latency_p50_ms", "latency_p90_ms"]].is_monotonic_increasing
    few = found.loc[1, ["latency_p50_ms", "latency_p90_ms", "latency_p99_ms"]].isna().tolist()
    assert few == [False, True, True], "5 operations are enough for a median, not for a tenth"
