"""The state of the point that is measured now, for whoever looks: `work/live.json` (`core/campaign/live.py`).

It is written once a second while clients work, and where a point begins, gets on and ends. Nothing of it counts
anywhere, and nothing that goes wrong with it ends a measurement.
"""

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from storelab.core import clock
from storelab.core.campaign import live
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.engines.common import guard
from storelab.host.monitor import Used
from storelab.measure import given_up
from storelab.measure.progress.lines import Place


def off() -> bool:
    return os.environ.get(live.OFF) == "off"


class State:
    """One point, from its begin to its end. Its methods may be called from any thread."""

    def __init__(self, config: Config, chosen: Point, at: Place):
        self.folder, self.on = config.campaign_dir, not off()
        self.lock, self.work = threading.Lock(), Path()
        self.counts: dict[str, guard.Done] = {}
        self.before: tuple[int, guard.Done, int, Used] | None = None
        self.seconds: deque[tuple[float | None, ...]] = deque(maxlen=live.KEPT)
        self.state: dict[str, Any] = {
            **live.process(os.getpid()),
            "run": _run(),
            "campaign": config.name,
            "number": at.number,
            "points": at.points,
            "left_s": round(at.left_s, 1),
            "point": {
                "key": chosen.key,
                "store": chosen.store,
                "workload": chosen.workload,
                "said": at.what,
                "clients": chosen.clients,
                "duration_s": chosen.fixed["duration_ns"] / 1e9,
            },
            "stage": live.STAGES[0],
            "begun_ns": clock.now_ns(),
            "start_ns": None,
            "cores": os.cpu_count(),
            "clients_told": 0,
            "operations": None,
            "errors": None,
            "bytes": None,
            "client_rss_bytes": None,
            "server_rss_bytes": None,
            "outcome": None,
            "reason": None,
        }
        self.tell()

    def stage(self, name: str, work: Path | None = None) -> None:
        """The point gets on to this stage. work: the folder of the attempt, where clients tell what they do."""
        assert name in live.STAGES
        with self.lock:
            self.work = work or self.work
            self.state["stage"] = name
        self.tell()

    def starts(self, t0_ns: int) -> None:
        """The clients start at this time (UTC ns)."""
        with self.lock:
            self.state |= {"stage": "measuring", "start_ns": t0_ns}
            self.before = (t0_ns, guard.Done(0, 0, 0), t0_ns, Used(0.0))
        self.tell()

    def second(self, used_ns: int, used: Used) -> None:
        """Once a second, by the monitor: what was used until then. What the clients have done is looked up."""
        with suppress(Exception):  # what goes wrong here is no reason to end a measurement, nor the monitor
            self._second(used_ns, used)

    def _second(self, used_ns: int, used: Used) -> None:
        if not self.on:
            return
        self.counts = guard.gang_progress(self.work, self.counts)
        now_ns, done = clock.now_ns(), guard.total_progress(self.counts.values())
        with self.lock:
            if self.before is None:
                return
            then_ns, done_then, used_then_ns, used_then = self.before
            self.before = (now_ns, done, used_ns, used)
            known = bool(self.counts)
            span, cpu_span = (now_ns - then_ns) / 1e9, (used_ns - used_then_ns) / 1e9
            rates = [round((n - m) / span, 3) if known else None for n, m in zip(done, done_then, strict=True)]
            first = used_then_ns == self.state["start_ns"]  # there is nothing to compare with
            cores = [
                None if first or now is None or then is None else round(max(0.0, now - then) / cpu_span, 3)
                for now, then in zip(used[1:3] + used[:1], used_then[1:3] + used_then[:1], strict=True)
            ]
            operations, errors, size = rates
            at_s = round((now_ns - self.state["start_ns"]) / 1e9, 3)
            self.seconds.append((at_s, operations, size, errors, *cores))
            if known:
                self.state |= done._asdict()
            self.state |= {
                "clients_told": len({name.split(".")[1] for name in self.counts}),
                "client_rss_bytes": used.client_rss,
                "server_rss_bytes": used.server_rss,
            }
        self.tell()

    def ends(self, outcome: str, reason: str | None = None) -> None:
        with self.lock:
            self.state |= {"stage": "ended", "outcome": outcome, "reason": reason}
        self.tell()

    def tell(self) -> None:
        if not self.on:
            return
        with self.lock, suppress(OSError):  # a full disk is told by what counts
            columns = {name: [row[i] for row in self.seconds] for i, name in enumerate(live.SECONDS)}
            live.write(self.folder, {**self.state, "written_ns": clock.now_ns(), "seconds": columns})


def _run() -> dict[str, Any] | None:
    """The run of Snakemake that this process belongs to."""
    pid, _, begun_ns = os.environ.get(given_up.RUN, "").partition(":")
    return live.process(int(pid)) | {"begun_ns": int(begun_ns)} if pid and begun_ns else None


@contextmanager
def following(config: Config, chosen: Point, at: Place) -> Iterator[State]:
    """The state of a point, until the block ends; how it ended is told last."""
    state = State(config, chosen, at)
    try:
        yield state
    except (MeasurementFailed, UserError) as error:
        state.ends(live.FAILED, str(error))
        raise
    except BaseException:
        state.ends(live.INTERRUPTED)
        raise
    state.ends(live.MEASURED)
