"""A gang's folder on a node: its own, gone at the end, and swept where its agent was killed."""

import os
import signal
import subprocess
import sys

from storelab.gang.node_folder import GangFolder, sweep
from storelab.host import scratch


def test_a_gang_takes_its_clients_files_along(tmp_path):
    gang = GangFolder(tmp_path, "a1", 0, [0, 2])
    assert gang.path.stat().st_mode & 0o777 == 0o700 and gang.scratch.stat().st_mode & 0o777 == 0o700
    for name in ("a1-0", "a1-1", "bodies"):
        (gang.scratch / name).mkdir()
    with scratch.using(tmp_path):  # by another node's agent on this machine
        gang.remove()
        assert sorted(p.name for p in gang.scratch.iterdir() if p.is_dir()) == [
            "a1-1",
            "bodies",
        ]  # client 1 is another node's
    GangFolder(tmp_path, "a2", 0, [0]).remove()
    assert not gang.scratch.exists()


def test_who_lives_is_left_alone_and_who_was_killed_is_swept(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from storelab.gang.node_folder import GangFolder\n"
        "g = GangFolder(Path(sys.argv[1]), 'dead', 3, [3]); (g.path / 'x509_user_proxy').write_text('secret')\n"
        "(g.scratch / 'dead-3').mkdir(); print(g.path, flush=True); time.sleep(60)"
    )
    agent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert agent.stdout.readline()
    mine = GangFolder(tmp_path, "mine", 0, [0])
    (mine.scratch / "mine-0").mkdir()
    assert (mine.scratch / "gang-dead-3").exists()
    os.kill(agent.pid, signal.SIGKILL)
    agent.wait()
    assert sweep(mine.scratch) == ["gang-dead-3"]
    assert sorted(p.name for p in mine.scratch.iterdir() if p.is_dir()) == ["gang-mine-0", "mine-0"]
    mine.remove()
    assert not mine.scratch.exists()
