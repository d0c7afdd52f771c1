"""Access to an S3 store through boto3: no retries, error messages of one line, and a check that an endpoint is S3.

Web servers, redirects and servers of another region answer requests too, and boto3 accepts some of their answers.
Therefore the first signed LIST request must return S3's XML. For any other answer, the error describes the answer.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

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
from storelab.stores.protocols.access import (
    DELETE_MARKER,
    OBJECT,
    OLD_VERSION,
    UNLISTED,
    UPLOAD,
    Access,
    AccessRefused,
    BucketExists,
    BucketNotEmpty,
    Entry,
    NoSuchBucket,
    Retention,
)

ERRORS = (BotoCoreError, ClientError, ResponseParserError)

KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN), or the store's `profile`"
REGION = "set the store's `region` to the region of the server"
REDIRECTED = (
    "redirected: the server sends requests for objects to another address",
    "set the store's `endpoint` to that address",
)
# Error codes of S3 about keys, tokens and the clock, which a server can also return after it accepted them.
CREDENTIAL_CODES = (
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "AccessDenied"),
    *("RequestTimeTooSkewed", "RequestExpired"),
)
# Error codes of S3 that the user can fix: the problem, the hint.
CODES = {
    "InvalidAccessKeyId": ("the server does not know this access key", KEYS),
    "SignatureDoesNotMatch": ("the secret key does not match the access key (or a proxy alters the requests)", KEYS),
    "InvalidToken": ("the session token is not valid", "log in again and set AWS_SESSION_TOKEN"),
    "ExpiredToken": ("the session token has expired", "log in again and set AWS_SESSION_TOKEN"),
    "RequestTimeTooSkewed": (
        "the clock of this machine differs too much from the server's clock",
        "set the clock (NTP)",
    ),
    "RequestExpired": ("the clock of this machine differs too much from the server's clock", "set the clock (NTP)"),
    "AuthorizationHeaderMalformed": ("the signature is for another region", REGION),
    "PermanentRedirect": ("the bucket is in another region, or at another endpoint", REGION),
    "IllegalLocationConstraintException": ("the request is for buckets of another region", REGION),
    "InvalidLocationConstraint": ("the server does not know this region", REGION),
    "TemporaryRedirect": REDIRECTED,
    **dict.fromkeys(("302", "303", "307", "308"), REDIRECTED),
    "301": ("the bucket is in another region, or at another endpoint", REGION),
    "AccessDenied": (
        "the server denies access (403)",
        "check the rights of these credentials, or name the store's `bucket`",
    ),
    "AllAccessDisabled": ("the server denies access (403)", "check the rights of these credentials"),
    "403": ("the server denies access (403)", "check credentials and their rights, or name the store's `bucket`"),
    "NoSuchBucket": ("the bucket{} does not exist", "check the store's `bucket`, or run `storelab stage`"),
    "404": ("the bucket{} does not exist, or this is not an S3 server", "check the store's `endpoint` and `bucket`"),
    "TooManyBuckets": (
        "the account has its maximum number of buckets",
        "run `storelab clean`, lower `limits.buckets`, or name one `bucket`",
    ),
    "QuotaExceeded": ("the quota is used up", "run `storelab clean`, or request a larger quota"),
}
BUSY = (
    "SlowDown",
    "InternalError",
    "ServiceUnavailable",
)  # error codes for single keys of a store that has not finished its writes (MinIO)
PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)  # seconds; no measurement runs during a deletion
ABSENT = {"NoSuchKey", "404"}
NO_LOCATION = {  # error codes of servers that reject LocationConstraint, or the region in it
    *("InvalidLocationConstraint", "IllegalLocationConstraintException", "InvalidRegion", "InvalidArgument"),
    *("InvalidRequest", "MalformedXML", "NotImplemented", "400", "501"),
}
GONE = ABSENT | {"NoSuchVersion", "NoSuchUpload"}
REFUSED = {"AccessDenied", "403"}
NOT_OFFERED = {"NotImplemented", "MethodNotAllowed", "501", "405"}  # error codes for an operation that a server lacks
NOT_EMPTY = {"BucketNotEmpty", "VersionedBucketNotEmpty"}
MAX_PAGES = 100_000  # pages of a listing, with up to 1000 entries each; a longer listing is considered endless
MAX_EMPTY_PAGES = 1000  # empty pages of a listing in a row

# Listings: operation -> lists of entries in a page, and member of the answer -> parameter that continues it.
_TOKEN = {"NextContinuationToken": "ContinuationToken"}
_UPLOADS = {"NextKeyMarker": "KeyMarker", "NextUploadIdMarker": "UploadIdMarker"}
_VERSIONS = {"NextKeyMarker": "KeyMarker", "NextVersionIdMarker": "VersionIdMarker"}
LISTINGS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "list_objects_v2": (("Contents", "CommonPrefixes"), _TOKEN),
    "list_object_versions": (("Versions", "DeleteMarkers"), _VERSIONS),
    "list_multipart_uploads": (("Uploads",), _UPLOADS),
    "list_buckets": (("Buckets",), {"ContinuationToken": "ContinuationToken"}),
}
LISTS = ("ListAllMyBucketsResult", "ListBucketResult")
ADDRESS = "check address and port: the endpoint must be that of the S3 interface"


class S3Access(Access):
    """Access through `s3`, a boto3 client of one account at one front-end."""

    def __init__(self, s3: Any, place: str):
        self.s3, self.place = s3, place

    @contextmanager
    def _explained(self, bucket: str = "") -> Iterator[None]:
        try:
            yield
        except ERRORS as error:
            name = code(error)
            if name == "NoSuchBucket":
                raise NoSuchBucket(bucket, self.place) from None
            if name in ("AccessDenied", "403"):
                raise AccessRefused from explain(error, self.place)
            raise explain(error, self.place, bucket) from None

    def read(self, bucket: str, key: str, most: int | None = None) -> bytes | None:
        with self._explained(bucket):
            try:
                body = self.s3.get_object(Bucket=bucket, Key=key)["Body"]
            except ERRORS as error:
                if code(error) in ABSENT:
                    return None
                raise
            try:
                return body.read(most)
            finally:
                body.close()

    def write(self, bucket: str, key: str, data: bytes) -> None:
        with self._explained(bucket):
            self.s3.put_object(Bucket=bucket, Key=key, Body=data)

    def _listed(self, operation: str, **query: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the name of the list, and the entry, for every entry of every page.

        Raises MeasurementFailed if the server reports more entries but no token to continue, or if the pages repeat or
        do not end. Entries that are not listed would be neither counted nor deleted.
        """
        lists, onward = LISTINGS[operation]
        following: dict[str, Any] = {}
        before: set[str] = set()  # entries of the previous page, because some servers repeat its last entry
        firsts: set[str] = set()
        requested: list[dict[str, Any]] = []
        empty = 0
        for _ in range(MAX_PAGES):
            page = getattr(self.s3, operation)(**query, **following)
            entries = [(name, entry) for name in lists for entry in page.get(name) or ()]
            marks = [_mark(name, entry) for name, entry in entries]
            if marks and marks[0] in firsts:
                raise self._incomplete(operation, query, "its pages repeat")
            firsts.update(marks[:1])
            for mark, entry in zip(marks, entries, strict=True):
                if mark not in before:  # some servers list an entry twice in a page
                    before.add(mark)
                    yield entry
            before, empty = set(marks), 0 if marks else empty + 1
            following = {parameter: page[name] for name, parameter in onward.items() if page.get(name)}
            if not page.get("IsTruncated", operation == "list_buckets" and bool(following)):
                return
            if not following:
                raise self._incomplete(operation, query, "the server reports more entries, but no token to continue")
            if following in requested or empty > MAX_EMPTY_PAGES:
                raise self._incomplete(operation, query, "its pages repeat")
            requested = [*requested[-9:], following]
        raise self._incomplete(operation, query, f"it does not end after {MAX_PAGES} pages")

    def _incomplete(self, operation: str, query: Mapping[str, Any], why: str) -> MeasurementFailed:
        what = f"bucket {query['Bucket']}" if "Bucket" in query else "buckets"
        return MeasurementFailed(f"{self.place}: the listing of {what} ({operation}) is incomplete: {why}")

    def keys(self, bucket: str, prefix: str = "") -> Iterator[tuple[str, int]]:
        with self._explained(bucket):
            for _, entry in self._listed("list_objects_v2", Bucket=bucket, Prefix=prefix):
                yield entry["Key"], entry["Size"]

    def entries(self, bucket: str, prefix: str = "") -> Iterator[Entry]:
        """Yield all entries of the bucket, including unfinished uploads, without which some buckets cannot be deleted.

        Versions are listed only if the bucket has or had versioning, or if the server does not report this.
        """
        with self._explained(bucket):
            if self._versioned(bucket):
                for name, v in self._listed("list_object_versions", Bucket=bucket, Prefix=prefix):
                    if name == "DeleteMarkers":
                        yield Entry(v["Key"], None, DELETE_MARKER, v["VersionId"])
                    else:
                        yield Entry(v["Key"], v["Size"], OBJECT if v.get("IsLatest") else OLD_VERSION, v["VersionId"])
            else:
                yield from (Entry(key, size) for key, size in self.keys(bucket, prefix))
            try:
                for _, upload in self._listed("list_multipart_uploads", Bucket=bucket, Prefix=prefix):
                    yield Entry(upload["Key"], None, UPLOAD, upload["UploadId"])
            except ClientError as error:
                if code(error) in REFUSED:
                    yield Entry(prefix, None, UNLISTED)

    def _versioned(self, bucket: str) -> bool:
        """Return whether the bucket can have old versions. If the server does not report this, list the versions."""
        with suppress(ClientError):
            return bool(self.s3.get_bucket_versioning(Bucket=bucket).get("Status"))
        with suppress(ClientError):
            page = self.s3.list_object_versions(Bucket=bucket)
            ids = {v.get("VersionId") for v in page.get("Versions", ())} - {None, "", "null"}
            return bool(ids or page.get("DeleteMarkers"))
        return False

    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        refused = self.remove(bucket, [Entry(key, None) for key in keys])
        if refused:
            first = next(iter(refused.values()))
            raise MeasurementFailed(f"bucket {bucket}: objects not deleted: {len(refused)}; first error: {first}")

    def remove(self, bucket: str, entries: Sequence[Entry]) -> dict[Entry, str]:
        refused: dict[Entry, str] = {}
        for entry in (e for e in entries if e.kind == UPLOAD):
            with self._explained(bucket):
                try:
                    self.s3.abort_multipart_upload(Bucket=bucket, Key=entry.key, UploadId=entry.id)
                except ClientError as error:
                    if code(error) not in GONE:
                        refused[entry] = code(error)
        left = {(e.key, e.id): e for e in entries if e.kind != UPLOAD}
        errors: dict[Entry, str] = {}
        for pause in PAUSES if left else ():
            errors = self._delete_objects(bucket, left)
            if not errors or not all(why.startswith(BUSY) for why in errors.values()):
                break
            left = {(e.key, e.id): e for e in errors}
            time.sleep(pause)
        return refused | errors

    def _delete_objects(self, bucket: str, entries: Mapping[tuple[str, str], Entry]) -> dict[Entry, str]:
        """Delete objects with one request. Return the error code for each refused entry."""
        named = [{"Key": key} | ({"VersionId": version} if version else {}) for key, version in entries]
        with self._explained(bucket):
            try:
                answer = self.s3.delete_objects(Bucket=bucket, Delete={"Objects": named, "Quiet": True})
            except ClientError as error:  # with MFA delete, the server refuses the whole request
                if code(error) in REFUSED and any(version for _, version in entries):
                    return dict.fromkeys(entries.values(), code(error))
                if code(error) in NOT_OFFERED:
                    return self._delete_one_by_one(bucket, entries)
                raise
        out: dict[Entry, str] = {}
        for error in answer.get("Errors") or ():
            if (why := str(error.get("Code"))) not in GONE:
                known = entries.get((error["Key"], error.get("VersionId") or ""))
                same_key = (e for e in entries.values() if e.key == error["Key"])
                out |= dict.fromkeys([known] if known else same_key, why)
        return out

    def _delete_one_by_one(self, bucket: str, entries: Mapping[tuple[str, str], Entry]) -> dict[Entry, str]:
        """Delete objects with one request each. Return the error code for each refused entry."""
        out: dict[Entry, str] = {}
        for (key, version), entry in entries.items():
            try:
                self.s3.delete_object(Bucket=bucket, Key=key, **({"VersionId": version} if version else {}))
            except ClientError as error:
                if code(error) not in GONE:
                    out[entry] = code(error)
        return out

    def retention(self, bucket: str) -> Retention:
        versioning, mfa, lock = "", False, ""
        with self._explained(bucket):
            with suppress(ClientError):
                found = self.s3.get_bucket_versioning(Bucket=bucket)
                versioning, mfa = found.get("Status", ""), found.get("MFADelete") == "Enabled"
            with suppress(ClientError):
                found = self.s3.get_object_lock_configuration(Bucket=bucket).get("ObjectLockConfiguration", {})
                rule = found.get("Rule", {}).get("DefaultRetention", {})
                time_ = next((f"{rule[unit]} {unit.lower()}" for unit in ("Days", "Years") if rule.get(unit)), "")
                lock = f"{rule.get('Mode')} for {time_}" if time_ else "on" if found.get("ObjectLockEnabled") else ""
        return Retention(versioning, mfa, lock)

    def protected_by(self, bucket: str, entry: Entry) -> str:
        this, out = {"Bucket": bucket, "Key": entry.key, "VersionId": entry.id}, []
        if entry.id and entry.kind in (OBJECT, OLD_VERSION):
            with suppress(ClientError, KeyError):
                kept = self.s3.get_object_retention(**this)["Retention"]
                out.append(f"{kept['Mode']} until {kept['RetainUntilDate']:%Y-%m-%d %H:%M %Z}")
            with suppress(ClientError, KeyError):
                if self.s3.get_object_legal_hold(**this)["LegalHold"]["Status"] == "ON":
                    out.append("legal hold")
        return ", ".join(out)

    def bucket_names(self) -> list[str]:
        with self._explained():
            return [bucket["Name"] for _, bucket in self._listed("list_buckets")]

    def prefixes(self, bucket: str, above: str) -> list[str]:
        with self._explained(bucket):
            pages = self._listed("list_objects_v2", Bucket=bucket, Prefix=above, Delimiter="/")
            return [entry["Prefix"] for name, entry in pages if name == "CommonPrefixes"]

    def make_bucket(self, bucket: str) -> None:
        with self._explained(bucket):
            try:
                self._create(bucket)
            except ERRORS as error:
                if code(error) in ("BucketAlreadyExists", "BucketAlreadyOwnedByYou"):
                    raise BucketExists from None
                raise

    def _create(self, bucket: str) -> None:
        """Create a bucket. If the region is not S3's default, send it, because servers with regions require this.

        If a server refuses the region, repeat the request without it.
        """
        region = self.s3.meta.region_name
        if region != "us-east-1":
            try:
                self.s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": region})
                return
            except ERRORS as error:
                if code(error) not in NO_LOCATION:
                    raise
                refused = error
            try:
                self.s3.create_bucket(Bucket=bucket)
            except ERRORS as error:
                raise (refused if code(error) in NO_LOCATION else error) from None
        else:
            self.s3.create_bucket(Bucket=bucket)

    def drop_bucket(self, bucket: str) -> None:
        """Remove a bucket after a check for versions, because some servers would remove a bucket with versions.

        Some servers (Garage) notice late that a bucket is empty. Therefore both steps are retried for some seconds.
        """
        for pause in (*PAUSES, None):
            with self._explained(bucket):
                held = self._held(bucket)
                if not held:
                    try:
                        self.s3.delete_bucket(Bucket=bucket)
                        return
                    except ERRORS as error:
                        if code(error) not in NOT_EMPTY or pause is None:
                            raise
            if pause is None:
                break
            time.sleep(pause)
        raise BucketNotEmpty(f"{self.place}: bucket {bucket}", held)

    def _held(self, bucket: str) -> str:
        """Return any key in the bucket, including keys of old versions and delete markers; '' if there is none."""
        for operation in ("list_object_versions", "list_objects_v2"):
            with suppress(ClientError):
                page = getattr(self.s3, operation)(Bucket=bucket, MaxKeys=1)
                for name in LISTINGS[operation][0]:
                    for entry in page.get(name) or ():
                        return str(entry.get("Key", ""))
        return ""


def _mark(name: str, entry: Mapping[str, Any]) -> str:
    """Return a string that identifies an entry of a listing."""
    return "\0".join([name, *(str(entry.get(member)) for member in ("Key", "Prefix", "Name", "VersionId", "UploadId"))])


# Errors of boto3


def code(error: Exception) -> str:
    """Return the S3 error code, such as `NoSuchKey`; '' if the error is not an answer of a server.

    An answer to HEAD has no error code. Then return the HTTP status.
    """
    return error.response.get("Error", {}).get("Code", "") if isinstance(error, ClientError) else ""


def explain(error: Exception, place: str, bucket: str = "") -> UserError | MeasurementFailed:
    """Return the exception to raise instead of an error of boto3.

    It is a UserError if the user can fix the problem, and otherwise MeasurementFailed. The message contains only codes,
    the endpoint and the bucket, but no keys. `place` is the place in the configuration, e.g. `stores.mine`.
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
            return UserError(spot, f"{host} {why}", "check the address and the port, and that the server is running")
        case SSLError():
            if "WRONG_VERSION" in text or "record layer" in text:
                return UserError(spot, f"{host} does not use TLS", "write http:// instead of https://")
            if "CERTIFICATE_VERIFY" in text:
                why = re.search(r"verify failed: ([^(\"']+)", text)
                problem = (
                    f"the certificate of {host} is not trusted "
                    f"({why.group(1).strip() if why else 'verification failed'})"
                )
                dated = re.search("expired|not yet valid", text)
                hint = "renew it, or set the clock of this machine (NTP)" if dated else "set the store's `ca_file`"
                return UserError(spot, problem, hint)
            if names := re.search(r"doesn't match (?:either of )?(.+)", text):
                problem = f"the certificate of {host} is for other names: {names[1][:100]}"
                return UserError(
                    spot, problem, "set `endpoint` to a name in the certificate, or `addressing` to `path`"
                )
            why = re.search(r"\[SSL[^\]]*\] ([^(\"']+)", text)
            problem = f"TLS with {host} fails" + (f" ({why[1].strip()})" if why else "")
            return UserError(spot, problem, "storelab needs TLS 1.2 or newer, and has no client certificate for S3")
        case ReadTimeoutError():
            return MeasurementFailed(f"{place}: {host} accepted the request, but does not answer (time-out)")
        case ConnectionClosedError():
            cause = str(getattr(error, "kwargs", {}).get("error", ""))
            if "got more than" in cause:  # Python's HTTP client takes 100 header lines, of up to 65536 bytes
                return MeasurementFailed(f"{place}: {host} answers with too many or too long header lines")
            return MeasurementFailed(f"{place}: {host} closed the connection without an answer (an https port?)")
        case ResponseParserError():
            return UserError(spot, "the server that answers is not an S3 server", "check address and port")
        case PartialCredentialsError():
            lacks = str(getattr(error, "kwargs", {}).get("cred_var", "one of the two keys"))
            return UserError(place, f"the credentials are incomplete: {lacks} is missing", KEYS)
        case ConfigParseError():
            path = str(getattr(error, "kwargs", {}).get("path", "~/.aws"))
            return UserError(
                path, "the file has no valid AWS profiles", "write [profile] and `name = value` lines, or remove it"
            )
        case NoCredentialsError():
            return UserError(place, "no credentials found", KEYS)
        case ProfileNotFound():
            problem = f"the AWS profile {error.kwargs['profile']!r} does not exist"
            return UserError(f"{place}.profile", problem, "check ~/.aws/config and ~/.aws/credentials")
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


# Check that the server is S3


def server_header(s3: Any, place: str, bucket: str | None, prefix: str) -> str:
    """Send one signed LIST request through a boto3 client, and return the `Server` header of the answer.

    The request is a GET, because an answer to HEAD has no error code. It lists the bucket below `prefix`, or all
    buckets if `bucket` is None. If the answer is not from S3, the UserError describes it.
    """
    answers: list[dict[str, Any]] = []
    for operation in ("ListBuckets", "ListObjectsV2"):  # before botocore converts unexpected answers to status 500
        s3.meta.events.register_first(
            f"before-parse.s3.{operation}", lambda response_dict, **_: answers.append(dict(response_dict))
        )
    try:
        if bucket:
            s3.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
        else:
            s3.list_buckets()
    except ERRORS as error:
        if answers:
            judge(answers[-1], place, s3.meta.endpoint_url, s3.meta.region_name)
        plain = explain(error, place, bucket or "")
        if bucket and code(error) == "NoSuchBucket" and isinstance(plain, UserError):  # staging does not create it
            raise UserError(place, plain.problem, "set the store's `bucket` to an existing one, or omit it") from None
        if isinstance(plain, UserError):
            raise plain from None
        problem = str(plain).removeprefix(f"{place}: ")
        raise UserError(f"{place}.endpoint", problem, "check that this is an S3 server, and that it works") from None
    judge(answers[-1], place, s3.meta.endpoint_url, s3.meta.region_name)
    return str(answers[-1]["headers"].get("server", ""))


def judge(answer: dict[str, Any], place: str, url: str, region: str) -> None:
    """Raise UserError if the answer is not from S3, or is from another region. Errors of S3 itself are accepted.

    `answer` has the keys `status_code`, `headers` and `body`. `url` and `region` are those of the request.
    """
    status, headers = answer["status_code"], {k.lower(): v for k, v in answer["headers"].items()}
    root = _root(answer["body"])
    where = f"{place}.endpoint"
    there = headers.get("x-amz-bucket-region") or (root.findtext("{*}Region") or "" if root is not None else "")
    error = root is not None and _tag(root) == "Error"
    if 100 < status < 200:  # Python's HTTP client treats an interim response as the answer
        problem = f"{url} sends interim responses (HTTP {status}) before its answers, which some clients do not accept"
        raise UserError(where, problem, "switch early hints off at the server, or at the proxy in front of it")
    if there and there != region and (error or 300 <= status < 400):
        raise UserError(f"{place}.region", f"the server's region is {there!r}, not {region!r}", f"set it to {there}")
    if error and root is not None:
        if 300 <= status < 400:
            other = root.findtext("{*}Endpoint") or ""
            problem = f"the bucket is at another address: {other}" if other else "the bucket is in another region"
            raise UserError(where, problem, "set `endpoint` and `region` to those of the bucket")
        return
    if 300 <= status < 400:
        to = urlsplit(headers.get("location", ""))
        named = f"{to.scheme}://{to.hostname}{f':{to.port}' if to.port else ''}{to.path}" if to.hostname else to.path
        hint = "set this address, if it is an S3 endpoint" if to.hostname else ADDRESS
        raise UserError(where, f"{url} answers with a redirect ({status}) to {named or 'nowhere'}, not with S3", hint)
    if root is not None and status == 200 and _tag(root) in LISTS:
        return
    shown = "" if root is None and status == 500 else f" (HTTP {status})"  # botocore's status for what it cannot parse
    raise UserError(where, f"{url} answers with {_named(answer['body'], headers, root)}{shown}, not with S3", ADDRESS)


def _root(body: bytes) -> ElementTree.Element | None:
    try:
        return ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError, LookupError):
        return None


def _tag(root: ElementTree.Element) -> str:
    return root.tag.rpartition("}")[2]


def _named(body: bytes, headers: dict[str, str], root: ElementTree.Element | None) -> str:
    """Return a description of an answer that is not from S3, for a message."""
    text = body[:20_000].decode("utf-8", "replace")
    server = re.sub(r"[^\w./ -]", "", headers.get("server", ""))[:40]
    by = f" of {server}" if server else ""
    if "html" in headers.get("content-type", "").lower() or re.search(r"<\s*(!doctype\s+html|html)\b", text, re.I):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.I | re.S)
        shown = " ".join(re.sub(r"[^\w .,:;!?()'-]", " ", title.group(1)).split())[:60] if title else ""
        return f"an HTML page{by}" + (f' titled "{shown}"' if shown else "")
    if not body.strip():
        return f"an empty body{by}"
    coding = headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity", "aws-chunked"):
        return f"a body in Content-Encoding {coding[:40]!r}, which was not requested{by},"
    if root is not None:
        return f"XML of another kind{by}, <{_tag(root)[:40]}>"
    return f"{headers.get('content-type', 'something').partition(';')[0][:40]}{by}"
