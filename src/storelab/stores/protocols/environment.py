"""The environment of every process that accesses a store, and the rule for proxies.

botocore, object_store, s5cmd, fsspec, requests and Go read different variables and files of the user, and interpret
them differently. A client could then measure another server, or send other requests, than the record shows. Therefore
clients and staging get an environment without these variables, and each option is passed explicitly. This module uses
only the standard library, because client processes import it.
"""

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from storelab.core.errors import UserError
from storelab.stores.protocols.endpoint import LOOPBACK, Credentials, Endpoint

FAMILIES = ("AWS_", "BOTO", "S3_", "FSSPEC", "DAVIX_")  # prefixes of the names of dropped variables
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")  # also dropped, in lower case and upper case
SINGLE = (
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", "NETRC", "GODEBUG"),
    *("GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GOTRACEBACK"),
    "REQUEST_METHOD",  # Go treats a process with this variable as a CGI script
)
RUNTIMES = ("PYTHON", "TOKIO_", "RUST_", "MALLOC_")  # prefixes of variables that can slow a client down
PYTHON_KEPT = (  # variables that are not dropped: paths, and the encoding of text
    *("PYTHONPATH", "PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONSAFEPATH"),
    *("PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "PYTHONIOENCODING"),
)
# Variables that name files of the user, which the libraries would read.
FILES = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "FSSPEC_CONFIG_DIR": os.devnull,
    "NETRC": os.devnull,
}
KEPT = "STORELAB_PROXY_"  # with this prefix, the variables in PROXIES pass the user's proxies to clients
PROXY = re.compile(r"https?://(?:[^@/\s]*@)?(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?/?")


def explicit(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without the variables that redirect, change or slow down requests, and without keys."""
    kept = {name: value for name, value in environ.items() if not _dropped(name)}
    return kept | FILES


def _dropped(name: str) -> bool:
    slows = name.startswith(RUNTIMES) and name not in PYTHON_KEPT
    return slows or name.startswith(FAMILIES) or name in SINGLE or name.lower() in (*PROXIES, "ftp_proxy")


def client(environ: Mapping[str, str], endpoint: Endpoint, keys: Credentials | None) -> dict[str, str]:
    """Return the environment of a program for one endpoint, with storelab's keys, region, CA and proxy."""
    way = proxy(endpoint, environ)
    ways = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), way) if way else {}
    trust = {"AWS_CA_BUNDLE": endpoint.ca_file} if endpoint.ca_file else {}
    return explicit(environ) | {"AWS_REGION": endpoint.region} | trust | ways | (keys.environ() if keys else {})


def kept(ends: Iterable[Endpoint], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the user's proxies for clients of these endpoints; {} if none of them uses a proxy."""
    if not any(proxy(end, environ) for end in ends):
        return {}
    return {KEPT + name.upper(): value for name in PROXIES if (value := _user(name, environ))}


def _user(name: str, environ: Mapping[str, str]) -> str:
    """Return the value of a proxy variable of the user. In clients, it has the prefix KEPT."""
    return environ.get(KEPT + name.upper()) or environ.get(name) or environ.get(name.upper()) or ""


def proxy(endpoint: Endpoint, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the URL of the proxy that every client of this endpoint uses, or None.

    With `proxy: environment`, `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` decide; a name in `no_proxy`
    includes its subdomains. Loopback addresses never use a proxy. The URL can contain a password.

    Raises
    ------
    UserError
        The variable is not the URL of an HTTP proxy.
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
    """Return the text for the record: `none`, or the proxy's URL without user and password."""
    return shown(way) if (way := proxy(endpoint)) else "none"
