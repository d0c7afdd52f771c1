"""storelab: measures storage the way High Energy Physics uses it, and rebuilds a paper from what it measured."""

import os
import signal
import sys

__version__ = "0.2.0"


def quiet(*_: object) -> None:
    """Ctrl-C while the command `storelab` loads its modules; then `cli.main` takes over."""
    os._exit(130)


def use_utf8() -> None:
    """Start this command again in UTF-8 mode where the locale has another encoding.

    Configuration, records, file names and what commands print are UTF-8. Processes that this one starts use it too.
    """
    if sys.getfilesystemencoding().lower() != "utf-8":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


# Not in another program that imports this.
_COMMAND = sys.argv[0].endswith("/storelab") or sys.orig_argv[1:3] == ["-m", "storelab"]
if _COMMAND or sys.argv[0].endswith(("/snakemake", "/snakemake/__main__.py")):  # the Snakefile reads files too
    use_utf8()
if _COMMAND and signal.getsignal(signal.SIGINT) == signal.default_int_handler:
    signal.signal(signal.SIGINT, quiet)
