"""A node's agent: its folder is removed after it was killed; it ends with its coordinator, and if it cannot measure."""

import sys
from types import SimpleNamespace

import pytest
from programs import python

from storelab.core import clock
from storelab.gang import agent as module
from storelab.gang.agent import Agent, GangFolder, NodeFailed, sweep
from storelab.gang.rendezvous import GangAborted
from storelab.host import scratch


def folders(path):
    return sorted(p.name for p in path.iterdir() if p.is_dir())


def test_gang_removes_files_of_its_clients(tmp_path):
    gang = GangFolder(tmp_path, "a1", 0, [0, 2])
    assert gang.path.stat().st_mode & 0o777 == 0o700 and gang.scratch.stat().st_mode & 0o777 == 0o700
    for name in ("a1-0", "a1-1", "bodies"):
        (gang.scratch / name).mkdir()
    with scratch.using(tmp_path):  # by another node's agent on this machine
        gang.remove()
        assert folders(gang.scratch) == ["a1-1", "bodies"], "client 1 is another node's"
    GangFolder(tmp_path, "a2", 0, [0]).remove()
    assert not gang.scratch.exists()


AGENT = """
import sys
from pathlib import Path
from storelab.gang.agent import GangFolder
g = GangFolder(Path(sys.argv[1]), "dead", 3, [3])
(g.path / "x509_user_proxy").write_text("secret")
(g.scratch / "dead-3").mkdir()
print(g.path, flush=True)
sys.stdin.read()
"""


def test_only_folders_of_killed_agents_are_swept(tmp_path):
    with python(AGENT, tmp_path) as agent:
        assert agent.stdout.readline()
        mine = GangFolder(tmp_path, "mine", 0, [0])
        (mine.scratch / "mine-0").mkdir()
        assert (mine.scratch / "gang-dead-3").exists()
    (mine.scratch / "gang-1").mkdir()  # of client 1 in an attempt with the name `gang`
    assert sweep(mine.scratch) == ["gang-dead-3"]
    assert folders(mine.scratch) == ["gang-1", "gang-mine-0", "mine-0"]
    mine.remove()
    assert not mine.scratch.exists()


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """Return an agent without clients; `now` and `files` are the time and the coordinator's files."""
    one = object.__new__(Agent)
    one.now, one.files, one.number, one.host = 100.0, {}, 0, "n0"
    monkeypatch.setattr(module.time, "monotonic", lambda: one.now)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    one.uplink = SimpleNamespace(get=one.files.get, put=one.files.__setitem__)
    one._alive = one._looked = 0.0
    one._coordinator, one.relayed, one.ranks, one.timeout_s = (0, one.now), set(), [0, 1], 60.0
    one.job = SimpleNamespace(silence_ns=5 * 10**9, nodes=[[0, 1]], scratch_base=tmp_path)
    return one


def test_agent_ends_without_heartbeats(agent):
    agent.files["coordinator"] = {"time_ns": 1}
    agent._called_off()
    agent.now += 4.9
    agent._called_off()
    agent.files["coordinator"] = {"time_ns": 2}
    agent.now += 4.9
    agent._called_off()
    agent.now += 5.1
    with pytest.raises(GangAborted, match="the coordinator has sent no heartbeat"):
        agent._called_off()
    agent.files["abort"] = {"reason": "a node failed"}
    agent.now += 1
    with pytest.raises(GangAborted, match="a node failed"):
        agent._called_off()


def test_agent_does_not_wait_for_ended_clients(agent, monkeypatch):
    def step(limit, late):
        assert len(agent.relayed) < 2, "it waits on"
        agent.relayed.add(len(agent.relayed))

    monkeypatch.setattr(agent, "_step", step)
    assert agent._until(lambda: agent.relayed) == {0}
    with pytest.raises(GangAborted, match="all clients of the node have ended"):
        agent._until(lambda: None)


def test_wrong_clock_is_refused(agent, monkeypatch):
    agent.job.clock_addresses, agent.job.clock_bound_ns = [], 10**9
    set_to: list[int] = []
    monkeypatch.setattr(clock, "set_offset", set_to.append)
    for ns in (10**9, -(10**9), 10**9 + 1, -(10**9) - 1):
        monkeypatch.setattr(module.nodes, "measure_offset", lambda *_, ns=ns: SimpleNamespace(ns=ns))
        if abs(ns) == 10**9:
            agent._compare_clock()
        else:
            with pytest.raises(NodeFailed, match=r"its clock differs by [+-]1\.000 s .*more than clock_bound = 1 s"):
                agent._compare_clock()
    assert set_to == [10**9, -(10**9)]


def test_full_scratch_folder_is_named(agent, monkeypatch):
    for free, full in ((module.FULL - 1, True), (module.FULL, False)):
        monkeypatch.setattr(module.shutil, "disk_usage", lambda path, free=free: SimpleNamespace(free=free))
        if full:
            with pytest.raises(NodeFailed, match=r"No space left on device: client 1 ended with status 9"):
                agent._refuse_full_disk(1, 9)
        else:
            agent._refuse_full_disk(1, 9)


def test_agent_without_coordinator_ends_with_exit_code_1(monkeypatch, capsys):
    def unreachable(place):
        raise OSError("no route")

    monkeypatch.setattr(module.relay, "uplink", unreachable)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)
    monkeypatch.setattr(module.processes, "no_core_dumps", lambda: None)
    monkeypatch.setattr(module.prefork, "without_pandas", lambda: None)
    for place, words in (("https://head:1", " at https://head:1"), ("pipe:", "")):
        monkeypatch.setattr(sys, "argv", ["agent", place, "3"])
        with pytest.raises(SystemExit, match=r"^1$"):
            module.main()
        assert f") cannot reach the coordinator{words}: no route\n" in capsys.readouterr().err
