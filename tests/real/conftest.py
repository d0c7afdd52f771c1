"""The S file on the shared SeaweedFS, a proxy that counts on the wire, and prepared readers, for all real tests."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from counting_proxy import CountingProxy
from staged_root import prepared, staged_root

BUCKET = "storelab-selections"


@pytest.fixture(scope="session")
def staged(seaweedfs, tmp_path_factory) -> Iterator[tuple]:
    """Return (endpoint, folder, facts) of the S file, uploaded once."""
    with staged_root(seaweedfs, BUCKET, tmp_path_factory.mktemp("staged")) as found:
        yield found


@pytest.fixture
def proxy(seaweedfs) -> Iterator[CountingProxy]:
    """Return a proxy in front of the first front-end."""
    at = urlsplit(seaweedfs.endpoints(1)[0].url)
    with CountingProxy(at.hostname, at.port) as running:
        yield running


@pytest.fixture
def reader(staged, keys, monkeypatch) -> Iterator[Callable[..., Any]]:
    """Return `reader(url, workload, axes, key="good", **fields of the job)`: a prepared client, closed at the end."""
    with prepared(BUCKET, *staged[1:]) as one:
        yield one
