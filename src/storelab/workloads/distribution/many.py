"""Deletion of objects: one a request, or several by the request of S3 for that (DeleteObjects). May import: `probe`."""

import re
from collections.abc import Sequence
from dataclasses import replace
from xml.sax.saxutils import escape

from storelab.workloads.probe.plain_http import Reply

ONE, SEVERAL = "DELETE", "DELETE_MULTI"  # operations, as records name them
DELETIONS = (ONE, SEVERAL)
COUNTED = {"HEAD": "heads", "GET": "gets", "PUT": "puts", ONE: "deletes", SEVERAL: "deletes"}  # operation -> its count
BUSY = ("InternalError", "ServiceUnavailable", "SlowDown")  # codes of keys that may be tried again
GONE = ("NoSuchKey",)
_CODE = re.compile(rb"<Error>.*?<Code>\s*([A-Za-z0-9.]{1,80})\s*</Code>", re.DOTALL)


def request(keys: Sequence[str]) -> bytes:
    """Its body; the answer names only what was not deleted."""
    objects = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
    space = "http://s3.amazonaws.com/doc/2006-03-01/"
    return f'<Delete xmlns="{space}"><Quiet>true</Quiet>{objects}</Delete>'.encode()


def judged(reply: Reply) -> Reply:
    """The answer; one of 200 that names a key which was not deleted bears the status of such an error instead: 503
    where it may be tried again, else 403."""
    codes = [code.decode() for code in _CODE.findall(reply.body)] if reply.good else []
    left = [code for code in codes if code not in GONE]
    if not left:
        return reply
    return replace(reply, status=503 if all(code in BUSY for code in left) else 403)
