"""Kill measuring commands (SIGKILL) at a random access to the files of their campaign, or at a random time.

After each kill, every earlier record must be unchanged, or replaced by a newer complete one. There must be no head
without a complete record, and no failure in the folder of a record. From time to time the campaign is continued: its
run must succeed, all files must be verified, and nothing of the killed attempts may remain.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from common import environ, laboratory, say, storelab

from storelab.core import integrity, records

LOOK_EVERY = 10
SWEEPS = {"up": {"workload": "put", "duration": "300 ms", "warm_up": "50 ms", "axes": {"engine": "fsspec"}}}

# `storelab` that kills itself at its nth access to a file below a folder; n = 0: it only counts the accesses.
KILLED = """
import os, signal, sys
act, below, note = int(sys.argv[1]), sys.argv[2], sys.argv[3]
sys.argv = ["storelab", *sys.argv[4:]]
seen = 0
def hook(event, args):
    global seen
    if event == "open":
        mine = isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    else:
        mine = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
    if mine and below in os.path.abspath(str(args[0])):
        seen += 1
        if seen == act:
            os.kill(os.getpid(), signal.SIGKILL)
from storelab.cli import main
sys.addaudithook(hook)
try:
    main()
finally:
    open(note, "w").write(str(seen))
"""


def started(folder: Path, act: int, *command: str) -> subprocess.Popen[bytes]:
    given = [sys.executable, "-c", KILLED, str(act), str(folder / "results"), str(folder / "acts"), *command]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(given, cwd=folder, env=environ(), start_new_session=True, **quiet)


def heads(raw: Path) -> dict[str, bytes]:
    return {key: (raw / key / "run.json").read_bytes() for key in integrity.heads(raw)}


def violations(raw: Path, before: dict[str, bytes], chosen: str) -> list[str]:
    """Return the rules that are broken after a kill of a command for the point `chosen`."""
    out, now = [], heads(raw)
    for key in before.keys() - now.keys():
        out.append(f"{key}: its record is gone")
    for key, head in now.items():
        folder = raw / key
        if wrong := integrity.first_error(folder, None):
            out.append(f"{wrong.path.relative_to(raw)} {wrong.problem}")
        elif key != chosen and head != before.get(key):
            out.append(f"{key}: was changed, although {chosen} was measured")
        elif key in before and head != before[key] and _attempt(head) == _attempt(before[key]):
            out.append(f"{key}: the record of the same attempt was changed")
        if (folder / records.FAILED).exists():
            out.append(f"{key}: a failure is in the folder of its record")
    return out


def _attempt(head: bytes) -> str:
    return str(json.loads(head)["attempt"])


def left(folder: Path) -> list[str]:
    """Continue a campaign after kills; return failed runs, damaged files, and remaining attempts and clients."""
    out = []
    keys = [line.split()[-1] for line in storelab(folder, "plan").stdout.splitlines()]
    for number, key in enumerate(keys):
        done = storelab(folder, "measure", key, *["--again"] * (number == 0), check=False)
        if done.returncode:
            out.append(f"measure {key}: {done.stderr.strip().splitlines()[-1:]}")
    for command in ("collect", "verify"):
        done = storelab(folder, command, check=False)
        if done.returncode:
            out.append(f"{command}: {done.stderr.strip().splitlines()[-1:]}")
    raw, work = folder / "results/bench/raw", folder / "results/bench/work"
    out += [f"{p.relative_to(folder)} is left" for p in [*raw.rglob("*.tmp"), *work.glob("*/*/*/*")]]
    return out + [f"process {pid} is left" for pid in clients(folder)]


def clients(folder: Path) -> list[str]:
    out = []
    for proc in Path("/proc").iterdir():
        try:
            if (
                proc.name.isdigit()
                and (proc / "cwd").readlink() == folder
                and b"gang.client" in (proc / "cmdline").read_bytes()
            ):
                out.append(proc.name)
        except OSError:
            continue
    return out


def figures(number: int, seed: int = 1) -> dict[str, float]:
    """Return the counts kills and violations."""
    rng, found, killed = random.Random(seed), [], 0
    store = {"kind": "directory", "path": "files"}
    with laboratory(SWEEPS, {"here": store}, use_stores=["here"], repetitions=3) as folder:
        (folder / "files").mkdir()
        raw = folder / "results/bench/raw"
        storelab(folder, "plan", "--write")
        keys = [line.split()[-1] for line in storelab(folder, "plan").stdout.splitlines()]
        begun = time.monotonic()
        started(folder, 0, "measure", keys[0]).wait()
        took, acts = time.monotonic() - begun, int((folder / "acts").read_text())
        while killed < number:
            chosen, before = rng.choice(keys), heads(raw)
            again = ["--again"] * (rng.random() < 0.8)
            command = ["collect"] if rng.random() < 0.1 and len(before) == len(keys) else ["measure", chosen, *again]
            by_act = rng.random() < 0.6
            process = started(folder, rng.randint(1, acts) if by_act else 0, *command)
            try:
                process.wait(rng.uniform(0, took) if not by_act else 60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            killed += process.returncode == -signal.SIGKILL
            found += violations(raw, before, chosen)
            if killed % LOOK_EVERY == 0 and process.returncode == -signal.SIGKILL:
                found += left(folder)
                say(f"hardening: {killed} of {number} kills, {len(found)} violations")
        found += left(folder)
    for line in found:
        say(f"hardening: violation: {line}")
    return {"kills": killed, "violations": len(found)}
