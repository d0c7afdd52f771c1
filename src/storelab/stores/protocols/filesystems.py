"""fsspec file systems for every protocol, for staging and for the engine.

Client processes import this module. Therefore it does not import boto3, and imports the library of a protocol only
when it is needed.
"""

import os
import threading
from collections.abc import Mapping
from functools import cache, partial
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from storelab.stores.protocols import s3_clients, tokens
from storelab.stores.protocols.endpoint import Bucket, Endpoint

# By default, XRootD's client waits ten minutes for a server that refuses connections, and half an hour for an answer.
# All values are in seconds, except for the number of retries.
XROOTD = {
    "ConnectionWindow": 10,
    "ConnectionRetry": 1,
    "StreamErrorWindow": 0,
    "TimeoutResolution": 1,
    "RequestTimeout": 120,
}
_configuration = threading.Lock()  # fsspec's configuration is global in the process
PROTOCOLS = ("s3", "file", "http", "root", "webhdfs")


def path(endpoint: Endpoint, bucket: Bucket, key: str = "") -> str:
    """Return the path of this object in the file system `data(endpoint)`, or of this bucket if the key is empty."""
    name = f"{bucket.name}/{bucket.prefix}{key}" if key or bucket.prefix else bucket.name
    if endpoint.protocol == "s3":
        return name
    if endpoint.protocol == "http":
        return f"{endpoint.url.rstrip('/')}/{name}"
    return f"{base(endpoint)}/{name}".replace("//", "/")


def base(endpoint: Endpoint) -> str:
    """Return the path of the folder that contains the buckets (not for S3 and HTTP)."""
    if endpoint.protocol == "file":
        return endpoint.url.removeprefix("file://")  # a plain path, in which `#` and `%` are not special
    return "/" + urlsplit(endpoint.url).path.strip("/")


def data(endpoint: Endpoint, environ: Mapping[str, str], connections: int, asynchronous: bool = False) -> Any:
    """Return a new file system that transfers data. It does not retry requests.

    `environ` contains AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (S3), or the bearer token (HTTP). `connections` is
    the maximum number of connections.
    """
    common: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    parts = urlsplit(endpoint.url)
    match endpoint.protocol:
        case "s3":
            from s3fs import S3FileSystem

            fs = made(
                S3FileSystem,
                anon=False,
                session=bare_session(),
                key=environ["AWS_ACCESS_KEY_ID"],
                secret=environ["AWS_SECRET_ACCESS_KEY"],
                token=environ.get("AWS_SESSION_TOKEN"),
                endpoint_url=endpoint.url,
                client_kwargs=s3_clients.client_options(endpoint),
                config_kwargs=s3_clients.config_options(endpoint)
                | {"max_pool_connections": connections, "http_session_cls": http_session()},
                asynchronous=asynchronous,
                **common,
            )
            fs.retries = 1  # s3fs retries in addition to botocore
            return fs
        case "http":
            from fsspec.implementations.http import HTTPFileSystem

            async def session(**options: Any) -> Any:
                import aiohttp

                # The deadline of the operation replaces a total time-out. No proxy: the endpoint itself is measured.
                timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=120)
                connector = aiohttp.TCPConnector(
                    limit=connections, ssl=tls_context(endpoint, environ) if parts.scheme == "https" else False
                )
                return aiohttp.ClientSession(
                    connector=connector, timeout=timeout, headers=authorization(endpoint, environ), **options
                )

            return made(HTTPFileSystem, get_client=session, asynchronous=asynchronous, **common)
        case "root":
            from fsspec_xrootd import XRootDFileSystem

            trust(endpoint)
            xrootd_environment()
            # At most one open file: `cat_file` keeps files open for a while, which would make a second read of a file
            # cheaper than the first.
            alone = {"locate_all_sources": False, "filehandle_cache_size": 1}
            fs = made(XRootDFileSystem, hostid=parts.netloc, asynchronous=asynchronous, **alone, **common)
            if parts.scheme == "roots":  # the library always uses root://, silently without TLS
                from XRootD.client import FileSystem

                fs.protocol, fs._myclient = "roots", FileSystem(f"roots://{parts.netloc}")
            return fs
        case "webhdfs":
            from storelab.stores.protocols.webhdfs import WebHDFS

            secure = parts.scheme in ("https", "swebhdfs")
            return made(
                WebHDFS, parts.hostname, parts.port or 9870, connections, user=endpoint.user, use_https=secure, **common
            )
        case "file":
            from fsspec.implementations.local import LocalFileSystem

            return made(LocalFileSystem, **common)
    raise ValueError(endpoint.protocol)


def made(kind: Any, *words: Any, **options: Any) -> Any:
    """Return a file system that ignores the user's configuration of fsspec (conf.json, FSSPEC_…)."""
    from fsspec import config

    with _configuration:
        user = dict(config.conf)
        config.conf.clear()
        try:
            return kind(*words, **options)
        finally:
            config.conf.update(user)


def bare_session() -> Any:
    """Return a session of aiobotocore that ignores the user's settings, and whose clients are strict."""
    from aiobotocore.session import AioSession

    session = AioSession(session_vars=s3_clients.session_variables())
    s3_clients.strict(session)
    return session


@cache
def http_session(once: bool = False) -> type:
    """Return a class of aiobotocore's HTTP session that does not follow redirects, which lead to other servers.

    With `once`, aiohttp does not silently repeat a GET whose idle connection was closed.
    """
    from aiobotocore.httpsession import AIOHTTPSession

    class Direct(AIOHTTPSession):
        async def _get_session(self, proxy_url: str | None) -> Any:
            session = await super()._get_session(proxy_url)
            session._retry_connection = not once
            return SimpleNamespace(request=partial(session.request, allow_redirects=False))

    return Direct


def trust(endpoint: Endpoint) -> None:
    """Set the authority for TLS servers. XRootD's client reads it when it connects for the first time."""
    if endpoint.ca_file:
        os.environ["X509_CERT_FILE"] = endpoint.ca_file


def xrootd_environment() -> None:
    """Set the timeouts of XRootD's client in this process, unless variables `XRD_…` in the environment set them.

    Also switch off the client's fork handler. It waits for all threads of the client, and deadlocks if a thread waits
    for the GIL. It is not needed, because a process that storelab forks only executes another program.
    """
    from XRootD.client.env import EnvPutInt

    for name, value in (XROOTD | {"RunForkHandler": 0}).items():
        if f"XRD_{name.upper()}" not in os.environ:
            EnvPutInt(name, value)


def authorization(endpoint: Endpoint, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the HTTP header with the token; {} if there is no token."""
    token = tokens.bearer(endpoint.token, environ)
    return {"Authorization": f"Bearer {token}"} if token else {}


def tls_context(endpoint: Endpoint, environ: Mapping[str, str] = os.environ) -> Any:
    """Return the TLS context of an endpoint. Raises UserError if the client's certificate cannot be loaded."""
    import ssl

    context = ssl.create_default_context(cafile=endpoint.ca_file)
    if not endpoint.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if endpoint.certificate and environ.get(endpoint.certificate):
        tokens.loaded(context, endpoint.certificate, environ)
    return context
