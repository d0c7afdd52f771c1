"""boto3 clients for one front-end: nothing from the user's AWS files, no retries unless asked for."""

import threading
from base64 import b64encode
from hashlib import md5
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
import urllib3
from botocore.config import Config

from storelab.core.errors import UserError
from storelab.stores.protocols import botocore_options
from storelab.stores.protocols.endpoint import Credentials, Endpoint

if TYPE_CHECKING:
    from storelab.stores.base import Store

_session_lock = threading.Lock()
_session: boto3.session.Session | None = None


def _bare_session() -> boto3.session.Session:
    """Return the session that reads no variable, profile or file of the user: everything is passed explicitly.

    Call under the lock.
    """
    global _session
    if _session is None:
        core = botocore.session.Session(botocore_options.session_variables())
        botocore_options.strict(core)
        _session = boto3.session.Session(botocore_session=core)
    return _session


def client(
    endpoint: Endpoint,
    credentials: Credentials,
    *,
    attempts: int = 1,
    max_pool_connections: int = 16,
    connect_timeout: float = 5.0,
    read_timeout: float = 60.0,
    read_only: bool = False,
) -> Any:
    """A boto3 S3 client for one front-end. `attempts` in all, so 1 is no retry; time-outs in seconds. Thread-safe.

    `read_only`: requests that could alter anything raise UserError before they are sent.
    """
    config = Config(
        **botocore_options.config(endpoint, attempts),
        max_pool_connections=max_pool_connections,
        connect_timeout=connect_timeout,
        read_timeout=read_timeout,
    )
    if not endpoint.verify:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    with _session_lock:  # making clients is not thread-safe
        made = _bare_session().client(
            "s3",
            endpoint_url=endpoint.url,
            **botocore_options.client(endpoint),
            aws_access_key_id=credentials.access_key,
            aws_secret_access_key=credentials.secret_key,
            aws_session_token=credentials.session_token,
            config=config,
        )
    made.meta.events.register("before-sign.s3.DeleteObjects", _content_md5)
    if read_only:
        made.meta.events.register("before-call.s3", _refuse_writes)
    return made


def _content_md5(request: Any, **_: Any) -> None:
    """Servers older than the CRC checksums want Content-MD5 with a multi-object delete."""
    body = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
    request.headers["Content-MD5"] = b64encode(md5(body, usedforsecurity=False).digest()).decode()


def _refuse_writes(model: Any, **_: Any) -> None:
    if not model.name.startswith(("Get", "Head", "List")):
        raise UserError(
            "read_only", f"{model.name} would write to a read-only store", "set the store's `read_only` to false"
        )


def for_store(store: "Store", endpoint: Endpoint | None = None, **options: Any) -> Any:
    """`client` with the store's own credentials; refuses to write where the store is read-only."""
    return client(
        endpoint or store.endpoints(1)[0], store.credentials(), read_only=bool(store.settings.read_only), **options
    )
