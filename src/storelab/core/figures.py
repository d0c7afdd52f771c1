"""Define the figures that a campaign declares, and the metrics that they can show.

`Figure` is the content of a campaign file. `resolved` checks it against the plan's axes, and returns the form in
plan.json.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from storelab.core.config_types import Scalars, StrictModel, json_list
from storelab.core.errors import require_known
from storelab.core.model import Axis, Workload

_READS = {
    "wire_per_read": ("wire", "mb_per_read", "On the wire, one read [MB]"),
    "needed_per_read": ("needed", "mb_per_read", "Needed for one read [MB]"),
    "requests": ("requests", "per_read", "Requests of one read"),
    "amplification": ("amplification", "ratio", "Amplification (wire / needed)"),
    "share_amplification": ("share_amplification", "ratio", "Amplification (wire / share of entries)"),
    "reads": ("reads", "per_s", "Reads [1/s]"),
    "entries": ("entries", "per_s", "Useful work [entries/s]"),
    "wire": ("wire", "mb_per_s", "Throughput on the wire [MB/s]"),
    "plan": ("plan", "s_per_read", "Planning of one read [s]"),
    "transfer": ("transfer", "s_per_read", "Transfer of one read [s]"),
    "decompress": ("decompress", "s_per_read", "Decompression of one read [s]"),
    "deserialise": ("deserialise", "s_per_read", "Deserialisation of one read [s]"),
}
# Table: name of a metric in a campaign: (stem, unit of its columns, label of an axis).
METRICS: dict[str, dict[str, tuple[str, str, str]]] = {
    "throughput": {
        "throughput": ("throughput", "mb_per_s", "Throughput [MB/s]"),
        "rate": ("rate", "per_s", "Operations/s"),
    },
    "sparse": _READS,
    "latency": {
        "p50": ("latency_p50", "ms", "Latency, p50 [ms]"),
        "p90": ("latency_p90", "ms", "Latency, p90 [ms]"),
        "p99": ("latency_p99", "ms", "Latency, p99 [ms]"),
        "p999": ("latency_p999", "ms", "Latency, p99.9 [ms]"),
        "ttfb_p50": ("ttfb_p50", "ms", "Time to first byte, p50 [ms]"),
        "ttfb_p99": ("ttfb_p99", "ms", "Time to first byte, p99 [ms]"),
    },
    "roles": {
        "rate": ("rate", "per_s", "Operations/s"),
        "throughput": ("throughput", "mb_per_s", "Throughput [MB/s]"),
        "p50": ("latency_p50", "ms", "Latency, p50 [ms]"),
        "p90": ("latency_p90", "ms", "Latency, p90 [ms]"),
        "p99": ("latency_p99", "ms", "Latency, p99 [ms]"),
        "rate_over_before": ("rate_over_before", "ratio", "Rate over that before"),
        "p50_over_before": ("latency_p50_over_before", "ratio", "p50 over that before"),
        "p99_over_before": ("latency_p99_over_before", "ratio", "p99 over that before"),
    },
    "events": {
        "events": ("events", "per_s", "Events/s"),
        "wire": ("wire", "mb_per_s", "Throughput into the node [MB/s]"),
        "wire_per_event": ("wire", "bytes_per_event", "On the wire, one event [bytes]"),
        "requests": ("requests", "per_event", "Requests of one event"),
        "amplification": ("amplification", "ratio", "Amplification (wire / needed)"),
    },
    "resources": {
        "client_cpu": ("client_cpu", "cores", "CPU of the clients [cores]"),
        "server_cpu": ("server_cpu", "cores", "CPU of the server [cores]"),
        "client_memory": ("client_rss", "mb", "Memory of the clients [MB]"),
        "sockets": ("open", "sockets", "Open TCP sockets"),
        "network": ("network", "mb_per_s", "Network [MB/s]"),
        "ports": ("ports", "percent", "Ephemeral ports taken [%]"),
        "memory": ("host_memory", "percent", "Memory in use on a client's host [%]"),
    },
    "space": {
        f"after_{state}": (f"raw_per_byte_after_{state}", "ratio", "Raw bytes used for each byte stored")
        for state in ("put", "delete", "reclaim")
    },
}
COLUMNS = {"latency": ("op", "loop"), "roles": ("role", "phase")}  # columns of a table, in addition to the axes
EVERYWHERE = ("store", "workload")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed), json_list(type="string")]


class Limit(StrictModel):
    """A reference line in a figure."""

    at: float = Field(description="Position, in the unit of the metric.")
    label: str = Field("", description="Label of the line.")


class Figure(StrictModel):
    """A figure that the campaign declares: medians with their intervals, see docs/figures.md.

    Columns are axes, `store` or `workload`.
    """

    table: str = Field(
        description="Table in `tables/`: throughput, sparse, latency, roles, events, resources or space.",
        json_schema_extra={"enum": [*METRICS]},
    )
    x: str = Field(description="Column on the x axis; a column of names gives one row for each name.")
    y: Names = Field(
        min_length=1, description="Metric of the table, or a list of metrics, each with a column of panels."
    )
    where: dict[str, Scalars] = Field(
        default_factory=dict,
        description="Column and a value, a list, `least`, `most`, or a bound like `>= 1 MB`; selects the drawn rows.",
    )
    hue: Names = Field(
        default_factory=list,
        description="Columns that distinguish curves; other varying axes that are not used elsewhere are added.",
    )
    panels: Names = Field(default_factory=lambda: ["store"], description="Columns that distinguish panels.")
    title: str = Field("", description="Title of the figure; default: the metric and the column on the x axis.")
    caption: str = Field(
        "", description="First part of the caption; the number of runs, intervals and shared hosts are added."
    )
    x_label: str = Field("", description="Label of the x axis; default: the name of the axis in words.")
    y_label: str = Field("", description="Label of the y axis with its unit; default: the label of the metric.")
    x_scale: Literal["auto", "linear", "log"] = Field("auto", description="Scale of the x axis.")
    y_scale: Literal["auto", "linear", "log"] = Field("auto", description="Scale of the y axis.")
    limits: list[Limit] = Field(
        default_factory=list, description="Reference lines, for example the limit of the network."
    )


def _figure_name(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z]+(_[a-z]+)*", value):
        raise ValueError(f"{value!r} is not a valid figure name; use small letters and '_' between words")
    return value


_JSON_NAME = {"type": "string", "pattern": "^[a-z]+(_[a-z]+)*$"}
FigureName = Annotated[str, BeforeValidator(_figure_name), WithJsonSchema(_JSON_NAME)]


def resolved(figures: Mapping[str, Figure], workloads: Iterable[Workload]) -> dict[str, Any]:
    """Return the figures in the form of plan.json: with columns instead of axes, and with parsed values.

    Raises UserError if a table, metric, column or workload is unknown.
    """
    used = list(workloads)
    return {name: _resolved(f"figures.{name}", figure, used) for name, figure in figures.items()}


def _resolved(place: str, figure: Figure, workloads: list[Workload]) -> dict[str, Any]:
    metrics = METRICS[known(f"{place}.table", figure.table, METRICS, "table with medians")]
    axes = {a.name: a for w in workloads for a in w.axes}
    plain = (*EVERYWHERE, *COLUMNS.get(figure.table, ()))

    def column(key: str, name: str) -> str:
        found = known(f"{place}.{key}", name, [*axes, *plain], "column of this campaign")
        return found if found in plain else axes[found].column

    where = {}
    for name, value in figure.where.items():
        at = f"{place}.where.{name}"
        values = value if isinstance(value, list) else [value]
        if name == "workload":
            values = [known(at, v, [w.name for w in workloads], "workload of this campaign") for v in values]
        elif name in axes:
            values = [bounded(axes[name], v, at) for v in values]
        where[column("where", name)] = values if isinstance(value, list) else values[0]
    return figure.model_dump(mode="json") | {
        "x": column("x", figure.x),
        "y": [known(f"{place}.y", name, metrics, f"metric of {figure.table}") for name in figure.y],
        "hue": [column("hue", name) for name in figure.hue],
        "panels": [column("panels", name) for name in figure.panels],
        "where": where,
    }


def bounded(axis: Axis, value: Any, place: str) -> Any:
    """Return a parsed value of an axis, `least`, `most`, or a bound such as `>= 1 MB`. Raises UserError."""
    if value in ("least", "most"):
        return value
    if isinstance(value, str) and (bound := re.fullmatch(r"(>=|<=|>|<) *(.+)", value)):
        return f"{bound[1]} {axis.parse(_number(bound[2].strip(), axis.kind), place)}"
    return axis.parse(value, place)


def _number(text: str, kind: str) -> Any:
    """Return the number in a bound of an axis of this kind.

    Other text is returned unchanged, so that the axis rejects it.
    """
    try:
        return float(text) if kind == "percent" else int(text)
    except ValueError:  # not a number, or one with thousands of digits
        return text


def known(place: str, name: Any, names: Iterable[str], what: str) -> str:
    """Return the name if it is one of `names`. Raises UserError."""
    require_known(place, name, list(dict.fromkeys(names)), f"{name!r} is not a {what}", "one of:")
    return str(name)
