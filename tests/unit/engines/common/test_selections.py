"""What selection reads decide without a store."""

from storelab.engines.common.selections import allowed_s


def test_the_grace_is_a_fifth_of_the_duration_and_at_least_five_seconds():
    assert [allowed_s(s) for s in (1.0, 25.0, 60.0)] == [6.0, 30.0, 72.0]
