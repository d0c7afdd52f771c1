"""The definition of one daemon of a managed store."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from storelab.stores.managed.network import answers


@dataclass(frozen=True)
class Daemon:
    """The definition of one daemon.

    Attributes
    ----------
    name, argv
        Name of the daemon, and its command.
    host, ports
        Address and ports on which it listens. The ports must be free before the start.
    health
        URL path that `ports[0]` answers with status 200 if the daemon is healthy, or a function that returns True then.
    grace
        Seconds from SIGTERM to SIGKILL.
    environ
        Environment variables in addition to those of `environment`.
    prefix
        Command that enters a namespace and then executes `argv`.
    elsewhere
        Whether `host` and `ports` are in a separate network namespace.
    tls
        Whether the health check uses https.
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
        """Return whether the daemon is healthy now. `timeout` is in seconds."""
        if isinstance(self.health, str):
            return answers(self.host, self.ports[0], self.health, timeout, self.tls)
        return self.health()


def environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a store's programs, with only PATH from the user. `folder` is the store's folder."""
    return {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "TMPDIR": str(folder / "run"), **more}


def within(seconds: float, good: Callable[[], bool], pause: float = 0.05) -> bool:
    """Call `good()` every `pause` seconds, until it returns True or `seconds` have passed. Return the last result."""
    end = time.monotonic() + seconds
    while not good():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True
