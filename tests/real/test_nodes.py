"""Gangs over several nodes on a real store, without a batch system: agents are started by hand, with node names."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest
from gang_job import prepared
from laboratory import configured
from managed import until
from process_table import having

from storelab.core.config import Launcher
from storelab.core.errors import MeasurementFailed
from storelab.core.records import RunRecord
from storelab.gang import coordinator, credentials, nodes, relay
from storelab.gang.launchers.remote import RemoteLauncher
from storelab.host import scratch
from storelab.measure import jobs
from storelab.workloads.staging import stage

pytestmark = pytest.mark.real


class ByHand(RemoteLauncher):
    """A shell in the role of the batch system: it starts an agent for each node, and ends when they have ended."""

    name = "by-hand"
    names: tuple[str, ...] = ()

    def launch(self) -> None:
        self.run(self.command())

    def command(self) -> list[str]:
        agent = " ".join(self.agent())
        names = self.names or tuple(f"node{n}" for n in range(len(self.nodes)))
        start = "SLURMD_NODENAME={} {} {} & echo $! > {}/pid.{}"
        lines = [start.format(name, agent, n, self.folder, n) for n, name in enumerate(names) if name]
        return ["bash", "-c", "\n".join([*lines, "wait"])]


class Posted(ByHand):
    """Nodes that share no folder."""

    def command(self) -> list[str]:
        self.url, self.ticket = self.relay_server.url, self.relay_server.access()
        agent, ticket = " ".join(self.agent()), self.folder / "ticket"
        own = [f"cp {ticket} {ticket}.{n}" for n in range(len(self.nodes))]  # as a batch system brings it to each node
        start = [
            f"SLURMD_NODENAME=node{n} {relay.TOKEN_FILE}={ticket}.{n} {agent} {n} &" for n in range(len(self.nodes))
        ]
        return ["bash", "-c", "\n".join([*own, *start, "wait"])]


@pytest.fixture
def gang(seaweedfs, tmp_path):
    """Return a function that runs a gang of `get` over nodes: (folder, job, results, launcher)."""

    def run(
        ranks,
        launcher=ByHand,
        at_start=lambda folder: None,
        settings=None,
        duration="1500 ms",
        timeout_s=30,
        **job_changes,
    ):
        size = sum(map(len, ranks))
        sweep = {"workload": "get", "duration": duration, "axes": {"clients": size, "workers": 2}}
        folder, job = prepared(seaweedfs, tmp_path, sweep)
        job.timeout_ns = timeout_s * 10**9
        shared = job.scratch_base
        job = replace(job, **job_changes)
        job.write(folder)
        given = Launcher(address="127.0.0.1", **(settings or {}))
        started = launcher(folder, ranks, [seaweedfs.credentials().environ()], given)
        seconds = job.point.fixed["duration_ns"] / 1e9
        with scratch.using(shared):  # as `measure` does: else another `down --all` clears it
            results = coordinator.run(
                started, folder, size, timeout_s, seconds, lambda t0: at_start(folder), job.lead_ns / 1e9
            )
        return folder, job, results, started

    return run


def wait_gone(folder: Path) -> None:
    """Wait until no agent and no client of this gang is left."""
    until(lambda: not having(folder.name), 15)


def test_gang_over_three_nodes_is_recorded(gang, seaweedfs, tmp_path):
    with scratch.using(tmp_path):  # as the coordinator does
        folder, job, results, launcher = gang([[0, 3], [1, 4], [2]], scratch_base=tmp_path)
    assert [r.client for r in results] == list(range(5)) and len({r.t0_ns for r in results}) == 1
    assert [(r.node, r.host) for r in results] == [(n, f"node{n}") for n in (0, 1, 2, 0, 1)]
    for rank, r in enumerate(results):
        ops = pq.read_table(folder / f"ops.{rank}.parquet")
        assert r.saw_go_in_time and all(c.ok for c in r.checks) and len(ops) == r.operations > 0
    found = RunRecord(point=job.point)
    nodes.add_to(found, launcher, results, {"server_cpu_s": 1.0})
    assert [n["host"] for n in found.nodes] == ["node0", "node1", "node2"] and found.shared_machine
    for n in found.nodes:
        assert n["clock_how"] == "asked" and abs(n["clock_offset_ns"]) < 5_000_000 and n["clock_error_ns"] < 5_000_000
        assert n["watched"]["monitor_samples"] > 2 and (folder / f"monitor.{n['node']}.parquet").exists()
    assert found.host["cores"] == os.cpu_count()  # three nodes, and one machine
    here = scratch.folder(tmp_path)
    wait_gone(folder)
    assert not [p for p in here.iterdir() if p.is_dir()]
    secret = seaweedfs.credentials()
    result = b"".join(p.read_bytes() for p in folder.iterdir() if p.is_file())
    assert secret.secret_key.encode() not in result and secret.access_key.encode() not in result
    assert not (folder / "keys").exists()


@pytest.mark.heavy
def test_a_node_that_is_killed_fails_the_point_by_name(gang):
    folders = []

    def kill(folder: Path) -> None:
        folders.append(folder)
        pid = int((folder / "pid.1").read_text())
        threading.Timer(1.0, lambda: os.kill(pid, signal.SIGKILL)).start()

    begun = time.monotonic()
    with pytest.raises(MeasurementFailed, match=r"node 1 \(node1\) is lost: it has sent no heartbeat for 5 s"):
        gang([[0], [1]], at_start=kill, duration="60 s", settings={"heartbeat_timeout": "5 s"})
    assert time.monotonic() - begun < 45
    wait_gone(folders[0])


@pytest.mark.heavy
def test_two_agents_on_one_host_are_refused(gang):
    class Same(ByHand):
        names = ("node0", "node0")

    with pytest.raises(MeasurementFailed, match="nodes 0 and 1 are both node0"):
        gang([[0], [1]], launcher=Same)


@pytest.mark.heavy
def test_a_node_that_does_not_come_is_named(gang):
    class Missing(ByHand):
        names = ("node0", "")

    with pytest.raises(MeasurementFailed, match=r"1 of 2 nodes did not join within 4 s \(missing: node 1\)"):
        gang([[0], [1]], launcher=Missing, timeout_s=4)


@pytest.mark.heavy
def test_wrong_clock_is_corrected_or_refused(gang):
    """The coordinator's own clock is shifted, so that those of all nodes differ from it by the same time."""

    class Shifted(ByHand):
        def start(self) -> None:
            super().start()
            self.clock.shift_ns = self.shift

    Shifted.shift = 40_000_000
    _, _, _, launcher = gang([[0], [1]], launcher=Shifted, lead_ns=300_000_000)
    found = launcher.about()
    assert all(35_000_000 < n["clock_offset_ns"] < 45_000_000 for n in found)
    Shifted.shift = 3_000_000_000
    off = r"node ([01]) \(node\1\): its clock differs by \+3\.0\d\d s from the coordinator's, more than clock_bound"
    with pytest.raises(MeasurementFailed, match=off):
        gang([[0], [1]], launcher=Shifted)


@pytest.mark.heavy
def test_message_of_batch_system_is_printed(gang):
    class Refused(ByHand):
        def command(self) -> list[str]:
            return ["bash", "-c", "echo 'srun: error: invalid partition specified: nowhere' >&2; exit 1"]

    with pytest.raises(MeasurementFailed, match=r"by-hand ended with status 1 .*invalid partition specified: nowhere"):
        gang([[0], [1]], launcher=Refused)


@pytest.mark.heavy
def test_gang_without_shared_folder_uses_relay(gang, tmp_path):
    tmpfs = tmp_path / "tmpfs"
    tmpfs.mkdir()
    more = {"settings": {"shared_folder": False}, "scratch_base": tmpfs}
    folder, _, results, launcher = gang([[0, 2], [1]], launcher=Posted, **more)
    assert not list(tmpfs.iterdir())  # where no other process uses it, agents leave nothing on a node's tmpfs
    assert [r.host for r in results] == ["node0", "node1", "node0"]
    rows = sum(len(pq.read_table(folder / f"ops.{r}.parquet")) for r in range(3))
    assert rows == sum(r.operations for r in results) > 0
    assert all(n["watched"] for n in launcher.about()) and not list(folder.glob("ticket*"))
    with pytest.raises(OSError):
        relay.HttpsFolder(launcher.url, launcher.ticket).get("job.json")  # the office has closed


@pytest.mark.heavy
def test_roles_over_nodes_have_separate_data_sets(seaweedfs, tmp_path):
    """Two roles read two data sets, which the nodes receive through the relay; one role begins later."""
    axes = {"engine": "obstore", "workers": 2}
    small = {"workload": "get", "axes": axes | {"object_size": "4 kB", "clients": 2}}
    large = {"workload": "get", "axes": axes | {"object_size": "50 kB"}, "begin": "500 ms"}
    sweep = {"duration": "1500 ms", "warm_up": "100 ms", "roles": {"small": small, "large": large}}
    stores = {"sw": {"kind": "seaweedfs"}}
    config, (point,) = configured(tmp_path, stores, {"s": sweep}, name="gang", campaign="gang")
    with scratch.using(config.scratch):  # as `stage` does
        manifests = {p.point.dataset["name"]: stage.ensure(config, seaweedfs, p.point.dataset) for p in point.parts()}
    assert len(manifests) == 2
    folder = tmp_path / "gang"
    folder.mkdir()
    attempt = secrets.token_hex(4)  # other checkouts use the same scratch folder
    job = jobs.job_of_point(config, [point], point, seaweedfs, manifests, attempt)
    job.lead_ns = 300_000_000
    job.write(folder)
    environs = [seaweedfs.credentials().environ()] * point.clients
    settings = Launcher(address="127.0.0.1", shared_folder=False)
    with scratch.using(job.scratch_base):
        launcher = Posted(folder, [[0, 2], [1]], environs, settings)
        results = coordinator.run(launcher, folder, 3, 30, 1.5, lambda t0: None, 0.3)
    assert [(r.role, r.host) for r in results] == [("small", "node0"), ("small", "node1"), ("large", "node0")]
    assert [r.begin_ns - r.t0_ns for r in results] == [0, 0, 500_000_000]
    for rank, (r, size) in enumerate(zip(results, (4000, 4000, 50_000), strict=True)):
        ops = pq.read_table(folder / f"ops.{rank}.parquet").to_pylist()
        assert {o["client"] for o in ops} == {rank} and {o["bytes"] for o in ops} == {size}
        assert all(c.ok for c in r.checks) and min(o["start_ns"] for o in ops) >= r.begin_ns


def test_relay_serves_only_with_the_token(tmp_path):
    relay_server = relay.RelayServer(tmp_path, (), "127.0.0.1")
    try:
        place = relay.HttpsFolder(relay_server.url, relay_server.access())
        place.put("ready.0", {"a": 1})
        assert place.put_once("ready.1", {}) and not place.put_once("ready.1", {"b": 2})
        assert place.present("ready") == {0, 1} and place.get("go") is None
        assert place.get("ready.0") == {"a": 1} and place.get("ready.1") == {}
        assert all(place.put_once("seen.0", {"clients": {7: 1}}) for _ in range(2))  # the second time: tried again
        with pytest.raises(OSError, match="403"):
            relay.HttpsFolder(relay_server.url, {**relay_server.access(), "token": "guessed"}).get("ready.0")
        with pytest.raises(OSError, match="400"):
            place.get(".hidden")
        with socket.create_connection(("127.0.0.2", urlsplit(relay_server.url).port), 5):
            pass  # nodes know this host by another address than it does itself
        other = relay.RelayServer(tmp_path, (), "127.0.0.1")
        try:
            with pytest.raises(OSError, match="certificate verify failed"):
                relay.HttpsFolder(other.url, relay_server.access()).get("ready.0")
        finally:
            other.close()
    finally:
        relay_server.close()


def test_files_that_credentials_name_go_along_and_go_away(tmp_path, monkeypatch):
    proxy = tmp_path / "proxy.pem"
    proxy.write_text("a proxy")
    environ = {"X509_USER_PROXY": str(proxy), "BEARER_TOKEN": "t", "HOME": "/h"}
    parcel = credentials.collect([{"AWS_ACCESS_KEY_ID": "k"}], environ)
    credentials.send(tmp_path, "keys", parcel)
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    there = tmp_path / "there"
    there.mkdir()
    (environ,) = credentials.receive(json.loads((tmp_path / "keys").read_text()), there)
    assert environ["AWS_ACCESS_KEY_ID"] == "k" and environ["BEARER_TOKEN"] == "t" and "HOME" not in environ
    brought = Path(environ["X509_USER_PROXY"])
    assert brought.read_text() == "a proxy" and brought.parent == there and brought.stat().st_mode & 0o777 == 0o600


@pytest.mark.heavy
def test_single_agent_reports_its_reason(tmp_path):
    """Its folder is not the coordinator's: an error reports it, and nothing hangs."""
    command = [sys.executable, "-m", "storelab.gang.agent", "https://127.0.0.1:9", "0"]
    environ = os.environ | {relay.TOKEN_FILE: str(tmp_path / "none")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "none" in done.stderr
