"""How far a fault stands from its effect on the time axis, as benchmarks/roles_events.py counts it."""

import pandas as pd
import pytest
import roles_events


def line(failing, silent):
    """Steps of 100 ms of a run of 2 s: operations in all but the silent ones, errors in the failing ones."""
    steps = range(20)
    columns = {"second": [i / 10 for i in steps], "step_s": 0.1, "errors": [float(i in failing) for i in steps]}
    return pd.DataFrame(columns | {"operations": [0.0 if i in silent else 50.0 for i in steps]})


@pytest.mark.parametrize(
    ("acts", "moments", "exact", "seen"),
    [
        ((0.82, 1.41), [0.82, 1.41], 0.0, 0.0),  # at their moments, within the steps that show it
        ((0.81, 1.41), [0.85, 1.41], 0.04, 0.0),
        ((0.82, 1.41), [0.82, 1.35], 0.06, 0.0),
        ((0.77, 1.41), [0.77, 1.41], 0.0, 0.03),  # told 30 ms before the step of the first error
        ((0.82, 1.35), [0.82, 1.35], 0.0, 0.05),  # opened 50 ms before the step of the first answer
        ((0.93, 1.41), [0.93, 1.41], 0.0, 0.03),  # told after it
    ],
)
def test_distances(acts, moments, exact, seen):
    told = pd.DataFrame({"begin_s": acts})
    found = roles_events.of_run(line({8, 9}, range(9, 14)), told, moments)
    assert found == (pytest.approx(exact), pytest.approx(seen))
