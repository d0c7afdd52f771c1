"""What every engine of transfers says of its run."""

import pytest

from storelab.engines.common.transfers import TransferClient


class Silent(TransferClient):
    engine = "silent"

    def prepare(self): ...

    def run(self, start_ns, deadline_ns): ...

    def result(self): ...


@pytest.mark.parametrize(("good", "ok", "said"), [(0, False, "503 from the store"), (1, True, "503 from the store")])
def test_a_run_in_which_nothing_succeeded_fails(good, ok, said):
    one = object.__new__(Silent)
    one.workers, one.samples, one.messages = 2, [(0, 3), (1, 5)], {"SlowDown": said}
    result = one.outcome({}, good, "1.0", {}, {}, [])
    (check,) = result.checks
    assert (check.name, check.ok, check.detail) == ("something moved", ok, said)
    assert result.connections["max"] == 5
