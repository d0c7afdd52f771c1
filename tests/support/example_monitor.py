"""Synthetic monitor data for the records of make_examples.py. Only the store alpha has them.

The records of beta are like those of old versions without a monitor.
"""

from pathlib import Path
from typing import Any

from storelab.core import records
from storelab.core.model import Point

PORTS = 28_232  # ephemeral ports of the synthetic host
SAMPLES = 21


def write(point: Point, folder: Path, start: int, duration: int) -> None:
    """Write the samples of the monitor.

    A client has 60 MB of memory, 80 MB in the middle of the run, and `workers` sockets. The number of sockets in
    TIME_WAIT starts at 100 and grows by 10 in each sample.
    """
    workers, clients, host = point.axes.get("workers", 1), point.axes["clients"], {"host": "node-a"}
    rows: list[dict[str, Any]] = []
    for k in range(SAMPLES):
        now, cpu = (
            host | {"time_ns": start + k * duration // (SAMPLES - 1)},
            {"cpu_user_s": 0.025 * k, "cpu_system_s": 0.0125 * k},
        )
        sockets = {"established": 2 * workers * clients, "time_wait": 100 + 10 * k, "syn": 0 if k % 5 == 0 else None}
        rows.append(now | sockets | cpu | {"what": "host", "name": "", "rss_bytes": 2 * 10**9})
        for c in range(clients):
            own = {
                "sockets": workers if k % 5 == 0 else None,
                "rss_bytes": 80_000_000 if k == SAMPLES // 2 else 60_000_000,
            }
            rows.append(now | own | cpu | {"what": "client", "name": str(c)})
        rows.append(
            now
            | {
                "what": "interface",
                "name": "lo",
                "rx_bytes": k * 10**6,
                "tx_bytes": k * 10**6,
                "rx_packets": k,
                "tx_packets": k,
            }
        )
    names = records.MONITOR
    records.write_table(folder / "monitor.0.parquet", records.MONITOR, {n: [r.get(n) for r in rows] for n in names})


def of_host(point: Point) -> dict[str, Any]:
    """Return the keys of `host` in run.json that the monitor writes."""
    moved = {
        "rx_bytes": 20 * 10**6,
        "tx_bytes": 24 * 10**6,
        "rx_packets": 4000,
        "tx_packets": 8000,
        "link_bits_per_s": None,
    }
    card = {"rx_bytes": 10**6, "tx_bytes": 0, "rx_packets": 100, "tx_packets": 0, "link_bits_per_s": 10**9}
    seen = {
        "monitor_cpu_s": 0.02,
        "monitor_samples": SAMPLES,
        "ports": PORTS,
        "connections_opened": 40 * point.axes["clients"],
    }
    return {"network": {"lo": moved, "eth0": card}, **seen}
