"""Buckets in memory, short waiting times and credentials for the tests of releases."""

import bucket_server
import pytest
from repositories import KEYS

from storelab.workloads.distribution import garbage, stratum


@pytest.fixture
def server():
    with bucket_server.bucket() as server:
        yield server


zero = one = server  # the strata of a repository


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(stratum, "LONGEST_WAIT_S", 0.002)
    monkeypatch.setattr(stratum, "THROTTLED_S", 0.002)
    monkeypatch.setattr(garbage, "FIRST_PAUSE_S", 0.001)
    for name, value in KEYS.environ().items():
        monkeypatch.setenv(name, value)
