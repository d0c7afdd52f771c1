"""Access by S3: clients that ignore the user's AWS files, and servers that are busy, silent or slow to forget."""

import socket

import pytest
from botocore.exceptions import ClientError
from honest_s3 import FIRST, honest_s3
from refusals import refusal

from storelab.core.errors import MeasurementFailed
from storelab.stores.protocols import s3, s3_clients
from storelab.stores.protocols.access import BucketNotEmpty
from storelab.stores.protocols.endpoint import Credentials, Endpoint

KEYS = Credentials("AKIDNOTREAL", "SECRETNOTREAL")


def test_silent_server_times_out(port_block):
    with socket.create_server(("127.0.0.1", port_block)):
        client = s3_clients.client(Endpoint(f"http://127.0.0.1:{port_block}"), KEYS, read_timeout=0.1)
        with pytest.raises(s3.ERRORS) as caught:
            client.list_buckets()
    explained = s3.explain(caught.value, "stores.mine")
    assert isinstance(explained, MeasurementFailed) and "time-out" in str(explained)


def test_read_only_client_sends_no_write(port_block):
    client = s3_clients.client(Endpoint(f"http://127.0.0.1:{port_block}"), KEYS, read_only=True)
    assert "PutObject" in refusal(client.put_object, Bucket="some-bucket", Key="k", Body=b"")


def test_aws_files_of_the_user_are_ignored(monkeypatch, tmp_path):
    (tmp_path / "config").write_text("[default]\nendpoint_url = http://192.0.2.1\nmax_attempts = 9\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    s3 = s3_clients.client(Endpoint("http://127.0.0.1:9"), KEYS)
    assert s3.meta.endpoint_url == "http://127.0.0.1:9"
    assert s3.meta.config.retries["total_max_attempts"] == 1


def test_region_is_named_where_servers_want_it():
    """Regions are not only used by Amazon; some other systems refuse a region."""
    for fault, region, made in (
        ("a location", "eu-lab", True),
        ("no location", "eu-lab", True),
        ("no location", "us-east-1", True),
        ("a location", "us-east-1", False),
        ("a location", "eu-other", False),
    ):
        with honest_s3("any signature", fault) as (url, store):
            access = s3.S3Access(s3_clients.client(Endpoint(url, region), FIRST), "stores.x")
            refused = None if made else refusal(access.make_bucket, "new")
            if made:
                access.make_bucket("new")
            assert ("new" in store.buckets) == made, (fault, region)
            assert made or "IllegalLocationConstraintException" in refused


def test_missing_bucket_has_its_name():
    with honest_s3("any signature") as (url, _):
        access = s3.S3Access(s3_clients.client(Endpoint(url), FIRST), "stores.x")
        for call in (
            lambda: access.read("gone-1", "k"),
            lambda: access.write("gone-1", "k", b""),
            lambda: list(access.keys("gone-1")),
            lambda: access.delete("gone-1", ["k"]),
            lambda: access.prefixes("gone-1", "a/"),
            lambda: access.drop_bucket("gone-1"),
        ):
            found = refusal(call)
            assert found.startswith("stores.x: NoSuchBucket: the bucket 'gone-1' does not exist")


class Busy:
    """Return a client whose server refuses `refusals` times to delete the second key."""

    def __init__(self, refusals, code="SlowDownWrite"):
        self.refusals, self.code, self.received = refusals, code, []

    def delete_objects(self, Bucket, Delete):
        self.received.append([o["Key"] for o in Delete["Objects"]])
        self.refusals -= 1
        return {"Errors": [{"Key": "b", "Code": self.code}]} if self.refusals >= 0 and "b" in self.received[-1] else {}


def test_busy_server_gets_another_request_for_the_rest(monkeypatch):
    monkeypatch.setattr(s3, "PAUSES", (0, 0, 0))
    busy = Busy(2)
    s3.S3Access(busy, "stores.x").delete("bucket", ["a", "b"])
    assert busy.received == [["a", "b"], ["b"], ["b"]]
    for never in (Busy(9), Busy(9, "AccessDenied")):
        assert "objects not deleted: 1" in refusal(s3.S3Access(never, "stores.x").delete, "bucket", ["a", "b"])
    assert len(never.received) == 1, "another refusal does not end by waiting"


class Emptied:
    """Return a client of a store without versions that answers `BucketNotEmpty`; `holds`: keys that it lists."""

    def __init__(self, times, holds=()):
        self.times, self.holds, self.dropped = times, holds, 0

    def delete_bucket(self, **_):
        self.times -= 1
        if self.times >= 0:
            raise ClientError({"Error": {"Code": "BucketNotEmpty"}}, "DeleteBucket")
        self.dropped += 1

    def list_object_versions(self, **_):
        raise ClientError({"Error": {"Code": "NotImplemented"}}, "ListObjectVersions")

    def list_objects_v2(self, **_):
        return {"Contents": [{"Key": key} for key in self.holds]}


def test_bucket_that_was_just_emptied_is_tried_again(monkeypatch):
    monkeypatch.setattr(s3.time, "sleep", lambda _: None)
    client = Emptied(3)
    s3.S3Access(client, "stores.g").drop_bucket("b")
    assert client.dropped == 1
    with pytest.raises(BucketNotEmpty, match=r"stores\.g: bucket b still contains 'theirs'"):
        s3.S3Access(Emptied(99, ["theirs"]), "stores.g").drop_bucket("b")
    with pytest.raises(MeasurementFailed, match="BucketNotEmpty"):
        s3.S3Access(Emptied(99), "stores.g").drop_bucket("b")
