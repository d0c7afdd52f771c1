"""Keys of a managed store's accounts and its certificate: made once, kept in the store's folder."""

import os
import secrets
from pathlib import Path
from typing import Any

from storelab.core.errors import UserError
from storelab.core.records import read_json, write_json
from storelab.stores.protocols.endpoint import Credentials


class Accounts:
    """Part of every managed store. `folder`: the store's own, readable by its owner alone."""

    folder: Path
    place: str
    protocol: str
    settings: Any

    def keys(self) -> list[dict[str, str]]:
        """[{access_key, secret_key}] by account, as recorded."""
        path = self.folder / "accounts.json"
        return read_json(path)["accounts"] if path.exists() else []

    def _keep(self, name: str, value: Any) -> None:
        """A JSON file of the store's folder that its owner alone can read."""
        old = os.umask(0o077)
        try:
            write_json(self.folder / name, value)
        finally:
            os.umask(old)

    def make_keys(self, accounts: int) -> list[dict[str, str]]:
        """Keys of the first `accounts` accounts, new ones where there are none yet; the file is readable by its owner
        alone."""
        known = self.keys()
        while len(known) < accounts:
            known.append(_new_keys())
        self._keep("accounts.json", {"accounts": known, "used": self.accounts()})
        return known[:accounts]

    def root_keys(self) -> Credentials:
        """Keys of the system's administrator, who is none of the accounts; made once, in a file of their own."""
        path = self.folder / "root.json"
        if not path.exists():
            self._keep(path.name, _new_keys())
        return Credentials(**read_json(path))

    def note_accounts(self, accounts: int) -> None:
        """So many accounts are in use from now on (never fewer than before)."""
        if accounts > self.accounts():
            self._keep("accounts.json", read_json(self.folder / "accounts.json") | {"used": accounts})

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
        return Credentials(known[account]["access_key"], known[account]["secret_key"])

    def accounts(self) -> int:
        """Accounts that were ever asked for."""
        path = self.folder / "accounts.json"
        return read_json(path)["used"] if path.exists() else 1

    def make_certificate(self) -> tuple[Path, Path]:
        """(certificate chain, key) of a certificate of our own for the store's address; `tls/ca.pem` verifies it."""
        import trustme

        folder = self.folder / "tls"
        chain, key = folder / "server.pem", folder / "server.key"
        if not (folder / "ca.pem").exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            authority = trustme.CA()
            s = self.settings
            names = dict.fromkeys(
                [s.address, *s.front_end_addresses, *([s.advertise] if s.advertise else []), "localhost"]
            )
            server = authority.issue_cert(*names)
            chain.write_bytes(b"".join(blob.bytes() for blob in server.cert_chain_pems))
            key.touch(mode=0o600)
            key.write_bytes(server.private_key_pem.bytes())
            authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        return chain, key


def _new_keys() -> dict[str, str]:
    """20 and 40 characters, as long as Amazon's: MinIO takes no longer ones."""
    return {"access_key": "SL" + secrets.token_hex(9).upper(), "secret_key": secrets.token_hex(20)}
