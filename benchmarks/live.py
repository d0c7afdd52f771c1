"""Measure observed_ratio: the rate of a point that is observed, divided by that of a point that is not.

An observed point writes its state, `storelab live` serves it, and a simulated browser listens. The benchmark also
measures the CPU time of observing, and how old the data are on arrival. Points are interleaved at the near-null server,
and their order changes with every repetition: GET of 4 kB by the engines obstore and loadgen. Rates of a real store
scatter too much: 30 pairs of 10 s at SeaweedFS gave an interval of 7 %.
"""

import json
import os
import re
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ports
import psutil
from common import BIN, environ, laboratory, options, report, run, say, sized, storelab, timed

from storelab.analysis.statistics import medians
from storelab.core import plan, records
from storelab.core.campaign import live
from storelab.core.model import Point
from storelab.stores import config
from storelab.workloads import WORKLOADS

AXES = {"operation": "get", "engine": ["obstore", "loadgen"], "object_size": "4 kB", "workers": 8}


class Listener:
    """A simulated browser: reads the events, and records their age (s)."""

    def __init__(self, url: str) -> None:
        self.ages: list[float] = []
        self.answer = urllib.request.urlopen(f"{url}events", timeout=30)
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self) -> None:
        seen = 0
        for line in self.answer:
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            if (state := event["state"]) and state["stage"] == "measuring" and state["written_ns"] != seen:
                seen = state["written_ns"]
                self.ages.append(time.time() - seen / 1e9)


class Server:
    """A running `storelab live` with its CPU time and its listener."""

    def __init__(self, folder: Path) -> None:
        command = [str(BIN / "storelab"), "live", "bench", "--port", "0"]
        self.process = subprocess.Popen(command, cwd=folder, env=environ(), stderr=subprocess.PIPE, text=True)
        assert self.process.stderr
        first = self.process.stderr.readline()
        if not (found := re.search(r"http://\S+", first)):
            raise SystemExit(f"live: the server did not start: {first}")
        self.listener = Listener(found[0])

    def cpu_s(self) -> float:
        spent = psutil.Process(self.process.pid).cpu_times()
        return spent.user + spent.system


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait(20)


def measured(folder: Path, raw: Path, point: Point, observed: bool) -> dict[str, float]:
    """Return the rate of a point, and the monitor's share of a core (percent)."""
    env = environ() | ({} if observed else {live.OFF: "off"})
    timed([str(BIN / "storelab"), "measure", point.key], folder, env)
    event = records.read_json(raw / point.key / "run.json")
    seconds = (event["deadline_ns"] - event["start_ns"]) / 1e9
    done = sum(client["operations"] for client in event["clients"])
    return {"rate": done / seconds, "monitor": 100 * event["host"]["monitor_cpu_s"] / event["host"]["seconds"]}


def pinned(folder: Path) -> None:
    """Pin the server to one core and all measuring processes to another; otherwise rates scatter by a tenth."""
    mine, theirs = sorted(os.sched_getaffinity(0))[:2]
    for process in psutil.process_iter(["cmdline"]):
        if str(folder) in " ".join(process.info["cmdline"] or ()):
            for thread in process.threads():
                os.sched_setaffinity(thread.id, {theirs})
    os.sched_setaffinity(0, {mine})


def main() -> None:
    args = options(__doc__)
    n, window_s = sized(args, 20, 6, 1), sized(args, 5, 5, 3)
    sweep = {"workload": "calibrate", "duration": f"{window_s} s", "warm_up": "500 ms", "axes": AXES}
    stores = {"ceiling": {"kind": "nullserver", "port": ports.block()}}
    values: dict[str, list[float]] = {}
    with laboratory({"look": sweep}, stores, stores_to_measure=["ceiling"], repetitions=2 * n) as folder:
        storelab(folder, "up", "ceiling")
        storelab(folder, "plan", "--write")
        pinned(folder)
        conf = config.load(folder / "config.yaml")
        points = plan.make(conf, WORKLOADS)
        pairs = [(e, r) for r in range(1, 2 * n, 2) for e in AXES["engine"]]
        for turn, (engine, rep) in enumerate(pairs):
            first, second = (
                next(p for p in points if p.axes["engine"] == engine and p.rep == r) for r in (rep, rep + 1)
            )
            got: dict[bool, dict[str, float]] = {}
            for point, observed in zip((first, second), (True, False) if turn % 4 < 2 else (False, True), strict=True):
                if not observed:
                    got[False] = measured(folder, folder / conf.raw, point, False)
                    continue
                with serving(folder) as server:
                    time.sleep(2)  # the start of the server must not count
                    before, begun = server.cpu_s(), time.monotonic()
                    got[True] = measured(folder, folder / conf.raw, point, True)
                    spent = 100 * (server.cpu_s() - before) / (time.monotonic() - begun)
                    ages = server.listener.ages
                values.setdefault("server_percent", []).append(spent)
                values.setdefault("age_s", []).extend(ages)
            values.setdefault("observed_ratio", []).append(got[True]["rate"] / got[False]["rate"])
            values.setdefault("told_percent", []).append(got[True]["monitor"] - got[False]["monitor"])
            say(f"live: {turn + 1} of {len(pairs)}: {engine} {values['observed_ratio'][-1]:.3f}")
    known = medians.summarise(values["observed_ratio"])
    values |= {"observed_low": [known.low], "observed_high": [known.high]}
    report("live", n, values, args, servers=["nullserver"])


if __name__ == "__main__":
    run(main)
