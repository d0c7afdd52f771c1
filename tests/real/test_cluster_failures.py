"""Failures on a real Slurm of four slurmd: each is reported within a bounded time, and nothing remains."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest
import yaml
from cluster_lab import LONG, LONG_KEY, agent, begin, configure, four_nodes, gone, measure, on, runs, storelab, up
from common import BIN, environ, laboratory
from managed import until
from paths import ROOT
from process_table import command_lines, folder_of, read

from storelab.gang.testbed.slurm import MARK

pytestmark = [pytest.mark.real, pytest.mark.heavy, pytest.mark.xdist_group("testbed")]
testbed = four_nodes()

SHORT = {"long": {**LONG["long"], "duration": "2 s", "warm_up": "100 ms"}}  # the same point, to be measured after all
SRUN = {"kind": "srun", "address": "127.0.0.1", "heartbeat_timeout": "10 s"}
MEASURE = measure(LONG_KEY)


@pytest.fixture
def lab():
    """Return a laboratory with a separate scratch folder."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="storelab-test-") as scratch, laboratory(LONG) as folder:
        configure(folder, launcher=SRUN, scratch=scratch, gang_timeout="40 s")
        yield folder


def scratch(lab: Path) -> list[str]:
    """Return what gangs and clients have left on tmpfs."""
    base = Path(yaml.safe_load((lab / "config.yaml").read_text())["scratch"]) / f"storelab-{os.getuid()}"
    return [p.name for p in base.iterdir() if p.is_dir() and p.name != "bodies"] if base.exists() else []


def secrets_left(lab: Path) -> list[Path]:
    return [p for p in (lab / "results").rglob("*") if p.name in ("keys", "ticket")]


def measuring(lab: Path) -> psutil.Process:
    """Return the process of `storelab measure`."""
    wanted = [word.encode() for word in MEASURE[:2]]
    found = [pid for pid, line in command_lines().items() if line.split(b"\0")[1:3] == wanted]
    return psutil.Process(min(pid for pid in found if folder_of(pid) == str(lab)))


def slurm(testbed: Path, *command: str) -> str:
    return on(testbed, testbed, *command).stdout


def measured_after_all(testbed: Path, lab: Path) -> None:
    """Check that the same command continues, and that it leaves no scratch folders or secrets."""
    configure(lab, sweeps=SHORT)
    done = on(testbed, lab, "salloc", "-N4", *MEASURE)
    assert done.returncode == 0, done.stderr
    assert set(runs(lab)) == {LONG_KEY} and not scratch(lab) and not secrets_left(lab)


@pytest.mark.parametrize("what", ["job", "step"])
def test_a_cancelled_job_or_step_fails_the_point(testbed, lab, what):
    process = begin(testbed, lab, "salloc", "-N4", *MEASURE)
    agent(lab, 0)
    time.sleep(1)
    begun = time.monotonic()
    name = slurm(testbed, "squeue", "-h", *(["-o", "%A"] if what == "job" else ["-s", "-o", "%i"])).split()[0]
    slurm(testbed, "scancel", name)
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - begun < 30 and gone(lab) and "Traceback" not in err
    failed = json.loads((lab / "results/bench/raw" / LONG_KEY / "failed.json").read_text())
    # What the agent wrote before it ended, or what srun said of it: whichever came first.
    assert "cancelled" in failed["reason"].lower(), failed["reason"]
    measured_after_all(testbed, lab)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_coordinator_that_is_ended_takes_all_with_it(testbed, lab, how):
    """SIGTERM in the middle of the meeting: also what is secret goes.

    SIGKILL: the nodes' folders go with the next gang.
    """
    process = begin(testbed, lab, "salloc", "-N4", *MEASURE)
    if how == signal.SIGTERM:
        until(lambda: secrets_left(lab), 30)
    else:
        agent(lab, 0)
    measuring(lab).send_signal(how)
    _, err = process.communicate(timeout=60)
    assert gone(lab) and "Traceback" not in err and not runs(lab) and not list(lab.rglob("failed.json"))
    if how == signal.SIGTERM:
        assert not secrets_left(lab) and not scratch(lab)
    measured_after_all(testbed, lab)


def test_agent_ends_without_its_coordinator(testbed, lab):
    """The relay is stopped, as when its host hangs: agents get no message, and the batch system notices nothing."""
    configure(lab, launcher=SRUN | {"heartbeat_timeout": "3 s"})
    process = begin(testbed, lab, "salloc", "-N4", *MEASURE)
    agent(lab, 0)
    time.sleep(1)
    coordinator = measuring(lab)
    coordinator.suspend()
    try:
        assert gone(lab, 30) and not scratch(lab)
    finally:
        coordinator.kill()
        process.communicate(timeout=60)


def test_controller_can_be_down_for_a_while(testbed, lab):
    """In the middle of a point: the steps do without it."""
    configure(lab, sweeps={"long": {**LONG["long"], "duration": "8 s"}})
    process = begin(testbed, lab, "salloc", "-N4", *MEASURE)
    agent(lab, 0)
    os.kill(int((testbed / "slurmctld.pid").read_text()), signal.SIGTERM)
    time.sleep(6)
    command = ["slurmctld", "-f", str(testbed / "slurm.conf")]
    subprocess.run(command, check=True, env=environ() | {"PATH": os.environ["PATH"] + ":/usr/sbin"})
    _, err = process.communicate(timeout=90)
    assert set(runs(lab)) == {LONG_KEY} and gone(lab), err


def test_wait_for_unavailable_option_is_limited(testbed, lab):
    configure(lab, launcher=SRUN | {"options": ["--constraint=fast"]}, gang_timeout="5 s")
    begun = time.monotonic()
    done = on(testbed, lab, "salloc", "-N4", *MEASURE)
    assert done.returncode == 1 and time.monotonic() - begun < 40
    assert "4 of 4 nodes did not join within 5 s" in done.stderr
    assert "['--constraint=fast'] fit no node" in done.stderr
    assert slurm(testbed, "squeue", "-h", "-s") == ""


def test_unshared_folder_and_other_versions_are_reported(testbed, lab, tmp_path):
    """Node 1 has an empty folder at this path (a separate mount), node 2 has another storelab."""
    if os.geteuid() != 0:
        pytest.skip("privilege: a separate mount needs root")
    other = tmp_path / "other"
    shutil.copytree(ROOT / "src/storelab", other / "storelab", ignore=shutil.ignore_patterns("__pycache__"))
    package = other / "storelab/__init__.py"
    package.write_text(package.read_text().replace('__version__ = "', '__version__ = "9.'))
    (lab / "results").mkdir()
    hide = f'exec unshare --mount sh -c \'mount -t tmpfs none {lab}/results && exec "$@"\' sh "$@"'
    unequal = f"[ $SLURM_PROCID != 2 ] || export PYTHONPATH={other}"
    configure(lab, launcher=SRUN | {"setup": f"{unequal}\n[ $SLURM_PROCID != 1 ] || {hide}"})
    done = on(testbed, lab, "salloc", "-N4", str(BIN / "storelab"), "doctor", "--nodes")
    assert done.returncode == 2 and "2 of 4 nodes cannot measure, the first is node2" in done.stderr, done
    for words in ("node2: does not see", "`results` is not shared with it", "node3: other storelab: storelab 9."):
        assert words in done.stdout
    assert "node1: " not in done.stdout and not list((lab / "results").iterdir())
    done = on(testbed, lab, "salloc", "-N4", *MEASURE)
    assert done.returncode == 1 and "node 1 (node2): does not see" in done.stderr
    assert "`results` is not shared with this node" in done.stderr
    configure(lab, launcher=SRUN | {"setup": unequal})
    done = on(testbed, lab, "salloc", "-N4", *MEASURE)
    assert done.returncode == 1 and "node 2 (node3) has other versions: storelab 9." in done.stderr
    assert gone(lab) and not scratch(lab) and not secrets_left(lab)


def token(seconds: float, mark: str) -> str:
    claims = json.dumps({"exp": time.time() + seconds, "sub": mark})
    return f"head.{base64.urlsafe_b64encode(claims.encode()).decode().rstrip('=')}.sign"


class Watch(threading.Thread):
    """The tokens on the nodes, the modes of their files, and command lines that contain a secret."""

    def __init__(self, folder: Path, secrets: list[str]):
        super().__init__(daemon=True)
        self.folder, self.secrets, self.tokens, self.modes, self.leaked = folder, secrets, set(), set(), []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            for path in self.folder.glob("*/gang-*/bearer_token_file"):
                try:
                    self.tokens.add(path.read_text())
                    self.modes.add(path.stat().st_mode & 0o777)
                except FileNotFoundError:
                    continue
            lines = command_lines().values()
            self.leaked += [line for line in lines if any(s.encode() in line for s in self.secrets)]


def test_renewed_token_is_used_and_kept_secret(testbed, lab, tmp_path):
    """Two points of one campaign; the first token ends before the second point would."""
    axes = {"clients": 4, "workers": [1, 2]}
    configure(lab, sweeps={"up": {"workload": "put", "duration": "3 s", "warm_up": "100 ms", "axes": axes}})
    first, second = token(600, "first"), token(600, "second")
    file = tmp_path / "token"
    file.write_text(first)
    watch = Watch(Path(yaml.safe_load((lab / "config.yaml").read_text())["scratch"]), [first, second])
    watch.start()
    tokens = {LONG_KEY: second, LONG_KEY.replace("workers~0001", "workers~0002"): token(1, "old")}
    for n, (key, renewed) in enumerate(tokens.items()):
        command = ["env", f"BEARER_TOKEN_FILE={file}", "salloc", "-N4", *measure(key)]
        done = on(testbed, lab, *command)
        assert done.returncode == 0 and len(runs(lab)) == n + 1, done.stderr
        file.write_text(renewed)
    done = on(testbed, lab, *command, "--again")
    watch.over.set()
    watch.join()
    assert done.returncode == 1 and f"the token in {file} ended" in done.stderr and "renew it" in done.stderr
    assert watch.tokens - {""} == {first, second} and watch.modes == {0o600} and not watch.leaked
    written = [p for place in (lab / "results", testbed) for p in place.rglob("*") if p.is_file()]
    assert len(written) > 20 and not [p for p in written if any(s.encode() in read(p) for s in (first, second))]
    assert not scratch(lab) and not secrets_left(lab)


def test_testbed_stops_with_all_its_processes(tmp_path_factory):
    """A running and a waiting job, one that does not hear SIGTERM, and a command; then without a controller."""
    folder = tmp_path_factory.mktemp("down")
    deaf = tmp_path_factory.mktemp("deaf") / "deaf.sh"
    deaf.write_text("#!/bin/sh\ntrap '' TERM\nsrun -n1 sleep 612345 &\nwhile :; do sleep 1; done\n")
    for controller in (True, False):
        up(folder)
        for _ in range(2):
            on(folder, folder, "sbatch", "-N4", "--exclusive", "-o", "/dev/null", str(deaf))
        aside = begin(folder, folder, "salloc", "-N1", "-O", "-n1", "sleep", "612346") if not controller else None
        time.sleep(2)
        if not controller:
            pid = int((folder / "slurmctld.pid").read_text())
            os.kill(pid, signal.SIGKILL)
        done = storelab(folder, "testbed", "down", "--folder", str(folder), timeout=90)
        assert done.returncode == 0, done.stderr
        if aside:
            aside.kill()
            aside.communicate(timeout=20)
        names = {"sleep 612345", "sleep 612346", f"{folder}/slurm.conf", str(folder / "spool")}
        left = [" ".join(p.info["cmdline"]) for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"]]
        assert not [line for line in left if any(n in line for n in names)]
        assert {p.suffix for p in folder.iterdir() if p.name != MARK} <= {".log", ".conf"}
