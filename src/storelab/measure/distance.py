"""A longer distance between clients and store: a proxy in front of each front-end, which delays every answer.

The proxy is the program linkproxy (`loadgen/cmd/linkproxy`). It needs no kernel module and no root, unlike netem.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.engines.contract import GangJob
from storelab.host import processes
from storelab.install import program
from storelab.stores.base import Store
from storelab.stores.managed.network import is_local
from storelab.stores.protocols.endpoint import Endpoint

AXIS = "round_trip_ms"
PROTOCOLS = ("s3", "http", "root")  # WebHDFS redirects clients to other ports, and a file system has none


def require(point: Point, store: Store, place: str) -> None:
    """Raise UserError if the point has a longer distance that this store cannot have."""
    if not point.axes.get(AXIS):
        return
    if not store.managed:
        raise UserError(
            place,
            f"store {store.name} is not managed by storelab, so its distance cannot be changed",
            "remove the axis",
        )
    if store.protocol not in PROTOCOLS or getattr(store, "several", False):
        problem = f"clients of store {store.name} are redirected or use no network, so no proxy can delay them"
        raise UserError(place, problem, "remove the axis, or the store from this sweep")


def proxy_program(place: str) -> str:
    """Return the path of the proxy. Raises UserError if it is not installed."""
    return str(program("linkproxy", "loadgen", place))


@contextmanager
def added(config: Config, point: Point, store: Store, job: GangJob) -> Iterator[None]:
    """Start a proxy in front of each endpoint of the job, or of its distant roles, and let the clients use it."""
    own = getattr(config.launcher, "address", None) or "127.0.0.1"
    with ExitStack() as stack:
        for part, one in zip(point.parts(), job.parts, strict=True):
            if delay_ms := part.point.axes.get(AXIS, 0):
                proxies = [_proxy(end, own, delay_ms, f"stores.{store.name}") for end in one.endpoints]
                one.endpoints = [stack.enter_context(proxy) for proxy in proxies]
        yield


@contextmanager
def _proxy(end: Endpoint, own: str, delay_ms: int, place: str) -> Iterator[Endpoint]:
    """Start a proxy on a free port. Yield the endpoint that clients use instead.

    The proxy has the address of the front-end, whose link then carries the traffic. If a front-end is in a separate
    network namespace, the proxy has this machine's `own` address.
    """
    parts = urlsplit(end.url)
    host = parts.hostname if parts.hostname and is_local(parts.hostname) else own
    listen = f"[{host}]:0" if ":" in host else f"{host}:0"
    command = [proxy_program(place), "-listen", listen, "-target", parts.netloc, "-delay", f"{delay_ms}ms"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=processes.die_with_parent()
    )
    try:
        assert process.stdout and process.stderr
        if not (line := process.stdout.readline()):
            raise MeasurementFailed(f"{place}: the proxy did not start: {process.stderr.read().strip()[:200]}")
        netloc = f"{listen[:-2]}:{json.loads(line)['port']}"
        yield replace(end, url=parts._replace(netloc=netloc).geturl())
    finally:
        processes.stop(process)
        process.communicate()
