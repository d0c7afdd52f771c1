"""Faults in records: when an act was undone, and when the store was whole again."""

from storelab.analysis.records import roles

S = 10**9


def event(kind, second, done=None, act="", actor="a", **more):
    times = {"time_ns": second * S, "done_ns": (done or second) * S}
    return {"kind": kind, "act": act, "actor": actor, "error": None} | times | more


def test_upgrade_lasts_until_last_daemon_is_healthy():
    upgrades = [event("act", 5, 6, "upgrade"), event("act", 6, 8, "upgrade", "b"), event("undone", 21, 22, "upgrade")]
    run = {"deadline_ns": 20 * S, "events": upgrades}
    assert roles.was_undone(run) and roles.undone_ns(run) == 8 * S, "not when it was taken back after the run"
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
