"""What Prometheus reads of a campaign that is measured: `/metrics`. docs/live.md has the names."""

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

TYPE = CONTENT_TYPE_LATEST
MOODS = ("waiting", "running", "between", "killed", "silent", "stopped", "complete")
SIDES = {"clients": "client_cores", "store": "server_cores", "host": "host_cores"}
# Name -> what it is; the metrics of the point that is measured bear its store and its workload.
OF_CAMPAIGN = {
    "storelab_points": "Points of the campaign by state: done (invalid among them), invalid, failed, to come.",
    "storelab_mood": "1 for what goes on: waiting, running, between, killed, silent, stopped or complete.",
    "storelab_left_seconds": "Seconds that the campaign takes still, about; absent where nobody measures.",
    "storelab_age_seconds": "Seconds since the measuring side said something.",
}
OF_POINT = {
    "storelab_operations": "Operations of the point so far that were good; it begins anew with each point.",
    "storelab_errors": "Operations of the point so far that failed; it begins anew with each point.",
    "storelab_bytes": "Useful bytes of the point so far; it begins anew with each point.",
    "storelab_operations_per_second": "Good operations in the last second.",
    "storelab_errors_per_second": "Failed operations in the last second.",
    "storelab_bytes_per_second": "Useful bytes in the last second.",
    "storelab_cpu_cores": "Cores that were busy in the last second: for clients, store, host (all of it).",
    "storelab_memory_bytes": "Resident memory of clients and store.",
}
NAMES = {**OF_CAMPAIGN, **OF_POINT}


class Collector:
    """Tells what is known at the moment of a scrape."""

    def __init__(self, told: dict[str, Any]):
        self.told = told

    def collect(self) -> Iterator[Metric]:
        told, campaign = self.told, self.told["name"]
        yield _gauge("storelab_points", {"state": told["counts"]}, campaign=campaign)
        yield _gauge("storelab_mood", {"mood": {m: int(m == told["mood"]) for m in MOODS}}, campaign=campaign)
        yield _gauge("storelab_left_seconds", told["left_s"], campaign=campaign)
        yield _gauge("storelab_age_seconds", told["age_s"], campaign=campaign)
        if told["state"] and told["mood"] == "running":
            yield from self._of_point(told["state"], campaign)

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
    """A gauge with these labels: of one value, or of {label: {its value: number}}; without what is not known."""
    ((label, values),) = value.items() if isinstance(value, dict) else [("", {"": value})]
    names: Iterable[str] = [*where, *([label] if label else [])]
    gauge = GaugeMetricFamily(name, NAMES[name], labels=list(names))
    for word, number in values.items():
        if number is not None:
            gauge.add_metric([*where.values(), *([word] if label else [])], number)
    return gauge


def text(told: dict[str, Any]) -> bytes:
    """The answer to a scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(told))
    return generate_latest(registry)
