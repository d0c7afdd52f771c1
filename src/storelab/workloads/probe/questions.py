"""The probe: what a store can do, question by question, each answer verified byte by byte.

`checks(protocol)` gives the questions of a protocol in their order, `context_of(job)` what they are asked with. A
protocol is one module with `CHECKS` and `CONTEXT`, and one line here. A new question is a function with one line above
it; topic and name are its place in the capability table and never change.
"""

import importlib
from typing import Any

from storelab.engines.contract import Job
from storelab.workloads.probe.answers import Check
from storelab.workloads.probe.context import Context

PROTOCOLS = {
    "s3": "s3.questions",
    "http": "http",
    "webhdfs": "webhdfs",
    "file": "files",
    "root": "root",
}  # of an endpoint -> module


def _module(protocol: str) -> Any:
    return importlib.import_module(f"storelab.workloads.probe.{PROTOCOLS[protocol]}")


def checks(protocol: str) -> list[Check]:
    """All questions of a protocol, in the order of asking."""
    return _module(protocol).CHECKS


def context_of(job: Job) -> Context:
    """What the questions of the job's protocol are asked with. Raises NotTried where keys are missing."""
    return _module(job.endpoint.protocol).CONTEXT(job)
