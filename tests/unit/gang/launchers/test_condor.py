"""HTCondor: its submit description, jobs that are held or gone, and machines shared out to jobs."""

import subprocess
from dataclasses import replace

from made_jobs import POINT, gang_job

from storelab.core.config import Launcher
from storelab.gang import credentials
from storelab.gang.launchers import condor
from storelab.stores.protocols.endpoint import Endpoint


def launcher_of(folder, nodes=2, **settings) -> condor.CondorLauncher:
    gang_job(replace(POINT, fixed={"duration_ns": 10 * 10**9}), timeout_ns=60 * 10**9).write(folder)
    environs = [{"AWS_SECRET_ACCESS_KEY": "very secret"}]
    one = condor.CondorLauncher(folder, [[n] for n in range(nodes)], environs, Launcher(kind="htcondor", **settings))
    one._shares, one._given, one.cluster = condor.share_out([], nodes), set(), "12"
    return one


def test_submit_description_of_each_universe(tmp_path):
    folder = tmp_path / "it's here"
    folder.mkdir()
    options = ["request_cpus = 4", 'Requirements = OpSys == "LINUX"']
    place = str(folder).replace("'", "''")
    for universe, number in (("vanilla", "$(ProcId)"), ("parallel", "$(Node)")):
        launcher = launcher_of(folder, universe=universe, python="/opt/bin/python", options=options)
        text = launcher.description([["a", "c"], []])
        lines = text.splitlines()
        assert f"arguments = \"-m storelab.gang.agent '{place}' {number}\"" in lines
        for line in ("executable = /opt/bin/python", "request_cpus = 4", "periodic_remove = time() > QDate + 730"):
            assert line in lines
        assert "secret" not in text and "should_transfer_files = NO" in text
        assert 'requirements = ((OpSys == "LINUX")) && stringListIMember(TARGET.Machine, MY.StorelabMachines)' in text
        assert text.lower().count("requirements = ") == 1
        assert text.endswith("queue Machines from (\na,c\n-\n)\n")
        assert ("machine_count = 1" in lines) == (universe == "parallel")


def test_arguments_are_quoted():
    for words, written in (
        (["-m", "x"], '"-m x"'),
        (["a b", ""], "\"'a b' ''\""),
        (["it's", 'say "x"'], "\"'it''s' 'say \"\"x\"\"'\""),
    ):
        assert condor.quoted(words) == written


def answers(launcher, monkeypatch, **texts) -> list[tuple[str, ...]]:
    """Let HTCondor's commands print these texts (without one: fail); return what was asked."""
    asked = []

    def command(*words):
        asked.append(words)
        return subprocess.CompletedProcess(words, 0 if words[0] in texts else 1, texts.get(words[0], ""), "")

    monkeypatch.setattr(launcher, "_command", command)
    return asked


def test_held_job_is_reported(tmp_path, monkeypatch):
    launcher = launcher_of(tmp_path)
    answers(launcher, monkeypatch, condor_q="0 2 slot1@a undefined\n1 5 undefined no such executable\n")
    assert launcher.trouble() == "job 12.1 (node 1) is held: no such executable"
    answers(launcher, monkeypatch)  # the scheduler is down for a while: wait
    launcher._looked = 0.0
    assert launcher.trouble() == "" and launcher.running()


def test_job_that_left_the_queue_is_reported(tmp_path, monkeypatch):
    launcher, history = launcher_of(tmp_path), "undefined undefined via condor_rm (by user me)\n"
    answers(launcher, monkeypatch, condor_q="0 2 slot1@a undefined\n", condor_history=history)
    monkeypatch.setattr(condor, "SETTLE_S", 0.0)
    assert launcher.trouble() == "", "its last files may still be in transfer"
    launcher._looked = 0.0
    message = launcher.trouble()
    assert message.startswith("job 12.1 (node 1) was removed") and "via condor_rm (by user me)" in message


def test_each_job_has_separate_machines():
    assert condor.share_out(["a", "b", "c", "d", "e"], 2) == [["a", "c", "e"], ["b", "d"]]
    assert condor.share_out(["a"], 2) == [["a"], []]


def test_spare_machines_go_to_waiting_jobs(tmp_path, monkeypatch):
    launcher = launcher_of(tmp_path, nodes=3)
    launcher._shares, launcher._given = [["a", "d"], ["b"], ["c"]], {*"abcd"}
    pool = "".join(f"{m} Unclaimed 8\n" for m in "abcde")
    asked = answers(launcher, monkeypatch, condor_q="", condor_status=pool, condor_qedit="")
    waits, runs = condor.Job(1, "", ""), condor.Job(condor.RUNNING, "a", "")
    launcher._share_more({0: runs, 1: waits, 2: waits})
    assert launcher._shares == [["a"], ["e"], ["d"]]  # b and c are never another job's: theirs may be on its way there
    assert ("condor_qedit", "12.0", "StorelabMachines", '"a"') in asked
    monkeypatch.setattr(condor, "SHARE_S", 0.0)
    launcher._share_more({0: runs, 1: waits, 2: waits})
    assert launcher._shares == [["a"], ["e"], ["d"]]
    launcher._shares, launcher._given = [["a", "e"], ["b"], ["gone"]], {*"abcde", "gone"}
    launcher._share_more({0: waits, 1: waits, 2: waits})
    assert launcher._shares == [["a"], ["b"], ["e"]]


def test_setup_lines_are_in_a_file(tmp_path, monkeypatch):
    """A submit description takes neither several lines nor quotes."""
    for shared in (True, False):
        setup = 'export COLOUR="dark red"\ntrue'
        launcher = launcher_of(tmp_path, setup=setup, python="/bin/echo", shared_folder=shared)
        done = subprocess.CompletedProcess([], 0, "7.0 - 7.1", "")
        monkeypatch.setattr(launcher, "_command", lambda *c, done=done: done)
        launcher.launch()
        text = (tmp_path / "gang.sub").read_text()
        assert f"executable = {tmp_path}/agent.sh\n" in text and "COLOUR" not in text
        assert f"transfer_executable = {'false' if shared else 'true'}\n" in text
        (words,) = (line.partition(" = ")[2] for line in text.splitlines() if line.startswith("arguments"))
        run = subprocess.run([str(tmp_path / "agent.sh"), *words.strip('"').split()], capture_output=True, text=True)
        assert run.stdout == f"-m storelab.gang.agent {tmp_path} $(ProcId)\n", run.stderr


def test_token_of_a_store_travels_without_the_batch_system(tmp_path, monkeypatch):
    monkeypatch.setenv("EOS_TOKEN", "very secret")
    gang_job(endpoints=[Endpoint("https://x", token="EOS_TOKEN"), Endpoint("https://y")]).write(tmp_path)
    launcher = condor.CondorLauncher(tmp_path, [[0]], [{}], Launcher(kind="htcondor"))
    assert launcher.parcel["environs"] == [{"EOS_TOKEN": "very secret"}]
    assert "EOS_TOKEN" not in credentials.clean({"EOS_TOKEN": "very secret", "PATH": "/bin"}, launcher.tokens)
