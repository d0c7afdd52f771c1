"""What davix, the HTTP library of HEP, makes of several ranges at this store: davix itself is asked, where it is."""

from contextlib import closing
from dataclasses import replace

from storelab.core.errors import UserError
from storelab.engines.davix_program import DavixError, Program, facts, url_of
from storelab.stores.protocols import filesystems
from storelab.workloads.probe import multirange
from storelab.workloads.probe.answers import Answer, Checks, NotTried, Otherwise, demand, yes
from storelab.workloads.probe.context import SIZE, ByKey
from storelab.workloads.probe.plain_http import TIMEOUT_S

MANY = 10  # ranges
CHECKS = Checks()


@CHECKS.add("ranges", f"davix, {MANY} ranges")
def vector(c: ByKey) -> Answer:
    """One vector read; requests are counted as davix sends them, and every byte is compared."""
    try:
        program = Program(c.endpoint, TIMEOUT_S)
    except UserError as error:
        raise NotTried(f"{error.problem}; {error.mend}") from None
    ranges = multirange.spread(MANY, SIZE)
    with closing(program):
        path = filesystems.path(c.endpoint, replace(c.bucket, prefix=""), c.known)
        sizes = [last - first + 1 for first, last in ranges]
        try:
            parts = program.vector(url_of(c.endpoint, path), [first for first, _ in ranges], sizes)
        except DavixError as error:
            raise Otherwise(f"{error.kind}: {error}") from None
        right = all(part == c.body[first : last + 1] for part, (first, last) in zip(parts, ranges, strict=True))
        spent, seen = program.spent, facts([program.spent])
    demand(right, f"wrong bytes, in {spent.requests} requests", Otherwise)
    told = " ".join(f"answered {status}" for status in seen["answers_to_several"])
    said = f"{spent.requests} requests, {spent.several} of them for several ranges ({told or 'none'}), every byte right"
    demand(spent.requests == spent.several == 1, said, Otherwise)
    return yes("1 request, answered 206, every byte right", **seen)
