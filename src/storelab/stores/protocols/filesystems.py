"""fsspec file systems over every protocol that a store speaks, for staging as for the engine.

A client process imports this: no boto3, and each protocol's own library only when it is asked for.
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

# XRootD's client waits ten minutes for a door that refuses connections, and half an hour for an answer. Seconds, but
# for the second.
XROOTD = {
    "ConnectionWindow": 10,
    "ConnectionRetry": 1,
    "StreamErrorWindow": 0,
    "TimeoutResolution": 1,
    "RequestTimeout": 120,
}
_configuration = threading.Lock()  # fsspec's is one of the whole process
PROTOCOLS = ("s3", "file", "http", "root", "webhdfs")


def path(endpoint: Endpoint, bucket: Bucket, key: str = "") -> str:
    """What the file system of `data(endpoint)` calls this object (or, without a key, this bucket)."""
    name = f"{bucket.name}/{bucket.prefix}{key}" if key or bucket.prefix else bucket.name
    if endpoint.protocol == "s3":
        return name
    if endpoint.protocol == "http":
        return f"{endpoint.url.rstrip('/')}/{name}"
    return f"{base(endpoint)}/{name}".replace("//", "/")


def base(endpoint: Endpoint) -> str:
    """What the file system calls the folder that holds the buckets (not for S3 and HTTP)."""
    if endpoint.protocol == "file":
        return endpoint.url.removeprefix("file://")  # no URL to those who named the folder: `#` and `%` mean themselves
    return "/" + urlsplit(endpoint.url).path.strip("/")


def data(endpoint: Endpoint, environ: Mapping[str, str], connections: int, asynchronous: bool = False) -> Any:
    """The file system that moves bytes; `connections` bounds its pool. Not cached: each caller has its own.

    environ: holds AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (S3), or the bearer token (HTTP). s3fs makes no retry.
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
            fs.retries = 1  # s3fs has a loop of its own on top of botocore's
            return fs
        case "http":
            from fsspec.implementations.http import HTTPFileSystem

            async def session(**options: Any) -> Any:
                import aiohttp

                # No time-out of the whole request: a deadline ends it. No proxy: the endpoint is what is measured.
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
            # One open file at most: its `cat_file` would keep files open for a while, and a second read of one be
            # cheaper than the first.
            alone = {"locate_all_sources": False, "filehandle_cache_size": 1}
            fs = made(XRootDFileSystem, hostid=parts.netloc, asynchronous=asynchronous, **alone, **common)
            if parts.scheme == "roots":  # it says root:// to everybody, and would silently do without TLS
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
    """Return a file system that fsspec's configuration of the user (conf.json, FSSPEC_…) does not change."""
    from fsspec import config

    with _configuration:
        user = dict(config.conf)
        config.conf.clear()
        try:
            return kind(*words, **options)
        finally:
            config.conf.update(user)


def bare_session() -> Any:
    """Return a session of aiobotocore that reads nothing of the user, and whose clients are strict."""
    from aiobotocore.session import AioSession

    session = AioSession(session_vars=s3_clients.session_variables())
    s3_clients.strict(session)
    return session


@cache
def http_session(once: bool = False) -> type:
    """Return the HTTP session of aiobotocore, but it follows no redirect: another server would be measured.

    once: without aiohttp's silent second GET where a kept connection turns out closed.
    """
    from aiobotocore.httpsession import AIOHTTPSession

    class Direct(AIOHTTPSession):
        async def _get_session(self, proxy_url: str | None) -> Any:
            session = await super()._get_session(proxy_url)
            session._retry_connection = not once
            return SimpleNamespace(request=partial(session.request, allow_redirects=False))

    return Direct


def trust(endpoint: Endpoint) -> None:
    """Name who vouches for the servers, where they speak TLS: XRootD's client reads it when it meets the first one."""
    if endpoint.ca_file:
        os.environ["X509_CERT_FILE"] = endpoint.ca_file


def xrootd_environment() -> None:
    """What the process's one XRootD client waits for, unless `XRD_…` says otherwise in the environment.

    Its fork handler wants all its threads to stand still, which deadlocks with a thread that waits for Python's lock:
    switched off, as a process that storelab forks does nothing but become another program.
    """
    from XRootD.client.env import EnvPutInt

    for name, value in (XROOTD | {"RunForkHandler": 0}).items():
        if f"XRD_{name.upper()}" not in os.environ:
            EnvPutInt(name, value)


def authorization(endpoint: Endpoint, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The header that bears the token, {} without one."""
    token = tokens.bearer(endpoint.token, environ)
    return {"Authorization": f"Bearer {token}"} if token else {}


def tls_context(endpoint: Endpoint, environ: Mapping[str, str] = os.environ) -> Any:
    """Raises UserError where the client's own certificate cannot be loaded."""
    import ssl

    context = ssl.create_default_context(cafile=endpoint.ca_file)
    if not endpoint.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if endpoint.certificate and environ.get(endpoint.certificate):
        tokens.loaded(context, endpoint.certificate, environ)
    return context
