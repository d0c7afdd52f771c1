"""What a launcher is: it starts the clients of a gang, on this host or on others. Imports nothing of storelab."""

from abc import ABC, abstractmethod
from typing import Any


class Launcher(ABC):
    """participants: how many meet in the gang's folder: the clients, or one agent per node; noun: what they are called.

    What a launcher need not say has a default here, for which there is nothing to tell.
    """

    name: str
    noun: str
    participants: int

    @abstractmethod
    def start(self) -> None:
        """Start them. Raises UserError or MeasurementFailed."""

    @abstractmethod
    def ended(self) -> dict[int, int]:
        """rank -> exit status of the clients that have ended."""

    @abstractmethod
    def stop(self) -> None:
        """End what was started. Idempotent."""

    def accept(self, ready: dict[int, dict[str, Any]]) -> str:
        """Why the gang must not start, or ''. ready: what each participant says of itself."""
        return ""

    def trouble(self) -> str:
        """A problem besides clients that have ended, or ''."""
        return ""

    def last_words(self) -> str:
        """What the batch system says of the reason, or ''."""
        return ""

    def pids(self) -> dict[int, int]:
        """rank -> pid of the clients on this host."""
        return {}

    def about(self) -> list[dict[str, Any]]:
        """What each node reported at its end: host, clock, versions, what its monitor saw."""
        return []
