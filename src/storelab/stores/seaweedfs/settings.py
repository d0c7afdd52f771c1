"""Settings of a SeaweedFS of ours, and what its daemons read at their start."""

from typing import Annotated, Literal

from pydantic import Field

from storelab.core.config_types import Size, Text, at_least
from storelab.stores.managed.settings import OnDrives, SecureSettings

# Found first in the working folder, these also keep a system-wide /etc/seaweedfs out. No maintenance in the middle of
# a point.
TOML = {
    "security.toml": "# nothing: loopback only\n",
    "master.toml": (
        '[master.maintenance]\nscripts = ""\nsleep_minutes = 100000\n\n[master.volume_growth]\ncopy_1 = '
        "{growth}\ncopy_2 = {growth}\ncopy_3 = {growth}\n"
    ),
    "filer.toml": '[leveldb2]\nenabled = true\ndir = "{data}/filer"\n',
}


class Settings(OnDrives, SecureSettings):
    """A SeaweedFS that storelab starts and stops on this machine: master, volume servers, filer, 1..n S3 front-ends."""

    kind: Literal["seaweedfs"]
    port: int = Field(
        18300,
        ge=1024,
        le=22000,
        description="First of its ports; it takes a block of 32 from here, and gRPC at port + 10000.",
    )
    servers: int = Field(1, ge=1, le=7, description="Volume servers, each in a rack of its own.")
    redundancy: Literal["none", "replica-2", "replica-3"] = Field(
        "none", description="Copies of every object, in other racks."
    )
    version: Text | None = Field(
        None, description="Of its program; default: that of the environment. Others: `storelab install seaweedfs`."
    )
    volume_size: Annotated[Size, at_least("1 MiB")] = Field(
        "1 GB", description="Size limit of one volume; a bucket takes at least one volume."
    )
    max_volumes: int = Field(
        6500,
        ge=8,
        description=(
            "How many volumes a volume server may have (they take space as they fill, and two open files each)."
        ),
    )
    volumes_per_bucket: int = Field(
        3,
        ge=1,
        le=7,
        description="Volumes that a bucket gets at once, and writes to; one where `max_volumes` is below 400.",
    )
