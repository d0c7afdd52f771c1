"""Questions to an S3 store about single objects: content, metadata, names, ETag, checksums, conditions, copy."""

import hashlib
import zlib
from base64 import b64encode

from storelab.workloads.probe.answers import Answer, Checks, Otherwise, demand, yes
from storelab.workloads.probe.context import SMALL, overwritten
from storelab.workloads.probe.http_ranges import CONDITIONAL, NAMES, names_work, unfit_names
from storelab.workloads.probe.plain_http import error_code, md5_header, said
from storelab.workloads.probe.s3.requests import S3, etag, keys_in, md5, tree
from storelab.workloads.probe.signing import UNSIGNED, path_of

CHECKS = Checks()


@CHECKS.add("objects", "put, get, head")
def put_get_head(c: S3) -> Answer:
    key = c.stored("object", headers={"Content-Type": "application/x-probe"})
    got, head = c.send("GET", key), c.send("HEAD", key)
    demand(got.holds(SMALL), f"GET answered {said(got)} with {len(got.body)} bytes")
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
    demand(error_code(got.body) == "NoSuchKey", f"404 with code {error_code(got.body)!r}", Otherwise)
    return yes("404 NoSuchKey; HEAD 404")


@CHECKS.add("objects", "user metadata")
def metadata(c: S3) -> Answer:
    key = c.stored("metadata", headers={"x-amz-meta-probe-run": "Some Value 17"})
    got = c.send("HEAD", key).headers.get("x-amz-meta-probe-run")
    demand(got is not None, "not sent back")
    demand(got == "Some Value 17", f"came back as {got!r}", Otherwise)
    return yes("x-amz-meta- kept")


@CHECKS.add("objects", "key names")
def names(c: S3) -> Answer:
    """Written, read and listed under the same name."""
    bad = unfit_names(c)
    listed = {k for page in c.pages(c.key("names-")) for k in keys_in(page)}
    unlisted = [n for n in NAMES if c.key(f"names-{n}") not in listed and not any(repr(n) in b for b in bad)]
    return names_work(bad + [f"{n!r} is not listed under its name" for n in unlisted])


@CHECKS.add("objects", "overwrite and delete")
def delete(c: S3) -> Answer:
    key = c.key("delete")
    overwritten(c, key)
    gone, twice = c.send("DELETE", key), c.send("DELETE", key)
    demand(gone.good, f"DELETE answered {said(gone)}")
    demand(c.send("GET", key).status == 404, f"DELETE answered {gone.status}, and the object is still read")
    demand(twice.good, f"a second DELETE answered {said(twice)}", Otherwise)
    return yes(f"{gone.status}, then 404; a second DELETE {twice.status}")


@CHECKS.add("objects", "copy")
def copy(c: S3) -> Answer:
    source, target = c.stored("copy source", headers={"x-amz-meta-probe-run": "kept"}), c.key("copy-target")
    made = c.send("PUT", target, headers={"x-amz-copy-source": f"/{c.bucket.name}/{path_of(source)}"})
    demand(made.good and not error_code(made.body), f"answered {said(made)}")
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
    c.stored("md5-right", headers={"Content-MD5": md5_header(SMALL)})
    return _refused(c, "md5-wrong", SMALL, {"Content-MD5": md5_header(b"other")}, "Content-MD5")


@CHECKS.add("checksums", "SHA-256 of the payload verified")
def payload_sha256(c: S3) -> Answer:
    c.stored("sha-right")
    return _refused(c, "sha-wrong", SMALL, {}, "x-amz-content-sha256", hashlib.sha256(b"other").hexdigest())


@CHECKS.add("checksums", "unsigned payload")
def unsigned_payload(c: S3) -> Answer:
    demand(c.holds(c.stored("unsigned", payload=UNSIGNED), SMALL), "stored otherwise")
    return yes("UNSIGNED-PAYLOAD accepted")


def _crc(body: bytes) -> str:
    return b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


@CHECKS.add("checksums", "CRC32 verified")
def crc_verified(c: S3) -> Answer:
    c.stored("crc-right", headers={"x-amz-checksum-crc32": _crc(SMALL)})
    return _refused(c, "crc-wrong", SMALL, {"x-amz-checksum-crc32": _crc(b"other")}, "x-amz-checksum-crc32")


@CHECKS.add("checksums", "CRC32 kept")
def crc_kept(c: S3) -> Answer:
    key = c.stored("crc", headers={"x-amz-checksum-crc32": _crc(SMALL)})
    got = c.send("HEAD", key, headers={"x-amz-checksum-mode": "ENABLED"}).headers.get("x-amz-checksum-crc32")
    demand(got is not None, "accepted, but HEAD with x-amz-checksum-mode does not tell it")
    demand(got == _crc(SMALL), f"told as {got} instead of {_crc(SMALL)}", Otherwise)
    return yes("told by HEAD with x-amz-checksum-mode")


CHECKS += CONDITIONAL


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
        how = f"as it was told ({said(right)}), taken without quotes" if bare.good else f"too: {said(right)}"
        raise Otherwise(f"other ETag: {said(wrong)}; the object's own is refused {how}")
    demand(c.holds(key, SMALL[::-1]), "the right ETag is accepted, but the object is not replaced", Otherwise)
    return yes(f"other ETag: {said(wrong)}, its bytes untouched; same: {right.status}")
