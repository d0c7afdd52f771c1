"""Declare the axes for the distribution of software.

They describe how a release is published and replicated, and how clients start an application from a repository.
"""

import re
from dataclasses import dataclass

from storelab.core.model import Axis

CVMFS, TUNED = "cvmfs", "tuned"  # values of the axis `pattern`
NOWHERE = "none"  # value of `stratum0` (no store) and `expired` (no day)


def days_of(text: str) -> range:
    """Return the days of a text such as `22-25`, `7` or `none`. Raises ValueError."""
    if text == NOWHERE:
        return range(0)
    first, _, last = text.partition("-")
    if not all(part.isascii() and part.isdigit() for part in (first, last or first)):
        raise ValueError(text)
    found = range(int(first), int(last or first) + 1)
    if not found or found[0] < 1:
        raise ValueError(text)
    return found


PATTERN = Axis(
    "pattern",
    "text",
    CVMFS,
    "Pattern",
    "`cvmfs`: requests like those of CernVM-FS: HEAD, PUT if absent, x-amz-acl, at most 16 connections; `tuned`: no "
    "HEAD before an upload, no x-amz-acl, and `workers` connections.",
    choices=(CVMFS, TUNED),
    heading="Pattern",
    words="pattern {}",
    always_shown=True,
)
DAYS = Axis(
    "days",
    "int",
    5,
    "Days",
    "Number of consecutive days of the release, from the first day.",
    heading="Days",
    words="{}",
    noun="day",
)
EXPIRED = Axis(
    "expired",
    "text",
    NOWHERE,
    "Expired",
    "Days on which requests to stratum 0 have a signature of the day before, e.g. `22-25`; `none`: no day.",
    heading="Expired",
    words="signature expired on days {}",
    values={NOWHERE: ""},
)
KEEP = Axis(
    "keep",
    "int",
    3,
    "Days kept",
    "Number of newest days that are kept; objects that only older days need are garbage.",
    heading="Kept",
    words="{} kept",
    noun="day",
)
STRATUM0 = Axis(
    "stratum0",
    "text",
    NOWHERE,
    "Stratum 0",
    "The store to which the release is published and from which it is replicated. It is another store of `stores`.",
    heading="Stratum 0",
    words="stratum 0 on {}",
    values={NOWHERE: ""},
    always_shown=True,
)


NO_CACHE = "none"  # value of the axes `client_cache` and `http_cache`
KEPT, SQUID = "kept", "squid"
START_FILES = Axis(
    "start_files",
    "int",
    200,
    "Files of a start",
    "Number of files that a start reads: median of a log-normal distribution (sigma 0.25), at most the number of files "
    "of the application.",
    heading="Files",
    words="starts of {} files",
)
APPLICATIONS = Axis(
    "applications",
    "int",
    1,
    "Applications",
    "Number of different applications; each start chooses one at random.",
    heading="Applications",
    words="{}",
    noun="application",
    values={"1": ""},
)
CLIENT_CACHE = Axis(
    "client_cache",
    "text",
    NO_CACHE,
    "Client cache",
    "`none`: every start is cold; `kept`: a client keeps the objects for its next starts.",
    choices=(NO_CACHE, KEPT),
    heading="Client cache",
    words="client cache {}",
    values={NO_CACHE: "cold clients", KEPT: "warm clients"},
)
HTTP_CACHE = Axis(
    "http_cache",
    "text",
    NO_CACHE,
    "HTTP cache",
    "`squid`: all clients use one Squid, which is empty at first; `none`: they access the store directly.",
    choices=(NO_CACHE, SQUID),
    heading="HTTP cache",
    words="through {}",
    values={NO_CACHE: "no HTTP cache", SQUID: "through Squid"},
)


MAX_BYTES = 10**9  # maximum size of an object; a catalog can be large


@dataclass(frozen=True)
class Pattern:
    """A pattern of requests from a repository to a store.

    Attributes
    ----------
    head
        True to send HEAD before each upload of a content-addressed object.
    acl
        Value of the header `x-amz-acl` on every request.
    waits_together
        True if a retry delays all transfers.
    most
        Maximum number of connections; None for no limit.
    """

    name: str
    head: bool
    acl: str | None
    waits_together: bool
    most: int | None


# `cvmfs` is the pattern of CernVM-FS 2.12.0: a HEAD before each upload of a content-addressed object, single PUTs,
# `x-amz-acl` signed on every request, and 16 connections (CVMFS_S3_MAX_NUMBER_OF_PARALLEL_CONNECTIONS). A retry waits
# in the only thread that transfers bytes, so that all transfers wait.
PATTERNS = {
    CVMFS: Pattern(CVMFS, True, "public-read", True, 16),
    TUNED: Pattern(TUNED, False, None, False, None),
}


def objects_of(prefix: str, repository: str) -> str:
    """Return a regular expression for the keys of a repository."""
    return rf"{re.escape(prefix + repository)}/(?:data/[0-9a-f]{{2}}/[0-9a-f]{{38}}[A-Z]?|\.cvmfs[a-z]+)"
