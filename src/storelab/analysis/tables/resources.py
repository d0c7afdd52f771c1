"""Resources used by clients, front-ends, server and host, and the space used by a store.

* `resources.csv` (docs/resources.md): computed from `host` and `clients` of run.json, and from the samples of the
  monitor. The values are for whole runs, from the agreed start to the deadline. CPU time is not limited to the
  `overlap` window. It is compared with the operations and bytes of the `last_done` window. Values are null if they were
  not recorded (older records have no monitor).
* `traffic.csv`: the traffic of each front-end of a point, which shows if the load was balanced. If a front-end has a
  separate interface (a testbed), the bytes received and sent from the agreed start to the deadline are taken from its
  counters. The operations of the clients are taken from their records, from the agreed start until the first client
  stopped. An operation counts by the part of its duration in this window. It counts for the front-end that its client
  was assigned to. For clients that use several front-ends, it counts for the `endpoint` of the operation. The values
  are null if neither is known (for bins, and for front-ends with the same name). Front-ends are numbered from 1, in the
  order in which clients are assigned to them. Front-ends without clients are included.
* `distributions.csv`: histograms of each group in the `overlap` window, over all runs. Values are counted in buckets,
  120 for each power of ten, so that quantiles are accurate to 2 %; zeros are counted separately. `operation_time`:
  duration of each successful operation of any kind, from the time when it was due, or from its start if it had no such
  time. `sent`, `received`: traffic of the busiest interface of each client's host, over each step between two samples
  of the monitor (up to five per second). On the loopback interface, every byte is both sent and received, because both
  ends of a connection are on it; there, the quantity is `traffic`. `cpu`: use by each client with its child processes,
  over each step. `memory`: resident memory, in each sample.
* `space.csv`: raw bytes used per byte stored, after uploads, deletion and reclaiming. It is (used - used before the
  uploads) / bytes stored, as listed. The store itself reports the bytes used, including all copies.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, labels
from storelab.analysis.records import links, scan
from storelab.analysis.records.campaign import Campaign, watched_s
from storelab.analysis.statistics.medians import histogram_quantiles

METRICS = (  # (name, unit) of the columns <name>_<median, low or high>_<unit>
    ("client_user", "s_per_1000"),  # CPU seconds per 1000 operations
    ("client_system", "s_per_1000"),
    ("client_user", "s_per_gb"),
    ("client_system", "s_per_gb"),
    ("client_user", "cores"),
    ("client_system", "cores"),
    ("client_cpu", "cores"),
    ("server_cpu", "cores"),
    ("host_cpu", "percent"),
    ("client_rss", "mb"),  # maximum of the memory of all clients and their child processes
    ("host_memory", "mb"),  # maximum of the memory in use on a client's host
    ("host_memory", "percent"),  # in percent of the memory of the host
    ("open", "sockets"),  # maximum number of sockets that the clients had open
    ("established", "sockets"),  # maximum on a client's host; both ends of a connection if the server is there too
    ("time_wait", "sockets"),  # maximum on a client's host
    ("time_wait_more", "sockets"),  # maximum minus the number at the agreed start (sockets of earlier points)
    ("ports", "percent"),  # maximum of ephemeral ports in use or in TIME_WAIT
    ("opened", "per_operation"),  # connections opened on a client's host
    ("network", "mb_per_s"),  # traffic of the busiest interface in its busier direction
    ("packets", "per_s"),
    ("link", "percent"),  # the same traffic in percent of the capacity of the interface
    ("monitor", "percent"),  # CPU use of the monitor, in percent of one core
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
    """Return the maxima of memory (MB) and sockets, one row per key (the index) of the runs with a monitor.

    If there are several hosts, a value of hosts is the maximum over them, and a value of clients is the sum.
    """
    con = scan.connect(campaign, "monitor")
    return pd.DataFrame() if con is None else con.execute(_SAMPLES).df().set_index("key")


def busiest(host: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return the traffic of the interface that moved most bytes in one direction.

    The keys are interface (its name), network_mb_per_s, packets_per_s and link_percent, if known.
    """
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
    """Return `factor` times value / whole, or None if one of them is not known or `whole` is 0."""
    return None if value is None or not whole else factor * value / whole


def run_values(
    run: Mapping[str, Any], operations: float, moved_bytes: float, shared: bool, seen: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of METRICS and TEXTS for one run: `<name>_<unit>` -> value.

    Parameters
    ----------
    run
        The record of the run.
    operations, moved_bytes
        Number and bytes of the successful operations until the last completion.
    shared
        The clients and the server run on the same host.
    seen
        The row of the run in `samples`.
    """
    host, clients = run.get("host") or {}, run["clients"]
    seconds = watched_s(run, host)
    out: dict[str, Any] = {"cores": host.get("cores"), "host_ports": host.get("ports"), **busiest(host, seconds)}
    spent = {kind: sum(c.get(f"cpu_{kind}_s") or 0.0 for c in clients) for kind in ("user", "system")}
    # The CPU time of clients includes work after the deadline. It is therefore limited to the CPU time of the hosts,
    # which is measured until the deadline.
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
    if counted:  # the engines count five times per second, the monitor once
        out["open_sockets"] = max(sum(counted), out.get("open_sockets") or 0)
    return out


def with_points(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """Return one row per valid run, with the columns of `run_values` and the other columns of points.csv."""
    found, rows, ok = samples(campaign), [], points[points["state"] == "ok"]
    for p in ok.itertuples(index=False):
        seen = found.loc[p.key].to_dict() if p.key in found.index else {}
        shared = bool(p.shared_host)
        rows.append(run_values(campaign.runs[p.key], p.last_done_operations, p.last_done_bytes, shared, seen))
    runs = pd.DataFrame(rows, columns=[*("_".join(m) for m in METRICS), *TEXTS], index=ok.index, dtype=object)
    return ok.drop(columns=ok.columns.intersection(runs.columns)).join(runs)


def table(used: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return one row per group of points (columns `by`), with medians of the columns of `run_values`.

    used: the result of `with_points` for the points whose rate is a property of a store.
    """
    columns = [*by, *groups.COUNTS, "shared_host", *TEXTS, *groups.spread(METRICS)]
    return groups.summarised(used, by, METRICS, columns, dict.fromkeys(TEXTS, "joined"))


def numbers(found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the largest medians that the text quotes. Unknown values are omitted."""
    out = []
    for name, column, unit in (
        ("monitor_cost_most", "monitor_median_percent", "%"),
        ("ports_most", "ports_median_percent", "%"),
        ("client_memory_most", "client_rss_median_mb", "MB"),
    ):
        most = found[column].astype(float).max() if len(found) else None
        out += [(name, most, unit)] if most is not None and not pd.isna(most) else []
    return out


COUNTERS, CLIENTS = "counters", "clients"  # sources of a share
TRAFFIC_METRICS = (
    ("operations", "per_s"),  # from the records of the clients
    ("throughput", "mb_per_s"),
    ("received", "mb_per_s"),  # from the counters of the front-end's interface
    ("sent", "mb_per_s"),
    ("share", "percent"),  # in percent of the traffic of all front-ends of the run
    ("spread", "percent"),  # (maximum - minimum) / mean over all front-ends of a run
)
TRAFFIC_COLUMNS = ("given_to", "source", "shared_host")
MIN_OPERATIONS = 10  # minimum for each front-end, because with fewer the distribution is mostly random
_DONE = f"""
SELECT key, client, endpoint, sum(part * count) AS operations, sum(part * bytes) AS bytes,
  any_value(first_end_ns - agreed_ns) / 1e9 AS seconds
FROM (SELECT *, {scan.share("agreed_ns", "first_end_ns")} AS part
  FROM rows WHERE error IS NULL AND end_ns > agreed_ns)
WHERE part > 0 GROUP BY key, client, endpoint ORDER BY key, client, endpoint"""
Done = Sequence[Mapping[str, Any]]  # rows of _DONE


def counters(run: Mapping[str, Any], number: int) -> list[tuple[float, float]] | None:
    """Return (received, sent) in MB/s of each front-end, or None if not all have a separate interface."""
    found = links.front_end_counters(run, number)
    return None if found is None else [(received / 1e6, sent / 1e6) for received, sent in found]


def by_records(run: Mapping[str, Any], number: int, done: Done) -> list[tuple[float, float]] | None:
    """Return (operations/s, useful MB/s) of each front-end from the clients' records, or None if they are not known."""
    urls, parts = links.endpoints(run), [dict[float, tuple[float, float]]() for _ in range(number)]
    order, ranks = list(dict.fromkeys(urls)), sorted(c["client"] for c in run["clients"])
    if links.uses_one_front_end(run) and len(order) != min(number, len(urls)):  # several front-ends share one name
        return None
    for row in done:
        at = order.index(urls[ranks.index(row["client"])]) if links.uses_one_front_end(run) else row["endpoint"]
        if at is None or pd.isna(at) or not row["seconds"] or at >= number:
            return None
        sums, seconds = parts[int(at)], row["seconds"]
        operations, moved = sums.get(seconds, (0.0, 0.0))
        sums[seconds] = operations + row["operations"], moved + row["bytes"]
    # Sum before dividing, so that front-ends with equal traffic do not differ by rounding errors.
    return [
        (math.fsum(n / s for s, (n, _) in sums.items()), math.fsum(moved / 1e6 / s for s, (_, moved) in sums.items()))
        for sums in parts
    ]


def traffic_of_run(run: Mapping[str, Any], number: int, done: Done) -> Iterator[dict[str, Any]]:
    """Yield a row for each front-end of a run, or no row if its traffic is not known.

    number: how many front-ends the run has; done: the operations of its clients.
    """
    seen, recorded = counters(run, number), by_records(run, number, done)
    carried = [sum(both) for both in seen or ()]
    if recorded and not seen:  # share of the bytes, or of the operations if no bytes were moved
        carried = [mb for _, mb in recorded] if any(mb for _, mb in recorded) else [rate for rate, _ in recorded]
    if not (whole := sum(carried)):
        return
    urls = links.endpoints(run)
    order = list(dict.fromkeys(urls))
    for i in range(number):
        mine = urls.count(order[i]) if i < len(order) else 0
        row: dict[str, Any] = {
            "front_end": i + 1,
            "given_to": mine if links.uses_one_front_end(run) else len(urls),
            "source": COUNTERS if seen else CLIENTS,
            "share_percent": 100 * carried[i] / whole,
            "spread_percent": 100 * number * (max(carried) - min(carried)) / whole,
        }
        for names, values in ((TRAFFIC_METRICS[:2], recorded), (TRAFFIC_METRICS[2:4], seen)):
            row |= {"_".join(name): values[i][j] if values else None for j, name in enumerate(names)}
        yield row


def traffic_of_runs(campaign: Campaign, rated: pd.DataFrame) -> pd.DataFrame:
    """Return one row per front-end of each run with several front-ends.

    The columns are those of points.csv, `front_end`, TRAFFIC_METRICS and TRAFFIC_COLUMNS. The spread is the same for
    all front-ends of a run.
    """
    names = [*("_".join(m) for m in TRAFFIC_METRICS), "front_end", *TRAFFIC_COLUMNS[:2]]
    ok = rated[rated["state"] == "ok"]
    ok = ok[ok["front_ends"].fillna(1) > 1] if "front_ends" in ok else ok.iloc[:0]
    con = scan.connect(campaign, "ops", ok["key"]) if len(ok) else None
    done = con.execute(_DONE).df() if con else pd.DataFrame({"key": []})
    rows = []
    for p in ok[["key", "front_ends"]].itertuples(index=False) if len(ok) else ():
        mine = done[done["key"] == p.key].to_dict("records")
        rows += [{"key": p.key, **row} for row in traffic_of_run(campaign.runs[p.key], int(p.front_ends), mine)]
    return ok.drop(columns=ok.columns.intersection(names)).merge(
        pd.DataFrame(rows, columns=["key", *names]).astype({"front_end": "Int64", "given_to": "Int64"}), on="key"
    )


def traffic_table(both: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return one row per front-end of each group of points with several front-ends, with medians over the runs."""
    identity = [*by, "front_end"]
    columns = [*identity, *groups.COUNTS, *TRAFFIC_COLUMNS, *groups.spread(TRAFFIC_METRICS)]
    return groups.summarised(both, identity, TRAFFIC_METRICS, columns, {"given_to": "max", "source": "joined"})


def evenly_distributed(found: pd.DataFrame, by: list[str] | None = None) -> pd.DataFrame:
    """Return the rows of groups in which each front-end has the same number of clients.

    by: the columns that make a group; default: those of traffic.csv.
    """
    by = by or list(found.columns[: found.columns.get_loc("front_end")])
    return found[found.groupby(by, dropna=False)["given_to"].transform("nunique") == 1] if len(found) else found


def enough(both: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of runs whose traffic per front-end is known from counters, or from enough operations."""
    many = both["operations_per_s"] * both["duration_s"] >= MIN_OPERATIONS
    return both[(many.fillna(False) | (both["source"] == COUNTERS)).groupby(both["key"]).transform("all")]


def traffic_numbers(both: pd.DataFrame, by: list[str]) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the largest median spread.

    Only groups with `enough` data are used, and only if each front-end has the same number of clients.
    """
    even = evenly_distributed(traffic_table(enough(both), by))
    if even.empty:
        return []
    most = even["spread_median_percent"].astype(float).max()
    return [("traffic_spread_most", most, "%"), ("traffic_least", MIN_OPERATIONS, "")]


UNITS = {"operation_time": "ms", "sent": "MB/s", "received": "MB/s", "traffic": "MB/s", "cpu": "cores", "memory": "MB"}
FINE, COARSE = 120, 40  # buckets per power of ten: for quantiles, and for the column `histogram` (small files)
LEVELS = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}
DISTRIBUTION_COLUMNS = ("n", "quantity", "unit", "samples", "zeros", "mean", "least", *LEVELS, "most", "histogram")
LOOPBACK = "lo"
_COUNT = f"""
SELECT key, quantity, value > 0 AS known,
  CASE WHEN value > 0 THEN ceil({FINE} * log10(value) - 1e-9)::INT ELSE 0 END AS bucket,
  sum(count)::BIGINT AS samples, sum((count * value)::DECIMAL(38, 9)) AS total, min(value) AS least, max(value) AS most
FROM ({{values}}) WHERE value >= 0 GROUP BY ALL ORDER BY ALL"""  # exact sums, so that equal records give equal files
_TIMES = f"""
SELECT key, 'operation_time' AS quantity, {scan.LATENCY} / 1e6 AS value, 1 AS count
FROM rows WHERE error IS NULL AND latency_hist IS NULL AND end_ns > overlap_begin_ns AND end_ns <= first_end_ns
UNION ALL
SELECT key, 'operation_time', bucket.upper_ns / 1e6, bucket.count
FROM (SELECT key, unnest(latency_hist) AS bucket FROM rows
      WHERE error IS NULL AND latency_hist IS NOT NULL AND end_ns > overlap_begin_ns AND end_ns <= first_end_ns)"""
_USED = f"""
WITH hosts AS (SELECT DISTINCT key, filename, host FROM rows WHERE what = 'client'),
seen AS (
  SELECT rows.*, cpu_user_s + cpu_system_s - lag(cpu_user_s + cpu_system_s) OVER step AS cpu_s,
    rx_bytes - lag(rx_bytes) OVER step AS received, tx_bytes - lag(tx_bytes) OVER step AS sent,
    (time_ns - lag(time_ns) OVER step) / 1e9 AS s, lag(time_ns) OVER step AS before_ns
  FROM rows JOIN hosts USING (key, filename, host) WHERE what IN ('client', 'interface')
  WINDOW step AS (PARTITION BY rows.key, rows.filename, rows.host, what, name ORDER BY time_ns)),
own AS (SELECT * FROM seen WHERE time_ns > overlap_begin_ns AND time_ns <= first_end_ns),
steps AS (SELECT * FROM own WHERE before_ns >= overlap_begin_ns AND s > 0),
moved AS (
  SELECT key, filename, host, name, sum(greatest(received, sent)) AS bytes
  FROM steps WHERE what = 'interface' GROUP BY ALL),
busiest AS (SELECT key, filename, host, arg_max(name, bytes) AS name FROM moved GROUP BY key, filename, host),
links AS (SELECT steps.* FROM steps JOIN busiest USING (key, filename, host, name) WHERE what = 'interface')
SELECT key, 'cpu' AS quantity, cpu_s / s AS value, 1 AS count FROM steps WHERE what = 'client'
UNION ALL SELECT key, 'memory', rss_bytes / 1e6, 1 FROM own WHERE what = 'client'
UNION ALL SELECT key, CASE WHEN name = '{LOOPBACK}' THEN 'traffic' ELSE 'received' END, received / 1e6 / s, 1 FROM links
UNION ALL SELECT key, 'sent', sent / 1e6 / s, 1 FROM links WHERE name <> '{LOOPBACK}'"""


def counted(campaign: Campaign, keys: pd.Series) -> pd.DataFrame:
    """Return one row per key, quantity and bucket: known (false: the bucket of zeros), samples, total, least, most.

    Bucket k ends at 10 to the power of k / FINE.
    """
    parts = []
    for name, values in (("ops", _TIMES), ("monitor", _USED)):
        if (con := scan.connect(campaign, name, keys)) is not None:
            parts.append(con.execute(_COUNT.format(values=values)).df())
    columns = ["key", "quantity", "known", "bucket", "samples", "total", "least", "most"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def quantiles(upper: np.ndarray, count: np.ndarray, zeros: int) -> list[float]:
    """Return the quantiles LEVELS of values, of which `zeros` are 0.

    upper: ends of the buckets of the other values, ascending; count: number of values in each bucket.
    """
    positive = count.sum()
    levels = (np.array(list(LEVELS.values())) * (zeros + positive) - zeros) / max(positive, 1)
    if not positive:
        return [0.0] * len(levels)
    known = histogram_quantiles(upper, count, np.clip(levels, 0, 1).tolist())
    return [float(v) if level > 1e-9 else 0.0 for v, level in zip(known, levels, strict=True)]


def _added(buckets: np.ndarray, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct buckets, ascending, and the sum of the samples of each."""
    distinct, at = np.unique(buckets, return_inverse=True)
    total = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(total, at, samples)
    return distinct, total


def distribution_of_group(buckets: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of a row for the buckets of one quantity in several runs."""
    samples, positive = buckets["samples"].to_numpy(np.int64), buckets["known"].to_numpy(bool)
    known = _added(buckets["bucket"].to_numpy(np.int64)[positive], samples[positive])
    zeros = int(samples[~positive].sum())
    coarse = _added(-(-known[0] // (FINE // COARSE)), known[1])
    values = quantiles(10.0 ** (known[0] / FINE), known[1].astype(float), zeros)
    least, most = buckets["least"].min(), buckets["most"].max()
    return {
        "samples": int(samples.sum()),
        "zeros": zeros,
        "mean": math.fsum(buckets["total"]) / samples.sum(),  # exact, because the order of the buckets varies
        "least": least,
        **{name: float(np.clip(v, least, most)) for name, v in zip(LEVELS, values, strict=True)},
        "most": most,
        "histogram": " ".join(f"{k}:{n}" for k, n in zip(*coarse, strict=True)),
    }


def unpacked(histogram: Any) -> pd.Series:
    """Return the samples of each bucket k (the index) from a value of the column `histogram`.

    Bucket k contains values above 10 to the power of (k - 1) / COARSE, and at most 10 to the power of k / COARSE.
    """
    text = "" if pd.isna(histogram) else str(histogram)
    pairs = [part.split(":") for part in text.split()]
    return pd.Series({int(k): int(n) for k, n in pairs}, dtype=float)


def distributions_table(campaign: Campaign, rated: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `distributions.csv`: one row per group of points and recorded quantity."""
    ok = rated[rated["state"] == "ok"].reset_index(drop=True)
    found, identities, rows = counted(campaign, ok["key"]), [*groups.grouped(ok[[*by, "key"]], by)], []
    group = found["key"].map({key: i for i, (_, points) in enumerate(identities) for key in points["key"]})
    quantity = found["quantity"].map({name: i for i, name in enumerate(UNITS)})
    for (i, _), buckets in found.groupby([group.rename("group"), quantity]):
        name = buckets["quantity"].iat[0]
        head = {"n": buckets["key"].nunique(), "quantity": name, "unit": UNITS[name]}
        rows.append(identities[i][0] | head | distribution_of_group(buckets))
    made = pd.DataFrame(rows, columns=[*by, *DISTRIBUTION_COLUMNS])
    return made.astype({c: ok.dtypes[c] for c in by if c in ok})


PLACE = (
    "store",
    *labels.DEPLOYMENT_NAMES,
    "workload",
    "object_size_bytes",
)  # shown separately in figures and the paper
BUSY = ("clients", "workers", "front_ends", "buckets", "accounts")


def shown(found: pd.DataFrame) -> pd.DataFrame:
    """Return the groups of `distributions.csv` that the figure and the paper show.

    For each PLACE and engine, the groups with the most clients are selected. Among these, the groups with the most
    workers, front-ends, buckets and accounts are selected, in this order.
    """
    apart = [c for c in (*PLACE, "engine") if c in found]
    for column in (c for c in BUSY if c in found):
        if len(found):
            most = found.groupby(apart, dropna=False)[column].transform("max")
            found = found[found[column].isna() | (found[column] == most)]
    return found


STATES = {
    "put": "after the uploads",
    "delete": "some seconds after their deletion",
    "reclaim": "after the store was asked to reclaim",
}
SPACE_METRICS = tuple((f"raw_per_byte_after_{state}", "ratio") for state in STATES)
OBSERVED = ("objects", "stored_mb", "delete_s", "reclaim_s")


def space_runs(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """Return one row per valid run of the workload `space`, with the columns of points.csv and of `_space_row`."""
    runs = {key: run["observed"] for key, run in campaign.runs.items() if run.get("observed", {}).get("stored_bytes")}
    found = pd.DataFrame([_space_row(observed) for observed in runs.values()], index=list(runs))
    valid = points[(points["workload"] == "space") & (points["state"] == "ok")]
    return valid.merge(found, left_on="key", right_index=True)


def space_table(campaign: Campaign, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return one row per group of points of the workload `space` (columns `by`), with medians over the runs.

    Columns: raw_per_byte_after_{put,delete,reclaim}_{median,low,high}_ratio; medians of objects, stored_mb, delete_s
    (duration of the deletion) and reclaim_s (duration of reclaiming). points: points.csv.
    """
    both = space_runs(campaign, points)
    columns = [*by, *groups.COUNTS, *OBSERVED[:2], *groups.spread(SPACE_METRICS), *OBSERVED[2:]]
    how, counted = dict.fromkeys(OBSERVED, "median"), "_".join(SPACE_METRICS[-1])
    return groups.summarised(both, by, SPACE_METRICS, columns, how, counted=counted)


def _space_row(observed: Mapping[str, Any]) -> dict[str, float]:
    stored, before = observed["stored_bytes"], observed["used_before_bytes"]
    used = {
        "_".join(m): (observed[f"used_after_{s}_bytes"] - before) / stored
        for m, s in zip(SPACE_METRICS, STATES, strict=True)
    }
    return used | {"stored_mb": stored / 1e6, **{name: observed[name] for name in ("objects", "reclaim_s", "delete_s")}}
