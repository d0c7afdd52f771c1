"""recovery.csv: pauses of service, the recovery of a store, and values that the text quotes."""

import numpy as np
import pandas as pd
import pytest
from role_records import BIN, KILL, RESTART, T0, S, act, campaign_of, drawn, of_role, run_of, state, upload
from tex_files import facts
from throughput_rows import spread

from storelab.analysis.latex import roles as latex
from storelab.analysis.tables import roles

NO_PHASES = pd.DataFrame(columns=["key", "role", "phase"])


def longest(rows, low, high, begin, end, width):
    """Return (length, end) of the longest gap between completions of a role that worked from begin to end, of those
    that end in (low, high].
    """
    spans = [(begin, begin), (end, end)]
    for r in (r for r in rows if r["error"] is None):
        first = r["end_ns"] - width + width // r["count"] if r["latency_hist"] else r["end_ns"]
        spans.append((first, r["end_ns"]))
    spans.sort()
    found, last = [], spans[0][1]
    for first, until in spans[1:]:
        if first > last and first <= end and low < first <= high:
            found.append((first - last, first))
        last = max(last, until)
    return max(found)


def test_pauses_of_drawn_operations(tmp_path):
    for binned, width in ((False, BIN), (True, BIN), (True, 2 * BIN)):
        rows, run = drawn(f"pauses {binned}", binned, width)
        rows = [r for r in rows if not T0 + 5.2 * S < r["end_ns"] < T0 + 7.1 * S]
        campaign = campaign_of(tmp_path / f"{binned} {width}", rows, run)
        row, mine = (
            roles.recoveries_of_runs(campaign, NO_PHASES).set_index("role").loc["uploads"],
            of_role(rows, "uploads"),
        )
        length, until = longest(mine, T0 + 5 * S, T0 + 20 * S, T0, T0 + 20 * S, width)
        assert length > 1.6 * S and row["pause_s"] == pytest.approx(length / S), (binned, width)
        assert row["service_s"] == pytest.approx((until - T0) / S - 5)
        assert row["failed_operations"] == sum(r["count"] for r in mine if r["error"] and r["end_ns"] > T0 + 5 * S)


def test_pause_longer_than_before_is_an_interruption(tmp_path):
    """Uploads end each half second before the kill at 5 s; ends after it, and pause, service, never served."""
    cases = [
        (np.arange(5.5, 20.1, 0.5), (0.5, 0, 0)),
        (np.arange(5.9, 20.1, 0.9), (0.9, 0, 0)),  # not even twice as long
        (np.arange(8, 20.1, 0.5), (3, 3, 0)),
        ((5.5, 6), (14, None, 1)),
    ]
    for number, (ends, expected) in enumerate(cases):
        rows = [upload(e) for e in (*np.arange(0.5, 5.1, 0.5), *ends)]
        campaign = campaign_of(tmp_path / str(number), rows, run_of(KILL, RESTART))
        found = roles.recoveries_of_runs(campaign, NO_PHASES).iloc[0]
        known = [None if pd.isna(found[c]) else found[c] for c in ("pause_s", "service_s", "never_served")]
        assert known == [None if v is None else pytest.approx(v) for v in expected], number
        assert found["pause_before_s"] == 0.5


def test_service_counts_from_the_act_that_made_the_pause(tmp_path):
    """Three daemons are upgraded; the pause is after the second, which begins before or after its last operation."""
    acts = [act(at, "upgrade", at + 0.5, actor=f"d.{at}") for at in (5, 12, 16)]
    for number, last in enumerate((11.9, 12.1)):
        ends = [e for e in np.arange(0.1, 20.1, 0.1) if not last + 0.05 < e < 13.95]
        campaign = campaign_of(tmp_path / str(number), [upload(e) for e in ends], run_of(*acts))
        found = roles.recoveries_of_runs(campaign, NO_PHASES).iloc[0]
        assert found["pause_s"] == pytest.approx(14 - last) and found["service_s"] == pytest.approx(2), last
        assert found["operations"] == sum(e > 5 for e in ends)


def test_runs_of_several_roles_count_once():
    one = recovered("killed", 1.0, never_noticed=2, never_whole=1)
    rows = pd.DataFrame([one, one | {"role": "reads"}])
    content = {name: value for name, value, _ in roles.recovery_numbers(rows)}
    assert (content["recovery_never_noticed"], content["recovery_never_whole"], content["recovery_points"]) == (2, 1, 1)


def test_phase_too_short_for_five_operations_has_no_ratio(tmp_path):
    """Ten operations end in 0.2 s of rebuilding, or four; many more while the daemon was away.

    There is no rate of 0.02 s, or of less than one operation.
    """
    events = (state(0, "clean"), KILL, state(6, "degraded"), RESTART, state(9.7, "clean"))
    for apart, known in ((0.02, True), (0.05, False)):
        rows = [upload(e, took=1) for e in np.arange(0.011, 20, apart)]
        found = roles.run_rows(campaign_of(tmp_path / str(apart), rows, run_of(*events))).set_index("phase")
        assert found.loc["rebuilding", "length_s"] == pytest.approx(0.2)
        assert found.loc["during", "rate_over_before_ratio"] == pytest.approx(1, rel=0.02)
        ratios = found.loc["rebuilding", ["rate_over_before_ratio", "latency_p50_over_before_ratio"]]
        assert ratios.notna().all() if known else ratios.isna().all()
    for whole, apart in ((9.52, 0.0005), (9.7, 0.25)):
        rows = [upload(e, took=1) for e in np.arange(0.011, 20, apart)]
        run = run_of(*events[:-1], state(whole, "clean"))
        phases = roles.run_rows(campaign_of(tmp_path / f"{whole}", rows, run))["phase"]
        assert list(phases) == ["before", "during", "after"]


def test_role_that_does_nothing_during_a_fault_has_a_rate(tmp_path):
    """Five operations/s, except one that waits for the end of the fault: 4.5 s of its 5 s are in the phase."""
    ends = [e for e in np.arange(0.2, 20, 0.2) if not 4.95 < e < 9.95]
    rows = [upload(e, took=1) for e in ends] + [upload(10, took=5000)] * 1
    for waits, rate in ((1, 0.9 / 4.5), (0, 0)):
        found = roles.run_rows(campaign_of(tmp_path / str(waits), rows[: len(ends) + waits], run_of(KILL, RESTART)))
        during = found.set_index("phase").loc["during"]
        assert during["operations"] == 0 and during["rate_per_s"] == pytest.approx(rate)
        assert during["rate_over_before_ratio"] == pytest.approx(rate / 5, rel=0.06)


def test_roles_without_good_operations_have_rows(tmp_path):
    """No operation at all, or a failed one: every step and phase is there, with no latency, and without a rate
    where nothing ended.
    """
    points = pd.DataFrame([{"order": 1, "key": "k", "store": "a", "workload": "roles-x", "rep": 1, "state": "ok"}])
    points = points.assign(shared_host=False, duration_s=20.0)
    for failed in (0, 1):
        rows = [upload(3, error="Refused", status=0, bytes=0)] * failed
        campaign = campaign_of(tmp_path / str(failed), rows, run_of(KILL, RESTART))
        found = roles.run_rows(campaign)
        assert list(found["phase"]) == ["before", "during", "after"]
        assert list(found["rate_per_s"].fillna(-1)) == [failed - 1, -1, -1]
        assert found[["latency_p50_ms", "rate_over_before_ratio"]].isna().all(axis=None)
        assert list(found["errors"]) == [failed, 0, 0]
        assert list(found["rate_operations"]) == [failed, 0, 0], "a rate of 0 depends on what failed"
        made = roles.recoveries_of_runs(campaign, found).iloc[0]
        assert (made["never_served"], made["pause_s"], made["failed_operations"]) == (1, 20, 0)
        line = roles.timeline_table(campaign, points)
        assert len(line) == 200 and line["errors"].sum() == failed


# What the text quotes

NEVER = ("never_served", "never_noticed", "never_whole")


def recovered(fault: str | None, pause: float | None, **more) -> dict[str, object]:
    row = {"store": "ceph", "fault": fault, "source": roles.MEASURED, "role": "uploads", "failed_operations": 3}
    for name, value in (("pause", pause), ("whole_after", None), ("noticed", None)):
        row |= spread(name, "s", float("nan") if value is None else value)
    return row | dict.fromkeys(NEVER, 0) | more


def test_text_quotes_longest_pause_and_sums_of_runs():
    rows = [
        recovered("osd-killed", 2.0, never_noticed=2, never_whole=1),
        recovered("osd-hung", 20.0, never_noticed=1, never_whole=4, never_served=1, failed_operations=0),
        recovered("cut", None),
    ]
    content = {name: value for name, value, _ in roles.recovery_numbers(pd.DataFrame(rows))}
    expected = {"groups": 3, "failed": 6, "without_failure": 1, "pause_longest": "20.0 [18.0, 22.0]"}
    expected |= {"never_served": 1, "never_noticed": 3, "never_whole": 5}
    expected |= {"pause_longest_where": "uploads on ceph, osd-hung"}
    assert {name: content[f"recovery_{name}"] for name in expected} == expected
    assert (content["recovery_points"], content["recovery_whole_points"]) == (3, 0)
    assert "recovery_whole_longest" not in content and roles.recovery_numbers(pd.DataFrame()) == []
    assert roles.where(recovered(None, 1.0)) == "uploads on ceph"


def test_text_names_what_was_spared_only_where_there_is_any():
    rows = pd.DataFrame([recovered("cut", 1.0, states_told=1)])
    assert ("recovery_without_failure", 0, "") in roles.recovery_numbers(rows)
    assert not facts(recovery=rows)["recovery_whole_later"]
    rows = rows.assign(failed_operations=0, whole_after_median_s=3.0)
    assert ("recovery_without_failure", 1, "") in roles.recovery_numbers(rows)
    assert facts(recovery=rows)["recovery_whole_later"]


# Headlines


def headline(*rows: dict[str, object]) -> str:
    table = pd.DataFrame([recovered(None, None) | r for r in rows])
    return next(latex.fault_headlines(table)).value


def cost(fault: str, role: str, **more: float) -> dict[str, object]:
    known = {"pause": 0.1, "service": 0.0, "undone": 15.0, "whole_after": 0.5} | more
    row: dict[str, object] = {"fault": fault, "role": role, "n": 1, "operations": 97, "failed_operations": 0}
    row |= {"beyond_redundancy": 0, "versions": None}
    for name in ("pause", "service", "undone", "whole_after"):
        row |= {f"{name}_{part}_s": known[name] for part in ("median", "low", "high")}
    for name in ("degraded", "after", "after_latency_p99"):
        row |= {f"{name}_{part}_ratio": known.get(name, 1.0) for part in ("median", "low", "high")}
    return row


def test_headline_has_each_fault():
    """Reads lose half of their rate while a daemon hangs, uploads are not served; nothing happens after a kill."""
    hung = (cost("hung", "uploads", pause=14.9, degraded=0.01), cost("hung", "reads", pause=2.0, degraded=0.475))
    text = headline(*hung, cost("killed", "reads"))
    assert "no failed operation" in text and "uploads not served until the fault was undone (15~s)" in text
    assert "reads at 47.5" in text and "killed" not in text and "0.500~s after the fault" in text
    failed = cost("killed", "reads", after=0.39, after_latency_p99=2.2) | {"failed_operations": 3, "versions": "1 to 2"}
    text = headline(failed)
    assert (
        "3 failed operations (3" in text
        and "of all from then on)" in text
        and "reads at 39" in text
        and "2.20 times" in text
        and "1 to 2" in text
    )
