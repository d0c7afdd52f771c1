"""The monitor of a host. Its kernel is simulated: time passes only where the monitor waits or works."""

import contextlib
import errno
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from storelab.core import records
from storelab.host import monitor, proc

S, MS = 10**9, 10**6
T0 = 1_760_000_000 * S


class Kernel:
    """Process p uses 0.1 p user and 0.01 p system CPU seconds per second, and has 1000 p bytes.

    `sample_s` and `look_s` are the CPU seconds of a sample and of a look.
    """

    def __init__(self, patch, sample_s=0.0, look_s=0.0, nics=("eth0", "idle")):
        self.now, self.spent, self.sample_s, self.look_s, self.nics = T0 - S, 0.0, sample_s, look_s, nics
        self.looks, self.dead, self.parents = [], {}, {10: 1, 11: 10, 12: 11, 20: 1, 30: 1, 31: 1}
        self.sessions = {10: 10, 11: 10, 12: 10, 20: 20, 30: 30, 31: 20}
        patch.setattr(monitor.clock, "now_ns", lambda: self.now)
        patch.setattr(monitor.time, "thread_time", lambda: self.spent)
        counters = ("cpu", "memory_in_use", "interfaces", "tcp", "time_wait", "ephemeral_ports")
        for name in ("process", "pids", "sockets", "opened", "changing", *counters):
            patch.setattr(monitor.proc, name, getattr(self, name))
        patch.setattr(monitor.os, "cpu_count", lambda: 8)
        patch.setattr(monitor.environment, "link_speeds", lambda: {"eth0": 10**9})
        patch.setattr(monitor.proc, "Files", lambda most=1: SimpleNamespace(close=lambda: None))

    @property
    def s(self):
        return (self.now - T0) / S

    def work(self, seconds):
        self.spent += seconds
        self.now += round(seconds * S)

    def wait(self, seconds):
        self.now += round(seconds * S)
        return False

    def alive(self, pid):
        return self.now < self.dead.get(pid, 2**63)

    def process(self, files, pid):
        if pid not in self.parents or not self.alive(pid):
            return None
        return proc.Process(0.1 * pid * self.s, 0.01 * pid * self.s, 1000 * pid, self.parents[pid], self.sessions[pid])

    def pids(self):
        return {p for p in self.parents if self.alive(p)}

    def sockets(self, pid):
        return {10: 5, 11: None, 12: 2, 31: 9}.get(pid, 1)

    def opened(self, pid):
        return {10: 7, 11: None, 12: 3, 20: 40, 30: None}.get(pid, 2)

    def changing(self):
        self.looks.append(self.now)
        self.work(self.look_s)
        every = dict.fromkeys((*proc.OPENING, *proc.SHUTTING), 0)
        return every | {proc.SYN_SENT: 1, proc.SYN_RECV: 2, proc.CLOSE_WAIT: 3, proc.CLOSING: 4, proc.FIN_WAIT1: 5}

    def cpu(self, files):
        self.work(self.sample_s)
        return proc.Cpu(2 * self.s, 0.5 * self.s, 3 * self.s)

    def memory_in_use(self, files):
        return 777

    def interfaces(self, files):
        moving = (round(1000 * self.s), round(100 * self.s), round(10 * self.s), round(self.s))
        return {n: (7, 7, 7, 7) if n == "idle" else moving for n in self.nics}

    def tcp(self, files):
        return 50, round(100 * self.s)

    def time_wait(self, files):
        return 60

    def ephemeral_ports(self):
        return 28_232


def watch(kernel, seconds=3, actors=None, clients=None, *reports):
    """Run the monitor of the actor `door` and of two clients on this kernel."""
    actors, clients = {"door": 20} if actors is None else actors, clients or {0: 10, 1: 30}
    found = monitor.Monitor(actors, lambda: clients, seconds * S, *reports)
    found._stop.wait = kernel.wait
    found._run(T0)
    return found


def rows_of(found, what, name=""):
    columns = found.columns()
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [r for r in rows if r["what"] == what and r["name"] == name]


def test_too_many_open_files_are_one_line(monkeypatch, capsys):
    def refused():
        raise OSError(errno.EMFILE, "Too many open files", "/proc")

    monkeypatch.setattr(monitor.proc, "pids", refused)
    watch = monitor.Monitor({}, dict, S)
    watch.start(0)
    watch.stop()
    assert watch.summary == {} and watch.columns() == {}
    assert capsys.readouterr().err == (
        "    no resources are recorded: /proc: too many open files; raise the limit of open files (ulimit -n)\n"
    )


def test_samples_are_on_a_grid(monkeypatch):
    found = watch(Kernel(monkeypatch), 3)
    columns = found.columns()
    assert list(columns) == list(records.MONITOR)
    times = [r["time_ns"] for r in rows_of(found, "host")]
    assert times == [T0 + i * 200 * MS for i in range(16)]
    assert [found.summary[name] for name in ("monitor_samples", "seconds", "monitor_cpu_s")] == [16, 3.0, 0]


def test_impossible_samples_invalidate_the_monitor(monkeypatch):
    """A process that was stopped, a clock that stepped, more CPU time than there is; nothing else does."""

    def slow(kernel):  # stopped between the clock and the counters of the last sample
        wait = kernel.wait
        kernel.wait = lambda seconds: (kernel.s > 2.7 and wait(25)) or wait(seconds)

    def step(kernel):
        wall = iter((0, 2 * S))
        monkeypatch.setattr(monitor, "_wall", lambda: next(wall))

    def back(kernel):
        wall = iter((0, -2 * S))
        monkeypatch.setattr(monitor, "_wall", lambda: next(wall))

    def busy(kernel):
        kernel.cpu = lambda files: proc.Cpu(1, 1, 10 * kernel.s)
        monkeypatch.setattr(monitor.proc, "cpu", kernel.cpu)

    def fine(kernel):
        kernel.cpu = lambda files: proc.Cpu(1, 1, 8 * kernel.s)
        monkeypatch.setattr(monitor.proc, "cpu", kernel.cpu)

    words = {slow: "the last sample came", step: "stepped by 2.0 s", back: "stepped by -2.0 s", busy: "on 8 cores"}
    for harm in (slow, step, back, busy, fine):
        with monkeypatch.context() as patch:
            kernel = Kernel(patch)
            harm(kernel)
            found = watch(kernel, 3)
            if harm is fine:
                assert "invalid" not in found.summary and found.columns()
                continue
            assert words[harm] in found.summary["invalid"], found.summary
            assert "cpu_busy_s" not in found.summary and found.columns() == {}, harm
        monkeypatch.setattr(monitor, "_wall", lambda: 0)


def test_cells_of_samples(monkeypatch):
    found = watch(Kernel(monkeypatch), 2)
    for r in rows_of(found, "host"):
        s = (r["time_ns"] - T0) / S
        assert (r["cpu_user_s"], r["cpu_system_s"]) == pytest.approx((2 * s, 0.5 * s)) and r["rss_bytes"] == 777
        assert r["established"] == 50 - 3 and r["time_wait"] == 60 and r["sockets"] is None and r["rx_bytes"] is None
    looked = [r for r in rows_of(found, "host") if (r["syn"], r["closing"]) != (None, None)]
    assert {(r["syn"], r["closing"]) for r in looked} == {(3, 12)}
    assert [(r["time_ns"] - T0) // MS for r in looked] == [200, 1200], "once a second, soon after the start"
    for who, name, members in (("client", "0", (10, 11, 12)), ("client", "1", (30,)), ("server", "door", (20, 31))):
        rows = rows_of(found, who, name)
        assert len(rows) == 11
        for r in rows:
            used = sum(members) * (r["time_ns"] - T0) / S
            assert (r["cpu_user_s"], r["cpu_system_s"]) == pytest.approx((0.1 * used, 0.01 * used))
            assert r["rss_bytes"] == 1000 * sum(members) and r["established"] is None
        open_now = {r["sockets"] for r in rows if (r["time_ns"] - T0) // MS in (200, 1200)}
        assert open_now == ({5 + 2} if name == "0" else {1} if name == "1" else {None})
        assert {r["sockets"] for r in rows if (r["time_ns"] - T0) // MS not in (200, 1200)} == {None}
    for r in rows_of(found, "interface", "eth0"):
        s = (r["time_ns"] - T0) / S
        assert [r[name] for name in monitor.NICS] == [round(n * s) for n in (1000, 100, 10, 1)]
        assert r["cpu_user_s"] is None and r["rss_bytes"] is None
    assert rows_of(found, "interface", "idle") == []


def test_summary(monkeypatch):
    found = watch(Kernel(monkeypatch), 2).summary
    assert found["cpu_busy_s"] == pytest.approx(6.0) and found["server_cpu_s"] == pytest.approx(0.11 * 51 * 2)
    moved = {"rx_bytes": 2000, "tx_bytes": 200, "rx_packets": 20, "tx_packets": 2}
    assert found["network"]["eth0"] == moved | {"link_bits_per_s": 10**9}
    assert found["network"]["idle"] == dict.fromkeys(monitor.NICS, 0) | {"link_bits_per_s": None}
    assert found["connections_opened"] == 200 and found["ports"] == 28_232 and found["cores"] == os.cpu_count()
    assert watch(Kernel(monkeypatch), 1, actors={}).summary["server_cpu_s"] is None


def test_later_interface_has_no_difference(monkeypatch):
    kernel = Kernel(monkeypatch)
    plain = kernel.interfaces
    monkeypatch.setattr(
        monitor.proc, "interfaces", lambda f: plain(f) | ({"new": (kernel.now, 0, 0, 0)} if kernel.s > 0.5 else {})
    )
    found = watch(kernel, 1)
    assert "new" not in found.summary["network"] and rows_of(found, "interface", "new")


def test_ended_processes_keep_their_cpu_time(monkeypatch):
    kernel = Kernel(monkeypatch)
    kernel.dead = {12: T0 + 1100 * MS, 31: T0 + 500 * MS}
    found = watch(kernel, 2)
    for who, name, alive, ended in (("client", "0", (10, 11), (12, 1.0)), ("server", "door", (20,), (31, 0.4))):
        rows = rows_of(found, who, name)
        users = [r["cpu_user_s"] for r in rows]
        assert all(a <= b for a, b in pairwise(users)), "it never falls"
        pid, last = ended  # seen for the last time at this second
        assert users[-1] == pytest.approx(0.1 * (sum(alive) * 2 + pid * last))
        assert rows[-1]["cpu_system_s"] == pytest.approx(0.01 * (sum(alive) * 2 + pid * last))
        assert rows[-1]["rss_bytes"] == 1000 * sum(alive)


def test_later_processes_are_found_within_a_second(monkeypatch):
    kernel = Kernel(monkeypatch)
    late = T0 + 1150 * MS
    monkeypatch.setattr(monitor.proc, "pids", lambda: {p for p in kernel.parents if p != 12 or kernel.now >= late})
    rows = rows_of(watch(kernel, 3), "client", "0")
    sizes = [(r["time_ns"], r["rss_bytes"]) for r in rows]
    first = next(t for t, size in sizes if size == 33_000)
    assert {size for t, size in sizes if t < first} == {21_000} and late <= first <= late + S


def test_open_files_are_counted_once_a_second(monkeypatch):
    found = watch(Kernel(monkeypatch), 3)
    for what, name, files in (("client", "0", 7 + 3), ("client", "1", None), ("server", "door", 40 + 2)):
        rows = rows_of(found, what, name)
        seen = [r["time_ns"] - T0 for r in rows if r["files"] is not None]
        assert {r["files"] for r in rows} == {None, files}
        assert len(seen) == 3 * (files is not None) and all(b - a == S for a, b in pairwise(seen))
    assert {r["files"] for r in rows_of(found, "host")} == {None}


def test_open_files_agree_with_the_kernel(tmp_path, monkeypatch):
    def listed():
        return len(list(Path("/proc/self/fd").iterdir())) - 1  # without that of the listing

    before = proc.opened(os.getpid())
    with contextlib.ExitStack() as stack:
        for n in range(17):
            stack.enter_context(open(tmp_path / str(n), "w"))
        assert proc.opened(os.getpid()) - before in (17, 17 + 1) and abs(proc.opened(os.getpid()) - listed()) <= 1
        monkeypatch.setattr(proc.os, "stat", lambda path: SimpleNamespace(st_size=0))
        assert abs(proc.opened(os.getpid()) - listed()) <= 1, "a kernel without this number"
    monkeypatch.undo()
    assert proc.opened(2**22 + 1) is None


def test_long_run_has_fewer_samples_and_heartbeats(monkeypatch):
    """Two hours: one sample every 2 s, and a heartbeat each minute but at the end."""
    beats = []
    kernel = Kernel(monkeypatch)
    found = watch(kernel, 7200, None, {0: 10}, lambda *report: beats.append(report))
    times = [r["time_ns"] - T0 for r in rows_of(found, "host")]
    assert times == [2 * S * i for i in range(3601)]
    assert [at for at, _ in beats] == [60 * S * i for i in range(1, 120)]
    assert {tuple(seen.items()) for _, seen in beats} == {(("client", (33_000, 10)), ("server", (51_000, 42)))}


def test_late_heartbeats_are_a_minute_apart(monkeypatch):
    beats, kernel = [], Kernel(monkeypatch)
    found = monitor.Monitor({}, dict, 600 * S, lambda at, seen: beats.append((at, seen)))
    found._stop.wait = lambda seconds: kernel.wait(200 if kernel.s > 30 and kernel.s < 100 else seconds)
    found._run(T0)
    assert len(beats) > 3 and all(b - a >= 59 * S for (a, _), (b, _) in pairwise(beats)), "at most once a minute"
    assert not any(seen for _, seen in beats), "no process is watched"


def test_owner_of_a_process():
    found = monitor.Monitor({}, dict, 0)
    parents_and_sessions = {
        **{10: (1, 10), 11: (10, 10), 12: (11, 99), 20: (10, 20), 21: (20, 20)},
        **{40: (1, 10), 50: (1, 50), 60: (61, 60), 61: (60, 60)},
    }
    found._born = parents_and_sessions
    owners = {pid: found._owner(pid, {10: "ten", 20: "twenty"}) for pid in parents_and_sessions}
    expected = {"ten": (10, 11, 12, 40), "twenty": (20, 21), None: (50, 60, 61)}
    assert owners == {pid: owner for owner, pids in expected.items() for pid in pids}


def test_restarted_client_is_another_process(monkeypatch):
    kernel = Kernel(monkeypatch)
    found = monitor.Monitor({}, lambda: {0: 10 if kernel.s < 0 else 30}, S)
    found._find()
    assert found._trees["client", "0"].members == {10, 11, 12}
    kernel.now = T0 + 1
    found._find()
    assert found._trees["client", "0"].members == {30}


def test_expensive_samples_come_less_often(monkeypatch):
    """A sample of 6 ms of CPU every second is 0.6 % of a core; they stay on the grid, and the last one comes."""
    kernel = Kernel(monkeypatch, sample_s=0.006)
    found = watch(kernel, 10)
    times = [r["time_ns"] - T0 for r in rows_of(found, "host")]
    assert 9 <= len(times) <= 13 and 0 <= times[-1] - 10 * S < 10 * MS
    assert all(t % (200 * MS) < 10 * MS for t in times[:-1])
    assert found.summary["monitor_cpu_s"] == pytest.approx(0.006 * len(times))


def test_expensive_checks_are_less_frequent(monkeypatch):
    """A look of 10 ms of CPU every 4 s is a quarter of a percent of a core."""
    kernel = Kernel(monkeypatch, look_s=0.01)
    found = watch(kernel, 20)
    looks = [(t - T0) / S for t in kernel.looks if t >= T0]
    assert 4 <= len(looks) <= 5 and looks[0] == pytest.approx(4, abs=0.25)
    assert all(b - a == pytest.approx(4, abs=0.25) for a, b in pairwise(looks))
    assert found.summary["monitor_samples"] == 101, "samples do not wait for looks"
    assert found.summary["monitor_cpu_s"] == pytest.approx(0.01 * len(looks))


def test_missing_kernel_values_are_null(monkeypatch):
    kernel = Kernel(monkeypatch)
    monkeypatch.setattr(monitor.proc, "changing", lambda: None)
    monkeypatch.setattr(monitor.proc, "tcp", lambda files: (None, None))
    monkeypatch.setattr(monitor.proc, "sockets", lambda pid: None)
    found = watch(kernel, 2)
    assert {(r["syn"], r["closing"], r["established"]) for r in rows_of(found, "host")} == {(None, None, None)}
    assert found.summary["connections_opened"] is None
    assert {r["sockets"] for r in rows_of(found, "client", "0")} == {None}


def test_monitor_stopped_before_start_is_empty():
    found = monitor.Monitor({}, dict, S)
    found.start(time.time_ns() + 100 * S)
    found.stop()
    assert found.summary == {} and found.columns() == {} and not found._thread.is_alive()


def test_cpu_time_of_a_real_process():
    """A child works until it has used 0.3 s of CPU, and prints how much that was."""
    code = "import time\nwhile (used := time.process_time()) < 0.3: pass\nprint(used)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        found = monitor.Monitor({}, lambda: {0: child.pid}, 10 * S)
        found.start(time.time_ns())
        output = float(child.communicate()[0])
        found.stop()
    rows = rows_of(found, "client", "0")
    used = rows[-1]["cpu_user_s"] + rows[-1]["cpu_system_s"]
    assert 0.1 * output < used <= output + 0.3 and found.summary["cpu_busy_s"] >= 0


def test_use_is_reported_each_second(monkeypatch):
    """10, 11, 12 are the client's processes, 20 and 31 the store's; p uses 0.11 p CPU seconds per second."""
    for seconds, report_s in ((10, 0.0), (10, 0.003), (7200, 0.0005)):
        with monkeypatch.context() as patch:
            kernel, reports = Kernel(patch), []

            def second(at_ns, used, kernel=kernel, reports=reports, report_s=report_s):
                reports.append((kernel.now - T0, at_ns - T0, used))
                kernel.work(report_s)

            found = watch(kernel, seconds, None, {0: 10}, None, second)
        if not report_s:
            assert [r["time_ns"] - T0 for r in rows_of(found, "host")] == [200 * MS * i for i in range(51)]
            assert [now for now, *_ in reports] == [S * i + 50 * MS for i in range(1, seconds)]
        else:
            assert len(reports) >= min(seconds - 1, 0.5 * seconds * 0.001 / report_s)
        assert all(b[0] - a[0] >= S for a, b in pairwise(reports)), "at most once a second"
        assert len(reports) * report_s <= 0.001 * seconds + report_s, "within its share of a core"
        for now, at, used in reports:
            s = at / S
            assert 0 <= now - at <= 400 * MS, "the values are recent"
            assert (used.host_s, used.client_s) == pytest.approx((3 * s, 0.11 * 33 * s))
            assert used.server_s == pytest.approx(0.11 * 51 * s)
            assert (used.client_rss, used.server_rss) == (33_000, 51_000)
        assert found.summary["monitor_cpu_s"] == pytest.approx(len(reports) * report_s)


def test_finding_processes_leaves_no_file_open():
    def count():
        return len(list(Path("/proc/self/fd").iterdir()))

    one, before = monitor.Monitor({"me": os.getpid()}, dict, 0), count()
    one._find()
    assert count() == before and os.getpid() in one._born


# Trees of processes, and the age of reported use


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
    one._report_until(10**18 + until_ns, None, 10**18)
    return seen, looks


def test_reported_use_is_two_samples_old_at_most(monkeypatch):
    """What is older than 400 ms is looked up again."""
    for age, renewed in ((0, False), (399 * MS, False), (400 * MS, False), (400 * MS + 1, True), (S, True)):
        seen, looks = reported(monkeypatch, age, S + 1)
        assert seen == [(S, S if renewed else S - age, 42.0 if renewed else 7.0)] and len(looks) == renewed, age
    seen, looks = reported(monkeypatch, 0, 4 * S)
    assert [when for when, *_ in seen] == [S, 2 * S, 3 * S] and len(looks) == 2
    assert reported(monkeypatch, 0, S) == ([], []) == reported(monkeypatch, 0, 3 * S, stops=True)
