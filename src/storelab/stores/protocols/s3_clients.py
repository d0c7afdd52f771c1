"""S3 clients: options for botocore and libraries based on it (boto3, aiobotocore, s3fs), boto3 clients, obstore.

All options are passed explicitly, so that the user's AWS files are not read. There are no retries by default. Client
processes import this module, so it must not import botocore or obstore at once.
"""

import os
import re
import threading
from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import md5
from pathlib import Path
from typing import Any

from storelab.core.errors import UserError
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Credentials, Endpoint, account_prefix

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
MAX_ANSWER = 64 * 2**20  # maximum size in bytes of an answer that is not an object; a page of 1000 keys has some MB
_session_lock = threading.Lock()
_session: Any = None  # session of boto3


def session_variables() -> dict[str, tuple[Any, ...]]:
    """Return the variables of a botocore session that ignores environment variables and files of the user."""
    from botocore.session import Session

    files = dict.fromkeys(("config_file", "credentials_file"), os.devnull)
    return {
        name: (None, None, files.get(name, default), convert)
        for name, (_, _, default, convert) in Session.SESSION_VARIABLES.items()
    }


def strict(session: Any) -> None:
    """Let clients of a session send one plain request for each call, and accept only the expected answer.

    `Expect: 100-continue` is not sent, because some servers ignore it and aiohttp would wait forever. A redirect is an
    error. A HEAD without a length, an ignored range and a wrong `Content-Range` raise WrongAnswer.
    """
    from botocore import handlers

    session.unregister("before-call.s3", handlers.add_expect_header)
    session.get_component("event_emitter").register_last("before-parameter-build.s3", _no_redirect)
    session.register("before-call.s3.GetObject", _note_range)
    session.register("after-call.s3.GetObject", _check_range)
    session.register("after-call.s3.HeadObject", _has_length)


def _no_redirect(context: dict[str, Any], **_: Any) -> None:
    context.setdefault("s3_redirect", {})["redirected"] = True


def _note_range(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    context["storelab_range"] = params["headers"].get("Range", "")


def _check_range(http_response: Any, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    status, requested = http_response.status_code, _RANGE.fullmatch(context.get("storelab_range", ""))
    if status >= 300 or not requested:
        return
    came = _CONTENT_RANGE.fullmatch(parsed.get("ContentRange", ""))
    # Some servers (rclone) answer a range with status 200 and a correct Content-Range.
    if (
        status in (200, 206)
        and came
        and came[1] == requested[1]
        and (came[2] == requested[2] or (came[3] != "*" and int(came[2]) == int(came[3]) - 1))
    ):
        return
    parsed["Body"].close()
    if status == 206:
        raise _wrong(f"Content-Range {parsed.get('ContentRange')!r} instead of {requested[1]}-{requested[2]}", status)
    raise _wrong(f"the answer to a range has status {status}", status, "NotPartial")


def _has_length(http_response: Any, parsed: dict[str, Any], **_: Any) -> None:
    if http_response.status_code < 300 and "ContentLength" not in parsed:
        raise _wrong("the answer to HEAD has no Content-Length", http_response.status_code)


def _wrong(message: str, status: int, error_class: str = "WrongAnswer") -> OSError:
    from readplan.transports import WrongAnswer  # loads numpy

    error = WrongAnswer(message, status)
    error.error_class = error_class
    return error


def config_options(endpoint: Endpoint, attempts: int = 1) -> dict[str, Any]:
    """Return the keyword arguments of botocore's `Config`. `attempts` is the total number; 1 means no retry."""
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


def client_options(endpoint: Endpoint) -> dict[str, Any]:
    """Return the keyword arguments of `Session.create_client`, without keys and `config`."""
    verify = (endpoint.ca_file or True) if endpoint.verify else False
    return {"region_name": endpoint.region, "verify": verify}


def _bare_session() -> Any:
    """Return the session, which ignores variables, profiles and files of the user. The caller must have the lock."""
    global _session
    if _session is None:
        import boto3
        import botocore.session

        core = botocore.session.Session(session_variables())
        strict(core)
        _report_unreadable(core)
        _session = boto3.session.Session(botocore_session=core)
    return _session


def _report_unreadable(session: Any) -> None:
    """Let clients of a session raise BotoCoreError for numbers and dates of an answer that botocore cannot parse.

    Otherwise they would raise ValueError, which callers do not expect.
    """
    from botocore.exceptions import BotoCoreError

    class Unreadable(BotoCoreError):
        fmt = "the answer has a value that cannot be read: {problem}"

    factory = session.get_component("response_parser_factory")
    create = factory.create_parser

    def create_checked(protocol: str) -> Any:
        parser = create(protocol)
        parse = parser.parse

        def checked(answer: Any, shape: Any) -> Any:
            try:
                return parse(answer, shape)
            except (ValueError, TypeError, OverflowError) as error:
                raise Unreadable(problem=error) from None

        parser.parse = checked
        return parser

    factory.create_parser = create_checked


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
    """Return a thread-safe boto3 S3 client for one front-end.

    `attempts` is the total number; 1 means no retry. Timeouts are in seconds. With `read_only`, requests that could
    change anything raise UserError before they are sent.
    """
    import urllib3
    from botocore.config import Config

    config = Config(
        **config_options(endpoint, attempts),
        max_pool_connections=max_pool_connections,
        connect_timeout=connect_timeout,
        read_timeout=read_timeout,
    )
    if not endpoint.verify:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    with _session_lock:  # creating clients is not thread-safe
        made = _bare_session().client(
            "s3",
            endpoint_url=endpoint.url,
            **client_options(endpoint),
            aws_access_key_id=credentials.access_key,
            aws_secret_access_key=credentials.secret_key,
            aws_session_token=credentials.session_token,
            config=config,
        )
    made.meta.events.register("before-sign.s3.DeleteObjects", _content_md5)
    send = made._endpoint.http_session.send
    made.meta.events.register("before-send.s3", lambda request, **_: _bounded(send, request))
    if read_only:
        made.meta.events.register("before-call.s3", _refuse_writes)
    return made


def _bounded(send: Callable[[Any], Any], request: Any) -> Any:
    """Send a request, and read the whole answer if it is not an object.

    botocore would read such an answer without a limit.

    Raises
    ------
    BotoCoreError
        The answer is longer than MAX_ANSWER, or incomplete.
    """
    import urllib3
    from botocore.exceptions import ConnectionClosedError, HTTPClientError, ReadTimeoutError

    class TooLong(HTTPClientError):
        fmt = "the answer has no end: more than {size} MiB"

    streamed, request.stream_output = request.stream_output, True
    answer = send(request)
    if streamed and answer.status_code < 300:
        return answer
    content = bytearray()
    try:
        for part in answer.raw.stream():
            content += part
            if len(content) > MAX_ANSWER:
                answer.raw.close()
                raise TooLong(size=MAX_ANSWER // 2**20)
    except urllib3.exceptions.ReadTimeoutError as error:
        raise ReadTimeoutError(endpoint_url=request.url, error=error) from None
    except urllib3.exceptions.ProtocolError as error:
        raise ConnectionClosedError(endpoint_url=request.url, error=error, request=request) from None
    answer._content = bytes(content)
    return answer


def _content_md5(request: Any, **_: Any) -> None:
    """Add the header Content-MD5, which older servers, without CRC checksums, require for a multi-object delete."""
    body = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
    request.headers["Content-MD5"] = b64encode(md5(body, usedforsecurity=False).digest()).decode()


def _refuse_writes(model: Any, **_: Any) -> None:
    if not model.name.startswith(("Get", "Head", "List")):
        raise UserError(
            "read_only", f"{model.name} would change a read-only store", "set the store's `read_only` to false"
        )


def keys(account: int | None = None) -> Credentials:
    """Return the keys of an account from this process's environment; None is the first account.

    Raises UserError if there are no keys.
    """
    prefix = "AWS_" if account is None else account_prefix(account)
    if not (found := Credentials.found(os.environ, prefix)):
        raise UserError(
            f"{prefix}ACCESS_KEY_ID",
            "the client has no credentials in its environment",
            f"set it and {prefix}SECRET_ACCESS_KEY",
        )
    return found


def store(
    endpoint: Endpoint,
    bucket: str | None,
    client_options: Mapping[str, Any],
    account: int | None = None,
    **options: Any,
) -> Any:
    """Return an `S3Store` of obstore without retries. Raises UserError without credentials.

    Parameters
    ----------
    endpoint
        The front-end.
    bucket
        The bucket. None means all buckets: each key then begins with the name of the bucket, so that all buckets share
        one pool of connections. This needs path addressing.
    client_options, options
        Further options of obstore.
    account
        A further account, whose keys sign the requests.
    """
    from obstore.store import S3Store

    credentials, virtual = keys(account), endpoint.addressing == "virtual"
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
        access_key_id=credentials.access_key,
        secret_access_key=credentials.secret_key,
        client_options=connection | dict(client_options),
        retry_config={"max_retries": 0},
        **({"session_token": credentials.session_token} if credentials.session_token else {}),
        **options,
    )
