"""Queries and commands for a Ceph cluster: the daemons' admin sockets, and Ceph's own programs.

The sockets answer in milliseconds, and need neither keys nor a monitor. A program needs 0.1 s or more.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from storelab.core.errors import MeasurementFailed
from storelab.stores.managed.daemon import environment

# This is the value of Debian's service units. The default is a tenth of it, with which small objects are slow.
TCMALLOC = {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES": str(128 * 1024**2)}


class Admin:
    """Administration of the cluster whose folder contains `ceph.conf` and `run/`.

    `place` is for messages. `command` returns the command line of one of Ceph's programs.
    """

    def __init__(self, folder: Path, place: str, command: Callable[[str], Sequence[str]]):
        self.folder, self.place, self.command = folder, place, command

    @property
    def conf(self) -> str:
        """Return the path of `ceph.conf` for command lines, which run in the store's folder.

        Ceph treats the option as a list of paths. Therefore a path with blanks or commas is given without its folder.
        """
        path = str(self.folder / "ceph.conf")
        return "ceph.conf" if re.search(r"[\s,;=]", path) else path

    def environ(self) -> dict[str, str]:
        """Return the environment of Ceph's programs, without CEPH_ARGS or PYTHONPATH of the user."""
        return environment(self.folder, TCMALLOC)

    def _ends_with_parent(self) -> list[str]:
        """Return a command prefix that ends a program together with storelab.

        Without a monitor, the program would continue to run for minutes.
        """
        setpriv = shutil.which("setpriv")
        return [setpriv, "--pdeathsig", "KILL"] if setpriv else []

    def ask(self, daemon: str, prefix: str, timeout: float = 2.0, **arguments: Any) -> Any:
        """Send a command to the admin socket of a daemon, e.g. `osd.0`, and return the answer.

        Raises OSError or ValueError if it does not answer.
        """
        request = json.dumps({"prefix": prefix, "format": "json", **arguments}).encode() + b"\0"
        run = os.open(self.folder / "run", os.O_PATH)  # paths of sockets are limited to 107 bytes
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(timeout)
                s.connect(f"/proc/self/fd/{run}/{daemon}.sock")
                s.sendall(request)
                with s.makefile("rb") as answer:
                    head = answer.read(4)
                    body = answer.read(struct.unpack(">I", head)[0]) if len(head) == 4 else b""
        finally:
            os.close(run)
        return json.loads(body)

    def state(self, daemon: str, prefix: str) -> str:
        """Return the `state` that a daemon reports; '' if it does not answer (yet)."""
        try:
            return str(self.ask(daemon, prefix)["state"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def tool(self, name: str, *arguments: str, feed: str = "", timeout: float = 60.0) -> str:
        """Run one of Ceph's programs, and return its output.

        Raises MeasurementFailed with the last line of the output if it fails, or if it needs more than `timeout`
        seconds.
        """
        what = " ".join((name, *arguments[:2]))
        command = [*self._ends_with_parent(), *self.command(name), "-c", self.conf, *arguments]
        try:
            done = subprocess.run(
                command,
                input=feed,
                cwd=self.folder,
                env=self.environ(),
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise MeasurementFailed(f"{self.place}: `{what}` did not end within {timeout:g} s") from None
        # With several commands as input, `ceph` continues after one that fails, and exits with status 0.
        failed = [line for line in done.stderr.splitlines() if line.startswith("Error ")]
        if done.returncode or failed:
            # The first command that fails makes later ones fail. Other output ends with the reason.
            reason = failed[0] if failed else (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
            raise MeasurementFailed(f"{self.place}: `{what}` failed: {reason.strip()[:300]}")
        return done.stdout

    def send_commands(self, commands: Iterable[str]) -> None:
        """Send these commands to the monitor in one session, because each session takes 0.5 s on a busy machine."""
        self.tool("ceph", feed="\n".join(commands) + "\n")

    def run_parallel(self, commands: Mapping[str, Sequence[str]], log: Path, timeout: float = 120.0) -> None:
        """Run one command for each daemon in parallel, and write the output to the daemons' logs.

        Raises MeasurementFailed if a command fails.
        """
        log.mkdir(exist_ok=True)

        def make(name: str, command: Sequence[str]) -> None:
            path = log / f"{name}.log"
            with path.open("ab") as f:
                done = subprocess.run(
                    [*self._ends_with_parent(), *command],
                    cwd=self.folder,
                    env=self.environ(),
                    stdin=subprocess.DEVNULL,
                    stdout=f,
                    stderr=f,
                    check=False,
                    timeout=timeout,
                )
            if done.returncode:
                words = " | ".join(path.read_text(errors="replace").strip().splitlines()[-3:])[:500]
                raise MeasurementFailed(f"{self.place}: {name} could not be created; end of its log: {words}")

        try:
            with ThreadPoolExecutor(len(commands)) as pool:
                list(pool.map(make, commands, commands.values()))
        except subprocess.TimeoutExpired:
            names = ", ".join(commands)
            raise MeasurementFailed(f"{self.place}: {names} were not created within {timeout:g} s") from None

    def groups(self, osds: Iterable[str], pools: Mapping[str, tuple[int, int]], timeout: float = 2.0) -> dict[str, str]:
        """Return the state of each placement group as its primary OSD reports it, or '' if it has no primary OSD.

        `pools` contains the id and the number of groups of each pool by name. `timeout` is in seconds, for each answer.
        """
        wanted = {f"{pool}.{i:x}": "" for pool, count in pools.values() for i in range(count)}
        for osd in osds:
            number = int(osd.rpartition(".")[2])
            with contextlib.suppress(OSError):
                for group in [g for g, state in wanted.items() if not state]:
                    with contextlib.suppress(ValueError, LookupError, TypeError):  # a group of another OSD
                        answer = self.ask(osd, "pg", timeout, pgid=group, cmd="query")
                        if answer["acting"][0] == number:
                            wanted[group] = answer["state"]
        return wanted

    def put_user(self, name: str, keys: Mapping[str, str]) -> None:
        """Create this user of the gateways, or replace its keys.

        The keys are passed through a pipe, because other users can read command lines.
        """
        user = {
            "user_id": name,
            "display_name": name,
            "max_buckets": 0,  # no limit
            "keys": [{"user": name, **keys}],
            "op_mask": "read, write, delete",
        }
        entry = {
            "key": f"user:{name}",
            "ver": {"tag": hashlib.sha256(keys["access_key"].encode()).hexdigest()[:16], "ver": 1},
            "mtime": "2000-01-01T00:00:00.000000Z",
            "data": user,
        }
        self.tool("radosgw-admin", "metadata", "put", f"user:{name}", feed=json.dumps(entry))
