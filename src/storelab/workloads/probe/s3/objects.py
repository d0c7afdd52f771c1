"""Questions to an S3 store about single objects: content, metadata, names, ETag, checksums, conditions, copy."""

import hashlib
import zlib
from base64 import b64encode

from storelab.workloads.probe.answers import NO, Answer, Checks, Otherwise, demand, yes
from storelab.workloads.probe.s3.requests import S3, code, etag, keys_in, md5, md5_header, said, tree
from storelab.workloads.probe.signing import UNSIGNED, path_of

CHECKS = Checks()
SMALL = b"one small object of the probe"
NAMES = (
    "with space",
    "plus+sign",
    "a=b&c",
    "per%cent",
    "ümläut-日本",
    "(brackets)'quote'!*~",
    "colon:at@semi;comma,dollar$",
)
PAST = "Mon, 01 Jan 2001 00:00:00 GMT"


@CHECKS.add("objects", "put, get, head")
def put_get_head(c: S3) -> Answer:
    key = c.key("object")
    c.put(key, SMALL, headers={"Content-Type": "application/x-probe"})
    got, head = c.send("GET", key), c.send("HEAD", key)
    demand(got.status == 200 and got.body == SMALL, f"GET answered {said(got)} with {len(got.body)} bytes")
    demand(head.status == 200, f"HEAD answered {head.status}")
    demand(
        head.headers.get("content-length") == str(len(SMALL)),
        f"HEAD says {head.headers.get('content-length')} bytes",
        Otherwise,
    )
    kind = head.headers.get("content-type")
    demand(kind == "application/x-probe", f"Content-Type came back as {kind}", Otherwise)
    return yes(f"200, {len(SMALL)} bytes, Accept-Ranges: {head.headers.get('accept-ranges', 'not sent')}")


@CHECKS.add("objects", "missing object")
def missing(c: S3) -> Answer:
    got, head = c.send("GET", c.key("never-written")), c.send("HEAD", c.key("never-written"))
    demand(got.status == head.status == 404, f"GET {said(got)}, HEAD {head.status} instead of 404", Otherwise)
    demand(code(got) == "NoSuchKey", f"404 with code {code(got)!r}", Otherwise)
    return yes("404 NoSuchKey; HEAD 404")


@CHECKS.add("objects", "user metadata")
def metadata(c: S3) -> Answer:
    key = c.key("metadata")
    c.put(key, SMALL, headers={"x-amz-meta-probe-run": "Some Value 17"})
    got = c.send("HEAD", key).headers.get("x-amz-meta-probe-run")
    demand(got is not None, "not sent back")
    demand(got == "Some Value 17", f"came back as {got!r}", Otherwise)
    return yes("x-amz-meta- kept")


@CHECKS.add("objects", "key names")
def names(c: S3) -> Answer:
    """Written, read and listed under the same name."""
    bad = []
    for name in NAMES:
        key = c.key(f"names/{name}")
        written = c.send("PUT", key, body=name.encode())
        if not (written.good and c.holds(key, name.encode())):
            bad.append(f"{name!r} {said(written)}")
    listed = {k for page in c.pages(c.key("names/")) for k in keys_in(page)}
    bad += [
        f"{n!r} not listed so"
        for n in NAMES
        if c.key(f"names/{n}") not in listed and not any(repr(n) in b for b in bad)
    ]
    demand(len(bad) < len(NAMES), f"none of {len(NAMES)} names with special characters")
    demand(not bad, f"{len(NAMES) - len(bad)} of {len(NAMES)} names; not {', '.join(bad)}", Otherwise)
    return yes(f"{len(NAMES)} names with space, + = & % ' : @ and Unicode")


@CHECKS.add("objects", "overwrite and delete")
def delete(c: S3) -> Answer:
    key = c.key("delete")
    c.put(key, SMALL)
    c.put(key, SMALL[::-1])
    demand(c.holds(key, SMALL[::-1]), "the first content is read after the second was written")
    gone, twice = c.send("DELETE", key), c.send("DELETE", key)
    demand(gone.good, f"DELETE answered {said(gone)}")
    demand(c.send("GET", key).status == 404, f"DELETE answered {gone.status}, and the object is still read")
    demand(twice.good, f"a second DELETE answered {said(twice)}", Otherwise)
    return yes(f"{gone.status}, then 404; a second DELETE {twice.status}")


@CHECKS.add("objects", "copy")
def copy(c: S3) -> Answer:
    source, target = c.key("copy source"), c.key("copy-target")
    c.put(source, SMALL, headers={"x-amz-meta-probe-run": "kept"})
    made = c.send("PUT", target, headers={"x-amz-copy-source": f"/{c.bucket.name}/{path_of(source)}"})
    demand(made.good, f"answered {said(made)}")
    demand(not code(made), f"answered 200 with {code(made)}")
    got = c.send("GET", target)
    demand(got.body == SMALL, f"answered {made.status}, but the copy holds {len(got.body)} other bytes")
    mark = tree(made).findtext("ETag", "")
    kept = got.headers.get("x-amz-meta-probe-run") == "kept"
    demand(mark.strip('"') == etag(got), f"the answer's ETag {mark} is not the copy's {etag(got)}", Otherwise)
    demand(kept, "the metadata are not copied", Otherwise)
    return yes(
        f"{made.status}, bytes and metadata equal; ETag "
        f"{'quoted' if mark.startswith(chr(34)) else 'without quotes'} in the answer"
    )


@CHECKS.add("checksums", "ETag is the MD5")
def etag_is_md5(c: S3) -> Answer:
    """Of an object that was sent in one piece; told by PUT, GET, HEAD and the listing alike."""
    key, body = c.key("etag"), c.body[:10_000]
    seen = {"PUT": c.put(key, body).headers.get("etag")}
    seen |= {m: c.send(m, key).headers.get("etag") for m in ("GET", "HEAD")}
    seen["LIST"] = next((e.findtext("ETag") for page in c.pages(key) for e in page.iter("Contents")), None)
    bare = {(v or "").strip('"') for v in seen.values()}
    demand(bare != {""}, "no ETag")
    demand(
        bare == {md5(body)},
        f"ETags {', '.join(f'{m} {v}' for m, v in seen.items())}; the MD5 is {md5(body)}",
        Otherwise,
    )
    loose = [m for m, v in seen.items() if not (v or "").startswith('"')]
    demand(not loose, f"the MD5, but without quotes in {', '.join(loose)}", Otherwise)
    return yes("in PUT, GET, HEAD and LIST, quoted")


def _refused(c: S3, name: str, body: bytes, wrong: dict[str, str], what: str, payload: str | None = None) -> Answer:
    """A body that does not fit what was said of it must be refused, and must not be stored."""
    key = c.key(name)
    reply = c.send("PUT", key, body=body, headers=wrong, payload=payload)
    stored = c.send("GET", key).status == 200
    demand(not reply.good or not stored, f"a wrong {what} is accepted ({reply.status})")
    demand(not reply.good, f"answered {reply.status}, but nothing is stored", Otherwise)
    demand(not stored, f"refused with {said(reply)}, but the object is stored", Otherwise)
    demand(reply.status < 500, f"refused with {said(reply)}", Otherwise)
    return yes(f"a wrong one is refused: {said(reply)}")


@CHECKS.add("checksums", "Content-MD5 verified")
def content_md5(c: S3) -> Answer:
    c.put(c.key("md5-right"), SMALL, headers={"Content-MD5": md5_header(SMALL)})
    return _refused(c, "md5-wrong", SMALL, {"Content-MD5": md5_header(b"other")}, "Content-MD5")


@CHECKS.add("checksums", "SHA-256 of the payload verified")
def payload_sha256(c: S3) -> Answer:
    c.put(c.key("sha-right"), SMALL)
    return _refused(c, "sha-wrong", SMALL, {}, "x-amz-content-sha256", hashlib.sha256(b"other").hexdigest())


@CHECKS.add("checksums", "unsigned payload")
def unsigned_payload(c: S3) -> Answer:
    c.put(c.key("unsigned"), SMALL, payload=UNSIGNED)
    demand(c.holds(c.key("unsigned"), SMALL), "stored otherwise")
    return yes("UNSIGNED-PAYLOAD accepted")


def _crc(body: bytes) -> str:
    return b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


@CHECKS.add("checksums", "CRC32 verified")
def crc_verified(c: S3) -> Answer:
    c.put(c.key("crc-right"), SMALL, headers={"x-amz-checksum-crc32": _crc(SMALL)})
    return _refused(c, "crc-wrong", SMALL, {"x-amz-checksum-crc32": _crc(b"other")}, "x-amz-checksum-crc32")


@CHECKS.add("checksums", "CRC32 kept")
def crc_kept(c: S3) -> Answer:
    key = c.key("crc")
    c.put(key, SMALL, headers={"x-amz-checksum-crc32": _crc(SMALL)})
    got = c.send("HEAD", key, headers={"x-amz-checksum-mode": "ENABLED"}).headers.get("x-amz-checksum-crc32")
    demand(got is not None, "accepted, but HEAD with x-amz-checksum-mode does not tell it")
    demand(got == _crc(SMALL), f"told as {got} instead of {_crc(SMALL)}", Otherwise)
    return yes("told by HEAD with x-amz-checksum-mode")


@CHECKS.add("conditional", "put if absent")
def put_if_absent(c: S3) -> Answer:
    """`If-None-Match: *`"""
    key, star = c.key("if-absent"), {"If-None-Match": "*"}
    first = c.send("PUT", key, body=SMALL, headers=star)
    demand(first.good, f"a new object is refused: {said(first)}")
    second = c.send("PUT", key, body=b"intruder", headers=star)
    demand(c.holds(key, SMALL), f"an existing object is overwritten ({said(second)})")
    demand(second.status == 412, f"not overwritten, but answered {said(second)} instead of 412", Otherwise)
    return yes(f"new: {first.status}, existing: {said(second)}, its bytes untouched")


@CHECKS.add("conditional", "put if match")
def put_if_match(c: S3) -> Answer:
    """`If-Match: ETag`"""
    key = c.key("if-match")
    mark = c.put(key, SMALL).headers.get("etag", "")
    wrong = c.send("PUT", key, body=b"intruder", headers={"If-Match": f'"{md5(b"other")}"'})
    demand(c.holds(key, SMALL), f"overwritten although the ETag differs ({said(wrong)})")
    demand(wrong.status == 412, f"not overwritten, but answered {said(wrong)} instead of 412", Otherwise)
    right = c.send("PUT", key, body=SMALL[::-1], headers={"If-Match": mark})
    if not right.good:
        bare = c.send("PUT", key, body=SMALL[::-1], headers={"If-Match": mark.strip('"')})
        demand(bare.good, f"other ETag: {said(wrong)}, but the object's own is refused too: {said(right)}", Otherwise)
        demand(
            not bare.good,
            (
                f"other ETag: {said(wrong)}; the object's own is refused as it was told ({said(right)}), taken "
                "without quotes"
            ),
            Otherwise,
        )
    demand(c.holds(key, SMALL[::-1]), "the right ETag is accepted, but the object is not replaced", Otherwise)
    return yes(f"other ETag: {said(wrong)}, its bytes untouched; same: {right.status}")


def _conditional_get(c: S3, name: str, value: str | None, status: int) -> Answer:
    """GET under a condition that fails for the known object: `status` and no byte. value None: what the object itself
    bears."""
    if value is None:
        value = c.send("HEAD", c.known).headers.get("etag" if name == "If-None-Match" else "last-modified", "")
    got = c.send("GET", c.known, headers={name: value})
    if got.status == 200 and got.body == c.body:
        return Answer(NO, "ignored: 200 and the whole object")
    demand(got.status == status, f"answered {said(got)} instead of {status}", Otherwise)
    demand(len(got.body) < 10_000, f"{status} with {len(got.body)} bytes", Otherwise)
    return yes(f"{status}")


CHECKS.add("conditional", "get if none match", "If-None-Match", None, 304)(_conditional_get)
CHECKS.add("conditional", "get if match", "If-Match", f'"{md5(b"other")}"', 412)(_conditional_get)
CHECKS.add("conditional", "get if modified since", "If-Modified-Since", None, 304)(_conditional_get)
CHECKS.add("conditional", "get if unmodified since", "If-Unmodified-Since", PAST, 412)(_conditional_get)
