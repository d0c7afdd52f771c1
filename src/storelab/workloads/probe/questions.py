"""The probe: what a store can do, question by question, each answer verified byte by byte (level 2, measuring side).

`checks(protocol)` gives the questions of a protocol in their order, `context_of(job)` what they are asked with. A new question is a
function with one line above it; topic and name are its place in the capability table and never change.
"""

import importlib
from typing import TYPE_CHECKING

from storelab.workloads.probe.answers import Check

if TYPE_CHECKING:
    from storelab.engines.contract import Job
    from storelab.workloads.probe.context import Context

_CONTEXTS = {
    "s3": ("s3", "S3"),
    "http": ("http", "Http"),
    "webhdfs": ("webhdfs", "WebHdfs"),
    "file": ("files", "Files"),
    "root": ("root", "Root"),
}
# Modules with their lists of questions, in the order of asking: what takes long, or many buckets, stands last.
_CHECKS = {
    "s3": (
        ("ranges", "RANGES"),
        ("s3_objects", "CHECKS"),
        ("s3_access", "CHECKS"),
        ("s3_lists", "MULTIPART"),
        ("ranges", "CONNECTION"),
        ("s3_lists", "LISTING"),
        ("s3_lists", "DELETE"),
        ("s3_buckets", "CHECKS"),
    ),
    "http": (("http", "CHECKS"),),
    "webhdfs": (("webhdfs", "CHECKS"),),
    "file": (("files", "CHECKS"),),
    "root": (("root", "CHECKS"),),
}


def _module(name: str) -> object:
    return importlib.import_module(f"storelab.workloads.probe.questions.{name}")


def checks(protocol: str) -> list[Check]:
    """All questions of a protocol, in the order of asking."""
    return [check for module, name in _CHECKS[protocol] for check in getattr(_module(module), name)]


def context_of(job: "Job") -> "Context":
    """What the questions of the job's protocol are asked with. Raises NotTried where keys are missing."""
    module, name = _CONTEXTS[job.endpoint.protocol]
    return getattr(_module(module), name)(job)
