"""What tests share: free ports and one running SeaweedFS."""

from collections.abc import Iterator
from pathlib import Path

import ports
import pytest

from storelab.store_settings import SeaweedFS as Settings
from storelab.stores.base import Store
from storelab.stores.seaweedfs import SeaweedFS


@pytest.fixture
def port_block() -> int:
    """First of 32 free ports."""
    return ports.block()


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A running store with two front-ends, its state in a temporary folder; stopped at the end by recorded pid."""
    state: Path = tmp_path_factory.mktemp("state")
    store = SeaweedFS("sw", Settings(kind="seaweedfs", port=ports.block()), state)
    store.up(2)
    try:
        yield store
    finally:
        store.down()
