"""Launcher `srun`: one step of a Slurm job over its nodes; inside of an allocation, or of a job of Snakemake's Slurm executor (level 3)."""

import os
import re
import shutil
import subprocess

from storelab.gang import post
from storelab.gang.remote import RemoteLauncher
from storelab.model import MeasurementFailed, UserError

BESIDE_S = 60  # of a point beside its window, that must fit into the walltime too


def allocation(environ: dict[str, str] | os._Environ) -> int:
    """Nodes of the Slurm job around us. Raises UserError: not inside of one, or no srun."""
    if shutil.which("srun") is None:
        raise UserError("launcher.kind", "there is no srun on PATH", "load Slurm's environment, or choose another launcher")
    if "SLURM_JOB_ID" not in environ:
        raise UserError("launcher.kind", "srun wants an allocation, and there is none around", "salloc or sbatch first: docs/cluster.md")
    return int(environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES") or 1)


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
