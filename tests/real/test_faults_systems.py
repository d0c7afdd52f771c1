"""Faults on running Ceph, MinIO and HDFS: what each reports of lost daemons and drives."""

import threading
from pathlib import Path

import managed
import pytest
from laboratory import bucket_for

from storelab.measure.faults import Runner
from storelab.stores.base import CLEAN

pytestmark = [pytest.mark.real, pytest.mark.heavy]
BODY = b"x" * 100_000
DEPLOYMENTS = {
    "replicated": {"kind": "ceph", "backing": "tmpfs", "redundancy": "replica-3", "osd_size": "2 GB"},
    "coded": {"kind": "ceph", "backing": "tmpfs", "redundancy": "ec-2-1", "osd_size": "2 GB"},
    "drives": {"kind": "minio", "servers": 12, "redundancy": "ec-9-3"},
    "hdfs": {"kind": "hdfs"},
}


@pytest.fixture(scope="module")
def store(request, tmp_path_factory):
    """Return the running deployment that the parameter names."""
    given = DEPLOYMENTS[request.param]
    state = tmp_path_factory.mktemp("state")
    with managed.running(managed.made(request.param, managed.settings_of(**given), state)) as it:
        it.up()
        yield it


def deployments(*names: str) -> pytest.MarkDecorator:
    """Return the mark that runs a test on each of these deployments, all of one deployment in the same process."""
    marks = {name: pytest.mark.xdist_group(f"faults-{name}") for name in names}
    return pytest.mark.parametrize("store", [pytest.param(n, marks=m) for n, m in marks.items()], indirect=True)


def write(store, key: str) -> None:
    store.access().write(bucket_for(store, "faulty").name, key, BODY)


def read(store, key: str) -> bytes:
    return store.access().read(bucket_for(store, "faulty").name, key)


def done(runner: Runner) -> list[dict]:
    """Return the acts that were done."""
    return [e for e in runner.events if e["kind"] == "act"]


def noticed(store, act: str, actor: str, state: str) -> Runner:
    """Do an act, wait until the store reports this state, undo the act, and wait until the store is healthy."""
    with Runner(store, "f", managed.acts({"at": "0 s", "act": act, "actor": actor}), report=print) as runner:
        managed.until(lambda: store.condition().state == CLEAN)
        runner.start(0)
        managed.until(lambda: state in managed.states(runner))
        runner.settle(120)
    assert runner.failed() == [] and runner.recovered and managed.states(runner)[-1] == CLEAN, runner.events
    assert store.status().state == "up"
    return runner


@deployments("replicated", "coded", "hdfs")
def test_lost_data_servers_are_noticed(store):
    """One is killed and one hangs; both are back afterwards."""
    for act, actor in (("kill", "data.0"), ("hang", "data.1")):
        noticed(store, act, actor, "degraded")


@deployments("replicated", "drives", "hdfs")
def test_front_end_that_is_down_is_noticed(store):
    """Without the monitor, the NameNode or the one server nothing is reported."""
    noticed(store, "kill", "mon" if store.settings.kind == "ceph" else "front.0", "down")


@deployments("drives")
def test_lost_drives_are_noticed(store):
    write(store, "before")
    for lost, how in ((1, "gone"), (3, "gone"), (1, "read-only"), (3, "read-only")):
        act = {"at": "0 s", "act": "remove_drive", "actor": [f"data.{i}" for i in range(lost)], "how": how}
        with Runner(store, "f", managed.acts(act), report=print) as runner:
            runner.start(0)
            managed.until(lambda runner=runner, lost=lost: len(done(runner)) == lost)
            write(store, f"during-{lost}-{how}")
            assert read(store, "before") == read(store, f"during-{lost}-{how}") == BODY
            if how == "gone":
                managed.until(lambda runner=runner: "degraded" in managed.states(runner))
            runner.settle(60)
        assert runner.failed() == [] and runner.recovered and managed.states(runner)[-1] == CLEAN, (lost, how)
        fault_report = runner.as_dict()
        assert (
            len(fault_report["most_lost"]) == lost
            and fault_report["bears"] == 3
            and not fault_report["beyond_redundancy"]
        )
        assert all(d.is_dir() for d in store.drive_folders()) and not list(store.data.glob(".drive*"))
        assert str(store.data) not in Path("/proc/self/mountinfo").read_text()


@deployments("replicated")
def test_full_osds_let_writes_wait(store):
    def waiting() -> threading.Thread | None:
        """Begin a write, and return it if it is still running after some seconds."""
        thread = threading.Thread(target=write, args=(store, "during"))
        thread.start()
        thread.join(4)
        return thread if thread.is_alive() else None

    write(store, "before")
    act = {"at": "0 s", "act": "fill", "actor": ["data.0", "data.1", "data.2"]}
    with Runner(store, "f", managed.acts(act), report=print) as runner:
        runner.start(0)
        managed.until(lambda: len(done(runner)) == 3)
        assert runner.failed() == []
        writing = managed.until(waiting, 120)  # clients learn after a moment that the OSDs are full
        runner.settle(60)
    assert runner.recovered and runner.failed() == []
    writing.join(60)
    assert read(store, "during") == read(store, "before") == BODY, "the write ends when the OSDs have space again"
