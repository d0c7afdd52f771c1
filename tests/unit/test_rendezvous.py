"""The rendezvous alone: threads stand for the processes."""

import json
import threading

from storelab import clock
from storelab.gang import rendezvous


def meet(folder, ranks, size, timeout=10.0):
    out = {}

    def one(rank):
        try:
            out[rank] = rendezvous.join(folder, rank, size, 0.2, timeout, {})
        except rendezvous.GangAborted as error:
            out[rank] = error

    threads = [threading.Thread(target=one, args=(r,)) for r in ranks]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    return out


def test_all_agree_on_one_start_in_the_future(tmp_path):
    begun = clock.now_ns()
    starts = meet(tmp_path, range(4), 4)
    assert len({s.t0_ns for s in starts.values()}) == 1
    assert all(s.saw_in_time for s in starts.values())
    assert starts[0].t0_ns >= begun + 200_000_000


def test_who_is_missing_is_named(tmp_path):
    out = meet(tmp_path, [0, 2], 4, timeout=0.3)
    assert all(isinstance(e, rendezvous.GangAborted) for e in out.values())
    assert "2 of 4 clients did not come" in str(out[0]) and "client 1, 3" in str(out[2])


def test_without_client_0_the_others_give_up(tmp_path, monkeypatch):
    monkeypatch.setattr(rendezvous, "GO_POLL_S", 0.2)
    (tmp_path / "abort").write_text("{}")
    out = meet(tmp_path, [1], 2, timeout=0.3)
    assert isinstance(out[1], rendezvous.GangAborted)


def test_a_late_client_knows_that_it_is_late(tmp_path):
    (tmp_path / "go").write_text(json.dumps({"t0_ns": clock.now_ns() - 1, "n": 2}))
    assert not rendezvous.join(tmp_path, 1, 2, 0.1, 1.0, {}).saw_in_time
