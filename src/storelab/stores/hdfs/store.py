"""HDFS on this machine: a NameNode and up to seven DataNodes, one Java process each, accessed over WebHDFS.

The NameNode is the only front-end. It redirects every reader and writer to a DataNode. Therefore DataNodes listen on
`address` too. There is no authentication. Options that differ from Hadoop's defaults make the start quick, detect a
lost DataNode after 14 s, and prevent maintenance during a point.
"""

import contextlib
import hashlib
import json
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape

from pydantic import Field

from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import Part, tools_folder
from storelab.stores.base import CLEAN, CONDITION_TIMEOUT_S, DEGRADED, DOWN, RECOVERING, Condition
from storelab.stores.hdfs import install
from storelab.stores.managed import network
from storelab.stores.managed.base import LOOPBACK, Managed
from storelab.stores.managed.daemon import Daemon, environment
from storelab.stores.managed.settings import ListeningSettings
from storelab.stores.protocols.endpoint import Endpoint

COPIES = {"none": 1, "replica-2": 2, "replica-3": 3}
BLOCK = 128 * 1024**2  # block size in bytes; Hadoop's default
SERVER = "org.apache.hadoop.hdfs.server"
CORE = {
    "ipc.client.connect.retry.interval": 100,  # ms; a DataNode joins as soon as its NameNode is up
    "ipc.client.connect.max.retries": 100,
    "hadoop.security.group.mapping": "org.apache.hadoop.security.NullGroupsMapping",  # runs no shell for groups
    # Does not run du over all blocks.
    "fs.getspaceused.classname": f"{SERVER}.datanode.fsdataset.impl.ReplicaCachingGetSpaceUsed",
}
SITE = {
    "dfs.permissions.enabled": "false",
    "dfs.blocksize": BLOCK,
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    "dfs.heartbeat.interval": 1,  # s; a DataNode is dead after 2 x recheck + 10 x heartbeat
    "dfs.namenode.heartbeat.recheck-interval": 2000,  # ms
    "dfs.namenode.stale.datanode.interval": 3000,  # ms; after this time, a silent DataNode is used last
    "dfs.namenode.avoid.read.stale.datanode": "true",
    "dfs.namenode.avoid.write.stale.datanode": "true",
    "dfs.client.socket-timeout": 5000,  # ms that an operation waits for a hanging DataNode; one minute by default
    "dfs.namenode.reconstruction.pending.timeout-sec": 10,  # s before a lost copy is replaced; five minutes by default
    "dfs.datanode.socket.write.timeout": 5000,  # ms; eight minutes by default
    "dfs.namenode.redundancy.interval.seconds": 1,
    "dfs.namenode.safemode.extension": 0,
    "dfs.namenode.accesstime.precision": 0,  # so that reads do not cause writes of access times
    "dfs.datanode.scan.period.hours": -1,  # no maintenance during a point
    "dfs.datanode.directoryscan.interval": -1,
    "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",  # another DataNode may not exist
    "dfs.namenode.fs-limits.min-block-size": 4096,
}
# These options control when the NameNode and waiting clients notice that a DataNode is lost.
TIMEOUTS = (
    "dfs.heartbeat.interval",
    "dfs.namenode.heartbeat.recheck-interval",
    "dfs.namenode.stale.datanode.interval",
    "dfs.namenode.reconstruction.pending.timeout-sec",
    "dfs.client.socket-timeout",
    "dfs.datanode.socket.write.timeout",
)
LOGGING = """log4j.rootLogger=WARN,A
log4j.appender.A=org.apache.log4j.ConsoleAppender
log4j.appender.A.layout=org.apache.log4j.EnhancedPatternLayout
log4j.appender.A.layout.ConversionPattern=%d %p %c{1}: %m%n%throwable{3}
"""
FIRST_DATANODE = 4  # offset in the block of ports; three ports per DataNode: data, HTTP, RPC
ENVIRON = {"LANG": "C.UTF-8"}
HEAP = {"namenode": 512, "datanode": 256}  # heap size in MiB
JAVA = (
    *("-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError", "-Djava.net.preferIPv4Stack=true"),
    *("--add-opens", "java.base/java.lang=ALL-UNNAMED"),  # without this option, WebHDFS answers with status 500
)
CLASSES = {"namenode": f"{SERVER}.namenode.NameNode", "datanode": f"{SERVER}.datanode.DataNode"}
# Hadoop converts paths to lists and URIs. A % in a URI makes a DataNode crash, because it uses the URI as a format
# string.
ODD = r"[^A-Za-z0-9_/.+@=~-]"


class Settings(ListeningSettings):
    """An HDFS on this machine: NameNode and DataNodes as plain Java processes, accessed over WebHDFS."""

    kind: Literal["hdfs"]
    port: int = Field(
        21000,
        ge=1024,
        le=32000,
        description="First port of a block of 40 ports: RPC, then WebHDFS, then three for each DataNode.",
    )
    servers: int = Field(3, ge=1, le=7, description="Number of DataNodes.")
    redundancy: Literal["none", "replica-2", "replica-3"] = Field("replica-2", description="Copies of every block.")


class HDFS(Managed):
    """A NameNode and DataNodes of HDFS on this machine, used through WebHDFS."""

    Settings = Settings
    system = "HDFS"
    protocol = "webhdfs"
    front = "namenode-"
    port_block = 40
    start_timeout = 90.0
    stops = (("namenode-",), ("datanode-",))
    java_options: tuple[str, ...] = ()  # `%s` is replaced by the daemon's name
    _hurt = False  # whether copies were missing and are not all replaced yet

    @staticmethod
    def recipe(tools: Path) -> list[Part]:
        return install.parts(tools, HDFS)

    @cached_property
    def tools(self) -> Path:
        """The folder where the jars are installed."""
        return tools_folder()

    def require(self) -> None:
        address = self.settings.address
        self.require_servers(COPIES[self.settings.redundancy], "DataNodes")
        if ":" in address:
            raise UserError(f"{self.place}.address", f"HDFS supports only IPv4, not {address}", f"use {LOOPBACK}")
        self.require_paths(ODD, self.data, self.folder, self.tools)
        self.program()
        if not install.class_path(self.tools).exists():
            raise UserError(self.place, f"Hadoop {install.HADOOP} is not installed", "run `storelab install hdfs`")

    def program(self) -> Path:
        """Return a Java program that can run Hadoop. Raises UserError if there is none."""
        found = install.java()
        if found is None:
            oldest, newest = install.OLDEST, install.NEWEST
            raise UserError(
                self.place, f"there is no Java {oldest} to {newest} on this machine", "run `storelab install hdfs`"
            )
        return found

    def version(self) -> str:
        """Return the version of the installed jars."""
        jars = install.hdfs_folder(self.tools).glob("hadoop-hdfs-[0-9]*.jar")
        return next((p.stem.removeprefix("hadoop-hdfs-") for p in jars), "")

    # Daemons

    def _datanodes(self) -> list[str]:
        return [f"datanode-{i}" for i in range(1, self.settings.servers + 1)]

    def _port(self, name: str) -> int:
        """Return the first port of a daemon."""
        kind, _, number = name.partition("-")
        return self.settings.port + (FIRST_DATANODE + 3 * (int(number) - 1) if kind == "datanode" else 0)

    def _http(self, name: str) -> int:
        return self._port(name) + 1

    def _state(self, name: str) -> str:
        """Return the state of a daemon: `active` (NameNode), `RUNNING` (joined DataNode), or '' without an answer."""
        try:
            if name.startswith("namenode"):
                return self._bean(name, "NameNode", "NameNodeStatus")["State"]
            actors = json.loads(self._bean(name, "DataNode", "DataNodeInfo")["BPServiceActorInfo"])
            return actors[0]["ActorState"] if actors else ""
        except (MeasurementFailed, KeyError, ValueError):
            return ""

    def _bean(self, name: str, service: str, bean: str, timeout: float = 3.0) -> dict[str, Any]:
        """Return the values of a Java bean that a daemon reports. Raises MeasurementFailed if it reports none."""
        try:
            path = f"/jmx?qry=Hadoop:service={service},name={bean}"
            return json.loads(network.get(self.settings.address, self._http(name), path, timeout)[1])["beans"][0]
        except (OSError, ValueError, LookupError) as error:
            raise MeasurementFailed(f"{self.place}: {name} does not report {bean} ({type(error).__name__})") from None

    def stages(self, front_ends: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return one stage with all daemons.

        DataNodes can start before the NameNode, because they retry ten times a second. Java's start takes most of the
        time.
        """
        return ([*front_ends, *self._datanodes()],)

    @cached_property
    def _files(self) -> dict[str, str]:
        """Return the configuration files that all daemons share: text by file name."""
        s, port = self.settings, self.settings.port
        core = CORE | {
            "fs.defaultFS": f"hdfs://{s.address}:{port}",
            "hadoop.tmp.dir": self.folder / "tmp",
            "hadoop.http.staticuser.user": user_name(),
        }
        site = SITE | {
            "dfs.replication": COPIES[s.redundancy],
            "dfs.namenode.name.dir": f"file://{self.data}/namenode",
            "dfs.namenode.rpc-address": f"{s.address}:{port}",
            "dfs.namenode.http-address": f"{s.address}:{port + 1}",
            "dfs.datanode.hostname": s.address,
        }
        return {
            "core-site.xml": configuration(core),
            "hdfs-site.xml": configuration(site),
            "log4j.properties": LOGGING,
        }

    def _java(self, name: str) -> tuple[str, ...]:
        """Return the command of a daemon, up to its Java class.

        It contains a hash of the settings. Therefore a running daemon with other settings is restarted.
        """
        program = self.program()
        kind, settings = name.partition("-")[0], hashlib.sha256("".join(self._files.values()).encode()).hexdigest()[:8]
        archive = install.class_archive(self.tools, program)
        return (
            str(program),
            *JAVA,
            *([f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []),
            *(o.replace("%s", name) for o in self.java_options),
            f"-Xmx{HEAP[kind]}m",
            *(f"-Djava.io.tmpdir={self.folder}/tmp", f"-Duser.home={self.folder}"),
            f"-Dstorelab.settings={settings}",
            *(
                "-cp",
                f"{install.class_path(self.tools)}:{self.folder}/conf",
            ),  # a class archive requires that jars come before folders
        )

    def daemon(self, name: str) -> Daemon:
        """Return the definition of the daemon with this name (`namenode-1`, `datanode-1`, …)."""
        kind, address, port = name.partition("-")[0], self.settings.address, self._port(name)
        argv = (*self._java(name), CLASSES[kind]) if install.java() else ("java", CLASSES[kind])
        if kind == "namenode":
            return Daemon(name, argv, address, (port + 1, port), lambda: self._state(name) == "active", 10.0, ENVIRON)
        properties = {"data.dir": f"file://{self.data}/{name}"}
        properties |= {key: f"{address}:{port + i}" for i, key in enumerate(("address", "http.address", "ipc.address"))}
        argv += tuple(word for key, value in properties.items() for word in ("-D", f"dfs.datanode.{key}={value}"))
        return Daemon(
            name,
            argv,
            address,
            (port + 1, port, port + 2),
            lambda: self._state(name) == "RUNNING",
            10.0,
            ENVIRON,
        )

    def make_ready(self) -> None:
        conf_folder = self.folder / "conf"
        for folder in (
            self.folder / "tmp",
            *(conf_folder / "webapps" / w / "WEB-INF" for w in ("hdfs", "datanode", "static")),
        ):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # the web servers need these folders
        for name, text in self._files.items():
            (conf_folder / name).write_text(text)
        if not (self.data / "namenode" / "current" / "VERSION").exists():
            self._format()

    def _format(self) -> None:
        """Create an empty name space in a temporary folder, so that no partial one remains after an interruption."""
        for old in self.data.glob("namenode.new*"):
            shutil.rmtree(old)
        new = self.data / f"namenode.new-{os.getpid()}"
        argv = [
            *self._java("namenode-1"),
            CLASSES["namenode"],
            "-D",
            f"dfs.namenode.name.dir=file://{new}",
            "-format",
            "-nonInteractive",
        ]
        self.daemons.logs.mkdir(parents=True, exist_ok=True)
        path = self.daemons.logs / "format.log"  # `down` recognises an unrecorded process by its log
        with path.open("wb") as log:
            try:
                done = subprocess.run(
                    argv,
                    cwd=self.folder,
                    env=environment(self.folder, ENVIRON),
                    timeout=self.start_timeout,
                    check=False,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            except subprocess.TimeoutExpired:
                raise MeasurementFailed(
                    f"{self.place}: the NameNode did not format its name space within {self.start_timeout:g} s"
                ) from None
        if done.returncode:
            raise MeasurementFailed(
                f"{self.place}: the NameNode cannot format its name space; end of its log: "
                f"{self.daemons.log_tail('format')}"
            )
        shutil.rmtree(self.data / "namenode", ignore_errors=True)
        new.rename(self.data / "namenode")

    def make_accounts(self, accounts: int) -> None:
        self._await_all()

    def _await_all(self, timeout: float = 60.0) -> None:
        """Wait until the NameNode has recent heartbeats of all DataNodes and lets clients write."""
        end, wanted = (
            time.monotonic() + timeout,
            {f"{self.settings.address}:{self._port(n)}" for n in self._datanodes()},
        )
        while True:
            facts = self._bean("namenode-1", "NameNode", "NameNodeInfo", 10.0)
            nodes = json.loads(facts["LiveNodes"]).values()
            live = {node["xferaddr"] for node in nodes if node["lastContact"] <= 3}
            if wanted <= live and not facts["Safemode"] and all(map(self._serves, self._datanodes())):
                return
            if time.monotonic() > end:
                why = facts["Safemode"].partition("\n")[0] or "heartbeats are missing"
                raise MeasurementFailed(
                    f"{self.place}: {len(wanted & live)} of {len(wanted)} DataNodes joined the NameNode; {why}"
                )
            time.sleep(0.05)

    def _serves(self, name: str) -> bool:
        """Return whether a DataNode can connect to the NameNode when it serves WebHDFS.

        After a restart of the NameNode, the first request over the DataNode's old connection fails. This method sends a
        request, which is answered with status 404 if the connection works.
        """
        path = (
            f"/webhdfs/v1/storelab-warmup?op=OPEN&user.name={user_name()}&"
            f"namenoderpcaddress={self.settings.address}:{self.settings.port}"
        )
        try:
            return network.get(self.settings.address, self._http(name), path, 10.0)[0] == 404
        except OSError:
            return False

    def resume(self) -> None:
        """Continue the daemons, and wait for heartbeats, because the NameNode considers paused DataNodes dead."""
        super().resume()
        if set(self.daemons.running()) >= {"namenode-1", *self._datanodes()}:
            self._await_all()

    def endpoint(self, name: str) -> Endpoint:
        return replace(super().endpoint(name), user=user_name())

    # Faults

    def data_actors(self) -> list[str]:
        return self._datanodes()

    def tolerated_failures(self) -> int:
        return COPIES[self.settings.redundancy] - 1

    def drive_folder(self, actor: str) -> Path | None:
        return self.data / actor if actor in self._datanodes() else None

    def timeouts(self) -> dict[str, Any]:
        return {name: SITE[name] for name in TIMEOUTS}

    def condition(self) -> Condition:
        """Return the condition from the NameNode's counts of blocks with too few copies and of silent DataNodes."""
        try:
            facts = self._bean(
                "namenode-1", "NameNode", "FSNamesystemState", CONDITION_TIMEOUT_S
            )  # other beans are 10 s old
            live, dead, stale = (facts[f"Num{k}DataNodes"] for k in ("Live", "Dead", "Stale"))
            low, pending = (facts[f"{k}Blocks"] for k in ("LowRedundancy", "PendingReconstruction"))
        except (MeasurementFailed, LookupError):
            return Condition(DOWN, "the NameNode does not answer")
        detail = (
            f"NameNode: DataNodes {live} live, {stale} stale, {dead} dead; "
            f"blocks {low} without enough copies, {pending} being copied"
        )
        if not live:
            return Condition(DOWN, detail)
        # A block is also `pending` for a short time while it is written, which is not a recovery.
        self._hurt = bool(stale or low or (self._hurt and pending))
        if stale or (low and not pending):
            return Condition(DEGRADED, detail)
        return Condition(RECOVERING if self._hurt else CLEAN, detail)

    # Reports

    def deployment(self) -> dict[str, Any]:
        program = install.java()
        return super().deployment() | {
            "block_size_bytes": BLOCK,
            "java": install.java_version(program) if program else "",
        }

    def used_bytes(self) -> int | None:
        """Return the allocated disk space of the DataNodes' folders in bytes: all copies, with checksums."""
        os.sync()
        folders, total = [p for p in self.data.glob("datanode-*") if p.is_dir()], 0
        for path in (p for folder in folders for p in folder.rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # the file was deleted, or moved because its block is complete
                total += path.lstat().st_blocks * 512
        return total if folders else None

    def reclaim(self, timeout: float = 60.0) -> None:
        """Wait until the blocks of deleted files are removed, but at most `timeout` seconds.

        NameNode and DataNodes remove them in the background.
        """
        end, steady, before = time.monotonic() + timeout, 0, -1
        while steady < 3 and time.monotonic() < end:
            pending = self._bean("namenode-1", "NameNode", "FSNamesystemState", 10.0)["PendingDeletionBlocks"]
            pending += sum(
                self._bean(n, "DataNode", "FSDatasetState", 10.0)["PendingAsyncDeletions"] for n in self._datanodes()
            )
            total = self._bean("namenode-1", "NameNode", "FSNamesystemState", 10.0)["BlocksTotal"]
            steady = steady + 1 if not pending and total == before else 0
            before = total
            time.sleep(1.1)  # longer than one heartbeat, in which a DataNode learns what to delete


def configuration(properties: Mapping[str, Any]) -> str:
    """Return the text of a configuration file (Hadoop's XML) with these properties."""
    rows = (
        f"<property><name>{escape(k)}</name><value>{escape(str(v))}</value></property>" for k, v in properties.items()
    )
    return "\n".join(('<?xml version="1.0" encoding="UTF-8"?>', "<configuration>", *rows, "</configuration>", ""))


def user_name() -> str:
    """Return the name of the current user, who runs the daemons and is therefore HDFS's superuser."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "storelab"
