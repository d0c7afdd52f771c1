"""Settings that managed stores share. Words for redundancy: `none`, `replica-N`, `ec-K-M`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from storelab.core.config_types import Closed, FolderPath, Host, Once, Size, at_least

DISK = "`disk`: below `state` or in `directory`; `tmpfs`: in memory, below `scratch`."
# Of some stores: `tls: Boolean = TLS` where front-ends may speak https, `drive_size: DriveSize = DRIVE_SIZE` where
# drives may be file systems of their own.
TLS: Any = Field(False, description="Front-ends speak https, with a certificate of storelab's own.")
DriveSize = Annotated[Size | None, at_least("1 MiB")]
DRIVE_SIZE: Any = Field(
    None,
    description=(
        "Each of its drives becomes a file system of its own of this size (an image that is mounted, which needs "
        "root): it can be filled, and its fill level swept. Default: they share the disk of their folder."
    ),
)


class ManagedSettings(Closed):
    """What all stores have that storelab starts and stops on this machine."""

    directory: FolderPath | None = Field(None, description="Where its data lie; default: below `state`.")
    backing: Literal["disk", "tmpfs"] = Field("disk", description=DISK)
    read_only: Literal[False] = Field(False, description="A managed store is never read-only.")


class ListeningSettings(ManagedSettings):
    """A managed store whose front-ends listen on an address of this machine."""

    address: Host = Field(
        "127.0.0.1", description="Address that its front-ends listen on; its other daemons stay on 127.0.0.1."
    )
    front_end_addresses: Annotated[list[Host], Once] = Field(
        default_factory=list,
        description=(
            "On a host with several addresses: front-end i listens on the i-th of these, in turn (SeaweedFS, Ceph, "
            "versitygw, Garage)."
        ),
    )
    advertise: Host | None = Field(
        None, description="Host name or address that clients are told in place of `address`."
    )
