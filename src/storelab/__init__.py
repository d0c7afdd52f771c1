"""storelab: measure storage the way High Energy Physics uses it, and build a paper from the results."""

import os
import signal
import sys

__version__ = "0.2.0"


def quiet(*_: object) -> None:
    """Exit on Ctrl-C while the command `storelab` imports its modules. Later, `cli.main` handles Ctrl-C."""
    os._exit(130)


def use_utf8() -> None:
    """Restart this command in UTF-8 mode if the locale has another encoding.

    Configuration, records, file names and output are UTF-8. Child processes inherit the mode.
    """
    if sys.getfilesystemencoding().lower() != "utf-8":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


# The lines below have an effect only in commands, not in a program that imports this package.
_COMMAND = sys.argv[0].endswith("/storelab") or sys.orig_argv[1:3] == ["-m", "storelab"]
if _COMMAND or sys.argv[0].endswith(("/snakemake", "/snakemake/__main__.py")):  # the Snakefile also reads files
    use_utf8()
if _COMMAND and signal.getsignal(signal.SIGINT) == signal.default_int_handler:
    signal.signal(signal.SIGINT, quiet)
