"""The failure budget of a campaign: what makes a run invalid."""

from types import SimpleNamespace

import pytest

from storelab.measure.record import budget


@pytest.mark.parametrize(
    ("errors", "operations", "valid"), [(0, 0, True), (1, 99, True), (2, 98, False), (50, 50, False)]
)
def test_a_run_above_the_budget_is_invalid(errors, operations, valid):
    results = [
        {
            "errors": errors,
            "operations": operations,
            "engine": {"errors": {"SlowDown": {"count": errors, "message": "slow\n  down"}}},
        },
        {"errors": 0, "operations": 0, "engine": {}},
    ]
    found = budget(SimpleNamespace(failure_budget=0.01), results)
    assert found["errors"] == errors and found["operations"] == operations
    assert (found["reason"] is None) is valid
    if not valid:
        assert found["reason"] == f"{errors} % of the operations failed, more than failure_budget = 1 %: slow down"


def hung(workers: int, seconds: list[float], operations: int = 10_000, clients: int = 1) -> dict:
    """The budget of clients whose operations hang for so long before the deadline of 10 s, those of the first client."""
    ends = {"t0_ns": 5 * 10**9, "begin_ns": 5 * 10**9, "deadline_ns": 15 * 10**9}
    told = [seconds, *[[]] * (clients - 1)]
    results = [
        {
            "errors": len(s),
            "operations": operations,
            "engine": {"hung": len(s), "hung_s": sum(s), "settings": {"workers": workers}, "errors": {}},
            **ends,
        }
        for s in told
    ]
    return budget(SimpleNamespace(failure_budget=0.01), results)


def test_seven_of_eight_workers_that_hang_are_no_valid_run():
    """7 of 10 007 operations are within the budget; 63 of 80 seconds of the workers are not."""
    found = hung(8, [9.0] * 7)
    assert found["fraction"] < 0.01 and found["hung"] == 7 and found["hung_fraction"] == pytest.approx(63 / 80)
    assert found["reason"] == ("7 operations hung and held 78.8 % of the workers' time, more than failure_budget = 1 %")


def test_what_hangs_just_before_the_deadline_is_an_error_within_the_budget():
    assert hung(8, [0.5])["reason"] is None and hung(8, [0.5])["hung_fraction"] == pytest.approx(0.5 / 80)
    assert hung(8, [0.9])["reason"] and not hung(8, [0.9], clients=2)["reason"], "the time of all clients' workers"


def test_operations_that_hang_are_failed_ones():
    assert hung(100, [0.1] * 3, operations=97)["reason"].startswith("3 % of the operations failed, more than")


def test_an_engine_that_cannot_tell_has_no_number():
    results = [{"errors": 0, "operations": 5, "engine": {"hung": None, "cut_off": 3}}] * 2
    assert budget(SimpleNamespace(failure_budget=0.01), results)["hung"] is None
