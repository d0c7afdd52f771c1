"""Every client of a store sees the same environment, and one rule decides about proxies."""

import os

import pytest
from bucket_server import bucket
from every_client import requests, run, unset
from user_environment import user_environment

from storelab.core.errors import UserError
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Endpoint

CLIENTS = ("boto", "obstore", "fsspec", "uproot", "s5cmd")
COORDINATOR = ("boto", "fsspec", "s5cmd")  # also run in the user's own environment: staging, checks, clean-up


def test_user_settings_change_no_request(tmp_path):
    """All variables and files are set: each client sends the same requests as without them, to the same server."""
    plain = unset(tmp_path / "nothing")
    with bucket() as server, bucket() as elsewhere:
        user = plain | user_environment(tmp_path / "home", elsewhere.url)
        endpoint = Endpoint(server.url)
        assert run(endpoint, plain, *CLIENTS) == {}
        expected = requests(server)
        assert {one[1] for one in expected} == set(CLIENTS)
        assert run(endpoint, environment.explicit(user), *CLIENTS) == {}
        assert requests(server) == expected
        assert run(endpoint, user, *COORDINATOR) == {}
        assert requests(server) == [one for one in expected if one[1] in COORDINATOR]
        assert elsewhere.received == []


def test_user_settings_would_change_requests(tmp_path):
    """The settings of the test above lead to another server if nothing removes them."""
    with bucket() as server, bucket() as elsewhere:
        user = dict(os.environ) | user_environment(tmp_path, elsewhere.url)
        run(Endpoint(server.url), user, "obstore")
        assert elsewhere.received or not server.objects


def test_user_settings_slow_no_client():
    """PYTHONTRACEMALLOC=25 divided the rate of fsspec by 60; the record was valid, and gave no reason."""
    slow = {"PYTHONTRACEMALLOC", "PYTHONDEVMODE", "PYTHONASYNCIODEBUG", "PYTHONINSPECT", "PYTHONMALLOC"}
    slow |= {"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "TOKIO_WORKER_THREADS", "RUST_LOG", "MALLOC_PERTURB_"}
    kept = {"PYTHONPATH", "PYTHONHOME", "PYTHONUTF8", "PATH", "HOME", "LD_LIBRARY_PATH"}
    assert environment.explicit(dict.fromkeys(slow | kept, "1")).keys() == kept | environment.FILES.keys()


PROXY = "http://user:secret@proxy.test:3128"


def test_rule_for_proxies():
    """All clients follow one rule: only if the store asks for it, never on loopback, and `no_proxy` as usual."""
    lower, upper = {"http_proxy": PROXY}, {"HTTP_PROXY": PROXY}
    for url, environ, expected in (
        ("http://s3.site.test", lower, PROXY),
        ("http://s3.site.test:9000", upper, PROXY),
        ("http://s3.site.test", {"all_proxy": PROXY}, PROXY),
        ("http://s3.site.test", {"http_proxy": "proxy.test:3128"}, "http://proxy.test:3128"),
        ("https://s3.site.test", lower, None),
        ("https://s3.site.test", {"https_proxy": PROXY}, PROXY),
        ("http://s3.site.test", lower | {"no_proxy": ".site.test"}, None),
        ("http://s3.site.test:9000", lower | {"NO_PROXY": "other,s3.site.test"}, None),
        ("http://s3.site.test:9000", lower | {"NO_PROXY": "site.test:9000"}, None),
        ("http://s3.other.test", lower | {"no_proxy": ".site.test"}, PROXY),
        ("http://s3.site.test", lower | {"no_proxy": "*"}, None),
        ("http://127.0.0.1:9000", lower, None),
        ("http://127.1.2.3:9000", lower, None),
        ("http://localhost:9000", lower, None),
        ("http://LOCALHOST:9000", lower, None),
        ("http://[::1]:9000", lower, None),
        ("http://s3.site.test", {}, None),
    ):
        asks, refuses = Endpoint(url, proxy="environment"), Endpoint(url)
        assert environment.proxy(asks, environ) == expected, (url, environ)
        assert environment.proxy(refuses, environ) is None
        hidden = environment.explicit(environ) | environment.kept([asks, refuses], environ)
        assert environment.proxy(asks, hidden) == expected, (url, environ)  # a client finds the same
        assert environment.kept([refuses], environ) == {}
        assert not {"http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"} & hidden.keys()


def test_record_names_proxy_without_password(monkeypatch):
    monkeypatch.setenv("http_proxy", PROXY)
    assert environment.named(Endpoint("http://s3.site.test", proxy="environment")) == "http://proxy.test:3128"
    assert environment.named(Endpoint("http://s3.site.test")) == "none"
    assert environment.named(Endpoint("http://127.0.0.1", proxy="environment")) == "none"


def test_proxy_that_is_none_is_refused():
    for wrong in ("socks5://proxy.test:1080", "http://", "nonsense here", "http://user:secret@a b"):
        with pytest.raises(UserError, match="http_proxy") as refused:
            environment.proxy(Endpoint("http://s3.site.test", proxy="environment"), {"http_proxy": wrong})
        assert "secret" not in str(refused.value)


def test_all_clients_use_the_proxy(tmp_path):
    """The proxy is a server that answers for a host that does not exist; no client asks for that host itself."""
    endpoint = Endpoint("http://s3.site.invalid", proxy="environment")
    plain = unset(tmp_path)
    with bucket() as proxy:
        user = plain | {"http_proxy": proxy.url}
        assert run(endpoint, environment.explicit(user) | environment.kept([endpoint], user), *CLIENTS) == {}
        assert {headers["Host"] for _, _, headers in proxy.received} == {"s3.site.invalid"}
        assert {key.rpartition("/")[2] for _, key, _ in proxy.received} == set(CLIENTS)
        proxy.received.clear()
        failed = run(endpoint, user | {"no_proxy": ".site.invalid"}, *COORDINATOR)
        assert failed.keys() == set(COORDINATOR)
        assert proxy.received == []
