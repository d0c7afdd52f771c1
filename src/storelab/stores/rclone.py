"""`rclone serve s3` on this machine: one server over one folder, for comparison with systems that are made for S3.

Objects are plain files. All keys reach all buckets, because it has one name space and no owners. It has one front-end,
because a second one would not see for minutes what the first one wrote. See docs/stores/rclone.md.
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
    """`rclone serve s3` over a folder, started and stopped by storelab."""

    tls: Boolean = TLS
    kind: Literal["rclone"]
    port: int = Field(26500, ge=1024, le=32000, description="Its port.")


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
        """Return how the one server `s3-1` runs.

        The keys are in the environment, because all users can see command lines. Empty folders stay, because they are
        buckets.
        """
        s = self.settings
        host, port = self.address(self._number(name)), s.port
        argv = [str(self.program()), "--config=", "serve", "s3", f"--addr={host}:{port}"]
        argv += ["--cache-dir", str(self.folder / "run" / "cache")]
        if s.tls:
            argv += [f"--cert={self.folder}/tls/server.pem", f"--key={self.folder}/tls/server.key"]
        pairs = ",".join(f'"{keys["access_key"]},{keys["secret_key"]}"' for keys in self.keyring.known())

        def answers() -> bool:
            """Return whether it refuses a request without keys; it has no health check."""
            try:
                return network.get(host, port, "/", 1.0, s.tls)[0] in (400, 403)
            except OSError:
                return False

        environ = {"RCLONE_AUTH_KEY": pairs}
        return Daemon(name, (*argv, str(self.data / "objects")), host, (port,), answers, environ=environ, tls=s.tls)
