"""MinIO on this machine: one server with up to 16 drives, which are folders.

MinIO is an AGPL program, which storelab runs unmodified as a separate process. Each account has a policy that allows
only its own buckets (see Store.bucket_name). No account is the administrator. See docs/stores.md.
"""

import json
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from storelab.core.config_types import Boolean
from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import golang
from storelab.stores.base import (
    CLEAN,
    CONDITION_TIMEOUT_S,
    DEGRADED,
    DIFFERS,
    DOWN,
    NO,
    RECOVERING,
    AdminAnswer,
    Condition,
)
from storelab.stores.managed import network
from storelab.stores.managed.accounts import KEYS, TOOL_S, listed
from storelab.stores.managed.base import Managed
from storelab.stores.managed.daemon import Daemon
from storelab.stores.managed.settings import DRIVE_SIZE, TLS, DriveSize, ListeningSettings
from storelab.stores.protocols.endpoint import Credentials, Endpoint

if TYPE_CHECKING:
    from minio import MinioAdmin

PROGRAM = golang.Program(
    "minio",
    "github.com/minio/minio",
    "github.com/minio/minio",
    "Go modules, 250 MB to download; 3 to 6 minutes on two cores, 3.1 GB of disk to build, 112 MB afterwards; no root",
    4e9,
)
META, TRASH = ".minio.sys", ".minio.sys/tmp/.trash"  # folders on every drive
LIVE, WRITABLE = "/minio/health/live", "/minio/health/cluster"
SHARDS = {"ec-2-2": (2, 2), "ec-3-1": (3, 1), "ec-9-3": (9, 3)}  # redundancy -> numbers of data and parity shards


class Settings(ListeningSettings):
    """A MinIO server on this machine, whose drives are folders."""

    tls: Boolean = TLS
    drive_size: DriveSize = DRIVE_SIZE
    kind: Literal["minio"]
    port: int = Field(23500, ge=1024, le=32000, description="Port of the server; the console uses the next port.")
    servers: int = Field(4, ge=1, le=16, description="Number of drives; a single drive has no redundancy.")
    redundancy: Literal["none", "ec-2-2", "ec-3-1", "ec-9-3"] = Field(
        "ec-2-2", description="Number of data and parity shards. Their sum must be the number of drives."
    )


class MinIO(Managed):
    """One MinIO server on this machine."""

    Settings = Settings
    system = "MinIO"
    version_pattern = r"RELEASE\.(\S+)"
    front = "minio-"
    # There is only one front-end, because several servers on loopback do not form a cluster.
    most_accounts = 32
    port_block = 16
    start_timeout = 30.0

    recipe = PROGRAM.parts

    def require(self) -> None:
        self.program()
        s = self.settings
        if s.redundancy != "none" and sum(SHARDS[s.redundancy]) != s.servers:
            hint = f"set servers to {sum(SHARDS[s.redundancy])}, or redundancy to none"
            raise UserError(f"{self.place}.redundancy", f"{s.redundancy} is not possible on {s.servers} drives", hint)

    def ask_version(self, program: Path) -> str:
        """Return the release. A build from a Go module prints none; then return date and commit of the source."""
        version = super().ask_version(program) or golang.module_version(program, PROGRAM.module)
        return re.sub(r"^0\.0\.0-(\d{4})(\d\d)(\d\d)\d{6}-([0-9a-f]{12})$", r"\1-\2-\3 (\4)", version)

    def drive_folders(self) -> list[Path]:
        return [self.data / f"drive-{i}" for i in range(1, self.settings.servers + 1)]

    def make_ready(self) -> None:
        formatted = sum((folder / META).is_dir() for folder in self.data.glob("drive-*"))
        if formatted > self.settings.servers:
            raise UserError(
                f"{self.place}.servers",
                f"the data in {self.data} are on {formatted} drives",
                f"set servers to {formatted}, or use a new folder",
            )
        if not self.daemons.running():  # a drive that was removed from a running server stays removed
            for drive in self.drive_folders():
                drive.mkdir(exist_ok=True, mode=0o700)
        folder = self.folder / "tls"
        for name, file_name in (
            (("server.pem", "public.crt"), ("server.key", "private.key")) if self.settings.tls else ()
        ):
            source, target = folder / name, folder / file_name
            if not target.exists() or target.read_bytes() != source.read_bytes():  # avoid a reload by a running server
                shutil.copy(source, target)

    def daemon(self, name: str) -> Daemon:
        """Return the definition of the only server, `minio-1`.

        The administrator's keys are in the environment, because all users can see command lines.
        """
        s, root, folder = self.settings, self.root_keys(), self.folder
        argv = [str(self.program()), "server", "--anonymous"]  # otherwise it prints its keys to the log
        argv += ["--address", f"{s.address}:{s.port}", "--console-address", f"{s.address}:{s.port + 1}"]
        argv += ["--certs-dir", str(folder / "tls")] if s.tls else []
        environ = {
            "HOME": str(folder / "run"),
            "MINIO_ROOT_USER": root.access_key,
            "MINIO_ROOT_PASSWORD": root.secret_key,
            "MINIO_STORAGE_CLASS_STANDARD": f"EC:{self._parity()}",
            # This lets MinIO accept folders on the system's disk as drives. MINIO_CI_CD would do this too, but it
            # limits buffers and makes deletion slower.
            "MINIO_ROOTDRIVE_THRESHOLD_SIZE": "1",
            "MINIO_SCANNER_SPEED": "slowest",  # its first scan starts after half an hour, not during a point
            "MINIO_UPDATE": "off",
            "MINIO_BROWSER": "off",
        }
        argv += map(str, self.drive_folders())
        return Daemon(name, tuple(argv), s.address, (s.port,), WRITABLE, 10.0, environ, tls=s.tls)

    def _parity(self) -> int:
        return SHARDS.get(self.settings.redundancy, (self.settings.servers, 0))[1]

    def started(self, daemon: Daemon) -> None:
        self.daemons.note(daemon.name, parity=self._parity())

    def healthy(self, daemon: Daemon) -> bool:
        """Return whether a running server answers and was started with the configured redundancy.

        A server that lost drives is healthy. The recorded parity is compared, because the command line does not
        show it.
        """
        lives = network.answers(daemon.host, daemon.ports[0], LIVE, 3.0, daemon.tls)
        return lives and self.daemons.records().get(daemon.name, {}).get("parity") == self._parity()

    def make_accounts(self, accounts: int) -> None:
        """Create the accounts, once in the lifetime of a server.

        Each request to the administration interface needs 64 MiB and 50 ms to derive a key.
        """
        name = f"{self.front}1"
        if self.daemons.records().get(name, {}).get("accounts", 0) >= accounts:
            return
        from minio.error import MinioAdminException
        from urllib3.exceptions import HTTPError

        admin = _admin(self.endpoint(name), self.root_keys())
        try:
            there = json.loads(admin.user_list())
            for i, keys in enumerate(self.make_keys(accounts)):
                user, policy = keys["access_key"], f"storelab-{i}"
                if there.get(user, {}).get("policyName") != policy:
                    admin.user_add(user, keys["secret_key"])
                    admin.policy_add(policy, policy=self.policy(i))
                    admin.policy_set(policy, user=user)
            self.daemons.note(name, accounts=accounts)
        except (HTTPError, MinioAdminException) as error:
            code = re.search(r'"Code":"(\w+)"', str(error))
            raise MeasurementFailed(
                f"{self.place}: accounts cannot be made ({code.group(1) if code else type(error).__name__})"
            ) from None

    # Faults

    def data_actors(self) -> list[str]:
        return [drive.name for drive in self.drive_folders()]

    def tolerated_failures(self) -> int:
        return SHARDS.get(self.settings.redundancy, (0, 0))[1]

    def drive_folder(self, actor: str) -> Path | None:
        return self.data / actor if actor in self.data_actors() else None

    def condition(self) -> Condition:
        """Return the condition from the administration's list of drives and their healing."""
        from minio.error import MinioException
        from urllib3.exceptions import HTTPError

        try:
            admin = _admin(self.endpoint(f"{self.front}1"), self.root_keys(), CONDITION_TIMEOUT_S)
            servers = json.loads(admin.info())["servers"]
        except (HTTPError, MinioException, ValueError, LookupError, OSError) as error:
            return Condition(DOWN, f"the server does not answer ({type(error).__name__})")
        drives = [d for s in servers for d in s.get("drives") or s.get("disks") or []]
        good, healing = sum(d.get("state") == "ok" for d in drives), sum(bool(d.get("healing")) for d in drives)
        detail = f"admin info: {good} of {self.settings.servers} drives ok, {healing} healing"
        return Condition(DEGRADED if good < self.settings.servers else RECOVERING if healing else CLEAN, detail)

    def administration(self) -> list[AdminAnswer]:
        end, first = self.endpoints(1)[0], self.credentials(0)
        user_names = [self.credentials(i).access_key for i in range(self.accounts())]
        users = listed("list-users", json.loads(_admin(end, self.root_keys()).user_list()), user_names)
        user, key = _admin(end, first), "SLPROBE" + secrets.token_hex(6).upper()
        user.add_service_account(access_key=key, secret_key=secrets.token_hex(20))
        try:
            there = key in user.list_service_account(first.access_key)
        finally:
            user.delete_service_account(key)
        several = AdminAnswer(
            KEYS, DIFFERS, "a user has one pair of keys; more keys are service accounts, which the user itself manages"
        )
        return [users, several if there else AdminAnswer(KEYS, NO, "a new service account is not listed")]

    @staticmethod
    def policy(account: int) -> dict[str, Any]:
        """Return the policy of an account.

        The first account can create and access every bucket (as in SeaweedFS). Another account can do this only for
        buckets with its number in their name.
        """
        names = "*" if account == 0 else f"storelab-*-a{account}-*"
        resources = [f"arn:aws:s3:::{names}", f"arn:aws:s3:::{names}/*"]
        return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": resources}]}

    def deployment(self) -> dict[str, Any]:
        return super().deployment() | {"drives": self.settings.servers, "parity": self._parity()}

    def reclaim(self) -> None:
        """Delete the content of each drive's trash folder, which the server itself does only every five minutes."""
        for drive in self.drive_folders():
            for path in (drive / TRASH).glob("*"):
                shutil.rmtree(path, ignore_errors=True)


def _admin(end: Endpoint, keys: Credentials, seconds: float = TOOL_S) -> "MinioAdmin":
    """Return the administration interface with these keys. `seconds` is the timeout of an answer."""
    from minio import MinioAdmin
    from minio.credentials import StaticProvider
    from urllib3 import PoolManager

    return MinioAdmin(
        endpoint=end.url.partition("//")[2],
        credentials=StaticProvider(keys.access_key, keys.secret_key),
        region=end.region,
        secure=end.url.startswith("https"),
        http_client=PoolManager(timeout=seconds, retries=False, ca_certs=end.ca_file),
    )
