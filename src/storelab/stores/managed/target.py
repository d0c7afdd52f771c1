"""What faults can be done to a managed store: its actors by name, their drives and links, what it says of itself.

May import: what `stores` may.
"""

from abc import abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Any

from storelab.core.errors import UserError
from storelab.stores.faults import drives, links
from storelab.stores.managed.accounts import Accounts
from storelab.stores.managed.daemon import Daemon

ASK_S = 1.0  # a store that does not answer its condition for so long is down


class Target(Accounts):
    """Part of every managed store."""

    @abstractmethod
    def daemon(self, name: str) -> Daemon:
        """How this daemon runs."""

    def front_actors(self, front_ends: int) -> list[str]:
        return [f"{self.front}{i}" for i in range(1, front_ends + 1)]

    def daemon_actors(self, front_ends: int | None = None) -> list[str]:
        """Names of all daemons, with so many front-ends (default: the most that it can have)."""
        fronts = self.front_actors(self.most_front_ends if front_ends is None else front_ends)
        return [name for stage in self.stages(fronts) for name in stage]

    def known_actors(self, front_ends: int) -> list[str]:
        return list(dict.fromkeys([*self.daemon_actors(front_ends), *self.data_actors()]))

    # Versions of its program, for upgrades

    @cached_property
    def versions(self) -> dict[str, str]:
        """Daemons that run another version than the configured one, while a fault lasts."""
        return {}

    def program_of(self, version: str) -> Path:
        """The program of this version. Raises UserError where there is none such."""
        raise UserError(
            self.place,
            f"storelab has one version of {self.system} here, and no {version}",
            "upgrade a store of kind seaweedfs, or write the act as a `command`",
        )

    def require_version(self, version: str, place: str) -> None:
        """Raises UserError where no daemon can be upgraded to this version."""
        try:
            self.program_of(version)
        except UserError as error:
            raise UserError(place, error.problem, error.mend) from None

    def version_of(self, actor: str) -> str:
        """The version that a daemon runs."""
        return self.told_version(self.versions[actor]) if actor in self.versions else self.version()

    @cached_property
    def _told_versions(self) -> dict[str, str]:
        return {}

    def told_version(self, version: str) -> str:
        """As the program of this version tells it; asked once, for it takes its time."""
        if version not in self._told_versions:
            self._told_versions[version] = self.ask_version(self.program_of(version))
        return self._told_versions[version]

    def drive_folder(self, actor: str) -> Path | None:
        """The folder of an actor that is, or has, a drive which it misses when it is gone."""
        return None

    def drive(self, actor: str, place: str) -> Path:
        """The folder of an actor's drive. Raises UserError where none can be taken from it."""
        if (folder := self.drive_folder(actor)) is None:
            raise UserError(
                place,
                f"{actor} of store {self.name} (kind {self.settings.kind}) has no drive that can be taken from it",
                "kill or hang a daemon instead",
            )
        return folder

    def link(self, actor: str, place: str) -> links.Link:
        """The network link of a daemon. Raises UserError where it has none of its own."""
        if actor not in self.daemon_actors():
            raise UserError(place, f"{actor} is a drive, and has no link", "name a daemon")
        host = self.daemon(actor).host
        others = [n for n in self.daemons.running() if n != actor and self.daemon(n).host == host]
        if others and not host.startswith("127."):
            raise UserError(
                place, f"{actor} shares its address {host} with {others[0]}", "give it one of its own, or both the act"
            )
        return links.at(host, place, actor)

    def require_full(self, actor: str, place: str) -> None:
        """Raises UserError where an actor's disk cannot be filled."""
        drives.require_full(self.drive(actor, place), place)

    def fill(self, actor: str) -> str:
        """Take all the room that an actor has; returns what there is to say of it."""
        return f"{drives.fill(self.drive(actor, ''))} bytes"

    def empty(self, actor: str) -> None:
        """Undo `fill`."""
        drives.empty(self.drive(actor, ""))

    def timeouts(self) -> dict[str, Any]:
        """Settings that say when the system notices a loss, by their own names; {} where it has none that differ."""
        return {}

    def deployment(self) -> dict[str, Any]:
        told = self.timeouts()
        return super().deployment() | ({"timeouts": told} if told else {})

    def mend(self) -> list[str]:
        return [] if self.daemons.elsewhere() else super().mend()
