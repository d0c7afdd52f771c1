"""The environment of every process that talks to a store, and the one rule for proxies.

botocore, object_store, s5cmd, fsspec, requests and Go read different variables and files of the user, and interpret
them differently. A client would then measure another server, or send other requests, than the record names. So clients
and staging get an environment without any of them. Each option is passed explicitly. Standard library only: client
processes import it.
"""

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from storelab.core.errors import UserError
from storelab.stores.protocols.endpoint import LOOPBACK, Credentials, Endpoint

FAMILIES = ("AWS_", "BOTO", "S3_", "FSSPEC", "DAVIX_")  # how names of dropped variables begin
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")  # also dropped, in small or capital letters
SINGLE = (
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", "NETRC", "GODEBUG"),
    *("GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GOTRACEBACK"),
    "REQUEST_METHOD",  # Go takes a process with this one for a CGI script
)
RUNTIMES = ("PYTHON", "TOKIO_", "RUST_", "MALLOC_")  # how variables begin that can slow a client down
PYTHON_KEPT = (  # where things are, and how text is written
    *("PYTHONPATH", "PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONSAFEPATH"),
    *("PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "PYTHONIOENCODING"),
)
# Where the libraries would look for files of the user.
FILES = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "FSSPEC_CONFIG_DIR": os.devnull,
    "NETRC": os.devnull,
}
KEPT = "STORELAB_PROXY_"  # and a name of PROXIES: what a client knows of the user's proxies
PROXY = re.compile(r"https?://(?:[^@/\s]*@)?(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?/?")


def explicit(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without the variables that redirect, change or slow down requests. Keys are dropped too."""
    kept = {name: value for name, value in environ.items() if not _dropped(name)}
    return kept | FILES


def _dropped(name: str) -> bool:
    slows = name.startswith(RUNTIMES) and name not in PYTHON_KEPT
    return slows or name.startswith(FAMILIES) or name in SINGLE or name.lower() in (*PROXIES, "ftp_proxy")


def client(environ: Mapping[str, str], endpoint: Endpoint, keys: Credentials | None) -> dict[str, str]:
    """Return the environment of a program for one endpoint: keys, region, CA and proxy are as storelab has them."""
    way = proxy(endpoint, environ)
    ways = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), way) if way else {}
    trust = {"AWS_CA_BUNDLE": endpoint.ca_file} if endpoint.ca_file else {}
    return explicit(environ) | {"AWS_REGION": endpoint.region} | trust | ways | (keys.environ() if keys else {})


def kept(ends: Iterable[Endpoint], environ: Mapping[str, str]) -> dict[str, str]:
    """Return what clients of these endpoints need to apply the rule: nothing, unless one of them may use a proxy."""
    if not any(proxy(end, environ) for end in ends):
        return {}
    return {KEPT + name.upper(): value for name in PROXIES if (value := _user(name, environ))}


def _user(name: str, environ: Mapping[str, str]) -> str:
    """A proxy variable of the user; a client finds it under storelab's own name."""
    return environ.get(KEPT + name.upper()) or environ.get(name) or environ.get(name.upper()) or ""


def proxy(endpoint: Endpoint, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the URL of the proxy that every client of this endpoint uses, or None.

    With `proxy: environment`, `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` decide (a name in `no_proxy`
    stands for its subdomains too). Loopback is never reached through a proxy. The URL may hold a password.

    Raises
    ------
    UserError
        The variable holds no URL of an HTTP proxy.
    """
    parts = urlsplit(endpoint.url)
    if endpoint.proxy != "environment" or LOOPBACK.match(parts.hostname or ""):
        return None
    from urllib.request import proxy_bypass_environment  # slow to import

    if proxy_bypass_environment(parts.netloc.rpartition("@")[2], {"no": _user("no_proxy", environ)}):
        return None
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        if value := _user(name, environ):
            url = value if "://" in value else f"http://{value}"
            if not PROXY.fullmatch(url) or int((re.search(r":(\d+)/?$", url) or ["", "1"])[1]) not in range(1, 65536):
                raise UserError(name, f"{shown(url)!r} is not the URL of an HTTP proxy", "write http://host:port")
            return url
    return None


def shown(url: str) -> str:
    """Return the URL of a proxy without user and password."""
    scheme, _, rest = url.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if scheme else rest.rpartition("@")[2]


def named(endpoint: Endpoint) -> str:
    """Return what the record says of the proxy: `none`, or its URL without user and password."""
    return shown(way) if (way := proxy(endpoint)) else "none"
