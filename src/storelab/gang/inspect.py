"""Checks of nodes for `storelab doctor --nodes`: every node of the allocation checks itself, and a table is printed.

In an HTCondor pool, the number of checked machines is the maximum number of nodes of a gang. On a node, `python -m
storelab.gang.inspect PLACE NUMBER` (default of NUMBER: SLURM_PROCID) reads `ask.json` from PLACE (a folder or a pipe,
see `relay.py`) and writes `node.<number>` to it. `storelab check` inspects the hosts of the launcher `ssh` in this way.
"""

import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from storelab.core import clock, units
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.gang import credentials, relay
from storelab.gang.launchers import choose, condor, remote, srun, ssh
from storelab.gang.nodes import ClockServer, host_name, measure_offset, other_versions, versions
from storelab.gang.rendezvous import Folder, wait_for_file
from storelab.host import environment, processes

WAIT_S = 90  # seconds until all nodes must have answered
LATE_S = 5.0  # seconds until a shared folder must show the last answers
OPEN_FILES = 1024  # number of files that a client with many workers can open
COLUMNS = ("host", "python", "storelab", "s5cmd", "endpoints", "tmpfs free", "open files", "clock", "link")


def look(place: relay.SharedFolder | relay.RemoteFolder, number: int) -> None:
    """Write the state of this node to `place`. Raises SystemExit if the node cannot read from it."""
    host = host_name()
    if (ask := wait_for_file(place, "ask.json")) is None:
        seen = getattr(place, "path", place)
        sys.exit(f"storelab: node {number} ({host}): does not see {seen}: `results` is not shared with it")
    about: dict[str, Any] = {
        "host": host,
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        **versions(),
        **measure_offset(ask["clock"], place).as_dict(),
    }
    try:
        from storelab.engines import s5cmd

        about["s5cmd"] = s5cmd.version()  # runs the program on this node
    except (UserError, OSError, subprocess.SubprocessError) as error:
        about["s5cmd_missing"] = str(error)
    about["endpoints"] = {url: _reach(url) for url in ask["endpoints"]}
    scratch = Path(ask["scratch"])
    about["tmpfs_free"] = shutil.disk_usage(scratch).free if scratch.is_dir() else None
    about["link_bits_per_s"] = max(environment.link_speeds().values(), default=None)
    place.put(f"node.{number}", about)


def _reach(url: str) -> str:
    """Return '' if a server accepts connections at the URL's port, otherwise the reason why not."""
    parts = urlsplit(url)
    ports = {"https": 443, "http": 80, "root": 1094}
    try:
        with socket.create_connection((parts.hostname or "", parts.port or ports.get(parts.scheme, 80)), timeout=5):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def nodes(config: Config, stores: Mapping[str, Any], scratch_bytes: int = 0) -> tuple[list[dict[str, str]], list[str]]:
    """Return a row for each node of the allocation, and the names of stores that are down.

    A row has the COLUMNS and `problem`, which is '' if the node can measure. Each node needs `scratch_bytes` on its
    tmpfs. Raises UserError if there is no allocation.
    """
    if config.launcher.kind == "local":
        raise UserError(
            "doctor --nodes",
            "launcher.kind is local, so there is only this host",
            "use `storelab doctor`, or set launcher.kind",
        )
    count = choose.most_nodes(config)
    base = Path(config.results)
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".doctor-", dir=base)).resolve()
    server = ClockServer(remote.host_names(config.launcher.address), config.launcher.port)
    try:
        found = {name: _endpoints(stores[name]) for name in config.stores_to_measure}
        urls = [e.url for ends in found.values() for e in ends if "://" in e.url and not e.url.startswith("file")]
        Folder(folder).put("ask.json", {"endpoints": urls, "scratch": config.scratch, "clock": server.addresses})
        words = {"srun": _run, "htcondor": _submit, "ssh": _connect}[config.launcher.kind](config, count, folder)
        answers = _answers(folder, count, words)
        return [_row(config, n, answers[n], words, scratch_bytes) for n in range(count)], [
            name for name, ends in found.items() if not ends
        ]
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


class Lookers(condor.CondorLauncher):
    """A launcher of HTCondor jobs that check their machines."""

    module = "storelab.gang.inspect"
    timeout_ns = 0

    def longest_s(self) -> float:
        return 2 * self.timeout_ns / 1e9 + condor.SPARE_S


def _submit(config: Config, count: int, folder: Path) -> list[str]:
    """Let machines of an HTCondor pool check themselves, if their jobs start within `gang_timeout`.

    Return what HTCondor reported about the other jobs.
    """
    jobs = Lookers(folder, [[n] for n in range(count)], [], config.launcher)
    jobs.timeout_ns = config.gang_timeout
    limit, problem = time.monotonic() + config.gang_timeout / 1e9, ""
    try:
        jobs.launch()
        while not problem and len(Folder(folder).present("node")) < count:
            problem = jobs.trouble() or (jobs.last_words() or "no answer" if time.monotonic() > limit else "")
            time.sleep(0.2)
    except MeasurementFailed as error:
        problem = str(error)
    finally:
        jobs.stop()
    return [problem] if problem else []


class Visitors(ssh.SshLauncher):
    """A launcher that inspects hosts over ssh."""

    module = "storelab.gang.inspect"

    def launch(self) -> None:
        """Connect to all hosts, and let the hosts that can be reached check themselves."""
        self.connect()
        self.begin()

    def reports(self) -> list[str]:
        """Return one line for each host without an answer, with the reason."""
        late, answered = f"no answer within {WAIT_S} s", Folder(self.folder).present("node")
        problems = self.connections.problems | {
            n: late if (status := agent.poll()) is None else self.why(n, status)
            for n, agent in self.agents.items()
            if n not in answered
        }
        return [f"storelab: node {n} ({self.hosts[n]}): {problem}" for n, problem in problems.items()]


def _connect(config: Config, count: int, folder: Path) -> list[str]:
    """Let all hosts check themselves. Return one line for each host without an answer, with the reason."""
    visitors = Visitors(folder, [[n] for n in range(count)], [], config.launcher)
    try:
        visitors.launch()
        clock.wait_for(lambda: not visitors.running(), WAIT_S, 0.05)
        return visitors.reports()
    finally:
        visitors.stop()


def _run(config: Config, count: int, folder: Path) -> list[str]:
    """Let all nodes of the allocation check themselves. Return the output of srun and of the nodes."""
    settings = config.launcher
    look_there = remote.prepared(
        settings.setup, [settings.python or sys.executable, "-m", "storelab.gang.inspect", str(folder)]
    )
    done = processes.run_command(
        [*srun.step(count), *settings.options, *look_there], WAIT_S, credentials.clean(os.environ)
    )
    if done.returncode == processes.LATE:
        return [
            f"srun: no answer within {WAIT_S} s: other steps use the nodes, launcher.options fit no node, or "
            "there is no controller"
        ]
    return [line.strip() for line in done.stderr.splitlines() if line.strip()]


def _answers(folder: Path, count: int, words: list[str]) -> list[dict[str, Any]]:
    """Return the answers of the nodes. Wait for late ones, because a shared folder can show files late."""
    clock.wait_for(lambda: len(Folder(folder).present("node")) >= count, 0 if words else LATE_S, 0.2)
    return [Folder(folder).get(f"node.{n}") or {} for n in range(count)]


def _endpoints(store: Any) -> list[Any]:
    try:
        return store.endpoints(1)
    except Exception:  # noqa: BLE001 - a managed store that is down has no endpoint
        return []


def _row(config: Config, number: int, about: dict[str, Any], words: list[str], scratch_bytes: int) -> dict[str, str]:
    if not about:
        match = next((m for line in words if (m := re.match(rf"storelab: node {number} \((.*?)\): (.*)", line))), None)
        host, problem = (match[1], match[2]) if match else (f"node {number}", _reported(number, words))
        return dict.fromkeys(COLUMNS, "-") | {"host": host, "problem": problem or "left no answer"}
    closed = {url: why for url, why in about["endpoints"].items() if why}
    error = about["clock_error_ns"]
    return {
        "host": about["host"],
        "python": about["python"],
        "storelab": about["storelab"],
        "s5cmd": about.get("s5cmd", "missing"),
        "endpoints": f"{len(about['endpoints']) - len(closed)} of {len(about['endpoints'])}"
        if about["endpoints"]
        else "-",
        "tmpfs free": "-" if about["tmpfs_free"] is None else f"{about['tmpfs_free'] / 1e9:.1f} GB",
        "open files": str(about["open_files"]),
        "clock": "unknown" if error is None else f"{about['clock_offset_ns'] / 1e6:+.2f} ± {error / 1e6:.2f} ms",
        "link": "unknown" if about["link_bits_per_s"] is None else f"{about['link_bits_per_s'] / 1e9:g} Gbit/s",
        "problem": "; ".join(_problems(config, about, closed, scratch_bytes)),
    }


def _reported(number: int, words: list[str]) -> str:
    """Return srun's message about the task of this node, or srun's first error if there is none."""
    task = next((m for line in words if (m := re.search(rf"error: (\S+): task {number}: .*", line))), None)
    if task:
        reports = (line for line in words if srun.EXECVE in line and line.startswith(f"slurmstepd-{task[1]}:"))
        return next(reports, task[0])[:300]
    return next((line for line in words if "error" in line), words[-1] if words else "")[:300]


def _problems(config: Config, about: dict[str, Any], closed: dict[str, str], scratch_bytes: int) -> list[str]:
    """Return the reasons why a gang with this node would fail."""
    out, settings = [], config.launcher
    out += [f"other {what}: {words}" for what, words in other_versions(about).items()]
    if "s5cmd_missing" in about:
        out.append(f"no s5cmd: {about['s5cmd_missing']}")
    out += [f"{url}: {why}" for url, why in closed.items()]
    if about["tmpfs_free"] is None:
        out.append(f"the folder {config.scratch} (`scratch`) does not exist")
    elif about["tmpfs_free"] < scratch_bytes:
        needed, free = units.human_size(scratch_bytes), units.human_size(about["tmpfs_free"])
        out.append(f"its clients need {needed} in {config.scratch} (`scratch`), which has {free} free")
    if about["open_files"] < OPEN_FILES:
        out.append(f"{about['open_files']} open files are too few: ulimit -n {OPEN_FILES}")
    offset, error = about["clock_offset_ns"], about["clock_error_ns"]
    if error is None or error > settings.clock_error:
        known = "not known" if error is None else f"only known to within {error / 1e6:.3g} ms"
        fix = "open UDP to this host, see launcher.address and launcher.port"
        over_ssh = "its connection is slow; raise launcher.clock_error"
        out.append(f"its clock is {known}: {over_ssh if settings.kind == 'ssh' else fix}")
    elif abs(offset) > settings.clock_bound:
        out.append(
            f"its clock differs by {offset / 1e9:+.3f} s from the clock of this host, more than clock_bound = "
            f"{settings.clock_bound / 1e9:g} s"
        )
    return out


if __name__ == "__main__":
    look(relay.uplink(sys.argv[1]), int(sys.argv[2] if len(sys.argv) > 2 else os.environ["SLURM_PROCID"]))
