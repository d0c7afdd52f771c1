"""The monitor on a host whose kernel is imagined: time passes only where the monitor waits or works, so every sample is known beforehand."""

import contextlib
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
    """Process p uses 0.1 p user and 0.01 p system CPU seconds per second, and has 1000 p bytes. CPU costs: of a sample, of a look."""

    def __init__(self, patch, sample_s=0.0, look_s=0.0, nics=("eth0", "idle")):
        self.now, self.spent, self.sample_s, self.look_s, self.nics = T0 - S, 0.0, sample_s, look_s, nics
        self.looks, self.dead, self.parents = [], {}, {10: 1, 11: 10, 12: 11, 20: 1, 30: 1, 31: 1}
        self.sessions = {10: 10, 11: 10, 12: 10, 20: 20, 30: 30, 31: 20}
        patch.setattr(monitor.clock, "now_ns", lambda: self.now)
        patch.setattr(monitor.time, "thread_time", lambda: self.spent)
        for name in (
            "process",
            "pids",
            "sockets",
            "opened",
            "changing",
            "cpu",
            "memory_in_use",
            "interfaces",
            "tcp",
            "time_wait",
            "link_speed",
            "ephemeral_ports",
        ):
            patch.setattr(monitor.proc, name, getattr(self, name))
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

    def link_speed(self, nic):
        return 10**9 if nic == "eth0" else None

    def ephemeral_ports(self):
        return 28_232


def watch(kernel, seconds=3, actors=None, clients=None):
    found = monitor.Monitor(
        {"door": 20} if actors is None else actors, lambda: {0: 10, 1: 30} if clients is None else clients, seconds * S
    )
    found._stop.wait = kernel.wait
    found._run(T0)
    return found


def rows_of(found, what, name=""):
    columns = found.columns()
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [r for r in rows if r["what"] == what and r["name"] == name]


def test_samples_lie_on_a_grid_from_start_to_deadline(monkeypatch):
    found = watch(Kernel(monkeypatch), 3)
    columns = found.columns()
    assert list(columns) == list(records.MONITOR)
    times = [r["time_ns"] for r in rows_of(found, "host")]
    assert times == [T0 + i * 200 * MS for i in range(16)]
    assert (
        found.summary["monitor_samples"] == 16
        and found.summary["seconds"] == 3.0
        and found.summary["monitor_cpu_s"] == 0
    )


def test_every_cell(monkeypatch):
    found = watch(Kernel(monkeypatch), 2)
    for r in rows_of(found, "host"):
        s = (r["time_ns"] - T0) / S
        assert (r["cpu_user_s"], r["cpu_system_s"]) == pytest.approx((2 * s, 0.5 * s)) and r["rss_bytes"] == 777
        assert r["established"] == 50 - 3 and r["time_wait"] == 60 and r["sockets"] is None and r["rx_bytes"] is None
    looked = [r for r in rows_of(found, "host") if r["syn"] is not None]
    assert all((r["syn"], r["closing"]) == (3, 12) for r in looked) and [
        r["closing"] is None for r in rows_of(found, "host")
    ].count(False) == len(looked)
    assert [(r["time_ns"] - T0) // MS for r in looked] == [200, 1200], (
        "once a second, the first a tenth of a second after the start"
    )
    for who, name, members in (("client", "0", (10, 11, 12)), ("client", "1", (30,)), ("server", "door", (20, 31))):
        rows = rows_of(found, who, name)
        assert len(rows) == 11
        for r in rows:
            s = (r["time_ns"] - T0) / S
            assert (r["cpu_user_s"], r["cpu_system_s"]) == pytest.approx(
                (0.1 * sum(members) * s, 0.01 * sum(members) * s)
            )
            assert r["rss_bytes"] == 1000 * sum(members) and r["established"] is None
        open_now = {r["sockets"] for r in rows if (r["time_ns"] - T0) // MS in (200, 1200)}
        assert open_now == ({5 + 2} if name == "0" else {1} if name == "1" else {None})
        assert {r["sockets"] for r in rows if (r["time_ns"] - T0) // MS not in (200, 1200)} == {None}
    for r in rows_of(found, "interface", "eth0"):
        s = (r["time_ns"] - T0) / S
        assert (r["rx_bytes"], r["tx_bytes"], r["rx_packets"], r["tx_packets"]) == (
            round(1000 * s),
            round(100 * s),
            round(10 * s),
            round(s),
        )
        assert r["cpu_user_s"] is None and r["rss_bytes"] is None
    assert rows_of(found, "interface", "idle") == []


def test_the_summary(monkeypatch):
    found = watch(Kernel(monkeypatch), 2).summary
    assert found["cpu_busy_s"] == pytest.approx(6.0) and found["server_cpu_s"] == pytest.approx(0.11 * 51 * 2)
    assert found["network"]["eth0"] == {
        "rx_bytes": 2000,
        "tx_bytes": 200,
        "rx_packets": 20,
        "tx_packets": 2,
        "link_bits_per_s": 10**9,
    }
    assert found["network"]["idle"] == dict.fromkeys(monitor.NICS, 0) | {"link_bits_per_s": None}
    assert found["connections_opened"] == 200 and found["ports"] == 28_232 and found["cores"] == os.cpu_count()
    assert watch(Kernel(monkeypatch), 1, actors={}).summary["server_cpu_s"] is None


def test_an_interface_that_came_later_is_in_no_difference(monkeypatch):
    kernel = Kernel(monkeypatch)
    plain = kernel.interfaces
    monkeypatch.setattr(
        monitor.proc, "interfaces", lambda f: plain(f) | ({"new": (kernel.now, 0, 0, 0)} if kernel.s > 0.5 else {})
    )
    found = watch(kernel, 1)
    assert "new" not in found.summary["network"] and rows_of(found, "interface", "new")


def test_cpu_time_of_what_ended_still_counts(monkeypatch):
    kernel = Kernel(monkeypatch)
    kernel.dead = {12: T0 + 1100 * MS, 31: T0 + 500 * MS}
    found = watch(kernel, 2)
    for who, name, alive, ended in (("client", "0", (10, 11), (12, 1.0)), ("server", "door", (20,), (31, 0.4))):
        rows = rows_of(found, who, name)
        users = [r["cpu_user_s"] for r in rows]
        assert all(a <= b for a, b in pairwise(users)), "it never falls"
        pid, last = ended  # seen for the last time at this second
        assert users[-1] == pytest.approx(0.1 * (sum(alive) * 2 + pid * last))
        assert rows[-1]["cpu_system_s"] == pytest.approx(0.01 * (sum(alive) * 2 + pid * last)) and rows[-1][
            "rss_bytes"
        ] == 1000 * sum(alive)


def test_processes_that_come_later_are_found_within_a_second(monkeypatch):
    kernel = Kernel(monkeypatch)
    late = T0 + 1150 * MS
    monkeypatch.setattr(monitor.proc, "pids", lambda: {p for p in kernel.parents if p != 12 or kernel.now >= late})
    rows = rows_of(watch(kernel, 3), "client", "0")
    sizes = [(r["time_ns"], r["rss_bytes"]) for r in rows]
    first = next(t for t, size in sizes if size == 33_000)
    assert {size for t, size in sizes if t < first} == {21_000} and late <= first <= late + S


def test_open_files_of_clients_and_daemons_are_seen_once_a_second(monkeypatch):
    found = watch(Kernel(monkeypatch), 3)
    for what, name, files in (("client", "0", 7 + 3), ("client", "1", None), ("server", "door", 40 + 2)):
        rows = rows_of(found, what, name)
        seen = [r["time_ns"] - T0 for r in rows if r["files"] is not None]
        assert {r["files"] for r in rows} == {None, files}
        assert len(seen) == 3 * (files is not None) and all(b - a == S for a, b in pairwise(seen))
    assert {r["files"] for r in rows_of(found, "host")} == {None}


def test_open_files_are_those_of_the_kernel(tmp_path, monkeypatch):
    def listed():
        return len(list(Path("/proc/self/fd").iterdir())) - 1  # without that of the listing

    before = proc.opened(os.getpid())
    with contextlib.ExitStack() as stack:
        for n in range(17):
            stack.enter_context(open(tmp_path / str(n), "w"))
        assert proc.opened(os.getpid()) - before in (17, 17 + 1) and abs(proc.opened(os.getpid()) - listed()) <= 1
        monkeypatch.setattr(proc.os, "stat", lambda path: SimpleNamespace(st_size=0))
        assert abs(proc.opened(os.getpid()) - listed()) <= 1, "a kernel that does not tell the number"
    monkeypatch.undo()
    assert proc.opened(2**22 + 1) is None


def test_a_long_run_has_fewer_samples_and_tells_that_it_lives(monkeypatch):
    """Two hours: one sample every 2 s, and a heartbeat each minute but at the end."""
    beats = []
    kernel = Kernel(monkeypatch)
    found = monitor.Monitor({"door": 20}, lambda: {0: 10}, 7200 * S, lambda *told: beats.append(told))
    found._stop.wait = kernel.wait
    found._run(T0)
    times = [r["time_ns"] - T0 for r in rows_of(found, "host")]
    assert times == [2 * S * i for i in range(3601)]
    assert [at for at, _ in beats] == [60 * S * i for i in range(1, 120)]
    assert {tuple(seen.items()) for _, seen in beats} == {(("client", (33_000, 10)), ("server", (51_000, 42)))}


def test_beats_that_are_late_do_not_come_in_a_row(monkeypatch):
    beats, kernel = [], Kernel(monkeypatch)
    found = monitor.Monitor({}, dict, 600 * S, lambda at, seen: beats.append((at, seen)))
    found._stop.wait = lambda seconds: kernel.wait(200 if kernel.s > 30 and kernel.s < 100 else seconds)
    found._run(T0)
    assert len(beats) > 3 and all(b - a >= 59 * S for (a, _), (b, _) in pairwise(beats)), "at most once a minute"
    assert not any(seen for _, seen in beats), "nobody is watched"


def test_who_owns_a_process():
    found = monitor.Monitor({}, dict, 0)
    found._born = {
        10: (1, 10),
        11: (10, 10),
        12: (11, 99),
        20: (10, 20),
        21: (20, 20),
        40: (1, 10),
        50: (1, 50),
        60: (61, 60),
        61: (60, 60),
    }
    own = {10: "ten", 20: "twenty"}
    owners = {pid: found._owner(pid, own) for pid in found._born}
    assert owners == {
        10: "ten",
        11: "ten",
        12: "ten",
        20: "twenty",
        21: "twenty",
        40: "ten",
        50: None,
        60: None,
        61: None,
    }


def test_a_client_that_began_anew_is_another_process(monkeypatch):
    kernel = Kernel(monkeypatch)
    found = monitor.Monitor({}, lambda: {0: 10 if kernel.s < 0 else 30}, S)
    found._find()
    assert found._trees["client", "0"].members == {10, 11, 12}
    kernel.now = T0 + 1
    found._find()
    assert found._trees["client", "0"].members == {30}


def test_dear_samples_come_less_often(monkeypatch):
    """A sample of 6 ms of CPU every second is 0.6 % of a core; they stay on the grid, and the last one comes."""
    kernel = Kernel(monkeypatch, sample_s=0.006)
    found = watch(kernel, 10)
    times = [r["time_ns"] - T0 for r in rows_of(found, "host")]
    assert (
        9 <= len(times) <= 13
        and all(t % (200 * MS) < 10 * MS for t in times[:-1])
        and 0 <= times[-1] - 10 * S < 10 * MS
    )
    assert (
        found.summary["monitor_cpu_s"] == pytest.approx(0.006 * len(times))
        and found.summary["monitor_cpu_s"] < 0.0065 * 12
    )


def test_dear_looks_come_less_often(monkeypatch):
    """A look of 10 ms of CPU every 4 s is a quarter of a percent of a core."""
    kernel = Kernel(monkeypatch, look_s=0.01)
    found = watch(kernel, 20)
    looks = [(t - T0) / S for t in kernel.looks if t >= T0]
    assert 4 <= len(looks) <= 5 and looks[0] == pytest.approx(4, abs=0.25)
    assert all(b - a == pytest.approx(4, abs=0.25) for a, b in pairwise(looks))
    assert found.summary["monitor_samples"] == 101, "samples do not wait for looks"
    assert found.summary["monitor_cpu_s"] == pytest.approx(0.01 * len(looks))


def test_what_a_kernel_does_not_tell_is_null(monkeypatch):
    kernel = Kernel(monkeypatch)
    monkeypatch.setattr(monitor.proc, "changing", lambda: None)
    monkeypatch.setattr(monitor.proc, "tcp", lambda files: (None, None))
    monkeypatch.setattr(monitor.proc, "sockets", lambda pid: None)
    found = watch(kernel, 2)
    assert {(r["syn"], r["closing"], r["established"]) for r in rows_of(found, "host")} == {(None, None, None)}
    assert found.summary["connections_opened"] is None and {r["sockets"] for r in rows_of(found, "client", "0")} == {
        None
    }


def test_stopped_before_the_start_nothing_is_said():
    found = monitor.Monitor({}, dict, S)
    found.start(time.time_ns() + 100 * S)
    found.stop()
    assert found.summary == {} and found.columns() == {} and not found._thread.is_alive()


def test_a_real_process_that_works():
    """A child that works for its whole life: its CPU time is what it says of itself at the end."""
    code = "import time; e = time.monotonic() + 0.7\nwhile time.monotonic() < e: pass\nprint(time.process_time())"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        found = monitor.Monitor({}, lambda: {0: child.pid}, 10 * S)
        found.start(time.time_ns())
        said = float(child.communicate()[0])
        found.stop()
    rows = rows_of(found, "client", "0")
    used = rows[-1]["cpu_user_s"] + rows[-1]["cpu_system_s"]
    assert 0.1 * said < used <= said + 0.3 and found.summary["cpu_busy_s"] >= 0


@pytest.mark.parametrize(("seconds", "tell_s"), ((10, 0.0), (7200, 0.0), (10, 0.003), (7200, 0.0005)))
def test_each_second_tells_what_is_used_between_two_samples_within_its_share(monkeypatch, seconds, tell_s):
    """By hand: processes 10, 11, 12 are the client's, 20, 21 and 31 the store's; p uses 0.11 p CPU seconds per second."""
    told, kernel = [], Kernel(monkeypatch)

    def second(at_ns, used):
        told.append((kernel.now - T0, at_ns, used))
        kernel.work(tell_s)

    found = monitor.Monitor({"door": 20}, lambda: {0: 10}, seconds * S, None, second)
    found._stop.wait = kernel.wait
    found._run(T0)
    rows = rows_of(found, "host")
    every = 200 * MS if seconds == 10 else 2 * S
    if not tell_s:
        assert [r["time_ns"] - T0 for r in rows] == [every * i for i in range(seconds * S // every + 1)], "none is late"
        assert [at for at, *_ in told] == [S * i + 50 * MS for i in range(1, seconds)]
    assert all(b[0] - a[0] >= S for a, b in pairwise(told)), "at most once a second"
    assert len(told) * tell_s <= 0.001 * seconds + tell_s, "within its share of a core"
    assert len(told) >= min(seconds - 1, 0.5 * seconds * 0.001 / tell_s) if tell_s else told
    for now, at_ns, used in told:
        s = (at_ns - T0) / S
        assert 0 <= T0 + now - at_ns <= 400 * MS, "what is told is new"
        assert used.host_s == pytest.approx(3 * s) and used.client_s == pytest.approx(0.11 * 33 * s)
        assert used.server_s == pytest.approx(0.11 * 51 * s) and (used.client_rss, used.server_rss) == (33_000, 51_000)
    assert found.summary["monitor_cpu_s"] == pytest.approx(len(told) * tell_s)
