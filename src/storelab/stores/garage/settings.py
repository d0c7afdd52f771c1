"""Settings of a Garage of ours, how its program is built, and what a node reads at its start."""

from typing import Literal

from pydantic import Field

from storelab.install import cargo
from storelab.stores.managed.settings import ListeningSettings

PROGRAM = cargo.Program(
    "garage",
    "2.5.0",
    "e1752af176a3cd84e9afd6edf30df594db92b7730cc67bddcd74769841b3f3f5",
    ("bundled-libs", "lmdb"),
    (1, 89),
    (("cc", "gcc"), ("make", "make")),
    "crates, 100 MB to download; a long build",
    2e9,
)
COPIES = {"none": 1, "replica-2": 2, "replica-3": 3}
# No scrub and no snapshot in the middle of a point; the region that clients of storelab sign for.
CONFIGURATION = """metadata_dir = "{data}/{name}/meta"
data_dir = "{data}/{name}/data"
db_engine = "lmdb"
disable_scrub = true
replication_factor = {copies}
rpc_bind_addr = "{rpc}"
rpc_public_addr = "{rpc}"

[s3_api]
api_bind_addr = "{s3}"
s3_region = "us-east-1"

[admin]
api_bind_addr = "{admin}"
"""


class Settings(ListeningSettings):
    """A cluster of Garage nodes on this machine, one process each; every node answers S3."""

    kind: Literal["garage"]
    port: int = Field(26000, ge=1024, le=32000, description="First of its ports, three per node, a block of 32.")
    servers: int = Field(1, ge=1, le=7, description="Nodes that hold data, each in a zone of its own.")
    redundancy: Literal["none", "replica-2", "replica-3"] = Field(
        "none", description="Copies of every object, on different nodes."
    )
