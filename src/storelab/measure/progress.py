"""Output while a campaign runs: lines, a state file for other programs, and a display in a terminal.

The state of the current point is `work/live.json` (`core/campaign/live.py`). It is written when a point begins, changes
its stage and ends, and once a second while clients work. No result depends on it, and an error in it does not end a
measurement. This module may import `workloads`, `engines`, `host`, `core` and `attempts`.
"""

import contextlib
import json
import os
import statistics
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from storelab import workloads
from storelab.core import clock, units
from storelab.core.campaign import live
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point, axis_texts
from storelab.core.plan import sweeps
from storelab.engines.common import guard
from storelab.host import console
from storelab.host.console import report
from storelab.host.monitor import BEAT_NS, Used
from storelab.measure import attempts

MAX_OVERHEAD_S = 86400.0  # a day in seconds; larger values come from damaged lines
KEPT_NOTES = 50  # number of points whose overhead is read
MAX_OF_RUN = 15  # number of points of this run on which the estimate depends, so that it follows a busy machine


class Place(NamedTuple):
    """The position in a campaign: number of the current point, number of points, description, and remaining seconds.

    The remaining seconds include the current point.
    """

    number: int
    points: int
    what: str
    left_s: float


def place(config: Config, points: list[Point], chosen: Point) -> Place:
    """Return the position of a point in the campaign, with its description and the remaining time in seconds.

    The remaining time includes the typical overhead of each point.
    """
    todo = [p.key for p in points if p == chosen or not _tried(config, p)]  # points that failed in this run are done
    seconds = {p.key: p.fixed["duration_ns"] / 1e9 for p in points}
    left = sum(seconds[k] for k in todo) + len(todo) * _typical_overhead(config)
    what = " ".join([*axis_texts(chosen, workloads.workload_of(chosen)), f"rep={chosen.rep:03d}"])
    if number := sweeps.part(chosen):
        what += f", part {number} of {len(sweeps.series_of(points, chosen))}"
    return Place(len(points) - len(todo) + 1, len(points), what, left)


def announce(at: Place, chosen: Point) -> None:
    """Print the number of the point, what it measures, and the remaining time of the campaign."""
    report(
        f"[{at.number}/{at.points}] {chosen.store} {chosen.workload} {at.what}: "
        f"{units.human_duration(chosen.fixed['duration_ns'])}, "
        f"about {units.human_duration(at.left_s * 1e9)} left in the campaign"
    )


def _tried(config: Config, point: Point) -> bool:
    """Return whether the point has a record, or failed since this run began."""
    folder = config.raw / point.key
    try:
        return (folder / "run.json").exists() or (folder / "failed.json").stat().st_mtime_ns >= attempts.begun_ns()
    except OSError:
        return False


def _overheads(config: Config) -> Path:
    return config.campaign_dir / "work" / "overhead.jsonl"


def _notes(config: Config) -> list[dict[str, Any]]:
    """Return the notes of the last points. Damaged or incomplete lines are skipped."""
    try:
        lines = _overheads(config).read_bytes().splitlines()[-2 * KEPT_NOTES :]  # every second line is empty
    except OSError:
        return []
    found = []
    for line in lines:
        with suppress(ValueError, TypeError, AttributeError, OverflowError):
            note = json.loads(line)
            seconds = float(note.get("overhead_s", -1))
            if 0 <= seconds < MAX_OVERHEAD_S:
                found.append(note | {"overhead_s": seconds})
    return found


def _typical_overhead(config: Config) -> float:
    """Return the median overhead of the last points of this run in seconds.

    The overhead of earlier runs counts as one more point, because the first point of a run also starts the store. If
    there are no earlier runs, it is 2 s.
    """
    of_run: list[float] = []
    earlier: list[float] = []
    for note in _notes(config):
        (of_run if note.get("run") == os.environ.get(attempts.RUN) else earlier).append(note["overhead_s"])
    before = statistics.median(earlier) if earlier else 2.0
    return statistics.median([before, *of_run[-MAX_OF_RUN:]])


def note_overhead(config: Config, chosen: Point, begun_ns: int) -> None:
    """Append the time in seconds that a point took in addition to its duration, whether it failed or not.

    The time starts at `begun_ns`, or in a run at the end of its previous point, so that it includes the start of the
    process.
    """
    run, now_ns = os.environ.get(attempts.RUN), clock.now_ns()
    ends = [int(note.get("ended_ns") or 0) for note in _notes(config) if run and note.get("run") == run]
    wall_s = (now_ns - min(begun_ns, ends[-1] if ends else begun_ns)) / 1e9
    overhead = max(0.0, round(wall_s - chosen.fixed["duration_ns"] / 1e9, 3))  # a probe can end before its deadline
    line = json.dumps({"key": chosen.key, "overhead_s": overhead, "run": run, "ended_ns": now_ns})
    with contextlib.suppress(OSError):  # on a full disk, the result of the point is more important than an estimate
        _overheads(config).parent.mkdir(parents=True, exist_ok=True)
        with open(_overheads(config), "a") as f:
            f.write(f"\n{line}\n")  # the leading newline ends a line that a kill may have cut off


def off() -> bool:
    """Return whether the environment switches the live state off."""
    return os.environ.get(live.OFF) == "off"


class State:
    """The state of one point, from its begin to its end. The methods are thread-safe."""

    def __init__(self, config: Config, chosen: Point, at: Place):
        self.folder, self.on = config.campaign_dir, not off()
        self.duration_ns: int = chosen.fixed["duration_ns"]
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
        self.write_state()

    def stage(self, name: str, work: Path | None = None) -> None:
        """Set the stage of the point. Clients write their progress into the attempt's folder `work`."""
        assert name in live.STAGES
        with self.lock:
            self.work = work or self.work
            self.state["stage"] = name
        self.write_state()

    def starts(self, t0_ns: int) -> None:
        """Record that the clients start at this time (Unix ns)."""
        with self.lock:
            self.state |= {"stage": "measuring", "start_ns": t0_ns}
            self.before = (t0_ns, guard.Done(0, 0, 0), t0_ns, Used(0.0))
        self.write_state()

    def second(self, used_ns: int, used: Used) -> None:
        """Record the resources used until now, and read the clients' progress. The monitor calls it once a second."""
        with suppress(Exception):  # an error here must end neither a measurement nor the monitor
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
            first = used_then_ns == self.state["start_ns"]  # there is no earlier value to compare with
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
        self.write_state()

    def beat(self, elapsed_ns: int, seen: Mapping[str, tuple[int, int | None]]) -> None:
        """Print the progress of a long point once a minute, with memory and open files of the clients and the store."""
        whole = units.human_duration(self.duration_ns)
        parts = [f"    {units.human_duration(elapsed_ns // BEAT_NS * BEAT_NS)} of {whole}"]
        for who, (rss, files) in seen.items():
            opened = "" if files is None else f", {files} files"
            parts.append(f"{who}s {units.human_size(rss)}{opened}")
        report("; ".join(parts))

    def ends(self, outcome: str, reason: str | None = None) -> None:
        with self.lock:
            self.state |= {"stage": "ended", "outcome": outcome, "reason": reason}
        self.write_state()

    def write_state(self) -> None:
        if not self.on:
            return
        with self.lock, suppress(OSError):  # a full disk is reported where results are written
            columns = {name: [row[i] for row in self.seconds] for i, name in enumerate(live.SECONDS)}
            live.write(self.folder, {**self.state, "written_ns": clock.now_ns(), "seconds": columns})


def _run() -> dict[str, Any] | None:
    """Return the run of Snakemake to which this process belongs; None outside of a run."""
    pid, _, begun_ns = os.environ.get(attempts.RUN, "").partition(":")
    return live.process(int(pid)) | {"begun_ns": int(begun_ns)} if pid and begun_ns else None


@contextmanager
def following(config: Config, chosen: Point, at: Place) -> Iterator[State]:
    """Yield the state of a point, and record at the end of the block how the point ended."""
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


@contextmanager
def shown(campaign_dir: Path) -> Iterator[None]:
    """Show the point in a display below the lines until the block ends, if there is a terminal.

    Snakemake's jobs print through a pipe into a log. The display writes to the terminal directly, so it does not appear
    in logs.
    """
    if (terminal := console.terminal()) is None:
        yield
        return
    from storelab.measure.display import Display  # here, because rich is not needed without a terminal

    display = Display(terminal, campaign_dir)
    console.giving_way.append(display.clear_display)
    display.thread.start()
    try:
        yield
    finally:
        console.giving_way.remove(display.clear_display)
        display.close()
        with suppress(OSError):
            terminal.close()
