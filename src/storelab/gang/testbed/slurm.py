"""Slurm's daemons for the testbed: munged, slurmctld, and one slurmd for each node.

All daemons run as the calling user. Options that the configuration does not set have the defaults of Slurm 22.05. There
is no accounting database. Therefore `squeue` reports states, but `sacct` reports nothing. A file marks the folder of a
testbed, so that `down` never removes other files.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from storelab.core import clock
from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import processes
from storelab.install import program
from storelab.stores.managed import network

PLACE, MARK = "testbed", ".storelab-testbed"


def claim(folder: Path) -> None:
    """Mark the folder as the folder of a testbed. Raises UserError if it contains other files."""
    if folder.exists() and not claimed(folder) and any(folder.iterdir()):
        raise UserError(
            PLACE,
            f"{folder} has files that do not belong to a testbed",
            "use an empty or a new folder (--folder)",
        )
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    (folder / MARK).touch()


def claimed(folder: Path) -> bool:
    """Return whether the folder is marked as the folder of a testbed."""
    return (folder / MARK).exists()


def read(path: Path) -> str:
    """Return the text of a file; '' if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def started_with(pid: int, folder: Path, parts: tuple[str, ...] = ("cmdline",)) -> bool:
    """Return whether one of these parts of /proc/<pid> contains a path in the folder.

    If not, another process has reused the pid. The parts are empty for less than a millisecond while a process starts a
    program (execve). In that case they are read again.
    """
    for _ in range(10):
        texts = [read(Path(f"/proc/{pid}/{part}")) for part in parts]
        if any(texts):
            return any(f"{folder}/" in text for text in texts)
        if not alive(pid):
            break
        time.sleep(0.005)
    return False


def alive(pid: int) -> bool:
    """Return whether a process runs. A zombie does not run."""
    return read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1] not in ([], ["Z"], ["X"])


def send(pid: int, sig: int) -> None:
    """Send a signal to a process, unless it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)


def run(*command: str, environ: Mapping[str, str] | None = None) -> None:
    """Run a command. Raises MeasurementFailed with its output if it fails."""
    done = processes.run_command(command, 60, environ)
    if done.returncode:
        raise MeasurementFailed(f"{PLACE}: `{' '.join(command)}` failed: {processes.words(done)}")


UP_S, DOWN_S, KILL_S = 30.0, 15.0, 3.0
LOOPBACK = "127.0.0.1"
CPUS = 16  # each node declares this number, although the nodes share the machine
# These files are removed when the testbed stops. slurm.conf and the logs stay.
MADE = ("state", "spool.*", "tmp.*", "munge.key", "munge.seed", "munge.socket*", "*.pid")


@dataclass(frozen=True)
class Node:
    """A node of the cluster. `port` is the port of its slurmd; `prefix` is the command that enters its namespace."""

    name: str
    address: str
    port: int
    prefix: tuple[str, ...] = ()


def configuration(folder: Path, head: str, port: int, nodes: list[Node]) -> str:
    """Return the text of slurm.conf. `head` is the controller's address."""
    host, who = socket.gethostname(), pwd.getpwuid(os.geteuid()).pw_name
    lines = {
        "ClusterName": "storelab",
        "SlurmctldHost": f"{host}({head})",
        "SlurmctldPort": port,
        "SlurmUser": who,
        "SlurmdUser": who,
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge.socket",
        "CredType": "cred/munge",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SwitchType": "switch/none",
        "MpiDefault": "none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=5,bf_interval=5",
        "AccountingStorageType": "accounting_storage/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "JobCompType": "jobcomp/none",
        "ReturnToService": 2,
        "SlurmdParameters": "config_overrides",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "spool.%n",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": folder / "slurmd.%n.pid",
        "SlurmctldLogFile": folder / "slurmctld.log",
        "SlurmdLogFile": folder / "slurmd.%n.log",
        "TmpFS": folder / "tmp.%n",
        "SlurmctldTimeout": 30,
        "SlurmdTimeout": 20,
        "InactiveLimit": 0,
        "KillWait": 5,
        "MinJobAge": 300,
        "Licenses": "storelab:1",
    }
    text = [f"{k}={v}" for k, v in lines.items()]
    for n in nodes:
        hosts = f" NodeHostname={host}" if not n.prefix else ""
        text.append(
            f"NodeName={n.name}{hosts} NodeAddr={n.address} Port={n.port} CPUs={CPUS} RealMemory=4000 State=UNKNOWN"
        )
    text.append("PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
    return "\n".join(text) + "\n"


class Cluster:
    """A Slurm cluster in `folder`. `up()` starts its daemons, and `down()` ends them."""

    def __init__(self, folder: Path, prefix: tuple[str, ...] = ()):
        self.folder, self.prefix = folder.absolute(), prefix

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    def environ(self) -> dict[str, str]:
        """Return the environment of Slurm's commands."""
        return os.environ | {"SLURM_CONF": str(self.conf)}

    def require(self) -> dict[str, Path]:
        """Return the paths of the programs. Raise UserError with the command that installs them."""
        return {
            name: program(name, "slurm", PLACE)
            for name in ("munged", "slurmctld", "slurmd", "sinfo", "srun", "scontrol")
        }

    def up(
        self,
        head: str,
        port: int,
        nodes: list[Node],
        report: Callable[[str], None],
        prefix: tuple[str, ...] = (),
    ) -> None:
        """Start the cluster. `prefix` is the command that enters the namespace of the controller.

        Raises UserError if Slurm is not installed or ports are in use, and MeasurementFailed with the last line of the
        controller's log.
        """
        programs, self.prefix = self.require(), prefix
        if self.pids():
            raise UserError(PLACE, f"a testbed is already up in {self.folder}", "run `storelab testbed down` first")
        claim(self.folder)
        for name in ("state", *(f"spool.{n.name}" for n in nodes), *(f"tmp.{n.name}" for n in nodes)):
            (self.folder / name).mkdir(exist_ok=True)
        for n in () if prefix else (port, *(node.port for node in nodes)):
            if not network.free(head, n):
                raise UserError(f"{PLACE}.port", f"{head}:{n} is in use", "use another --port")
        self.conf.write_text(configuration(self.folder, head, port, nodes))
        try:
            report("munged")
            self._munge(programs["munged"])
            report("slurmctld")
            run(*prefix, str(programs["slurmctld"]), "-f", str(self.conf), environ=self.environ())
            for node in nodes:
                report(f"slurmd {node.name}")
                command = (*node.prefix, str(programs["slurmd"]), "-f", str(self.conf), "-N", node.name)
                run(*command, environ=self.environ())
            self._wait([*prefix, str(programs["sinfo"])], len(nodes))
        except BaseException:
            self.down()
            raise

    def _munge(self, munged: Path) -> None:
        key = self.folder / "munge.key"
        if not key.exists():
            key.touch(mode=0o600)
            key.write_bytes(os.urandom(128))
        files = {
            f"--{name}": self.folder / f"munge.{name.removesuffix('-file')}"
            for name in ("pid-file", "log-file", "seed-file")
        }
        options = [f"{name}={path}" for name, path in files.items()]
        run(str(munged), "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket", *options)

    def _wait(self, sinfo: list[str], nodes: int) -> None:
        command = [*sinfo, "-h", "-t", "idle", "-o", "%D"]

        def all_idle() -> bool:
            return sum(map(int, processes.run_command(command, environ=self.environ()).stdout.split())) == nodes

        if clock.wait_for(all_idle, UP_S, 0.3):
            return
        last = (processes.log_lines(self.folder / "slurmctld.log") or ["no log"])[-1]
        raise MeasurementFailed(f"{PLACE}: not all of {nodes} nodes are idle after {UP_S:.0f} s ({last})")

    def pids(self) -> dict[str, int]:
        """Return the pids of the running daemons, from the pid files."""
        texts = {path.name.removesuffix(".pid"): read(path).strip() for path in sorted(self.folder.glob("*.pid"))}
        return {name: int(pid) for name, pid in texts.items() if pid.isdigit() and self._ours(int(pid))}

    def _ours(self, pid: int) -> bool:
        return started_with(pid, self.folder)

    def down(self) -> list[str]:
        """End all jobs, and then all daemons, first those of the nodes. Return the names of the daemons.

        Logs are kept. A folder that is not marked as a testbed's folder is not changed.
        """
        if not claimed(self.folder):
            return []
        found = self.pids()
        if "slurmctld" in found:
            self._cancel_jobs()
        for name in sorted(found, key=lambda n: (n == "munge", n == "slurmctld")):
            pid = found[name]
            send(pid, signal.SIGTERM)
            if not clock.wait_for(lambda pid=pid: not self._ours(pid), DOWN_S, 0.05):
                send(pid, signal.SIGKILL)
            (self.folder / f"{name}.pid").unlink(missing_ok=True)
        self._kill_steps()
        for made in (p for pattern in MADE for p in self.folder.glob(pattern)):
            shutil.rmtree(made, ignore_errors=True) if made.is_dir() else made.unlink(missing_ok=True)
        return sorted(found)

    def _ask(self, *command: str) -> str:
        """Return the output of one of Slurm's commands; '' if the controller does not answer."""
        return processes.run_command([*self.prefix, *command], DOWN_S, self.environ()).stdout

    def _cancel_jobs(self) -> None:
        """Cancel all jobs. This is done first, because a step continues when the daemon that started it ends."""
        limit = time.monotonic() + DOWN_S
        while (jobs := self._ask("squeue", "-h", "-o", "%A").split()) and time.monotonic() < limit:
            self._ask("scancel", *jobs)
            time.sleep(0.5)

    def _kill_steps(self) -> None:
        """End remaining processes after the daemons have ended: steps, their processes, and processes of salloc."""
        ancestors = {os.getpid(), *(p.pid for p in psutil.Process().parents())}
        begun = [p for p in psutil.process_iter() if p.pid not in ancestors and self._of_a_job(p)]
        for p in begun:
            send(p.pid, signal.SIGTERM)
        for p in psutil.wait_procs(begun, KILL_S)[1]:
            send(p.pid, signal.SIGKILL)

    def _of_a_job(self, process: psutil.Process) -> bool:
        try:
            if process.name() == "slurmstepd":  # it has no environment any more
                return process.cwd() == str(self.folder)
            environ = process.environ()
        except (psutil.Error, OSError):
            return False  # the process has ended, or belongs to another user
        return environ.get("SLURM_CONF") == str(self.conf) and (
            "SLURM_JOB_ID" in environ or process.name() in ("salloc", "srun")
        )
