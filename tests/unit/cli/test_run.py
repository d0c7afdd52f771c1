"""`storelab run`: the words that it gives to Snakemake, and the mistakes that it reports before."""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import projects
import pytest
import snakemake.cli as snakemake_cli
from laboratory import in_process
from programs import python
from snakemake.cli import parse_config

from storelab.cli import Settings, snakemake, workflow
from storelab.cli import run as module
from storelab.core import integrity
from storelab.core.errors import UserError
from storelab.measure import attempts, check, plan_file

SWEEP = {"workload": "put", "axes": {"engine": "fsspec", "object_size": "1 kB"}, "duration": "1 s", "warm_up": "0 s"}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a project with the campaign small. A run ends with the exception Started in place of the shell."""
    (tmp_path / "store").mkdir()
    projects.write(tmp_path, "small", {"here": {"kind": "directory", "path": str(tmp_path / "store")}}, {"up": SWEEP})
    (tmp_path / "Snakefile").touch()
    for name, text in (("default", ""), ("local", ""), ("slurm", "executor: slurm")):
        (tmp_path / "profiles" / name).mkdir(parents=True)
        (tmp_path / "profiles" / name / "config.yaml").write_text(text)
    return tmp_path


@pytest.fixture
def started(project, monkeypatch):
    """Return a function that runs `storelab run` and returns the words of the shell, and its environment."""

    def started(*arguments: str) -> tuple[list[str], dict[str, str]]:
        found, handlers = [], []
        monkeypatch.setattr(module.os, "execvpe", lambda program, words, environ: found.append((words, environ)))
        # this process continues, and needs its handlers
        monkeypatch.setattr(module.signal, "signal", lambda *handler: handlers.append(handler))
        code, _, err = in_process(project, "run", *arguments)
        assert code == 0, err
        assert (signal.SIGPIPE, signal.SIG_DFL) in handlers, "programs of the shell end with their reader"
        ((words, environ),) = found
        assert words[0] == "bash" and words[1].endswith("envs/forward.sh")
        return words[2:], environ

    return started


def values(words: list[str]) -> dict[str, object]:
    """Return the values that the Snakefile gets, as Snakemake reads them."""
    return workflow.typed(parse_config(words[words.index("--config") + 1 : words.index("--")]))


def targets(words: list[str]) -> list[str]:
    return words[words.index("--") + 1 :]


def test_run_measures_and_makes_paper_and_page(started, monkeypatch):
    monkeypatch.setattr(module.shutil, "which", lambda name: f"/usr/bin/{name}")
    words, environ = started("small", "scale=0.5", "sweeps.up.axes.clients=[1,2]", "title=a 'day', 5 %")
    expected = {"campaign": "small", "scale": 0.5, "sweeps": {"up": {"axes": {"clients": [1, 2]}}}}
    expected |= {"title": "a 'day', 5 %"}
    assert values(words) == expected | {"measure": True} and targets(words) == ["paper", "write_report"]
    assert words[3:5] == ["--profile", "profiles/local"] and "--cores" not in words
    verify, _, again = environ["OTHERWISE"].partition(" && ")
    assert "verify" in verify
    otherwise = shlex.split(again)
    assert values(otherwise) == expected | {"measure": False} and targets(otherwise) == ["paper", "write_report"]
    after = shlex.split(environ["AFTER"].removesuffix(" >/dev/null"))
    assert after[-2:] == ["down", "--planned"] and 'campaign="small"' in after
    assert environ["PATH"].startswith(sys.executable.rpartition("/")[0] + ":")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("limits.clients=8", {"limits": {"clients": 8}}),
        ("limits={clients: 8, buckets: 9}", {"limits": {"clients": 8, "buckets": 9}}),
        ("title='A: b #1, \"c\" \\ é'", {"title": 'A: b #1, "c" \\ é'}),
        ("title='8'", {"title": "8"}),
        ("title='yes'", {"title": "yes"}),
        ("title='a\t: b\t#c'", {"title": "a\t: b\t#c"}),
    ],
)
def test_snakemake_reads_values_of_run_unchanged(started, project, word, expected):
    words, environ = started("small", word)
    assert values(words) == {"campaign": "small"} | expected | {"measure": True}
    otherwise = shlex.split(environ["OTHERWISE"].partition(" && ")[2])
    assert values(otherwise) == {"campaign": "small"} | expected | {"measure": False}


def test_options_of_run_reach_snakemake(started, project):
    (project / "more.yaml").write_text("scale: 0.5")
    words, environ = started("small", "--no-paper", "--jobs", "3", "--configfile", "more.yaml")
    assert targets(words) == ["measured"] and not environ["OTHERWISE"]
    assert words[words.index("--cores") + 1] == "3" and words[words.index("--configfile") + 1] == "more.yaml"
    assert "--configfile more.yaml" in environ["AFTER"]
    words, _ = started("small", "--profile", "slurm", "--jobs", "3")
    assert words[3:7] == ["--profile", "profiles/slurm", "--jobs", "3"]
    assert started("small", "--profile", "profiles/slurm")[0][4] == "profiles/slurm"


def test_campaign_of_run_may_be_left_out(started):
    assert values(started()[0]) == {"measure": True}
    assert values(started("scale=0.5")[0]) == {"scale": 0.5, "measure": True}


def test_run_without_latex_makes_no_paper(started, monkeypatch):
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    assert targets(started("small")[0]) == ["figures", "write_report"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("smal",), ("there is no campaign 'smal'", "'small'")),
        (("small", "now"), ("run: 'now' is not a setting",)),
        (("small", "scal=1"), ("'scale'",)),
        (("small", "sweeps.up.duration=1 parsec"), ("sweeps.up.duration",)),
        (("small", "--profile", "slum"), ("there is no profile 'slum'", "'slurm'")),
        (("small", "--profile", ""), ("there is no profile ''", "one of local, slurm")),
        (("small", "--configfile", "gone.yaml"), ("gone.yaml",)),
        (("small", "sweeps.up.axes.clients=999"), ("999 clients",)),
    ],
)
def test_mistake_is_one_line_before_snakemake_starts(project, monkeypatch, arguments, words):
    monkeypatch.setattr(module.os, "execvpe", lambda *_: pytest.fail("Snakemake was started"))
    code, out, err = in_process(project, "run", *arguments)
    assert code == 2 and not out and err.count("\n") == 1 and all(word in err for word in words), err


def test_run_outside_a_project_is_refused(project):
    (project / "other.yaml").write_text(json.dumps({"stores": {}}))
    assert "reads config.yaml" in in_process(project, "--config", "other.yaml", "run", "small")[2]
    (project / "Snakefile").unlink()
    code, _, err = in_process(project, "run", "small")
    assert code == 2 and "there is no Snakefile in this folder" in err and "storelab init" in err


def test_sealed_campaign_refuses_run(project, monkeypatch):
    (project / "results" / "small" / "raw").mkdir(parents=True)
    monkeypatch.setattr("storelab.core.records.sealed", lambda raw: True)
    code, _, err = in_process(project, "run", "small")
    assert code == 2 and "is sealed" in err and "make paper CAMPAIGN=small" in err and err.count("\n") == 1


def test_measured_campaign_needs_no_store(started, project, monkeypatch):
    """The paper of a complete campaign can be made without its store."""
    monkeypatch.setattr(integrity, "missing", lambda raw, keys: [])
    (project / "store").rmdir()
    assert started("small")[0]


@pytest.mark.parametrize(("place", "name"), [(plan_file, "refuse_differences"), (check, "free_ports")])
def test_plan_and_ports_are_checked_before_snakemake_starts(project, monkeypatch, place, name):
    def refuse(*_):
        raise UserError("place", "is wrong", "change it")

    monkeypatch.setattr(module.os, "execvpe", lambda *_: pytest.fail("Snakemake was started"))
    monkeypatch.setattr(place, name, refuse)
    assert in_process(project, "run", "small")[::2] == (2, "storelab: place: is wrong; change it\n")


def test_snakemake_does_not_print_its_profile(project, capsys, monkeypatch):
    parser = snakemake_cli.get_argument_parser

    def first_parser(profiles=None):
        if profiles:
            sys.exit(3)  # Snakemake printed the line before
        return parser()

    monkeypatch.chdir(project)
    monkeypatch.setattr(snakemake, "end_with_parent", lambda: None)
    monkeypatch.setattr(snakemake_cli, "get_argument_parser", first_parser)
    monkeypatch.setattr(sys, "argv", ["snakemake", "--profile", "profiles/local"])
    with pytest.raises(SystemExit, match="3"):
        snakemake.main()
    assert capsys.readouterr() == ("", "")
    snakemake._print("other", 1, file=sys.stderr)
    assert capsys.readouterr().err == "other 1\n"


def test_missing_snakemake_is_one_line(project, monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    code, _, err = in_process(project, "run", "small")
    assert code == 2 and "pip install 'storelab[workflow]'" in err and err.count("\n") == 1


def test_store_that_does_not_answer_is_reported_before_snakemake_starts(project, monkeypatch):
    monkeypatch.setattr(module.os, "execvpe", lambda *_: pytest.fail("Snakemake was started"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        far = json.dumps({"far": {"kind": "s3", "endpoint": f"http://127.0.0.1:{closed.getsockname()[1]}"}})
        words = ("small", f"stores={far}", "stores_to_measure=[far]", "sweeps.up.axes.engine=s5cmd")
        code, _, err = in_process(project, "run", *words)
    assert code == 2 and "stores.far.endpoint: " in err and "refuses the connection" in err and err.count("\n") == 1, (
        err
    )


# A process that measures the campaign: it locks the file `run` with the given pid in it, or is another user.
LOCKS = """
import fcntl, sys, time
from pathlib import Path
from storelab.stores.managed import users
folder, pid, seconds, *_ = sys.argv[1:]
folder = Path(folder)
if pid == "user":
    users.use(folder.parent, ["small.campaign"])
else:
    folder.mkdir(parents=True)
    file = open(folder / "run", "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    print(pid, end="", file=file, flush=True)
print("locked", flush=True)
time.sleep(float(seconds))
"""


@contextmanager
def measuring(project, pid, seconds=60, *words):
    folder = project / ".storelab" / "small.campaign.users"
    with python(LOCKS, folder, pid, seconds, *words) as process:
        assert process.stdout and process.stdout.readline() == "locked\n"
        yield process.pid


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_run_without_missing_points_needs_write_permission(project, monkeypatch):
    monkeypatch.setattr(module.os, "execvpe", lambda *_: pytest.fail("Snakemake was started"))
    monkeypatch.setattr(integrity, "missing", lambda raw, keys: [])
    (project / ".snakemake").mkdir()
    monkeypatch.setattr(os, "access", lambda path, how: path != project / ".snakemake")
    code, _, err = in_process(project, "run", "small")
    assert code == 2 and "run: '.snakemake' cannot be written; " in err and err.count("\n") == 1, err


def test_second_run_of_campaign_is_refused(project, monkeypatch):
    monkeypatch.setattr(module.os, "execvpe", lambda *_: pytest.fail("Snakemake was started"))
    refused = "storelab: campaign small: is being measured by process {0}; wait until it has finished, or end it with "
    refused += "`kill {0}`\n"
    with measuring(project, os.getpid()):
        assert in_process(project, "run", "small")[::2] == (2, refused.format(os.getpid()))
    with measuring(project, "user", 60, "snakemake") as pid:
        assert in_process(project, "run", "small")[::2] == (2, refused.format(pid))


def test_run_continues_next_to_a_single_point(started, project):
    """The measuring lock orders the points of a killed run and of the next one."""
    with measuring(project, "user"):
        assert started("small")[0]


def test_run_waits_for_the_end_of_a_killed_run(started, project, monkeypatch, capfd):
    pid = dead_pid()
    with measuring(project, pid, 2):
        assert started("small")[0]
    assert (project / ".storelab/small.campaign.users/run").read_text() == str(os.getpid())
    shutil.rmtree(project / ".storelab")
    monkeypatch.setattr(attempts, "ENDING_S", 0.5)
    with measuring(project, pid):
        code, _, err = in_process(project, "run", "small")
    assert code == 2 and f"by process {pid}" in err and "was killed" in err, err


def test_programs_of_a_run_inherit_its_lock(project):
    config = Settings(str(project / "config.yaml"), chosen={"campaign": "small"}).load()
    with attempts.run_lock(config):
        process = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with pytest.raises(UserError, match=f"by process {os.getpid()}"), attempts.run_lock(config):
            pass
    finally:
        process.kill()
        process.wait()
    with attempts.run_lock(config):
        pass
