"""Options of botocore and of the libraries on it (boto3, aiobotocore, s3fs): all are passed, none is looked up.

Both clients of S3 and file systems take them from here. Without a call, nothing of botocore is imported.
"""

import os
from typing import Any

from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Endpoint


def session_variables() -> dict[str, tuple[Any, ...]]:
    """Return variables of a botocore session that reads no environment variable and no file of the user."""
    from botocore.session import Session

    files = dict.fromkeys(("config_file", "credentials_file"), os.devnull)
    return {
        name: (None, None, files.get(name, default), convert)
        for name, (_, _, default, convert) in Session.SESSION_VARIABLES.items()
    }


def config(endpoint: Endpoint, attempts: int = 1) -> dict[str, Any]:
    """Return keyword arguments of botocore's `Config`. attempts: in all, so that 1 means no retry."""
    way = environment.proxy(endpoint)
    return {
        "s3": {
            "addressing_style": endpoint.addressing,
            "use_accelerate_endpoint": False,
            "use_dualstack_endpoint": False,
            "use_arn_region": False,
        },
        "signature_version": "s3v4",
        "retries": {"total_max_attempts": attempts, "mode": "standard"},
        "proxies": {"http": way, "https": way} if way else {},
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
        "use_dualstack_endpoint": False,
        "use_fips_endpoint": False,
        "ignore_configured_endpoint_urls": True,
        "disable_request_compression": True,
        "defaults_mode": "legacy",
    }


def client(endpoint: Endpoint) -> dict[str, Any]:
    """Return keyword arguments of `Session.create_client`; keys and `config` come in addition."""
    verify = (endpoint.ca_file or True) if endpoint.verify else False
    return {"region_name": endpoint.region, "verify": verify}
