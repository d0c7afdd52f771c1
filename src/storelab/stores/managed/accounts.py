"""Keys of a managed store's accounts and its certificate: made once, kept in the store's folder."""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab.core.errors import UserError
from storelab.core.records import read_as, write_json
from storelab.stores.managed.facts import Facts
from storelab.stores.protocols.endpoint import Credentials


@dataclass
class _Noted:
    """What `accounts.json` holds."""

    accounts: list[Credentials]
    used: int


class Accounts(Facts):
    """Part of every managed store: `accounts.json` in its folder holds the keys, and how many accounts are in use."""

    def _noted(self) -> dict[str, Any]:
        path = self.folder / "accounts.json"
        return read_as(path, _Noted, self._restore(path)) if path.exists() else {"accounts": [], "used": 1}

    def _restore(self, path: Path) -> str:
        return f"restore it, or `storelab down {self.name}` and remove {path.parent}, with the data in it"

    def keys(self) -> list[dict[str, str]]:
        """[{access_key, secret_key}] by account, as recorded."""
        return self._noted()["accounts"]

    def accounts(self) -> int:
        """How many accounts were ever asked for."""
        return self._noted()["used"]

    def _keep(self, name: str, value: Any) -> None:
        """Write a JSON file into the store's folder that its owner alone can read."""
        old = os.umask(0o077)
        try:
            write_json(self.folder / name, value)
        finally:
            os.umask(old)

    def make_keys(self, accounts: int) -> list[dict[str, str]]:
        """Keys of the first `accounts` accounts; those that are missing are made."""
        known = self.keys()
        known += [_new_keys() for _ in range(len(known), accounts)]
        self._keep("accounts.json", {"accounts": known, "used": self.accounts()})
        return known[:accounts]

    def root_keys(self) -> Credentials:
        """Keys of the system's administrator, who is none of the accounts; made once, in a file of their own."""
        path = self.folder / "root.json"
        if not path.exists():
            self._keep(path.name, _new_keys())
        return Credentials(**read_as(path, Credentials, self._restore(path)))

    def note_accounts(self, accounts: int) -> None:
        """So many accounts are in use from now on (never fewer than before)."""
        if accounts > self.accounts():
            self._keep("accounts.json", self._noted() | {"used": accounts})

    def credentials(self, account: int = 0) -> Credentials | None:
        if self.protocol != "s3":
            return None
        known = self.keys()
        if account >= len(known):
            raise UserError(
                self.place,
                f"account {account} has no keys: it was never started with so many accounts",
                "run `storelab up`",
            )
        return Credentials(**known[account])

    def make_certificate(self) -> None:
        """Make a certificate of our own for the store's addresses, once, where the setting `tls` wants one.

        `tls/server.pem`: the chain; `tls/server.key`: its key; `tls/ca.pem` verifies it.
        """
        folder, s = self.folder / "tls", self.settings
        if not getattr(s, "tls", False) or (folder / "ca.pem").exists():
            return
        import trustme

        folder.mkdir(mode=0o700, exist_ok=True)
        authority = trustme.CA()
        names = [s.address, *s.front_end_addresses, *([s.advertise] if s.advertise else []), "localhost"]
        server = authority.issue_cert(*dict.fromkeys(names))
        (folder / "server.pem").write_bytes(b"".join(blob.bytes() for blob in server.cert_chain_pems))
        (folder / "server.key").touch(mode=0o600)
        (folder / "server.key").write_bytes(server.private_key_pem.bytes())
        authority.cert_pem.write_to_path(str(folder / "ca.pem"))


def _new_keys() -> dict[str, str]:
    """20 and 40 characters, as long as Amazon's: MinIO takes no longer ones."""
    return {"access_key": "SL" + secrets.token_hex(9).upper(), "secret_key": secrets.token_hex(20)}
