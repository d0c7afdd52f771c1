"""The agent of one node: it starts the node's clients, relays between them and the coordinator, and watches them.

The command is `python -m storelab.gang.agent PLACE NUMBER` (default of NUMBER: SLURM_PROCID). PLACE is the gang's
folder. If nodes have no shared folder, it is the address of the coordinator's relay server, or `pipe:` for standard
input and output (`relay.py`). `python -m storelab.gang.agent sweep FOLDER` removes files that killed agents left in
FOLDER (`scratch`).

The clients meet in a folder on the node's tmpfs. The coordinator communicates only with agents. Therefore the load of a
shared folder depends on the number of nodes, not of clients. The agent compares the node's clock with the coordinator's
clock, which the clients then use. The agent ends when its clients have ended, and they end with it. It also ends if the
coordinator stops sending heartbeats.
"""

import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from storelab.core import clock, folders, records
from storelab.core.redaction import without_tokens
from storelab.engines.contract import ClientResult, GangJob
from storelab.gang import credentials, nodes, prefork, relay, rendezvous
from storelab.gang.launchers.local import LocalLauncher
from storelab.gang.launchers.remote import STOP_REQUESTED
from storelab.gang.rendezvous import Folder, GangAborted
from storelab.host import processes, scratch
from storelab.host.monitor import Monitor

ALIVE_S = 3.0  # seconds between two heartbeats
ABORT_LOOK_S = 0.5  # seconds between two checks whether the gang was cancelled
FULL = 2**20  # a tmpfs with less free space in bytes is considered full
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_end_reasons: list[str] = []  # the signal that ends this agent
SWEEP = "sweep"
LOCK, CLIENTS = ".turn", "clients"  # a lock in the scratch folder; a file with the names of the clients' folders


class GangFolder:
    """The folder of a gang on a node's tmpfs: `gang-<attempt>-<number>` in the user's scratch folder.

    The agent removes it at the end. If the agent was killed, the next agent removes it. The folder is locked until
    `remove()`, or until its agent ends.
    """

    def __init__(self, base: Path, attempt: str, number: int, ranks: list[int]):
        self.base, self._held = base, ExitStack()
        self.scratch = self._held.enter_context(scratch.using(base))
        with _turn(self.scratch):
            sweep(self.scratch)
            self.path = self.scratch / f"gang-{attempt}-{number}"
            self.path.mkdir(mode=0o700)
            self._lock = os.open(self.path, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.path / CLIENTS).write_text("\n".join(f"{attempt}-{rank}" for rank in ranks))

    def remove(self) -> None:
        """Remove the folder and the clients' folders, and the scratch folder if no other process uses it."""
        _remove(self.path)
        os.close(self._lock)
        self._held.close()
        scratch.clear(self.base)


def sweep(folder: Path) -> list[str]:
    """Remove the folders of gangs whose agent was killed, with their credentials, and return their names.

    The caller must have the lock, so that no other agent starts at the same time.
    """
    out = []
    for path in sorted(folder.glob("gang-*-*")):  # not the folder of a client, `<attempt>-<rank>`
        try:
            lock = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
            out.append(path.name)
        except BlockingIOError:
            pass  # the agent of this folder is running
        finally:
            os.close(lock)
    return out


def clear(base: Path) -> None:
    """Remove the files that killed agents of this user left below `base`."""
    with scratch.using(base) as folder, _turn(folder):
        sweep(folder)
    scratch.clear(base)


def _remove(path: Path) -> None:
    """Remove a gang's folder. The clients' folders are removed first, because their names are stored in it."""
    for name in (path / CLIENTS).read_text().split() if (path / CLIENTS).exists() else []:
        shutil.rmtree(path.parent / name, ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Allow only one agent at a time in the block, because a new folder without a lock would look abandoned."""
    with folders.lock_file(folder / LOCK) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class NodeFailed(Exception):
    """A node cannot take part in a measurement. The message contains the reason."""


class Agent:
    """The agent of one node.

    `uplink` is the connection to the coordinator, and `number` the node's number, from 0. The constructor raises
    NodeFailed if there is no job.
    """

    def __init__(self, uplink: Any, number: int):
        self.uplink, self.number = uplink, number
        self.host = nodes.host_name()
        found = rendezvous.wait_for_file(uplink, "job.json")
        if found is None:
            raise NodeFailed(
                f"does not see {getattr(uplink, 'path', uplink)}/job.json within {rendezvous.SHARED_S:.0f} s: "
                "the folder `results` is not shared with this node; "
                "put it on a file system that all nodes mount, or set launcher.shared_folder: false"
            )
        self.job = GangJob.from_json(found)
        self.ranks = self.job.nodes[number]
        self.timeout_s = self.job.timeout_ns / 1e9
        self.duration_ns: int = self.job.point.fixed["duration_ns"]
        self.home: GangFolder | None = None
        self.launcher: LocalLauncher | None = None
        self.watch: Monitor | None = None
        self.relayed: set[int] = set()
        self._alive = self._looked = 0.0
        self._coordinator: tuple[int, float] = 0, time.monotonic()  # its last heartbeat, and the time when it was seen

    def run(self) -> None:
        """Run the node's clients, from their start to the node's record. Raises NodeFailed, GangAborted."""
        self._sign()  # from here on, `_end` must clean up
        offset = self._compare_clock()
        about = {
            "host": self.host,
            "pid": os.getpid(),
            "boot_id": nodes.BOOT_ID.read_text().strip(),
            "ranks": self.ranks,
            **nodes.versions(),
            **offset.as_dict(),
        }
        try:
            self._start_clients(offset.ns)
            self._meet(about)
            self._relay_results()
        finally:
            self._end(about)

    def _compare_clock(self) -> nodes.Offset:
        """Measure and set the offset of the clock. Raises NodeFailed if it exceeds the bound."""
        offset, bound = nodes.measure_offset(self.job.clock_addresses, self.uplink), self.job.clock_bound_ns
        if abs(offset.ns) > bound:
            raise NodeFailed(
                f"its clock differs by {offset.ns / 1e9:+.3f} s from the coordinator's, more than clock_bound = "
                f"{bound / 1e9:g} s"
            )
        clock.set_offset(offset.ns)
        return offset

    def _start_clients(self, offset_ns: int) -> None:
        base = self.job.scratch_base
        if not base.is_dir():
            raise NodeFailed(f"has no folder {base}; set `scratch` to a tmpfs that exists on all nodes")
        self.home = GangFolder(base, self.job.attempt, self.number, self.ranks)
        self.local = self.home.path
        for role_job in (self.job, *self.job.roles):
            role_job.scratch = self.home.scratch
            role_job.manifest = self.uplink.fetch(role_job.manifest, self.local)
        self.job.write(self.local)
        environs = credentials.receive(self.uplink.get("keys") or {}, self.local)
        environs = [e | {clock.OFFSET: str(offset_ns)} for e in environs]
        launcher = LocalLauncher(self.local, self.ranks, environs)
        self.watch = Monitor({}, launcher.pids, self.duration_ns)
        self.launcher = launcher  # after `watch`, because `_end` ends both
        self.launcher.start()

    def _meet(self, about: dict[str, Any]) -> None:
        """Report the node as ready when its clients are ready, and pass the coordinator's decision on to them."""
        here = Folder(self.local)
        self._until(lambda: self._all(here, "ready"))
        about["clients"] = {r: here.get(f"ready.{r}") for r in self.ranks}
        if not self.uplink.put_once(f"ready.{self.number}", about):
            self.uplink.put("abort", {"reason": f"node {self.number} joined twice"})
            raise NodeFailed(f"node {self.number} joined twice")
        here.put("call", self._until(lambda: self.uplink.get("call") or self.uplink.get("go")))
        self._until(lambda: self._all(here, "seen"))
        self.uplink.put(f"seen.{self.number}", {"time_ns": clock.now_ns()})
        go = self._until(lambda: self.uplink.get("go"))
        here.put("go", go)
        self.watch.start(rendezvous.decided(go).t0_ns)

    def _all(self, here: Folder, kind: str) -> bool:
        return len(here.present(kind)) >= len(self.ranks)

    def _until(self, look: Any) -> Any:
        """Call `look` until its result is not empty, and return the result.

        Raises GangAborted if the gang is cancelled, all clients have ended, or the time limit has expired.
        """
        limit = time.monotonic() + self.timeout_s + rendezvous.MAX_START_DELAY_S
        pause = rendezvous.poll_s(len(self.job.nodes))
        while not (found := look()):
            self._step(limit, "the coordinator did not answer")
            if set(self.ranks) <= self.relayed:
                raise GangAborted("all clients of the node have ended")
            time.sleep(pause)
        return found

    def _relay_results(self) -> None:
        limit = time.monotonic() + (self.job.lead_ns + self.duration_ns) / 1e9 + self.timeout_s + 90
        while not set(self.ranks) <= self.relayed:
            self._step(limit, "clients left no result")
            time.sleep(0.1)

    def _step(self, limit: float, late: str) -> None:
        """Do the regular work between two checks.

        Raises GangAborted if the gang is cancelled, or after the time `limit`, with the reason `late`.
        """
        self._sign()
        self._called_off()
        self._relay()
        if time.monotonic() > limit:
            raise GangAborted(late)

    def _relay(self) -> None:
        """Send results to the coordinator, tables first. If a client ended without a result, send its log."""
        here = Folder(self.local)
        done, ended = here.present("result"), self.launcher.ended()
        for rank in sorted((done | ended.keys()) - self.relayed):
            if rank in here.present("result"):
                for path in sorted([*self.local.glob(f"*.{rank}.parquet"), *self.local.glob(f"ledger.{rank}")]):
                    self.uplink.put_file(path)
                result = replace(ClientResult.read(self.local, rank), node=self.number, host=self.host)
                self.uplink.put(f"result.{rank}", result.to_json())
            else:
                self._refuse_full_disk(rank, ended[rank])
                self.uplink.put_file(self.local / f"client.{rank}.log")
                self.uplink.put(f"ended.{rank}", {"status": ended[rank], "host": self.host})
            self.relayed.add(rank)

    def _refuse_full_disk(self, rank: int, status: int) -> None:
        """Raise NodeFailed if the tmpfs is full, because then the client could not write a result or a log."""
        base = self.job.scratch_base
        if shutil.disk_usage(base).free < FULL:
            raise NodeFailed(
                f"No space left on device: client {rank} ended with status {status}, and {base} (`scratch`) is full; "
                "make room there, or lower object_size, workers or clients_per_node"
            )

    def _sign(self) -> None:
        """Write a heartbeat. The new file also makes an NFS client read the folder again."""
        if time.monotonic() - self._alive > ALIVE_S:
            self._alive = time.monotonic()
            self.uplink.put(f"alive.{self.number}", {"time_ns": clock.now_ns(), "host": self.host})

    def _called_off(self) -> None:
        if _end_reasons:  # after a fork, Python drops exceptions of signal handlers
            raise NodeFailed(_end_reasons[0])
        if time.monotonic() - self._looked > ABORT_LOOK_S:
            self._looked = time.monotonic()
            if (called := self.uplink.get("abort")) is not None:
                raise GangAborted(called.get("reason", "the coordinator cancelled the gang"))
            sign, now = (self.uplink.get("coordinator") or {}).get("time_ns", 0), time.monotonic()
            if sign != self._coordinator[0]:
                self._coordinator = sign, now
            elif now - self._coordinator[1] > self.job.silence_ns / 1e9:
                raise GangAborted("the coordinator has sent no heartbeat")

    def _end(self, about: dict[str, Any]) -> None:
        """End the clients, remove their folder, and write the node's record."""
        try:
            if self.launcher is not None:
                if not set(self.ranks) <= self.relayed:
                    Folder(self.local).put("abort", {"reason": "the node's agent ends"})
                self.launcher.stop()
                self.watch.stop()
                if columns := self.watch.columns():
                    path = self.local / f"monitor.{self.number}.parquet"
                    records.write_table(path, records.MONITOR, columns, sync=False)
                    self.uplink.put_file(path)
        finally:
            if self.home is not None:
                self.home.remove()
        self.uplink.put(f"node.{self.number}", about | {"watched": self.watch.summary if self.watch else {}})


def _end_by_signal(number: int, _: Any) -> None:
    """End the agent after the first signal. Later signals are ignored, because they would disturb the clean-up."""
    for sig in SIGNALS:
        signal.signal(sig, signal.SIG_IGN)
    _end_reasons.append(
        f"{STOP_REQUESTED} ({signal.Signals(number).name}): the job or its step was cancelled, or its walltime is over"
    )
    raise NodeFailed(_end_reasons[0])


def main() -> None:
    """Connect this node to the coordinator, and run its clients. The coordinator gets a report of any failure."""
    if sys.argv[1] == SWEEP:
        clear(Path(sys.argv[2]))
        return
    processes.no_core_dumps()
    prefork.without_pandas()
    for sig in SIGNALS:
        signal.signal(sig, _end_by_signal)
    number = int(sys.argv[2] if len(sys.argv) > 2 else os.environ["SLURM_PROCID"])
    host = nodes.host_name()
    try:
        uplink = relay.uplink(sys.argv[1])
        try:
            Agent(uplink, number).run()
        except GangAborted:
            return  # the coordinator already knows the reason
        except Exception as error:  # noqa: BLE001 - the coordinator must receive every error
            text = without_tokens(str(error) if isinstance(error, NodeFailed) else f"{type(error).__name__}: {error}")
            print(f"storelab: node {number} ({host}): {text}", file=sys.stderr, flush=True)
            uplink.put(f"failed.{number}", {"host": host, "failure": text})
    except (OSError, NodeFailed) as error:  # this can only be reported through the batch system
        place = "" if sys.argv[1] == relay.PIPE else f" at {sys.argv[1]}"
        print(
            f"storelab: node {number} ({host}) cannot reach the coordinator{place}: {error}",
            file=sys.stderr,
            flush=True,
        )
        time.sleep(1)  # the batch system can lose output that is written just before the end
        sys.exit(1)


if __name__ == "__main__":
    main()
