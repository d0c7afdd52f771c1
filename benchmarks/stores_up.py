"""Measure <kind>_s: the time of `up` of a new managed store, from its first process until it is healthy and warmed up.

left_behind: number of processes, mounts, network namespaces, links, sockets and locks that remain after `down`, both
after a clean start and after storelab was killed (SIGKILL) in the middle of `up`. Kinds that are not installed are
listed as missing.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ports
import psutil
from common import options, report, run, say, sized

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores import KINDS, load, make
from storelab.stores.managed.base import Managed

CLUSTERS = {"xrootd_cluster": ("xrootd", {"servers": 3})}  # a redirector and three data servers
MANAGED = [kind for kind in KINDS if load(kind).managed] + list(CLUSTERS)
CHILD = "import sys; sys.path.insert(0, {here!r}); import stores_up; stores_up.store({kind!r}, {folder!r}, {port}).up()"


def store(kind: str, folder: str, port: int) -> Managed:
    product, more = CLUSTERS.get(kind, (kind, {}))
    model = load(product).Settings
    more = more | ({"port": port} if "port" in model.model_fields else {})
    made = make(kind, model(kind=product, **more), Path(folder))
    assert isinstance(made, Managed)
    return made


def lines(*command: str) -> set[str]:
    """Return the output lines of a command; none if the command does not exist."""
    try:
        return set(subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout.splitlines())
    except OSError:
        return set()


def outside() -> set[str]:
    """Return what stores may leave outside of their folder: namespaces, links, files of /tmp and /dev/shm."""
    found = {f"namespace {line.split()[0]}" for line in lines("ip", "netns", "list") if line.strip()}
    found |= {f"link {line.split()[1]}" for line in lines("ip", "-o", "link") if "sl-" in line}
    files = [
        p
        for base in ("/tmp", "/dev/shm")
        for p in Path(base).iterdir()
        if any(k in p.name for k in ("seaweedfs", "hsperfdata", "-stores"))
    ]
    for path in files:
        found |= {f"file {p}" for p in (path.iterdir() if path.is_dir() and os.access(path, os.R_OK) else [path])}
    return found


def left(folder: str, before: set[str]) -> set[str]:
    """Return what remains of the stores below `folder`."""
    found = outside() - before
    for process in psutil.process_iter(["cmdline", "cwd"]):
        if process.pid != os.getpid() and (
            folder in " ".join(process.info["cmdline"] or []) or (process.info["cwd"] or "").startswith(folder)
        ):
            found.add(f"process {process.pid} {' '.join(process.info['cmdline'] or [])[:80]}")
    found |= {f"mount {line.split()[1]}" for line in Path("/proc/mounts").read_text().splitlines() if folder in line}
    found |= {
        f"socket {line.split()[-1]}" for line in Path("/proc/net/unix").read_text().splitlines() if folder in line
    }
    for lock in Path(folder).rglob("lock"):
        with contextlib.suppress(OSError), lock.open("a") as f:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.add(f"lock {lock}")
    return found


def clean_start(kind: str, port: int) -> tuple[float, set[str]]:
    """Start a store in a new folder; return (seconds of `up`, what remained after `down`)."""
    folder, before = tempfile.mkdtemp(prefix="storelab-up-"), outside()
    one = store(kind, folder, port)
    try:
        begun = time.monotonic()
        one.up()
        seconds = time.monotonic() - begun
    finally:
        one.down()
    remains = left(folder, before)
    shutil.rmtree(folder, ignore_errors=True)
    return seconds, remains


def killed_start(kind: str, port: int, after: float) -> set[str]:
    """Return what remains if storelab is killed `after` seconds into `up`, and `down` is called afterwards."""
    folder, before = tempfile.mkdtemp(prefix="storelab-up-"), outside()
    here = str(Path(__file__).resolve().parent)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(here=here, kind=kind, folder=folder, port=port)], stderr=subprocess.DEVNULL
    )
    time.sleep(0.4 + after)  # 0.4 s for the imports of the child
    child.send_signal(signal.SIGKILL)
    child.wait()
    time.sleep(0.2)
    store(kind, folder, port).down()
    remains = left(folder, before)
    shutil.rmtree(folder, ignore_errors=True)
    return remains


def main() -> None:
    args = options(__doc__)
    n = sized(args, 7, 3, 1)
    values: dict[str, list[float]] = {"left_behind": []}
    missing = []
    kinds = []
    for kind in MANAGED:
        try:
            store(kind, tempfile.gettempdir(), 20000).require()
            kinds.append(kind)
        except UserError as error:
            missing.append(f"{kind}: {error}")
            say(f"stores_up: {kind} is left out: {error.problem}")
    taken = {kind: ports.block() for kind in kinds}
    for i in range(n):
        for kind in kinds:
            try:
                seconds, remains = clean_start(kind, taken[kind])
                say(f"stores_up: {i + 1} of {n}: {kind} {seconds:.2f} s")
                values.setdefault(f"{kind}_s", []).append(seconds)
                more = killed_start(kind, taken[kind], seconds * (i + 0.5) / n)
            except MeasurementFailed as error:
                raise SystemExit(f"stores_up: {kind}: {error}") from None
            for what in remains | more:
                say(f"    left behind by {kind}: {what}")
            values["left_behind"].append(len(remains) + len(more))
    report("stores_up", n, values, args, missing, kinds)


if __name__ == "__main__":
    run(main)
