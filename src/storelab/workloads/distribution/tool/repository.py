"""A repository that `cvmfs_swissknife` makes and publishes to: `create`, `upload`, then `sync` and `sign` for each day.

As `cvmfs_server mkfs` and `publish` call it, but for the mount: the tree of a day takes the place of the union, and a
tree of names that of what was there. May import: `program`, `keys`, `datasets`, `core`.
"""

import shutil
from collections import Counter
from pathlib import Path

from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import UserError
from storelab.datasets.release.trees import Trees
from storelab.workloads.distribution.tool import keys
from storelab.workloads.distribution.tool.program import Runner

_APART = ",@:"  # signs that the program takes lists apart by
# Counters of the program. A chunk is an object of data: whole files, too.
CHUNKS, DUPLICATES, CATALOGS = "publish.n_chunks_added", "publish.n_chunks_duplicated", "publish.n_catalogs_added"
BYTES, CATALOG_BYTES = "publish.sz_uploaded_bytes", "publish.sz_uploaded_catalog_bytes"
GETS, GOT_BYTES = "download.n_requests", "download.sz_transferred_bytes"


class Repository:
    """One repository, below a prefix of a bucket. url: where anybody may read it; alias: its keys begin with it;
    the folder of the runner lies on tmpfs."""

    def __init__(self, runner: Runner, settings: Settings, url: str, alias: str, trees: Trees):
        self.runner, self.settings, self.url, self.trees = runner, settings, url, trees
        self.folder = runner.folder
        if set(str(self.folder)) & set(_APART):
            problem = f"a folder whose name has one of {' '.join(_APART)} cannot be named to cvmfs_swissknife"
            raise UserError("config.yaml: scratch", problem, "name another tmpfs")
        for name in ("temporary", "keys"):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        self.temporary, self.manifest = self.folder / "temporary", self.folder / "manifest"
        self.checksum = self.folder / "reflog.chksum"
        self.upstream = f"S3,{self.temporary},{alias}@{runner.s3_conf}"
        self.keys = keys.make(self.folder / "keys", settings.repository)
        self.root = ""  # catalog that the manifest in the store names

    def make(self) -> Counter[str]:
        """An empty repository, with its whitelist. What the program counted."""
        name = self.settings.repository
        where = ("-o", self.manifest, "-t", self.temporary, "-r", self.upstream)
        spent = Counter(self.runner.run("create", *where, "-n", name, "-R", self.checksum, "-z"))
        spent += self._count("upload", "-i", self.keys.whitelist, "-o", ".cvmfswhitelist", "-r", self.upstream)
        return spent + self._signed()

    def publish(self, day: int) -> Counter[str]:
        """What `trees.changed` holds, as the revision `day`; the repository is made first where there is none. What the
        program counted. Raises Failed, OutOfTime: the manifest in the store is then that of the day before."""
        spent = Counter[str]() if self.root else self.make()
        cut = self.settings.chunks
        spent += self._count(
            *("sync", "-b", self.root, "-f", "aufs", "-v", str(day)),
            *("-u", self.trees.changed, "-s", self.trees.changed, "-c", self.trees.there),
            *("-w", self.url, "-K", self.keys.public, "-N", self.settings.repository),
            *("-o", self.manifest, "-t", self.temporary, "-r", self.upstream),
            *("-p", "-l", str(cut.minimum), "-a", str(cut.average), "-h", str(cut.maximum)),
        )
        return spent + self._signed()

    def _signed(self) -> Counter[str]:
        """The manifest is signed and put, behind the reflog."""
        root = _root(self.manifest)
        spent = self._count(
            *("sign", "-m", self.manifest, "-u", self.url, "-r", self.upstream, "-t", self.temporary, "-g"),
            *("-n", self.settings.repository, "-R", self.checksum),
            *("-c", self.keys.certificate, "-k", self.keys.key),
        )
        self.root = root
        return spent

    def _count(self, *words: str | Path) -> Counter[str]:
        return Counter(self.runner.run(*words))

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _root(manifest: Path) -> str:
    """Root catalog that a manifest names which is not signed yet."""
    lines = manifest.read_text().splitlines()
    return next(line[1:41] for line in lines if line.startswith("C"))
