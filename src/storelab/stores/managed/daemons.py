"""Daemons of a managed store and their processes: start, recognise, stop.

Every daemon is recorded in `<folder>/daemons.json` with pid, creation time and command line as soon as it starts.
storelab sends signals to a daemon only while all three still match, so it never hits another process with the same
pid. Workers are the other processes of the daemon's session, and stop together with it. Callers that change anything
must use `lock()`. If hosts share the folder and the store was started on another host, this host uses the store, but
never starts, signals or stops its daemons.
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

LOG_LIMIT = 16 * 1024**2  # bytes; a longer log is renamed when its daemon starts again
TERMINATE = (psutil.Process.terminate, psutil.Process.resume)  # a suspended process handles SIGTERM only after SIGCONT
SAME_START = 30.0  # tolerated difference of creation times in seconds, because they change with the wall clock
HELD_S = 1.0  # seconds to wait until a process has stopped after SIGSTOP
STILL = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


class Daemons:
    """The recorded daemons of one store. `place` is the store's place in the configuration, for messages."""

    def __init__(self, folder: Path, place: str):
        self.folder, self.place = folder, place
        self.file, self.logs = folder / "daemons.json", folder / "log"
        self._children: dict[int, subprocess.Popen[bytes]] = {}  # this process must reap them, or they stay zombies

    @contextlib.contextmanager
    def lock(self, timeout: float = 120.0) -> Iterator[None]:
        """Lock the store during the block, because only one storelab process may change it at a time.

        Raises UserError if another process has the lock for longer than `timeout` seconds.
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
                            "another storelab process is starting or stopping this store",
                            "wait until that process ends",
                        ) from None
                    time.sleep(0.05)
            yield

    def records(self) -> dict[str, dict[str, Any]]:
        """Return the record of every daemon by name: pid, created, argv, grace, …. The daemon may have ended."""
        try:
            found: dict[str, dict[str, Any]] = json.loads(self.file.read_bytes())["daemons"]
            for record in found.values():
                record["pid"] + 0, record["created"] + 0.0, record["grace"] + 0.0, " ".join(record["argv"])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise UserError(
                str(self.file), "the file is damaged", "stop the daemons with `kill`, then remove the file"
            ) from None
        return found

    def _write(self, records: Mapping[str, Any]) -> None:
        write_json(self.file, {"schema": 1, "daemons": dict(records)})

    def note(self, name: str, **facts: Any) -> None:
        """Add values to the record of a daemon; do nothing if the daemon is not recorded."""
        records = self.records()
        if name in records:
            records[name].update(facts)
            self._write(records)

    def process(self, record: Mapping[str, Any]) -> psutil.Process | None:
        """Return the recorded process, or None if it does not run on this host any more."""
        if other_host({"": record}):
            return None
        child = self._children.get(record["pid"])
        if child is not None and child.poll() is not None:
            return None
        try:
            process = psutil.Process(record["pid"])
            if child is not None:
                return process  # its pid cannot be reused before it is reaped; its title can change at any time
            if process.status() == psutil.STATUS_ZOMBIE or abs(process.create_time() - record["created"]) > SAME_START:
                return None
            return process if runs_as(process.cmdline(), record["argv"]) else None
        except psutil.Error:
            return None

    def elsewhere(self) -> str:
        """Return the name of the other host on which these daemons run; '' for this host."""
        return other_host(self.records())

    def running(self) -> dict[str, int]:
        """Return the pids of the running daemons by name.

        If the store was started on another host, return all recorded daemons with the pids of that host.
        """
        away = self.elsewhere()
        return {name: r["pid"] for name, r in self.records().items() if away or self.process(r)}

    def all_processes(self) -> dict[str, int]:
        """Return the pids, by name, of the running daemons and of their workers, named `<daemon>/1` and so on."""
        leaders = {name: p for name, r in self.records().items() if (p := self.process(r))}
        workers = workers_of(leaders.values())
        out = {name: p.pid for name, p in leaders.items()}
        return out | {f"{name}/{i}": w.pid for name, p in leaders.items() for i, w in enumerate(workers[p.pid], 1)}

    def family_of(self, name: str) -> list[psutil.Process]:
        """Return the processes of a daemon, its leader first; [] if it does not run."""
        record = self.records().get(name)
        leader = self.process(record) if record else None
        return [leader, *workers_of([leader])[leader.pid]] if leader else []

    def log_tail(self, name: str, lines: int = 4) -> str:
        """Return the last lines of a daemon's log that are not empty, joined to one line."""
        try:
            text = (self.logs / f"{name}.log").read_text(errors="replace")
        except OSError:
            return "(no log)"
        return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:]) or "(empty log)"

    def check_ports(self, daemons: Iterable[Daemon]) -> None:
        """Raise UserError if a port is in use, with the process that uses it and the setting to change."""
        for daemon in daemons:
            for port in () if daemon.elsewhere else daemon.ports:
                try:
                    # A killed process uses its port until its last thread has ended.
                    usable = within(1.0, partial(free, daemon.host, port), pause=0.02)
                except OSError as error:
                    why = (
                        "is not an address of this machine"
                        if error.errno == errno.EADDRNOTAVAIL
                        else f"cannot be used for listening ({error.strerror or error})"
                    )
                    raise UserError(f"{self.place}.address", f"{daemon.host}:{port} {why}", "use 127.0.0.1") from None
                if not usable:
                    raise UserError(
                        f"{self.place}.port",
                        f"port {port} of {daemon.name} is in use{holder(port)}",
                        f"stop that process, or set {self.place}.port to another block",
                    )

    def adopt(self, daemon: Daemon) -> int | None:
        """Record a running daemon whose parent process ended before it recorded the daemon.

        Return the daemon's pid, or None if there is no such process. It is recognised by command line and working
        folder.
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
        """Start a daemon in a new session, record it and return its pid.

        Its standard input is /dev/null, and its output is appended to the log.
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
        """Wait until a daemon is healthy.

        Raises MeasurementFailed with the last lines of the log if it ends or is not healthy within `timeout` seconds,
        and UserError if another program has taken its port meanwhile.
        """
        end = time.monotonic() + timeout
        while not (daemon.healthy() and self._listens(daemon)):
            record = self.records().get(daemon.name)
            if record is None or self.process(record) is None:
                self.check_ports([daemon])
                raise MeasurementFailed(
                    f"{self.place}: {daemon.name} ended during its start; end of its log: {self.log_tail(daemon.name)}"
                )
            if time.monotonic() > end:
                raise MeasurementFailed(
                    f"{self.place}: {daemon.name} is not healthy after {timeout:g} s; end of its log: "
                    f"{self.log_tail(daemon.name)}"
                )
            time.sleep(0.02)

    def _listens(self, daemon: Daemon) -> bool:
        """Return whether this daemon listens on the port of its health check, and not another store with this port.

        Return True if this cannot be known.
        """
        if not isinstance(daemon.health, str) or daemon.elsewhere:
            return True
        for process in self.family_of(daemon.name):
            try:
                found = process.net_connections("tcp")
            except psutil.AccessDenied:
                return True
            except psutil.NoSuchProcess:
                continue
            if any(c.status == psutil.CONN_LISTEN and c.laddr.port == daemon.ports[0] for c in found):
                return True
        return False

    def suspend(self) -> None:
        """Pause all daemons (SIGSTOP), and wait until they have stopped.

        Daemons that started last stop first, and leaders stop before their workers.
        """
        leaders = [p for r in reversed(self.records().values()) if (p := self.process(r))]
        workers = workers_of(leaders)
        for leader in leaders:
            hold([leader, *workers[leader.pid]])

    def resume(self) -> list[str]:
        """Continue all daemons (SIGCONT), and return the names of the daemons that were paused."""
        leaders = {name: p for name, r in self.records().items() if (p := self.process(r))}
        workers, woken = workers_of(leaders.values()), []
        for name, leader in leaders.items():
            for process in (*workers[leader.pid], leader):
                with contextlib.suppress(psutil.Error):
                    woken += [name] if process.status() == psutil.STATUS_STOPPED and name not in woken else []
                    process.resume()
        return woken

    def stop(self, names: Iterable[str] | None = None) -> list[int]:
        """Stop these daemons (default: all) and their workers together, and return the stopped pids.

        Send SIGTERM, wait for the grace period, and send SIGKILL. Raises MeasurementFailed if a process survives; a
        surviving daemon stays recorded.
        """
        records = self.records()
        chosen = [n for n in (records if names is None else names) if n in records]
        alive = {n: p for n in chosen if (p := self.process(records[n]))}
        workers = workers_of(alive.values())
        self._apply(alive.values(), *TERMINATE)
        rest = [w for group in workers.values() for w in group]
        self._apply(rest, psutil.Process.resume)
        since = time.monotonic()
        for name, process in sorted(alive.items(), key=lambda item: records[item[0]]["grace"]):
            if not self._gone(process, since + records[name]["grace"]):
                self._apply([process, *workers[process.pid]], psutil.Process.kill)
        until = time.monotonic() + 0.5
        for process in rest:
            if not self._gone(process, until):
                self._apply([process], psutil.Process.kill)
        survivors = {n: p.pid for n, p in alive.items() if not self._gone(p, time.monotonic() + 10)}
        self._write({n: r for n, r in records.items() if n not in chosen or n in survivors})
        survivors |= {f"worker {w.pid}": w.pid for w in rest if not self._gone(w, time.monotonic() + 10)}
        if survivors:
            raise MeasurementFailed(
                f"{self.place}: {', '.join(f'{n} (pid {pid})' for n, pid in survivors.items())} survived SIGKILL"
            )
        return [p.pid for p in (*alive.values(), *rest)]

    def sweep(self, names: Iterable[str] | None = None) -> list[int]:
        """Stop processes that daemons with these names (default: any name) left behind, and return the stopped pids.

        These are workers of killed daemons, and daemons that were never recorded.
        """
        wanted = None if names is None else set(names)
        found = [p for name, p in strays(self.logs, set(self.running().values())) if wanted is None or name in wanted]
        self._apply(found, *TERMINATE)
        since = time.monotonic()
        for process in found:
            if not self._gone(process, since + 5):
                self._apply([process], psutil.Process.kill)
                self._gone(process, time.monotonic() + 10)
        return [p.pid for p in found]

    @staticmethod
    def _apply(processes: Iterable[psutil.Process], *acts: Callable[[psutil.Process], None]) -> None:
        """Call these functions for each process. Processes that have ended are skipped."""
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                for act in acts:
                    act(process)

    def _gone(self, process: psutil.Process, end: float) -> bool:
        """Wait until a process and all its threads have ended, which frees its ports, or until the time `end`.

        Return whether they have ended. `end` is in seconds of the monotonic clock.
        """
        child = self._children.get(process.pid)
        while True:
            try:
                if child is not None:
                    gone = child.poll() is not None
                else:  # the parent may never reap the process; a zombie with threads still closes files
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


# Processes of a daemon, recognised by command line, by session, or by the target of their output


def runs_as(cmdline: Sequence[str], argv: Sequence[str]) -> bool:
    """Return whether a process with this command line runs `argv`.

    The command line can begin with a prefix: a wrapper that will execute `argv`, or a process title (nginx).
    """
    have, want = " ".join(cmdline).rstrip(), " ".join(argv)
    return have == want or have.endswith(" " + want)


def workers_of(leaders: Iterable[psutil.Process]) -> dict[int, list[psutil.Process]]:
    """Return the other processes of each leader's session, oldest first, by the leader's pid.

    The leaders must be running.
    """
    out: dict[int, list[psutil.Process]] = {p.pid: [] for p in leaders}
    for pid in psutil.pids() if out else ():
        with contextlib.suppress(OSError, psutil.Error):
            if pid not in out and (session := os.getsid(pid)) in out:
                out[session].append(psutil.Process(pid))
    return {pid: sorted(found, key=lambda p: (p.create_time(), p.pid)) for pid, found in out.items()}


def strays(logs: Path, sessions: Collection[int]) -> list[tuple[str, psutil.Process]]:
    """Return daemon name and process of all processes that write to `logs`/<name>.log and read /dev/null.

    Processes of these sessions are ignored.
    """
    folder, out = f"{logs.resolve()}/", []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            source, target = (str(Path(f"/proc/{pid}/fd/{fd}").readlink()) for fd in (0, 1))
            if target.startswith(folder) and source == os.devnull and os.getsid(pid) not in sessions:
                out.append((target.removeprefix(folder).partition(".log")[0], psutil.Process(pid)))
    return out


def holder(port: int) -> str:
    """Return a text like ` by weed (pid 12, in /folder)` for the process that listens on a TCP port; '' if unknown."""
    try:
        found = [
            c.pid
            for c in psutil.net_connections("tcp")
            if c.laddr and c.laddr.port == port and c.status == psutil.CONN_LISTEN and c.pid
        ]
        if not found:
            return ""
        process, place = psutil.Process(found[0]), ""
        with contextlib.suppress(psutil.AccessDenied):  # a process of another user
            place = f", in {process.cwd()}"
        return f" by {process.name()} (pid {found[0]}{place})"
    except (psutil.Error, OSError):
        return ""


def kill(whole: Sequence[psutil.Process]) -> str:
    """Kill a daemon and its workers (SIGKILL), and return a text for the record."""
    for process in whole:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return f"pid {whole[0].pid}" if whole else ""


def hold(whole: Sequence[psutil.Process]) -> str:
    """Pause a daemon and its workers (SIGSTOP), wait until they have stopped, and return a text for the record."""
    end = time.monotonic() + HELD_S
    for process in whole:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    for process in whole:
        with contextlib.suppress(psutil.NoSuchProcess):
            while process.status() not in STILL and time.monotonic() < end:
                time.sleep(0.001)
    return f"pid {whole[0].pid}" if whole else ""


def continue_all(whole: Sequence[psutil.Process]) -> None:
    """Continue a daemon and its workers (SIGCONT). The workers continue first."""
    for process in reversed(whole):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


@functools.cache
def this_host() -> dict[str, str]:
    """Return name and boot id of this host for a daemon's record. The boot id is unique to the host."""
    return {"machine": platform.node(), "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip()}


def other_host(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the name of the other host on which these daemons were started; '' for this host.

    The boot id changes with every boot, so the host name is compared as well.
    """
    host = this_host()
    others = (r["machine"] for r in records.values() if r.get("boot_id", host["boot_id"]) != host["boot_id"])
    return next((machine for machine in others if machine != host["machine"]), "")
