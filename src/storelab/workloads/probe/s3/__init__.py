"""The questions to an S3 store, in their order. Questions that take long or need many buckets come last."""

from storelab.workloads.probe.answers import Questions
from storelab.workloads.probe.byteranges import CONNECTION, DAVIX, RANGES
from storelab.workloads.probe.s3.access import ACCESS, BUCKETS
from storelab.workloads.probe.s3.objects import DELETE, LISTING, MULTIPART, OBJECTS
from storelab.workloads.probe.s3.requests import S3

QUESTIONS: Questions = RANGES | DAVIX | OBJECTS | ACCESS | MULTIPART | CONNECTION | LISTING | DELETE | BUCKETS
CONTEXT = S3
