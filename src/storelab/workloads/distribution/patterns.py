"""How a repository asks a store, as CernVM-FS or tuned, and which keys it has. Imports the axes only."""

import re
from dataclasses import dataclass

from storelab.core.axes.distribution import CVMFS, TUNED

MOST_BYTES = 10**9  # of an object: a catalog may be large


@dataclass(frozen=True)
class Pattern:
    """How a repository asks a store. head: before each upload of a content-addressed object; acl: header on every
    request; waits_together: a retry holds up all transfers; most: connections, None for no bound."""

    name: str
    head: bool
    acl: str | None
    waits_together: bool
    most: int | None


# `cvmfs`: as CernVM-FS 2.12.0: a HEAD before each upload of a content-addressed object, single PUTs, `x-amz-acl` signed
# on every request, 16 connections (CVMFS_S3_MAX_NUMBER_OF_PARALLEL_CONNECTIONS). A retry waits in the one thread that
# moves all bytes, so that all transfers stand still meanwhile.
PATTERNS = {
    CVMFS: Pattern(CVMFS, True, "public-read", True, 16),
    TUNED: Pattern(TUNED, False, None, False, None),
}


def objects_of(prefix: str, repository: str) -> str:
    """Return a pattern of the keys of a repository."""
    return rf"{re.escape(prefix + repository)}/(?:data/[0-9a-f]{{2}}/[0-9a-f]{{38}}[A-Z]?|\.cvmfs[a-z]+)"
