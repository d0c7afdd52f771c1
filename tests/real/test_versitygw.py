"""Tests of the Versity gateway only; test_store_contract.py has the others."""

import os

import managed
import pytest
from laboratory import bucket_for
from store_clients import for_store

from storelab import install
from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import golang
from storelab.stores.versitygw import PROGRAM

pytestmark = [pytest.mark.real, pytest.mark.heavy]


fresh = managed.never_up("vgw", "versitygw")


def test_version_is_the_pinned_one(fresh):
    if (install.tools_folder() / "bin" / "versitygw.json").exists():  # not a program of the system
        assert golang.present(PROGRAM, install.tools_folder())
        assert fresh.version() == golang.pinned(PROGRAM)


def test_parts_of_one_upload_through_several_gateways(fresh):
    fresh.up(3)
    bucket = bucket_for(fresh, "parts")
    one, two, three = (for_store(fresh, e) for e in fresh.endpoints(3))
    blocks = [os.urandom(5 * 2**20), os.urandom(1000)]
    upload = one.create_multipart_upload(Bucket=bucket.name, Key="k")["UploadId"]
    tags = [
        way.upload_part(Bucket=bucket.name, Key="k", UploadId=upload, PartNumber=i, Body=block)["ETag"]
        for i, (way, block) in enumerate(zip((one, two), blocks, strict=True), 1)
    ]
    parts = {"Parts": [{"PartNumber": i, "ETag": tag} for i, tag in enumerate(tags, 1)]}
    three.complete_multipart_upload(Bucket=bucket.name, Key="k", UploadId=upload, MultipartUpload=parts)
    assert two.get_object(Bucket=bucket.name, Key="k")["Body"].read() == b"".join(blocks)


def test_other_gateways_continue_after_a_kill(fresh):
    fresh.up(3)
    bucket, pids = bucket_for(fresh, "killed"), fresh.actors()
    fresh.access().write(bucket.name, "k", b"before")
    managed.kill(fresh, "s3-2")
    assert fresh.access(0, 0).read(bucket.name, "k") == b"before"
    fresh.up(3)
    after = fresh.actors()
    assert {name for name in pids if pids[name] != after[name]} == {"s3-2"}
    assert fresh.access(0, 1).read(bucket.name, "k") == b"before"


def test_gateway_that_cannot_start_reports_why(tmp_path):
    store = managed.made("vgw", managed.settings_of("versitygw", tls=True), tmp_path)
    managed.spoil_certificates(store)
    with pytest.raises(MeasurementFailed, match=r"stores\.vgw: s3-1 ended during its start; end of its log: .*PEM"):
        store.up()
    assert store.actors() == {}


def test_file_system_without_extended_attributes_is_refused(fresh, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    with pytest.raises(UserError, match=r"stores\.vgw\.directory: .* has no extended attributes"):
        fresh.up()
