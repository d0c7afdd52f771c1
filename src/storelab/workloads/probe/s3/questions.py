"""All questions to an S3 store, in the order of asking: what takes long, or many buckets, stands last."""

from storelab.workloads.probe import davix
from storelab.workloads.probe.answers import Checks
from storelab.workloads.probe.http_ranges import CONNECTION, RANGES
from storelab.workloads.probe.s3 import access, buckets, lists, objects
from storelab.workloads.probe.s3.requests import S3

CHECKS = Checks(
    [
        *RANGES,
        *davix.CHECKS,
        *objects.CHECKS,
        *access.CHECKS,
        *lists.MULTIPART,
        *CONNECTION,
        *lists.LISTING,
        *lists.DELETE,
        *buckets.CHECKS,
    ]
)
CONTEXT = S3
