"""What is peculiar to `rclone serve s3`; the rest is in test_store_contract.py."""

import os

import managed
import pytest
from laboratory import bucket_for

from storelab.install import wheels

pytestmark = [pytest.mark.real, pytest.mark.heavy]


@pytest.fixture
def fresh(tmp_path):
    """Return a store that was never up; stop it at the end."""
    with managed.running(managed.made("rcl", managed.settings_of("rclone"), tmp_path)) as store:
        yield store


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


def test_taken_port_leaves_nothing_running(fresh):
    managed.refuses_a_taken_port(fresh, fresh.settings.port, "s3-1")
