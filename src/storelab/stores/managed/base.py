"""Base class of stores that storelab runs: folder, data, start in stages, warm-up, stop, suspension, faults.

A managed store defines its daemons and how each of them runs. `Managed` starts missing daemons, does not touch daemons
that already run as configured, and stops the new daemons again if a start fails. It never changes a data folder that
storelab did not create.
"""

import contextlib
import hashlib
import os
import re
import shutil
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from storelab.core import folders
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.records import read_as, write_json
from storelab.host import processes
from storelab.host.page_cache import PageCache
from storelab.host.scratch import existing, filesystem
from storelab.install import program
from storelab.install.chroot import Chroot
from storelab.stores.base import Cooling, Status, Store
from storelab.stores.managed import drives, network
from storelab.stores.managed.accounts import Accounts, make_certificate
from storelab.stores.managed.daemon import Daemon, environment
from storelab.stores.protocols.endpoint import Credentials, Endpoint

if TYPE_CHECKING:
    from storelab.stores.managed.daemons import Daemons

LOOPBACK = "127.0.0.1"
MARKER = ".storelab"  # this file marks a data folder that storelab created
HOST_PIDS = 0xEFFFFFFC  # number of the pid namespace of every host (include/linux/proc_ns.h: PROC_PID_INIT_INO)
SHARED = Path("/dev/shm")  # tmpfs, whose files remain when processes end


class Managed(Store):
    """A store whose daemons storelab runs on this machine.

    Attributes
    ----------
    folder
        Folder of the store.
    data
        Folder of the store's data.
    keyring
        Keys of the store's accounts.
    drives
        Drives of the store that are separate file systems.
    """

    managed = True
    reports_usage = True
    system = ""  # printed name of the system
    binary = ""  # program that prints the version; default: the kind
    installed_by = ""  # name for `storelab install`; default: the kind
    releases: Mapping[str, Chroot] = {}  # folders with other versions, by the setting `version`
    version_flag = "--version"  # option of the program that prints the version
    version_pattern = r"(\S+)"  # matches the output of the program; the first group is the version
    front = "s3-"  # prefix of the names of front-ends, e.g. `s3-1`
    most_front_ends = 1
    most_accounts = 1
    start_timeout = 20.0  # seconds until a daemon must be healthy
    # Prefixes of the names of daemons that stop together. Front-ends stop first, so that no requests are in flight.
    stops: Sequence[tuple[str, ...]] = ()

    def __init__(self, name: str, settings: Any, state: Path):
        super().__init__(name, settings, state)
        self.folder = Path(state).absolute() / name
        self.data = self._data_folder()
        self.keyring = Accounts(self.folder, self.place, name)
        self.drives = drives.Drives(self)

    def _data_folder(self) -> Path:
        s = self.settings
        if s.directory:
            suffix = self.name.partition("+")[2]  # deployments of one store do not share their data
            return Path(s.directory).expanduser().absolute() / suffix
        if s.backing == "tmpfs":
            # Containers may share this tmpfs, and may have the same path of `state`.
            number = processes.pid_namespace()
            container = "" if number == HOST_PIDS else f"-{number:x}"
            return SHARED / f"storelab-{os.getuid()}-stores" / f"{short_name(self.folder)}-{self.name}{container}"
        return self.folder / "data"

    # Methods that the kinds of stores define

    def program(self) -> Path:
        """Return the program that prints the version. Raises UserError with `storelab install …` if it is missing."""
        return self.find_program(self.binary or self.settings.kind)

    def release(self, version: str | None = None) -> Chroot | None:
        """Return the folder with a version (default: the one that is set); None for the programs of this host.

        Raises UserError if storelab cannot install this version.
        """
        version = version or getattr(self.settings, "version", None)
        if version is None or not self.releases:
            return None
        if version not in self.releases:
            raise UserError(
                f"{self.place}.version",
                f"storelab does not have {self.system} {version}",
                f"use one of: {', '.join(self.releases)}; or leave it out, for the version of this host",
            )
        return self.releases[version]

    def find_program(self, name: str, version: str | None = None) -> Path:
        """Return one of the system's programs. Raises UserError with `storelab install …` if it is missing."""
        if release := self.release(version):
            return release.path(name, self.place)
        return program(name, self.installed_by or self.settings.kind, self.place)

    def require_release(self) -> None:
        """Raise UserError if this user cannot run the programs of the version that is set, in the store's folders."""
        if not self.release():
            return
        for path in (self.folder, self.data):
            if path.is_relative_to("/usr"):
                raise UserError(
                    f"{self.place}.version",
                    f"{path} is below /usr, which this version replaces by its own",
                    "use another folder",
                )
        done = processes.run_command([*self.enter_release(), "true"], 30)
        if done.returncode:
            raise UserError(
                f"{self.place}.version",
                f"this user cannot mount the programs of another version: {processes.words(done)}",
                "run storelab as root, or leave `version` out",
            )

    def enter_release(self, version: str | None = None) -> tuple[str, ...]:
        """Return the command prefix of the system's programs, which is empty for the programs of this host."""
        release = self.release(version)
        return release.enter() if release else ()

    def require(self) -> None:
        """Check that this user can run the store on this machine.

        Raises UserError with `storelab install …` if a program is missing, or if another user must run the store.
        """
        self.program()

    @abstractmethod
    def daemon(self, name: str) -> Daemon:
        """Return the definition of the daemon with this name."""

    def stages(self, front_ends: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return the names of the daemons in the order of their start: each stage starts after the previous one."""
        return (front_ends,)

    @abstractmethod
    def make_ready(self) -> None:
        """Create the folders, settings and keys that daemons need, in `self.folder` and `self.data`.

        It is called under the lock before any daemon starts, and can be called again.
        """

    def started(self, daemon: Daemon) -> None:
        """Finish the start of a daemon. It is called when a daemon that was just started is healthy."""

    def make_accounts(self, accounts: int) -> None:
        """Create missing accounts, up to this number. It is called when all daemons run, before the warm-up."""

    def warm_up_one(self, endpoint: Endpoint) -> None:
        """Do one PUT and one GET in a bucket through a front-end.

        Raises UserError or MeasurementFailed if the front-end is not usable (yet).
        """
        from storelab.stores.protocols import access, open_access

        way = open_access(endpoint, self.credentials(), self.place)
        with contextlib.suppress(access.BucketExists):
            way.make_bucket("storelab-warmup")
        key = f"warm-{re.split('[:/]', endpoint.url.rstrip('/'))[-1]}"
        try:
            way.write("storelab-warmup", key, b"warm")
            if way.read("storelab-warmup", key) != b"warm":
                raise MeasurementFailed(f"{self.place}: data read from {endpoint.url} differ from what was written")
        except (access.NoSuchBucket, access.AccessRefused) as error:
            raise MeasurementFailed(f"{self.place}: {endpoint.url} is not usable ({type(error).__name__})") from None

    def healthy(self, daemon: Daemon) -> bool:
        """Return whether a daemon that was started earlier can continue to run."""
        return daemon.healthy(3.0)

    def dismantle(self) -> None:
        """Remove namespaces, sockets and mounts. It is called when all daemons have stopped."""

    def require_servers(self, copies: int, servers: str) -> None:
        """Raise UserError if there are fewer servers than copies. `servers` is the servers' name in the message."""
        if self.settings.servers < copies:
            raise UserError(
                f"{self.place}.servers",
                f"{self.settings.redundancy} needs {copies} {servers}, but there are {self.settings.servers}",
                f"set servers to {copies} or more",
            )

    def require_paths(self, unsupported: str, *paths: Path) -> None:
        """Raise UserError if a path contains a character that matches the regular expression `unsupported`."""
        for path in paths:
            if found := re.search(unsupported, str(path)):
                raise UserError(
                    self.place,
                    f"{self.system} does not support {found.group()!r} in a path: {str(path)!r}",
                    "use another folder",
                )

    # Daemons and front-ends

    @cached_property
    def daemons(self) -> "Daemons":
        return self.daemons_of(self.folder)

    def daemons_of(self, folder: Path) -> "Daemons":
        """Return the daemons that are recorded in a store's folder."""
        from storelab.stores.managed.daemons import Daemons  # imported here, because psutil is slow to import

        return Daemons(folder, self.place)

    def actors(self) -> dict[str, int]:
        """Return the pids of the running daemons and their workers, by name."""
        return self.daemons.all_processes()

    def _number(self, name: str) -> int:
        return int(name.removeprefix(self.front))

    def front_ends(self) -> list[str]:
        """Return the names of the running front-ends."""
        return sorted((n for n in self.daemons.running() if n.startswith(self.front)), key=self._number)

    def address(self, front_end: int) -> str:
        """Return the address on which the front-end with this number (from 1) listens."""
        several = self.settings.front_end_addresses
        return several[(front_end - 1) % len(several)] if several else self.settings.address

    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint of this front-end, as clients use it."""
        daemon = self.daemon(name)
        ca_file = str(self.folder / "tls" / "ca.pem") if daemon.tls else None
        host = getattr(self.settings, "advertise", None) or daemon.host
        url = f"{'https' if daemon.tls else 'http'}://{host}:{daemon.ports[0]}"
        return Endpoint(url, ca_file=ca_file, protocol=self.protocol)

    def endpoints(self, front_ends: int = 1) -> list[Endpoint]:
        names = self.front_ends()
        if len(names) < front_ends:
            raise UserError(
                self.place, f"front-ends: {front_ends} requested, {len(names)} running", "run `storelab up`"
            )
        return [self.endpoint(n) for n in names[:front_ends]]

    def serves(self, url: str) -> bool:
        parts = urlsplit(url)
        port = parts.port or {"https": 443}.get(parts.scheme, 80)
        records = self.daemons.records()
        there = [
            records[name].get("host", "") for name in self.daemons.running() if port in records[name].get("ports", ())
        ]
        if there and (public := getattr(self.settings, "advertise", None)):
            there.append(public)
        return any(network.same_host(parts.hostname or "", host) for host in there)

    def most(self, axis: str) -> int:
        return {"front_ends": self.most_front_ends, "accounts": self.most_accounts}[axis]

    # Accounts

    def accounts(self) -> int:
        """Return the highest number of accounts that was ever requested."""
        return self.keyring.used()

    def credentials(self, account: int = 0) -> Credentials | None:
        return self.keyring.credentials(account) if self.protocol == "s3" else None

    def make_keys(self, accounts: int) -> list[dict[str, str]]:
        """Return the keys of the first `accounts` accounts, and create missing keys."""
        return self.keyring.make(accounts)

    def root_keys(self) -> Credentials:
        """Return the keys of the system's administrator, which is a separate account."""
        return self.keyring.root()

    def make_certificate(self) -> None:
        """Create a certificate for the store's addresses in `tls/` if the setting `tls` is on."""
        s = self.settings
        if getattr(s, "tls", False):
            names = [s.address, *s.front_end_addresses, *([s.advertise] if s.advertise else []), "localhost"]
            make_certificate(self.folder / "tls", names)

    # Start and stop

    def prepare(self) -> None:
        """Create the folders, drives, certificate and files that daemons need.

        Raises UserError if storelab did not create the data folder, or if another store uses it.
        """
        data, place = self.data, f"{self.place}.directory"
        if data.exists() and not (data / MARKER).exists() and any(data.iterdir()):
            problem = f"{data} is not empty, and storelab did not create it"
            raise UserError(place, problem, "use an empty or a new folder")
        owner = (data / MARKER).read_text() if (data / MARKER).exists() else ""
        if owner not in ("", str(self.folder)) and self.daemons_of(Path(owner)).running():
            raise UserError(place, f"the store in {owner} uses {data}", "stop that store, or set another folder")
        if data.parent.parent == SHARED and not self.settings.directory:
            folders.private(data.parent, f"{self.place}.backing")
        for folder in (self.folder / "run", data):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (data / MARKER).write_text(str(self.folder))
        if self.drives.size:
            self.drives.mount()
            (data / MARKER).write_text(
                str(self.folder)
            )  # write it again, because a drive can be mounted at this folder
        self.make_certificate()
        self.make_ready()

    def up(self, front_ends: int = 1, accounts: int = 1) -> None:
        for what, requested in (("front_ends", front_ends), ("accounts", accounts)):
            if not 1 <= requested <= self.most(what):
                raise UserError(
                    self.place, f"{what.replace('_', '-')}: {requested} requested", f"request 1 to {self.most(what)}"
                )
        if there := self.daemons.elsewhere():
            return self._look(there, front_ends, accounts)
        self.require()
        self.drives.require()
        self.repair()
        with self.daemons.lock():
            try:
                self.prepare()
            except OSError as error:
                raise UserError(
                    f"{self.place}.directory", f"{error.filename}: {error.strerror}", "use a writable folder"
                ) from None
            self._resume()
            before = set(self.daemons.running())
            if not before:
                self.keep(False)
            try:
                self._start(front_ends)
                self.make_accounts(accounts)
                self.keyring.use(accounts)
                self._warm_up()
            except BaseException:
                with contextlib.suppress(MeasurementFailed):
                    self._stop([n for n in self.daemons.records() if n not in before])
                    if not before:
                        self.dismantle()
                        self.drives.unmount()
                raise

    def keep(self, wanted: bool = True) -> None:
        """Record whether the user started this store. Such a store is not stopped at the end of a run."""
        if wanted:
            self._kept.touch()
        else:
            self._kept.unlink(missing_ok=True)

    def kept(self) -> bool:
        """Return whether the user started this store."""
        return self._kept.exists()

    @property
    def _kept(self) -> Path:
        return self.folder / "started-by-user"

    def _look(self, there: str, front_ends: int, accounts: int) -> None:
        """Check a store that runs on another host. This host never starts, signals or stops its daemons.

        Raises UserError if the store has fewer front-ends or accounts, or if a front-end does not answer.
        """
        names = self.front_ends()
        if len(names) < front_ends or self.accounts() < accounts:
            raise UserError(
                self.place,
                f"front-ends: {front_ends} requested, {len(names)} on {there}; "
                f"accounts: {accounts} requested, {self.accounts()} on {there}",
                f"run `storelab up` on {there}",
            )
        for name in names[:front_ends]:
            try:
                self.warm_up_one(self.endpoint(name))
            except (UserError, MeasurementFailed, OSError) as error:
                hint = f"run `storelab up` on {there}; if that host no longer exists, remove {self.daemons.file}"
                raise UserError(self.place, f"{name} on {there} does not answer: {error}", hint) from None

    def _start(self, front_ends: int) -> None:
        requested = {f"{self.front}{i}" for i in range(1, front_ends + 1)}
        wanted = sorted(requested | set(self.front_ends()), key=self._number)
        fresh = False
        for stage in self.stages(wanted):
            started = [d for n in stage if not self._keep_running(d := self.daemon(n), stale=fresh)]
            self.daemons.check_ports(started)
            for daemon in started:
                self.daemons.start(daemon)
            for daemon in started:
                self.daemons.wait_healthy(daemon, self.start_timeout)
                self.started(daemon)
            # A daemon that lost its connection to another daemon retries with growing pauses. A restart is faster and
            # more reliable.
            fresh = fresh or bool(started)

    def _keep_running(self, daemon: Daemon, stale: bool) -> bool:
        """Return whether a daemon can keep running: it runs as configured and is healthy. Otherwise stop it."""
        pid = self.daemons.running().get(daemon.name) or self.daemons.adopt(daemon)
        if not pid:
            self.daemons.sweep([daemon.name])  # workers of a killed daemon still use its port
            return False
        if not stale and self.daemons.records()[daemon.name]["argv"] == list(daemon.argv) and self.healthy(daemon):
            return True
        self.daemons.stop([daemon.name])
        return False

    def _warm_up(self) -> None:
        """Wait up to 30 s until every front-end that is not warm is usable, because a healthy one may not be yet."""
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
        with contextlib.suppress(UserError):  # an unrepairable fault must not prevent stopping the store
            self.repair()
        with self.daemons.lock():
            pids = self._stop(list(self.daemons.records())) + self.daemons.sweep()
            self.dismantle()
            self.drives.unmount()
            for path in (self.folder / "run").glob("*.sock"):
                path.unlink(missing_ok=True)
            if self.settings.backing == "tmpfs" and not self.settings.directory and (self.data / MARKER).exists():
                shutil.rmtree(self.data)  # free the memory; the marker proves that storelab created the folder
            return pids

    def cool(self, front_ends: int = 1, accounts: int = 1) -> Cooling:
        """Stop all daemons, drop the cached pages of their files, and start them again."""
        if self.memory_only():
            return Cooling(why=f"the store's data are in memory ({self.settings.backing})")
        if there := self.daemons.elsewhere():
            return Cooling(why=f"the store's daemons run on {there}")
        kept, stopped = self.kept(), len(self.down())
        images = [self.drives.images] if self.drives.folders() else []
        pages = PageCache([str(folder) for folder in (self.data, *images)])
        pages.drop()
        self.up(front_ends, accounts)
        self.keep(kept)
        done = [f"{stopped} processes stopped and restarted", f"pages of {pages.files} files dropped"]
        return Cooling(done, self.data_folders(), pages.still_cached)

    def suspend(self) -> None:
        """Pause the daemons (SIGSTOP) while another store is measured."""
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
                self.daemons.note(name, warm=False)  # so that the next warm-up tests its connections

    # State, version, space

    def status(self) -> Status:
        pids, there = self.daemons.running(), self.daemons.elsewhere()
        missing = [n for stage in self.stages([f"{self.front}1"]) for n in stage if n not in pids]
        state = "down" if not pids else "partly" if missing else "up"
        detail = f"started on {there}" if there else f"missing: {', '.join(missing)}" if state == "partly" else ""
        try:
            version = self.version()
        except (UserError, MeasurementFailed):
            version = ""
        urls = [self.endpoint(n).url for n in self.front_ends()]
        return Status(self.name, self.settings.kind, state, version, urls, pids, detail)

    def deployment(self) -> dict[str, Any]:
        """Return the deployment for the records: system, version, daemons, front-ends, redundancy, backing etc.

        Daemons are counted by kind, which is the part of their name before the last '-'.
        """
        names = list(self.daemons.running())
        kinds = [n.rpartition("-")[0] or n for n in names]
        out = {
            "system": self.system,
            "version": self.version(),
            "daemons": {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
            "front_ends": len(self.front_ends()),
            "servers": getattr(self.settings, "servers", 1),
            "redundancy": getattr(self.settings, "redundancy", "none"),
            "backing": "memory" if self.settings.backing == "memory" else filesystem(self.data),
            "tls": bool(getattr(self.settings, "tls", False)),
            "accounts": self.accounts(),
        }
        if timeouts := self.timeouts():
            out["timeouts"] = timeouts
        if self.drives.folders():
            out |= {"drive_size_bytes": self.drives.size, "drives_on": filesystem(self.drives.images)}
        return out

    @cached_property
    def _version(self) -> str:
        """The version. It is requested once for each installed program, and cached in the store's folder."""
        program, note = self.program(), self.folder / "version.json"
        stamp = [str(program), program.stat().st_mtime_ns, program.stat().st_size]
        with contextlib.suppress(UserError):
            known = read_as(note, dict[str, Any], "")
            if known.get("stamp") == stamp and isinstance(known.get("version"), str):
                return known["version"]
        version = self.ask_version(program)
        if self.folder.exists():
            write_json(note, {"stamp": stamp, "version": version})
        return version

    def ask_version(self, program: Path) -> str:
        """Return the version that the program prints; '' if it prints none."""
        release = next((r for r in self.releases.values() if r.contains(program)), None)
        command = [*(release.enter() if release else ()), program, self.version_flag]
        done = processes.run_command(command, 30, environment(self.folder, {}))
        found = re.search(self.version_pattern, done.stdout + done.stderr)
        return found.group(1) if found else ""

    def memory_only(self) -> bool:
        return self.settings.backing == "memory" or filesystem(self.data) == "tmpfs" or self.drives.in_memory()

    def data_folders(self) -> list[Path]:
        return [self.data] if not self.memory_only() and not self.daemons.elsewhere() and self.data.exists() else []

    def free_bytes(self) -> int | None:
        return self.drives.free_bytes() if self.drives.folders() else shutil.disk_usage(existing(self.data)).free

    def capacity_bytes(self) -> int | None:
        """Return the space for objects on the empty drives in bytes; None if the store shares its disk with others."""
        return self.drives.capacity_bytes() if self.drives.folders() else None

    def used_bytes(self) -> int | None:
        """Return the bytes that the files of the data folder use on disk, after the kernel has written all data."""
        os.sync()
        return sum(p.lstat().st_blocks * 512 for p in self.data.rglob("*")) if self.data.exists() else None

    # Faults, see docs/faults.md

    def front_actors(self, front_ends: int) -> list[str]:
        return [f"{self.front}{i}" for i in range(1, front_ends + 1)]

    def data_actors(self) -> list[str]:
        return [drives.WHOLE] if self.drives.size else []

    def daemon_actors(self, front_ends: int | None = None) -> list[str]:
        """Return the names of all daemons with this number of front-ends; default: the maximum number."""
        fronts = self.front_actors(self.most_front_ends if front_ends is None else front_ends)
        return [name for stage in self.stages(fronts) for name in stage]

    def known_actors(self, front_ends: int) -> list[str]:
        return list(dict.fromkeys([*self.daemon_actors(front_ends), *self.data_actors()]))

    def repair(self) -> list[str]:
        return [] if self.daemons.elsewhere() else super().repair()

    def timeouts(self) -> dict[str, Any]:
        """Return the settings that control when the system notices a loss; {} if storelab does not change them."""
        return {}

    def link(self, actor: str, place: str) -> network.Link:
        """Return the network link of a daemon. Raises UserError if it shares its link with another daemon."""
        if actor not in self.daemon_actors():
            raise UserError(place, f"{actor} is a drive, which has no network link", "name a daemon")
        host = self.daemon(actor).host
        others = [n for n in self.daemons.running() if n != actor and self.daemon(n).host == host]
        if others and not host.startswith("127."):
            raise UserError(
                place,
                f"{actor} shares its address {host} with {others[0]}",
                "give it a separate address, or apply the fault to both",
            )
        return network.link_at(host, place, actor)

    def drive_folder(self, actor: str) -> Path | None:
        """Return the folder of the drive that this actor is or uses; None if a fault cannot remove such a drive."""
        return self.data if self.drives.size and actor == drives.WHOLE else None

    def drive(self, actor: str, place: str) -> Path:
        """Return the folder of an actor's drive. Raises UserError if a fault cannot remove this drive."""
        if (folder := self.drive_folder(actor)) is None:
            raise UserError(
                place,
                f"{actor} of store {self.name} (kind {self.settings.kind}) has no drive that can be removed",
                "kill or hang a daemon instead",
            )
        return folder

    def require_full(self, actor: str, place: str) -> None:
        """Raise UserError if an actor's disk cannot be filled."""
        if actor not in self.drives.folders():  # such a drive can be filled once it is mounted
            drives.require_full(self.drive(actor, place), place)

    def fill(self, actor: str) -> str:
        """Fill all the space of an actor's drive. Return the number of bytes as text for the record."""
        return f"{drives.fill(self.drive(actor, ''))} bytes"

    def empty(self, actor: str) -> None:
        """Undo `fill`."""
        drives.empty(self.drive(actor, ""))

    # Versions of the store's program, for upgrades

    @cached_property
    def versions(self) -> dict[str, str]:
        """The versions of the daemons, by name, that run another version than configured during a fault."""
        return {}

    @cached_property
    def _known_versions(self) -> dict[str, str]:
        return {}

    def program_of(self, version: str) -> Path:
        """Return the program of this version. Raises UserError if it does not exist."""
        raise UserError(
            self.place,
            f"a running {self.system} cannot be upgraded to {version}",
            "upgrade a store of kind seaweedfs or xrootd, or write the fault as a `command`",
        )

    def require_version(self, version: str, place: str) -> None:
        """Raise UserError if no daemon can be upgraded to this version."""
        try:
            self.program_of(version)
        except UserError as error:
            raise UserError(place, error.problem, error.hint) from None

    def version_of(self, actor: str) -> str:
        """Return the version that a daemon runs."""
        return self.reported_version(self.versions[actor]) if actor in self.versions else self.version()

    def reported_version(self, version: str) -> str:
        """Return the version as the program prints it. The program is run only once, because it is slow."""
        if version not in self._known_versions:
            self._known_versions[version] = self.ask_version(self.program_of(version))
        return self._known_versions[version]


def short_name(folder: Path) -> str:
    """Return a short, stable and unique name of this folder, for namespaces and for folders on tmpfs."""
    return hashlib.sha256(str(folder).encode()).hexdigest()[:8]
