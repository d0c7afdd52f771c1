"""The rendezvous of a gang; threads take the place of processes."""

import json
import threading
import time

import pytest

from storelab.core import clock
from storelab.gang import rendezvous
from storelab.gang.rendezvous import Folder, GangAborted, Leader

S = 10**9
LEAD_S = 5.0  # nothing waits for the start: also a busy machine sees it in time


class Late(Folder):
    """A folder that shows files some time after they were written, as with cached attributes."""

    def __init__(self, path, late_s):
        super().__init__(path)
        self.late_s = late_s

    def _old(self, path) -> bool:
        try:
            return time.time() - path.stat().st_mtime >= self.late_s
        except FileNotFoundError:
            return False

    def get(self, name):
        return super().get(name) if self._old(self.path / name) else None

    def present(self, kind):
        return {n for n in super().present(kind) if self._old(self.path / f"{kind}.{n}")}


def meet(folder, ranks, size, timeout=10.0, place=Folder, **leading):
    """Return the result of each rank (a Start, or the error), and that of the leader under 'leader'."""
    out = {}

    def one(rank):
        try:
            out[rank] = rendezvous.join(place(folder), rank, size, timeout, {"host": f"host{rank}"})
        except GangAborted as error:
            out[rank] = error

    threads = [threading.Thread(target=one, args=(r,)) for r in ranks]
    for t in threads:
        t.start()
    leader = Leader(place(folder), size, LEAD_S, timeout, **leading)
    try:
        while (t0 := leader.step()) is None:
            time.sleep(0.005)
        out["leader"] = t0
    except GangAborted as error:
        out["leader"] = error
    for t in threads:
        t.join(30)
    return out


def test_all_agree_on_one_start_in_the_future(tmp_path):
    begun = clock.now_ns()
    starts = meet(tmp_path, range(4), 4)
    t0 = starts.pop("leader")
    assert {s.t0_ns for s in starts.values()} == {t0} and all(s.saw_in_time for s in starts.values())
    assert t0 >= begun + LEAD_S * S


def test_missing_clients_are_named(tmp_path):
    out = meet(tmp_path, [0, 2], 4, timeout=0.1)
    assert all(isinstance(e, GangAborted) for e in out.values())
    assert "2 of 4 clients did not join" in str(out[0]) and "client 1, 3" in str(out[2])


def test_late_folder_makes_a_later_start(tmp_path):
    """Where files are seen after 0.2 s, the start is later by the time of the call and of its answers."""
    begun = clock.now_ns()
    out = meet(tmp_path, range(3), 3, place=lambda path: Late(path, 0.2))
    t0 = out.pop("leader")
    # `ready`, `call` and `seen` became visible; the last two take as long once more
    assert all(s.saw_in_time for s in out.values()) and t0 - begun > (LEAD_S + 0.9) * S


def test_client_that_does_not_see_the_call_is_named(tmp_path):
    for n in (0, 1):
        Folder(tmp_path).put(f"ready.{n}", {})
    Folder(tmp_path).put("seen.0", {})
    leader = Leader(Folder(tmp_path), 2, 0.1, 0.1, noun="node")
    with pytest.raises(GangAborted, match=r"1 of 2 nodes joined.*missing: node 1"):
        for _ in range(2000):
            leader.step()
            time.sleep(0.01)


def test_client_that_comes_twice_ends_the_gang(tmp_path):
    Folder(tmp_path).put("ready.1", {"host": "other"})
    for rank in (1, 0):  # and the others learn why
        with pytest.raises(GangAborted, match="client 1 joined twice"):
            rendezvous.join(Folder(tmp_path), rank, 2, 1.0, {"host": "here"})
    assert Folder(tmp_path).get("ready.1") == {"host": "other"}


def test_refused_clients_end_the_gang(tmp_path):
    out = meet(tmp_path, range(2), 2, accept=lambda ready: f"both are on {ready[0]['host']}")
    assert {str(e) for e in out.values()} == {"both are on host0"}


def test_clients_beyond_size_end_the_gang(tmp_path):
    (tmp_path / "early").mkdir()
    Folder(tmp_path / "early").put("ready.2", {})
    out = meet(tmp_path / "early", range(2), 2)
    assert all("client 2 joined, but the gang has only 2" in str(e) for e in out.values())
    Folder(tmp_path).put("call", {"n": 2})
    with pytest.raises(GangAborted, match="client 2 joined, but the gang has only 2"):
        rendezvous.join(Folder(tmp_path), 2, 2, 1.0, {})
    assert not Folder(tmp_path).present("ready") and not Folder(tmp_path).present("seen")


def test_aborted_gang_gives_up(tmp_path):
    (tmp_path / "abort").write_text("{}")
    with pytest.raises(GangAborted, match="cancelled the gang"):
        rendezvous.join(Folder(tmp_path), 1, 2, 0.3, {})


def test_late_client_knows_that_it_is_late(tmp_path):
    (tmp_path / "go").write_text(json.dumps({"t0_ns": clock.now_ns() - 1, "n": 2}))
    assert not rendezvous.join(Folder(tmp_path), 1, 2, 1.0, {}).saw_in_time


def test_full_disk_is_named_with_its_path(tmp_path, monkeypatch):
    monkeypatch.setattr("pathlib.Path.write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space") as refused:
        Folder(tmp_path).put("go", {})
    assert refused.value.filename == str(tmp_path / "go")
    assert not list(tmp_path.iterdir())
