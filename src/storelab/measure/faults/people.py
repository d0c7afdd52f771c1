"""A person at the terminal who does what storelab cannot: asked, and the time of the answer noted.

May import: `core`.
"""

import os
import select
import termios
import threading

from storelab.core.errors import MeasurementFailed

TERMINAL = "/dev/tty"
LOOK_S = 0.1


def ask(text: str, over: threading.Event) -> str:
    """Show what is to be done, and wait for Enter. over: set when nobody waits for it any more.

    Raises MeasurementFailed: no terminal, or no answer in time.
    """
    try:
        fd = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY)
    except OSError:
        raise MeasurementFailed("nobody can be asked: storelab has no terminal here") from None
    try:
        if os.tcgetpgrp(fd) != os.getpgrp():
            raise MeasurementFailed("nobody can be asked: storelab runs in the background")
        termios.tcflush(fd, termios.TCIFLUSH)  # an Enter from before answers nothing
        os.write(fd, f"\n>>> NOW: {text}; then press Enter\n".encode())
        while not over.is_set():
            if select.select([fd], [], [], LOOK_S)[0]:
                os.read(fd, 4096)
                return "done, said the person at the terminal"
        raise MeasurementFailed("the person at the terminal did not answer before the run ended")
    finally:
        os.close(fd)
