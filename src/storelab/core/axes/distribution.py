"""Axes of the distribution of software: how a release is published and replicated. May import: `core.model`."""

from storelab.core.model import Axis

CVMFS, TUNED = "cvmfs", "tuned"  # patterns
NOWHERE = "none"  # of `stratum0` and `expired`: no store, no day


def days_of(text: str) -> range:
    """`22-25`, `7` or `none` as days. Raises ValueError."""
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
    "`cvmfs`: as CernVM-FS asks: HEAD, PUT if absent, x-amz-acl, 16 connections at most; `tuned`: no HEAD before an "
    "upload, no x-amz-acl, as many connections as `workers`.",
    choices=(CVMFS, TUNED),
    heading="Pattern",
    words="pattern {}",
    told=True,
)
DAYS = Axis(
    "days",
    "int",
    5,
    "Days",
    "So many days of the release, one after the other, from the first on.",
    heading="Days",
    words="{}",
    noun="day",
)
EXPIRED = Axis(
    "expired",
    "text",
    NOWHERE,
    "Expired",
    "Days on which requests to stratum 0 bear a signature of the day before, e.g. `22-25`; `none`: no day.",
    heading="Expired",
    words="signature expired on days {}",
    values={NOWHERE: ""},
)
KEEP = Axis(
    "keep",
    "int",
    3,
    "Days kept",
    "So many days stay, the newest; what only older ones need is garbage.",
    heading="Kept",
    words="{} kept",
    noun="day",
)
STRATUM0 = Axis(
    "stratum0",
    "text",
    NOWHERE,
    "Stratum 0",
    "The store that the release is published to, and replicated from: another one of `stores`.",
    heading="Stratum 0",
    words="stratum 0 on {}",
    values={NOWHERE: ""},
    told=True,
)
