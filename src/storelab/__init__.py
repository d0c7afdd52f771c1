"""storelab: measure storage the way High Energy Physics uses it, and build a paper from the results."""

import os
import signal
import sys

__version__ = "0.2.0"


def quiet(*_: object) -> None:
    """Exit on Ctrl-C while the command `storelab` loads its modules, until `cli.main` takes over."""
    os._exit(130)


if (sys.argv[0].endswith("/storelab") or sys.orig_argv[1:3] == ["-m", "storelab"]) and signal.getsignal(
    signal.SIGINT
) == signal.default_int_handler:  # only for the command, not for a program that imports this package
    signal.signal(signal.SIGINT, quiet)
