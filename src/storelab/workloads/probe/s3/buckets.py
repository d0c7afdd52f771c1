"""Questions to an S3 store about buckets: how many an account may have, what is in them, their versions.

All of these are buckets of the probe's own, named by the coordinator, marked, and removed at the end of each question.
"""

from storelab.workloads.probe.answers import Answer, Checks, Otherwise, demand, yes
from storelab.workloads.probe.context import SMALL
from storelab.workloads.probe.plain_http import answered, error_code, said
from storelab.workloads.probe.s3.requests import MARKER, S3, tree

CHECKS = Checks()


def _names(c: S3) -> list[str]:
    """All buckets that this account sees, every page. Raises Refuted."""
    out: list[str] = []
    query: dict[str, str] = {}
    for _ in range(200):
        page = tree(answered(c.send("GET", bucket="", query=query), "the list of buckets", 200))
        out += [b.findtext("Name", "") for b in page.iter("Bucket")]
        query = {"continuation-token": page.findtext("ContinuationToken", "")}
        if not query["continuation-token"]:
            break
    return out


@CHECKS.add("buckets", "made, listed, removed")
def life(c: S3) -> Answer:
    name = c.spares()[0]
    c.own_bucket(name)
    try:
        demand(name in _names(c), "made, but not listed", Otherwise)
        head = answered(c.send("HEAD", bucket=name), "HEAD", error=Otherwise)
    finally:
        removed = c.drop_bucket(name)
    answered(removed, "removing it")
    demand(name not in _names(c), "removed, but still listed", Otherwise)
    gone = c.send("GET", "anything", bucket=name)
    demand(
        error_code(gone.body) == "NoSuchBucket",
        f"what is in a removed bucket answers {said(gone)} instead of NoSuchBucket",
        Otherwise,
    )
    return yes(f"made, listed, HEAD {head.status}, removed {removed.status}")


@CHECKS.add("buckets", "not removed with objects in it")
def not_empty(c: S3) -> Answer:
    name = c.own_bucket(c.spares()[0])
    try:
        c.put("in-it", SMALL, bucket=name)
        reply = c.send("DELETE", bucket=name)
        demand(c.holds("in-it", SMALL, bucket=name), f"a bucket with objects is removed: {said(reply)}")
        demand(not reply.good, f"answered {reply.status}, but the object is still there", Otherwise)
        demand(reply.status == 409, f"refused with {said(reply)} instead of 409", Otherwise)
        return yes(said(reply))
    finally:
        c.send("DELETE", "in-it", bucket=name)
        c.drop_bucket(name)


@CHECKS.add("buckets", "per account")
def per_account(c: S3) -> Answer:
    """As many as the axis `most_buckets` asks, and `limits.buckets` allows; all are made before the first is marked:
    SeaweedFS 4.48 locks up for good when a bucket is made while another gets its first object."""
    names, asked = c.spares()[1:-2], c.job.point.axes["most_buckets"]
    before, made, refusal = len(_names(c)), [], None
    try:
        for name in names:
            reply = c.make_bucket(name)
            if not reply.good:
                refusal = f"the {before + len(made) + 1}th answered {said(reply)}"
                break
            made.append(name)
        for name in made:
            c.mark(name)
        listed = set(_names(c))
    finally:
        left = [name for name in made if not c.drop_bucket(name).good]
    demand(refusal is None, f"{len(made)} beside {before} others, {refusal}")
    demand(set(made) <= listed, f"{len(made)} made, {len(listed & set(made))} of them listed", Otherwise)
    demand(not left, f"{len(made)} made, {len(left)} of them not removed again", Otherwise)
    bound = "the axis most_buckets" if len(made) >= asked else "limits.buckets"
    return yes(
        f"{len(made)} made, listed and removed beside {before} others; no more were asked ({bound})",
        made=len(made),
        beside=before,
        asked=asked,
    )


@CHECKS.add("versioning", "old versions kept")
def versions(c: S3) -> Answer:
    name = c.own_bucket(c.spares()[-2])
    try:
        body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        reply = answered(c.send("PUT", query={"versioning": ""}, body=body, bucket=name), "switching it on")
        ids = [c.put("v", text, bucket=name).headers.get("x-amz-version-id", "") for text in (b"first", b"second")]
        demand(all(ids) and ids[0] != ids[1], f"switched on ({reply.status}), but PUT tells no new version id")
        demand(c.holds("v", b"second", bucket=name), "GET does not answer the newest", Otherwise)
        demand(
            c.holds("v", b"first", query={"versionId": ids[0]}, bucket=name), "the old version is not read by its id"
        )
        gone = c.send("DELETE", "v", bucket=name)
        now = c.send("GET", "v", bucket=name)
        demand(gone.good and now.status == 404, f"DELETE {gone.status}, then GET {said(now)}", Otherwise)
        demand(
            c.holds("v", b"second", query={"versionId": ids[1]}, bucket=name), "DELETE took the versions too", Otherwise
        )
        held = [key for key, _ in _versions(c, name) if key == "v"]
        demand(len(held) == 3, f"{len(held)} entries listed instead of 2 versions and a delete marker", Otherwise)
        return yes("both versions read by id after a DELETE; 2 versions and a delete marker listed")
    finally:
        _empty(c, name)
        c.send("DELETE", bucket=name)


def _versions(c: S3, bucket: str) -> list[tuple[str, str]]:
    """(key, version id) of all versions and delete markers. Raises Refuted."""
    reply = answered(c.send("GET", query={"versions": ""}, bucket=bucket), "the list of versions", 200)
    return [
        (entry.findtext("Key", ""), entry.findtext("VersionId", ""))
        for entry in tree(reply).iter()
        if entry.tag in ("Version", "DeleteMarker")
    ]


def _empty(c: S3, bucket: str) -> None:
    """Every version of every object in a bucket of the probe's own, the mark last."""
    try:
        found = _versions(c, bucket)
    except Exception:  # noqa: BLE001  no such list: then there is no more than the objects
        found = []
    for key, version in sorted(found, key=lambda v: v[0] == MARKER) or [("v", ""), (MARKER, "")]:
        c.send("DELETE", key, query={"versionId": version} if version else {}, bucket=bucket)
