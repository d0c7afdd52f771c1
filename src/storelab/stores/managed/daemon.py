"""One daemon of a managed store, as it is to run."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from storelab.stores.managed.network import answers


@dataclass(frozen=True)
class Daemon:
    """One daemon as it is to run.

    ports: checked to be free before the start. health: path that `ports[0]` answers with 200 when the daemon is
    healthy (over https with `tls`), or a call that tells. grace: seconds from SIGTERM to SIGKILL. environ: what it
    needs besides `environment`. prefix: command that enters a namespace and then becomes `argv` (exec). elsewhere:
    `host` and `ports` belong to a network namespace of its own.
    """

    name: str
    argv: tuple[str, ...]
    host: str
    ports: tuple[int, ...]
    health: str | Callable[[], bool] = "/healthz"
    grace: float = 5.0
    environ: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    elsewhere: bool = False
    tls: bool = False

    def healthy(self, timeout: float = 1.0) -> bool:
        """Whether it is healthy now. timeout: in seconds."""
        if isinstance(self.health, str):
            return answers(self.host, self.ports[0], self.health, timeout, self.tls)
        return self.health()


def environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a store's programs: nothing of the user's but PATH. folder: the store's own."""
    return {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "TMPDIR": str(folder / "run"), **more}


def within(seconds: float, good: Callable[[], bool], pause: float = 0.05) -> bool:
    """Ask until `good()` is true, every `pause` seconds, `seconds` at most. Returns its last answer."""
    end = time.monotonic() + seconds
    while not good():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True
