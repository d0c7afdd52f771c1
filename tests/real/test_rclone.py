"""Tests of `rclone serve s3` only; test_store_contract.py has the others."""

import os

import managed
import pytest
from laboratory import bucket_for

from storelab.install import wheels

pytestmark = [pytest.mark.real, pytest.mark.heavy]


fresh = managed.never_up("rcl", "rclone")


def test_knows_all_keys_from_its_start(fresh):
    fresh.up(1, 2)
    pids = fresh.actors()
    assert fresh.version() == wheels.RCLONE_VERSION and fresh.deployment()["redundancy"] == "none"
    fresh.up(1, 32)
    assert fresh.actors() == pids and set(pids) == {"s3-1"}


def test_objects_are_files(fresh):
    fresh.up()
    bucket, body = bucket_for(fresh, "kept"), os.urandom(9_000_000)
    fresh.access().write(bucket.name, "d/1", body)
    assert (fresh.data / "objects" / bucket.name / "d" / "1").read_bytes() == body


def test_every_key_reaches_every_bucket(fresh):
    fresh.up(1, 2)
    bucket = bucket_for(fresh, "own", 0, account=0)
    fresh.access(0).write(bucket.name, "k", b"of the first")
    assert fresh.access(1).read(bucket.name, "k") == b"of the first" and bucket.name in fresh.access(1).bucket_names()
