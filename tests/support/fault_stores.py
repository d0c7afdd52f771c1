"""Stores with different tolerances of failed servers. None of them runs."""

from storelab import stores
from storelab.core.campaign.faults import Act
from storelab.stores import make

STORES = {
    "sw": {"kind": "seaweedfs", "servers": 3, "redundancy": "replica-2"},
    "ceph": {"kind": "ceph", "redundancy": "ec-2-1"},
    "minio": {"kind": "minio", "servers": 12, "redundancy": "ec-9-3"},
    "hdfs": {"kind": "hdfs"},
    "far": {"kind": "s3", "endpoint": "http://far.example.org"},
}


def store(name, folder, **changes):
    settings = STORES[name] | changes
    return make(name, stores.load(settings["kind"]).Settings.model_validate(settings), folder)


def acts(*given):
    return [Act.model_validate(a) for a in given]
