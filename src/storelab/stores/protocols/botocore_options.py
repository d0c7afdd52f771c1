"""Options of botocore and of the libraries on it (boto3, aiobotocore, s3fs): all are passed, none is looked up.

Both clients of S3 and file systems take them from here. Without a call, nothing of botocore is imported.
"""

import os
import re
from typing import Any

from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Endpoint

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


def session_variables() -> dict[str, tuple[Any, ...]]:
    """Return variables of a botocore session that reads no environment variable and no file of the user."""
    from botocore.session import Session

    files = dict.fromkeys(("config_file", "credentials_file"), os.devnull)
    return {
        name: (None, None, files.get(name, default), convert)
        for name, (_, _, default, convert) in Session.SESSION_VARIABLES.items()
    }


def strict(session: Any) -> None:
    """Let clients of a session send one plain request for each call, and accept only the answer that was asked for.

    Some servers ignore `Expect: 100-continue`, and aiohttp waits for ever. A redirect is an error, not another request.
    A HEAD without a length, a range that was ignored and another `Content-Range` raise WrongAnswer.
    """
    from botocore import handlers

    session.unregister("before-call.s3", handlers.add_expect_header)
    session.get_component("event_emitter").register_last("before-parameter-build.s3", _no_redirect)
    session.register("before-call.s3.GetObject", _note_range)
    session.register("after-call.s3.GetObject", _as_asked)
    session.register("after-call.s3.HeadObject", _has_length)


def _no_redirect(context: dict[str, Any], **_: Any) -> None:
    context.setdefault("s3_redirect", {})["redirected"] = True


def _note_range(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    context["storelab_range"] = params["headers"].get("Range", "")


def _as_asked(http_response: Any, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    status, asked = http_response.status_code, _RANGE.fullmatch(context.get("storelab_range", ""))
    if status >= 300 or not asked:
        return
    came = _CONTENT_RANGE.fullmatch(parsed.get("ContentRange", ""))
    # Some servers (rclone) send the range with status 200, and say so.
    if (
        status in (200, 206)
        and came
        and came[1] == asked[1]
        and (came[2] == asked[2] or int(came[2]) == int(came[3]) - 1)
    ):
        return
    parsed["Body"].close()
    if status == 206:
        raise _wrong(f"Content-Range {parsed.get('ContentRange')!r} instead of {asked[1]}-{asked[2]}", status)
    raise _wrong(f"the answer to a range has status {status}", status, "NotPartial")


def _has_length(http_response: Any, parsed: dict[str, Any], **_: Any) -> None:
    if http_response.status_code < 300 and "ContentLength" not in parsed:
        raise _wrong("the answer to HEAD has no Content-Length", http_response.status_code)


def _wrong(message: str, status: int, error_class: str = "WrongAnswer") -> OSError:
    from storelab.readplan.transports import WrongAnswer  # loads numpy

    error = WrongAnswer(message, status)
    error.error_class = error_class
    return error


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
