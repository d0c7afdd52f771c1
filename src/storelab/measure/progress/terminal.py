"""The terminal where a person looks on: standard error, or, where Snakemake runs the command, its one.

The display stands below the lines until the point ends. Snakemake's jobs print through a pipe into a log; the display
goes to the terminal directly, so that no log has any of it.
"""

import os
import platform
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from storelab.host import console

NAMED = "STORELAB_TERMINAL"  # environment: `<host>:<path>` of the terminal where Snakemake runs


def name_here(stream: TextIO) -> str:
    """The terminal behind a stream, as NAMED has it; '' where it is none."""
    try:
        return f"{platform.node()}:{os.ttyname(stream.fileno())}" if stream.isatty() else ""
    except OSError:
        return ""


def found() -> TextIO | None:
    """The terminal to draw on: that of standard error, or Snakemake's; None in logs."""
    if os.environ.get("TERM", "dumb") == "dumb":
        return None
    host, _, path = (name_here(sys.stderr) or os.environ.get(NAMED, "")).partition(":")
    if host != platform.node() or not path:
        return None
    try:
        terminal = os.fdopen(os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC), "w", encoding="utf-8")
    except OSError:
        return None
    if not terminal.isatty() or _would_stop(terminal.fileno()):
        terminal.close()
        return None
    return terminal


def _would_stop(number: int) -> bool:
    """Whether the terminal stops a process that writes without being in front (`stty tostop`), and this one is not."""
    try:
        return bool(termios.tcgetattr(number)[3] & termios.TOSTOP) and os.tcgetpgrp(number) != os.getpgrp()
    except (OSError, termios.error):  # not the terminal of this session: it stops nobody
        return False


@contextmanager
def shown(campaign_dir: Path) -> Iterator[None]:
    """While the block runs, its point is shown, where there is a terminal."""
    if (terminal := found()) is None:
        yield
        return
    from storelab.measure.progress.display import Display  # here: without a terminal, rich need not be loaded

    display = Display(terminal, campaign_dir)
    console.giving_way.append(display.give_way)
    display.thread.start()
    try:
        yield
    finally:
        console.giving_way.remove(display.give_way)
        display.close()
        with suppress(OSError):
            terminal.close()
