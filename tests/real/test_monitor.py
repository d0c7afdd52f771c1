"""The monitor observes real processes, at a cost that does not disturb them."""

import os
import socket
import subprocess
import sys
import time

import psutil
import pytest

from storelab.core import clock, records
from storelab.host import monitor, proc

pytestmark = [pytest.mark.real, pytest.mark.heavy, pytest.mark.alone]
S = 10**9
# A client as s5cmd's is: the child does the work. It opens 12 connections to its own listener, holds memory, burns
# CPU.
CHILD = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
open_ones = [socket.create_connection(listener.getsockname()) for _ in range(12)]
accepted = [listener.accept()[0] for _ in range(12)]
accepted[0].close()
memory = bytearray(b"x" * 50_000_000)
end = time.monotonic() + 60
while time.monotonic() < end:
    accepted[1].send(b"y" * 1000), open_ones[1].recv(1000)
    sum(range(10_000))
"""
CLIENT = f"import subprocess, sys, time; time.sleep(%s); subprocess.run([sys.executable, '-c', {CHILD!r}])"
ENDED = (
    f"import subprocess, sys, time; subprocess.run(['timeout', '0.9', sys.executable, '-c', {CHILD!r}]); time.sleep(60)"
)


def begin(code: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True)


def end(*started: subprocess.Popen) -> None:
    for process in started:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        process.wait()


def watch(seconds: float, actors=None, clients=None, lead: float = 0.1):
    """Return a monitor that ran for this time, and its rows as dicts."""
    m = monitor.Monitor(actors or {}, lambda: clients or {}, int(seconds * S))
    m.start(clock.now_ns() + int(lead * S))
    time.sleep(seconds + lead + 0.2)
    m.stop()
    columns = m.columns()
    return m, [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def of(rows, what, name=""):
    return [r for r in rows if (r["what"], r["name"]) == (what, name)]


def gained(rows, *columns):
    return sum(rows[-1][c] - rows[0][c] for c in columns)


def test_sees_cpu_memory_sockets_and_traffic_of_a_clients_child(tmp_path):
    client, idle = begin(CLIENT % 0.3), begin("import time; time.sleep(60)")
    try:
        child_cpu0 = time.monotonic()
        # Long enough for a second look where the first came before the child's sockets: a slow look is a rare one.
        m, rows = watch(8, {"daemon": idle.pid}, {0: client.pid, 3: idle.pid})
        child = psutil.Process(client.pid).children()[0]
        theirs = sum(child.cpu_times()[:2])
        assert time.monotonic() - child_cpu0 < 15
    finally:
        end(client, idle)
    seen = of(rows, "client", "0")
    assert 20 <= len(seen) == m.summary["monitor_samples"] <= 42, "five samples a second, and one at each end"
    assert [r["time_ns"] for r in seen] == sorted(r["time_ns"] for r in seen)
    assert m.summary["seconds"] == pytest.approx(8, abs=0.1)
    assert gained(seen, "time_ns") / S == pytest.approx(8, abs=0.1)
    burnt = gained(seen, "cpu_user_s", "cpu_system_s")
    assert 0.3 < burnt <= theirs + 0.5, f"the child had used {theirs:.2f} s"
    assert 60e6 < seen[-1]["rss_bytes"] < 300e6, "the client's own memory and its child's"
    assert max(r["sockets"] or 0 for r in seen) == 12 + 12 - 1 + 1, "both ends, the closed one, the listener"
    host = of(rows, "host")
    assert max(r["established"] for r in host) >= 22
    assert max(r["closing"] or 0 for r in host) >= 2, "CLOSE_WAIT and FIN_WAIT of one"
    assert gained(host, "cpu_user_s", "cpu_system_s") >= 0.8 * burnt and host[-1]["rss_bytes"] > 100e6
    loopback, quiet = of(rows, "interface", "lo"), of(rows, "server", "daemon")
    assert gained(loopback, "rx_bytes") == m.summary["network"]["lo"]["rx_bytes"] > 10_000
    assert gained(loopback, "tx_packets") > 20 and gained(quiet, "cpu_user_s", "cpu_system_s") < 0.2
    assert m.summary["server_cpu_s"] < 0.2 and quiet[-1]["rss_bytes"] > 1e6
    records.write_table(tmp_path / "monitor.0.parquet", records.MONITOR, m.columns())
    first, last = m.summary["ports"], proc.ephemeral_ports()
    assert first == last and first > 1000
    assert 12 <= m.summary["connections_opened"] < 1000 and m.summary["network"]["lo"]["link_bits_per_s"] is None
    assert m.summary["cpu_busy_s"] <= os.cpu_count() * m.summary["seconds"] * 1.05


def test_cpu_of_a_child_that_ended_stays():
    client = begin(ENDED)
    try:
        _, rows = watch(2.0, clients={0: client.pid})
    finally:
        end(client)
    cpu = [r["cpu_user_s"] + r["cpu_system_s"] for r in of(rows, "client", "0")]
    assert cpu == sorted(cpu) and cpu[-1] > 0.15 and max(r["rss_bytes"] for r in of(rows, "client", "0")) > 55e6
    assert of(rows, "client", "0")[-1]["rss_bytes"] < 40e6


def test_established_are_those_of_the_kernel_and_time_wait_grows():
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    before = proc.time_wait(proc.Files())
    for _ in range(40):
        with socket.create_connection(listener.getsockname()), listener.accept()[0]:
            pass
    assert proc.time_wait(proc.Files()) >= before + 20
    files = proc.Files()
    was = proc.tcp(files)[0]
    pairs = [(socket.create_connection(listener.getsockname()), listener.accept()[0]) for _ in range(30)]
    assert proc.tcp(files)[0] - was == pytest.approx(60, abs=20), "others may come and go"
    listed = sum(c.status == psutil.CONN_ESTABLISHED for c in psutil.net_connections("tcp"))
    assert proc.tcp(files)[0] == pytest.approx(listed, abs=20)
    for pair in pairs:
        for end_of in pair:
            end_of.close()
    files.close()
    listener.close()


@pytest.mark.parametrize("sockets", [0, 400])
def test_costs_less_than_one_percent_of_a_core(sockets):
    """Thousands of sockets in TIME_WAIT, many open ones, eight clients: fewer samples, but never at more cost."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    for _ in range(4000 if sockets else 0):
        with socket.create_connection(listener.getsockname()), listener.accept()[0]:
            pass
    held = [(socket.create_connection(listener.getsockname()), listener.accept()[0]) for _ in range(sockets // 2)]
    clients = [begin("import time; time.sleep(60)") for _ in range(8)]
    try:
        m, rows = watch(4.0, clients={i: c.pid for i, c in enumerate(clients)} | {8: os.getpid()})
    finally:
        end(*clients)
        for pair in held:
            pair[0].close(), pair[1].close()
        listener.close()
    assert m.summary["monitor_cpu_s"] < 0.01 * m.summary["seconds"]
    assert m.summary["monitor_samples"] >= 8, "at least half as often as configured"
    if sockets:
        assert max(r["established"] for r in of(rows, "host")) >= 400


def test_client_that_is_gone_and_early_stop():
    gone = begin("pass")
    gone.wait()
    m, rows = watch(0.5, clients={0: gone.pid})
    assert m.summary["server_cpu_s"] is None and all(r["rss_bytes"] == 0 for r in of(rows, "client", "0"))
    short = monitor.Monitor({}, lambda: {}, 60 * S)
    short.start(clock.now_ns())
    time.sleep(0.5)
    short.stop()
    assert 0.3 < short.summary["seconds"] < 5, "ends when stopped"
