"""What every store (system under test) offers to the measuring side (level 2).

A store is one file in this folder, one line in `stores/__init__.py`, one model in `config.py`, one test.
"""

import os
import signal
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Endpoint:
    """One front-end as a client addresses it. `addressing`: `path` or `virtual`; `ca_file`: PEM to verify the server with."""

    url: str
    region: str = "us-east-1"
    addressing: str = "path"
    verify: bool = True
    ca_file: str | None = None


@dataclass(frozen=True)
class Credentials:
    """Keys of one account. Never written to records, logs or command lines: `repr` shows none of them."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    def environ(self) -> dict[str, str]:
        """Environment variables for a client process. The metadata service is never asked."""
        out = {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key, "AWS_EC2_METADATA_DISABLED": "true"}
        if self.session_token:
            out["AWS_SESSION_TOKEN"] = self.session_token
        return out


@dataclass(frozen=True)
class Bucket:
    """Where the i-th bucket of a campaign lies: bucket name and key prefix (empty, or ending in '/')."""

    name: str
    prefix: str = ""


@dataclass
class Status:
    """State of a store for `storelab status`: `up`, `down`, `partly` or `external`."""

    name: str
    kind: str
    state: str
    version: str = ""
    endpoints: list[str] = field(default_factory=list)
    pids: dict[str, int] = field(default_factory=dict)
    detail: str = ""


class Store(ABC):
    """Interface of a store. All methods raise UserError for a person's mistake, MeasurementFailed for a failing system."""

    managed: bool = False

    def __init__(self, name: str, settings: Any, state: Path):
        self.name, self.settings, self.state = name, settings, state

    @abstractmethod
    def up(self, front_ends: int = 1) -> None:
        """Make at least `front_ends` front-ends usable: start what is missing, wait until healthy, warm up. Idempotent."""

    @abstractmethod
    def down(self) -> list[int]:
        """Stop what storelab started; returns the pids stopped. Idempotent; does nothing for external stores."""

    @abstractmethod
    def status(self) -> Status: ...

    @abstractmethod
    def version(self) -> str:
        """Version as the system itself tells it, '' where it tells none."""

    @abstractmethod
    def endpoints(self, front_ends: int = 1) -> list[Endpoint]:
        """The first `front_ends` front-ends. Raises UserError where there are fewer."""

    @abstractmethod
    def credentials(self) -> Credentials: ...

    @abstractmethod
    def deployment(self) -> dict[str, Any]:
        """What is deployed (daemons, redundancy, backing), for the records. Nothing secret."""

    def bucket(self, campaign: str, index: int) -> Bucket:
        """Name of the campaign's `index`-th bucket."""
        return Bucket(f"storelab-{campaign.lower().replace('.', '-')}-{index:04d}")

    def actors(self) -> dict[str, int]:
        """Daemons by name with their pid: whose CPU is recorded, who can be killed in fault tests."""
        return {}

    def suspend(self) -> None:
        """Stop the daemons' CPU (SIGSTOP) while another store is measured. Idempotent; nothing for external stores."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo `suspend`. Idempotent."""
        self._signal(signal.SIGCONT)

    def _signal(self, sig: int) -> None:
        for pid in self.actors().values() if self.managed else ():
            with suppress(ProcessLookupError):
                os.kill(pid, sig)

    def free_bytes(self) -> int | None:
        """Room left for data, None where it cannot be asked."""
        return None

    def reclaim(self) -> None:
        """Give back the space of deleted objects where the system wants to be told; outside of every measurement."""
