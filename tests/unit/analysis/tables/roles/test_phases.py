"""Phases of runs with roles, how a store healed, and what roles did in phases and steps: from records that are made here."""

import random
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from storelab.analysis.records import cells, roles
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables.roles import recovery
from storelab.core import records

S, MS = 10**9, 10**6
T0 = 1_790_000_000 * S
BIN, WIDE = 100 * MS, 700 * MS  # as records have them by themselves, and where the sweep gives `bins`
UPLOADS = {"name": "uploads", "workload": "put", "clients": [0, 1], "begin_ns": T0, "end_ns": T0 + 20 * S}


def act(second, what, done=None, actor="osd.0", kind="act"):
    at = T0 + round(second * S)
    done_ns = at if done is None else T0 + round(done * S)
    return {"kind": kind, "fault": "f", "act": what, "actor": actor, "due_ns": at, "time_ns": at, "done_ns": done_ns}


def state(second, name):
    return {"kind": "state", "time_ns": T0 + round(second * S), "state": name, "detail": ""}


def run_of(*events, told=(UPLOADS,), clients=None):
    clients = clients or [{"client": rank, "end_ns": r["end_ns"]} for r in told for rank in r["clients"]]
    run = {"start_ns": T0, "deadline_ns": T0 + 20 * S, "roles": list(told), "clients": clients, "events": list(events)}
    return run | {"point": {"fixed": {"warm_up_ns": S}}}


def seconds(run):
    return [(p.name, (p.begin_ns - T0) / S, (p.end_ns - T0) / S) for p in roles.phases(run)]


KILL, RESTART = act(5, "kill"), act(9, "restart", 9.5)


@pytest.mark.parametrize(
    "events, expected",
    [
        ([], [("throughout", 1, 20)]),
        ([state(0, "clean")], [("throughout", 1, 20)]),
        # The store says nothing: no rebuilding is known.
        ([KILL, RESTART], [("before", 1, 5), ("during", 5, 9.5), ("after", 9.5, 20)]),
        ([state(0, "unknown"), KILL, RESTART], [("before", 1, 5), ("during", 5, 9.5), ("after", 9.5, 20)]),
        (
            [state(0, "clean"), KILL, state(7, "degraded"), RESTART, state(10, "recovering"), state(14, "clean")],
            [("before", 1, 5), ("during", 5, 9.5), ("rebuilding", 9.5, 14), ("after", 14, 20)],
        ),
        # Clean, and once more not: until it is for good.
        (
            [
                *(state(0, "clean"), KILL, state(7, "degraded"), RESTART),
                *(state(10, "clean"), state(11, "recovering"), state(16, "clean")),
            ],
            [("before", 1, 5), ("during", 5, 9.5), ("rebuilding", 9.5, 16), ("after", 16, 20)],
        ),
        # It made new copies while the actor was down.
        (
            [state(0, "clean"), KILL, state(6, "degraded"), state(8, "clean"), RESTART],
            [("before", 1, 5), ("during", 5, 9.5), ("after", 9.5, 20)],
        ),
        # It noticed nothing.
        ([state(0, "clean"), KILL, RESTART], [("before", 1, 5), ("during", 5, 9.5), ("after", 9.5, 20)]),
        # It noticed after the restart.
        (
            [state(0, "clean"), KILL, RESTART, state(12, "recovering"), state(13, "clean")],
            [("before", 1, 5), ("during", 5, 9.5), ("rebuilding", 9.5, 13), ("after", 13, 20)],
        ),
        # Never whole; whole after the deadline.
        (
            [state(0, "clean"), KILL, state(6, "degraded"), RESTART],
            [("before", 1, 5), ("during", 5, 9.5), ("rebuilding", 9.5, 20)],
        ),
        (
            [state(0, "clean"), KILL, state(6, "degraded"), RESTART, state(31, "clean")],
            [("before", 1, 5), ("during", 5, 9.5), ("rebuilding", 9.5, 20)],
        ),
        # Never undone, or by storelab when the run was over.
        ([KILL], [("before", 1, 5), ("during", 5, 20)]),
        ([KILL, act(21, "kill", 22, kind="undone")], [("before", 1, 5), ("during", 5, 20)]),
        # Two actors; the other one comes back later. A second harm to one of them.
        (
            [KILL, act(5, "kill", actor="osd.1"), RESTART, act(12, "restart", actor="osd.1")],
            [("before", 1, 5), ("during", 5, 12), ("after", 12, 20)],
        ),
        ([KILL, act(6, "slow"), RESTART], [("before", 1, 5), ("during", 5, 20)]),
        ([KILL, act(6, "slow"), RESTART, act(11, "heal")], [("before", 1, 5), ("during", 5, 11), ("after", 11, 20)]),
        ([act(5, "hang"), act(8, "resume")], [("before", 1, 5), ("during", 5, 8), ("after", 8, 20)]),
        # A command is over when it is done; a person's, too.
        ([act(5, "command", 7, actor="")], [("before", 1, 5), ("during", 5, 7), ("after", 7, 20)]),
        ([act(0.5, "kill"), act(3, "restart")], [("during", 1, 3), ("after", 3, 20)]),
    ],
)
def test_phases_of_a_fault(events, expected):
    assert seconds(run_of(*events)) == expected


def deletions(begin, end, stopped=None):
    told = {
        "name": "deletions",
        "workload": "delete",
        "clients": [2],
        "begin_ns": T0 + begin * S,
        "end_ns": T0 + end * S,
    }
    own = [{"client": rank, "end_ns": T0 + 20 * S} for rank in (0, 1)]
    return run_of(told=(UPLOADS, told), clients=[*own, {"client": 2, "end_ns": T0 + (stopped or end) * S}])


def test_phases_of_roles_that_come_and_go():
    assert seconds(deletions(5, 10)) == [("before", 1, 5), ("during", 5, 10), ("after", 10, 20)]
    assert seconds(deletions(5, 20)) == [("before", 1, 5), ("during", 5, 20)]
    assert seconds(deletions(0, 10)) == [("during", 1, 10), ("after", 10, 20)]
    assert seconds(deletions(0, 20)) == [("throughout", 1, 20)]
    assert seconds(deletions(5, 10, stopped=7)) == [("before", 1, 5), ("during", 5, 7), ("after", 7, 20)], (
        "there was nothing left to delete"
    )


@pytest.mark.parametrize(
    "events, expected",
    [
        ([KILL], (False, None, None)),
        ([state(0, "clean"), KILL, RESTART], (True, None, None)),
        ([state(0, "clean"), KILL, state(6, "degraded"), RESTART, state(14, "clean")], (True, 6, 14)),
        ([state(0, "clean"), KILL, state(5.5, "unknown"), state(6, "down"), RESTART], (True, 6, None)),
        # It was not clean before: nobody knows when it noticed; but when it was clean.
        ([state(0, "recovering"), KILL, state(6, "degraded"), RESTART, state(14, "clean")], (True, None, 14)),
        ([state(0, "clean"), KILL, state(6, "degraded"), state(7, "clean"), state(8, "recovering")], (True, 6, None)),
    ],
)
def test_how_a_store_heals(events, expected):
    how = roles.healing(run_of(*events))
    found = (how.tells, *(None if ns is None else (ns - T0) / S for ns in (how.noticed_ns, how.whole_ns)))
    assert found == expected


# Counting, against plain loops


def drawn(seed, binned, width=BIN):
    """(operations, run): some on the edges of phases and steps, some in bins across them, some failed."""
    rng = random.Random(seed)
    edges = [T0, T0 + S, T0 + 5 * S, T0 + round(9.5 * S), T0 + 20 * S]
    rows = []
    at = [e + d for e in edges for d in (-1, 0, 1)] + [rng.randrange(T0 - S, T0 + 21 * S) for _ in range(600)]
    for end in at:
        in_bin, failed = binned and rng.random() < 0.6, rng.random() < 0.2
        end = max(end, T0 + width) if in_bin else end
        count, took = rng.randrange(1, 30) if in_bin else 1, rng.randrange(1, 50) * MS
        rows.append(
            {"client": rng.randrange(3), "op": "PUT", "count": count, "bytes": 0 if failed else 1000 * count}
            | {
                "end_ns": end,
                "start_ns": None if in_bin else end - took,
                "status": rng.choice([500, 503]) if failed else 200,
            }
            | {"error": "Refused" if failed else None}
            | {"latency_hist": [{"upper_ns": took, "count": count}] if in_bin else None}
        )
    run = deletions(5, 10)
    if width != BIN:
        run = run | {"point": run["point"] | {"fixed": run["point"]["fixed"] | {"bin_ns": width}}}
    return rows, run | {"events": [KILL, RESTART]} | RECORD


RECORD = {"schema": 3, "files": {}}


def campaign_of(tmp_path, rows, run):
    for client in range(3):
        columns = {c: [r.get(c) for r in rows if r["client"] == client] for c in records.OPS}
        records.write_table(tmp_path / "raw" / "k" / f"ops.{client}.parquet", records.OPS, columns)
        run = run | {"files": run["files"] | {f"ops.{client}.parquet": {}}}
    having = {"uploads": {}, "deletions": {}}
    plan = {"points": [{"key": "k", "workload": "roles-x"}], "workloads": {"roles-x": {"roles": having, "axes": []}}}
    return Campaign(tmp_path, plan, {"k": run}, {})


def part_of(row, low, high, width):
    if row["latency_hist"]:
        return Fraction(max(0, min(row["end_ns"], high) - max(row["end_ns"] - width, low)), width)
    return Fraction(low < row["end_ns"] <= high)


def of_role(rows, name):
    return [r for r in rows if (r["client"] == 2) == (name == "deletions")]


def counted(rows, low, high, good, width=BIN):
    mine = [(part_of(r, low, high, width), r) for r in rows if (r["error"] is None) == good]
    return float(sum(p * r["count"] for p, r in mine)), float(sum(p * r["bytes"] for p, r in mine))


@pytest.mark.parametrize("binned, width", [(False, BIN), (True, BIN), (True, WIDE)])
def test_phases_count_what_ends_in_them(tmp_path, binned, width):
    rows, run = drawn(f"phases {binned}", binned, width)
    found = cells.in_phases(campaign_of(tmp_path, rows, run)).cells.set_index(["role", "cell"])
    cuts = {"before": (1, 5), "during": (5, 9.5), "after": (9.5, 20)}
    own = {("uploads", name): span for name, span in cuts.items()}
    own |= {("deletions", "during"): (6, 9.5), ("deletions", "after"): (9.5, 10)}  # its own warm-up is cut
    assert set(found.index) == set(own)
    for (role, name), (low, high) in own.items():
        low, high = T0 + round(low * S), T0 + round(high * S)
        row, mine = found.loc[(role, name)], of_role(rows, role)
        assert (row["operations"], row["bytes"]) == pytest.approx(counted(mine, low, high, True, width)), (role, name)
        assert row["errors"] == pytest.approx(counted(mine, low, high, False, width)[0]), (role, name)
        if not binned:
            took = sorted(r["end_ns"] - r["start_ns"] for r in mine if r["error"] is None and low < r["end_ns"] <= high)
            assert row["latency_p50_ms"] == took[-(-len(took) // 2) - 1] / MS
            assert row["latency_max_ms"] == took[-1] / MS
            assert pd.isna(row["latency_p99_ms"]) == (len(took) < 100)


def waiting(role, begun, due=None, took=None):
    """A hung operation, given up at 23 s; in a bin: its latency's upper end."""
    row = {"client": 2 if role == "deletions" else 0, "op": "PUT", "count": 1, "bytes": 0, "status": None}
    begun_ns, end = T0 + round(begun * S), T0 + 23 * S
    row |= {"end_ns": end, "start_ns": begun_ns, "error": "Hung", "latency_hist": None}
    if due is not None:
        row["intended_ns"] = T0 + round(due * S)
    return row | ({"start_ns": None, "latency_hist": [{"upper_ns": took, "count": 1}]} if took else {})


def test_what_hung_is_longer_than_all_that_ended(tmp_path):
    """Three of ten uploads hung: one since before the fault, one during it, one of the end; by hand."""
    run = deletions(5, 10) | {"events": [KILL, RESTART]} | RECORD
    good = {"client": 0, "op": "PUT", "count": 1, "bytes": 10, "status": 200, "error": None, "latency_hist": None}
    ended = [
        good | {"end_ns": T0 + round(at * S), "start_ns": T0 + round(at * S) - took * MS}
        for at, took in ((2, 5), (3, 7), (6, 10), (7, 20), (8, 30), (8.5, 40), (9, 50), (12, 60))
    ]
    rows = [*ended, waiting("uploads", 4.5, due=4), waiting("uploads", 8), waiting("uploads", 15)]
    made = cells.in_phases(campaign_of(tmp_path, rows, run)).cells.set_index(["role", "cell"])
    before, during, after = (made.loc[("uploads", name)] for name in ("before", "during", "after"))
    assert before["latency_max_ms"] == 7 and pd.isna(before["lower_bounds"]) and not before["hung"] > 0
    # 10 20 30 40 50, then at least 15 s and 19 s: the fourth of seven is p50, the seventh would be p90 of ten or more
    assert during["latency_p50_ms"] == 40 and pd.isna(during["latency_p90_ms"]) and during["hung"] == 2
    assert during["latency_max_ms"] == 19_000 and during["lower_bounds"] == "latency_max"
    # 60 ms, then at least 8 s, 15 s, 19 s: the second of four
    assert (after["latency_p50_ms"], after["hung"], after["not_begun"]) == (8000, 3, 0)
    assert after["lower_bounds"] == "latency_p50, latency_max" and after["operations"] == 1


def test_a_phase_in_which_all_hung_has_a_row(tmp_path):
    """And what hung in bins lasted at least as long as its bucket's lower end."""
    run = deletions(5, 10) | {"events": [KILL, RESTART]} | RECORD
    rows = [waiting("deletions", 7), waiting("uploads", 0, took=9 * S), waiting("uploads", 0, took=2 * S)]
    made = cells.in_phases(campaign_of(tmp_path, rows, run)).cells.set_index(["role", "cell"])
    assert {place: row["hung"] for place, row in made.iterrows()} == {
        **{("deletions", "during"): 1, ("deletions", "after"): 1},
        **{("uploads", "after"): 1},  # given up 3 s after the run: that one began at 14 s, the other behind it
    }
    assert made.loc[("deletions", "during"), "latency_max_ms"] == 16_000
    assert made["latency_p50_ms"].isna().all(), "one operation has no median"
    assert made.loc[("uploads", "after"), "latency_max_ms"] == pytest.approx(9000 / 1.02)


def test_what_never_began_waited_until_its_role_ended(tmp_path):
    """Two uploading clients with 4 operations/s due: each has every second one, half a second apart."""
    run = deletions(5, 10) | {"events": [KILL, RESTART]} | RECORD
    run["roles"] = [run["roles"][0] | {"axes": {"arrival_rate": 4}}, run["roles"][1]]
    run["clients"] = [c | {"engine": {"not_begun": n}} for c, n in zip(run["clients"], (3, 25, None), strict=True)]
    good = {"client": 0, "op": "PUT", "count": 1, "bytes": 10, "status": 200, "error": None, "latency_hist": None}
    rows = [good | {"end_ns": T0 + 12 * S, "start_ns": T0 + 12 * S - 5 * MS}]
    made = cells.in_phases(campaign_of(tmp_path, rows, run)).cells.set_index(["role", "cell"])
    # due at 20, 19.5, 19 s; and at 20, 19.5 … 8 s: 4 of them before 9.5 s (8, 8.5, 9 and not 9.5 itself)
    assert made.loc[("uploads", "during"), "not_begun"] == 3 and made.loc[("uploads", "after"), "not_begun"] == 28 - 2
    assert made.loc[("uploads", "during"), "latency_max_ms"] == 12_000
    assert made.loc[("uploads", "after"), "lower_bounds"] == "latency_p50, latency_p90, latency_max"
    assert not (made.index.get_level_values("cell") == "before").any()


@pytest.mark.parametrize(
    "binned, step, width",
    [(False, BIN, BIN), pytest.param(True, BIN, BIN, marks=pytest.mark.heavy), (True, S, BIN), (True, S, WIDE)],
)
def test_steps_count_what_ends_in_them(tmp_path, binned, step, width):
    rows, run = drawn(f"steps {binned} {step}", binned, width)
    steps = pd.DataFrame({"key": ["k"], "step_ns": [step]})
    made = cells.in_steps(campaign_of(tmp_path, rows, run), steps)
    found = made.cells.set_index(["role", "cell"])
    assert found.index.get_level_values("cell").min() == 0, "what ended before the start is in no step"
    for role in ("uploads", "deletions"):
        mine = of_role(rows, role)
        for cell in range(22 * S // step):
            low, high = T0 + cell * step, T0 + (cell + 1) * step
            good, failed = counted(mine, low, high, True, width), counted(mine, low, high, False, width)[0]
            here = (
                found.loc[(role, cell)] if (role, cell) in found.index else {"operations": 0, "bytes": 0, "errors": 0}
            )
            assert (here["operations"], here["bytes"], here["errors"]) == pytest.approx((*good, failed)), (role, cell)
    by_status = made.statuses.groupby(["role", "status"])["errors"].sum()
    for (role, status), errors in by_status.items():
        mine = [r for r in of_role(rows, role) if r["status"] == status]
        assert errors == pytest.approx(counted(mine, T0, T0 + 30 * S, False, width)[0])


def longest(rows, low, high, begin, end, width):
    """(length, from, to) of the longest gap between completions of a role that worked from begin to end, of those that
    lie above `low` and end in (low, high]; by brute force over the completions."""
    spans = [(begin, begin), (end, end)]
    for r in (r for r in rows if r["error"] is None):
        first = r["end_ns"] - width + width // r["count"] if r["latency_hist"] else r["end_ns"]
        spans.append((first, r["end_ns"]))
    spans.sort()
    found, last = [], spans[0][1]
    for first, until in spans[1:]:
        if first > last and first <= end and low < first <= high:
            found.append((first - last, last, first))
        last = max(last, until)
    return max(found)


@pytest.mark.parametrize("binned, width", [(False, BIN), (True, BIN), (True, 2 * BIN)])
def test_pauses_by_brute_force(tmp_path, binned, width):
    rows, run = drawn(f"pauses {binned}", binned, width)
    rows = [r for r in rows if not T0 + 5.2 * S < r["end_ns"] < T0 + 7.1 * S]
    campaign = campaign_of(tmp_path, rows, run)
    found = recovery.of_runs(campaign, pd.DataFrame(columns=["key", "role", "phase"])).set_index("role")
    row, mine = found.loc["uploads"], of_role(rows, "uploads")
    length, _, until = longest(mine, T0 + 5 * S, T0 + 20 * S, T0, T0 + 20 * S, width)
    assert length > 1.6 * S and row["pause_s"] == pytest.approx(length / S)
    assert row["service_s"] == pytest.approx((until - T0) / S - 5)
    assert row["failed_operations"] == sum(r["count"] for r in mine if r["error"] and r["end_ns"] > T0 + 5 * S)


def test_no_pause_is_an_interruption_that_was_there_before(tmp_path):
    """Every half second an operation: the same after the fault is no interruption; three seconds are; to the end: never."""

    def found(*ends):
        rows = [
            {"client": 0, "op": "PUT", "count": 1, "bytes": 1, "end_ns": T0 + round(e * S), "start_ns": T0}
            | {"status": 200, "error": None, "latency_hist": None}
            for e in ends
        ]
        run = run_of(KILL, RESTART) | RECORD
        made = campaign_of(tmp_path, rows, run)
        return recovery.of_runs(made, pd.DataFrame(columns=["key", "role", "phase"])).iloc[0]

    always = found(*np.arange(0.5, 20.1, 0.5))
    assert (always["pause_s"], always["pause_before_s"], always["service_s"], always["never_served"]) == (
        0.5,
        0.5,
        0,
        0,
    )
    slower = found(*np.arange(0.5, 5.1, 0.5), *np.arange(5.9, 20.1, 0.9))
    assert (slower["pause_s"], slower["service_s"]) == (pytest.approx(0.9), 0), "not even twice as long"
    stopped = found(*np.arange(0.5, 5.1, 0.5), *np.arange(8, 20.1, 0.5))
    assert (stopped["pause_s"], stopped["service_s"], stopped["never_served"]) == (3, 3, 0)
    ended = found(*np.arange(0.5, 6.1, 0.5))
    assert (ended["pause_s"], ended["never_served"]) == (14, 1) and np.isnan(ended["service_s"])


@pytest.mark.parametrize("apart, tells", [(0.02, True), (0.05, False)])
def test_a_ratio_of_a_phase_too_short_for_five_operations_is_none(tmp_path, apart, tells):
    """Of rebuilding for 0.2 s: ten operations would have ended in it, or four. While the daemon was away, nine times as many."""
    from storelab.analysis.tables import roles as table

    events = (state(0, "clean"), KILL, state(6, "degraded"), RESTART, state(9.7, "clean"))
    rows = [
        {
            "client": 0,
            "op": "PUT",
            "count": 1,
            "bytes": 1,
            "end_ns": T0 + round(e * S),
            "start_ns": T0 + round(e * S) - MS,
        }
        | {"status": 200, "error": None, "latency_hist": None}
        for e in np.arange(0.011, 20, apart)
    ]
    found = table.of_runs(campaign_of(tmp_path, rows, run_of(*events) | RECORD)).set_index("phase")
    assert found.loc["rebuilding", "length_s"] == pytest.approx(0.2)
    assert found.loc["during", "rate_over_before_ratio"] == pytest.approx(1, rel=0.02)
    ratios = found.loc["rebuilding", ["rate_over_before_ratio", "latency_p50_over_before_ratio"]]
    assert ratios.notna().all() if tells else ratios.isna().all()


@pytest.mark.parametrize("error", [None, "Refused"])
def test_roles_that_do_nothing_well(tmp_path, error):
    """No operation at all, or none that succeeded: every step and phase is there, with a rate of 0 and no latency."""
    from storelab.analysis.tables import build
    from storelab.analysis.tables import roles as table

    row = {"client": 0, "op": "PUT", "count": 1, "bytes": 0, "end_ns": T0 + 3 * S, "start_ns": T0, "status": 0}
    campaign = campaign_of(tmp_path, [row | {"error": error}] if error else [], run_of(KILL, RESTART) | RECORD)
    found = table.of_runs(campaign)
    assert list(found["phase"]) == ["before", "during", "after"] and set(found["rate_per_s"]) == {0}
    assert found[["latency_p50_ms", "rate_over_before_ratio"]].isna().all(axis=None)
    assert list(found["errors"]) == ([1, 0, 0] if error else [0, 0, 0])
    made = recovery.of_runs(campaign, found).iloc[0]
    assert made["never_served"] == 1 and made["pause_s"] == 20 and made["failed_operations"] == 0
    points = pd.DataFrame([{"order": 1, "key": "k", "store": "a", "workload": "roles-x", "rep": 1, "state": "ok"}])
    points = points.assign(shared_host=False, duration_s=20.0)
    line = build.TABLE.make("timeline", {"campaign": campaign, "points": points})
    assert len(line) == 200 and line["errors"].sum() == (1 if error else 0)
