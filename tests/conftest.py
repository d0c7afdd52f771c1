"""Shared fixtures of all tests: free ports, a running SeaweedFS, small campaigns."""

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import ports
import pyarrow.parquet as pq
import pytest
from warm_clients import Forked

from storelab.core import plan
from storelab.gang.launchers import local
from storelab.measure import point
from storelab.stores import everywhere
from storelab.stores.base import Store
from storelab.stores.config import Config
from storelab.stores.seaweedfs import SeaweedFS, Settings
from storelab.workloads import WORKLOADS

pytest_plugins = ["cpu_times", "complete_run"]

# A shell makes background processes ignore Ctrl-C, and nohup makes them ignore a hang-up. Reset both, because tests
# send these signals to programs.
for ignored, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, handler)

# `make test` has pytest keep what it compiled; copies of the checkout, whose files tests edit, get no bytecode.
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

# A worker has everything loaded: to look through all of it as often as Python does takes a good part of the time of
# small tests.
gc.set_threshold(50_000, 5, 10)

# Hundreds of operations; a read or a deletion takes longer.
WINDOWS = dict.fromkeys(("put", "get", "get_range", "stat", "list", "calibrate"), "600 ms")


@pytest.fixture(autouse=True)
def clients_start_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start clients of this host as copies of this process, in tests that measure.

    Tests that look at the command lines of all processes are excluded.
    """
    if not request.node.get_closest_marker("real") or request.node.get_closest_marker("command_lines"):
        return
    begun = local._begun
    monkeypatch.setattr(
        local, "_begun", lambda command, words, errors: begun(command, words, errors) if command else Forked(words)
    )


KEPT: set[int] = set()  # ports of the fixtures of a session


@pytest.fixture(autouse=True, scope="module")
def module_ports_given_back() -> Iterator[None]:
    """Release the ports that a module reserved for its fixtures when the module ends."""
    before = ports.held()
    yield
    ports.release(ports.held() - before - KEPT)


@pytest.fixture(autouse=True)
def ports_given_back() -> Iterator[None]:
    """Release the ports that a test reserved; keep those that its module reserved before."""
    before = ports.held()
    yield
    ports.release(ports.held() - before - KEPT)


@pytest.fixture
def port_block() -> int:
    """Return the first of 128 free ports: the blocks of several deployments of most stores."""
    return ports.block()


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Start a store with two front-ends in a temporary folder; stop it at the end by its recorded pid."""
    state: Path = tmp_path_factory.mktemp("state")
    before = ports.held()
    store = SeaweedFS("sw", Settings(kind="seaweedfs", port=ports.block()), state)
    KEPT.update(ports.held() - before)
    store.up(2)
    try:
        yield store
    finally:
        store.down()


@pytest.fixture
def keys(seaweedfs, monkeypatch):
    """Set the environment of a user that has keys to this store, and no other settings of S3."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in seaweedfs.credentials().environ().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def lab(tmp_path):
    """Return a function that measures all points of some sweeps on one store: [(point, record, rows of ops)]."""
    used = []

    def run(settings, **sweeps):
        config = Config.model_validate(
            {
                "campaign": "lab",
                "name": "lab",
                "results": str(tmp_path / "results"),
                "state": str(tmp_path / "state"),
                "stores": {"one": settings},
                "stores_to_measure": ["one"],
                "repetitions": 1,
                "calibrate": False,
                "mixes": {"all": {"get": 40, "put": 20, "head": 15, "list": 10, "delete": 15}},
                "sizes": {
                    "site": {"histogram": {"0 B": 1, "4 kB": 10, "300 kB": 2}},
                    "logs": {"mean": "8 kB", "sigma": 1.5},
                },
                "sweeps": {
                    n: {"duration": WINDOWS.get(s.get("workload"), "1200 ms"), "warm_up": "100 ms"}
                    | ({} if "roles" in s else {"objects": 12})
                    | s
                    for n, s in sweeps.items()
                },
            }
        )
        used.append(config)
        for record in config.raw.glob("*/*/*/run.json"):  # of an earlier call: no campaign drops records from its plan
            shutil.rmtree(record.parent)
        points = plan.make(config, WORKLOADS)
        out = []
        for p in points:
            record = point.point(config, points, p.key).to_json()
            rows = [
                row
                for table in sorted((config.raw / p.key).glob("ops.*.parquet"))
                for row in pq.read_table(table).to_pylist()
            ]
            out.append((p, record, rows))
        return out

    yield run
    for config in used:
        for store in everywhere(config).values():
            store.down()
