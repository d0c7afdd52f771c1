"""A folder of any mounted file system; storelab starts nothing, and writes only into folders that it made in it.

Clients of every node must see the same path. What a kernel or FUSE client caches is part of such a store: see
docs/stores.md.
"""

import os
import shutil
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from storelab.core.config_types import FolderPath
from storelab.core.errors import UserError
from storelab.host.folders import filesystem
from storelab.host.page_cache import PageCache
from storelab.stores.base import Cooling, Store
from storelab.stores.external import Own
from storelab.stores.protocols.endpoint import Endpoint

LOCAL = (
    "ext2",
    "ext3",
    "ext4",
    "xfs",
    "btrfs",
    "zfs",
    "f2fs",
    "tmpfs",
    "overlay",
)  # file systems of this machine's own disks and memory


class Settings(Own):
    """Any folder of a mounted file system: local disk, tmpfs, Lustre, GPFS, AFS, NFS, CephFS, EOS, dCache."""

    kind: Literal["directory"]
    path: FolderPath = Field(description="An existing folder; storelab makes folders of its own in it.")


class Directory(Store):
    Settings = Settings
    protocol = "file"
    tells_used = True

    def __init__(self, name: str, settings: Any, state: Path):
        super().__init__(name, settings, state)
        self.path = Path(settings.path).expanduser().absolute()

    def up(self, front_ends: int = 1, accounts: int = 1) -> None:
        """Look whether the folder is there and can be used; nothing is made."""
        self.require()

    def require(self) -> None:
        """Raises UserError where the folder is not there, or may not be used."""
        if not self.path.is_dir():
            raise UserError(
                f"{self.place}.path", f"{str(self.path)!r} is no folder", "make it, or mount its file system"
            )
        wanted = os.R_OK | os.X_OK | (0 if self.settings.read_only else os.W_OK)
        if not os.access(self.path, wanted):
            raise UserError(
                f"{self.place}.path",
                f"{str(self.path)!r} cannot be written",
                "give a folder of yours, or set read_only: true",
            )

    def version(self) -> str:
        """Type of the file system."""
        return filesystem(self.path)

    def endpoints(self, front_ends: int = 1) -> list[Endpoint]:
        return [Endpoint(f"file://{self.path}", protocol="file")] * front_ends

    def most(self, axis: str) -> int:
        return 1

    def deployment(self) -> dict[str, Any]:
        return {
            "system": "POSIX file system",
            "version": self.version(),
            "daemons": {},
            "front_ends": 1,
            "servers": 1,
            "redundancy": "unknown",
            "backing": filesystem(self.path),
            "tls": False,
            "accounts": 1,
        }

    def on_this_host(self) -> bool:
        return filesystem(self.path) in LOCAL

    def memory_only(self) -> bool:
        return filesystem(self.path) == "tmpfs"

    def data_folders(self) -> list[Path]:
        """storelab's own."""
        return [] if self.memory_only() else sorted(self.path.glob(f"{self.settings.prefix}-*"))

    def cool(self, front_ends: int = 1, accounts: int = 1) -> Cooling:
        if self.memory_only():
            return Cooling(why="its data lie in memory (tmpfs)")
        pages = PageCache([str(folder) for folder in self.data_folders()])
        pages.drop()
        done = [f"pages of {pages.files} files dropped"]
        if not self.on_this_host():
            done.append(f"what the servers of {self.version()} hold in their memory stays")
        return Cooling(done, self.data_folders(), pages.still_cached)

    def free_bytes(self) -> int | None:
        return shutil.disk_usage(self.path).free if self.path.is_dir() else None

    def capacity_bytes(self) -> int | None:
        """Of a folder that is a file system of its own."""
        usage = shutil.disk_usage(self.path) if os.path.ismount(self.path) else None
        return usage.used + usage.free if usage else None

    def used_bytes(self) -> int | None:
        """Bytes of the blocks of storelab's own folders.

        Copies and parity that the file system keeps elsewhere are not in it: it does not tell.
        """
        os.sync()
        own = self.path.glob(f"{self.settings.prefix}-*")
        return sum(p.lstat().st_blocks * 512 for folder in own for p in folder.rglob("*"))
