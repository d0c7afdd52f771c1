"""The library obstore on a store's S3 endpoint, and the keys for it. Imports obstore only when it is asked for."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storelab.core.errors import UserError
from storelab.stores.protocols.endpoint import Credentials, Endpoint


def keys() -> Credentials:
    """The keys in this process's environment. Raises UserError if there are none."""
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        raise UserError(
            "AWS_ACCESS_KEY_ID", "the client has no credentials in its environment", "set it and AWS_SECRET_ACCESS_KEY"
        )
    return Credentials(key, secret, os.environ.get("AWS_SESSION_TOKEN") or None)


def store(endpoint: Endpoint, bucket: str | None, client_options: Mapping[str, Any], **options: Any) -> Any:
    """An `S3Store` that retries nothing, for one bucket or, without a name, for all. Raises UserError: no credentials.

    For all: each key begins with its bucket's name, so that one pool of connections serves every bucket. This needs
    path addressing. client_options, options: more of them, as obstore names them.
    """
    from obstore.store import S3Store

    own, virtual = keys(), endpoint.addressing == "virtual"
    connection: dict[str, Any] = {
        "allow_http": True,
        "http1_only": True,
        "allow_invalid_certificates": not endpoint.verify,
        "connect_timeout": "10s",
        "randomize_addresses": False,
        **({"root_certificate": Path(endpoint.ca_file).read_bytes()} if endpoint.ca_file else {}),
    }
    return S3Store(
        bucket or "all",
        endpoint=endpoint.url.replace("://", f"://{bucket}.", 1) if bucket and virtual else endpoint.url,
        virtual_hosted_style_request=virtual or not bucket,
        region=endpoint.region,
        access_key_id=own.access_key,
        secret_access_key=own.secret_key,
        client_options=connection | dict(client_options),
        retry_config={"max_retries": 0},
        **({"session_token": own.session_token} if own.session_token else {}),
        **options,
    )
