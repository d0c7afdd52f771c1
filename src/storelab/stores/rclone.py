"""`rclone serve s3` on this machine: one server for one folder, to compare it with systems that are made for S3.

Objects are plain files. Every key gives access to all buckets, because they have no owners. There is only one
front-end, because a second one would see new objects of the first one only after minutes. See docs/stores/rclone.md.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field

from storelab.core.config_types import Boolean
from storelab.install import wheels
from storelab.stores.managed import network
from storelab.stores.managed.base import Managed
from storelab.stores.managed.daemon import Daemon
from storelab.stores.managed.settings import TLS, ListeningSettings

ACCOUNTS = 32  # number of keys that the server gets when it starts


class Settings(ListeningSettings):
    """The program `rclone serve s3` for a folder, which storelab starts and stops."""

    tls: Boolean = TLS
    kind: Literal["rclone"]
    port: int = Field(26500, ge=1024, le=32000, description="Port of the server.")


class Rclone(Managed):
    """A folder of this machine, served over S3 by `rclone serve s3`."""

    Settings = Settings
    system = "rclone serve s3"
    version_flag, version_pattern = "version", r"rclone v(\S+)"
    most_accounts = ACCOUNTS
    port_block = 16
    recipe = wheels.rclone

    def program(self) -> Path:
        return wheels.rclone_program(self.place)

    def make_ready(self) -> None:
        (self.data / "objects").mkdir(exist_ok=True, mode=0o700)
        self.make_keys(ACCOUNTS)

    def daemon(self, name: str) -> Daemon:
        """Return the definition of the only server, `s3-1`.

        The keys are in the environment, because all users can see command lines.
        """
        s = self.settings
        host, port = self.address(self._number(name)), s.port
        argv = [str(self.program()), "--config=", "serve", "s3", f"--addr={host}:{port}"]
        argv += ["--cache-dir", str(self.folder / "run" / "cache")]
        if s.tls:
            argv += [f"--cert={self.folder}/tls/server.pem", f"--key={self.folder}/tls/server.key"]
        pairs = ",".join(f'"{keys["access_key"]},{keys["secret_key"]}"' for keys in self.keyring.known())

        def answers() -> bool:
            """Return whether the server refuses a request without keys. rclone has no health check."""
            try:
                return network.get(host, port, "/", 1.0, s.tls)[0] in (400, 403)
            except OSError:
                return False

        environ = {"RCLONE_AUTH_KEY": pairs}
        return Daemon(name, (*argv, str(self.data / "objects")), host, (port,), answers, environ=environ, tls=s.tls)
