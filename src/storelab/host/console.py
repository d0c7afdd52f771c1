"""Progress lines on standard error, and the terminal of the user. May import: `core`."""

import os
import platform
import sys
import termios
from collections.abc import Callable
from typing import TextIO

from storelab.core.errors import printable
from storelab.core.redaction import without_tokens

NAMED = "STORELAB_TERMINAL"  # environment variable: `<host>:<path>` of the terminal of Snakemake
giving_way: list[Callable[[], None]] = []  # functions that clear a live display; called before a line is printed


def report(line: str) -> None:
    """Print a line of progress to standard error at once, so that Snakemake shows it."""
    for give_way in giving_way:
        give_way()
    print(*map(printable, without_tokens(line).split("\n")), sep="\n", file=sys.stderr, flush=True)


def announce(line: str) -> None:
    """Print what a command of many seconds begins to do, if standard error is a terminal: not for the rules."""
    if sys.stderr.isatty():
        report(f"    {line}")


def name_here(stream: TextIO) -> str:
    """Return `<host>:<path>` of the terminal of a stream; '' if the stream is not a terminal."""
    try:
        return f"{platform.node()}:{os.ttyname(stream.fileno())}" if stream.isatty() else ""
    except OSError:
        return ""


def terminal() -> TextIO | None:
    """Return the terminal of standard error, or of Snakemake; None if both write to logs."""
    if os.environ.get("TERM", "dumb") == "dumb":
        return None
    host, _, path = (name_here(sys.stderr) or os.environ.get(NAMED, "")).partition(":")
    if host != platform.node() or not path:
        return None
    try:
        opened = os.fdopen(os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC), "w", encoding="utf-8")
    except OSError:
        return None
    if not opened.isatty() or _would_stop(opened.fileno()):
        opened.close()
        return None
    return opened


def _would_stop(number: int) -> bool:
    """Return True if the terminal would stop this process for writing in the background (`stty tostop`)."""
    try:
        return bool(termios.tcgetattr(number)[3] & termios.TOSTOP) and os.tcgetpgrp(number) != os.getpgrp()
    except (OSError, termios.error):  # the terminal of another session cannot stop this process
        return False
