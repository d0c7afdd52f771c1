"""Gangs over ssh: four hosts with OpenSSH in network namespaces with shaped links (needs root)."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import cluster_lab
import ports
import pytest
from cluster_lab import LONG, LONG_KEY, runs
from common import BIN, laboratory
from laboratory import LOADGEN_IS_BUILT
from managed import until
from process_table import having
from ssh_lab import FRONT_END, PREFIX, Hosts

from storelab.gang.launchers import ssh

pytestmark = [pytest.mark.real, pytest.mark.heavy, pytest.mark.root, pytest.mark.xdist_group("ssh")]
if os.geteuid() != 0:
    pytest.skip("privilege: the namespaces of the hosts need root", allow_module_level=True)
if shutil.which("sshd", path="/usr/sbin:/usr/local/sbin") is None:
    pytest.skip("OpenSSH's server is not installed: storelab install sshd", allow_module_level=True)

PUT = {"workload": "put", "duration": "2 s", "warm_up": "200 ms"}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Start four hosts and a head; check that nothing of them remains."""
    if Path(f"/run/netns/{PREFIX}head").exists():
        pytest.skip("other hosts are up on this machine")
    started = Hosts(tmp_path_factory.mktemp("ssh"))
    try:
        started.up()
        yield started
    finally:
        started.down()
    assert not list(Path("/run/netns").glob(f"{PREFIX}*"))


@pytest.fixture
def lab(hosts):
    """Yield a laboratory whose gangs run on the hosts; check at the end that nothing is left on them and here."""
    sockets = set(Path("/tmp").glob("storelab-ssh-*"))
    with laboratory(LONG, {"seaweedfs": {"kind": "seaweedfs", "port": ports.block(), "address": FRONT_END}}) as folder:
        configure(hosts, folder)
        yield folder
        assert hosts.nothing_left()
        assert not having("ssh", str(hosts.folder / "config")) and set(Path("/tmp").glob("storelab-ssh-*")) <= sockets


def configure(hosts: Hosts, folder: Path, sweeps: dict | None = None, /, **launcher) -> None:
    settings = {"kind": "ssh", "hosts": hosts.names, "options": hosts.options, "heartbeat_timeout": "8 s"} | launcher
    cluster_lab.configure(folder, launcher=settings, **({"sweeps": sweeps} if sweeps else {}))


def measured(hosts: Hosts, folder: Path, key: str) -> subprocess.Popen:
    """Start to measure the long point; return once all its agents have clients, for two seconds."""
    process = hosts.begin(folder, str(BIN / "storelab"), "measure", key)
    attempts = folder / "results/bench/work"
    until(lambda: list(attempts.rglob("go")) or process.poll() is not None, 60, 0.2)
    assert process.poll() is None, process.communicate()
    time.sleep(2)
    return process


def failed(process: subprocess.Popen, within_s: float = 45) -> str:
    """Return the message of a point that fails."""
    _, errors = process.communicate(timeout=within_s)
    assert process.returncode == 1 and "Traceback" not in errors, errors
    return errors


def agent(hosts: Hosts, number: int) -> int:
    """Return the pid of a host's agent, on the host."""
    return int(hosts.on(number, "pgrep", "-f", "storelab.gang.agent").split()[0])


def test_gang_over_ssh(hosts, lab):
    """One and four hosts, and two of four, with aliases, a banner, and a login shell that prints."""
    sweeps = {"up": PUT | {"axes": {"clients": [1, 8], "workers": 2, "clients_per_node": [0, 4]}}}
    sweeps |= {"read": {"workload": "read_entries", "duration": "2 s", "axes": {"clients": 4, "engine": "uproot-s3fs"}}}
    configure(
        hosts,
        lab,
        sweeps,
        hosts=["alias1", "root@node2", "ssh://node3:22", "node4"],
        setup="echo loaded the module",
    )
    done = hosts.storelab(lab, "check")
    assert done.returncode == 0, done.stderr
    done = hosts.run(lab, *cluster_lab.snakemake("local", "tables"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = runs(lab)
    assert len(found) == 5
    for key, run in found.items():
        clients = run["clients"]
        nodes = -(-len(clients) // 4) if "per_node~0004" in key else min(4, len(clients))
        assert run["launcher"] == "ssh" and len({c["host"] for c in clients}) == nodes == len(run["nodes"])
        assert {c["host"] for c in clients} <= set(hosts.names)
        assert all(c["operations"] > 0 for c in clients)
        assert all(n["clock_how"] == "asked" and n["clock_error_ns"] < 10_000_000 for n in run["nodes"])


def test_check_names_each_unfit_host(hosts, lab):
    """A wrong host key, no accepted key, an old Python, and a host that does not exist."""
    other = (hosts.folder / "other.pub").read_text()
    old = hosts.folder / "python3.9"
    old.write_text("#!/bin/sh\necho storelab-python 3.9.2 x86_64 - /usr/bin/python3.9\n")
    old.chmod(0o755)
    hosts.write_known(node2=other)
    try:
        configure(hosts, lab, hosts=["node1", "node2", "keyless", "nowhere"])
        done = hosts.storelab(lab, "check")
        lines = done.stderr.splitlines()
        assert done.returncode == 2 and len(lines) == 3, done.stderr
        assert (
            lines[0].startswith("storelab: launcher.hosts: node2: its host key is not the known one")
            and "known:2" in lines[0]
        )
        assert (
            lines[1].startswith("storelab: launcher.hosts: keyless: it accepts no key")
            and "ssh-copy-id keyless" in lines[1]
        )
        assert lines[2].startswith("storelab: launcher.hosts: nowhere: Could not resolve hostname nowhere")
        done = hosts.storelab(lab, "measure", LONG_KEY)
        assert done.returncode == 1 and "node2: its host key is not the known one" in done.stderr, done.stderr
        assert "nowhere: Could not" in json.loads(next(lab.rglob("failed.json")).read_text())["reason"]
    finally:
        hosts.write_known()
    configure(hosts, lab, python="/mnt/python3.9")
    done = hosts.storelab(lab, "check")
    assert done.returncode == 2 and done.stderr.count("is Python 3.9.2; set launcher.python to Python 3.11") == 4


def test_unknown_host_key_is_not_accepted(hosts, lab):
    (hosts.folder / "known").write_text("")
    try:
        done = hosts.storelab(lab, "check")
    finally:
        hosts.write_known()
    assert done.returncode == 2 and "its host key is not known; run `ssh node1` once" in done.stderr, done.stderr


def test_setup_that_fails_names_the_host(hosts, lab):
    configure(hosts, lab, setup="module load nothing")
    done = hosts.storelab(lab, "check")
    assert done.returncode == 2 and done.stderr.count("launcher.setup failed (") == 4, done.stderr


def test_dead_host_fails_the_point(hosts, lab):
    process = measured(hosts, lab, LONG_KEY)
    hosts.kill(3)
    try:
        message = failed(process)
    finally:
        hosts.start(3)
    assert "node 2 (node3)" in message and ("connection is lost" in message or "no heartbeat" in message), message


def test_killed_agent_leaves_nothing(hosts, lab):
    process = measured(hosts, lab, LONG_KEY)
    hosts.on(2, "kill", "-9", str(agent(hosts, 2)))
    assert "node 1 (node2): its agent ended with status" in failed(process)


def test_hanging_agent_is_killed(hosts, lab):
    process = measured(hosts, lab, LONG_KEY)
    hosts.on(2, "kill", "-STOP", str(agent(hosts, 2)))
    assert "node 1 (node2) is lost: it has sent no heartbeat for 8 s" in failed(process, 90)


def test_lost_connection_ends_both_sides(hosts, lab):
    """A cable is cut in the middle of a point: the host sees no end of the connection."""
    process = measured(hosts, lab, LONG_KEY)
    hosts.cut(4)
    try:
        message = failed(process)
        assert "node 3 (node4)" in message, message
        until(lambda: not hosts.on(4, "pgrep", "-f", "storelab.gang"), 60, 0.5)
    finally:
        hosts.cut(4, down=False)


def test_full_disk_on_a_host(hosts, lab):
    """The tmpfs of one host is too small for the bodies of its clients."""
    hosts.restart(2, "1m")
    try:
        configure(hosts, lab, {"up": PUT | {"axes": {"clients": 4, "workers": 2, "object_size": "2 MB"}}})
        done = hosts.storelab(lab, "check")
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
        assert "node2: its clients need" in done.stderr and "(`scratch`), which has" in done.stderr
        key = hosts.storelab(lab, "plan").stdout.split()[-1]
        done = hosts.storelab(lab, "measure", key)
        assert done.returncode == 1 and "No space left" in done.stderr, done.stderr
    finally:
        hosts.restart(2)


def test_hosts_without_storelab_get_it(hosts, lab):
    """They have only Python; the software is sent once, used by two points, and removed at the end."""
    sweeps = {"up": PUT | {"axes": {"clients": [1, 2], "workers": 2, "engine": "loadgen"}}} if LOADGEN_IS_BUILT else {}
    sweeps |= {"s3": PUT | {"axes": {"clients": 2, "workers": 2}}}
    for number in (1, 2):
        hosts.restart(number, storelab=False)
    try:
        configure(hosts, lab, sweeps, hosts=["node1", "node2"], python=str(Path(sys.executable).resolve()))
        done = hosts.storelab(lab, "check")
        assert done.returncode == 0 and "to 2 hosts without it" in done.stderr, done.stderr
        assert hosts.on(2, "sh", "-c", "ls /tmp/cache/storelab").startswith("sent-")
        done = hosts.run(lab, *cluster_lab.snakemake("local", "tables"))
        assert done.returncode == 0 and "without it" not in done.stderr, done.stdout + done.stderr
        assert {c["host"] for run in runs(lab).values() for c in run["clients"]} == {"node1", "node2"}
        assert not any(hosts.on(n, "ls", "-A", "/tmp/cache/storelab") for n in (1, 2))
    finally:
        for number in (1, 2):
            hosts.restart(number)


def test_full_cache_of_a_host(hosts, lab):
    hosts.restart(1, storelab=False)
    hosts.on(1, "mount", "-t", "tmpfs", "-o", "size=20m", "none", "/tmp")
    try:
        configure(hosts, lab, hosts=["node1"], python=str(Path(sys.executable).resolve()))
        done = hosts.storelab(lab, "check")
        assert done.returncode == 2 and "cannot take it (" in done.stderr and "No space" in done.stderr, done.stderr
        assert not hosts.on(1, "ls", "-A", "/tmp/cache/storelab")
    finally:
        hosts.restart(1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ended_coordinator_ends_the_agents(hosts, lab, number):
    process = measured(hosts, lab, LONG_KEY)
    os.killpg(process.pid, number)
    process.communicate(timeout=30)
    assert not list(lab.rglob("run.json")) and not list(lab.rglob("failed.json"))
    assert hosts.nothing_left()
    until(lambda: not having("ssh", str(hosts.folder / "config")), 10)
    ssh.sweep(Path("/tmp"))
