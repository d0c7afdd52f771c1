"""The Versity S3 Gateway on this machine: up to 24 gateways for one folder, one process each.

Objects are plain files with their metadata in extended attributes. All gateways share the folder of accounts, so that
an account created at one gateway is valid at all of them. See docs/stores.md.
"""

import os
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from pydantic import Field

from storelab.core.config_types import Boolean
from storelab.core.errors import MeasurementFailed, UserError
from storelab.host.scratch import filesystem
from storelab.install import golang
from storelab.stores.base import NO, AdminAnswer
from storelab.stores.managed.accounts import KEYS, TOOL_S, listed
from storelab.stores.managed.base import Managed
from storelab.stores.managed.daemon import Daemon
from storelab.stores.managed.settings import DRIVE_SIZE, TLS, DriveSize, ListeningSettings

PROGRAM = golang.Program(
    "versitygw",
    "github.com/versity/versitygw",
    "github.com/versity/versitygw/cmd/versitygw",
    "Go modules, 110 MB to download; 1 to 4 minutes on two cores, 1.2 GB of disk to build, 45 MB afterwards; no root",
    1.5e9,
)
ROLE = "userplus"  # this role can create buckets, and can access only its own buckets


class Settings(ListeningSettings):
    """One or more Versity S3 gateways for one folder, which storelab starts and stops."""

    tls: Boolean = TLS
    drive_size: DriveSize = DRIVE_SIZE
    kind: Literal["versitygw"]
    port: int = Field(
        23000, ge=1024, le=32000, description="First port of a block of 32 ports; each front-end uses one."
    )


class Versitygw(Managed):
    """A folder of this machine, served over S3 by the Versity S3 Gateway."""

    Settings = Settings
    system = "Versity S3 Gateway"
    version_pattern = r"Version\s*: v?(\d\S*)"
    most_front_ends = 24
    most_accounts = 32
    port_block = 32

    recipe = PROGRAM.parts

    def ask_version(self, program: Path) -> str:
        """Return the version. A program built by `storelab install` reports none; then return the module's version."""
        return super().ask_version(program) or golang.module_version(program, PROGRAM.module)

    def make_ready(self) -> None:
        for folder in (self.data / "objects", self.folder / "iam"):
            folder.mkdir(exist_ok=True, mode=0o700)
        try:
            os.setxattr(self.data / "objects", "user.storelab", b"")
        except OSError as error:
            raise UserError(
                f"{self.place}.directory",
                f"{self.data} is on {filesystem(self.data)}, which has no extended attributes ({error.strerror})",
                "use a folder on ext4 or xfs",
            ) from None

    def daemon(self, name: str) -> Daemon:
        """Return the definition of the gateway with this name (`s3-1`, …).

        The administrator's keys are in the environment, because all users can see command lines.
        """
        s, root = self.settings, self.root_keys()
        host, port = self.address(self._number(name)), s.port + self._number(name) - 1
        options = [
            "--port",
            f"{host}:{port}",
            "--iam-dir",
            str(self.folder / "iam"),
            "--keep-alive",
            "--quiet",
            "--health",
            "/health",
        ]
        if s.tls:
            options += [
                "--cert",
                str(self.folder / "tls" / "server.pem"),
                "--key",
                str(self.folder / "tls" / "server.key"),
            ]
        environ = {"ROOT_ACCESS_KEY": root.access_key, "ROOT_SECRET_KEY": root.secret_key}
        argv = (str(self.program()), *options, "posix", str(self.data / "objects"))
        return Daemon(name, argv, host, (port,), "/health", environ=environ, tls=s.tls)

    def make_accounts(self, accounts: int) -> None:
        """Create all accounts through one gateway, because concurrent changes could be lost."""
        there = self._users()
        for keys in self.make_keys(accounts):
            if keys["access_key"] not in there:
                account = ElementTree.Element("Account")
                for tag, text in {"Access": keys["access_key"], "Secret": keys["secret_key"], "Role": ROLE}.items():
                    ElementTree.SubElement(account, tag).text = text
                self._ask("create-user", ElementTree.tostring(account))

    def administration(self) -> list[AdminAnswer]:
        user_names = [self.credentials(i).access_key for i in range(self.accounts())]
        return [
            listed("list-users", self._users(), user_names),
            AdminAnswer(KEYS, NO, "a user is an access key and has only one pair of keys"),
        ]

    def _users(self) -> set[str]:
        """Return the access keys of all users."""
        users = ElementTree.fromstring(self._ask("list-users"))
        return {e.text or "" for e in users.iter() if e.tag.rpartition("}")[2] == "Access"}

    def _ask(self, action: str, body: bytes = b"") -> bytes:
        """Send a request as administrator, and return the answer. Raises MeasurementFailed."""
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials
        from botocore.exceptions import HTTPClientError
        from botocore.httpsession import URLLib3Session

        end, root = self.endpoint(self.front_ends()[0]), self.root_keys()
        request = AWSRequest(
            "PATCH", f"{end.url}/{action}", data=body, headers={"X-Amz-Content-SHA256": sha256(body).hexdigest()}
        )
        S3SigV4Auth(Credentials(root.access_key, root.secret_key), "s3", end.region).add_auth(request)
        wire = URLLib3Session(verify=end.ca_file or True, proxies={}, timeout=(5, TOOL_S))
        try:
            with closing(wire):
                answer = wire.send(request.prepare())
        except HTTPClientError as error:
            raise MeasurementFailed(f"{self.place}: {action} was not answered ({type(error).__name__})") from None
        if answer.status_code >= 400:
            raise MeasurementFailed(
                f"{self.place}: {action} was refused (HTTP {answer.status_code}): {answer.text[:200]}"
            )
        return answer.content
