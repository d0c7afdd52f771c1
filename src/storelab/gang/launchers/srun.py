"""The launcher `srun`: one step of a Slurm job on all its nodes, in an allocation or a job of Snakemake's executor."""

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
OVERHEAD_S = 60  # seconds that a point needs in addition to its window; they must fit into the walltime too
# variable with SLURM_CONF for jobs of Snakemake's executor, which drops all variables SLURM_…
KEPT = "STORELAB_SLURM_CONF"


def keep(environ: dict[str, str] | os._Environ) -> None:
    """Store the path of Slurm's configuration in the variable KEPT, before jobs are submitted."""
    if "SLURM_CONF" in environ:
        environ[KEPT] = environ["SLURM_CONF"]


def inside(environ: dict[str, str] | os._Environ) -> bool:
    """Return whether this process runs in a Slurm job."""
    return "SLURM_JOB_ID" in environ


def on_node(environ: dict[str, str] | os._Environ) -> bool:
    """Return whether this process runs on a node of the job, and not on the host that requested the job (salloc)."""
    return inside(environ) and "SLURMD_NODENAME" in environ


def require(environ: dict[str, str] | os._Environ) -> None:
    """Check that Slurm's commands exist, and restore SLURM_CONF. Raises UserError if they are missing."""
    if shutil.which("srun") is None:
        raise UserError(
            "launcher.kind", "there is no srun on PATH", "load Slurm's environment, or choose another launcher"
        )
    if KEPT in environ:
        environ.setdefault("SLURM_CONF", environ[KEPT])


def allocation(environ: dict[str, str] | os._Environ) -> int:
    """Return the number of nodes of this process's Slurm job. Raises UserError if there is no job or no srun."""
    require(environ)
    if not inside(environ):
        raise UserError(
            "launcher.kind",
            "srun needs an allocation, and this process is not in one",
            "run salloc or sbatch first, or set launcher.nodes to make each point a separate job: docs/cluster.md",
        )
    return int(environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES") or _nodes(environ["SLURM_JOB_ID"]))


def cluster() -> int | None:
    """Return the number of Slurm's nodes; None if Slurm does not answer. A job with more nodes would wait forever."""
    done = processes.run_command(["sinfo", "-h", "-N", "-o", "%N"])
    names = set() if done.returncode else set(done.stdout.split())
    return len(names) or None


def _nodes(job: str) -> int:
    """Return the number of nodes of a job. Slurm is asked, because Snakemake's executor drops the job's variables.

    Raises MeasurementFailed.
    """
    done = processes.run_command(["squeue", "-h", "-j", job, "-o", "%D"], 60)
    if done.returncode or not done.stdout.strip().isdigit():
        raise MeasurementFailed(f"squeue does not report the nodes of job {job}: {processes.words(done)}")
    return int(done.stdout)


def left_s(environ: dict[str, str] | os._Environ) -> float | None:
    """Return the remaining walltime of the job in seconds; None if it has no limit, or if Slurm does not answer.

    Raises UserError if the job has ended. The point is then not started, and does not count as failed.
    """
    job = environ["SLURM_JOB_ID"]
    done = processes.run_command(["squeue", "-h", "-j", job, "-o", "%T %L"])
    state, _, left = done.stdout.strip().partition(" ")
    if "Invalid job id" in done.stderr or (done.returncode == 0 and state in ("", "COMPLETING")):
        raise UserError(
            "SLURM_JOB_ID",
            f"the Slurm job {job} has ended",
            "run salloc or sbatch, and then the same command again, which continues",
        )
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", left.strip())
    if not found:
        return None
    days, hours, minutes, seconds = (int(v or 0) for v in found.groups())
    return 86400 * days + 3600 * hours + 60 * minutes + seconds


def step(nodes: int) -> list[str]:
    """Return the srun command that runs one task on each node."""
    size = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    return ["srun", *size, "--input=none", "--mem=0", "--overlap"]


class SrunLauncher(RemoteLauncher):
    """A launcher that starts the agents of a gang with srun, inside an allocation of Slurm."""

    name = "srun"
    token: str | None = None
    scratch = "/dev/shm"
    _asked_to_end: float | None = None  # time when this process first saw that agents were ended from outside

    def launch(self) -> None:
        if self.relay_server:  # without a shared folder, Slurm copies the token file, and the agents remove it
            self.token = f"{self.scratch}/storelab-ticket-{self.folder.name}"
            done = processes.run_command(["sbcast", "--force", self.folder / "ticket", self.token], 60)
            if done.returncode:
                hint = " (does the controller answer? scontrol ping)" if done.returncode == processes.LATE else ""
                raise MeasurementFailed(f"sbcast: {processes.words(done)}{hint}")
        self.run(self.command())

    def telling(self, lines: list[str]) -> str:
        """Return the line that contains the reason.

        srun prints failed tasks before tasks that it ends as a consequence. If a step was ended from outside, srun
        prints an aborted task first.
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
        """Return srun's last line. If the step cannot begin, srun prints nothing; then return possible reasons."""
        words = super().last_words()
        if self.running() and not Folder(self.folder).present("alive") and "error: " not in words:
            options = f", launcher.options {self.settings.options} fit no node" if self.settings.options else ""
            return (
                f"srun still waits for its step: other steps use the nodes{options}, or the controller does "
                "not answer (scontrol ping)"
            )
        return words

    def trouble(self) -> str:
        """Return why agents were ended: the failed task, or Slurm's message. Return '' if there is no problem."""
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
            return ""  # Slurm's message can come later than the agent's message
        return f"{text} ({words})" if words else text

    def stop(self) -> None:
        """End the step, and remove the token file if agents have not read it."""
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
