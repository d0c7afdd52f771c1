"""SeaweedFS on this machine: master, volume server, filer and 1..24 S3 front-ends, one process each (level 2, measuring side).

Only the front-ends ask for keys, so only they listen on `address`; the other daemons stay on loopback. They start in
stages: one that finds its master missing waits for seconds before it tries again. See docs/stores.md.
"""

import contextlib
import http.client
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from storelab.model import MeasurementFailed, UserError
from storelab.records import write_json
from storelab.stores import net
from storelab.stores.base import Credentials, Endpoint, Status, Store
from storelab.stores.daemons import Daemon, Daemons
from storelab.stores.folders import existing, filesystem

LOOPBACK = "127.0.0.1"
CORE = ("master", "volume", "filer")
FIRST_S3 = 8  # offset of the first front-end in the block of ports
MOST_FRONT_ENDS = 24
MARKER = ".storelab"  # in the data folder: storelab made it
NO_VACUUM = 10**8  # seconds: a vacuum comes when `reclaim` asks for it, not in the middle of a point
# Found first in the working folder, these also keep a system-wide /etc/seaweedfs out. No maintenance in the middle of a point.
TOML = {
    "security.toml": "# nothing: loopback only\n",
    "master.toml": '[master.maintenance]\nscripts = ""\nsleep_minutes = 100000\n\n[master.volume_growth]\ncopy_1 = {growth}\n',
    "filer.toml": '[leveldb2]\nenabled = true\ndir = "{data}/filer"\n',
}


class SeaweedFS(Store):
    managed = True

    def __init__(self, name: str, settings: Any, state: Path):
        super().__init__(name, settings, state)
        self.folder = Path(state).absolute() / name
        self.data = Path(settings.directory).expanduser().absolute() if settings.directory else self.folder / "data"
        self.place = f"stores.{name}"
        self.daemons = Daemons(self.folder, self.place)

    def program(self) -> Path:
        """The `weed` of this environment. Raises UserError where its wheel is missing."""
        path = Path(sys.executable).parent / "weed"
        if not path.exists():
            raise UserError(self.place, "the SeaweedFS wheel is missing (no `weed` beside Python)", "run `make setup`")
        return path

    @cached_property
    def _version(self) -> str:
        """Asked once for each installed program: `weed` takes a tenth of a second to tell."""
        program, note = self.program(), self.folder / "version.json"
        stamp = [program.stat().st_mtime_ns, program.stat().st_size]
        with contextlib.suppress(OSError, ValueError, KeyError):
            known = json.loads(note.read_bytes())
            if known["stamp"] == stamp:
                return known["version"]
        done = subprocess.run([program, "version"], capture_output=True, text=True, timeout=30, check=False)
        found = re.search(r"\d+GB (\S+)", done.stdout)
        version = found.group(1) if found else ""
        if self.folder.exists():
            write_json(note, {"stamp": stamp, "version": version})
        return version

    def version(self) -> str:
        return self._version

    def _port(self, name: str) -> int:
        return self.settings.port + (CORE.index(name) if name in CORE else FIRST_S3 + int(name.removeprefix("s3-")) - 1)

    def _daemon(self, name: str) -> Daemon:
        """How the daemon `master`, `volume`, `filer` or `s3-1` … runs."""
        s, port = self.settings, self._port(name)
        master, filer = (f"{LOOPBACK}:{self._port(n)}" for n in ("master", "filer"))
        host = s.address if name.startswith("s3-") else LOOPBACK
        kind = name.partition("-")[0]
        options = {
            "master": f"-peers=none -volumeSizeLimitMB={max(1, s.volume_size // 2**20)} -telemetry=false -vacuumIntervalSeconds={NO_VACUUM}",
            "volume": f"-master={master} -max={s.max_volumes} -preStopSeconds=0",
            "filer": f"-master={master} -localSocket=run/filer.sock",
            "s3": f"-filer={filer} -localSocket=run/{name}.sock -iam=false -autoCreateBucket=false -allowDeleteBucketNotEmpty=false -port.iceberg=0 -port.lance=0",
        }[kind].split()
        paths = {"master": [f"-mdir={self.data}/master"], "volume": [f"-dir={self.data}/volume"], "s3": [f"-config={self.folder}/s3.json"]}
        options += paths.get(kind, [])
        argv = (str(self.program()), "-logtostderr=true", kind, f"-ip={host}", f"-ip.bind={host}", f"-port={port}", *options)
        # Nobody's AWS_ or WEED_ variables reach a daemon; the filer never ends on SIGTERM, its writes are in the kernel by then.
        environ = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder), "TMPDIR": str(self.folder / "run")}
        grace = {"filer": 0.5, "s3": 0.5}.get(kind, 10.0)
        health = "/cluster/healthz" if name == "master" else "/healthz"
        return Daemon(name, argv, host, (port, port + 10000), health, grace, environ)

    def _prepare(self) -> None:
        """Folders, settings and keys. Raises UserError for a data folder that is not storelab's."""
        if self.data.exists() and not (self.data / MARKER).exists() and any(self.data.iterdir()):
            raise UserError(
                f"{self.place}.directory", f"{self.data} is not empty and not made by storelab", "give an empty or a new folder"
            )
        owner = (self.data / MARKER).read_text() if (self.data / MARKER).exists() else ""
        if owner not in ("", str(self.folder)) and Daemons(Path(owner), self.place).running():
            raise UserError(
                f"{self.place}.directory", f"{self.data} is in use by the store in {owner}", "stop that one, or give another folder"
            )
        for folder in (self.data / "master", self.data / "volume", self.data / "filer", self.folder / "run"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.data / MARKER).write_text(str(self.folder))
        growth = max(1, min(3, self.settings.max_volumes // 200))  # volumes that a bucket gets at once; it writes to all of them
        for name, text in TOML.items():
            (self.folder / name).write_text(text.format(growth=growth, data=self.data) if "{" in text else text)
        if not (self.folder / "s3.json").exists():
            keys = {"accessKey": "SL" + secrets.token_hex(9).upper(), "secretKey": secrets.token_hex(24)}
            one = {"name": "storelab", "credentials": [keys], "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
            temporary = self.folder / f".s3.json.{os.getpid()}"
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
                json.dump({"identities": [one]}, f)
            temporary.replace(self.folder / "s3.json")

    def up(self, front_ends: int = 1) -> None:
        if not 1 <= front_ends <= MOST_FRONT_ENDS:
            raise UserError(self.place, f"{front_ends} front-ends asked", f"1 to {MOST_FRONT_ENDS} fit in its block of ports")
        with self.daemons.lock():
            try:
                self._prepare()
            except OSError as error:
                raise UserError(f"{self.place}.directory", f"{error.filename}: {error.strerror}", "give a folder to write in") from None
            self._resume()
            before = set(self.daemons.running())
            try:
                self._start(front_ends)
            except BaseException:
                with contextlib.suppress(MeasurementFailed):
                    self._stop([n for n in self.daemons.records() if n not in before])
                raise

    def _start(self, front_ends: int) -> None:
        running = set(self.daemons.running())
        known = sorted(n for n in running if n.startswith("s3-"))
        wanted = sorted({*known, *(f"s3-{i}" for i in range(1, front_ends + 1))}, key=self._port)
        fresh = False
        for stage in (("master",), ("volume", "filer"), wanted):
            started = [d for n in stage if not self._taken_over(d := self._daemon(n), stale=fresh)]
            self.daemons.check_ports(started)
            for daemon in started:
                self.daemons.start(daemon)
            for daemon in started:
                self.daemons.wait_healthy(daemon)
                if daemon.name == "master":
                    self._awake(daemon)
            # One that lost what it talks to tries again with growing pauses: quicker, and surer, to start those behind it anew.
            fresh = fresh or bool(started)
        records = self.daemons.records()
        cold = [n for n in wanted if not records[n].get("warm")]
        if cold:
            self._warm_up(cold)

    def _taken_over(self, daemon: Daemon, stale: bool) -> bool:
        """True if it runs already as wanted and is healthy; otherwise it is stopped, if it runs at all."""
        running = self.daemons.running()
        pid = running.get(daemon.name) or self.daemons.adopt(daemon)
        if not pid:
            return False
        record = self.daemons.records()[daemon.name]
        # /dir/status needs the lock of the topology: a master that has locked itself up still answers its health check.
        paths = [daemon.health, "/dir/status"] if daemon.name == "master" else [daemon.health]
        healthy = all(net.answers(daemon.host, daemon.ports[0], path, 3.0) for path in paths)
        if not stale and record["argv"] == list(daemon.argv) and healthy:
            return True
        self.daemons.stop([daemon.name])
        return False

    def _awake(self, master: Daemon) -> None:
        """A master that resumes its state refuses all writes for some 20 s when it is elected before it listens for that (a race
        in its start, seen on busy machines): started once more, it is quick. Asked before anybody depends on it."""
        for _ in range(8):
            if b"warming up" not in self._ask("master", "/dir/assign", 5.0):
                return
            self.daemons.stop(["master"])
            self.daemons.start(master)
            self.daemons.wait_healthy(master)

    def _warm_up(self, names: Iterable[str]) -> None:
        """Healthy is not usable: one bucket, one PUT and one GET through every new front-end, tried for 30 s."""
        from storelab.stores import buckets

        end = time.monotonic() + 30
        for name in names:
            client = buckets.client(self._endpoint(name), self.credentials(), read_timeout=20)
            while True:
                try:
                    with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou, client.exceptions.BucketAlreadyExists):
                        client.create_bucket(Bucket="storelab-warmup")
                    client.put_object(Bucket="storelab-warmup", Key=name, Body=b"warm")
                    if client.get_object(Bucket="storelab-warmup", Key=name)["Body"].read() == b"warm":
                        break
                except buckets.ERRORS as error:
                    if time.monotonic() > end:
                        raise buckets.explain(error, self.place) from None
                    time.sleep(0.05)
            self.daemons.note(name, warm=True)

    def _stop(self, names: list[str]) -> list[int]:
        """Front-ends first, so that nothing is in flight when the rest ends."""
        stages = [n for n in names if n.startswith("s3-")], ["filer"], ["volume", "master"]
        return [pid for stage in stages for pid in self.daemons.stop([n for n in stage if n in names])]

    def down(self) -> list[int]:
        if not self.folder.exists():
            return []
        with self.daemons.lock():
            pids = self._stop(list(self.daemons.records()))
            for path in (self.folder / "run").glob("*.sock"):
                path.unlink(missing_ok=True)
            return pids

    def suspend(self) -> None:
        if self.daemons.running():
            with self.daemons.lock():
                self.daemons.suspend()

    def resume(self) -> None:
        if self.daemons.running():
            with self.daemons.lock():
                self._resume()

    def _resume(self) -> None:
        if self.daemons.resume():
            for name in self._front_ends():
                self.daemons.note(name, warm=False)  # its connections are to be tried before they are relied on

    def actors(self) -> dict[str, int]:
        return self.daemons.running()

    def _front_ends(self) -> list[str]:
        return sorted((n for n in self.daemons.running() if n.startswith("s3-")), key=self._port)

    def _endpoint(self, name: str) -> Endpoint:
        return Endpoint(f"http://{self.settings.address}:{self._port(name)}")

    def endpoints(self, front_ends: int = 1) -> list[Endpoint]:
        names = self._front_ends()
        if len(names) < front_ends:
            raise UserError(self.place, f"{front_ends} front-ends asked, {len(names)} run", "run `storelab up`")
        return [self._endpoint(n) for n in names[:front_ends]]

    def credentials(self) -> Credentials:
        try:
            keys = json.loads((self.folder / "s3.json").read_bytes())["identities"][0]["credentials"][0]
        except FileNotFoundError:
            raise UserError(self.place, "was never started: it has no keys yet", "run `storelab up`") from None
        return Credentials(keys["accessKey"], keys["secretKey"])

    def status(self) -> Status:
        pids = self.daemons.running()
        missing = [n for n in (*CORE, "s3-1") if n not in pids]
        state = "down" if not pids else "partly" if missing else "up"
        detail = f"missing: {', '.join(missing)}" if state == "partly" else ""
        return Status(self.name, "seaweedfs", state, self.version(), [self._endpoint(n).url for n in self._front_ends()], pids, detail)

    def deployment(self) -> dict[str, Any]:
        pids, s = self.daemons.running(), self.settings
        return {
            "system": "SeaweedFS",
            "version": self.version(),
            "daemons": {"master": 1, "volume": 1, "filer": 1, "s3": len(self._front_ends())} if pids else {},
            "front_ends": len(self._front_ends()),
            "redundancy": "none",
            "backing": filesystem(self.data),
            "volume_size_bytes": s.volume_size,
            "max_volumes": s.max_volumes,
        }

    def free_bytes(self) -> int:
        return shutil.disk_usage(existing(self.data)).free

    def reclaim(self, timeout: float = 60.0) -> None:
        """Vacuum until the volumes hold no deleted bytes, or for `timeout` s: deletes reach the volumes some seconds late."""
        end = time.monotonic() + timeout
        clean = 0
        with self.daemons.lock():
            while clean < 3 and time.monotonic() < end:
                self._ask("master", "/vol/vacuum?garbageThreshold=0.0001", max(1.0, end - time.monotonic()))
                volumes = json.loads(self._ask("volume", "/status", 10.0)).get("Volumes") or []
                clean = 0 if any(v.get("DeletedByteCount") for v in volumes) else clean + 1
                time.sleep(0.5)

    def _ask(self, name: str, path: str, timeout: float) -> bytes:
        try:
            return net.get(LOOPBACK, self._port(name), path, timeout)[1]
        except (OSError, http.client.HTTPException) as error:
            raise MeasurementFailed(f"{self.place}: {name} does not answer {path.partition('?')[0]} ({error})") from None
