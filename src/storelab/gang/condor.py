"""Launcher `htcondor`: N jobs that meet, in the vanilla universe, or one job of N machines in the parallel universe (level 3, measuring side).

HTCondor starts vanilla jobs when it has slots, maybe over minutes: the gang waits `gang_timeout`, then names who did not come. The commands of
HTCondor are used, not its bindings: their version is the pool's. Nothing secret stands in the submit description; where no folder is shared, the
ticket of the post office is a file that HTCondor transfers.
"""

import os
import re
import shutil
import subprocess
import time

from storelab.gang import keys, post
from storelab.gang.remote import RemoteLauncher, script
from storelab.model import MeasurementFailed, UserError

SCRIPT = "agent.sh"  # the site's lines, then the agent
LOOK_S = 5.0  # between two questions to the queue
HELD, REMOVED = 5, 3  # states of a job (HTCondor manual, JobStatus)


def require() -> None:
    """Raises UserError where HTCondor's commands are missing."""
    for name in ("condor_submit", "condor_q", "condor_rm"):
        if shutil.which(name) is None:
            raise UserError("launcher.kind", f"there is no {name} on PATH", "load HTCondor's environment, or choose another launcher")


class CondorLauncher(RemoteLauncher):
    name = "htcondor"
    cluster: str | None = None

    def description(self) -> str:
        """The submit description."""
        parallel = self.settings.universe == "parallel"
        before = [str(self.folder.resolve() / SCRIPT)] if self.settings.setup else []
        executable, *arguments = [*before, *self.agent(), "$(Node)" if parallel else "$(ProcId)"]
        lines = {
            "universe": self.settings.universe,
            "executable": executable,
            "arguments": " ".join(arguments),
            "initialdir": str(self.folder.resolve()),
            "log": "condor.log",
            "output": "agent.$(Node).log" if parallel else "agent.$(ProcId).log",
            "error": "agent.$(Node).err" if parallel else "agent.$(ProcId).err",
            "notification": "never",
            "should_transfer_files": "NO" if self.settings.shared_folder else "YES",
        }
        if not self.settings.shared_folder:
            lines |= {"transfer_input_files": "ticket", "environment": f'"{post.TICKET}=ticket"', "when_to_transfer_output": "ON_EXIT"}
        text = [f"{k} = {v}" for k, v in lines.items()]
        count = f"machine_count = {len(self.nodes)}\nqueue" if parallel else f"queue {len(self.nodes)}"
        return "\n".join([*text, *self.settings.options, count]) + "\n"

    def launch(self) -> None:
        """Raises MeasurementFailed with HTCondor's own words."""
        if self.settings.setup:
            (self.folder / SCRIPT).write_text(f"#!/bin/bash -l\n{script(self.settings.setup)}")
            (self.folder / SCRIPT).chmod(0o755)
        path = self.folder / "gang.sub"
        path.write_text(self.description())
        done = self._command("condor_submit", "-terse", str(path))
        found = re.match(r"(\d+)\.", done.stdout)
        if done.returncode or not found:
            raise MeasurementFailed(f"condor_submit: {' '.join((done.stderr or done.stdout).split())[-300:]}")
        self.cluster = found[1]
        self._looked = time.monotonic()

    def _command(self, *command: str) -> subprocess.CompletedProcess:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=keys.clean(os.environ, self.tokens), check=False)

    def _ended_early(self, now: float) -> str:
        """A job that was held or removed: by name, with the reason."""
        if self.cluster is None or now - self._looked < LOOK_S:
            return ""
        self._looked = now
        done = self._command("condor_q", self.cluster, "-af", "ProcId", "JobStatus", "HoldReason")
        for line in done.stdout.splitlines() if done.returncode == 0 else []:  # a scheduler that is down for a while is waited for
            job, state, reason = [*line.split(maxsplit=2), "", ""][:3]
            if state.isdigit() and int(state) in (HELD, REMOVED):
                return f"job {self.cluster}.{job} (node {job}) is {'held' if int(state) == HELD else 'removed'}: {reason[:200]}"
        return ""

    def running(self) -> bool:
        done = self._command("condor_q", self.cluster or "", "-af", "ProcId")
        return self.cluster is not None and (done.returncode != 0 or bool(done.stdout.strip()))

    def cancel(self) -> None:
        if self.cluster is not None:
            self._command("condor_rm", self.cluster)
