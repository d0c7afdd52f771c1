"""The near-null S3 server of the calibration: one process that answers with almost no work.

The server is storelab's Go program `loadgen/cmd/nullserver`. Clients can read objects that were never written: the
second last component of a key names the file with the object's content. The server discards uploads and does not check
signatures. See docs/calibration.md.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import Field

from storelab.core.config_types import Boolean
from storelab.install import golang
from storelab.stores.managed.base import Managed
from storelab.stores.managed.daemon import Daemon
from storelab.stores.managed.settings import TLS, ListeningSettings
from storelab.stores.protocols.endpoint import Endpoint


class Settings(ListeningSettings):
    """A server that answers S3 with almost no work and stores nothing.

    The rate that clients reach with this server is their maximum rate. Only the workload `calibrate` uses it;
    calibrated campaigns include it automatically.
    """

    tls: Boolean = TLS
    kind: Literal["nullserver"]
    port: int = Field(
        25000, ge=1024, le=32000, description="Port of the server; a second server for https uses the next port."
    )


class NullServer(Managed):
    """An S3 server that stores nothing and does almost no work, to measure the maximum rate of the clients."""

    Settings = Settings
    system = "near-null S3 server"
    version_flag = "-version"
    installed_by = "loadgen"
    retains_data = False
    reports_usage = False
    port_block = 1

    recipe = golang.LOADGEN.parts

    @property
    def bodies(self) -> Path:
        return self.data / "bodies"

    def make_ready(self) -> None:
        self.bodies.mkdir(exist_ok=True, mode=0o700)

    def add_bodies(self, files: Iterable[Path]) -> None:
        """Make the contents of these files available as objects.

        The files are on tmpfs. The server maps a file into memory at its first request.
        """
        for file in files:
            link, fresh = self.bodies / file.name, self.bodies / f".{file.name}.{os.getpid()}"
            if not (link.is_symlink() and link.readlink() == file.absolute()):
                fresh.symlink_to(file.absolute())
                fresh.replace(link)

    def daemon(self, name: str) -> Daemon:
        s = self.settings
        at = f"[{s.address}]:{s.port}" if ":" in s.address else f"{s.address}:{s.port}"
        argv = (str(self.program()), "-listen", at, "-bodies", str(self.bodies))
        if s.tls:
            argv += ("-cert", str(self.folder / "tls" / "server.pem"), "-key", str(self.folder / "tls" / "server.key"))
        return Daemon(name, argv, s.address, (s.port,), "/health", tls=s.tls)

    def make_accounts(self, accounts: int) -> None:
        self.make_keys(accounts)  # clients sign their requests as usual, but the server ignores signatures

    def warm_up_one(self, endpoint: Endpoint) -> None:
        """Do nothing, because the server is usable as soon as it is healthy."""
