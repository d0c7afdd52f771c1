"""Launcher `srun`: one step of a Slurm job on all its nodes, in an allocation or a job of Snakemake's executor."""

import os
import re
import shutil
import time

from storelab.core.errors import MeasurementFailed, UserError
from storelab.gang import credentials, relay
from storelab.gang.launchers import remote
from storelab.gang.launchers.remote import SETTLE_S, STOP_REQUESTED, RemoteLauncher
from storelab.gang.rendezvous import Folder
from storelab.host import processes

TASK, CANCELLED, EXECVE = re.compile(r"error: .*tasks? [\d,-]+: "), "CANCELLED", "error: execve(): "  # srun's messages
NOISE = "cluster configuration lacks support for cpu binding"
OVERHEAD_S = 60  # overhead of a point in addition to its window; it must fit into the walltime too
KEPT = "STORELAB_SLURM_CONF"  # passes SLURM_CONF into a job of Snakemake's executor, which drops SLURM_…


def keep(environ: dict[str, str] | os._Environ) -> None:
    """Remember where Slurm's configuration is, before jobs are submitted."""
    if "SLURM_CONF" in environ:
        environ[KEPT] = environ["SLURM_CONF"]


def inside(environ: dict[str, str] | os._Environ) -> bool:
    """Return whether this process runs in a Slurm job."""
    return "SLURM_JOB_ID" in environ


def on_node(environ: dict[str, str] | os._Environ) -> bool:
    """Return whether this process runs on a node of the job, not on the host that requested it (salloc)."""
    return inside(environ) and "SLURMD_NODENAME" in environ


def require(environ: dict[str, str] | os._Environ) -> None:
    """Make Slurm's commands usable. Raise UserError if they are missing."""
    if shutil.which("srun") is None:
        raise UserError(
            "launcher.kind", "there is no srun on PATH", "load Slurm's environment, or choose another launcher"
        )
    if KEPT in environ:
        environ.setdefault("SLURM_CONF", environ[KEPT])


def allocation(environ: dict[str, str] | os._Environ) -> int:
    """Return the number of nodes of the Slurm job of this process. Raise UserError without a job or srun."""
    require(environ)
    if not inside(environ):
        raise UserError(
            "launcher.kind",
            "srun needs an allocation, and this process is not in one",
            "run salloc or sbatch first, or set launcher.nodes to make each point a separate job: docs/cluster.md",
        )
    return int(environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES") or _nodes(environ["SLURM_JOB_ID"]))


def cluster() -> int | None:
    """Return how many nodes Slurm has; None if it does not answer. A job that asks for more would wait forever."""
    done = processes.run_command(["sinfo", "-h", "-N", "-o", "%N"])
    names = set() if done.returncode else set(done.stdout.split())
    return len(names) or None


def _nodes(job: str) -> int:
    """Return the nodes of a job whose variables Snakemake's executor dropped. Raises MeasurementFailed."""
    done = processes.run_command(["squeue", "-h", "-j", job, "-o", "%D"], 60)
    if done.returncode or not done.stdout.strip().isdigit():
        raise MeasurementFailed(f"squeue does not report the nodes of job {job}: {processes.words(done)}")
    return int(done.stdout)


def left_s(environ: dict[str, str] | os._Environ) -> float | None:
    """Return the remaining walltime of the job in s; None if it has no limit, or Slurm does not answer.

    Raise UserError if the job has ended; the point is then neither started nor failed.
    """
    job = environ["SLURM_JOB_ID"]
    done = processes.run_command(["squeue", "-h", "-j", job, "-o", "%T %L"])
    state, _, left = done.stdout.strip().partition(" ")
    if "Invalid job id" in done.stderr or (done.returncode == 0 and state in ("", "COMPLETING")):
        raise UserError(
            "SLURM_JOB_ID",
            f"the Slurm job {job} has ended",
            "run salloc or sbatch again, then the same command continues",
        )
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", left.strip())
    if not found:
        return None
    days, hours, minutes, seconds = (int(v or 0) for v in found.groups())
    return 86400 * days + 3600 * hours + 60 * minutes + seconds


def step(nodes: int) -> list[str]:
    """Return the srun command with one task on each of the nodes."""
    size = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    return ["srun", *size, "--input=none", "--mem=0", "--overlap"]


class SrunLauncher(RemoteLauncher):
    name = "srun"
    token: str | None = None
    scratch = "/dev/shm"
    _asked_to_end: float | None = None  # when this process first saw that agents were asked to end

    def launch(self) -> None:
        if self.relay_server:  # without a shared folder, Slurm copies the ticket, and the agents remove it
            self.token = f"{self.scratch}/storelab-ticket-{self.folder.name}"
            done = processes.run_command(["sbcast", "--force", self.folder / "ticket", self.token], 60)
            if done.returncode:
                hint = " (does the controller answer? scontrol ping)" if done.returncode == processes.LATE else ""
                raise MeasurementFailed(f"sbcast: {processes.words(done)}{hint}")
        self.run(self.command())

    def telling(self, lines: list[str]) -> str:
        """Return the line with the reason.

        srun names the failed tasks before those that it ends as a consequence. If a step was ended from outside, srun
        names an aborted task first.
        """
        lines = [line for line in lines if NOISE not in line]
        if not lines:
            return ""
        usual = super().telling(lines)
        if usual.startswith("storelab: "):
            return usual
        first = next((line for line in lines if TASK.search(line) or "aborted" in line or CANCELLED in line), "")
        marks = [EXECVE, *([] if TASK.search(first) else [CANCELLED]), "error: "]
        return next((line for mark in marks for line in lines if mark in line), usual)

    def last_words(self) -> str:
        """Return srun's last line, or possible reasons if its step cannot begin: srun prints nothing then."""
        words = super().last_words()
        if self.running() and not Folder(self.folder).present("alive") and "error: " not in words:
            options = f", launcher.options {self.settings.options} fit no node" if self.settings.options else ""
            return (
                f"srun still waits for its step: other steps use the nodes{options}, or the controller does "
                "not answer (scontrol ping)"
            )
        return words

    def trouble(self) -> str:
        """Return why agents were asked to end: the failed task, or Slurm's message; '' without trouble."""
        text = super().trouble()
        if STOP_REQUESTED not in text:
            return text
        self._asked_to_end = self._asked_to_end or time.monotonic()
        words = self.last_words()
        if words.startswith("storelab: "):
            return words.removeprefix("storelab: ")
        if TASK.search(words) or EXECVE in words:
            return f"an agent was lost, and srun ended the others ({words})"
        if CANCELLED not in words and time.monotonic() - self._asked_to_end < SETTLE_S:
            return ""  # Slurm's message may come later than the agent's
        return f"{text} ({words})" if words else text

    def stop(self) -> None:
        """End the step, and remove the ticket if agents have not read it."""
        super().stop()
        token, self.token = self.token, None
        if token and not self.met:
            processes.run_command([*step(len(self.nodes)), "rm", "-f", token], 20, credentials.clean(os.environ))

    def command(self) -> list[str]:
        export = [f"--export=ALL,{relay.TOKEN_FILE}={self.token}"] if self.token else []
        how = ["--kill-on-bad-exit=1", "--unbuffered", "--cpu-bind=none", "--job-name=storelab"]
        return [
            *step(len(self.nodes)),
            *export,
            *how,
            *self.settings.options,
            *remote.prepared(self.settings.setup, self.agent()),
        ]
