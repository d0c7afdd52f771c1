"""The rendezvous alone: threads stand for the processes."""

import json
import threading
import time

import pytest

from storelab.core import clock
from storelab.core.errors import MeasurementFailed
from storelab.gang import coordinator, rendezvous
from storelab.gang.rendezvous import Folder, GangAborted, Leader


class Late(Folder):
    """Shows files only some time after they were written, as a folder with cached attributes does."""

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
    """What each rank got (a Start, or the error), and what the leader got under 'leader'."""
    out = {}

    def one(rank):
        try:
            out[rank] = rendezvous.join(place(folder), rank, size, timeout, {"host": f"host{rank}"})
        except GangAborted as error:
            out[rank] = error

    threads = [threading.Thread(target=one, args=(r,)) for r in ranks]
    for t in threads:
        t.start()
    leader = Leader(place(folder), size, 0.2, timeout, **leading)
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
    assert t0 >= begun + 200_000_000


def test_who_is_missing_is_named(tmp_path):
    out = meet(tmp_path, [0, 2], 4, timeout=0.3)
    assert all(isinstance(e, GangAborted) for e in out.values())
    assert "2 of 4 clients did not come" in str(out[0]) and "client 1, 3" in str(out[2])


def test_a_folder_that_shows_files_late_makes_a_later_start(tmp_path):
    """Where files are seen half a second late, a start 0.2 s ahead would be missed by all."""
    begun = clock.now_ns()
    out = meet(tmp_path, range(3), 3, place=lambda path: Late(path, 0.5))
    t0 = out.pop("leader")
    assert (
        all(s.saw_in_time for s in out.values()) and t0 - begun > 1_700_000_000
    )  # ready, call, seen, and go before its time


def test_who_does_not_see_the_call_is_named(tmp_path):
    for n in (0, 1):
        Folder(tmp_path).put(f"ready.{n}", {})
    Folder(tmp_path).put("seen.0", {})
    leader = Leader(Folder(tmp_path), 2, 0.1, 0.2, noun="node")
    with pytest.raises(
        GangAborted, match=r"1 of 2 nodes came, and did not see the call to start within 0 s \(missing: node 1\)"
    ):
        for _ in range(200):
            leader.step()
            time.sleep(0.01)


def test_who_comes_twice_ends_the_gang(tmp_path):
    Folder(tmp_path).put("ready.1", {"host": "other"})
    with pytest.raises(GangAborted, match="client 1 came twice"):
        rendezvous.join(Folder(tmp_path), 1, 2, 1.0, {"host": "here"})
    assert Folder(tmp_path).get("ready.1") == {"host": "other"}
    with pytest.raises(GangAborted, match="client 1 came twice"):  # and the others are told
        rendezvous.join(Folder(tmp_path), 0, 2, 1.0, {})


def test_who_runs_where_he_should_not_ends_the_gang(tmp_path):
    out = meet(tmp_path, range(2), 2, accept=lambda ready: f"both are on {ready[0]['host']}")
    assert {str(e) for e in out.values()} == {"both are on host0"}


def test_more_than_asked_are_no_gang(tmp_path):
    Folder(tmp_path).put("ready.2", {})
    out = meet(tmp_path, range(2), 2)
    assert all("client 2 came, and the gang has 2" in str(e) for e in out.values())


def test_who_comes_too_many_after_the_call_takes_no_part(tmp_path):
    Folder(tmp_path).put("call", {"n": 2})
    with pytest.raises(GangAborted, match="client 2 came, and the gang has 2"):
        rendezvous.join(Folder(tmp_path), 2, 2, 1.0, {})
    assert not Folder(tmp_path).present("ready") and not Folder(tmp_path).present("seen")


def test_without_a_leader_the_others_give_up(tmp_path):
    (tmp_path / "abort").write_text("{}")
    with pytest.raises(GangAborted, match="called it off"):
        rendezvous.join(Folder(tmp_path), 1, 2, 0.3, {})


def test_a_late_client_knows_that_it_is_late(tmp_path):
    (tmp_path / "go").write_text(json.dumps({"t0_ns": clock.now_ns() - 1, "n": 2}))
    assert not rendezvous.join(Folder(tmp_path), 1, 2, 1.0, {}).saw_in_time


def test_a_full_disk_is_told_with_its_path(tmp_path, monkeypatch):
    monkeypatch.setattr("pathlib.Path.write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space") as refused:
        Folder(tmp_path).put("go", {})
    assert refused.value.filename == str(tmp_path / "go")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_does_not_hide_why_a_gang_ended(tmp_path, monkeypatch):
    class Refuses:
        participants, noun, accept = [0], "client", None

        def start(self):
            monkeypatch.setattr("pathlib.Path.write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "No space")))
            raise MeasurementFailed("no clients today")

        def stop(self):
            self.stopped = True

    launcher = Refuses()
    with pytest.raises(MeasurementFailed, match="no clients today"):
        coordinator.run(launcher, tmp_path, 1, 5, 1, print)
    assert launcher.stopped
