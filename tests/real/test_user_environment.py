"""storelab's own programs send the same requests with any environment of the user."""

from bucket_server import bucket
from every_client import requests, run, unset
from user_environment import user_environment

from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Endpoint

PROGRAMS = ("boto", "presigned", "loadgen", "davix")  # boto writes what two of them read


def test_user_settings_change_no_request_of_programs(tmp_path):
    plain = unset(tmp_path / "nothing")
    with bucket() as server, bucket() as elsewhere:
        user = plain | user_environment(tmp_path / "home", elsewhere.url)
        assert run(Endpoint(server.url), plain, *PROGRAMS) == {}
        expected = requests(server)
        assert run(Endpoint(server.url), environment.explicit(user), *PROGRAMS) == {}
        assert requests(server) == expected
        assert elsewhere.asked == []
