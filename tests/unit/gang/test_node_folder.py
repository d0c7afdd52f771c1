"""A gang's folder on a node: it contains the files of its clients, and is removed after its agent was killed."""

from programs import python

from storelab.gang.agent import GangFolder, sweep
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
