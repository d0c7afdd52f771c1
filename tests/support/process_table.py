"""Read command lines, folders and environments of the processes of this machine."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path


def read(path: Path) -> bytes:
    """Return the content of a file of /proc; b"" if the process has ended or belongs to another user."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def command_lines() -> dict[int, bytes]:
    """Return pid -> command line of each process. Each word ends with a zero byte."""
    return {int(path.parent.name): read(path) for path in Path("/proc").glob("[0-9]*/cmdline")}


def folder_of(pid: int) -> str:
    """Return the working folder of a process; "" if it has ended."""
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


def having(*words: str, file: str = "cmdline") -> list[int]:
    """Return the pids of processes that have all these words in their command line, or in another file of /proc."""
    texts = {int(path.parent.name): read(path) for path in Path("/proc").glob(f"[0-9]*/{file}")}
    return [pid for pid, text in texts.items() if all(word.encode() in text for word in words)]


@contextlib.contextmanager
def watched() -> Iterator[set[bytes]]:
    """Collect the command lines of all processes that run during the block."""
    seen: set[bytes] = set()
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            seen.update(command_lines().values())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    yield seen
    done.set()
    thread.join()
