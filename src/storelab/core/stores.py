"""The registry of stores, as text: kind -> `module:Class`. A class is imported when a store of its kind is configured.

A kind that is named after a product is one that storelab runs itself; a kind that is named after a protocol (`s3`,
`root`, `http`, `webhdfs`) or `directory` is something that is there already. Each class says the rest: `Settings` (its
model in config.yaml), `protocol`, `keeps`, `managed`, `recipe` (its installation); see `stores/base.py`. May import:
nothing but `errors`; client processes import this module.
"""

import importlib
from typing import TYPE_CHECKING

from storelab.core.errors import UserError

if TYPE_CHECKING:
    from storelab.stores.base import Store

KINDS = {
    "seaweedfs": "storelab.stores.seaweedfs.store:SeaweedFS",
    "ceph": "storelab.stores.ceph.store:Ceph",
    "versitygw": "storelab.stores.versitygw:Versitygw",
    "minio": "storelab.stores.minio:MinIO",
    "nginx": "storelab.stores.nginx:Nginx",
    "xrootd": "storelab.stores.xrootd.store:XRootD",
    "hdfs": "storelab.stores.hdfs.store:HDFS",
    "glusterfs": "storelab.stores.posix.glusterfs:GlusterFS",
    "openafs": "storelab.stores.posix.openafs:OpenAFS",
    "garage": "storelab.stores.garage.store:Garage",
    "rclone": "storelab.stores.s3.rclone:Rclone",
    "nullserver": "storelab.stores.nullserver:NullServer",
    "directory": "storelab.stores.posix.directory:Directory",
    "s3": "storelab.stores.s3.store:S3",
    "root": "storelab.stores.doors:Root",
    "http": "storelab.stores.doors:Http",
    "webhdfs": "storelab.stores.doors:WebHdfs",
}


def load(kind: str) -> "type[Store]":
    """The class of a kind. Raises UserError for one that is not in the registry."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise UserError("stores", f"no store of kind {kind!r}", f"one of: {', '.join(KINDS)}")
    module, _, name = KINDS[kind].partition(":")
    found: type[Store] = getattr(importlib.import_module(module), name)
    return found


def has_ceiling(kind: str) -> bool:
    """Whether the S3 clients' ceiling, measured against the near-null server, holds for a store of this kind."""
    store = load(kind)
    return store.protocol == "s3" and store.keeps
