"""Monitor a point: sample the resources that clients, servers and the host use. May import: `core`.

A thread samples from the agreed start to the deadline. Every 200 ms, or MAX_SAMPLES times in longer runs, it reads CPU
and memory of the host, its TCP sockets (established, TIME_WAIT) and interfaces, and CPU and memory of each client and
each daemon of the store with all their child processes. Every second, because it costs more, it reads new processes,
open files of clients and daemons, open sockets of the clients, and sockets in transient states. Also every second, it
reports the current use (docs/live.md). With very many processes or sockets, it does all three less often, so that each
stays below its share of a core and the monitor does not disturb the measurement. The record has the CPU time of the
monitor. See docs/resources.md.
"""

import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from storelab.core import clock, records
from storelab.core.errors import system_error
from storelab.host import environment, proc
from storelab.host.console import report

PERIOD_NS, LOOK_NS, BEAT_NS = 200_000_000, 1_000_000_000, 60_000_000_000
MAX_SAMPLES = 3600  # per run; limits the memory of this process in runs that take a day
# Maximum shares of one core for samples, counts (`_look`) and reports: together below 1 %.
SAMPLES, LOOKS, REPORTS = 0.006, 0.0025, 0.001
LATE_NS, STEP_NS = 1_000_000_000, 1_000_000_000  # maximum delay of the last sample; maximum step of the wall clock
NICS = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets")


Beat = Callable[[int, Mapping[str, tuple[int, int | None]]], None]


class Used(NamedTuple):
    """CPU seconds since the start, and resident bytes. A value is None if this host has no such process."""

    host_s: float
    client_s: float | None = None
    server_s: float | None = None
    client_rss: int | None = None
    server_rss: int | None = None


Second = Callable[[int, Used], None]


class Tree:
    """A process, its descendants, and the other processes of its session. Its CPU time includes ended processes."""

    def __init__(self, pid: int, before: "Tree | None" = None):
        """Create a tree. before: the tree of the same daemon before its restart, whose CPU time is added."""
        self.pid, self.members = pid, {pid}
        self.now: dict[int, proc.Process] = {}
        self.ended = [0.0, 0.0]
        self.rss, self.files = 0, before.files if before else None  # last known values
        if before:
            last = before.now.values()
            self.ended = [before.ended[0] + sum(p.user for p in last), before.ended[1] + sum(p.system for p in last)]

    def sample(self, files: proc.Files) -> tuple[float, float, int]:
        """Return CPU user and system seconds since their start, and current resident bytes, over all members."""
        for pid in list(self.members):
            if found := proc.process(files, pid):
                self.now[pid] = found
            else:  # its last known CPU time still counts
                self.members.discard(pid)
                if last := self.now.pop(pid, None):
                    self.ended = [self.ended[0] + last.user, self.ended[1] + last.system]
        here = self.now.values()
        self.rss = sum(p.rss for p in here)
        return self.ended[0] + sum(p.user for p in here), self.ended[1] + sum(p.system for p in here), self.rss

    def look(self) -> int | None:
        """Return the number of open files of all members; None if they are not visible."""
        counts = [n for pid in self.members if (n := proc.opened(pid)) is not None]
        self.files = sum(counts) if counts else None
        return self.files


def _wall() -> int:
    """Return the difference between the wall clock and a monotonic clock in ns."""
    return time.time_ns() - time.monotonic_ns()


class Monitor:
    """A monitor of the resources of this host, of the clients, and of the daemons of a store.

    Call `start(t0_ns)` when the start is agreed, and `stop()` after the clients have ended. Then read `summary` and
    `columns()`. store_actors: daemon -> pid; client_pids: function that returns client -> pid of the clients on this
    host; beat: called once a minute with the ns since the start, and memory and open files of clients and daemons
    (`client`, `server`); second: called once a second with the time (UTC ns) and the current use.

    `summary` has the keys of `host` in run.json. It is empty without samples. If the samples cannot be right (this
    process was stopped, or the clock stepped), `summary` has the reason as `invalid` and no resources, and `columns()`
    is empty. The monitor raises no errors, and `stop` can be called at any time.
    """

    def __init__(
        self,
        store_actors: dict[str, int],
        client_pids: Callable[[], dict[int, int]],
        duration_ns: int,
        beat: Beat | None = None,
        second: Second | None = None,
    ):
        self.actors, self.client_pids, self.duration_ns, self.beat = store_actors, client_pids, duration_ns, beat
        self.second, self._second_at, self._second_cost = second, 0, 0.0
        self._used, self._used_ns = Used(0.0), 0
        self.period_ns = PERIOD_NS * max(1, -(-duration_ns // (PERIOD_NS * MAX_SAMPLES)))
        self.summary: dict[str, Any] = {}
        self._host = platform.node()
        self._rows: list[tuple[Any, ...]] = []
        self._trees: dict[tuple[str, str], Tree] = {}
        self._born: dict[int, tuple[int, int]] = {}  # pid -> parent, session
        self._changing: dict[int, int] | None = None
        self._look_cost = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, t0_ns: int) -> None:
        self._thread = threading.Thread(target=self._run, args=(t0_ns,), daemon=True, name="monitor")
        self._thread.start()

    def moved(self, daemon: str, pid: int) -> None:
        """Follow the new process of a daemon that was restarted."""
        self.actors = self.actors | {daemon: pid}

    def stop(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join(5)

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of records.MONITOR, shape (rows,) each; interfaces without traffic are omitted."""
        if "invalid" in self.summary:
            return {}
        counters: dict[str, set[tuple[Any, ...]]] = {}
        for row in self._rows:
            if row[1] == "interface":
                counters.setdefault(row[2], set()).add(row[-4:])
        rows = [r for r in self._rows if r[1] != "interface" or len(counters[r[2]]) > 1]
        return dict(zip(records.MONITOR, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}

    def _run(self, t0_ns: int) -> None:
        files = proc.Files()
        try:
            begun = time.thread_time()
            self._find()  # before the start, to take the first sample in time
            self._look()
            self._look_cost = time.thread_time() - begun
            if not self._stop.wait(max(0, t0_ns - clock.now_ns()) / 1e9):
                self._watch(files, t0_ns, t0_ns + self.duration_ns)
        except OSError as error:  # this process or host has too many open files
            self._rows.clear()
            report(f"    no resources are recorded: {system_error(error)}")
        finally:
            files.close()

    def _watch(self, files: proc.Files, t0_ns: int, deadline_ns: int) -> None:
        """Sample on a grid from the start to the deadline; postpone work that would exceed its share of a core."""
        cpu_s, looked, samples, find_at, first = time.thread_time(), 0.0, 0, t0_ns + PERIOD_NS // 2, None
        beat_at, period, wall = t0_ns + BEAT_NS, self.period_ns, _wall()
        look_at = t0_ns + max(PERIOD_NS // 2, int(1e9 * self._look_cost / LOOKS))
        self._second_at = t0_ns + LOOK_NS + PERIOD_NS // 4  # at a time between two samples
        while True:
            now, begun, opened = clock.now_ns(), time.thread_time(), None
            last_one = now >= deadline_ns or self._stop.is_set()
            if now >= find_at:
                self._find()
                find_at += LOOK_NS
            if now >= look_at:
                before = time.thread_time()
                opened = self._look()
                self._look_cost = time.thread_time() - before
                looked += self._look_cost
                look_at = max(look_at + LOOK_NS, t0_ns + int(1e9 * (looked + self._look_cost) / LOOKS))
            last = self._sample(files, clock.now_ns(), opened)
            first, samples = first or last, samples + 1
            spent = time.thread_time() - cpu_s - looked - self._second_cost
            if last_one:
                break
            if now >= beat_at:
                beat_at = t0_ns - (t0_ns - now - BEAT_NS + LOOK_NS) // BEAT_NS * BEAT_NS  # at most once a minute
                self._beat(now - t0_ns)
            due = max(
                now + period // 2, t0_ns + int(1e9 * (spent + time.thread_time() - begun) / SAMPLES) - period // 2
            )
            due += (t0_ns - due) % period  # the next point on the grid
            self._report_until(min(due, deadline_ns), files, t0_ns)
            self._stop.wait(max(0, min(due, deadline_ns) - clock.now_ns()) / 1e9)
        self._summarise(first, last, spent + looked + self._second_cost, samples)
        late, step = last["ns"] - deadline_ns, _wall() - wall
        if reason := self._impossible(late, step):
            kept = ("cores", "monitor_cpu_s", "monitor_samples", "ports")
            self.summary = {"invalid": reason} | {name: self.summary[name] for name in kept}

    def _impossible(self, late_ns: int, step_ns: int) -> str:
        """Return the reason why the samples cannot be right, or ''.

        late_ns: delay of the last sample; step_ns: step of the wall clock.
        """
        seconds, most = self.summary["seconds"], self.summary["cores"] * self.summary["seconds"]
        if late_ns > LATE_NS + self.duration_ns // 20:
            return f"the last sample came {late_ns / 1e9:.1f} s after the deadline: the process was stopped"
        if seconds < 0 or abs(step_ns) > STEP_NS:
            return f"the clock of this host stepped by {step_ns / 1e9:.1f} s"
        for name in ("cpu_busy_s", "server_cpu_s"):
            if (used := self.summary[name] or 0) > 1.1 * most + 0.5:
                return f"{name} is {used:.1f} in {seconds:.1f} s on {self.summary['cores']} cores"
        return ""

    def _report_until(self, due_ns: int, files: proc.Files, t0_ns: int) -> None:
        """Report the current use every second until the next sample; less often if it costs too much CPU time."""
        while self.second and self._second_at < due_ns:
            if self._stop.wait(max(0, self._second_at - clock.now_ns()) / 1e9):
                return
            now, begun = clock.now_ns(), time.thread_time()
            if now - self._used_ns > 2 * PERIOD_NS:  # the last sample of a long run can be old
                trees = {who: tree.sample(files) for who, tree in self._trees.items()}
                self._note_used(now, proc.cpu(files).busy, trees)
            self.second(self._used_ns, self._used)
            self._second_cost += time.thread_time() - begun
            grid = self._second_at + LOOK_NS * max(1, -(-(now - self._second_at) // LOOK_NS))
            self._second_at = max(grid, t0_ns + int(1e9 * self._second_cost / REPORTS))

    def _note_used(self, now_ns: int, busy_s: float, trees: Mapping[tuple[str, str], tuple[float, float, int]]) -> None:
        def total(kind: str) -> tuple[float | None, int | None]:
            kind_trees = [seen for (what, _), seen in trees.items() if what == kind]
            return (
                (sum(u + s for u, s, _ in kind_trees), sum(rss for *_, rss in kind_trees))
                if kind_trees
                else (None, None)
            )

        (client_s, client_rss), (server_s, server_rss) = total("client"), total("server")
        self._used, self._used_ns = Used(busy_s, client_s, server_s, client_rss, server_rss), now_ns

    def _beat(self, elapsed_ns: int) -> None:
        """Report the last known memory and the number of open files of clients and daemons."""
        seen = {}
        for kind in ("client", "server"):
            trees = [tree for (what, _), tree in self._trees.items() if what == kind]
            known = [tree.files for tree in trees if tree.files is not None]
            if trees:
                seen[kind] = (sum(tree.rss for tree in trees), sum(known) if known else None)
        if self.beat:
            self.beat(elapsed_ns, seen)

    def _find(self) -> None:
        """Find the processes of clients and daemons. Read parent and session only of new processes."""
        roots = {("server", name): pid for name, pid in self.actors.items()}
        roots |= {("client", str(client)): pid for client, pid in self.client_pids().items()}
        for who, pid in roots.items():
            if who not in self._trees or self._trees[who].pid != pid:
                self._trees[who] = Tree(pid, self._trees.get(who))
        there = proc.pids()
        files = proc.Files(0)
        for pid in there - self._born.keys():
            if found := proc.process(files, pid):
                self._born[pid] = (found.parent, found.session)
        for pid in self._born.keys() - there:
            del self._born[pid]
        tree_by_pid = {tree.pid: tree for tree in self._trees.values()}
        for pid in self._born:
            if tree := self._owner(pid, tree_by_pid):
                tree.members.add(pid)

    def _owner(self, pid: int, tree_by_pid: dict[int, Tree]) -> Tree | None:
        """Return the tree of a process: that of its nearest ancestor, otherwise that of the leader of its session."""
        at = pid
        for _ in range(64):
            if at in tree_by_pid:
                return tree_by_pid[at]
            if at not in self._born:
                break
            at = self._born[at][0]
        return tree_by_pid.get(self._born[pid][1])

    def _look(self) -> dict[tuple[str, str], tuple[int | None, int | None]]:
        """Count sockets in transient states, open sockets of clients, and open files. This takes much CPU time.

        Return (kind, name) -> (open sockets of a client, open files). A value is None if it is not visible.
        """
        self._changing = proc.changing()
        out: dict[tuple[str, str], tuple[int | None, int | None]] = {}
        for who, tree in self._trees.items():
            counts = [n for pid in tree.members if who[0] == "client" and (n := proc.sockets(pid)) is not None]
            out[who] = (sum(counts) if counts else None, tree.look())
        return out

    def _sample(
        self, files: proc.Files, now: int, opened: dict[tuple[str, str], tuple[int | None, int | None]] | None
    ) -> dict[str, Any]:
        """Add a row for the host, each client, each daemon and each interface. opened: a new result of `_look()`."""
        cpu, nics, (established, begun) = proc.cpu(files), proc.interfaces(files), proc.tcp(files)
        syn = closing = None
        if self._changing is not None:
            if established is not None:  # the kernel includes sockets that the peer has closed
                established = max(0, established - self._changing[proc.CLOSE_WAIT])
            if opened is not None:
                syn, closing = (sum(self._changing[s] for s in states) for states in (proc.OPENING, proc.SHUTTING))
        tcp = (established, proc.time_wait(files), syn, closing)
        none4 = (None,) * 4
        add, host = self._rows.append, self._host
        add((host, "host", "", now, cpu.user, cpu.system, proc.memory_in_use(files), *tcp, None, None, *none4))
        server, seen = 0.0, {}
        for (what, name), tree in self._trees.items():
            user, system, rss = seen[what, name] = tree.sample(files)
            open_now = (opened or {}).get((what, name), (None, None))
            add((host, what, name, now, user, system, rss, *none4, *open_now, *none4))
            server += user + system if what == "server" else 0.0
        self._note_used(now, cpu.busy, seen)
        for nic, values in nics.items():
            add((host, "interface", nic, now, None, None, None, *none4, None, None, *values))
        return {"ns": now, "busy": cpu.busy, "server": server, "nics": nics, "opened": begun}

    def _summarise(self, first: dict[str, Any], last: dict[str, Any], cpu_s: float, samples: int) -> None:
        speeds = environment.link_speeds()
        self.summary = {
            "cores": os.cpu_count(),
            "seconds": (last["ns"] - first["ns"]) / 1e9,
            "cpu_busy_s": last["busy"] - first["busy"],
            "server_cpu_s": last["server"] - first["server"] if self.actors else None,
            "network": {
                nic: {name: now - then for name, now, then in zip(NICS, values, first["nics"][nic], strict=True)}
                | {"link_bits_per_s": speeds.get(nic)}
                for nic, values in last["nics"].items()
                if nic in first["nics"]
            },
            "monitor_cpu_s": cpu_s,
            "monitor_samples": samples,
            "ports": proc.ephemeral_ports(),
            "connections_opened": None if last["opened"] is None else last["opened"] - first["opened"],
        }
