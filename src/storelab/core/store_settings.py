"""Settings of every kind of store, as closed models (level 1).

A kind that is named after a product is one that storelab runs itself; a kind that is named after a protocol (`s3`, `root`,
`http`, `webhdfs`) or `directory` is something that is there already. Words for redundancy: `none`, `replica-N`, `ec-K-M`.
"""

from typing import Annotated, Literal

from pydantic import Field

from storelab.core.config_types import Boolean, Closed, Size

READ_ONLY = "Never write: only data staged before can be read."
DISK = "`disk`: below `state` or in `directory`; `tmpfs`: in memory, below `scratch`."


class Managed(Closed):
    """What all stores have that storelab starts and stops on this machine."""

    directory: str | None = Field(None, description="Where its data lie; default: below `state`.")
    backing: Literal["disk", "tmpfs"] = Field("disk", description=DISK)
    read_only: Literal[False] = Field(False, description="A managed store is never read-only.")


class Listening(Managed):
    """A managed store whose front-ends listen on an address of this machine."""

    address: str = Field("127.0.0.1", description="Address that its front-ends listen on; its other daemons stay on 127.0.0.1.")
    front_end_addresses: list[str] = Field(
        default_factory=list,
        description="Of a host with several: front-end i listens on the i-th of these, in turn (SeaweedFS, Ceph, versitygw).",
    )
    advertise: str | None = Field(None, description="Host name or address that clients are told in place of `address`.")


class SeaweedFS(Listening):
    """A SeaweedFS that storelab starts and stops on this machine (master, volume servers, filer, 1..n S3 front-ends)."""

    kind: Literal["seaweedfs"]
    port: int = Field(
        18300, ge=1024, le=22000, description="First of its ports; it takes a block of 32 from here, and gRPC at port + 10000."
    )
    servers: int = Field(1, ge=1, le=7, description="Volume servers, each in a rack of its own.")
    redundancy: Literal["none", "replica-2", "replica-3"] = Field("none", description="Copies of every object, in other racks.")
    tls: Boolean = Field(False, description="Front-ends speak https, with a certificate of storelab's own.")
    volume_size: Size = Field("1 GB", description="Size limit of one volume; a bucket takes at least one volume.")
    max_volumes: int = Field(
        6500,
        ge=8,
        description="How many volumes a volume server may have (they take space as they fill, and two open files each).",
    )
    volumes_per_bucket: int = Field(
        3, ge=1, le=7, description="Volumes that a bucket gets at once, and writes to; one where `max_volumes` is below 400."
    )


class Ceph(Listening):
    """A Ceph that storelab starts and stops on this machine: monitor, OSDs, 1..n RADOS gateways (S3)."""

    kind: Literal["ceph"]
    port: int = Field(
        20000, ge=1024, le=32000, description="First of its ports: gateways from here, the monitor at +30, OSDs from +40, a block of 100."
    )
    backing: Literal["memory", "disk", "tmpfs"] = Field(
        "memory", description="`memory`: memstore; `disk` and `tmpfs`: bluestore on a file there."
    )
    servers: int = Field(3, ge=1, le=7, description="OSDs.")
    redundancy: Literal["none", "replica-2", "replica-3", "ec-2-1"] = Field(
        "replica-3", description="Of the pool of object data; index pools are replicated."
    )
    mgr: Boolean = Field(False, description="Run a manager: needed to watch recovery; 300 MB of memory.")
    osd_size: Size = Field("4 GB", description="Room of one OSD: memory of memstore, size of bluestore's (sparse) file.")
    tls: Boolean = Field(False, description="Front-ends speak https, with a certificate of storelab's own.")


class Versitygw(Listening):
    """A Versity S3 gateway over a folder, started and stopped by storelab; several gateways share the folder."""

    kind: Literal["versitygw"]
    port: int = Field(23000, ge=1024, le=32000, description="First of its ports, one per front-end, a block of 32.")
    tls: Boolean = Field(False, description="Front-ends speak https, with a certificate of storelab's own.")


class MinIO(Listening):
    """A MinIO server on this machine, its drives are folders."""

    kind: Literal["minio"]
    port: int = Field(23500, ge=1024, le=32000, description="Its port; the console takes the next one.")
    servers: int = Field(4, ge=1, le=16, description="Drives; one alone has no redundancy.")
    redundancy: Literal["none", "ec-2-2", "ec-3-1"] = Field("ec-2-2", description="Data and parity shards of 4 drives.")
    tls: Boolean = Field(False, description="Speaks https, with a certificate of storelab's own.")


class Nginx(Listening):
    """An nginx with WebDAV over a folder: also the nearest thing to a server that costs nothing."""

    kind: Literal["nginx"]
    port: int = Field(24000, ge=1024, le=32000, description="First of its ports, one per front-end, a block of 16.")
    processes: int = Field(2, ge=1, description="Worker processes.")
    tls: Boolean = Field(False, description="Speaks https, with a certificate of storelab's own.")


class XRootD(Managed):
    """An XRootD server in a network namespace of its own (it listens on all addresses); needs root."""

    kind: Literal["xrootd"]
    protocol: Literal["root", "http"] = Field("root", description="How clients talk to it: root:// or XrdHttp.")
    port: int = Field(10940, ge=1024, le=32000, description="Port of root:// in its namespace; XrdHttp takes the next one.")
    subnet: str = Field(
        "10.213.77.0/30",
        description="Two addresses of a link of its own: ours and the server's; must not be in use.",
        pattern=r"^[\d.]+/30$",
    )


class HDFS(Listening):
    """An HDFS on this machine: NameNode and DataNodes as plain Java processes, spoken to over WebHDFS."""

    kind: Literal["hdfs"]
    port: int = Field(
        21000, ge=1024, le=32000, description="First of its ports: RPC, then WebHDFS, then three per DataNode; a block of 40."
    )
    servers: int = Field(3, ge=1, le=7, description="DataNodes.")
    redundancy: Literal["none", "replica-2", "replica-3"] = Field("replica-2", description="Copies of every block.")


class NullServer(Listening):
    """A server that answers S3 at almost no cost and keeps nothing: what clients reach against it is their own ceiling. Only the workload
    `calibrate` uses it, and a campaign that is calibrated has one without naming it."""

    kind: Literal["nullserver"]
    port: int = Field(25000, ge=1024, le=32000, description="Its port; one that speaks https takes the next one.")
    tls: Boolean = Field(False, description="Speaks https, with a certificate of storelab's own.")


class Directory(Closed):
    """Any folder of a mounted file system: local disk, tmpfs, Lustre, GPFS, AFS, NFS, CephFS, EOS, dCache."""

    kind: Literal["directory"]
    path: str = Field(description="An existing folder; storelab makes folders of its own in it.")
    prefix: str = Field("storelab", description="Begin of the names of its own folders.", pattern=r"^[a-z0-9][a-z0-9-]*$")
    read_only: Boolean = Field(False, description=READ_ONLY)


class S3(Closed):
    """Any S3 endpoint that is there already. Credentials come from the environment or an AWS profile, never from here."""

    kind: Literal["s3"]
    preset: Literal["amazon-s3", "huawei-uds-1", "huawei-uds-2"] | None = Field(
        None, description="A known system with its documented limits, see docs/stores.md; `storelab check` holds the plan against them."
    )
    buckets_per_account: int | None = Field(None, ge=1, description="Most buckets of one account; default: the preset's, else no bound.")
    multipart: Boolean | None = Field(
        None,
        description="Whether the server takes multipart uploads; where not, large objects go in one PUT. Default: the preset's, else true.",
    )
    endpoint: str | list[str] = Field(description="URL, or the list of the front-ends' URLs, e.g. `https://s3.example.org`.")
    resolve_all: Boolean = Field(False, description="Resolve the one DNS name to all its addresses and spread the clients over them.")
    region: str = Field("us-east-1", description="Region for the signature.")
    addressing: Literal["path", "virtual"] = Field("path", description="`path`: host/bucket/key; `virtual`: bucket.host/key.")
    verify_tls: Boolean = Field(True, description="Verify the server's certificate.")
    ca_file: str | None = Field(None, description="CA certificates (PEM) to verify the server with.")
    profile: str | None = Field(
        None, description="AWS profile; default: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else AWS_PROFILE."
    )
    profiles: list[str] = Field(
        default_factory=list, description="AWS profiles of further accounts, for sweeps over `accounts`; `profile` stays the first."
    )
    bucket: str | None = Field(
        None, description="The one bucket given to you; storelab keeps below `prefix` in it. Default: it makes its own."
    )
    prefix: str = Field(
        "storelab",
        description="Begin of the names of its own buckets; with `bucket`, its prefix in there.",
        pattern=r"^[a-z0-9][a-z0-9-]*$",
    )
    read_only: Boolean = Field(False, description=READ_ONLY)


class External(Closed):
    """What the stores share that are there already and hold folders instead of buckets."""

    endpoint: str | list[str] = Field(description="URL of a folder given to you, or the list of the front-ends' URLs of it.")
    prefix: str = Field("storelab", description="Begin of the names of its own folders.", pattern=r"^[a-z0-9][a-z0-9-]*$")
    read_only: Boolean = Field(False, description=READ_ONLY)


class Root(External):
    """Any XRootD door (`root://host:port//folder`): XRootD, EOS, dCache. Credentials as XRootD's own clients find them."""

    kind: Literal["root"]


class Http(External):
    """Any HTTP/WebDAV door (`https://host:port/folder`): dCache, StoRM, XrdHttp, EOS, nginx, Apache."""

    kind: Literal["http"]
    verify_tls: Boolean = Field(True, description="Verify the server's certificate.")
    ca_file: str | None = Field(None, description="CA certificates (PEM) to verify the server with.")
    token: str | None = Field(
        None, description="Name of the environment variable that holds a bearer token.", pattern=r"^[A-Z_][A-Z0-9_]*$"
    )


class WebHdfs(External):
    """Any WebHDFS (`http://namenode:port/folder`)."""

    kind: Literal["webhdfs"]
    user: str = Field("storelab", description="Name that the requests bear.")


Store = Annotated[
    SeaweedFS | Ceph | Versitygw | MinIO | Nginx | XRootD | HDFS | NullServer | Directory | S3 | Root | Http | WebHdfs,
    Field(discriminator="kind"),
]
KINDS: dict[str, type[Closed]] = {
    m.model_fields["kind"].annotation.__args__[0]: m
    for m in (SeaweedFS, Ceph, Versitygw, MinIO, Nginx, XRootD, HDFS, NullServer, Directory, S3, Root, Http, WebHdfs)
}
S3_KINDS = ("seaweedfs", "ceph", "versitygw", "minio", "s3")  # systems under test whose clients speak S3
