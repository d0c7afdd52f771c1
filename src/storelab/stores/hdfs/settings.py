"""What an HDFS may be told, and its user. May import: what `stores` may."""

import os
import pwd
from typing import Literal

from pydantic import Field

from storelab.stores.managed.settings import ListeningSettings


def user_name() -> str:
    """Of whoever runs the daemons: HDFS's superuser."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "storelab"


class Settings(ListeningSettings):
    """An HDFS on this machine: NameNode and DataNodes as plain Java processes, spoken to over WebHDFS."""

    kind: Literal["hdfs"]
    port: int = Field(
        21000,
        ge=1024,
        le=32000,
        description="First of its ports: RPC, then WebHDFS, then three per DataNode; a block of 40.",
    )
    servers: int = Field(3, ge=1, le=7, description="DataNodes.")
    redundancy: Literal["none", "replica-2", "replica-3"] = Field("replica-2", description="Copies of every block.")
