"""Run Snakemake without its line about profiles, which it prints even with `quiet: all`.

`make` and `storelab run` start `python -m storelab.cli.snakemake` with Snakemake's own options.
"""

import builtins
import os
import signal
import sys
from typing import Any

from storelab.core.errors import Exit
from storelab.host.processes import die_with_parent


def _print(*values: Any, **options: Any) -> None:
    if not str(values[:1]).endswith("for setting default command line arguments.',)"):
        builtins.print(*values, **options)


def end_with_parent() -> None:
    """Send SIGTERM to this process and its jobs when the parent of this process ends, even by kill -9.

    Without its own process group, which `envs/forward.sh` makes, this process would end others: then do nothing.
    """
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGUSR1, lambda *_: os.killpg(0, signal.SIGTERM))
        die_with_parent(signal.SIGUSR1)()


def main() -> None:
    """Run Snakemake's command line. After Ctrl-C, the exit code is 130."""
    try:
        end_with_parent()
        import snakemake.cli  # takes a second, in which Ctrl-C and the end of the parent must not be lost

        snakemake.cli.print = _print
        snakemake.cli.main()
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)


if __name__ == "__main__":
    main()
