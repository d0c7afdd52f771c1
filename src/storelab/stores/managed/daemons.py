"""Daemons of a managed store: start, recognise, stop; the processes that belong to one.

Every daemon is recorded in `<folder>/daemons.json` with pid, create time and command line before anything else
happens, and is signalled only while all three still agree: a recycled pid is never hit. Its workers, the other
processes of its session, share its fate. Callers hold `lock()` around what changes things. A store that was started on
another host which shares its folder is used, and never started, signalled or stopped from here.
"""

import contextlib
import errno
import fcntl
import functools
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.records import write_json
from storelab.stores.managed.daemon import Daemon, environment, within
from storelab.stores.managed.network import free

LOG_LIMIT = 16 * 1024**2  # bytes; a longer log is moved aside when its daemon starts again
TERMINATE = (psutil.Process.terminate, psutil.Process.resume)  # a suspended process would never see the SIGTERM
SAME_START = 30.0  # seconds: create times move with the wall clock; pid and whole command line must agree as well
HELD_S = 1.0  # until a process that got SIGSTOP stands still
STILL = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


class Daemons:
    """The daemons of one store below one folder of its own. `place`: its place in the configuration, for messages."""

    def __init__(self, folder: Path, place: str):
        self.folder, self.place = folder, place
        self.file, self.logs = folder / "daemons.json", folder / "log"
        self._children: dict[int, subprocess.Popen[bytes]] = {}  # reaped here, else a dead one stays as a zombie

    @contextlib.contextmanager
    def lock(self, timeout: float = 120.0) -> Iterator[None]:
        """One storelab process at a time changes a store.

        Raises UserError when another holds it for longer than `timeout` s.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.folder / "lock").open("w") as f:
            end = time.monotonic() + timeout
            while True:
                try:
                    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise UserError(
                            self.place,
                            "another storelab process is starting or stopping it",
                            "wait for that one to end",
                        ) from None
                    time.sleep(0.05)
            yield

    def records(self) -> dict[str, dict[str, Any]]:
        """Name -> {pid, created, argv, grace, …} as recorded, whether it still runs or not."""
        try:
            found: dict[str, dict[str, Any]] = json.loads(self.file.read_bytes())["daemons"]
            for record in found.values():
                record["pid"] + 0, record["created"] + 0.0, record["grace"] + 0.0, " ".join(record["argv"])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise UserError(str(self.file), "is damaged", "stop its daemons by hand, then remove the file") from None
        return found

    def _write(self, records: Mapping[str, Any]) -> None:
        write_json(self.file, {"schema": 1, "daemons": dict(records)})

    def note(self, name: str, **facts: Any) -> None:
        """Add facts to the record of a daemon; nothing where the file was lost meanwhile."""
        records = self.records()
        if name in records:
            records[name].update(facts)
            self._write(records)

    def process(self, record: Mapping[str, Any]) -> psutil.Process | None:
        """The recorded process if that very one still runs, on this host."""
        if other_host({"": record}):
            return None
        child = self._children.get(record["pid"])
        if child is not None and child.poll() is not None:
            return None
        try:
            process = psutil.Process(record["pid"])
            if child is not None:
                return process  # unreaped, so nobody else has its pid; its title may be changing just now
            if process.status() == psutil.STATUS_ZOMBIE or abs(process.create_time() - record["created"]) > SAME_START:
                return None
            return process if runs_as(process.cmdline(), record["argv"]) else None
        except psutil.Error:
            return None

    def elsewhere(self) -> str:
        """The other host that these daemons run on, where several share the folder; '' where it is this one."""
        return other_host(self.records())

    def running(self) -> dict[str, int]:
        """Name -> pid of the recorded daemons that run; all of those of another host, whose pids mean nothing here."""
        away = self.elsewhere()
        return {name: r["pid"] for name, r in self.records().items() if away or self.process(r)}

    def everyone(self) -> dict[str, int]:
        """Name -> pid of the daemons that run and of their workers, which are called `<daemon>/1` …"""
        leaders = {name: p for name, r in self.records().items() if (p := self.process(r))}
        workers = workers_of(leaders.values())
        out = {name: p.pid for name, p in leaders.items()}
        return out | {f"{name}/{i}": w.pid for name, p in leaders.items() for i, w in enumerate(workers[p.pid], 1)}

    def family_of(self, name: str) -> list[psutil.Process]:
        """The processes of a daemon, its leader first; none where it does not run."""
        record = self.records().get(name)
        leader = self.process(record) if record else None
        return [leader, *workers_of([leader])[leader.pid]] if leader else []

    def log_tail(self, name: str, lines: int = 4) -> str:
        """The last lines of a daemon's log that say something, on one line."""
        try:
            text = (self.logs / f"{name}.log").read_text(errors="replace")
        except OSError:
            return "(no log)"
        return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:]) or "(empty log)"

    def check_ports(self, daemons: Iterable[Daemon]) -> None:
        """Raises UserError that names the first port that is taken, who holds it, and the key to change."""
        for daemon in daemons:
            for port in () if daemon.elsewhere else daemon.ports:
                try:
                    # A process that was just killed holds its port until its last thread has ended.
                    usable = within(1.0, partial(free, daemon.host, port), pause=0.02)
                except OSError as error:
                    why = (
                        "is no address of this machine"
                        if error.errno == errno.EADDRNOTAVAIL
                        else f"cannot be listened at ({error.strerror or error})"
                    )
                    raise UserError(f"{self.place}.address", f"{daemon.host}:{port} {why}", "use 127.0.0.1") from None
                if not usable:
                    raise UserError(
                        f"{self.place}.port",
                        f"port {port} of {daemon.name} is taken{holder(port)}",
                        f"stop that, or set {self.place}.port to another block",
                    )

    def adopt(self, daemon: Daemon) -> int | None:
        """Record a daemon whose starter died too early, and return its pid; None where there is none.

        It is known by exactly this command line and by its working folder.
        """
        for process in psutil.process_iter(["cmdline"]):
            with contextlib.suppress(psutil.Error):
                same = runs_as(process.info["cmdline"] or (), daemon.argv) and os.getuid() in (
                    0,
                    process.uids().real,
                )
                if same and Path(process.cwd()) == self.folder.resolve():
                    self._record(daemon, process)
                    return process.pid
        return None

    def take(self, daemon: Daemon, process: psutil.Process) -> None:
        """Record a daemon that another daemon of the store has started."""
        self._record(daemon, process)

    def _record(self, daemon: Daemon, process: psutil.Process) -> None:
        record = {
            "pid": process.pid,
            "created": process.create_time(),
            "argv": list(daemon.argv),
            "grace": daemon.grace,
        }
        record |= {"host": daemon.host, "ports": list(daemon.ports)}
        self._write({**self.records(), daemon.name: record | this_host()})

    def start(self, daemon: Daemon) -> int:
        """Start a daemon in a session of its own and record it; returns its pid.

        Its stdin is /dev/null, its output is appended to the log.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        path = self.logs / f"{daemon.name}.log"
        if path.exists() and path.stat().st_size > LOG_LIMIT:
            path.replace(path.with_suffix(".log.old"))
        with path.open("ab") as log:
            child = subprocess.Popen(
                (*daemon.prefix, *daemon.argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=environment(self.folder, daemon.environ),
                start_new_session=True,
            )
        self._children[child.pid] = child
        try:
            self._record(daemon, psutil.Process(child.pid))
        except BaseException:
            child.kill()
            child.wait()
            raise
        return child.pid

    def wait_healthy(self, daemon: Daemon, timeout: float = 20.0) -> None:
        """Poll its health.

        Raises MeasurementFailed with the last log lines when it dies or is not healthy in `timeout` s.
        """
        end = time.monotonic() + timeout
        while not daemon.healthy():
            record = self.records().get(daemon.name)
            if record is None or self.process(record) is None:
                raise MeasurementFailed(
                    f"{self.place}: {daemon.name} ended while it started; its log says: {self.log_tail(daemon.name)}"
                )
            if time.monotonic() > end:
                raise MeasurementFailed(
                    f"{self.place}: {daemon.name} is not healthy after {timeout:g} s; its log says: "
                    f"{self.log_tail(daemon.name)}"
                )
            time.sleep(0.02)

    def suspend(self) -> None:
        """SIGSTOP to all, the last started first, before its workers; returns when they stand still."""
        leaders = [p for r in reversed(self.records().values()) if (p := self.process(r))]
        workers = workers_of(leaders)
        for leader in leaders:
            hold([leader, *workers[leader.pid]])

    def resume(self) -> list[str]:
        """SIGCONT to all; returns the names of those that were suspended."""
        leaders = {name: p for name, r in self.records().items() if (p := self.process(r))}
        workers, woken = workers_of(leaders.values()), []
        for name, leader in leaders.items():
            for process in (*workers[leader.pid], leader):
                with contextlib.suppress(psutil.Error):
                    woken += [name] if process.status() == psutil.STATUS_STOPPED and name not in woken else []
                    process.resume()
        return woken

    def stop(self, names: Iterable[str] | None = None) -> list[int]:
        """Stop these daemons (default: all) together: SIGTERM, their grace, SIGKILL, verify; returns the pids stopped.

        Their workers end with them. Raises MeasurementFailed if one survives; it then stays recorded.
        """
        records = self.records()
        chosen = [n for n in (records if names is None else names) if n in records]
        alive = {n: p for n in chosen if (p := self.process(records[n]))}
        workers = workers_of(alive.values())
        self._each(alive.values(), *TERMINATE)
        rest = [w for group in workers.values() for w in group]
        self._each(rest, psutil.Process.resume)
        since = time.monotonic()
        for name, process in sorted(alive.items(), key=lambda item: records[item[0]]["grace"]):
            if not self._gone(process, since + records[name]["grace"]):
                self._each([process, *workers[process.pid]], psutil.Process.kill)
        until = time.monotonic() + 0.5
        for process in rest:
            if not self._gone(process, until):
                self._each([process], psutil.Process.kill)
        survivors = {n: p.pid for n, p in alive.items() if not self._gone(p, time.monotonic() + 10)}
        self._write({n: r for n, r in records.items() if n not in chosen or n in survivors})
        survivors |= {f"worker {w.pid}": w.pid for w in rest if not self._gone(w, time.monotonic() + 10)}
        if survivors:
            raise MeasurementFailed(
                f"{self.place}: {', '.join(f'{n} (pid {pid})' for n, pid in survivors.items())} did not end on SIGKILL"
            )
        return [p.pid for p in (*alive.values(), *rest)]

    def sweep(self, names: Iterable[str] | None = None) -> list[int]:
        """Stop what daemons of these names (default: any) left behind: workers of one that was killed, one that was
        never recorded.

        Returns the pids stopped.
        """
        wanted = None if names is None else set(names)
        found = [p for name, p in strays(self.logs, set(self.running().values())) if wanted is None or name in wanted]
        self._each(found, *TERMINATE)
        since = time.monotonic()
        for process in found:
            if not self._gone(process, since + 5):
                self._each([process], psutil.Process.kill)
                self._gone(process, time.monotonic() + 10)
        return [p.pid for p in found]

    @staticmethod
    def _each(processes: Iterable[psutil.Process], *acts: Callable[[psutil.Process], None]) -> None:
        """Do this to each process that has not ended."""
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                for act in acts:
                    act(process)

    def _gone(self, process: psutil.Process, end: float) -> bool:
        """Wait until `end` (monotonic seconds) for a process and all its threads to end: its ports are free then."""
        child = self._children.get(process.pid)
        while True:
            try:
                if child is not None:
                    gone = child.poll() is not None
                else:  # of another parent, who may never reap it; a zombie with threads is still closing its files
                    zombie = process.status() == psutil.STATUS_ZOMBIE
                    gone = (zombie and process.num_threads() <= 1) or not process.is_running()
            except psutil.NoSuchProcess:
                gone = True
            if gone:
                self._children.pop(process.pid, None)
                return True
            if time.monotonic() > end:
                return False
            time.sleep(0.01)


# Processes of a daemon: known by command line, by session, by where their output goes


def runs_as(cmdline: Sequence[str], argv: Sequence[str]) -> bool:
    """True if a process of this command line is `argv`.

    Also if it is a prefix that is about to become it, or bears it in its title (nginx).
    """
    have, want = " ".join(cmdline).rstrip(), " ".join(argv)
    return have == want or have.endswith(" " + want)


def workers_of(leaders: Iterable[psutil.Process]) -> dict[int, list[psutil.Process]]:
    """Pid of each leader of a session -> the other processes of its session, oldest first.

    The leaders must be alive.
    """
    out: dict[int, list[psutil.Process]] = {p.pid: [] for p in leaders}
    for pid in psutil.pids() if out else ():
        with contextlib.suppress(OSError, psutil.Error):
            if pid not in out and (session := os.getsid(pid)) in out:
                out[session].append(psutil.Process(pid))
    return {pid: sorted(found, key=lambda p: (p.create_time(), p.pid)) for pid, found in out.items()}


def strays(logs: Path, sessions: Collection[int]) -> list[tuple[str, psutil.Process]]:
    """(name of the daemon, process) of all that write to `logs`/<name>.log and read from nowhere.

    sessions: those that are left out.
    """
    folder, out = f"{logs.resolve()}/", []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            source, target = (str(Path(f"/proc/{pid}/fd/{fd}").readlink()) for fd in (0, 1))
            if target.startswith(folder) and source == os.devnull and os.getsid(pid) not in sessions:
                out.append((target.removeprefix(folder).partition(".log")[0], psutil.Process(pid)))
    return out


def holder(port: int) -> str:
    """Who listens at a TCP port, for people: ` by weed (pid 12)`; empty where the system does not tell."""
    try:
        found = [
            c.pid
            for c in psutil.net_connections("tcp")
            if c.laddr and c.laddr.port == port and c.status == psutil.CONN_LISTEN and c.pid
        ]
        return f" by {psutil.Process(found[0]).name()} (pid {found[0]})" if found else ""
    except (psutil.Error, OSError):
        return ""


def kill(whole: Sequence[psutil.Process]) -> str:
    """SIGKILL to a daemon and its workers; returns words for people."""
    for process in whole:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return f"pid {whole[0].pid}" if whole else ""


def hold(whole: Sequence[psutil.Process]) -> str:
    """SIGSTOP to a daemon and its workers; returns when they stand still, words for people."""
    end = time.monotonic() + HELD_S
    for process in whole:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    for process in whole:
        with contextlib.suppress(psutil.NoSuchProcess):
            while process.status() not in STILL and time.monotonic() < end:
                time.sleep(0.001)
    return f"pid {whole[0].pid}" if whole else ""


def wake(whole: Sequence[psutil.Process]) -> None:
    """SIGCONT, the workers first."""
    for process in reversed(whole):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


@functools.cache
def this_host() -> dict[str, str]:
    """What a daemon's record says of its host: name, and boot id, which another host has not."""
    return {"machine": platform.node(), "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip()}


def other_host(records: Mapping[str, Mapping[str, Any]]) -> str:
    """The other host that these daemons were started on; '' where it is this one.

    A host that was booted anew has kept its name.
    """
    own = this_host()
    others = (r["machine"] for r in records.values() if r.get("boot_id", own["boot_id"]) != own["boot_id"])
    return next((machine for machine in others if machine != own["machine"]), "")
