"""The launcher `htcondor`: N jobs in HTCondor's vanilla universe, or one job in its parallel universe.

HTCondor starts vanilla jobs when it has free slots, which can take minutes. The gang waits for `gang_timeout`; then the
error names the missing jobs. Several jobs could fit into one machine. Therefore each job gets a separate share of the
pool's machines. Waiting jobs also get machines that join the pool, and machines that running jobs do not need.
HTCondor's commands are used instead of its Python bindings, because the commands have the version of the pool. The
submit description contains no secrets. Without a shared folder, HTCondor transfers the relay server's token file.
"""

import json
import os
import re
import shutil
import subprocess
import time
from typing import NamedTuple

from storelab.core import clock
from storelab.core.errors import MeasurementFailed, UserError
from storelab.engines.contract import GangJob
from storelab.gang import credentials, relay
from storelab.gang.launchers.remote import SETTLE_S, RemoteLauncher, script
from storelab.gang.rendezvous import Folder
from storelab.host import processes

SCRIPT = "agent.sh"  # script with the site's setup lines, which then runs the agent
LOOK_S = 5.0  # seconds between two queries of the queue while a gang runs
SHARE_S = 9.0  # seconds between two queries of the pool while jobs wait
REMOVAL_TIMEOUT_S = 8.0  # seconds until removed jobs must have left the queue; then they are removed by force
SPARE_S = 600  # seconds from the latest end of the coordinator until a remaining job removes itself
MAX_MACHINES = 200  # maximum number of machines in the share of one job
RUNNING, REMOVED, HELD, SENDING = 2, 3, 5, 6  # states of a job (HTCondor manual, JobStatus)
REQUIREMENTS = re.compile(r"\s*requirements\s*=\s*(.*)", re.IGNORECASE)
NOWHERE = "-"  # share of a job that has no machine yet


def require() -> None:
    """Raise UserError if HTCondor's commands are missing."""
    for name in ("condor_submit", "condor_q", "condor_rm", "condor_status"):
        if shutil.which(name) is None:
            raise UserError(
                "launcher.kind",
                f"there is no {name} on PATH",
                "load HTCondor's environment, or choose another launcher",
            )


def quoted(words: list[str]) -> str:
    """Return the arguments in the syntax of a submit description. They can contain any characters."""
    each = ["'" + w.replace("'", "''") + "'" if re.search(r"[\s']", w) or not w else w for w in words]
    return '"' + " ".join(each).replace('"', '""') + '"'


def share_out(machines: list[str], jobs: int) -> list[list[str]]:
    """Return the machines for each job. Each machine belongs to only one job."""
    return [machines[n::jobs][:MAX_MACHINES] for n in range(jobs)]


class Job(NamedTuple):
    """A job in the queue. `machine` is '' if the job does not run; `reason` is why it is held."""

    state: int
    machine: str
    reason: str

    @property
    def waits(self) -> bool:
        return self.state not in (RUNNING, SENDING)


class CondorLauncher(RemoteLauncher):
    """A launcher that starts the agents of a gang as jobs of HTCondor."""

    name = "htcondor"
    look_s = 0.5
    cluster: str | None = None
    _looked = _shared = 0.0
    _shares: list[list[str]]  # machines of each job
    _given: set[str]  # machines that were ever in a share; a waiting job can start on a machine of its old share
    _gone_since: float | None = None

    def longest_s(self) -> float:
        """Return the maximum time in seconds from the submission of a job to its end."""
        job = GangJob.read(self.folder)
        return (2 * job.timeout_ns + job.point.fixed["duration_ns"]) / 1e9 + SPARE_S

    def description(self, shares: list[list[str]]) -> str:
        """Return the submit description. `shares` contains the machines of each job."""
        parallel = self.settings.universe == "parallel"
        before = [str(self.folder.resolve() / SCRIPT)] if self.settings.setup else []
        executable, *arguments = [*before, *self.agent(), "$(Node)" if parallel else "$(ProcId)"]
        number = arguments[-1]
        mine, wanted = "stringListIMember(TARGET.Machine, MY.StorelabMachines)", self._requirements()
        lines = {
            "universe": self.settings.universe,
            "executable": executable,
            "transfer_executable": "true" if before and not self.settings.shared_folder else "false",
            "arguments": quoted(arguments),
            "initialdir": str(self.folder.resolve()),
            "log": "condor.log",
            "output": f"agent.{number}.log",
            "error": f"agent.{number}.err",
            "notification": "never",
            "My.StorelabMachines": '"$(Machines)"',
            "periodic_remove": f"time() > QDate + {self.longest_s():.0f}",
        }
        if self.settings.shared_folder:
            lines |= {"should_transfer_files": "NO", "getenv": "PATH, PYTHONPATH, LD_LIBRARY_PATH"}
        else:
            lines |= {
                "should_transfer_files": "YES",
                "when_to_transfer_output": "ON_EXIT",
                "transfer_output_files": '""',
                "transfer_input_files": "ticket",
                "environment": f'"{relay.TOKEN_FILE}=ticket"',
            }
        text = [f"{k} = {v}" for k, v in lines.items()] + [
            o for o in self.settings.options if not REQUIREMENTS.fullmatch(o)
        ]
        text.append(f"requirements = ({wanted}) && {mine}" if wanted else f"requirements = {mine}")
        text += ["machine_count = 1"] if parallel else []
        queue = [",".join(machines) or NOWHERE for machines in shares]
        return "\n".join([*text, "queue Machines from (", *queue, ")"]) + "\n"

    def _requirements(self) -> str:
        """Return the requirements from `launcher.options` as one expression."""
        return " && ".join(f"({m[1]})" for o in self.settings.options if (m := REQUIREMENTS.fullmatch(o)))

    def _machines(self) -> list[str]:
        """Return the machines that can run a job of the gang, idle ones first. Raises MeasurementFailed."""
        constraint = f"({self._requirements() or 'true'}) =!= false"  # conditions on the job are undefined here
        if self.settings.universe == "parallel":
            constraint += " && DedicatedScheduler =!= undefined"
        done = self._command("condor_status", "-constraint", constraint, "-af", "Machine", "State", "Cpus")
        if done.returncode:
            raise MeasurementFailed(f"condor_status: {processes.words(done)} (constraint: {constraint})")
        idle: dict[str, bool] = {}
        for machine, state, cpus in (line.split()[:3] for line in done.stdout.splitlines() if len(line.split()) >= 3):
            idle[machine] = idle.get(machine, False) or (state == "Unclaimed" and cpus != "0")
        return sorted(idle, key=lambda m: (not idle[m], m))

    def launch(self) -> None:
        """Submit the jobs. Raises MeasurementFailed with HTCondor's message."""
        if self.settings.setup:
            (self.folder / SCRIPT).write_text(f"#!/bin/bash -l\n{script(self.settings.setup)}")
            (self.folder / SCRIPT).chmod(0o755)
        self._shares = share_out(self._machines(), len(self.nodes))
        self._given = {machine for share in self._shares for machine in share}
        path = self.folder / "gang.sub"
        path.write_text(self.description(self._shares))
        try:
            done = self._command("condor_submit", "-terse", str(path))
        except BaseException:  # after Ctrl-C the number is unknown, but only these jobs use the gang's folder
            self._command("condor_rm", "-constraint", f"Iwd == {json.dumps(str(self.folder.resolve()))}")
            raise
        found = re.search(r"^(\d+)\.\d+", done.stdout, re.MULTILINE)
        if done.returncode or not found:
            raise MeasurementFailed(f"condor_submit: {processes.words(done)}")
        self.cluster = found[1]
        self._looked = time.monotonic()

    def _command(self, *command: str) -> subprocess.CompletedProcess:
        """Run a command of HTCondor. It does not get Ctrl-C, so that jobs are removed in order."""
        return processes.run_command(command, 60, credentials.clean(os.environ, self.tokens), start_new_session=True)

    def _queue(self) -> dict[int, Job] | None:
        """Return the gang's jobs in the queue, by number; None if the queue does not answer."""
        done = self._command("condor_q", self.cluster or "", "-af", "ProcId", "JobStatus", "RemoteHost", "HoldReason")
        if done.returncode:
            return None
        rows = (line.split(maxsplit=3) for line in done.stdout.splitlines() if line.strip())
        found = {int(job): Job(int(state), host.partition("@")[2], (*why, "")[0]) for job, state, host, *why in rows}
        return {n: job if not job.waits else job._replace(machine="") for n, job in found.items()}

    def _ended_early(self, now: float) -> str:
        """Return a message about a job that was held or removed or has ended, or ''.

        If the queue does not answer for some time, return ''.
        """
        if self.cluster is None or now - self._looked < LOOK_S:
            return ""
        queue = self._queue()
        self._looked = time.monotonic()
        if queue is None:
            return ""
        for n, job in sorted(queue.items()):
            if job.state in (HELD, REMOVED):
                what = "held" if job.state == HELD else "removed"
                return f"job {self.cluster}.{n} (node {n}) is {what}: {job.reason[:200]}"
        self._share_more(queue)
        gone = self._gone(queue)
        self._gone_since = (self._gone_since or now) if gone else None
        return self._last_report(gone[0]) if gone and now - self._gone_since > SETTLE_S else ""

    def _gone(self, queue: dict[int, Job]) -> list[int]:
        """Return the jobs that have left the queue, but whose nodes have not reported their end."""
        return sorted(set(range(len(self.nodes))) - queue.keys() - Folder(self.folder).present("node"))

    def _share_more(self, queue: dict[int, Job]) -> None:
        """Add machines that are not needed by other jobs to the shares of waiting jobs."""
        waiting = [n for n, job in sorted(queue.items()) if job.waits]
        if not waiting or time.monotonic() - self._shared < SHARE_S:
            return
        self._shared = time.monotonic()
        try:
            there = self._machines()
        except MeasurementFailed:
            return
        waiting.sort(key=lambda n: len(set(self._shares[n]) & set(there)))  # jobs with the fewest machines first
        free = [m for m in there if m not in self._given]
        for n, job in queue.items():
            if job.machine and self._shares[n] != [job.machine]:
                spare = [m for m in there if m in self._shares[n] and m != job.machine]
                free += spare if self._set_share(n, [job.machine]) else []
        gone = [n for n in waiting if not set(self._shares[n]) & set(there)]  # all their machines have left the pool
        for _ in gone:
            donor = max(waiting, key=lambda n: len(set(self._shares[n]) & set(there)))
            *rest, last = [m for m in self._shares[donor] if m in there] or [""]
            free += [last] if rest and self._set_share(donor, rest) else []
        for n, machines in zip(waiting, share_out(free, len(waiting)), strict=True):
            # The new share replaces the old one. HTCondor would try a dead machine repeatedly while it is in the pool.
            if machines:
                self._set_share(n, machines)

    def _set_share(self, job: int, machines: list[str]) -> bool:
        """Restrict the job to these machines. Return whether HTCondor accepted this."""
        done = self._command("condor_qedit", f"{self.cluster}.{job}", "StorelabMachines", f'"{",".join(machines)}"')
        if done.returncode == 0:
            self._shares[job] = machines
            self._given.update(machines)
        return done.returncode == 0

    def _last_report(self, job: int) -> str:
        """Return how a job that has left the queue ended, and the last output of its agent."""
        done = self._command(
            "condor_history", f"{self.cluster}.{job}", "-limit", "1", "-af", "ExitCode", "ExitSignal", "RemoveReason"
        )
        code, signal, removed = [*done.stdout.strip().split(maxsplit=2), "", "", ""][:3]
        if removed not in ("", "undefined"):
            how = f"was removed ({removed})"
        elif signal.isdigit():
            how = f"ended by signal {signal}"
        else:
            how = f"ended with status {code}" if code.isdigit() else "has left the queue"
        last = "".join(f" ({line[:200]})" for line in processes.log_lines(self.folder / f"agent.{job}.err")[-1:])
        return f"job {self.cluster}.{job} (node {job}) {how} before its clients had written their results{last}"

    def last_words(self) -> str:
        """Return why missing jobs still wait or have left the queue, if this is known, or ''."""
        queue = self._queue() if self.cluster is not None else None
        if queue is not None and (gone := self._gone(queue)):
            return self._last_report(gone[0])
        waiting = [n for n, job in sorted((queue or {}).items()) if job.waits]
        if any(not self._shares[job] for job in waiting):
            return (
                f"the pool has {len(self._given)} suitable machines for the {len(self.nodes)} jobs of cluster "
                f"{self.cluster}"
            )
        return f"jobs {', '.join(f'{self.cluster}.{job}' for job in waiting)} still wait for a slot" if waiting else ""

    def running(self) -> bool:
        """Return whether agents can still be running. Waiting jobs have no agents."""
        queue = self._queue() if self.cluster is not None else {}
        return queue is None or not all(job.waits for job in queue.values())

    def stop(self) -> None:
        """End the agents, and remove all jobs from the queue."""
        super().stop()
        if self.cluster is None or self._queue() == {}:
            return
        for force in ((), ("-forcex",)):
            self._command("condor_rm", *force, self.cluster)
            if clock.wait_for(lambda: self._queue() == {}, REMOVAL_TIMEOUT_S, self.look_s):
                return
