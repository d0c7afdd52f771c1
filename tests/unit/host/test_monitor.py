"""The monitor of a host: CPU time of trees of processes, and how old the reported use may be."""

from storelab.host import monitor, proc

S, MS = 10**9, 10**6


def test_reused_process_number_is_not_of_the_tree(monkeypatch):
    """Process 7 ends after 5 s of CPU time; later a stranger has its number."""
    there = {7: proc.Process(5.0, 1.0, 100, 1, 1), 8: proc.Process(2.0, 0.5, 10, 7, 7)}
    monkeypatch.setattr(monitor.proc, "process", lambda files, pid: there.get(pid))
    tree = monitor.Tree(7)
    tree.members.add(8)
    assert tree.sample(None) == (7.0, 1.5, 110) == (*tree.sample(None)[:2], tree.rss)
    del there[7]
    assert tree.sample(None) == (7.0, 1.5, 10) and tree.members == {8}
    there[7] = proc.Process(1000.0, 1000.0, 10**9, 1, 1)
    assert tree.sample(None) == (7.0, 1.5, 10)
    del there[8]
    assert tree.sample(None) == tree.sample(None) == (7.0, 1.5, 0) and not tree.members and not tree.now


def test_restarted_daemon_keeps_its_cpu_time(monkeypatch):
    there = {7: proc.Process(5.0, 1.0, 100, 1, 1)}
    monkeypatch.setattr(monitor.proc, "process", lambda files, pid: there.get(pid))
    monkeypatch.setattr(monitor.proc, "opened", lambda pid: {7: 3, 9: None}.get(pid))
    old = monitor.Tree(7)
    old.sample(None)
    assert old.look() == 3
    there[9] = proc.Process(0.5, 0.25, 20, 1, 1)
    new = monitor.Tree(9, old)
    assert new.files == 3 and new.sample(None) == (5.5, 1.25, 20)
    assert new.look() is None and monitor.Tree(9).sample(None) == (0.5, 0.25, 20)


def reported(monkeypatch, age_ns, until_ns=3 * S, stops=False):
    """Return (when, of when, CPU seconds) of each report until a sample is due, and the times of new looks.

    The last sample has this age at the first report, after one second.
    """
    now, seen, looks = [10**18], [], []
    monkeypatch.setattr(monitor.clock, "now_ns", lambda: now[0])
    monkeypatch.setattr(monitor.time, "thread_time", lambda: 0.0)
    monkeypatch.setattr(monitor.proc, "cpu", lambda files: looks.append(now[0]) or proc.Cpu(1.0, 1.0, 42.0))
    one = monitor.Monitor({}, dict, S, None, lambda at, used: seen.append((now[0] - 10**18, at - 10**18, used.host_s)))

    def wait(seconds):
        now[0] += round(seconds * S)
        return stops

    one._stop.wait = wait
    one._second_at, one._used_ns, one._used = 10**18 + S, 10**18 + S - age_ns, monitor.Used(7.0)
    one._tell_until(10**18 + until_ns, None, 10**18)
    return seen, looks


def test_reported_use_is_two_samples_old_at_most(monkeypatch):
    """What is older than 400 ms is looked up again."""
    for age, renewed in ((0, False), (399 * MS, False), (400 * MS, False), (400 * MS + 1, True), (S, True)):
        seen, looks = reported(monkeypatch, age, S + 1)
        assert seen == [(S, S if renewed else S - age, 42.0 if renewed else 7.0)] and len(looks) == renewed, age
    seen, looks = reported(monkeypatch, 0, 4 * S)
    assert [when for when, *_ in seen] == [S, 2 * S, 3 * S] and len(looks) == 2
    assert reported(monkeypatch, 0, S) == ([], []) == reported(monkeypatch, 0, 3 * S, stops=True)
