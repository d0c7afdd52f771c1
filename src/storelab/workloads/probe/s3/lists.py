"""Questions to an S3 store about many objects: listings and their pages, multi-object delete, multipart upload."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from storelab.readplan.transports import range_header
from storelab.workloads.probe import multirange
from storelab.workloads.probe.answers import Answer, Checks, NotTried, Otherwise, demand, yes
from storelab.workloads.probe.plain_http import Reply, answered, error_code, said
from storelab.workloads.probe.s3.requests import MANY, PAGE, S3, XML, etag, keys_in, md5, tree
from storelab.workloads.probe.signing import path_of

LISTING, DELETE, MULTIPART = Checks(), Checks(), Checks()
PART = 5 * 2**20  # bytes: the smallest part that is not the last


def _listed(c: S3, version: int, **more: str) -> Answer:
    """All keys of the many, in the order of the pages."""
    wanted = sorted(c.many)
    found = [keys_in(page) for page in c.pages(c.key("list/"), version=version, **more)]
    names, lengths = [k for page in found for k in page], [len(page) for page in found]
    demand(set(names) == set(wanted), f"{len(set(names) & set(wanted))} of {MANY} keys in {len(lengths)} pages")
    demand(len(names) == MANY, f"{len(names)} entries for {MANY} keys: some come twice", Otherwise)
    demand(names == wanted, "every key, but not in the order of their bytes", Otherwise)
    most = int(more.get("max-keys", PAGE))
    demand(max(lengths) <= most, f"a page of {max(lengths)} keys where {most} are the most", Otherwise)
    shown = ", ".join(map(str, lengths[:3])) + (f" … {lengths[-1]}" if len(lengths) > 3 else "")
    return yes(
        f"{MANY} keys in order, {len(lengths)} page{'s' if len(lengths) > 1 else ''} of {shown}", pages=len(lengths)
    )


LISTING.add("listing", "version 2, beyond 1000 keys", 2)(_listed)
LISTING.add("listing", "version 1, beyond 1000 keys", 1)(_listed)


@LISTING.add("listing", "pages of 100 keys")
def small_pages(c: S3) -> Answer:
    answer = _listed(c, 2, **{"max-keys": "100"})
    demand(answer.detail["pages"] >= 11, f"max-keys=100 is ignored: {answer.evidence}", Otherwise)
    return answer


@LISTING.add("listing", "start after a key")
def start_after(c: S3) -> Answer:
    names = sorted(c.many)
    found = [k for page in c.pages(c.key("list/"), **{"start-after": names[499]}) for k in keys_in(page)]
    demand(found == names[500:], f"{len(found)} keys instead of the {MANY - 500} behind the 500th")
    return yes(f"the {MANY - 500} keys behind the 500th")


@LISTING.add("listing", "delimiter")
def delimiter(c: S3) -> Answer:
    """Folders of keys: the begins up to '/' instead of the keys below them."""
    folders = sorted({k.rpartition("/")[0] + "/" for k in c.many})
    pages = list(c.pages(c.key("list/"), delimiter="/"))
    found = [p.findtext("Prefix", "") for page in pages for p in page.iter("CommonPrefixes")]
    keys = [k for page in pages for k in keys_in(page)]
    demand(
        sorted(found) == folders,
        f"{len(set(found) & set(folders))} of {len(folders)} common prefixes, {len(keys)} keys beside them",
    )
    demand(not keys, f"{len(folders)} common prefixes, but {len(keys)} keys beside them", Otherwise)
    demand(found == folders, "the common prefixes are not in order", Otherwise)
    below = [k for page in c.pages(folders[0], delimiter="/") for k in keys_in(page)]
    demand(
        below == [k for k in sorted(c.many) if k.startswith(folders[0])],
        "below one of them, its keys are not listed",
        Otherwise,
    )
    return yes(f"{len(folders)} common prefixes, {len(below)} keys below the first")


def _gone(c: S3, names: list[str]) -> int:
    """How many of the keys are there no more, by listing and by asking for the first and the last."""
    left = {k for page in c.pages(c.key("list/")) for k in keys_in(page)}
    left |= {k for k in (names[0], names[-1]) if c.send("HEAD", k).status != 404}
    return len([k for k in names if k not in left])


@DELETE.add("delete", "1001 keys at once")
def too_many(c: S3) -> Answer:
    """Amazon takes 1000 and refuses more; some take any number. Both are told, neither is a fault."""
    names = c.many
    reply = c.delete_many(names)
    gone = _gone(c, names)
    if gone:
        c.forget_many()
    demand(reply.status != 200 or gone == MANY, f"answered 200, but only {gone} of {MANY} are gone", Otherwise)
    demand(reply.status == 200, f"refused with {said(reply)}, {gone} are gone")
    return yes(f"{MANY} keys in one request are gone: no bound at {PAGE}")


@DELETE.add("delete", "1000 keys at once")
def thousand(c: S3) -> Answer:
    names = c.many[:PAGE]
    c.forget_many()
    reply = answered(c.delete_many(names), status=200)
    errors = [e.findtext("Code", "") for e in tree(reply).iter("Error")] if reply.body.strip() else []
    demand(not errors, f"{len(errors)} keys are not deleted: {errors[:1]}")
    gone = _gone(c, names)
    demand(gone == PAGE, f"answered 200, but only {gone} of {PAGE} are gone", Otherwise)
    return yes(f"{PAGE} keys in one request are gone")


# Multipart upload: begun, filled, listed, completed; and given up.


def _begin(c: S3, key: str) -> str:
    upload = tree(answered(c.send("POST", key, query={"uploads": ""}), "beginning", 200)).findtext("UploadId", "")
    demand(bool(upload), "no UploadId in the answer")
    return upload


@contextmanager
def _given_up(c: S3, key: str) -> Iterator[str]:
    """The id of an upload that is aborted at the end."""
    upload = _begin(c, key)
    try:
        yield upload
    finally:
        c.send("DELETE", key, query={"uploadId": upload})


def _part(c: S3, key: str, upload: str, number: int, body: bytes) -> str:
    reply = c.send("PUT", key, query={"partNumber": str(number), "uploadId": upload}, body=body)
    return answered(reply, f"part {number}").headers.get("etag", "")


def _complete(c: S3, key: str, upload: str, marks: list[str]) -> Reply:
    parts = "".join(f"<Part><PartNumber>{i}</PartNumber><ETag>{m}</ETag></Part>" for i, m in enumerate(marks, 1))
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    return c.send("POST", key, query={"uploadId": upload}, body=body, headers=XML)


def _completed(reply: Reply) -> None:
    """A server that has begun to answer 200 can still tell of an error. Raises Refuted."""
    demand(reply.status == 200 and not error_code(reply.body), f"completing answered {said(reply)}")


def _body(c: S3) -> bytes:
    return (c.body * (1 + (PART + 10_000) // len(c.body)))[: PART + 10_000]


@MULTIPART.add("multipart", "upload")
def upload(c: S3) -> Answer:
    key, body = c.key("multipart"), _body(c)
    begun = _begin(c, key)
    marks = [_part(c, key, begun, 1, body[:PART]), _part(c, key, begun, 2, body[PART:])]
    demand(c.send("HEAD", key).status == 404, "the object is there before the upload is complete", Otherwise)
    _completed(_complete(c, key, begun, marks))
    got = c.send("GET", key)
    demand(got.holds(body), f"GET answered {said(got)} with {len(got.body)} bytes, not what was sent")
    return yes(f"2 parts, {len(body)} bytes (CRC32 {zlib.crc32(got.body):08x}) as sent, ETag {etag(got)[-6:]}")


@MULTIPART.add("multipart", "ETag of parts")
def multipart_etag(c: S3) -> Answer:
    """MD5 of the parts' MD5s, then '-' and their number: what clients verify an upload with."""
    body = _body(c)
    got = c.send("HEAD", c.key("multipart"))
    demand(got.status == 200, "there is no object of parts", NotTried)
    wanted = md5(bytes.fromhex(md5(body[:PART])) + bytes.fromhex(md5(body[PART:]))) + "-2"
    demand(etag(got) == wanted, f"{etag(got)} instead of {wanted}", Otherwise)
    return yes(f"MD5 of the MD5s, '-2': {wanted[-8:]}")


@MULTIPART.add("multipart", "range over a part's end")
def range_over_parts(c: S3) -> Answer:
    body, asked = _body(c), (PART - 1000, PART + 999)
    reply = c.send("GET", c.key("multipart"), headers={"Range": range_header([asked])})
    demand(reply.status != 404, "there is no object of parts", NotTried)
    return multirange.judge(reply.status, reply.headers, reply.body, body, [asked]).answer()


@MULTIPART.add("multipart", "parts listed")
def parts_listed(c: S3) -> Answer:
    key = c.key("parts")
    with _given_up(c, key) as begun:
        bodies = [c.body[:PART][:100_000], c.body[:5000], c.body[:7]]
        marks = [_part(c, key, begun, i, b) for i, b in enumerate(bodies, 1)]
        reply = answered(c.send("GET", key, query={"uploadId": begun}), status=200)
        got = [
            (p.findtext("PartNumber"), p.findtext("Size"), p.findtext("ETag", "").strip('"'))
            for p in tree(reply).iter("Part")
        ]
        wanted = [(str(i), str(len(b)), m.strip('"')) for i, (b, m) in enumerate(zip(bodies, marks, strict=True), 1)]
        demand(
            got == wanted, f"{len(got)} parts listed, not with the numbers, sizes and ETags of the 3 sent", Otherwise
        )
        return yes("3 parts with number, size and ETag")


@MULTIPART.add("multipart", "uploads listed")
def uploads_listed(c: S3) -> Answer:
    key = c.key("begun")
    with _given_up(c, key) as begun:
        reply = answered(c.send("GET", query={"uploads": "", "prefix": key}), status=200)
        got = [(u.findtext("Key"), u.findtext("UploadId")) for u in tree(reply).iter("Upload")]
        demand((key, begun) in got, f"{len(got)} uploads listed, not the one that was begun")
        return yes(f"listed, {len(got)} below its key")


@MULTIPART.add("multipart", "abort")
def abort(c: S3) -> Answer:
    """After it neither the parts nor the upload nor an object is there."""
    key = c.key("abort")
    begun = _begin(c, key)
    mark = _part(c, key, begun, 1, c.body[:100_000])
    reply = answered(c.send("DELETE", key, query={"uploadId": begun}))
    late = c.send("PUT", key, query={"partNumber": "2", "uploadId": begun}, body=b"late")
    parts, thing = c.send("GET", key, query={"uploadId": begun}), c.send("HEAD", key)
    demand(thing.status == 404, "the object is there after the abort")
    demand(parts.status == 404, f"its parts are still listed ({said(parts)})", Otherwise)
    demand(not late.good, f"a part is still accepted ({late.status})", Otherwise)
    done = _complete(c, key, begun, [mark])
    demand(c.send("HEAD", key).status == 404, f"it can still be completed ({said(done)})")
    return yes(f"{reply.status}; its parts {said(parts)}, a late part {said(late)}")


@MULTIPART.add("multipart", "part by copy")
def part_by_copy(c: S3) -> Answer:
    key = c.key("part-by-copy")
    with _given_up(c, key) as begun:
        headers = {
            "x-amz-copy-source": f"/{c.bucket.name}/{path_of(c.known)}",
            "x-amz-copy-source-range": "bytes=1000-60999",
        }
        reply = c.send("PUT", key, query={"partNumber": "1", "uploadId": begun}, headers=headers)
        demand(reply.good and not error_code(reply.body), f"answered {said(reply)}")
        _completed(_complete(c, key, begun, [tree(reply).findtext("ETag", "")]))
        demand(c.holds(key, c.body[1000:61000]), "the object does not hold the range that was copied", Otherwise)
        return yes("60000 bytes of another object as a part")
