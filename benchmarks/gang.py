"""Measure how closely together the clients of a gang start, and the load of 64, 512 and 5000 clients on their folder.

The participants are forked processes on this machine. They use only the standard library and storelab's rendezvous and
clocks. The skew of a gang is its last start minus its first, by the kernel's monotonic clock, which all share.
skew_64_median_ms, skew_64_worst_ms: 20 gangs of 64 that meet in a folder on tmpfs. meet_1000_s: time from the first
fork until all 1000 participants know the start. meet_64_s, meet_512_s, meet_5000_s: the same, together with
looks_<n>_per_s (look-ups of files by all participants) and cpu_<n>_s (CPU seconds, with the forks). injected_skew_ok: 8
participants, the clocks of 6 wrong by up to 50 ms, in a folder that shows every file 3 s late; 1 if each gang starts
within BOUND_MS of true skew or is refused. injected_skew_ms: the skew of each gang. uncorrected_skew_ms: the skew of
the same clocks without correction.
"""

import gc
import json
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path

from common import options, report, run, say, sized

from storelab.core import clock
from storelab.gang import nodes, rendezvous

BOUND_MS = 25.0  # launcher.clock_error (10 ms) at two nodes, and the lateness of both
SHIFTS_MS = (0, 50, -50, 25, -25, 50, -50, 0)
LATE_S = 3.0


class CountedFolder(rendezvous.Folder):
    """A folder that counts look-ups."""

    looks = 0

    def get(self, name: str) -> dict | None:
        self.looks += 1
        return super().get(name)


class LateFolder(rendezvous.Folder):
    """A folder that shows each file some time after it was written, like a shared folder with cached attributes."""

    late_s = LATE_S

    def _old(self, path: Path) -> bool:
        try:
            return time.time() - path.stat().st_mtime >= self.late_s
        except FileNotFoundError:
            return False

    def get(self, name: str) -> dict | None:
        return super().get(name) if self._old(self.path / name) else None

    def present(self, kind: str) -> set[int]:
        return {n for n in super().present(kind) if self._old(self.path / f"{kind}.{n}")}


def participant(
    folder: Path, kind: type, rank: int, size: int, shift_ms: float, ask: list | None, work_s: float
) -> None:
    """Run one process: meet, wait for the start, and write down when it began (monotonic ns)."""
    out: dict = {"rank": rank}
    if shift_ms:
        clock._WALL += int(shift_ms * 1e6)  # simulates a wrong clock of this host
    try:
        if ask:
            offset = nodes.measure_offset(ask)
            clock.set_offset(offset.ns)
            out["error_ns"] = offset.error_ns
        place = kind(folder)
        out["came_ns"] = time.monotonic_ns()
        start = rendezvous.join(place, rank, size, 120.0, {"host": str(rank), "pid": os.getpid()})
        out["looks"] = getattr(place, "looks", 0)
        out["knew_ns"] = time.monotonic_ns()
        clock.sleep_until(start.t0_ns)
        out |= {"began_ns": time.monotonic_ns(), "in_time": start.saw_in_time}
        time.sleep(work_s)
    except rendezvous.GangAborted as error:
        out["refused"] = str(error)
    (folder / f"left.{rank}").write_text(json.dumps(out))


def gang(
    size: int,
    kind: type = rendezvous.Folder,
    shifts: tuple[float, ...] = (0,),
    correct: bool = True,
    lead_s: float = 0.2,
) -> dict:
    """Run one gang with this process as leader; return {skew_ms, meet_s, looks_per_s, cpu_s}, or {refused}."""
    folder = Path(tempfile.mkdtemp(prefix="storelab-gang-", dir="/dev/shm"))
    server = nodes.ClockServer(["127.0.0.1"]) if any(shifts) and correct else None
    begun, children, before = time.monotonic(), [], _cpu_s()
    try:
        for rank in range(size):
            pid = os.fork()
            if pid == 0:
                try:
                    participant(
                        folder, kind, rank, size, shifts[rank % len(shifts)], server.addresses if server else None, 0.2
                    )
                finally:
                    os._exit(0)
            children.append(pid)
        leader = rendezvous.Leader(kind(folder), size, lead_s, 120.0)
        while not leader.settled:
            try:
                leader.step()
            except rendezvous.GangAborted as error:
                return {"refused": str(error)}
            time.sleep(0.005)
    finally:
        for pid in children:
            os.waitpid(pid, 0)
        if server:
            server.close()
        left = [json.loads(p.read_text()) for p in folder.glob("left.*")]
        shutil.rmtree(folder)
    if len(left) != size or any("refused" in one or not one["in_time"] for one in left):
        return {"refused": next((one["refused"] for one in left if "refused" in one), "not all were there, or in time")}
    began = [one["began_ns"] for one in left]
    knew = max(one["knew_ns"] for one in left) / 1e9
    looks = sum(one["looks"] for one in left) / (knew - min(one["came_ns"] for one in left) / 1e9)
    return {
        "skew_ms": (max(began) - min(began)) / 1e6,
        "meet_s": knew - begun,
        "looks_per_s": looks,
        "cpu_s": _cpu_s() - before,
    }


def _cpu_s() -> float:
    """Return the CPU seconds of this process and its ended children."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def met(found: dict) -> dict:
    """Return the result of a gang that must not be refused. End the benchmark if it was refused."""
    if "refused" in found:
        raise SystemExit(f"gang: a gang was refused: {found['refused']}")
    return found


def main() -> None:
    args = options(__doc__)
    n, most = sized(args, 20, 5, 2), sized(args, 5000, 5000, 16)
    LateFolder.late_s = sized(args, LATE_S, LATE_S, 0.2)
    gc.freeze()  # forks share these objects, so that thousands of processes fit into memory
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    skews = []
    for i in range(n):
        found = met(gang(min(64, most)))
        say(f"gang: 64 participants, {i + 1} of {n}: {found}")
        skews.append(found["skew_ms"])
    values = {
        "skew_64_ms": skews,
        "skew_64_median_ms": [sorted(skews)[len(skews) // 2]],
        "skew_64_worst_ms": [max(skews)],
    }
    values["meet_1000_s"] = [met(gang(min(1000, most)))["meet_s"]]
    say(f"gang: 1000 participants meet in {values['meet_1000_s'][0]:.1f} s")
    for size in (64, 512, 5000):
        found = met(gang(min(size, most), CountedFolder))
        say(f"gang: {size} participants: {found}")
        for key, name in (("meet_s", "meet_{}_s"), ("looks_per_s", "looks_{}_per_s"), ("cpu_s", "cpu_{}_s")):
            values[name.format(size)] = [found[key]]
    injected = [gang(8, LateFolder, SHIFTS_MS) for _ in range(sized(args, 5, 2, 1))]
    say(f"gang: clocks off, folder late: {injected}")
    values["injected_skew_ok"] = [int(all("refused" in g or g["skew_ms"] <= BOUND_MS for g in injected))]
    values["injected_skew_ms"] = [g["skew_ms"] for g in injected if "skew_ms" in g]
    values["uncorrected_skew_ms"] = [met(gang(8, LateFolder, SHIFTS_MS, correct=False))["skew_ms"]]
    report("gang", n, values, args)


if __name__ == "__main__":
    run(main)
