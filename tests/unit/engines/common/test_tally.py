"""Sums of selection reads, and the checks that they pass."""

from storelab.engines.common.tally import Done, Tally
from storelab.engines.common.wire import Counts

DONE = Done(5, 7, 60, 100, 3, 120, 1, 2, 4, 5, 6)


def test_read_must_send_what_was_planned():
    for spent, requests, wrong in (
        (Counts(3, 120, 120, 150), 0, 0),
        (Counts(4, 120, 120, 150), 1, 0),
        (Counts(3, 121, 120, 150), 0, 1),  # more was asked for
        (Counts(3, 120, 119, 150), 0, 1),  # not answered in full
        (Counts(3, 120, 120, 120), 0, 1),  # no header came
        (Counts(3, 120, 120, None), 0, 0),  # the kernel does not count
        (Counts(0, 120, 120, 0), 1, 0),  # nothing was sent
        (Counts(3, 121, 121, 150), 0, 1),  # other than planned
    ):
        tally = Tally(baskets=1, entries=2, verify_ns=3)
        tally.add(spent, DONE)
        assert tally == Tally(8, 62, 7, requests, wrong), spent


def by_name(checks):
    return {c.name: c for c in checks}


def failed(checks):
    return {c.name for c in checks if not c.ok}


def test_checks_name_what_is_wrong():
    tally = Tally(baskets=8, entries=62)
    good = by_name(tally.checks(4, [], {}, 0, True))
    assert not failed(good.values()) and good["reads"].detail == "4 completed, 0 failed"
    assert good["crc32"].detail.startswith("8 baskets") and good["entries decoded"].detail.startswith("62 ")
    unopened = by_name(tally.checks(4, [], {}, 0, False))["side-car"]
    assert unopened.ok and unopened.detail != good["side-car"].detail
    assert failed(tally.checks(0, [], {}, 0, True)) == {"reads"}
    kinds = {"ChecksumMismatch": "crc32", "SideCarMismatch": "side-car", "EntriesMismatch": "entries decoded"}
    for kind, name in kinds.items():
        checks = tally.checks(4, [kind, "Other"], {kind: "words", "Other": "x"}, 2, True)
        assert failed(checks) == {name} and "words" in by_name(checks)[name].detail
        assert checks[0].detail.startswith("4 completed, 2 failed, 2 ") and f"{kind}: words" in checks[0].detail
    for field, name in (("wrong_requests", "requests"), ("wrong_bytes", "bytes")):
        checks = Tally(**{field: 1}).checks(4, [], {}, 0, True)
        assert failed(checks) == {name} and by_name(checks)[name].detail.startswith("1 of 4 ")
