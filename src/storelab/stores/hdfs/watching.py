"""What the daemons of an HDFS of ours tell of themselves, and what faults can be done to it."""

import http.client
import json
from pathlib import Path
from typing import Any

from storelab.core.errors import MeasurementFailed
from storelab.stores.base import CLEAN, DEGRADED, DOWN, RECOVERING, Condition
from storelab.stores.hdfs import conf
from storelab.stores.managed import net
from storelab.stores.managed.base import Managed
from storelab.stores.managed.target import ASK_S

FIRST_DATANODE = 4  # offset in the block of ports; three each: data, HTTP, RPC


class HdfsWatched(Managed):
    """Part of `HDFS`: where its daemons are, and what they say."""

    _hurt = False  # copies were short, and some are still being made

    def _datanodes(self) -> list[str]:
        return [f"datanode-{i}" for i in range(1, self.settings.servers + 1)]

    def _port(self, name: str) -> int:
        """First port of a daemon."""
        kind, _, number = name.partition("-")
        return self.settings.port + (FIRST_DATANODE + 3 * (int(number) - 1) if kind == "datanode" else 0)

    def _http(self, name: str) -> int:
        return self._port(name) + 1

    def _state(self, name: str) -> str:
        """`active` of a NameNode, `RUNNING` of a DataNode that has joined it; '' of one that does not answer."""
        try:
            if name.startswith("namenode"):
                return self._bean(name, "NameNode", "NameNodeStatus")["State"]
            actors = json.loads(self._bean(name, "DataNode", "DataNodeInfo")["BPServiceActorInfo"])
            return actors[0]["ActorState"] if actors else ""
        except (MeasurementFailed, KeyError, ValueError):
            return ""

    def _bean(self, name: str, service: str, bean: str, timeout: float = 3.0) -> dict[str, Any]:
        """Facts that a daemon tells of itself. Raises MeasurementFailed where it does not."""
        try:
            path = f"/jmx?qry=Hadoop:service={service},name={bean}"
            return json.loads(net.get(self.settings.address, self._http(name), path, timeout)[1])["beans"][0]
        except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
            raise MeasurementFailed(f"{self.place}: {name} does not tell its {bean} ({type(error).__name__})") from None

    # Faults

    def data_actors(self) -> list[str]:
        return self._datanodes()

    def bears(self) -> int:
        return conf.COPIES[self.settings.redundancy] - 1

    def drive_folder(self, actor: str) -> Path | None:
        return self.data / actor if actor in self._datanodes() else None

    def timeouts(self) -> dict[str, Any]:
        return {name: conf.SITE[name] for name in conf.TIMEOUTS}

    def condition(self) -> Condition:
        """As the NameNode counts blocks that have too few copies, and DataNodes that are silent."""
        try:
            told = self._bean("namenode-1", "NameNode", "FSNamesystemState", ASK_S)  # the others are 10 s old
            live, dead, stale = (told[f"Num{k}DataNodes"] for k in ("Live", "Dead", "Stale"))
            low, pending = (told[f"{k}Blocks"] for k in ("LowRedundancy", "PendingReconstruction"))
        except (MeasurementFailed, LookupError):
            return Condition(DOWN, "the NameNode does not answer")
        detail = (
            f"NameNode: DataNodes {live} live, {stale} stale, {dead} dead; blocks {low} short of copies, "
            f"{pending} being copied"
        )
        if not live:
            return Condition(DOWN, detail)
        # A block that is being written is `pending` too, for a moment: that is no recovery.
        self._hurt = bool(stale or low or (self._hurt and pending))
        if stale or (low and not pending):
            return Condition(DEGRADED, detail)
        return Condition(RECOVERING if self._hurt else CLEAN, detail)
