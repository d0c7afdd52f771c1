"""Local copies of `calibrate`: bins of 10 ms, and the content that was moved."""

import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from storelab.workloads import calibrate

MS = 10**6


def copy(tmp_path, operation, size=1000, workers=2, target="tmpfs"):
    axes = {"object_size": size, "workers": workers, "target": target}
    job = SimpleNamespace(point=SimpleNamespace(axes=axes), client=4, number=4, attempt="a")
    job.scratch, job.extra = tmp_path / "scratch", {"disk": str(tmp_path / "disk")}
    client = calibrate.CLIENTS[operation](job)
    client.prepare()
    return client


DEADLINE = 100 * MS


class Clock(threading.local):
    """The time of one worker; it restarts after the deadline, because a thread may then be the next worker."""

    ns = looks = 0

    def now_ns(self):
        now, self.looks = self.ns, self.looks + 1
        assert self.looks < 2000, "a worker never ends"
        if now >= DEADLINE:
            self.ns = 0
        return now


@pytest.fixture
def lasting(monkeypatch):
    """Return a function that sets the duration of each operation of a client, by the clock of its worker."""
    clock = Clock()
    monkeypatch.setattr(calibrate.clock, "now_ns", clock.now_ns)

    def last(client, ns):
        def timed(one):
            one()
            clock.ns += ns

        client.operations = [lambda one=one: timed(one) for one in client.operations]

    return last


def test_bins_count_operations_before_the_deadline(tmp_path, lasting):
    for operation, op in (("copy", "COPY"), ("write", "WRITE"), ("read", "READ_FILE")):
        for ms, count, bins in ((1, 10, 10), (3, 4, 8)):  # of 3 ms: the last two operations end after the deadline
            client = copy(tmp_path, operation)
            lasting(client, ms * MS)
            client.run(0, DEADLINE)
            ops, checks = client.result().ops, {c.name: c.ok for c in client.result().checks}
            assert checks == {"operations completed": True, "content": True}
            assert set(ops["op"]) == {op} and set(ops["client"]) == {4} and set(ops["status"]) == {0}
            for worker in (0, 1):
                rows = [row for w, *row in zip(ops["worker"], ops["count"], ops["end_ns"], strict=True) if w == worker]
                assert rows == [[count, (i + 1) * count * ms * MS] for i in range(bins)], (operation, ms)
            assert ops["bytes"] == [1000 * c for c in ops["count"]] and set(ops["error"]) == {None}
            engine = client.result().engine
            assert engine["settings"] == {"workers": 2, "target": "tmpfs"} and engine["name"] == "none"
            assert engine["requests_per_operation"] == {} and engine["version"].startswith("Python 3.")
            client.close()
            assert not (tmp_path / "scratch").exists()


def test_missing_and_wrong_content_fails_checks(tmp_path):
    for operation in calibrate.CLIENTS:
        client = copy(tmp_path / operation, operation, workers=1)
        (tmp_path / operation / "scratch").mkdir(parents=True, exist_ok=True)
        body = client.body
        assert body[:3] == bytes([0, 1, 2]) and len(body) == 1000 and body[251:253] == bytes([0, 1])
        checks = {c.name: c for c in client.result().checks}
        assert not checks["operations completed"].ok and checks["operations completed"].detail.startswith("0 ")
        assert checks["content"].ok
        if operation == "write":
            client.file(0).write_bytes(body[:-1])
        else:
            client.buffers[0][5] = 99
        assert not {c.name: c.ok for c in client.result().checks}["content"]


def test_files_on_disk_are_separate_by_attempt_and_client(tmp_path):
    client = copy(tmp_path, "write", target="disk")
    folder = tmp_path / "disk" / "a-4"
    assert sorted(p.name for p in folder.iterdir()) == ["0000", "0001"]
    assert (folder / "0001").read_bytes() == client.body
    client.close()
    assert not folder.exists() and (tmp_path / "disk").exists()


def test_copied_files_are_closed(tmp_path):
    for operation in ("write", "read"):
        client = copy(tmp_path, operation, workers=1)
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(20):
            client.operations[0]()
        assert len(list(Path("/proc/self/fd").iterdir())) == before and client.moved()
        client.close()


def test_files_moved_in_parts_are_whole(tmp_path, monkeypatch):
    """The kernel writes or reads 300 bytes at a time."""
    write, readv = os.write, os.readv
    for operation in ("write", "read"):
        client = copy(tmp_path, operation, workers=1)
        for buffer in client.buffers:
            buffer[:] = bytes(1000)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda fd, data: write(fd, data[:300]))
            patch.setattr(os, "readv", lambda fd, buffers: readv(fd, [buffers[0][:300]]))
            client.operations[0]()
        assert client.moved() and client.file(0).read_bytes() == client.body
        client.close()
