"""What every engine of transfers says of its run."""

from types import SimpleNamespace

import pytest

from storelab.engines.common import error_classes
from storelab.engines.common.transfers import TransferClient


class Silent(TransferClient):
    engine = "silent"

    def prepare(self): ...

    def run(self, start_ns, deadline_ns): ...

    def result(self): ...


@pytest.mark.parametrize(
    ("good", "ok", "said"), [(0, False, "at https://s3: 503 from the store"), (1, True, "503 from the store")]
)
def test_a_run_in_which_nothing_succeeded_fails(good, ok, said):
    one = object.__new__(Silent)
    one.workers, one.samples, one.messages = 2, [(0, 3), (1, 5)], {"SlowDown": "503 from the store"}
    one.job = SimpleNamespace(endpoint=SimpleNamespace(url="https://s3"))
    result = one.outcome({}, good, "1.0", {}, {}, [])
    (check,) = result.checks
    assert (check.name, check.ok, check.detail) == ("something moved", ok, said)
    assert result.connections["max"] == 5


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        (
            {},
            "no operation ended before the deadline at https://s3; check that it answers, or give a longer `duration`",
        ),
        ({"ConnectionRefused": "dial tcp: refused"}, "nobody answers at https://s3: dial tcp: refused"),
        ({"AccessDenied": ""}, "at https://s3: AccessDenied"),
    ],
)
def test_why_nothing_moved_is_told_with_the_endpoint(messages, words):
    one = object.__new__(Silent)
    one.workers, one.samples, one.messages = 2, [], messages
    one.job = SimpleNamespace(endpoint=SimpleNamespace(url="https://s3"))
    (check,) = one.outcome({}, 0, "1.0", {}, {}, []).checks
    assert not check.ok and check.detail == words


def test_what_a_library_says_is_one_line_without_its_debug_text():
    import obstore

    store = obstore.store.S3Store(
        "b",
        endpoint="http://127.0.0.1:9",
        access_key_id="k",
        secret_access_key="s",
        region="x",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    with pytest.raises(Exception) as caught:
        obstore.get(store, "a")
    assert "Debug source" in str(caught.value)
    told = error_classes.said(caught.value)
    assert "\n" not in told and "{" not in told and "source" not in told and "127.0.0.1:9" in told, told
    assert error_classes.said(TimeoutError()) == "TimeoutError, without words"
    assert error_classes.classify(caught.value)[0] == "ConnectionRefused"
