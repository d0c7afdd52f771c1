"""storelab's own programs send the same requests with any environment of the user."""

import pytest
from bucket_server import bucket
from every_client import requests, run, unset
from user_environment import user_environment

from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Endpoint


# boto writes what the others read; `make test` does not install davix.
@pytest.mark.parametrize(
    "programs",
    [("boto", "presigned", "loadgen"), pytest.param(("boto", "davix"), marks=pytest.mark.heavy)],
    ids="-".join,
)
def test_user_settings_change_no_request_of_programs(tmp_path, programs):
    plain = unset(tmp_path / "nothing")
    with bucket() as server, bucket() as elsewhere:
        user = plain | user_environment(tmp_path / "home", elsewhere.url)
        assert run(Endpoint(server.url), plain, *programs) == {}
        expected = requests(server)
        assert expected
        assert run(Endpoint(server.url), environment.explicit(user), *programs) == {}
        assert requests(server) == expected
        assert elsewhere.received == []
