"""What an HDFS of ours is told: options and their text as Hadoop reads it.

Options that differ from Hadoop's own defaults do so to start quickly, and to leave no maintenance to the middle of a
point.
"""

from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

COPIES = {"none": 1, "replica-2": 2, "replica-3": 3}
BLOCK = 128 * 1024**2  # bytes; Hadoop's default
SERVER = "org.apache.hadoop.hdfs.server"
CORE = {
    "ipc.client.connect.retry.interval": 100,  # ms: a DataNode started before its NameNode joins at once
    "ipc.client.connect.max.retries": 100,
    "hadoop.security.group.mapping": "org.apache.hadoop.security.NullGroupsMapping",  # no shell is asked for groups
    # No du over all blocks.
    "fs.getspaceused.classname": f"{SERVER}.datanode.fsdataset.impl.ReplicaCachingGetSpaceUsed",
}
SITE = {
    "dfs.permissions.enabled": "false",
    "dfs.blocksize": BLOCK,
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    "dfs.heartbeat.interval": 1,  # s; a DataNode is dead after 2 x recheck + 10 x heartbeat
    "dfs.namenode.heartbeat.recheck-interval": 2000,  # ms
    "dfs.namenode.stale.datanode.interval": 3000,  # ms: a silent one is asked last from then on
    "dfs.namenode.avoid.read.stale.datanode": "true",
    "dfs.namenode.avoid.write.stale.datanode": "true",
    "dfs.client.socket-timeout": 5000,  # ms; a minute by default: so long an operation would wait for one that hangs
    "dfs.namenode.reconstruction.pending.timeout-sec": 10,  # five minutes by default: so long a copy may be lost
    "dfs.datanode.socket.write.timeout": 5000,  # ms; eight minutes by default
    "dfs.namenode.redundancy.interval.seconds": 1,
    "dfs.namenode.safemode.extension": 0,
    "dfs.namenode.accesstime.precision": 0,  # a read writes nothing
    "dfs.datanode.scan.period.hours": -1,  # no maintenance in the middle of a point
    "dfs.datanode.directoryscan.interval": -1,
    "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",  # there may be no other one
    "dfs.namenode.fs-limits.min-block-size": 4096,
}
# When a DataNode that is lost is noticed, by the NameNode and by those who wait for it.
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


def configuration(properties: Mapping[str, Any]) -> str:
    """Hadoop's XML of these properties."""
    rows = (
        f"<property><name>{escape(k)}</name><value>{escape(str(v))}</value></property>" for k, v in properties.items()
    )
    return "\n".join(('<?xml version="1.0" encoding="UTF-8"?>', "<configuration>", *rows, "</configuration>", ""))
