"""Axes of clients that start an application from a repository of software. May import: `core.model`."""

from storelab.core.model import Axis

NO_CACHE = "none"  # of both axes of caches
KEPT, SQUID = "kept", "squid"
START_FILES = Axis(
    "start_files",
    "int",
    200,
    "Files of a start",
    "Files that a start reads: the median of a log-normal distribution (sigma 0.25), at most as many as the "
    "application has.",
    heading="Files",
    words="starts of {} files",
)
APPLICATIONS = Axis(
    "applications",
    "int",
    1,
    "Applications",
    "Different applications: each start is one of them, drawn evenly.",
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
    "`none`: every start is cold; `kept`: a client keeps what it fetched, by its content, from start to start.",
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
    "`squid`: all clients ask through one Squid, which is empty at first; `none`: they ask the store.",
    choices=(NO_CACHE, SQUID),
    heading="HTTP cache",
    words="through {}",
    values={NO_CACHE: "no HTTP cache", SQUID: "through Squid"},
)
