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
