"""Lines of progress on standard error, and the terminal where a user looks on. May import: `core`."""

import os
import platform
import sys
import termios
from collections.abc import Callable
from typing import TextIO

from storelab.core.redaction import without_tokens

NAMED = "STORELAB_TERMINAL"  # environment: `<host>:<path>` of the terminal where Snakemake runs
giving_way: list[Callable[[], None]] = []  # called before a line is printed: what a terminal shows gives way to it


def report(line: str) -> None:
    """Print a line of progress to standard error at once, so that Snakemake shows it."""
    for give_way in giving_way:
        give_way()
    print(without_tokens(line), file=sys.stderr, flush=True)


def name_here(stream: TextIO) -> str:
    """The terminal behind a stream, as NAMED has it; '' where it is none."""
    try:
        return f"{platform.node()}:{os.ttyname(stream.fileno())}" if stream.isatty() else ""
    except OSError:
        return ""


def terminal() -> TextIO | None:
    """The terminal to draw on: that of standard error, or Snakemake's; None in logs."""
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
    """Whether the terminal stops a process that writes without being in front (`stty tostop`), and this one is not."""
    try:
        return bool(termios.tcgetattr(number)[3] & termios.TOSTOP) and os.tcgetpgrp(number) != os.getpgrp()
    except (OSError, termios.error):  # not the terminal of this session: it stops nobody
        return False
