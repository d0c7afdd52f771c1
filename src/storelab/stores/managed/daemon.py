"""One daemon of a managed store, as it is to run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from storelab.stores.managed.net import answers


@dataclass(frozen=True)
class Daemon:
    """One daemon as it is to run. `grace`: seconds from SIGTERM to SIGKILL. `ports`: checked to be free before the
    start.

    `health`: path that `ports[0]` answers with 200 when it is healthy, or a call that tells. `prefix`: command that
    enters a namespace and then becomes `argv` (exec). `elsewhere`: `host` and `ports` are of a network namespace of its
    own.
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

    def healthy(self, timeout: float = 1.0) -> bool:
        return (
            answers(self.host, self.ports[0], self.health, timeout) if isinstance(self.health, str) else self.health()
        )
