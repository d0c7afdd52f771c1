"""What Snakemake prints under the profiles of storelab: its errors, one line each, and nothing else.

`quiet: all` hides errors too. Snakemake finds this logger by the name of its package (`logger: storelab`). Errors of
jobs are those of `storelab` commands, which print them.
"""

import logging
import sys
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

OWN = "/storelab/"  # in a traceback: a mistake of storelab, of which all lines are needed


def line(text: str) -> str:
    """Return an error of Snakemake in one line: of a traceback what it ends with."""
    lines = [part.strip() for part in text.splitlines() if part.strip()]
    if not any(part.startswith("Traceback") for part in lines):
        return " ".join(lines)
    return text.strip() if OWN in text else lines[-1]


class LogHandler(LogHandlerBase):
    """Print errors that no job has printed."""

    writes_to_file, has_filter, has_formatter, needs_rulegraph = False, True, True, False

    def __post_init__(self) -> None:
        self.failed = False  # a job did: what follows says that some job did

    @property
    def writes_to_stream(self) -> bool:
        """Whether it replaces Snakemake's own output: not where the command line asks for more, or for a dry run."""
        from snakemake.settings.enums import Quietness

        return Quietness.ALL in (self.common_settings.quiet or ()) and not self.common_settings.dryrun

    def emit(self, record: logging.LogRecord) -> None:
        """Print an error to standard error."""
        if not self.writes_to_stream:
            return
        event: Any = getattr(record, "event", None)
        self.failed = self.failed or event in (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR)
        if record.levelno >= logging.ERROR and not self.failed and (text := line(record.getMessage())):
            print(f"storelab: Snakemake: {text}", file=sys.stderr, flush=True)
