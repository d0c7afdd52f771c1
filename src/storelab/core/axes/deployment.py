"""Axes that make a deployment of a managed store; the default is the store as it is configured.

May import: `core.model`.
"""

from storelab.core.model import Axis

REDUNDANCY = Axis(
    "redundancy",
    "text",
    "default",
    "Redundancy",
    "Redundancy of the store: none, replica-N, ec-K-M.",
    heading="Redundancy",
    words="{}",
    values={"default": "", "none": "no redundancy"},
    setting="redundancy",
)
SERVERS = Axis(
    "servers",
    "int",
    0,
    "Data servers",
    "Volume servers, OSDs, drives, DataNodes.",
    minimum=0,
    heading="Data servers",
    words="{}",
    noun="data server",
    values={"0": ""},
    setting="servers",
)
BACKING = Axis(
    "backing",
    "text",
    "default",
    "Backing",
    "Where the store keeps its data.",
    choices=("default", "disk", "tmpfs", "memory"),
    heading="Backing",
    words="on {}",
    values={"default": ""},
    setting="backing",
)
SCHEME = Axis(
    "scheme",
    "text",
    "default",
    "Scheme",
    "Between client and front-end.",
    choices=("default", "http", "https"),
    heading="Scheme",
    words="{}",
    values={"default": ""},
    setting="tls",
    setting_values={"http": False, "https": True},
    ceiling=True,
)
