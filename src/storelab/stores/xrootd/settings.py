"""Settings of an XRootD of ours."""

from typing import Literal

from pydantic import Field

from storelab.core.config_types import Boolean
from storelab.stores.managed.settings import ManagedSettings

MOST_SERVERS = 16


class Settings(ManagedSettings):
    """An XRootD server, or a redirector with several data servers, in network namespaces of its own (it listens on
    all addresses); needs root."""

    kind: Literal["xrootd"]
    protocol: Literal["root", "http"] = Field("root", description="How clients talk to it: root:// or XrdHttp.")
    servers: int = Field(
        1,
        ge=1,
        le=MOST_SERVERS,
        description="Data servers; from 2 on each has a namespace of its own, and clients come in by a door.",
    )
    door: Literal["redirector", "proxy"] = Field(
        "redirector",
        description="Of several data servers: a redirector sends clients on to one of them, a proxy moves the data "
        "itself.",
    )
    jobs_on_servers: Boolean = Field(
        False,
        description="Client i runs on the host of data server i, in turn (launcher `local`, servers of 2 or more).",
    )
    tls: Boolean = Field(False, description="Speak TLS (roots://, https), with a certificate of storelab's own.")
    port: int = Field(
        10940,
        ge=1024,
        le=32000,
        description="Port of root:// in its namespace; XrdHttp takes the next one (the same one, of several servers).",
    )
    subnet: str = Field(
        "10.213.77.0/27",
        description="Addresses of a network of its own: ours and the servers' (a /30 is enough for one server); must "
        "not be in use.",
        pattern=r"^[\d.]+/(2[4-9]|30)$",
    )
