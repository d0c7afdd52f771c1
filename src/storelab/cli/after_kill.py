"""What a killed `storelab quick` leaves: a process that waits for its end, stops its daemons and removes its folder.

`python -m storelab.cli.after_kill FOLDER`, with a pipe from its parent as standard input, which the kernel closes
however the parent ends. May import: every room.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from storelab.stores.protocols import environment


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Let such a process wait while the block runs."""
    command = [sys.executable, "-m", "storelab.cli.after_kill", str(folder)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    environ = environment.explicit(os.environ)  # without keys
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environ, **quiet) as waiting:
        assert waiting.stdin
        try:
            yield
        finally:
            with suppress(OSError):
                waiting.stdin.write(b"done")
                waiting.stdin.close()
            waiting.wait(30)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read():
        return
    from storelab.stores.managed.daemons import Daemons

    folder = Path(sys.argv[1])
    for store in (folder / "state").glob("*/"):
        with suppress(Exception):  # of one store; the others are stopped all the same
            daemons = Daemons(store, "quick")
            daemons.stop()
            daemons.sweep()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
