"""Fixtures of all real tests: the S file on the shared SeaweedFS, a proxy that counts, prepared readers, engines."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from counting_proxy import CountingProxy
from laboratory import skip_without_loadgen
from staged_root import prepared, staged_root

BUCKET = "storelab-selections"


@pytest.fixture(scope="session")
def staged(seaweedfs, tmp_path_factory) -> Iterator[tuple]:
    """Return (endpoint, folder, facts) of the S file, uploaded once."""
    with staged_root(seaweedfs, BUCKET, tmp_path_factory.mktemp("staged")) as found:
        yield found


@pytest.fixture
def external(seaweedfs) -> dict[str, str]:
    """Return the settings of a store of kind `s3` that is the shared SeaweedFS."""
    return {"kind": "s3", "endpoint": seaweedfs.endpoints(1)[0].url}


@pytest.fixture(params=["obstore", "loadgen"])
def engine(request) -> str:
    """Return the name of an engine; skip where its program is not built."""
    if request.param == "loadgen":
        skip_without_loadgen()
    return request.param


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
