"""Define the exit codes of commands, and the two exceptions for errors that a command reports on one line.

`UserError` is a mistake of the user (exit code 2). `MeasurementFailed` is a failed measurement (exit code 1).
"""

import difflib
import errno
import os
import re
import socket
import ssl
import traceback
from collections.abc import Collection, Iterable
from enum import IntEnum
from pathlib import Path
from typing import Any

from storelab.core.redaction import without_tokens


class Exit(IntEnum):
    """Exit codes of all commands. docs/machine.md has the same table. The values never change."""

    meaning: str  # its text in docs/machine.md

    DONE = 0, "done"
    FAILED = (
        1,
        "a measurement failed; a rebuild gave a different result (`unpack`); or a requested check failed: "
        "`compare --fail-on`, `history --fail-on`, `docs --check`",
    )
    MISTAKE = (
        2,
        "a mistake of the user, or an error of the operating system; one line on stderr has place, value and hint",
    )
    HANGUP = 129, "the terminal was closed (SIGHUP)"
    INTERRUPTED = (
        130,
        "ended by Ctrl-C, by the answer `no` to a question, or because the output can no longer be written",
    )
    TERMINATED = 143, "terminated (SIGTERM)"

    def __new__(cls, code: int, meaning: str) -> "Exit":
        member = int.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member


class UserError(Exception):
    """A mistake of the user, reported on one line with place, problem (with its value) and hint; exit code 2."""

    def __init__(self, place: str, problem: str, hint: str = ""):
        place, problem, hint = map(without_tokens, (place, problem, hint))
        self.place, self.problem, self.hint = place, problem, hint
        line = f"{place}: {problem}" + (f"; {hint}" if hint else "")
        super().__init__(one_line(line))

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """Support unpickling from a process pool, which needs the arguments instead of the formatted line."""
        return type(self), (self.place, self.problem, self.hint)


class MeasurementFailed(Exception):
    """A point or staging failed for a reason outside the configuration; exit code 1."""

    def __init__(self, *words: object):
        super().__init__(*(one_line(without_tokens(word)) if isinstance(word, str) else word for word in words))


class NoOperationEnded(MeasurementFailed):
    """A client had no operation that ended or failed before the deadline, so a longer window can help."""


def printable(text: str) -> str:
    """Return the text with `?` for control characters, and blanks for white space.

    Escape sequences of terminals contain control characters.
    """
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)


def one_line(text: str) -> str:
    """Return the text on one line, without control characters. Texts of servers and file names can contain these."""
    return " ".join(printable(text).split())


LOCKLESS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # errors of flock; they contain no path
HINTS = {
    errno.ENOSPC: "free space on this disk",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
    errno.EDQUOT: "free space in your quota",
    errno.EROFS: "use a folder on a writable disk",
    errno.EACCES: "use a file or folder that you own, or change its permissions",
    errno.EPERM: "use a file or folder that you own, or change its permissions",
    errno.ENOENT: "check the path; the file may have been removed",
    errno.ENOTDIR: "a file has the path of a folder: move it, or use another folder",
    errno.EEXIST: "a file has the path of a folder: move it, or use another folder",
    errno.EISDIR: "a folder has the path of a file: move it, or use another path",
    errno.ENAMETOOLONG: "shorten the path",
    errno.ELOOP: "the path has a loop of links: use another path",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "this host has too many open files: close other programs",
    errno.ENOMEM: "use a host with more memory, or a smaller workload",
    errno.ENOEXEC: "use a program for this kind of host",
    errno.EIO: "check this disk, which reports errors",
    errno.ESTALE: "mount the file system again",
}


def system_error(error: OSError) -> UserError:
    """Return an error of the operating system as UserError with path, reason and hint."""
    if isinstance(error, ConnectionError | TimeoutError | socket.gaierror | ssl.SSLError):
        message = " ".join(str(error).split()) or type(error).__name__
        return UserError("network", message[:200], "check the store's `endpoint`, and whether its server runs")
    if lacks_processes(error):
        return process_error()
    number = error.errno or _number_in(str(error))
    place = next((str(p) for p in (error.filename, error.filename2) if isinstance(p, str | os.PathLike)), "")
    reason = os.strerror(number) if number else " ".join(str(error).split()) or type(error).__name__
    hint = HINTS.get(number, "check this path and its file system")
    if not place and number in LOCKLESS:
        hint = "put `results`, `state` and `scratch` on a file system with flock (NFS: start its lock service)"
        return UserError("a lock of a file", reason[0].lower() + reason[1:], hint)
    return UserError(cut(place) if place else "a file, or the output", reason[0].lower() + reason[1:], hint)


def _number_in(text: str) -> int:
    """Return the errno in the text of a library's error, such as Arrow's `[errno 28]`, or 0 if there is none."""
    found = re.search(r"\[[Ee]rrno (\d+)\]", text)
    return int(found[1]) if found else 0


def memory_error() -> UserError:
    """Return the error to report if the operating system cannot provide more memory."""
    return UserError(
        "memory",
        "there is not enough memory on this host, or within `ulimit -v`",
        "end other programs, or use smaller objects, fewer `workers` or fewer `clients`",
    )


def lacks_processes(error: BaseException) -> bool:
    """Return whether the operating system refused to start a thread or a process (`ulimit -u`, or a cgroup)."""
    if isinstance(error, OSError):  # `fork` reports EAGAIN without a file; a full pipe has another text
        return error.errno == errno.EAGAIN and error.filename is None and error.strerror == os.strerror(errno.EAGAIN)
    texts = ("can't start new thread", "cannot join thread before it is started")  # the latter hides the former
    return isinstance(error, RuntimeError) and str(error) in texts


def process_error() -> UserError:
    """Return the error to report if `lacks_processes` is true."""
    return UserError(
        "processes",
        "no more processes and threads can be started, because of `ulimit -u` or a limit of the batch system",
        "raise the limit, end other programs, or use fewer `workers` or fewer `clients`",
    )


NO_PROJECT = "go to your project folder, or create one with `storelab init FOLDER`"  # hint without a config.yaml
INSTALL_CLIENTS = "run `make setup`, or without a checkout `pip install 'storelab[measure]'`"  # stores and clients
LAB = ("IPython", "ipywidgets", "jupyterlab", "nbclient", "nbconvert")  # modules of the extra `lab`


def missing_package(error: ModuleNotFoundError) -> UserError:
    """Return the error to report if a package of an extra is missing. Raises `error` if it is a module of storelab."""
    name = (error.name or "").partition(".")[0]
    if name in ("", "storelab"):
        raise error
    extra = "lab" if name in LAB else "workflow" if name == "snakemake" else "measure"
    return UserError(name, "this Python package is not installed", f"run `pip install 'storelab[{extra}]'`")


def cut(text: str, most: int = 200) -> str:
    """Return a path for a message. Only the end of a long path is shown."""
    return text if len(text) <= most else f"…{text[1 - most :]}"


def shown(value: Any, most: int = 60) -> str:
    """Return a value for a message. Text has quotes, and long values are cut."""
    try:
        text = repr(value)
    except ValueError:  # Python does not convert numbers with thousands of digits to text
        return "a number with thousands of digits"
    return text if len(text) <= most else f"{text[: most - 2]}…{text[-1]}"


def nearest(word: Any, known: Iterable[str], label: str = "known:") -> str:
    """Return a hint for an unknown word: the most similar known word, otherwise all known words after `label`."""
    names = list(known)
    near = difflib.get_close_matches(str(word)[:100], names, 1)
    return f"did you mean {near[0]!r}?" if near else f"{label} {', '.join(names) or 'none'}"


def require_known(place: str, word: Any, known: Collection[str], problem: str, label: str) -> None:
    """Raise UserError with `problem` if the word is not known. The hint is the result of `nearest`."""
    if word not in known:
        raise UserError(place, problem, nearest(word, known, label))


MAX_ERROR_TEXT = 300  # maximum number of characters of a library's message


def text_of(error: BaseException) -> str:
    """Return the message of an exception on one line, or "" if it has no message or `__str__` raises an error."""
    try:
        return without_tokens(" ".join(str(error).split()))
    except Exception:  # noqa: BLE001 - uproot's DeserializationError reads members that the object may lack
        return ""


def error_text(error: BaseException) -> str:
    """Return the class and the message of a library's exception on one line.

    Without a message, return where the exception was raised.
    """
    name, text = type(error).__name__, text_of(error)
    if not text and error.__traceback__ is not None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        line = f": {place.line}" if place.line else ""
        return f"{name} without a message, raised by {place.name}() in {Path(place.filename).name}{line}"[
            :MAX_ERROR_TEXT
        ]
    return f"{name}: {text}"[:MAX_ERROR_TEXT] if text else name
