"""`resources.csv`: what clients, server and host spent for what was moved.

From `host` and `clients` of run.json, and from the monitor's samples where there are any. Whole runs, agreed start to
deadline: CPU is not cut to the `overlap` window, and stands against the operations and bytes of the `last_done` window.
Medians over the runs as `stats.summarise` has them; null where a record does not tell (older ones have no monitor). See
docs/resources.md.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from storelab.analysis.parts import groups
from storelab.analysis.records import scan
from storelab.analysis.records.campaign import Campaign

METRICS = (  # name, unit: columns <name>_<median, low, high>_<unit>
    ("client_user", "s_per_1000"),  # CPU seconds per 1000 operations
    ("client_system", "s_per_1000"),
    ("client_user", "s_per_gb"),
    ("client_system", "s_per_gb"),
    ("client_user", "cores"),
    ("client_system", "cores"),
    ("client_cpu", "cores"),
    ("server_cpu", "cores"),
    ("host_cpu", "percent"),
    ("client_rss", "mb"),  # most memory of all clients and their child processes together
    ("host_memory", "mb"),  # most memory in use on a client's host
    ("host_memory", "percent"),  # of what it has
    ("open", "sockets"),  # most that the clients held at once
    ("established", "sockets"),  # most of a client's host: where the server is there too, both ends of a connection
    ("time_wait", "sockets"),  # most of a client's host
    ("time_wait_more", "sockets"),  # most above those of the agreed start, which points before it left
    ("ports", "percent"),  # most ephemeral ports in use or in TIME_WAIT
    ("opened", "per_operation"),  # connections begun on a client's host
    ("network", "mb_per_s"),  # of the busiest interface in its busier direction
    ("packets", "per_s"),
    ("link", "percent"),  # of what that interface can carry
    ("monitor", "percent"),  # of one core: what all this cost
)
TEXTS = ("interface", "cores", "host_ports")

_SAMPLES = """
WITH hosts AS (
  SELECT key, host, max(rss_bytes) AS memory, max(established) AS established, max(time_wait) AS time_wait,
    max(time_wait) - arg_min(time_wait, time_ns) AS time_wait_more, max(time_wait + established) AS two_hosts,
      max(time_wait + established // 2) AS one_host
  FROM rows WHERE what = 'host' GROUP BY key, host),
moments AS (
  SELECT key, host, time_ns, sum(rss_bytes) AS rss, sum(sockets) AS sockets
  FROM rows WHERE what = 'client' GROUP BY key, host, time_ns),
clients AS (SELECT key, host, max(rss) AS rss, max(sockets) AS sockets FROM moments GROUP BY key, host)
SELECT key, max(memory) / 1e6 AS host_memory, max(established) AS established, max(time_wait) AS time_wait,
  max(time_wait_more) AS time_wait_more, max(two_hosts) AS two_hosts, max(one_host) AS one_host,
  sum(rss) / 1e6 AS client_rss, sum(sockets) AS open
FROM hosts LEFT JOIN clients USING (key, host) GROUP BY key"""


def samples(campaign: Campaign) -> pd.DataFrame:
    """Per key (the index) of the runs with a monitor: most memory [MB] and sockets; of several hosts that with most,
    the sum of clients."""
    con = scan.connect(campaign, "monitor")
    return pd.DataFrame() if con is None else con.execute(_SAMPLES).df().set_index("key")


def busiest(host: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Traffic of the interface that moved most bytes in one direction: interface, network [MB/s], packets [1/s], link
    [%]."""
    moved = {nic: max(c["rx_bytes"], c["tx_bytes"]) for nic, c in (host.get("network") or {}).items()}
    if not moved or not seconds:
        return {}
    nic = max(moved, key=lambda n: moved[n])
    counters = host["network"][nic]
    out = {"interface": nic, "network_mb_per_s": moved[nic] / 1e6 / seconds}
    if "rx_packets" in counters:
        out["packets_per_s"] = max(counters["rx_packets"], counters["tx_packets"]) / seconds
    if counters.get("link_bits_per_s"):
        out["link_percent"] = 100 * 8 * moved[nic] / seconds / counters["link_bits_per_s"]
    return out


def _per(value: float | None, whole: float | None, factor: float = 1.0) -> float | None:
    """`factor` times the value per `whole`; None where one is not known, or nothing was done."""
    return None if value is None or not whole else factor * value / whole


def of_run(
    run: Mapping[str, Any], operations: float, moved_bytes: float, shared: bool, seen: Mapping[str, Any]
) -> dict[str, Any]:
    """`<name>_<unit>` -> value of one run. operations, moved_bytes: good ones until the last completion; seen: its row
    of `samples`."""
    host, clients = run.get("host") or {}, run["clients"]
    seconds = host.get("seconds") or (run["deadline_ns"] - run["start_ns"]) / 1e9
    out: dict[str, Any] = {"cores": host.get("cores"), "host_ports": host.get("ports"), **busiest(host, seconds)}
    spent = {kind: sum(c.get(f"cpu_{kind}_s") or 0.0 for c in clients) for kind in ("user", "system")}
    # Clients count their CPU until they end, behind the deadline: no more than what the hosts took until then.
    took, busy = sum(spent.values()), host.get("cpu_busy_s")
    part = 1.0 if busy is None or took <= busy else busy / took
    for kind, cpu in spent.items():
        out[f"client_{kind}_cores"] = _per(part * cpu, seconds)
        out[f"client_{kind}_s_per_1000"] = _per(1000 * cpu, operations)
        out[f"client_{kind}_s_per_gb"] = _per(1e9 * cpu, moved_bytes)
    out["client_cpu_cores"] = out["client_user_cores"] + out["client_system_cores"] if seconds else None
    out["server_cpu_cores"] = _per(host.get("server_cpu_s"), seconds)
    out["host_cpu_percent"] = _per(_per(host.get("cpu_busy_s"), seconds, 100), host.get("cores"))
    out["monitor_percent"] = _per(host.get("monitor_cpu_s"), seconds, 100)
    out["opened_per_operation"] = _per(host.get("connections_opened"), operations)
    if seen:
        units = {"host_memory": "mb", "client_rss": "mb"}
        out |= {
            f"{name}_{units.get(name, 'sockets')}": value
            for name, value in seen.items()
            if name not in ("two_hosts", "one_host")
        }
        ports = seen["one_host" if shared else "two_hosts"]
        memory = (run.get("environment") or {}).get("memory_bytes")
        out["host_memory_percent"] = _per(seen["host_memory"], memory, 100e6)
        out["ports_percent"] = _per(ports, host.get("ports"), 100)
    counted = [c["connections_max"] for c in clients if c.get("connections_max") is not None]
    if counted:  # the engines look five times a second, the monitor once
        out["open_sockets"] = max(sum(counted), out.get("open_sockets") or 0)
    return out


def with_points(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """One row per valid run: its columns of points.csv that `of_run` does not give, and those of `of_run`."""
    found, told, ok = samples(campaign), [], points[points["state"] == "ok"]
    for p in ok.itertuples(index=False):
        seen = found.loc[p.key].to_dict() if p.key in found.index else {}
        shared = bool(p.shared_host)
        told.append(of_run(campaign.runs[p.key], p.last_done_operations, p.last_done_bytes, shared, seen))
    runs = pd.DataFrame(told, columns=[*("_".join(m) for m in METRICS), *TEXTS], index=ok.index, dtype=object)
    return ok.drop(columns=ok.columns.intersection(runs.columns)).join(runs)


def table(used: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group (columns `by`) of the points that were measured: medians over the runs of what `of_run` gives.

    used: `with_points` of the points with operations that mean something. interval: what low and high are.
    """
    columns = [*by, *groups.COUNTS, "shared_host", *TEXTS, *groups.spread(METRICS)]
    return groups.summarised(used, by, METRICS, columns, _more)


def _more(runs: pd.DataFrame) -> dict[str, Any]:
    return {"shared_host": bool(runs["shared_host"].any()), **{name: groups.joined(runs[name]) for name in TEXTS}}


def numbers(found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """name, value, unit of what the text says of this table: the largest medians. Absent where nothing is known."""
    out = []
    for name, column, unit in (
        ("monitor_cost_most", "monitor_median_percent", "%"),
        ("ports_most", "ports_median_percent", "%"),
        ("client_memory_most", "client_rss_median_mb", "MB"),
    ):
        most = found[column].astype(float).max() if len(found) else None
        out += [(name, most, unit)] if most is not None and not pd.isna(most) else []
    return out
