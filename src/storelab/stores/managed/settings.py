"""Settings that managed stores share. A redundancy is `none`, `replica-N` or `ec-K-M`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from storelab.core.config_types import FolderPath, Host, Once, Size, StrictModel, at_least

DISK = "`disk`: data are below `state` or in `directory`; `tmpfs`: data are in memory, below `scratch`."
# For some stores: `tls: Boolean = TLS` if front-ends can use https, `drive_size: DriveSize = DRIVE_SIZE` if drives can
# be separate file systems.
TLS: Any = Field(False, description="Front-ends use https, with a certificate that storelab creates.")
DriveSize = Annotated[Size | None, at_least("1 MiB")]
DRIVE_SIZE: Any = Field(
    None,
    description=(
        "Each drive becomes a separate file system of this size (a mounted image, which needs root), so that it "
        "can be filled, and its fill level can be an axis. Default: drives share the disk of their folder."
    ),
)


class ManagedSettings(StrictModel):
    """Settings of all stores that storelab starts and stops on this machine."""

    directory: FolderPath | None = Field(None, description="Folder of the store's data; default: below `state`.")
    backing: Literal["disk", "tmpfs"] = Field("disk", description=DISK)
    read_only: Literal[False] = Field(False, description="A managed store is never read-only.")


class ListeningSettings(ManagedSettings):
    """Settings of a managed store whose front-ends listen on an address of this machine."""

    address: Host = Field(
        "127.0.0.1", description="Address on which the front-ends listen. Other daemons listen on 127.0.0.1."
    )
    front_end_addresses: Annotated[list[Host], Once] = Field(
        default_factory=list,
        description=(
            "Addresses of the front-ends on a host with several addresses. Front-end i listens on address i, in turn "
            "(SeaweedFS, Ceph, versitygw, Garage)."
        ),
    )
    advertise: Host | None = Field(None, description="Host name or address that clients use instead of `address`.")
