"""Web server of the live page. It listens only on loopback, or requires a token in the URL.

`/metrics` provides the state of the campaign to Prometheus; docs/live.md lists the metrics.
"""

import asyncio
import hmac
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from storelab.analysis.report import page
from storelab.analysis.report.live.address import is_loopback
from storelab.analysis.report.live.watch import Watched
from storelab.core.errors import error_text, one_line

HERE = Path(__file__).parent
AT_LEAST_S = 5.0  # maximum time between two events; sending an event shows if a browser was closed
MAX_BROWSERS = 64  # maximum number of browsers at the same time
SLOW_S = 10.0  # the connection to a browser is closed if it accepts no data for this time
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
VARIANT = page.Variant(
    policy="; connect-src 'self'",
    style=(HERE / "live.css").read_text(),
    script=(HERE / "live.js").read_text(),
    foot="Current state of the files of the campaign. Served by <code>storelab live</code>; nothing else is loaded.",
)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
WATCHED = web.AppKey("watched", Watched)
BROWSERS = web.AppKey("browsers", set)


def app(folder: Path, token: str = "") -> web.Application:
    """Return the web application with the pages of a campaign, below `/<token>/` if there is a token."""
    out = web.Application(middlewares=[_guard(token)])
    out[WATCHED], out[BROWSERS] = Watched(folder), set()
    place = "/{token}" if token else ""
    for name, handler in {
        "/": _page,
        "/events": _events,
        "/live.json": _live,
        "/points.json": _points,
        "/metrics": _metrics,
        "/report.html": _report,
    }.items():
        out.router.add_get(place + name, handler)
    out.cleanup_ctx.append(_watching)
    return out


def _guard(token: str) -> Any:
    """Return a middleware that rejects requests without the token.

    If the token is empty, only requests addressed to this host are accepted. Then a page of another site cannot reach
    the server under a different host name.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.match_info.get("token", "")
        if token and not hmac.compare_digest(given.encode(), token.encode()):
            raise web.HTTPNotFound(headers=HEADERS)
        if not token and not is_loopback(_host(request)):
            raise web.HTTPForbidden(headers=HEADERS)
        answer = await handler(request)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    return guard


def _host(request: web.Request) -> str:
    """Return the host to which a request is addressed, or an empty string if its URL is not valid."""
    try:
        return (request.url.host or "").strip("[]")
    except ValueError:
        return ""


class _OneLine(logging.Formatter):
    """A formatter that prints each error of a request on one line, because a client can send any text."""

    def formatException(self, ei: Any) -> str:
        return error_text(ei[1]) if ei[1] else ""

    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


def logger() -> logging.Logger:
    """Return the logger of the server, which prints one line for each request that is not valid."""
    found = logging.getLogger("storelab.live")
    if not found.handlers:
        found.addHandler(logging.StreamHandler())
        found.handlers[0].setFormatter(_OneLine("storelab: %(message)s"))
        found.propagate = False
    return found


async def _watching(application: web.Application) -> Any:
    task = asyncio.create_task(application[WATCHED].run())
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def head(watched: Watched) -> dict[str, Any]:
    """Return the block `head` of the page."""
    keys = [
        [word for part in key.split("/") for word in part.replace("~", " ").split("_")] for key in list(watched.rows)
    ]
    filters = {
        name: [[v, v] for v in values]
        for name in ("store", "engine")
        if len(values := sorted({str(row[name]) for row in watched.rows.values() if row.get(name)})) > 1
    }
    basics = {"name": watched.folder.name, "title": watched.title, "authors": [], "facts": [], "notes": []}
    return {**basics, "keys": keys, "filters": filters, "details": [], "part": 1}


async def _page(request: web.Request) -> web.Response:
    watched = request.app[WATCHED]
    blocks = {"head": head(watched), "tables": {"points": watched.table()}, "figures": {}, "live": watched.as_dict()}
    return web.Response(text=page.filled(f"{watched.title} · live", blocks, {}, VARIANT), content_type="text/html")


async def _live(request: web.Request) -> web.Response:
    return web.json_response(request.app[WATCHED].as_dict())


async def _points(request: web.Request) -> web.Response:
    watched = request.app[WATCHED]
    return web.json_response({"head": head(watched), "tables": {"points": watched.table()}})


async def _metrics(request: web.Request) -> web.Response:
    return web.Response(body=metrics_text(request.app[WATCHED].as_dict()), headers={"Content-Type": METRICS_TYPE})


async def _report(request: web.Request) -> web.StreamResponse:
    if (path := request.app[WATCHED].report()) is None:
        raise web.HTTPNotFound(text="The report of the campaign does not exist yet.", headers=HEADERS)
    return web.FileResponse(path, headers={"Content-Type": "text/html; charset=utf-8"})


async def _events(request: web.Request) -> web.StreamResponse:
    """Send the current state of the campaign at each change, until the browser closes the connection."""
    watched, browsers = request.app[WATCHED], request.app[BROWSERS]
    if len(browsers) >= MAX_BROWSERS:
        raise web.HTTPServiceUnavailable(text=f"{MAX_BROWSERS} browsers are already connected.", headers=HEADERS)
    answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
    browsers.add(answer)
    try:
        await answer.prepare(request)
        while True:
            version = watched.version
            line = f"data: {json.dumps(watched.as_dict(), allow_nan=False)}\n\n"
            await asyncio.wait_for(answer.write(line.encode()), SLOW_S)
            await watched.changed(version, AT_LEAST_S)
    except (ConnectionError, TimeoutError):
        return answer
    finally:
        browsers.discard(answer)


async def _serve(folder: Path, listening: socket.socket, token: str) -> None:
    runner = web.AppRunner(app(folder, token), access_log=None, logger=logger(), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def run(folder: Path, listening: socket.socket, token: str) -> None:
    """Serve the live page at a socket until interrupted."""
    asyncio.run(_serve(folder, listening, token))


# --- Prometheus ---

METRICS_TYPE = CONTENT_TYPE_LATEST
MOODS = ("waiting", "running", "between", "killed", "silent", "stopped", "failed", "complete")
SIDES = {"clients": "client_cores", "store": "server_cores", "host": "host_cores"}
# Name of a metric -> its description. Metrics of the current point have its store and workload as labels.
CAMPAIGN_METRICS = {
    "storelab_points": "Points of the campaign by state: done (invalid among them), invalid, failed, to come.",
    "storelab_mood": "1 for the current state: waiting, running, between, killed, silent, stopped, failed or complete.",
    "storelab_left_seconds": "Estimated remaining seconds of the campaign; absent if no process is measuring.",
    "storelab_age_seconds": "Seconds since the last update by the measuring process.",
}
POINT_METRICS = {
    "storelab_operations": "Successful operations of the current point; starts at zero for each point.",
    "storelab_errors": "Failed operations of the current point; starts at zero for each point.",
    "storelab_bytes": "Useful bytes of the current point; starts at zero for each point.",
    "storelab_operations_per_second": "Successful operations in the last second.",
    "storelab_errors_per_second": "Failed operations in the last second.",
    "storelab_bytes_per_second": "Useful bytes in the last second.",
    "storelab_cpu_cores": "Cores used in the last second by the clients, by the store, and on the whole host.",
    "storelab_memory_bytes": "Resident memory of clients and store.",
}
NAMES = {**CAMPAIGN_METRICS, **POINT_METRICS}


class Collector:
    """A Prometheus collector of the state of the campaign at the time of a scrape."""

    def __init__(self, shown: dict[str, Any]):
        self.shown = shown

    def collect(self) -> Iterator[Metric]:
        shown, campaign = self.shown, self.shown["name"]
        yield _gauge("storelab_points", {"state": shown["counts"]}, campaign=campaign)
        yield _gauge("storelab_mood", {"mood": {m: int(m == shown["mood"]) for m in MOODS}}, campaign=campaign)
        yield _gauge("storelab_left_seconds", shown["left_s"], campaign=campaign)
        yield _gauge("storelab_age_seconds", shown["age_s"], campaign=campaign)
        if shown["state"] and shown["mood"] == "running":
            yield from self._of_point(shown["state"], campaign)

    def _of_point(self, state: dict[str, Any], campaign: str) -> Iterator[Metric]:
        where = {"campaign": campaign, "store": state["point"]["store"], "workload": state["point"]["workload"]}
        for name in ("operations", "errors", "bytes"):
            counter = CounterMetricFamily(f"storelab_{name}", NAMES[f"storelab_{name}"], labels=list(where))
            if state[name] is not None:
                counter.add_metric(list(where.values()), state[name])
            yield counter
        last = {name: (column or [None])[-1] for name, column in state["seconds"].items()}
        for name in ("operations", "errors", "bytes"):
            yield _gauge(f"storelab_{name}_per_second", last[f"{name}_per_s"], **where)
        yield _gauge("storelab_cpu_cores", {"side": {side: last[c] for side, c in SIDES.items()}}, **where)
        memory = {"clients": state["client_rss_bytes"], "store": state["server_rss_bytes"]}
        yield _gauge("storelab_memory_bytes", {"side": memory}, **where)


def _gauge(name: str, value: Any, **where: str) -> Metric:
    """Return a gauge with these labels. Unknown values are omitted.

    value: a number, or {label: {value of the label: number}}.
    """
    ((label, values),) = value.items() if isinstance(value, dict) else [("", {"": value})]
    names: Iterable[str] = [*where, *([label] if label else [])]
    gauge = GaugeMetricFamily(name, NAMES[name], labels=list(names))
    for word, number in values.items():
        if number is not None:
            gauge.add_metric([*where.values(), *([word] if label else [])], number)
    return gauge


def metrics_text(shown: dict[str, Any]) -> bytes:
    """Return the response to a scrape. shown: the result of `Watched.as_dict`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(shown))
    return generate_latest(registry)
