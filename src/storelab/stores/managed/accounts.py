"""Accounts of a managed store: its keys and its certificate, which are created once and stored in its folder.

The coordinator lists users and their keys with the system's own tool, before the clients of a probe start. If it
creates a second key for a check, it removes this key immediately. No key is printed.
"""

import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab.core.errors import UserError
from storelab.core.records import read_as, write_json
from storelab.stores.base import DIFFERS, NO, YES, AdminAnswer
from storelab.stores.protocols.endpoint import Credentials

USERS, KEYS = QUESTIONS = ("users listed", "several keys per user")
TOOL_S = 30.0  # time limit of a system's tool in seconds


@dataclass
class _Noted:
    """The content of `accounts.json`."""

    accounts: list[Credentials]
    used: int


class Accounts:
    """The keys of one store's accounts and of its administrator.

    `accounts.json` in the store's folder contains the keys, and the number of accounts in use.
    """

    def __init__(self, folder: Path, place: str, name: str):
        self.folder, self.place, self.name = folder, place, name

    def _noted(self) -> dict[str, Any]:
        path = self.folder / "accounts.json"
        return read_as(path, _Noted, self._restore(path)) if path.exists() else {"accounts": [], "used": 1}

    def _restore(self, path: Path) -> str:
        return f"restore it, or run `storelab down {self.name}` and remove {path.parent}, which deletes its data"

    def _keep(self, name: str, value: Any) -> None:
        """Write a JSON file that only its owner can read into the store's folder."""
        old = os.umask(0o077)
        try:
            write_json(self.folder / name, value)
        finally:
            os.umask(old)

    def known(self) -> list[dict[str, str]]:
        """Return the recorded keys of each account: dictionaries with `access_key` and `secret_key`."""
        return self._noted()["accounts"]

    def used(self) -> int:
        """Return the highest number of accounts that was ever requested."""
        return self._noted()["used"]

    def make(self, accounts: int) -> list[dict[str, str]]:
        """Return the keys of the first `accounts` accounts, and create missing keys."""
        known = self.known()
        known += [_new_keys() for _ in range(len(known), accounts)]
        self._keep("accounts.json", {"accounts": known, "used": self.used()})
        return known[:accounts]

    def root(self) -> Credentials:
        """Return the keys of the system's administrator, which is a separate account. They are created once."""
        path = self.folder / "root.json"
        if not path.exists():
            self._keep(path.name, _new_keys())
        return Credentials(**read_as(path, Credentials, self._restore(path)))

    def use(self, accounts: int) -> None:
        """Record that this number of accounts is in use. A smaller number than before is ignored."""
        if accounts > self.used():
            self._keep("accounts.json", self._noted() | {"used": accounts})

    def credentials(self, account: int) -> Credentials:
        """Return the keys of an account. Raises UserError if it has none."""
        known = self.known()
        if account >= len(known):
            problem = f"account {account} has no keys, because the store was never started with {account + 1} accounts"
            raise UserError(self.place, problem, "run `storelab up`")
        return Credentials(**known[account])


def _new_keys() -> dict[str, str]:
    """Return new keys of 20 and 40 characters, like Amazon's. MinIO does not accept longer keys."""
    return {"access_key": "SL" + secrets.token_hex(9).upper(), "secret_key": secrets.token_hex(20)}


def make_certificate(folder: Path, names: Iterable[str]) -> None:
    """Create a certificate for these addresses with a new authority, if the folder has none.

    In the folder, `server.pem` is the certificate chain, `server.key` its key, and `ca.pem` the authority's
    certificate.
    """
    if (folder / "ca.pem").exists():
        return
    import trustme

    folder.mkdir(mode=0o700, exist_ok=True)
    authority = trustme.CA()
    server = authority.issue_cert(*dict.fromkeys(names))
    (folder / "server.pem").write_bytes(b"".join(blob.bytes() for blob in server.cert_chain_pems))
    (folder / "server.key").touch(mode=0o600)
    (folder / "server.key").write_bytes(server.private_key_pem.bytes())
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))


def listed(tool: str, found: Iterable[str], expected: Iterable[str]) -> AdminAnswer:
    """Return the result of a check: whether a tool lists all users that storelab uses."""
    found, expected = set(found), set(expected)
    there = len(found & expected)
    answer = YES if there == len(expected) else DIFFERS if there else NO
    return AdminAnswer(USERS, answer, f"{tool}: {len(found)} users, {there} of the {len(expected)} that storelab uses")
