"""Is it S3 that answers? A signed list must come back as S3's own XML; anything else is told by its name.

A web server's page, a redirect and a server of another region answer too: boto3 alone takes some of them for a store.
"""

import re
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

from storelab.core.errors import UserError
from storelab.stores.protocols.s3_mistakes import ERRORS, explain

LISTS = ("ListAllMyBucketsResult", "ListBucketResult")
ADDRESS = "check address and port: the endpoint must be that of the S3 interface"


def greet(s3: Any, place: str, bucket: str | None, prefix: str) -> str:
    """One signed list through a boto3 client; returns the `Server` header of the answer.

    GET, because an answer to HEAD says no error code. bucket: the one given bucket, listed below `prefix`; else all
    buckets are listed. Raises UserError that says what answers there.
    """
    answers: list[dict[str, Any]] = []
    for operation in ("ListBuckets", "ListObjectsV2"):  # before botocore makes a 500 of what it does not like
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
        if isinstance(plain, UserError):
            raise plain from None
        problem = str(plain).removeprefix(f"{place}: ")
        raise UserError(f"{place}.endpoint", problem, "check that it is an S3 server, and its state") from None
    judge(answers[-1], place, s3.meta.endpoint_url, s3.meta.region_name)
    return str(answers[-1]["headers"].get("server", ""))


def judge(answer: dict[str, Any], place: str, url: str, region: str) -> None:
    """Raises UserError where the answer is none of S3, or of another region; errors that S3 itself tells pass.

    answer: `status_code`, `headers`, `body`; url, region: the endpoint and the region that were asked.
    """
    status, headers = answer["status_code"], {k.lower(): v for k, v in answer["headers"].items()}
    root = _root(answer["body"])
    where = f"{place}.endpoint"
    there = headers.get("x-amz-bucket-region") or (root.findtext("{*}Region") or "" if root is not None else "")
    if root is not None and _tag(root) == "Error":
        if there and there != region:
            raise UserError(
                f"{place}.region", f"the server's region is {there!r}, not {region!r}", f"set it to {there}"
            )
        if 300 <= status < 400:
            other = root.findtext("{*}Endpoint") or ""
            told = f"the bucket lies elsewhere: {other}" if other else "the bucket lies in another region"
            raise UserError(where, told, "set `endpoint` and `region` to those of the bucket")
        return
    if 300 <= status < 400:
        to = urlsplit(headers.get("location", ""))
        named = f"{to.scheme}://{to.hostname}{f':{to.port}' if to.port else ''}{to.path}" if to.hostname else to.path
        mend = "give that address, if S3 answers there" if to.hostname else ADDRESS
        raise UserError(where, f"{url} answers with a redirect ({status}) to {named or 'nowhere'}, not with S3", mend)
    if root is not None and status == 200 and _tag(root) in LISTS:
        return
    shown = "" if root is None and status == 500 else f" (HTTP {status})"  # botocore's own word for what it cannot read
    raise UserError(where, f"{url} answers with {_named(answer['body'], headers, root)}{shown}, not with S3", ADDRESS)


def _root(body: bytes) -> ElementTree.Element | None:
    try:
        return ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError, LookupError):
        return None


def _tag(root: ElementTree.Element) -> str:
    return root.tag.rpartition("}")[2]


def _named(body: bytes, headers: dict[str, str], root: ElementTree.Element | None) -> str:
    """What this answer is, for people."""
    text = body[:20_000].decode("utf-8", "replace")
    server = re.sub(r"[^\w./ -]", "", headers.get("server", ""))[:40]
    by = f" of {server}" if server else ""
    if "html" in headers.get("content-type", "").lower() or re.search(r"<\s*(!doctype\s+html|html)\b", text, re.I):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.I | re.S)
        shown = " ".join(re.sub(r"[^\w .,:;!?()'-]", " ", title.group(1)).split())[:60] if title else ""
        return f"an HTML page{by}" + (f' titled "{shown}"' if shown else "")
    if not body.strip():
        return f"an empty body{by}"
    if root is not None:
        return f"XML of another kind{by}, <{_tag(root)[:40]}>"
    return f"{headers.get('content-type', 'something').partition(';')[0][:40]}{by}"
