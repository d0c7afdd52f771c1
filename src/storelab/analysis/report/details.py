"""Details of points that the tables do not have: clients, engine, checks, budget, store, environment.

Details also include rate, errors, latency, CPU, memory and network over time. The number of positions of a line is
limited, independent of the number of records.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.records import scan
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import build as tables
from storelab.core.records import HUNG

PART = 40  # number of points in a block, which the page unpacks as a whole
STEPS = 50  # maximum number of positions of a line over the time of a point
MIN_POSITIONS = 10  # number of positions if there are few operations; steps without an operation would look like stalls
MIN_STEP_OPERATIONS = 5  # minimum number of operations per step
MAX_CLIENTS = 64  # maximum number of clients that are listed for a point
MAX_LINES = 12  # maximum number of daemons or interfaces in one panel
LONGEST = 2000  # maximum number of characters of a text

_OVER_TIME = """
SELECT key, least(greatest((end_ns - agreed_ns - 1) // step_ns, 0), {last})::INTEGER AS step,
  sum(count) FILTER (error IS NULL) AS good, sum(count) FILTER (error IS NOT NULL) AS bad,
  quantile_cont((end_ns - coalesce(intended_ns, start_ns)) / 1e6, 0.5)
    FILTER (error IS NULL AND start_ns IS NOT NULL) AS p50,
  quantile_cont((end_ns - coalesce(intended_ns, start_ns)) / 1e6, 0.99)
    FILTER (error IS NULL AND start_ns IS NOT NULL) AS p99
FROM rows JOIN steps USING (key)
WHERE end_ns > agreed_ns AND end_ns <= deadline_ns AND error IS DISTINCT FROM '{hung}'
GROUP BY ALL ORDER BY key, step"""
_MONITOR = """
SELECT key, what, name, time_ns, sum(cpu_user_s + cpu_system_s) AS cpu_s, sum(rss_bytes) AS rss_bytes,
  sum(rx_bytes) AS rx_bytes, sum(tx_bytes) AS tx_bytes
FROM (SELECT key, what, CASE WHEN what = 'client' THEN 'clients' WHEN what = 'host' THEN host ELSE name END AS name,
        time_ns, cpu_user_s, cpu_system_s, rss_bytes, rx_bytes, tx_bytes FROM rows)
GROUP BY ALL ORDER BY key, what, name, time_ns"""


def parts(campaign: Campaign) -> dict[str, dict[str, Any]]:
    """Return the blocks with details: name of the block -> key of a point -> its details.

    Each block has up to PART points, in the order of points.csv.
    """
    order = [p["key"] for p in sorted(campaign.points, key=lambda p: p["order"])]
    time, seen, latencies = _over_time(campaign), _monitor(campaign), _latencies(campaign)
    out: dict[str, dict[str, Any]] = {}
    for first in range(0, len(order), PART):
        out[f"details-{first // PART}"] = {
            key: _point(campaign, key, time.get(key), seen.get(key), latencies.get(key, []))
            for key in order[first : first + PART]
        }
    return out


def panels(campaign: Campaign, key: str) -> list[dict[str, Any]]:
    """Return the panels of a point over time: rate, latency, CPU, memory and network, if they were recorded."""
    run = campaign.runs[key]
    time, seen = (found(campaign, [key]).get(key) for found in (_over_time, _monitor))
    return [*_time_panels(time, run), *_monitor_panels(seen, run)]


def _point(
    campaign: Campaign,
    key: str,
    time: pd.DataFrame | None,
    seen: pd.DataFrame | None,
    latencies: list[list[Any]],
) -> dict[str, Any]:
    run = campaign.runs.get(key)
    tries = [[_when(t["time_ns"]), t["outcome"], _text(t["reason"])] for t in campaign.tries(key)]
    earlier_tries = _table("Earlier tries", ["time", "outcome", "reason"], tries)
    if run is None:
        failed = campaign.failures[key]
        facts = {"tried": _when(failed["time_ns"]), **failed.get("detail", {})}
        return {"facts": [["Failed", _facts(facts)]], "tables": earlier_tries, "panels": []}
    return {
        "facts": [[name, rows] for name, part in _recorded(run).items() if (rows := _facts(part))],
        "tables": [
            *_table("Latency", ["op", *(f"{m} [ms]" for m in QUANTILES), "operations"], latencies),
            *_table("Clients", *_clients(run)),
            *_table("Events", *_events(run)),
            *_table("Checks", ["check", "passed", "detail"], [[_text(c.get(k)) for k in CHECK] for c in run["checks"]]),
            *earlier_tries,
        ],
        "panels": [*_time_panels(time, run), *_monitor_panels(seen, run)],
    }


CHECK = ("name", "ok", "detail")
QUANTILES = ("p50", "p90", "p99", "p999", "max")
CLIENT = (
    "client",
    "role",
    "node",
    "host",
    "endpoint",
    "lateness_ns",
    "operations",
    "errors",
    "bytes",
    "connections_max",
)
CLIENT_MORE = ("cpu_user_s", "cpu_system_s", "max_rss_bytes", "exit_status")


def _recorded(run: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the parts of a record that the page shows: heading -> part."""
    hosts = {k: v for k, v in (run.get("host") or {}).items() if k != "network"}
    return {
        "Engine": run.get("engine") or {},
        "Budget": run.get("budget") or {},
        "Cold reads": run.get("cold") or {},
        "Fill": run.get("fill") or {},
        "Durability": {k: v for k, v in (run.get("durability") or {}).items() if k != "examples"},
        "Store": run.get("store") or {},
        "Host": hosts,
        "Environment": run.get("environment") or {},
        "Record": {k: run.get(k) for k in ("schema", "attempt", "launcher", "coordinator")},
    }


def _facts(fields: Mapping[str, Any], before: str = "") -> list[list[str]]:
    """Return lists of name and value for all plain values, including those of nested mappings.

    before: prefix of the names, which is the name of the outer mapping.
    """
    out = []
    for name, value in fields.items():
        name = f"{before}{name}"
        if isinstance(value, Mapping):
            out += _facts(value, f"{name} · ")
        elif value is not None and value != []:
            out.append([name, _text(value)])
    return out


def _text(value: Any) -> str:
    """Return a value as text for readers. A text longer than LONGEST is cut off."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        text = ", ".join(map(_text, value))
    elif isinstance(value, Mapping):
        text = ", ".join(f"{k}: {_text(v)}" for k, v in value.items())
    else:
        text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def _when(time_ns: int) -> str:
    return pd.Timestamp(time_ns, unit="ns").strftime("%Y-%m-%dT%H:%M:%SZ")


def _table(title: str, columns: list[str], rows: list[list[Any]]) -> list[dict[str, Any]]:
    return [{"title": title, "columns": columns, "rows": rows}] if rows else []


def _clients(run: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of a table of the first MAX_CLIENTS clients. Columns without values are omitted."""
    clients = run["clients"][:MAX_CLIENTS]
    columns = [c for c in (*CLIENT, *CLIENT_MORE) if any(one.get(c) is not None for one in clients)]
    wrong = any((one.get("engine") or {}).get("errors") for one in clients)
    rows = [
        [
            *(_text(one.get(c)) for c in columns),
            *([_text((one.get("engine") or {}).get("errors"))] if wrong else []),
        ]
        for one in clients
    ]
    if len(run["clients"]) > MAX_CLIENTS:
        rows.append([f"… of {len(run['clients'])}", *[""] * (len(columns) - 1 + wrong)])
    return [*columns, *(["errors by class"] if wrong else [])], rows


def _events(run: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of a table of events.

    The first columns are times in seconds after the agreed start, followed by all other fields of the events.
    """
    events = [e for e in run.get("events") or [] if isinstance(e, Mapping)]
    names = list(dict.fromkeys(name for e in events for name in e if not name.endswith("_ns")))
    times = list(dict.fromkeys(name for e in events for name in e if name.endswith("_ns")))

    def seconds(value: Any) -> str:
        return f"{(value - run['start_ns']) / 1e9:.3f}" if isinstance(value, int) else ""

    rows = [[*(seconds(e.get(t)) for t in times), *(_text(e.get(n)) for n in names)] for e in events[: 10 * STEPS]]
    return [*(f"{t.removesuffix('_ns')} [s]" for t in times), *names], rows


def _latencies(campaign: Campaign) -> dict[str, list[list[Any]]]:
    """Return the latencies of each point: key -> rows of op, QUANTILES in ms, and number of operations."""
    found = tables.Tables(campaign)["latencies"]
    out: dict[str, list[list[Any]]] = {}
    for row in found.to_dict("records") if len(found) else []:
        values = [row.get(f"latency_{q}_ms", row.get(f"latency_{q}")) for q in QUANTILES]
        values_text = ["" if v is None or pd.isna(v) else f"{float(v):.6g}" for v in (*values, row["operations"])]
        out.setdefault(row["key"], []).append([str(row["op"]), *values_text])
    return out


def _over_time(campaign: Campaign, keys: Iterable[str] | None = None) -> dict[str, pd.DataFrame]:
    """Return the operations of each point over time: key -> table of step, good, bad, p50 and p99.

    The operations of a step are those that ended in it, before the deadline.
    """
    con = scan.connect(campaign, "ops", keys)
    if con is None:
        return {}
    steps = [(key, _step_ns(run), run["deadline_ns"]) for key, run in campaign.runs.items()]
    con.register("steps", pd.DataFrame(steps, columns=["key", "step_ns", "deadline_ns"]))
    found = con.execute(_OVER_TIME.format(last=STEPS - 1, hung=HUNG)).df()
    return dict(iter(found.groupby("key", sort=False)))


def _step_ns(run: Mapping[str, Any]) -> int:
    """Return the length of a step of a run, in ns.

    A run has STEPS steps, or fewer if it has few operations. A step is never shorter than a bin of operations.
    """
    lasts = max(1, run["deadline_ns"] - run["start_ns"])
    operations = sum((c.get("operations") or 0) + (c.get("errors") or 0) for c in run["clients"])
    whole = -(-lasts // min(STEPS, max(MIN_POSITIONS, operations // MIN_STEP_OPERATIONS)))
    return max(whole, scan.bin_ns(run)) if run["engine"].get("name") == "loadgen" else whole


def _monitor(campaign: Campaign, keys: Iterable[str] | None = None) -> dict[str, pd.DataFrame]:
    """Return the samples of the monitor for the host, all clients, daemons and interfaces: key -> table."""
    con = scan.connect(campaign, "monitor", keys)
    return {} if con is None else dict(iter(con.execute(_MONITOR).df().groupby("key", sort=False)))


def _panel(label: str, lines: list[dict[str, Any]], scale: str = "linear") -> list[dict[str, Any]]:
    if not lines:
        return []
    x = {"label": "Seconds from the agreed start", "scale": "linear"}
    return [{"title": "", "x": x, "y": {"label": label, "scale": scale}, "value": "y", "lines": lines, "levels": []}]


def _curve(name: str, colour: str, x: Iterable[float], y: Iterable[float], step: bool = False) -> dict[str, Any]:
    return {"name": name, "colour": colour, "marker": "none", "dash": "-", "step": step, "x": _short(x), "y": _short(y)}


def _short(values: Iterable[float]) -> list[float | None]:
    return [float(f"{v:.4g}") if np.isfinite(v) else None for v in map(float, values)]


COLOURS = ("#0173b2", "#de8f05", "#029e73", "#cc78bc", "#ca9161", "#56b4e9", "#949494", "#d55e00", "#ece133", "#fbafe4")


def _time_panels(found: pd.DataFrame | None, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of rate and errors, and of latency, over the time of a point."""
    if found is None or found.empty:
        return []
    width, lasts = _step_ns(run) / 1e9, (run["deadline_ns"] - run["start_ns"]) / 1e9
    every = found.set_index("step").reindex(range(min(STEPS, int(np.ceil(lasts / width - 1e-9)))))
    middle = [(i + 0.5) * width for i in every.index]
    lengths = np.array([min(width, max(lasts - i * width, 1e-9)) for i in every.index])
    rates = [_curve("operations/s", COLOURS[0], middle, every["good"].fillna(0).astype(float) / lengths, True)]
    if every["bad"].fillna(0).sum():
        rates.append(_curve("failed/s", "#d55e00", middle, every["bad"].fillna(0).astype(float) / lengths, True))
    times = [
        _curve(name, COLOURS[i], middle, every[name].astype(float))
        for i, name in enumerate(("p50", "p99"))
        if every[name].notna().any()
    ]
    return [*_panel("Operations/s", rates), *_panel("Latency [ms]", times, "log")]


def _monitor_panels(found: pd.DataFrame | None, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of CPU in cores, memory and network, from the samples of the monitor.

    CPU and network are computed from the differences of the counters between samples.
    """
    if found is None or found.empty:
        return []
    cpu, memory, network = [], [], []
    for (what, name), samples in found.groupby(["what", "name"], sort=False):
        samples = samples.iloc[:: max(1, len(samples) // STEPS)]
        seconds = (samples["time_ns"].to_numpy(float) - run["start_ns"]) / 1e9
        between = np.diff(seconds)
        if len(samples) < 2 or not (between > 0).all():
            continue
        middle, label = (seconds[1:] + seconds[:-1]) / 2, str(name) if what != "host" else f"host {name}"
        if what == "interface":
            moved = [np.diff(samples[c].to_numpy(float)) / between / 1e6 for c in ("rx_bytes", "tx_bytes")]
            if max(np.nanmax(m) for m in moved) > 0:
                network.append((label, middle, np.maximum(*moved)))
            continue
        cpu.append((label, middle, np.diff(samples["cpu_s"].to_numpy(float)) / between))
        memory.append((label, seconds, samples["rss_bytes"].to_numpy(float) / 1e6))
    return [
        panel
        for label, lines in (
            ("CPU [cores]", cpu),
            ("Memory [MB]", memory),
            ("Network, busier direction [MB/s]", network),
        )
        for panel in _panel(
            label, [_curve(label, COLOURS[i % len(COLOURS)], *xy) for i, (label, *xy) in enumerate(lines[:MAX_LINES])]
        )
    ]
