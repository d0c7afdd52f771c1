"""Which processes belong to a daemon: by command line, by session, by where their output goes; who has a port.

What is done to all of them: killed, held still, woken.
"""

import contextlib
import os
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import psutil


def runs_as(cmdline: Sequence[str], argv: Sequence[str]) -> bool:
    """True if a process of this command line is `argv`.

    Also if it is a prefix that is about to become it, or bears it in its title (nginx).
    """
    have, want = " ".join(cmdline).rstrip(), " ".join(argv)
    return have == want or have.endswith(" " + want)


def workers(leaders: Iterable[psutil.Process]) -> dict[int, list[psutil.Process]]:
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


HELD_S = 1.0  # until a process that got SIGSTOP stands still
STILL = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


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
