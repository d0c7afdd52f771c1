"""Ask an S3 store about objects: content, metadata, names, ETag, checksums, conditions, copy.

Other questions are about listings and their pages, multi-object delete, and multipart upload.
"""

import hashlib
import zlib
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from readplan.transports import range_header
from storelab.workloads.probe import byteranges
from storelab.workloads.probe.answers import Answer, NotTried, Otherwise, Questions, confirm, demand
from storelab.workloads.probe.byteranges import CONDITIONAL, NAMES, names_work, unfit_names
from storelab.workloads.probe.context import SMALL, overwritten
from storelab.workloads.probe.plain_http import Reply, error_code, md5_header, require_status, status_text
from storelab.workloads.probe.s3.requests import MANY, PAGE, S3, XML, etag, keys_in, md5, tree
from storelab.workloads.probe.signing import UNSIGNED, path_of


def put_get_head(c: S3) -> Answer:
    """Check that an object is read back unchanged, and that HEAD returns its size and type."""
    key = c.stored("object", headers={"Content-Type": "application/x-probe"})
    got, head = c.send("GET", key), c.send("HEAD", key)
    demand(got.holds(SMALL), f"GET answered {status_text(got)} with {len(got.body)} bytes")
    demand(head.status == 200, f"HEAD answered {head.status}")
    demand(
        head.headers.get("content-length") == str(len(SMALL)),
        f"HEAD reports {head.headers.get('content-length')} bytes",
        Otherwise,
    )
    kind = head.headers.get("content-type")
    demand(kind == "application/x-probe", f"Content-Type is returned as {kind}", Otherwise)
    return confirm(f"200, {len(SMALL)} bytes, Accept-Ranges: {head.headers.get('accept-ranges', 'not sent')}")


def missing(c: S3) -> Answer:
    """Check that GET and HEAD of an object that does not exist answer 404, with the code NoSuchKey."""
    got, head = c.send("GET", c.key("never-written")), c.send("HEAD", c.key("never-written"))
    demand(got.status == head.status == 404, f"GET {status_text(got)}, HEAD {head.status} instead of 404", Otherwise)
    demand(error_code(got.body) == "NoSuchKey", f"404 with code {error_code(got.body)!r}", Otherwise)
    return confirm("404 NoSuchKey; HEAD 404")


def metadata(c: S3) -> Answer:
    """Check that user metadata (`x-amz-meta-`) are returned by HEAD."""
    key = c.stored("metadata", headers={"x-amz-meta-probe-run": "Some Value 17"})
    got = c.send("HEAD", key).headers.get("x-amz-meta-probe-run")
    demand(got is not None, "not returned")
    demand(got == "Some Value 17", f"returned as {got!r}", Otherwise)
    return confirm("x-amz-meta- kept")


def names(c: S3) -> Answer:
    """Check that objects are written, read and listed under the same name."""
    bad = unfit_names(c)
    listed = {k for page in c.pages(c.key("names-")) for k in keys_in(page)}
    unlisted = [n for n in NAMES if c.key(f"names-{n}") not in listed and not any(repr(n) in b for b in bad)]
    return names_work(bad + [f"{n!r} is not listed under its name" for n in unlisted])


def delete(c: S3) -> Answer:
    """Check that an object cannot be read after DELETE, and that a second DELETE succeeds."""
    key = c.key("delete")
    overwritten(c, key)
    gone, twice = c.send("DELETE", key), c.send("DELETE", key)
    demand(gone.good, f"DELETE answered {status_text(gone)}")
    demand(c.send("GET", key).status == 404, f"DELETE answered {gone.status}, but the object can still be read")
    demand(twice.good, f"a second DELETE answered {status_text(twice)}", Otherwise)
    return confirm(f"{gone.status}, then 404; a second DELETE {twice.status}")


def copy(c: S3) -> Answer:
    """Check that a server-side copy has the same content and metadata, and the ETag that the answer contains."""
    source, target = c.stored("copy source", headers={"x-amz-meta-probe-run": "kept"}), c.key("copy-target")
    made = c.send("PUT", target, headers={"x-amz-copy-source": f"/{c.bucket.name}/{path_of(source)}"})
    demand(made.good and not error_code(made.body), f"answered {status_text(made)}")
    got = c.send("GET", target)
    demand(got.body == SMALL, f"answered {made.status}, but the copy has {len(got.body)} other bytes")
    mark = tree(made).findtext("ETag", "")
    kept = got.headers.get("x-amz-meta-probe-run") == "kept"
    demand(mark.strip('"') == etag(got), f"the answer's ETag {mark} is not the copy's {etag(got)}", Otherwise)
    demand(kept, "the metadata were not copied", Otherwise)
    return confirm(
        f"{made.status}, bytes and metadata equal; ETag "
        f"{'quoted' if mark.startswith(chr(34)) else 'without quotes'} in the answer"
    )


def etag_is_md5(c: S3) -> Answer:
    """Check the ETag of an object that was sent in one piece, in the answers to PUT, GET, HEAD and the listing."""
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
    return confirm("in PUT, GET, HEAD and LIST, quoted")


def _refused(c: S3, name: str, body: bytes, wrong: dict[str, str], what: str, payload: str | None = None) -> Answer:
    """Check that a body that does not match its header is rejected and not stored."""
    key = c.key(name)
    reply = c.send("PUT", key, body=body, headers=wrong, payload=payload)
    stored = c.send("GET", key).status == 200
    demand(not reply.good or not stored, f"a wrong {what} is accepted ({reply.status})")
    demand(not reply.good, f"answered {reply.status}, but nothing is stored", Otherwise)
    demand(not stored, f"refused with {status_text(reply)}, but the object is stored", Otherwise)
    demand(reply.status < 500, f"refused with {status_text(reply)}", Otherwise)
    return confirm(f"a wrong one is refused: {status_text(reply)}")


def content_md5(c: S3) -> Answer:
    """Check that an upload with a wrong Content-MD5 is rejected."""
    c.stored("md5-right", headers={"Content-MD5": md5_header(SMALL)})
    return _refused(c, "md5-wrong", SMALL, {"Content-MD5": md5_header(b"other")}, "Content-MD5")


def payload_sha256(c: S3) -> Answer:
    """Check that an upload with a wrong `x-amz-content-sha256` is rejected."""
    c.stored("sha-right")
    return _refused(c, "sha-wrong", SMALL, {}, "x-amz-content-sha256", hashlib.sha256(b"other").hexdigest())


def unsigned_payload(c: S3) -> Answer:
    """Check that an upload without a signed payload is stored unchanged."""
    demand(c.holds(c.stored("unsigned", payload=UNSIGNED), SMALL), "stored with other bytes")
    return confirm("UNSIGNED-PAYLOAD accepted")


def _crc(body: bytes) -> str:
    return b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def crc_verified(c: S3) -> Answer:
    """Check that an upload with a wrong CRC32 is rejected."""
    c.stored("crc-right", headers={"x-amz-checksum-crc32": _crc(SMALL)})
    return _refused(c, "crc-wrong", SMALL, {"x-amz-checksum-crc32": _crc(b"other")}, "x-amz-checksum-crc32")


def crc_kept(c: S3) -> Answer:
    """Check that HEAD returns the CRC32 that was sent with the upload."""
    key = c.stored("crc", headers={"x-amz-checksum-crc32": _crc(SMALL)})
    got = c.send("HEAD", key, headers={"x-amz-checksum-mode": "ENABLED"}).headers.get("x-amz-checksum-crc32")
    demand(got is not None, "accepted, but HEAD with x-amz-checksum-mode does not return it")
    demand(got == _crc(SMALL), f"returned as {got} instead of {_crc(SMALL)}", Otherwise)
    return confirm("returned by HEAD with x-amz-checksum-mode")


def put_if_match(c: S3) -> Answer:
    """Check that a PUT with `If-Match` replaces an object only if its ETag matches."""
    key = c.key("if-match")
    mark = c.put(key, SMALL).headers.get("etag", "")
    wrong = c.send("PUT", key, body=b"intruder", headers={"If-Match": f'"{md5(b"other")}"'})
    demand(c.holds(key, SMALL), f"overwritten although the ETag differs ({status_text(wrong)})")
    demand(wrong.status == 412, f"not overwritten, but answered {status_text(wrong)} instead of 412", Otherwise)
    right = c.send("PUT", key, body=SMALL[::-1], headers={"If-Match": mark})
    if not right.good:
        bare = c.send("PUT", key, body=SMALL[::-1], headers={"If-Match": mark.strip('"')})
        how = (
            f"as returned ({status_text(right)}), accepted without quotes"
            if bare.good
            else f"too: {status_text(right)}"
        )
        raise Otherwise(f"other ETag: {status_text(wrong)}; the object's own is refused {how}")
    demand(c.holds(key, SMALL[::-1]), "the right ETag is accepted, but the object is not replaced", Otherwise)
    return confirm(f"other ETag: {status_text(wrong)}, its bytes unchanged; same: {right.status}")


PART = 5 * 2**20  # minimum bytes of a part that is not the last one


def _listed(c: S3, version: int, **more: str) -> Answer:
    """Check that a listing of many keys, page by page, returns every key in order."""
    wanted = sorted(c.many)
    found = [keys_in(page) for page in c.pages(c.key("list/"), version=version, **more)]
    names, lengths = [k for page in found for k in page], [len(page) for page in found]
    demand(set(names) == set(wanted), f"{len(set(names) & set(wanted))} of {MANY} keys in {len(lengths)} pages")
    demand(len(names) == MANY, f"{len(names)} entries for {MANY} keys: some are listed twice", Otherwise)
    demand(names == wanted, "every key, but not in the order of their bytes", Otherwise)
    most = int(more.get("max-keys", PAGE))
    demand(max(lengths) <= most, f"a page of {max(lengths)} keys instead of at most {most}", Otherwise)
    shown = ", ".join(map(str, lengths[:3])) + (f" … {lengths[-1]}" if len(lengths) > 3 else "")
    return confirm(
        f"{MANY} keys in order, {len(lengths)} page{'s' if len(lengths) > 1 else ''} of {shown}", pages=len(lengths)
    )


def small_pages(c: S3) -> Answer:
    """Check that a listing in pages of 100 keys is complete."""
    answer = _listed(c, 2, **{"max-keys": "100"})
    demand(answer.detail["pages"] >= 11, f"max-keys=100 is ignored: {answer.evidence}", Otherwise)
    return answer


def start_after(c: S3) -> Answer:
    """Check that a listing begins after the key given as `start-after`."""
    names = sorted(c.many)
    found = [k for page in c.pages(c.key("list/"), **{"start-after": names[499]}) for k in keys_in(page)]
    demand(found == names[500:], f"{len(found)} keys instead of the {MANY - 500} after the 500th")
    return confirm(f"the {MANY - 500} keys after the 500th")


def delimiter(c: S3) -> Answer:
    """Check that folders of keys, up to '/', are listed instead of the keys below them."""
    folders = sorted({k.rpartition("/")[0] + "/" for k in c.many})
    pages = list(c.pages(c.key("list/"), delimiter="/"))
    found = [p.findtext("Prefix", "") for page in pages for p in page.iter("CommonPrefixes")]
    keys = [k for page in pages for k in keys_in(page)]
    demand(
        sorted(found) == folders,
        f"{len(set(found) & set(folders))} of {len(folders)} common prefixes, and {len(keys)} keys",
    )
    demand(not keys, f"{len(folders)} common prefixes, but also {len(keys)} keys", Otherwise)
    demand(found == folders, "the common prefixes are not in order", Otherwise)
    below = [k for page in c.pages(folders[0], delimiter="/") for k in keys_in(page)]
    demand(
        below == [k for k in sorted(c.many) if k.startswith(folders[0])],
        "the keys below one of them are not listed",
        Otherwise,
    )
    return confirm(f"{len(folders)} common prefixes, {len(below)} keys below the first")


def _deleted_count(c: S3, names: list[str]) -> int:
    """Return the number of deleted keys, determined by a listing and by HEAD of the first and the last key."""
    left = {k for page in c.pages(c.key("list/")) for k in keys_in(page)}
    left |= {k for k in (names[0], names[-1]) if c.send("HEAD", k).status != 404}
    return len([k for k in names if k not in left])


def too_many(c: S3) -> Answer:
    """Check a request for 1001 keys. Amazon accepts 1000 and rejects more, and some servers accept any number.

    Neither is a fault.
    """
    names = c.many
    reply = c.delete_many(names)
    gone = _deleted_count(c, names)
    if gone:
        c.forget_many()
    demand(reply.status != 200 or gone == MANY, f"answered 200, but only {gone} of {MANY} are gone", Otherwise)
    demand(reply.status == 200, f"refused with {status_text(reply)}, {gone} are gone")
    return confirm(f"{MANY} keys in one request are gone: no limit of {PAGE}")


def thousand(c: S3) -> Answer:
    """Check that one request deletes 1000 objects."""
    names = c.many[:PAGE]
    c.forget_many()
    reply = require_status(c.delete_many(names), status=200)
    errors = [e.findtext("Code", "") for e in tree(reply).iter("Error")] if reply.body.strip() else []
    demand(not errors, f"{len(errors)} keys are not deleted: {errors[:1]}")
    gone = _deleted_count(c, names)
    demand(gone == PAGE, f"answered 200, but only {gone} of {PAGE} are gone", Otherwise)
    return confirm(f"{PAGE} keys in one request are gone")


# Multipart upload: begin, send parts, list, complete, and abort.


def _begin(c: S3, key: str) -> str:
    upload = tree(require_status(c.send("POST", key, query={"uploads": ""}), "beginning", 200)).findtext("UploadId", "")
    demand(bool(upload), "no UploadId in the answer")
    return upload


@contextmanager
def _aborted_upload(c: S3, key: str) -> Iterator[str]:
    """Yield the id of an upload that is aborted at the end."""
    upload = _begin(c, key)
    try:
        yield upload
    finally:
        c.send("DELETE", key, query={"uploadId": upload})


def _part(c: S3, key: str, upload: str, number: int, body: bytes) -> str:
    reply = c.send("PUT", key, query={"partNumber": str(number), "uploadId": upload}, body=body)
    return require_status(reply, f"part {number}").headers.get("etag", "")


def _complete(c: S3, key: str, upload: str, marks: list[str]) -> Reply:
    parts = "".join(f"<Part><PartNumber>{i}</PartNumber><ETag>{m}</ETag></Part>" for i, m in enumerate(marks, 1))
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    return c.send("POST", key, query={"uploadId": upload}, body=body, headers=XML)


def _completed(reply: Reply) -> None:
    """Raise Refuted for an error. A server can still report an error after it began to answer 200."""
    demand(reply.status == 200 and not error_code(reply.body), f"completing answered {status_text(reply)}")


def _body(c: S3) -> bytes:
    return (c.body * (1 + (PART + 10_000) // len(c.body)))[: PART + 10_000]


def upload(c: S3) -> Answer:
    """Check that a multipart upload of two parts is stored unchanged, and is not visible before it is complete."""
    key, body = c.key("multipart"), _body(c)
    begun = _begin(c, key)
    marks = [_part(c, key, begun, 1, body[:PART]), _part(c, key, begun, 2, body[PART:])]
    demand(c.send("HEAD", key).status == 404, "the object exists before the upload is complete", Otherwise)
    _completed(_complete(c, key, begun, marks))
    got = c.send("GET", key)
    demand(got.holds(body), f"GET answered {status_text(got)} with {len(got.body)} bytes, which differ from the upload")
    return confirm(f"2 parts, {len(body)} bytes (CRC32 {zlib.crc32(got.body):08x}) as sent, ETag {etag(got)[-6:]}")


def multipart_etag(c: S3) -> Answer:
    """Check the ETag: the MD5 of the parts' MD5s, '-' and their number. Clients use it to verify an upload."""
    body = _body(c)
    got = c.send("HEAD", c.key("multipart"))
    demand(got.status == 200, "the multipart object does not exist", NotTried)
    wanted = md5(bytes.fromhex(md5(body[:PART])) + bytes.fromhex(md5(body[PART:]))) + "-2"
    demand(etag(got) == wanted, f"{etag(got)} instead of {wanted}", Otherwise)
    return confirm(f"MD5 of the MD5s, '-2': {wanted[-8:]}")


def range_over_parts(c: S3) -> Answer:
    """Check that a range across the border of two parts returns the right bytes."""
    body, requested = _body(c), (PART - 1000, PART + 999)
    reply = c.send("GET", c.key("multipart"), headers={"Range": range_header([requested])})
    demand(reply.status != 404, "the multipart object does not exist", NotTried)
    return byteranges.judge(reply.status, reply.headers, reply.body, body, [requested]).answer()


def parts_listed(c: S3) -> Answer:
    """Check that the parts of an unfinished upload are listed with number, size and ETag."""
    key = c.key("parts")
    with _aborted_upload(c, key) as begun:
        bodies = [c.body[:PART][:100_000], c.body[:5000], c.body[:7]]
        marks = [_part(c, key, begun, i, b) for i, b in enumerate(bodies, 1)]
        reply = require_status(c.send("GET", key, query={"uploadId": begun}), status=200)
        got = [
            (p.findtext("PartNumber"), p.findtext("Size"), p.findtext("ETag", "").strip('"'))
            for p in tree(reply).iter("Part")
        ]
        wanted = [(str(i), str(len(b)), m.strip('"')) for i, (b, m) in enumerate(zip(bodies, marks, strict=True), 1)]
        demand(
            got == wanted,
            f"{len(got)} parts are listed, but not with the numbers, sizes and ETags of the 3 sent parts",
            Otherwise,
        )
        return confirm("3 parts with number, size and ETag")


def uploads_listed(c: S3) -> Answer:
    """Check that an unfinished upload is listed."""
    key = c.key("begun")
    with _aborted_upload(c, key) as begun:
        reply = require_status(c.send("GET", query={"uploads": "", "prefix": key}), status=200)
        got = [(u.findtext("Key"), u.findtext("UploadId")) for u in tree(reply).iter("Upload")]
        demand((key, begun) in got, f"{len(got)} uploads are listed, but not the new one")
        return confirm(f"listed, {len(got)} below its key")


def abort(c: S3) -> Answer:
    """Check that the parts, the upload and the object do not exist after an abort."""
    key = c.key("abort")
    begun = _begin(c, key)
    mark = _part(c, key, begun, 1, c.body[:100_000])
    reply = require_status(c.send("DELETE", key, query={"uploadId": begun}))
    late = c.send("PUT", key, query={"partNumber": "2", "uploadId": begun}, body=b"late")
    parts, head = c.send("GET", key, query={"uploadId": begun}), c.send("HEAD", key)
    demand(head.status == 404, "the object exists after the abort")
    demand(parts.status == 404, f"its parts are still listed ({status_text(parts)})", Otherwise)
    demand(not late.good, f"a part is still accepted ({late.status})", Otherwise)
    done = _complete(c, key, begun, [mark])
    demand(c.send("HEAD", key).status == 404, f"it can still be completed ({status_text(done)})")
    return confirm(f"{reply.status}; its parts {status_text(parts)}, a late part {status_text(late)}")


def part_by_copy(c: S3) -> Answer:
    """Check that a part can be copied from a range of another object."""
    key = c.key("part-by-copy")
    with _aborted_upload(c, key) as begun:
        headers = {
            "x-amz-copy-source": f"/{c.bucket.name}/{path_of(c.known)}",
            "x-amz-copy-source-range": "bytes=1000-60999",
        }
        reply = c.send("PUT", key, query={"partNumber": "1", "uploadId": begun}, headers=headers)
        demand(reply.good and not error_code(reply.body), f"answered {status_text(reply)}")
        _completed(_complete(c, key, begun, [tree(reply).findtext("ETag", "")]))
        demand(c.holds(key, c.body[1000:61000]), "the object differs from the copied range", Otherwise)
        return confirm("60000 bytes of another object as a part")


OBJECTS: Questions = {
    ("objects", "put, get, head"): put_get_head,
    ("objects", "missing object"): missing,
    ("objects", "user metadata"): metadata,
    ("objects", "key names"): names,
    ("objects", "overwrite and delete"): delete,
    ("objects", "copy"): copy,
    ("checksums", "ETag is the MD5"): etag_is_md5,
    ("checksums", "Content-MD5 verified"): content_md5,
    ("checksums", "SHA-256 of the payload verified"): payload_sha256,
    ("checksums", "unsigned payload"): unsigned_payload,
    ("checksums", "CRC32 verified"): crc_verified,
    ("checksums", "CRC32 kept"): crc_kept,
    **CONDITIONAL,
    ("conditional", "put if match"): put_if_match,
}
LISTING: Questions = {
    ("listing", "version 2, beyond 1000 keys"): partial(_listed, version=2),
    ("listing", "version 1, beyond 1000 keys"): partial(_listed, version=1),
    ("listing", "pages of 100 keys"): small_pages,
    ("listing", "start after a key"): start_after,
    ("listing", "delimiter"): delimiter,
}
DELETE: Questions = {
    ("delete", "1001 keys at once"): too_many,
    ("delete", "1000 keys at once"): thousand,
}
MULTIPART: Questions = {
    ("multipart", "upload"): upload,
    ("multipart", "ETag of parts"): multipart_etag,
    ("multipart", "range over a part's end"): range_over_parts,
    ("multipart", "parts listed"): parts_listed,
    ("multipart", "uploads listed"): uploads_listed,
    ("multipart", "abort"): abort,
    ("multipart", "part by copy"): part_by_copy,
}
