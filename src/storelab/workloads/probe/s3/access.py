"""Ask an S3 store about access and buckets: signatures, presigned URLs, anonymous readers, two accounts.

Other questions are about the number of buckets of an account, their content, and their versions. The coordinator gives
the names of new buckets. These buckets are marked, and are removed at the end of each question.
"""

import json
import time
from functools import partial

from storelab.stores.protocols.endpoint import Credentials
from storelab.workloads.probe.answers import Answer, NotTried, Otherwise, Questions, confirm, demand
from storelab.workloads.probe.context import SMALL
from storelab.workloads.probe.plain_http import Reply, error_code, require_status, status_text
from storelab.workloads.probe.s3.requests import MARKER, S3, tree
from storelab.workloads.probe.signing import path_of, sign_v2

REFUSED = (400, 401, 403)


def _refused(reply: Reply, what: str) -> str:
    """Return the answer to a rejected request.

    Raises `Refuted` if the request was accepted, and `Otherwise` if it failed in another way.
    """
    demand(not reply.good, f"{what} is accepted: {reply.status}")
    demand(reply.status in REFUSED, f"{what}: {status_text(reply)} instead of 403", Otherwise)
    return status_text(reply)


def _signed_works(c: S3) -> None:
    """Check that the right request is accepted, because otherwise a rejection proves nothing. Raises NotTried."""
    reply = c.send("GET", c.known)
    demand(reply.holds(c.body), f"the right signature is refused too: {status_text(reply)}", NotTried)


def _presigned_works(c: S3) -> None:
    reply = c.anonymous("GET", c.known, query=c.presigned("GET", c.known))
    demand(reply.holds(c.body), f"a valid presigned URL is refused too: {status_text(reply)}", NotTried)


def wrong_secret(c: S3) -> Answer:
    """Check that a request signed with a wrong secret key is rejected."""
    _signed_works(c)
    reply = c.send(
        "GET", c.known, keys=Credentials(c.keys.access_key, "0" * len(c.keys.secret_key), c.keys.session_token)
    )
    return confirm(_refused(reply, "a signature with another secret"))


def unknown_key(c: S3) -> Answer:
    """Check that a request with an unknown access key is rejected."""
    _signed_works(c)
    reply = c.send("GET", c.known, keys=Credentials("SLNOBODYHASTHISKEY00", c.keys.secret_key))
    return confirm(_refused(reply, "an unknown access key"))


def version_2(c: S3) -> Answer:
    """Check the old signature (version 2), which CernVM-FS sends by default."""
    wire, path = c.place(c.known)
    resource = f"/{c.bucket.name}/{path_of(c.known)}"
    reply = wire.send("GET", path, sign_v2("GET", wire.host, resource, c.keys))
    demand(reply.holds(c.body), f"answered {status_text(reply)}")
    wrong = Credentials(c.keys.access_key, "0" * 40, c.keys.session_token)
    bad = wire.send("GET", path, sign_v2("GET", wire.host, resource, wrong))
    return confirm(f"200; with another secret {_refused(bad, 'version 2 with another secret')}")


def presigned_get(c: S3) -> Answer:
    """Check that an object can be read with a presigned URL and without keys."""
    reply = require_status(c.anonymous("GET", c.known, query=c.presigned("GET", c.known)), status=200)
    demand(reply.body == c.body, f"200 with {len(reply.body)} wrong bytes")
    return confirm(f"200, {len(reply.body)} bytes without keys")


def presigned_put(c: S3) -> Answer:
    """Check that an object can be written with a presigned URL and without keys."""
    key = c.key("presigned")
    reply = require_status(c.anonymous("PUT", key, query=c.presigned("PUT", key), body=SMALL))
    demand(c.holds(key, SMALL), "accepted, but not stored as sent")
    return confirm(f"{reply.status}, stored as sent")


def tampered(c: S3) -> Answer:
    """Check a GET and a PUT whose signature has a changed last digit."""
    _presigned_works(c)
    key = c.key("tampered")

    def changed(query: str) -> str:
        return query[:-1] + ("0" if query[-1] != "0" else "1")

    got = c.anonymous("GET", c.known, query=changed(c.presigned("GET", c.known)))
    written = c.anonymous("PUT", key, query=changed(c.presigned("PUT", key)), body=SMALL)
    demand(c.send("HEAD", key).status == 404, f"a PUT with it is stored ({status_text(written)})")
    return confirm(f"GET {_refused(got, 'a GET with it')}, PUT {_refused(written, 'a PUT with it')}")


def other_key(c: S3) -> Answer:
    """Check that a presigned URL does not give access to another object."""
    _presigned_works(c)
    key = c.stored("private")
    return confirm(_refused(c.anonymous("GET", key, query=c.presigned("GET", c.known)), "the URL of another object"))


def other_method(c: S3) -> Answer:
    """Check that a presigned URL for GET allows neither PUT nor DELETE."""
    _presigned_works(c)
    key = c.stored("method")
    query = c.presigned("GET", key)
    written = c.anonymous("PUT", key, query=query, body=b"intruder")
    deleted = c.anonymous("DELETE", key, query=query)
    demand(
        c.holds(key, SMALL),
        f"the object was changed with a URL for GET (PUT {status_text(written)}, DELETE {status_text(deleted)})",
    )
    return confirm(
        f"PUT {_refused(written, 'a PUT with a URL for GET')}, DELETE {_refused(deleted, 'a DELETE with it')}"
    )


def expired(c: S3) -> Answer:
    """Check that an expired presigned URL is refused."""
    _presigned_works(c)
    reply = c.anonymous("GET", c.known, query=c.presigned("GET", c.known, 60, time.time() - 3600))
    return confirm(_refused(reply, "a URL that expired 59 minutes ago"))


def private(c: S3) -> Answer:
    """Check that object, listing and upload are refused without keys."""
    _signed_works(c)
    key = c.key("uninvited")
    got = c.anonymous("GET", c.known)
    demand(not got.good, f"GET without keys answered {got.status} with {len(got.body)} bytes")
    listed = c.anonymous("GET", query="list-type=2")
    demand(not listed.good, f"a listing without keys answered {listed.status}")
    written = c.anonymous("PUT", key, body=SMALL)
    demand(c.send("HEAD", key).status == 404, f"a PUT without keys is stored ({written.status})")
    return confirm(f"GET {status_text(got)}, listing {status_text(listed)}, PUT {status_text(written)}")


def missing(c: S3) -> Answer:
    """Check that the answer does not reveal if an object exists: 403 (CernVM-FS treats 403 as a failure)."""
    _signed_works(c)
    reply = c.anonymous("GET", c.key("never-written"))
    demand(reply.status in REFUSED, f"{status_text(reply)}: reveals that it does not exist", Otherwise)
    return confirm(status_text(reply))


def _readable(c: S3, key: str, bucket: str | None = None, seconds: float = 5.0) -> Reply:
    """Send an anonymous GET, repeated for some seconds until it is accepted, because rights can take effect late."""
    end = time.monotonic() + seconds
    while True:
        reply = c.anonymous("GET", key, bucket=bucket)
        if reply.good or time.monotonic() > end:
            return reply
        time.sleep(0.25)


def public_acl(c: S3) -> Answer:
    """Check `x-amz-acl: public-read` on the PUT, which CernVM-FS uses."""
    key, other = c.key("public"), c.stored("not-public")
    require_status(c.send("PUT", key, body=SMALL, headers={"x-amz-acl": "public-read"}), "PUT with x-amz-acl")
    got = _readable(c, key, seconds=2.0)
    demand(got.holds(SMALL), f"x-amz-acl is accepted, but the answer without keys is {status_text(got)}")
    closed = c.anonymous("GET", other)
    demand(not closed.good, "every object of the bucket became public", Otherwise)
    written = c.anonymous("PUT", key, body=b"intruder")
    demand(c.holds(key, SMALL), f"anybody can overwrite it ({written.status})", Otherwise)
    return confirm(f"200 without keys; the next object {status_text(closed)}")


def _policy(bucket: str, owner: str | None = None) -> bytes:
    """Return a policy that allows everyone to read below `public/`.

    owner: its access key. The policy of some servers (versitygw) denies access to everyone whom it does not name.
    """
    public = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": ["s3:GetObject"],
        "Resource": [f"arn:aws:s3:::{bucket}/public/*"],
    }
    resources = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    owner_statement = {"Effect": "Allow", "Principal": {"AWS": [owner]}, "Action": ["s3:*"], "Resource": resources}
    return json.dumps({"Version": "2012-10-17", "Statement": [public, *([owner_statement] if owner else [])]}).encode()


def public_policy(c: S3) -> Answer:
    """Check that a bucket policy makes only the objects below one prefix public."""
    bucket = c.marked_bucket(c.spares()[-1])
    try:
        c.put("public/a", SMALL, bucket=bucket)
        c.put("private/a", SMALL, bucket=bucket)
        reply = c.send("PUT", query={"policy": ""}, body=_policy(bucket, c.keys.access_key), bucket=bucket)
        if not reply.good:  # most servers do not accept an access key as a name; on these, an owner keeps its rights
            reply = c.send("PUT", query={"policy": ""}, body=_policy(bucket), bucket=bucket)
        require_status(reply, "a bucket policy")
        got = _readable(c, "public/a", bucket)
        demand(got.holds(SMALL), f"the policy is accepted, but the answer without keys is {status_text(got)}")
        closed = c.anonymous("GET", "private/a", bucket=bucket)
        written = c.anonymous("PUT", "public/a", bucket=bucket, body=b"x")
        demand(not closed.good, "objects that the policy does not include are public too", Otherwise)
        demand(c.holds("public/a", SMALL, bucket=bucket), f"anybody can overwrite it ({written.status})", Otherwise)
        removed = c.send("DELETE", query={"policy": ""}, bucket=bucket)
        demand(
            removed.good, f"200 without keys, but the owner cannot remove the policy: {status_text(removed)}", Otherwise
        )
        return confirm(f"200 without keys; other objects {status_text(closed)}, PUT {status_text(written)}")
    finally:
        c.send("DELETE", query={"policy": ""}, bucket=bucket)
        c.delete_many(["public/a", "private/a"], bucket)
        c.drop_bucket(bucket)


# Two accounts: the second account tries to access buckets of the first one, with keys that are valid for its own
# buckets.


def second_usable(c: S3) -> Answer:
    """Check that the second account works, because otherwise all rejections below prove nothing."""
    bucket, name = c.other.name, f"{c.other.prefix}{c.key('own').removeprefix(c.bucket.prefix)}"
    require_status(c.send("PUT", name, body=SMALL, bucket=bucket, keys=c.second), "PUT in its own bucket")
    demand(c.holds(name, SMALL, bucket=bucket, keys=c.second), "its object cannot be read back")
    require_status(c.send("DELETE", name, bucket=bucket, keys=c.second), "DELETE in its own bucket")
    return confirm("writes, reads and deletes in its own bucket")


def _separate_accounts(c: S3, act: str) -> Answer:
    own, mine = c.other, c.second  # raises NotTried
    usable = c.send("GET", query={"list-type": "2", "max-keys": "1"}, bucket=own.name, keys=mine)
    demand(usable.good, f"the second account cannot even list its own bucket ({status_text(usable)})", NotTried)
    key, stolen = c.stored("victim"), f"{own.prefix}{c.key('stolen').removeprefix(c.bucket.prefix)}"
    match act:
        case "read":
            replies = [c.send("GET", key, keys=mine), c.send("HEAD", key, keys=mine)]
            source = {"x-amz-copy-source": f"/{c.bucket.name}/{path_of(key)}"}
            copied = c.send("PUT", stolen, headers=source, bucket=own.name, keys=mine)
            c.send("DELETE", stolen, bucket=own.name, keys=mine)
            demand(
                not copied.good or bool(error_code(copied.body)),
                f"it can copy the object into its own bucket: {copied.status}",
            )
        case "write":
            replies = [c.send("PUT", k, body=b"intruder", keys=mine) for k in (key, c.key("intruder"))]
            demand(
                c.send("HEAD", c.key("intruder")).status == 404,
                f"it writes into the other's bucket: {status_text(replies[1])}",
            )
        case "list":
            replies = [c.send("GET", query={"list-type": "2", "prefix": c.folder}, keys=mine)]
        case _:
            replies = [c.send("DELETE", key, keys=mine)]
            c.delete_many([key], keys=mine)
    demand(
        c.holds(key, SMALL), f"the other account's object is changed or gone ({', '.join(map(status_text, replies))})"
    )
    return confirm(", ".join(_refused(r, f"to {act}") for r in replies))


def buckets_not_shown(c: S3) -> Answer:
    """Check that the second account lists only its own buckets."""
    other_bucket = c.other
    reply = c.send("GET", bucket="", keys=c.second)
    require_status(reply, "the second account's list of buckets", 200, Otherwise)
    names = [b.findtext("Name", "") for b in tree(reply).iter("Bucket")]
    demand(c.bucket.name not in names, f"it sees the other account's buckets ({len(names)} in total)")
    demand(other_bucket.name in names or bool(other_bucket.prefix), "it does not see its own bucket either", Otherwise)
    return confirm(f"{len(names)} buckets, none of the first account")


def _names(c: S3) -> list[str]:
    """Return all buckets that this account can list, from every page. Raises Refuted."""
    out: list[str] = []
    query: dict[str, str] = {}
    for _ in range(200):
        page = tree(require_status(c.send("GET", bucket="", query=query), "the list of buckets", 200))
        out += [b.findtext("Name", "") for b in page.iter("Bucket")]
        query = {"continuation-token": page.findtext("ContinuationToken", "")}
        if not query["continuation-token"]:
            break
    return out


def life(c: S3) -> Answer:
    """Check that a bucket can be made, listed, queried and removed."""
    name = c.spares()[0]
    c.marked_bucket(name)
    try:
        demand(name in _names(c), "made, but not listed", Otherwise)
        head = require_status(c.send("HEAD", bucket=name), "HEAD", error=Otherwise)
    finally:
        removed = c.drop_bucket(name)
    require_status(removed, "removing it")
    demand(name not in _names(c), "removed, but still listed", Otherwise)
    gone = c.send("GET", "anything", bucket=name)
    demand(
        error_code(gone.body) == "NoSuchBucket",
        f"a request to a removed bucket answers {status_text(gone)} instead of NoSuchBucket",
        Otherwise,
    )
    return confirm(f"made, listed, HEAD {head.status}, removed {removed.status}")


def not_empty(c: S3) -> Answer:
    """Check that a bucket with objects cannot be removed."""
    name = c.marked_bucket(c.spares()[0])
    try:
        c.put("in-it", SMALL, bucket=name)
        reply = c.send("DELETE", bucket=name)
        demand(c.holds("in-it", SMALL, bucket=name), f"a bucket with objects is removed: {status_text(reply)}")
        demand(not reply.good, f"answered {reply.status}, but the object is still there", Otherwise)
        demand(reply.status == 409, f"refused with {status_text(reply)} instead of 409", Otherwise)
        return confirm(status_text(reply))
    finally:
        c.send("DELETE", "in-it", bucket=name)
        c.drop_bucket(name)


def per_account(c: S3) -> Answer:
    """Make the number of buckets that the axis `max_buckets` and `limits.buckets` allow.

    All buckets are made before the first one is marked. SeaweedFS 4.48 locks up permanently if a bucket is made while
    another bucket gets its first object.
    """
    names, requested = c.spares()[1:-2], c.job.point.axes["max_buckets"]
    before, made, refusal = len(_names(c)), [], None
    try:
        for name in names:
            reply = c.make_bucket(name)
            if not reply.good:
                refusal = f"the {before + len(made) + 1}th answered {status_text(reply)}"
                break
            made.append(name)
        for name in made:
            c.mark(name)
        listed = set(_names(c))
    finally:
        left = [name for name in made if not c.drop_bucket(name).good]
    demand(refusal is None, f"{len(made)} in addition to {before} others, {refusal}")
    demand(set(made) <= listed, f"{len(made)} made, {len(listed & set(made))} of them listed", Otherwise)
    demand(not left, f"{len(made)} made, {len(left)} of them not removed again", Otherwise)
    bound = "the axis max_buckets" if len(made) >= requested else "limits.buckets"
    return confirm(
        f"{len(made)} made, listed and removed in addition to {before} others; no more were requested ({bound})",
        made=len(made),
        beside=before,
        asked=requested,
    )


def versions(c: S3) -> Answer:
    """Check that a bucket with versioning keeps the old versions of an object, readable by their ids."""
    name = c.marked_bucket(c.spares()[-2])
    try:
        body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        reply = require_status(c.send("PUT", query={"versioning": ""}, body=body, bucket=name), "switching it on")
        ids = [c.put("v", text, bucket=name).headers.get("x-amz-version-id", "") for text in (b"first", b"second")]
        demand(all(ids) and ids[0] != ids[1], f"switched on ({reply.status}), but PUT returns no new version id")
        demand(c.holds("v", b"second", bucket=name), "GET does not return the newest", Otherwise)
        demand(
            c.holds("v", b"first", query={"versionId": ids[0]}, bucket=name), "the old version cannot be read by its id"
        )
        gone = c.send("DELETE", "v", bucket=name)
        now = c.send("GET", "v", bucket=name)
        demand(gone.good and now.status == 404, f"DELETE {gone.status}, then GET {status_text(now)}", Otherwise)
        demand(
            c.holds("v", b"second", query={"versionId": ids[1]}, bucket=name),
            "DELETE also removed the versions",
            Otherwise,
        )
        held = [key for key, _ in _versions(c, name) if key == "v"]
        demand(len(held) == 3, f"{len(held)} entries listed instead of 2 versions and a delete marker", Otherwise)
        return confirm("both versions read by id after a DELETE; 2 versions and a delete marker listed")
    finally:
        _empty(c, name)
        c.send("DELETE", bucket=name)


def _versions(c: S3, bucket: str) -> list[tuple[str, str]]:
    """Return the key and the version id of all versions and delete markers. Raises Refuted."""
    reply = require_status(c.send("GET", query={"versions": ""}, bucket=bucket), "the list of versions", 200)
    return [
        (entry.findtext("Key", ""), entry.findtext("VersionId", ""))
        for entry in tree(reply).iter()
        if entry.tag in ("Version", "DeleteMarker")
    ]


def _empty(c: S3, bucket: str) -> None:
    """Delete every version of every object in a bucket of the probe. The mark is deleted last."""
    try:
        found = _versions(c, bucket)
    except Exception:  # noqa: BLE001  without such a list there are only the objects
        found = []
    for key, version in sorted(found, key=lambda v: v[0] == MARKER) or [("v", ""), (MARKER, "")]:
        c.send("DELETE", key, query={"versionId": version} if version else {}, bucket=bucket)


ACCESS: Questions = {
    ("signatures", "wrong secret refused"): wrong_secret,
    ("signatures", "unknown key refused"): unknown_key,
    ("signatures", "version 2"): version_2,
    ("presigned", "get"): presigned_get,
    ("presigned", "put"): presigned_put,
    ("presigned", "tampered signature refused"): tampered,
    ("presigned", "other key refused"): other_key,
    ("presigned", "other method refused"): other_method,
    ("presigned", "expired refused"): expired,
    ("anonymous", "private by default"): private,
    ("anonymous", "missing object"): missing,
    ("anonymous", "public object by ACL"): public_acl,
    ("anonymous", "public bucket by policy"): public_policy,
    ("accounts", "second account usable"): second_usable,
    **{
        ("accounts", f"{act} refused"): partial(_separate_accounts, act=act)
        for act in ("read", "write", "list", "delete")
    },
    ("accounts", "buckets not shown"): buckets_not_shown,
}
BUCKETS: Questions = {
    ("buckets", "made, listed, removed"): life,
    ("buckets", "not removed with objects in it"): not_empty,
    ("buckets", "per account"): per_account,
    ("versioning", "old versions kept"): versions,
}
