"""Snakemake logger for the profiles of storelab: it prints only Snakemake's own errors, one line each.

`quiet: all` would hide errors too. Snakemake finds this logger by the name of its package (`logger: storelab`). Errors
of jobs are printed by the `storelab` commands that the jobs run.
"""

import logging
import re
import signal
import sys
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

# A rule whose command failed: the command has printed the reason, unless a signal ended it (status above 128).
PRINTED = re.compile(r"CalledProcessError.*non-zero exit status (?:\d\d?|1[01]\d|12[0-7])\.", re.DOTALL)
# A rule whose command a signal ended, which may be Ctrl-C: the command is many lines, and not the reason.
SIGNALLED = re.compile(
    r'CalledProcessError in file "(?:.*/)?(.+?)", line (\d+):.*(?:<Signals\.(\w+): \d+>|exit status (\d+))\.', re.DOTALL
)
# In a traceback: a bug of storelab, which needs the whole traceback. Not "/storelab/": clones are in such folders.
OWN = f'File "{Path(__file__).parents[1] / "storelab"}/'


def line(text: str) -> str:
    """Return an error of Snakemake in one line; of a traceback, the last line."""
    if ended := SIGNALLED.search(text):
        names = {128 + number: number.name for number in signal.Signals}
        how = ended[3] or names.get(int(ended[4]), f"exit status {ended[4]}")
        return f"a command of {ended[1]} (line {ended[2]}) was ended by {how}"
    lines = [part.strip() for part in text.splitlines() if part.strip()]
    if not any(part.startswith("Traceback") for part in lines):
        return " ".join(lines)
    return text.strip() if OWN in text else lines[-1]


class LogHandler(LogHandlerBase):
    """A handler that prints errors that no job has printed."""

    writes_to_file, has_filter, has_formatter, needs_rulegraph = False, True, True, False

    def __post_init__(self) -> None:
        self.failed = False  # True after a job failed: later errors only repeat that some job failed

    @property
    def writes_to_stream(self) -> bool:
        """Return True if it replaces Snakemake's output: not for a dry run or if more output is requested."""
        from snakemake.settings.enums import Quietness

        return Quietness.ALL in (self.common_settings.quiet or ()) and not self.common_settings.dryrun

    def emit(self, record: logging.LogRecord) -> None:
        """Print an error to standard error."""
        if not self.writes_to_stream:
            return
        event: Any = getattr(record, "event", None)
        self.failed = self.failed or event in (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR)
        if record.levelno < logging.ERROR or self.failed or PRINTED.search(record.getMessage()):
            return
        if text := line(record.getMessage()):
            print(f"storelab: Snakemake: {text}", file=sys.stderr, flush=True)
