"""What all managed stores share: folder, data, start in stages, warm-up, stop, suspension.

A managed store says which daemons it has and how each runs; this class starts what is missing, takes over what runs as
wanted, stops everything again when a start fails, and never touches a data folder that is not storelab's.
"""

import contextlib
import re
import shutil
import time
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from storelab.core import folders
from storelab.core.errors import MeasurementFailed, UserError
from storelab.host.page_cache import PageCache
from storelab.stores.base import Cooling
from storelab.stores.managed import elsewhere
from storelab.stores.managed.daemon import Daemon
from storelab.stores.managed.disks import Disks
from storelab.stores.managed.facts import SHARED
from storelab.stores.protocols.endpoint import Endpoint

LOOPBACK = "127.0.0.1"
MARKER = ".storelab"  # in the data folder: storelab made it


class Managed(Disks):
    """A store of daemons."""

    start_timeout = 20.0  # seconds until a daemon must be healthy
    # What is stopped together, by how the daemons' names begin. Front-ends first: then nothing is in flight any more.
    stops: Sequence[tuple[str, ...]] = ()

    # What a store says of itself

    def require(self) -> None:
        """Raises UserError that says `storelab install …` where a program is missing, or who must run it."""
        self.program()

    def require_servers(self, copies: int, servers: str) -> None:
        """Raises UserError where there are fewer servers than copies. servers: what they are, for people."""
        if self.settings.servers < copies:
            raise UserError(
                f"{self.place}.servers",
                f"{self.settings.servers} {servers} cannot hold {self.settings.redundancy}",
                f"set servers to {copies} or more",
            )

    def require_paths(self, odd: str, *paths: Path) -> None:
        """Raises UserError where a path has a character that the system cannot have in one. odd: regular expression."""
        for path in paths:
            if found := re.search(odd, str(path)):
                raise UserError(
                    self.place,
                    f"{self.system} does not bear {found.group()!r} in a path: {str(path)!r}",
                    "use another folder",
                )

    @abstractmethod
    def make_ready(self) -> None:
        """Folders, settings, keys in `self.folder` and `self.data`; called under the lock before anything starts.

        Idempotent.
        """

    def started(self, daemon: Daemon) -> None:
        """Called when a daemon that was just started is healthy: what it needs before others depend on it."""

    def make_accounts(self, accounts: int) -> None:
        """Make the accounts 0 … n - 1 that are missing; called when all daemons run, before the warm-up."""

    def warm_up_one(self, endpoint: Endpoint) -> None:
        """Do one PUT and one GET in a bucket through a front-end.

        Raises UserError, MeasurementFailed where the front-end is not usable (yet).
        """
        from storelab.stores.protocols import access
        from storelab.stores.protocols.open_access import open_access

        way = open_access(endpoint, self.credentials(), self.place)
        with contextlib.suppress(access.BucketExists):
            way.make_bucket("storelab-warmup")
        key = f"warm-{re.split('[:/]', endpoint.url.rstrip('/'))[-1]}"
        try:
            way.write("storelab-warmup", key, b"warm")
            if way.read("storelab-warmup", key) != b"warm":
                raise MeasurementFailed(f"{self.place}: what was written at {endpoint.url} is not read back")
        except (access.NoSuchBucket, access.AccessRefused) as error:
            raise MeasurementFailed(f"{self.place}: {endpoint.url} is not usable ({type(error).__name__})") from None

    def healthy(self, daemon: Daemon) -> bool:
        """Whether a daemon that was started earlier can stay."""
        return daemon.healthy(3.0)

    def dismantle(self) -> None:
        """Called when all daemons have stopped: remove namespaces, sockets, mounts."""

    # What follows from it

    def prepare(self) -> None:
        """Raises UserError for a data folder that is not storelab's, or in use by another store."""
        data, place = self.data, f"{self.place}.directory"
        if data.exists() and not (data / MARKER).exists() and any(data.iterdir()):
            raise UserError(place, f"{data} is not empty and not made by storelab", "give an empty or a new folder")
        owner = (data / MARKER).read_text() if (data / MARKER).exists() else ""
        if owner not in ("", str(self.folder)) and self.daemons_of(Path(owner)).running():
            raise UserError(place, f"{data} is in use by the store in {owner}", "stop that one, or give another folder")
        if data.parent.parent == SHARED and not self.settings.directory:
            folders.private(data.parent, f"{self.place}.backing")
        for folder in (self.folder / "run", data):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (data / MARKER).write_text(str(self.folder))
        if self.drive_size:
            self.mount()
            (data / MARKER).write_text(str(self.folder))  # on the drive too, where it holds all data
        self.make_certificate()
        self.make_ready()

    def up(self, front_ends: int = 1, accounts: int = 1) -> None:
        for what, asked in (("front_ends", front_ends), ("accounts", accounts)):
            if not 1 <= asked <= self.most(what):
                raise UserError(
                    self.place, f"{asked} {what.replace('_', '-')} asked", f"1 to {self.most(what)} are possible"
                )
        if self.daemons.elsewhere():
            return elsewhere.look(self, front_ends, accounts)
        self.require()
        self.require_drives()
        self.mend()
        with self.daemons.lock():
            try:
                self.prepare()
            except OSError as error:
                raise UserError(
                    f"{self.place}.directory", f"{error.filename}: {error.strerror}", "give a folder to write in"
                ) from None
            self._resume()
            before = set(self.daemons.running())
            try:
                self._start(front_ends)
                self.make_accounts(accounts)
                self.note_accounts(accounts)
                self._warm_up()
            except BaseException:
                with contextlib.suppress(MeasurementFailed):
                    self._stop([n for n in self.daemons.records() if n not in before])
                    if not before:
                        self.dismantle()
                        self.unmount()
                raise

    def _start(self, front_ends: int) -> None:
        asked = {f"{self.front}{i}" for i in range(1, front_ends + 1)}
        wanted = sorted(asked | set(self.front_ends()), key=self._number)
        fresh = False
        for stage in self.stages(wanted):
            started = [d for n in stage if not self._taken_over(d := self.daemon(n), stale=fresh)]
            self.daemons.check_ports(started)
            for daemon in started:
                self.daemons.start(daemon)
            for daemon in started:
                self.daemons.wait_healthy(daemon, self.start_timeout)
                self.started(daemon)
            # A daemon that lost the one it talks to tries again with growing pauses: starting it anew is quicker and
            # surer.
            fresh = fresh or bool(started)

    def _taken_over(self, daemon: Daemon, stale: bool) -> bool:
        """True if it runs already as wanted and is healthy; otherwise it is stopped, if it runs at all."""
        pid = self.daemons.running().get(daemon.name) or self.daemons.adopt(daemon)
        if not pid:
            self.daemons.sweep([daemon.name])  # workers of one that was killed still have its port
            return False
        if not stale and self.daemons.records()[daemon.name]["argv"] == list(daemon.argv) and self.healthy(daemon):
            return True
        self.daemons.stop([daemon.name])
        return False

    def _warm_up(self) -> None:
        """Healthy is not usable: every front-end that is not known to be warm is tried for 30 s."""
        end = time.monotonic() + 30
        records = self.daemons.records()
        for name in (n for n in self.front_ends() if not records.get(n, {}).get("warm")):
            while True:
                try:
                    self.warm_up_one(self.endpoint(name))
                    break
                except (UserError, MeasurementFailed):
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.05)
            self.daemons.note(name, warm=True)

    def _stop(self, names: list[str]) -> list[int]:
        known = [[n for n in names if n.startswith(kinds)] for kinds in self.stops]
        rest = [n for n in names if not any(n in s for s in known)]
        return [pid for stage in (*known, rest) if stage for pid in self.daemons.stop(stage)]

    def down(self) -> list[int]:
        if not self.folder.exists() or self.daemons.elsewhere():
            return []
        with contextlib.suppress(UserError):  # what cannot be mended keeps nobody from stopping it
            self.mend()
        with self.daemons.lock():
            pids = self._stop(list(self.daemons.records())) + self.daemons.sweep()
            self.dismantle()
            self.unmount()
            for path in (self.folder / "run").glob("*.sock"):
                path.unlink(missing_ok=True)
            if self.settings.backing == "tmpfs" and not self.settings.directory and (self.data / MARKER).exists():
                shutil.rmtree(self.data)  # memory is given back; the marker says that storelab made it
            return pids

    def cool(self, front_ends: int = 1, accounts: int = 1) -> Cooling:
        """Stop all daemons, drop the pages of their files, which nobody maps then, and start them again."""
        if self.memory_only():
            return Cooling(why=f"its data lie in memory ({self.settings.backing})")
        if there := self.daemons.elsewhere():
            return Cooling(why=f"its daemons run on {there}")
        stopped = len(self.down())
        pages = PageCache([str(folder) for folder in (self.data, *([self.images] if self.disks() else []))])
        pages.drop()
        self.up(front_ends, accounts)
        done = [f"{stopped} processes ended and started anew", f"pages of {pages.files} files dropped"]
        return Cooling(done, self.data_folders(), pages.still_cached)

    def suspend(self) -> None:
        """Stop the daemons' CPU (SIGSTOP) while another store is measured. Idempotent."""
        if self.daemons.running():
            with self.daemons.lock():
                self.daemons.suspend()

    def resume(self) -> None:
        if self.daemons.running():
            with self.daemons.lock():
                self._resume()

    def _resume(self) -> None:
        if self.daemons.resume():
            for name in self.front_ends():
                self.daemons.note(name, warm=False)  # its connections are to be tried before they are relied on
