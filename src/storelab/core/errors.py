"""How a command ends: its exit codes, and the two ways to end without a result: a person's mistake (exit code 2) and
a measurement that failed (1).

Imports nothing of storelab but `redaction`.
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
    """Exit codes of all commands. docs/machine.md has the same table; they stay as they are."""

    meaning: str  # in words, for that table

    DONE = 0, "done"
    FAILED = (
        1,
        "a measurement failed; a rebuild came out different (`unpack`); or what you asked to hold does not: "
        "`compare --fail-on`, `history --fail-on`, `docs --check`",
    )
    MISTAKE = 2, "a mistake, or something that the system refuses: one line on stderr has place, value and mend"
    HANGUP = 129, "the terminal went away (SIGHUP)"
    INTERRUPTED = 130, "ended by Ctrl-C, by a `no` to a question, or because nobody read the output any more"
    TERMINATED = 143, "told to end (SIGTERM)"

    def __new__(cls, code: int, meaning: str) -> "Exit":
        member = int.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member


class UserError(Exception):
    """A person's mistake: one line that names the place, the problem with its value, and the mend; exit code 2."""

    def __init__(self, place: str, problem: str, mend: str = ""):
        place, problem, mend = map(without_tokens, (place, problem, mend))
        self.place, self.problem, self.mend = place, problem, mend
        line = f"{place}: {problem}" + (f"; {mend}" if mend else "")
        super().__init__(_one_line(line))

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """So that it comes out of a process pool: with its own arguments instead of the line."""
        return type(self), (self.place, self.problem, self.mend)


class MeasurementFailed(Exception):
    """A point (or a staging) that was tried and failed for a reason outside the configuration; exit code 1."""

    def __init__(self, *words: object):
        super().__init__(*(_one_line(without_tokens(word)) if isinstance(word, str) else word for word in words))


def _one_line(text: str) -> str:
    """Return the text without line ends and control characters, which servers and file names may hold."""
    plain = "".join(sign if sign.isprintable() else " " if sign.isspace() else "?" for sign in text)
    return " ".join(plain.split())


LOCKLESS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of flock, which has no path to name
MENDS = {
    errno.ENOSPC: "make room on this disk",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
    errno.EDQUOT: "make room in your quota",
    errno.EROFS: "give a folder on a disk that may be written",
    errno.EACCES: "give a file or folder of yours, or change its rights",
    errno.EPERM: "give a file or folder of yours, or change its rights",
    errno.ENOENT: "check the path; it may have been removed meanwhile",
    errno.ENOTDIR: "a file lies where a folder is wanted: move it, or give another folder",
    errno.EEXIST: "a file lies where a folder is wanted: move it, or give another folder",
    errno.EISDIR: "a folder lies where a file is wanted: move it, or give another path",
    errno.ENAMETOOLONG: "shorten the path",
    errno.ELOOP: "the path leads in a circle: give another one",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close other programs: this machine has too many files open",
    errno.ENOMEM: "give this machine more memory, or ask for less",
    errno.ENOEXEC: "give a program of this machine",
    errno.EIO: "look at this disk: it fails",
    errno.ESTALE: "mount the file system anew",
}


def of_system(error: OSError) -> UserError:
    """What the operating system refuses, as a person's mistake: the path, the reason, the mend."""
    if isinstance(error, ConnectionError | TimeoutError | socket.gaierror | ssl.SSLError):
        told = " ".join(str(error).split()) or type(error).__name__
        return UserError("network", told[:200], "check the store's `endpoint`, and that its server runs")
    number = error.errno or _number_in(str(error))
    place = next((str(p) for p in (error.filename, error.filename2) if isinstance(p, str | os.PathLike)), "")
    reason = os.strerror(number) if number else " ".join(str(error).split()) or type(error).__name__
    mend = MENDS.get(number, "look at this path and its file system")
    if not place and number in LOCKLESS:
        mend = "put `results`, `state` and `scratch` on a file system with flock (NFS: start its lock service)"
        return UserError("a lock of a file", reason[0].lower() + reason[1:], mend)
    return UserError(cut(place) if place else "a file, or the output", reason[0].lower() + reason[1:], mend)


def _number_in(text: str) -> int:
    """The errno that a library put into words, such as Arrow's `[errno 28]`; 0 where it did not."""
    found = re.search(r"\[[Ee]rrno (\d+)\]", text)
    return int(found[1]) if found else 0


def of_memory() -> UserError:
    """Return what is printed where the operating system gives no more memory."""
    return UserError(
        "memory",
        "this machine (or `ulimit -v`) has not enough memory for it",
        "end other programs, or ask for less: smaller objects, fewer `workers` or `clients`",
    )


def cut(text: str, most: int = 200) -> str:
    """A path in a message: its end where it is long."""
    return text if len(text) <= most else f"…{text[1 - most :]}"


def shown(value: Any, most: int = 60) -> str:
    """A value in a message: in quotes where it is text, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # a number of thousands of digits
        return "a number of very many digits"
    return text if len(text) <= most else f"{text[: most - 2]}…{text[-1]}"


def nearest(word: Any, known: Iterable[str], told: str = "known:") -> str:
    """The mend for a word that is not known: the known one that is most like it, else all of them, after `told`."""
    names = list(known)
    near = difflib.get_close_matches(str(word)[:100], names, 1)
    return f"did you mean {near[0]!r}?" if near else f"{told} {', '.join(names)}"


def require_known(place: str, word: Any, known: Collection[str], problem: str, told: str) -> None:
    """Raises UserError with the `problem` where the word is none of the known ones; the mend is as of `nearest`."""
    if word not in known:
        raise UserError(place, problem, nearest(word, known, told))


MOST_SAID = 300  # characters of a library's message


def text_of(error: BaseException) -> str:
    """Return the message of an exception in one line; "" where it has none, or where its `__str__` raises."""
    try:
        return without_tokens(" ".join(str(error).split()))
    except Exception:  # noqa: BLE001 - uproot's DeserializationError reads members that the object may lack
        return ""


def said(error: BaseException) -> str:
    """Return class and message of what a library raised, in one line; without a message, the place that raised it."""
    name, text = type(error).__name__, text_of(error)
    if not text and error.__traceback__ is not None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        line = f": {place.line}" if place.line else ""
        return f"{name} without a message, raised by {place.name}() in {Path(place.filename).name}{line}"[:MOST_SAID]
    return f"{name}: {text}"[:MOST_SAID] if text else name
