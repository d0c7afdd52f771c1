"""How a repository asks a store: as CernVM-FS 2.12.0 does, or tuned. Imports the axes alone.

`cvmfs`: a HEAD before each upload of a content-addressed object, single PUTs, `x-amz-acl` signed on every request, 16
connections (CVMFS_S3_MAX_NUMBER_OF_PARALLEL_CONNECTIONS), 60 s (CVMFS_S3_TIMEOUT), 3 retries (CVMFS_S3_MAX_RETRIES).
Its back-off is reset after each wait, so that each is a random time up to 100 ms; it waits in the one thread that moves
all bytes, so that all transfers stand still meanwhile. 429 is not counted as a retry.
"""

from dataclasses import dataclass

from storelab.core.axes.distribution import CVMFS, TUNED

TIMEOUT_S = 60.0
RETRIES = 3
AGAIN = (0, 500, 502, 503)  # statuses that are tried again; 0: no connection, or no answer
LONGEST_WAIT_S = 0.1  # before a retry: a random time up to it
THROTTLED = 429
THROTTLED_S, LONGEST_THROTTLED_S = 0.25, 10.0  # where no Retry-After is said; the longest that is heeded


@dataclass(frozen=True)
class Pattern:
    """head: before each upload of a content-addressed object; acl: header on every request; waits_together: a retry
    holds up all transfers; most: connections, None for no bound."""

    name: str
    head: bool
    acl: str | None
    waits_together: bool
    most: int | None


PATTERNS = {
    CVMFS: Pattern(CVMFS, True, "public-read", True, 16),
    TUNED: Pattern(TUNED, False, None, False, None),
}
