"""What boto3 raises, told in one line with its mend."""

import re

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConfigParseError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    ReadTimeoutError,
    SSLError,
)
from botocore.parsers import ResponseParserError

from storelab.core.errors import MeasurementFailed, UserError

ERRORS = (BotoCoreError, ClientError, ResponseParserError)

KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN), or the store's `profile`"
REGION = "set the store's `region` to the server's"
REDIRECTED = (
    "redirected: the server sends requests for objects elsewhere",
    "give the address that serves them as the store's `endpoint`",
)
# Error codes of S3 that a person mends: what is wrong, where to look.
CODES = {
    "InvalidAccessKeyId": ("the server does not know this access key", KEYS),
    "SignatureDoesNotMatch": ("the secret key does not fit the access key (or a proxy alters the requests)", KEYS),
    "InvalidToken": ("the session token is not valid", "log in again and set AWS_SESSION_TOKEN"),
    "ExpiredToken": ("the session token has expired", "log in again and set AWS_SESSION_TOKEN"),
    "RequestTimeTooSkewed": ("the clock of this machine is too far from the server's", "set the clock (NTP)"),
    "RequestExpired": ("the clock of this machine is too far from the server's", "set the clock (NTP)"),
    "AuthorizationHeaderMalformed": ("the signature is for another region", REGION),
    "PermanentRedirect": ("the bucket lies in another region, or at another endpoint", REGION),
    "IllegalLocationConstraintException": ("buckets of another region are asked for", REGION),
    "InvalidLocationConstraint": ("the server has no such region", REGION),
    "TemporaryRedirect": REDIRECTED,
    **dict.fromkeys(("302", "303", "307", "308"), REDIRECTED),
    "301": ("the bucket lies in another region, or at another endpoint", REGION),
    "AccessDenied": (
        "the server denies access (403)",
        "check the rights of these credentials, or name the store's `bucket`",
    ),
    "AllAccessDisabled": ("the server denies access (403)", "check the rights of these credentials"),
    "403": ("the server denies access (403)", "check credentials and their rights, or name the store's `bucket`"),
    "NoSuchBucket": ("the bucket{} is not there", "check the store's `bucket`, or run `storelab stage`"),
    "404": ("the bucket{} is not there, or this is no S3 server", "check the store's `endpoint` and `bucket`"),
    "TooManyBuckets": (
        "the account may have no more buckets",
        "run `storelab clean`, lower `limits.buckets`, or name one `bucket`",
    ),
    "QuotaExceeded": ("the quota is used up", "run `storelab clean`, or ask for more"),
}


def code(error: Exception) -> str:
    """The S3 error code, such as `NoSuchKey`; '' if the error is no answer of a server.

    Where an answer has no code (to HEAD), its HTTP status.
    """
    return error.response.get("Error", {}).get("Code", "") if isinstance(error, ClientError) else ""


def explain(error: Exception, place: str, bucket: str = "") -> UserError | MeasurementFailed:
    """The exception to raise instead: UserError where a person can mend it, MeasurementFailed where the system fails.

    place: place in the configuration, e.g. `stores.mine`; bucket: its name, where the request names one. Never shows
    keys: only codes, the endpoint and the bucket.
    """
    url = str(getattr(error, "kwargs", {}).get("endpoint_url", "")) or "the endpoint"
    host = re.sub(r"^(https?://[^/]+).*", r"\1", url)
    spot = f"{place}.endpoint"
    text = str(error)
    match error:
        case ConnectTimeoutError():
            return UserError(spot, f"{host} does not answer (time-out)", "check address, port and firewall")
        case EndpointConnectionError():
            cause = str(getattr(error, "kwargs", {}).get("error", ""))
            if re.search(r"resolve|Name or service|nodename|Temporary failure|getaddrinfo", cause):
                return UserError(spot, f"the name in {host} cannot be resolved", "check the spelling and DNS")
            why = "refuses the connection" if "refused" in cause else "cannot be reached"
            return UserError(spot, f"{host} {why}", "check address and port, and that the server runs")
        case SSLError():
            if "WRONG_VERSION" in text or "record layer" in text:
                return UserError(spot, f"{host} speaks no TLS", "write http:// instead of https://")
            if "CERTIFICATE_VERIFY" in text:
                why = re.search(r"verify failed: ([^(\"']+)", text)
                problem = (
                    f"the certificate of {host} is not trusted "
                    f"({why.group(1).strip() if why else 'verification failed'})"
                )
                return UserError(spot, problem, "set the store's `ca_file`")
            return UserError(spot, f"TLS with {host} fails", "check `endpoint` and `ca_file`")
        case ReadTimeoutError():
            return MeasurementFailed(f"{place}: {host} took the request, but does not answer (time-out)")
        case ConnectionClosedError():
            return MeasurementFailed(f"{place}: {host} closed the connection without an answer (an https port?)")
        case ResponseParserError():
            return UserError(spot, "what answers there is no S3 server", "check address and port")
        case PartialCredentialsError():
            lacks = str(getattr(error, "kwargs", {}).get("cred_var", "one of the two keys"))
            return UserError(place, f"the credentials are half: {lacks} is missing", KEYS)
        case ConfigParseError():
            path = str(getattr(error, "kwargs", {}).get("path", "~/.aws"))
            return UserError(
                path, "is no file of AWS profiles", "write [profile] and `name = value` lines, or remove it"
            )
        case NoCredentialsError():
            return UserError(place, "no credentials found", KEYS)
        case ProfileNotFound():
            return UserError(
                f"{place}.profile", "there is no such AWS profile", "see ~/.aws/config and ~/.aws/credentials"
            )
        case ClientError():
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            name = code(error)
            known = CODES.get(name) or CODES.get(str(status))
            if known and status < 500:
                problem = known[0].format(f" {bucket!r}" if bucket else "")
                return UserError(place, f"{name}: {problem}" if not name.isdigit() else problem, known[1])
            message = error.response.get("Error", {}).get("Message", "")[:200]
            return MeasurementFailed(
                f"{place}: {error.operation_name} failed with {name} (HTTP {status}) {message}".rstrip()
            )
    return MeasurementFailed(f"{place}: {type(error).__name__}: {text[:200]}")
