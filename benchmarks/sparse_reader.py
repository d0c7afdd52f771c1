"""One client of `sparse.py`: fetches a list of ranges, and prints time, CPU, requests, wire bytes and memory.

Standard input: one line with a JSON job {way, url, bucket, key, ranges (a numpy file, shape (n, 2): start, stop), size,
…}. Ways: shipped: uproot's source on s3fs with its defaults; planned: `readplan` on obstore; gap: a fixed gap on
obstore; davix: its vector read. For each further line "go", the client reads once and prints a JSON line. With
`seconds`, it reads for this time instead, and prints the number of reads.
"""

import json
import os
import queue
import resource
import sys
import time
import zlib
from dataclasses import asdict
from typing import Any

import numpy as np

from storelab.datasets.root import baskets
from storelab.engines.common.wire import ProcessWire


class Shipped:
    """The source that `uproot.open("s3://…")` creates, with only the options that a user must set."""

    def __init__(self, job: dict[str, Any]):
        import s3fs  # noqa: F401
        from uproot.source.fsspec import FSSpecSource

        self.source = FSSpecSource(
            f"s3://{job['bucket']}/{job['key']}",
            key=os.environ["AWS_ACCESS_KEY_ID"],
            secret=os.environ["AWS_SECRET_ACCESS_KEY"],
            endpoint_url=job["url"],
            client_kwargs={"region_name": "us-east-1"},
        )
        events = self.source._fs
        self.sent = 0
        self.source.chunk(0, 403).wait()  # opens the connection, as opening a file does
        events.s3.meta.events.register("before-send.s3", self._count)

    def _count(self, **_: Any) -> None:
        self.sent += 1

    @property
    def requests(self) -> int:
        return self.sent

    def facts(self) -> dict[str, Any]:
        return {}

    def read(self, ranges: np.ndarray) -> list[Any]:
        return _chunks(self.source, ranges)


def _chunks(source: Any, ranges: np.ndarray) -> list[Any]:
    notifications: queue.Queue = queue.Queue()
    chunks = source.chunks([(a, b) for a, b in ranges.tolist()], notifications)
    for _ in chunks:
        notifications.get().wait(insist=True)
    return [c.raw_data for c in chunks]


def transport(job: dict[str, Any]) -> Any:
    from obstore.store import S3Store

    from readplan import ObstoreTransport

    store = S3Store(
        job["bucket"],
        endpoint=job["url"],
        virtual_hosted_style_request=False,
        region="us-east-1",
        access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        client_options={"allow_http": True, "http1_only": True},
        retry_config={"max_retries": 0},
    )
    return ObstoreTransport(store, job["key"])


class Planned:
    def __init__(self, job: dict[str, Any]):
        from readplan import PlannedSource, measure

        self.transport = transport(job)
        begun = time.perf_counter()
        link = measure(self.transport, job["size"])
        self.calibration_s = time.perf_counter() - begun
        self.source = PlannedSource(job["key"], transport=self.transport, link=link, **job.get("wishes", {}))

    @property
    def requests(self) -> int:
        return self.transport.requests

    def facts(self) -> dict[str, Any]:
        last = self.source.last_plan
        plan = {"gap": last.gap, "piece": last.piece, "expected_s": last.seconds} if last else {}
        return {"calibration_s": self.calibration_s, "link": asdict(self.source.link), "plan": plan}

    def read(self, ranges: np.ndarray) -> list[Any]:
        return _chunks(self.source, ranges)


class Gap(Planned):
    """Ranges merged over a fixed gap, through the planner's own source and transport.

    It is the result of a user that has found the best gap.
    """

    def __init__(self, job: dict[str, Any]):
        from readplan import Link, PlannedSource
        from readplan.choose import Requests

        self.transport = transport(job)
        self.transport.fetch(list(range(64)), [i + 1 for i in range(64)])  # opens the connections
        self.source = PlannedSource(job["key"], transport=self.transport, link=Link(0, 0, 0, 1e9, 1e9, 64))

        def fixed(pairs: np.ndarray) -> Requests:
            start, stop = baskets.merge(pairs[:, 0], pairs[:, 1] - pairs[:, 0], job["gap"])
            return Requests(start, stop, job["gap"], 0, 0.0, 0, 0)

        self.source.requests_for = fixed  # type: ignore[method-assign]

    def facts(self) -> dict[str, Any]:
        return {}


class Davix:
    """davix's vector read of the ranges in their order, with an open connection."""

    def __init__(self, job: dict[str, Any]):
        from storelab.engines.davix_program import Program
        from storelab.stores.protocols.endpoint import Endpoint

        self.url = f"{job['url']}/{job['bucket']}/{job['key']}"
        self.program = Program(Endpoint(job["url"]), 600.0)
        self.program.read(self.url, 0, 403)
        self.before = self.program.spent

    @property
    def requests(self) -> int:
        return self.program.spent.requests

    def facts(self) -> dict[str, Any]:
        spent = self.program.spent
        return {"wire_bytes": spent.wire - self.before.wire, "several": spent.several - self.before.several}

    def read(self, ranges: np.ndarray) -> list[Any]:
        self.before = self.program.spent
        return self.program.vector(self.url, ranges[:, 0].tolist(), (ranges[:, 1] - ranges[:, 0]).tolist())


def once(reader: Any, ranges: np.ndarray, wire: ProcessWire) -> dict[str, Any]:
    sent, before, cpu, begun = reader.requests, wire.bytes, time.process_time(), time.perf_counter()
    data = reader.read(ranges)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    out = {"seconds": seconds, "cpu_s": cpu, "requests": reader.requests - sent, "wire_bytes": wire.bytes - before}
    crc = 0
    for part in data:
        crc = zlib.crc32(part, crc)
    return {
        **out,
        "crc32": crc,
        "bytes": sum(map(len, data)),
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def main() -> None:
    job = json.loads(sys.stdin.readline())
    ranges, wire = np.load(job["ranges"]), ProcessWire(int(job["url"].rpartition(":")[2]))
    reader = {"shipped": Shipped, "planned": Planned, "gap": Gap, "davix": Davix}[job["way"]](job)
    print(json.dumps({"ready": reader.facts()}), flush=True)
    for _ in sys.stdin:
        if not job.get("seconds"):
            print(json.dumps(once(reader, ranges, wire) | reader.facts()), flush=True)
            continue
        end, done = time.monotonic() + job["seconds"], []
        while (now := time.monotonic()) < end:
            done.append(once(reader, ranges, wire))
            if time.monotonic() > end:  # the last read counts by its fraction within the time
                done[-1]["part"] = (end - now) / (time.monotonic() - now)
        reads = sum(d.get("part", 1.0) for d in done)
        print(
            json.dumps(
                {"reads": reads, "crc32": done[0]["crc32"], "wire_bytes": sum(d["wire_bytes"] for d in done)}
                | reader.facts()
            ),
            flush=True,
        )
    sys.stdout.flush()
    os._exit(0)  # obstore may abort at exit


if __name__ == "__main__":
    main()
