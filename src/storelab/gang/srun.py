"""Launcher `srun`: one step of a Slurm job over its nodes; inside of an allocation, or of a job of Snakemake's Slurm executor (level 3)."""

import os
import re
import shutil
import subprocess

from storelab.gang import post
from storelab.gang.remote import RemoteLauncher
from storelab.model import MeasurementFailed, UserError

BESIDE_S = 60  # of a point beside its window, that must fit into the walltime too
KEPT = "STORELAB_SLURM_CONF"  # SLURM_CONF under a name that gets into a job of Snakemake's executor, which drops all of SLURM_…


def keep(environ: dict[str, str] | os._Environ) -> None:
    """Before jobs are submitted: where Slurm's configuration is."""
    if "SLURM_CONF" in environ:
        environ[KEPT] = environ["SLURM_CONF"]


def inside(environ: dict[str, str] | os._Environ) -> bool:
    """Whether a Slurm job is around us."""
    return "SLURM_JOB_ID" in environ


def on_node(environ: dict[str, str] | os._Environ) -> bool:
    """Whether this process runs on a node of the job, not on the host where it was asked for (salloc)."""
    return inside(environ) and "SLURMD_NODENAME" in environ


def require(environ: dict[str, str] | os._Environ) -> None:
    """Slurm's commands can be used from here on. Raises UserError."""
    if shutil.which("srun") is None:
        raise UserError("launcher.kind", "there is no srun on PATH", "load Slurm's environment, or choose another launcher")
    if KEPT in environ:
        environ.setdefault("SLURM_CONF", environ[KEPT])


def allocation(environ: dict[str, str] | os._Environ) -> int:
    """Nodes of the Slurm job around us. Raises UserError: not inside of one, or no srun."""
    require(environ)
    if not inside(environ):
        mend = "salloc or sbatch first, or give launcher.nodes where each point is to be a job of its own: docs/cluster.md"
        raise UserError("launcher.kind", "srun wants an allocation, and there is none around", mend)
    return int(environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES") or _nodes(environ["SLURM_JOB_ID"]))


def cluster() -> int | None:
    """How many nodes Slurm has in all; None where it does not answer. A job that asks for more would wait for ever."""
    try:
        done = subprocess.run(["sinfo", "-h", "-N", "-o", "%N"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return len(set(done.stdout.split())) or None


def _nodes(job: str) -> int:
    """Of a job whose variables were dropped (Snakemake's executor). Raises MeasurementFailed: Slurm does not answer."""
    try:
        done = subprocess.run(["squeue", "-h", "-j", job, "-o", "%D"], capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise MeasurementFailed("squeue gave no answer within 60 s") from None
    if done.returncode or not done.stdout.strip().isdigit():
        raise MeasurementFailed(f"squeue does not tell the nodes of job {job}: {' '.join(done.stderr.split())[-300:]}")
    return int(done.stdout)


def left_s(environ: dict[str, str] | os._Environ) -> float | None:
    """Seconds of walltime that the job has; None where it has no limit, or Slurm does not answer."""
    try:
        done = subprocess.run(
            ["squeue", "-h", "-j", environ["SLURM_JOB_ID"], "-o", "%L"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", done.stdout.strip())
    if not found:
        return None
    days, hours, minutes, seconds = (int(v or 0) for v in found.groups())
    return 86400 * days + 3600 * hours + 60 * minutes + seconds


class SrunLauncher(RemoteLauncher):
    name = "srun"
    ticket: str | None = None
    scratch = "/dev/shm"

    def launch(self) -> None:
        if self.office:  # no folder is shared: Slurm brings the ticket, and the agents remove it
            self.ticket = f"{self.scratch}/storelab-ticket-{self.folder.name}"
            done = subprocess.run(
                ["sbcast", "--force", str(self.folder / "ticket"), self.ticket], capture_output=True, text=True, timeout=60, check=False
            )
            if done.returncode:
                raise MeasurementFailed(f"sbcast: {' '.join(done.stderr.split())[-300:]}")
        super().launch()

    def command(self) -> list[str]:
        n = str(len(self.nodes))
        export = [f"--export=ALL,{post.TICKET}={self.ticket}"] if self.ticket else []
        step = ["srun", f"--nodes={n}", f"--ntasks={n}", "--ntasks-per-node=1", "--kill-on-bad-exit=1", "--input=none", "--unbuffered"]
        return [*step, *export, "--cpu-bind=none", "--mem=0", "--overlap", "--job-name=storelab", *self.settings.options, *self.agent()]
