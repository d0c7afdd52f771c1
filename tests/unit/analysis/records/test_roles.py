"""Faults in records: when an act was undone, and when the store was healthy again."""

import itertools

import pytest
from role_records import KILL, RESTART, T0, act, campaign_of, deletions, ns, run_of, seconds, state, upload

from storelab.analysis.records import roles

S = 10**9


def event(kind, second, done=None, act="", actor="a", **more):
    times = {"time_ns": second * S, "done_ns": (done or second) * S}
    return {"kind": kind, "act": act, "actor": actor, "error": None} | times | more


def test_upgrade_lasts_until_last_daemon_is_healthy():
    upgrades = [event("act", 5, 6, "upgrade"), event("act", 6, 8, "upgrade", "b"), event("undone", 21, 22, "upgrade")]
    run = {"deadline_ns": 20 * S, "events": upgrades}
    assert roles.was_undone(run) and roles.undone_ns(run) == 8 * S, "not if it was undone after the run"
    run["events"] += [event("act", 9, 9, "kill"), event("act", 12, 13, "restart")]
    assert roles.undone_ns(run) == 13 * S


def test_taking_back_an_upgrade_is_not_healing():
    states = ((0, "clean"), (6, "degraded"), (9, "clean"), (22, "degraded"), (24, "clean"))
    seen = [event("state", second, state=name) for second, name in states]

    def healing(act):
        done = [event("act", 5, 7, act), event("undone", 21, 23, act)]
        return roles.healing({"deadline_ns": 20 * S, "events": seen + done})

    assert (healing("upgrade").noticed_ns, healing("upgrade").whole_ns) == (6 * S, 9 * S)
    assert healing("kill").whole_ns == 24 * S


BEFORE, DURING = ("before", 1, 5), ("during", 5, 9.5)
AFTER = [BEFORE, DURING, ("after", 9.5, 20)]
CLEAN = state(0, "clean")
DEGRADED = [CLEAN, KILL, state(7, "degraded"), RESTART]
OTHER = act(5, "kill", actor="osd.1"), act(12, "restart", actor="osd.1")
PHASES = [  # events of a run, the phases of its roles
    ([], [("throughout", 1, 20)]),
    ([CLEAN], [("throughout", 1, 20)]),
    # The store reports nothing: no rebuilding is known.
    ([KILL, RESTART], AFTER),
    ([state(0, "unknown"), KILL, RESTART], AFTER),
    (
        [*DEGRADED, state(10, "recovering"), state(14, "clean")],
        [BEFORE, DURING, ("rebuilding", 9.5, 14), ("after", 14, 20)],
    ),
    # Clean, and again not: until it is for good.
    (
        [*DEGRADED, state(10, "clean"), state(11, "recovering"), state(16, "clean")],
        [BEFORE, DURING, ("rebuilding", 9.5, 16), ("after", 16, 20)],
    ),
    # It made new copies while the actor was down.
    ([CLEAN, KILL, state(6, "degraded"), state(8, "clean"), RESTART], AFTER),
    # It noticed nothing; it noticed after the restart.
    ([CLEAN, KILL, RESTART], AFTER),
    (
        [CLEAN, KILL, RESTART, state(12, "recovering"), state(13, "clean")],
        [BEFORE, DURING, ("rebuilding", 9.5, 13), ("after", 13, 20)],
    ),
    # Never whole; whole after the deadline.
    (DEGRADED, [BEFORE, DURING, ("rebuilding", 9.5, 20)]),
    ([*DEGRADED, state(31, "clean")], [BEFORE, DURING, ("rebuilding", 9.5, 20)]),
    # Never undone, or by storelab when the run was over.
    ([KILL], [BEFORE, ("during", 5, 20)]),
    ([KILL, act(21, "kill", 22, kind="undone")], [BEFORE, ("during", 5, 20)]),
    # Two actors, of which one comes back later; a second harm to one of them.
    ([KILL, OTHER[0], RESTART, OTHER[1]], [BEFORE, ("during", 5, 12), ("after", 12, 20)]),
    ([KILL, act(6, "slow"), RESTART], [BEFORE, ("during", 5, 20)]),
    ([KILL, act(6, "slow"), RESTART, act(11, "heal")], [BEFORE, ("during", 5, 11), ("after", 11, 20)]),
    ([act(5, "hang"), act(8, "resume")], [BEFORE, ("during", 5, 8), ("after", 8, 20)]),
    # A command is over when it is done.
    ([act(5, "command", 7, actor="")], [BEFORE, ("during", 5, 7), ("after", 7, 20)]),
    ([act(0.5, "kill"), act(3, "restart")], [("during", 1, 3), ("after", 3, 20)]),
]


def test_phases_of_a_fault():
    for number, (events, expected) in enumerate(PHASES):
        assert seconds(run_of(*events)) == expected, number


def test_phases_of_roles_that_come_and_go():
    assert seconds(deletions(5, 10)) == [BEFORE, ("during", 5, 10), ("after", 10, 20)]
    assert seconds(deletions(5, 20)) == [BEFORE, ("during", 5, 20)]
    assert seconds(deletions(0, 10)) == [("during", 1, 10), ("after", 10, 20)]
    assert seconds(deletions(0, 20)) == [("throughout", 1, 20)]
    found = seconds(deletions(5, 10, stopped=7))
    assert found == [BEFORE, ("during", 5, 7), ("after", 7, 20)], "there was nothing left to delete"
    found = seconds(deletions(5, 10, stopped=7), {2: 6.9})
    assert found == [BEFORE, ("during", 5, 6.9), ("after", 6.9, 20)], "the process stops after the last deletion"
    assert seconds(deletions(5, 10), {2: 9.9})[1] == ("during", 5, 10), "operations in flight were abandoned at the end"


def test_last_operations_end_a_phase(tmp_path):
    """The client of the deletions had no work left at 6.9 s, and stopped at 7 s; the others worked until the end."""
    rows = [upload(end, client=client) for client, end in ((0, 19.5), (1, 19.9), (2, 6.0), (2, 6.9))]
    campaign = campaign_of(tmp_path, rows, deletions(5, 10, stopped=7))
    assert roles.last_operations(campaign) == {"k": {0: ns(19.5), 1: ns(19.9), 2: ns(6.9)}}
    spans = roles.phase_table(campaign)
    found = spans[spans["cell"] == "during"].set_index("role")["end_ns"].to_dict()
    assert found == {"uploads": ns(6.9), "deletions": ns(6.9)}
    assert spans["end_ns"].max() == ns(20), "operations in flight were abandoned at the deadline"


def test_healing_of_a_store():
    """Check events: whether the store reports, when it noticed the fault, and when it was healthy."""
    cases = [
        ([KILL], (False, None, None)),
        ([CLEAN, KILL, RESTART], (True, None, None)),
        ([CLEAN, KILL, state(6, "degraded"), RESTART, state(14, "clean")], (True, 6, 14)),
        ([CLEAN, KILL, state(5.5, "unknown"), state(6, "down"), RESTART], (True, 6, None)),
        # It was not clean before: only when it was clean is known.
        ([state(0, "recovering"), KILL, state(6, "degraded"), RESTART, state(14, "clean")], (True, None, 14)),
        ([CLEAN, KILL, state(6, "degraded"), state(7, "clean"), state(8, "recovering")], (True, 6, None)),
    ]
    for number, (events, expected) in enumerate(cases):
        how = roles.healing(run_of(*events))
        found = (how.reports_state, *(None if ns is None else (ns - T0) / S for ns in (how.noticed_ns, how.whole_ns)))
        assert found == expected, number


ACT = {"kind": "act", "actor": "osd.0"}


@pytest.mark.parametrize(
    ("acts", "at", "undone"),
    [
        ([("command", 0, 0)], 0, True),  # at the very first nanosecond
        ([("command", 3, 7), ("command", 4, 5)], 7, True),
        ([("command", 3, None)], 3, True),
        ([("kill", 3, 3)], 99, False),
        ([("kill", 3, 3), ("restart", 5, 8)], 8, True),
        ([("hang", 3, 3), ("restart", 5, 8)], 8, True),
        ([("hang", 3, 3), ("heal", 5, 8)], 99, False),
        ([("slow", 3, 3), ("cut", 4, 4), ("heal", 5, 8)], 8, True),
        ([("restart", 5, 8), ("kill", 9, 9)], 99, False),
        ([("upgrade", 3, 6)], 6, True),
    ],
)
def test_when_the_last_harm_was_undone(acts, at, undone):
    events = [ACT | {"act": act, "time_ns": begun, "done_ns": done} for act, begun, done in acts]
    for order in itertools.permutations(events):
        run = {"deadline_ns": 99, "events": [*order]}
        assert (roles.undone_ns(run), roles.was_undone(run)) == (at, undone)


def test_a_run_without_acts():
    for run in ({}, {"events": None}, {"events": [{"kind": "state", "time_ns": 3}]}):
        assert roles.events(run, "act") == [] and roles.faulted_ns(run) is None and roles.was_undone(run)


def test_undo_of_another_actor_is_not_counted():
    events = [ACT | {"act": "kill", "time_ns": 3}, ACT | {"act": "restart", "time_ns": 5, "actor": "osd.1"}]
    assert roles.undone_ns({"deadline_ns": 99, "events": events}) == 99
