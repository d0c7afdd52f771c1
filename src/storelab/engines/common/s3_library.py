"""The library obstore on a store's S3 endpoint, and the keys for it. Imports obstore only when it is asked for."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storelab.core.errors import UserError
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Credentials, Endpoint, account_prefix


def keys(account: int | None = None) -> Credentials:
    """The keys in this process's environment, or those of a further account. Raises UserError if there are none."""
    prefix = "AWS_" if account is None else account_prefix(account)
    if not (own := Credentials.found(os.environ, prefix)):
        raise UserError(
            f"{prefix}ACCESS_KEY_ID",
            "the client has no credentials in its environment",
            f"set it and {prefix}SECRET_ACCESS_KEY",
        )
    return own


def store(
    endpoint: Endpoint,
    bucket: str | None,
    client_options: Mapping[str, Any],
    account: int | None = None,
    **options: Any,
) -> Any:
    """An `S3Store` that retries nothing, for one bucket or, without a name, for all. Raises UserError: no credentials.

    For all: each key begins with its bucket's name, so that one pool of connections serves every bucket. This needs
    path addressing. client_options, options: more of them, as obstore names them. account: a further
    one, whose keys sign.
    """
    from obstore.store import S3Store

    own, virtual = keys(account), endpoint.addressing == "virtual"
    connection: dict[str, Any] = {
        "allow_http": True,
        "http1_only": True,
        "allow_invalid_certificates": not endpoint.verify,
        "connect_timeout": "10s",
        "randomize_addresses": False,
        **({"proxy_url": way} if (way := environment.proxy(endpoint)) else {}),
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
