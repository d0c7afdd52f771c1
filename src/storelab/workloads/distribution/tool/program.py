"""The program `cvmfs_swissknife`: whether it can run here, how it is run, what it counted.

It keeps a database of statistics in /var/spool/cvmfs and reads settings from /etc/cvmfs, whatever it is told: so it
runs in a mount namespace of its own, where scratch folders lie there: nothing of this machine is written or read.
May import: `stratum`, `host`, `core`.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from storelab.core.errors import UserError
from storelab.host import processes
from storelab.workloads.distribution.stratum import Failed, OutOfTime

NAME = "cvmfs_swissknife"
PLACE = "engine cvmfs"
# $1: a folder in place of /var/spool; $2: an empty one in place of /etc/cvmfs, where there is one; $3: where a tmpfs
# lies that nobody else sees and that ends with the namespace; $4: file descriptor of what is `s3.conf` there; $5: the
# program. Its watchdog leaves a file in /tmp when it is killed: that is another one, unless something of it is there.
_INSIDE = """
umask 077 && mount --bind "$1" /var/spool && { [ ! -d /etc/cvmfs ] || mount --bind "$2" /etc/cvmfs; } &&
mount -t tmpfs -o mode=0700,size=1m tmpfs "$3" && cat "/proc/self/fd/$4" > "$3/s3.conf" &&
case "$3:$5" in /tmp/*|*:/tmp/*) ;; *) mount -t tmpfs -o mode=1777 tmpfs /tmp ;; esac && shift 4 && exec "$@"
"""
_HIDDEN = ("AWS_", "STORELAB_")  # begins of variables that it must not see
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_SAID_BYTES = 4000  # of its last words
STATISTICS = ("-+", "stats")  # switch: it prints its counters when it is done


def binary() -> Path:
    """Path of the program. Raises UserError where it is missing, does not run, or cannot have a namespace."""
    found = shutil.which(NAME)
    if found is None:
        mend = "install cvmfs-server from CernVM-FS's own packages (docs/distribution.md), or sweep engine wire"
        raise UserError(PLACE, f"{NAME} is not installed: it is not in PATH", mend)
    version(Path(found))
    done = processes.ask([*_alone(), "true"])
    if done.returncode:
        problem = f"{NAME} needs a mount namespace, and none can be made here ({processes.words(done)})"
        raise UserError(PLACE, problem, "use a host or a container that may make them, or sweep engine wire")
    return Path(found)


def version(path: Path) -> str:
    """As `2.12.0`. Raises UserError where it does not run."""
    done = processes.ask([path, "version"])
    if done.returncode or not done.stdout.strip():
        problem = f"{NAME} does not run here: {processes.words(done) or 'it says no version'}"
        raise UserError(PLACE, problem, "install it anew, with its libraries")
    return done.stdout.split()[0]


def _alone() -> tuple[str, ...]:
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ("unshare", *user, "--mount")


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What it inherits: nothing that holds a key, and no proxy."""
    return {k: v for k, v in environ.items() if not k.startswith(_HIDDEN) and k.lower() not in _PROXIES}


class Runner:
    """Runs commands of the program one after the other, until a deadline (`deadline_ns`, of `time.time_ns`; None: one
    minute each). folder: on tmpfs, its own; config: file descriptor of the settings that the program finds at
    `s3_conf`; hidden: words that no message repeats.
    """

    LONGEST_S = 60.0

    def __init__(self, path: Path, folder: Path, repository: str, config: int, hidden: Sequence[str] = ()):
        self.path, self.folder, self.config, self.hidden = path, folder, config, tuple(filter(None, hidden))
        self.spool, self.empty, self.private = (folder / name for name in ("spool", "empty", "private"))
        (self.spool / "cvmfs" / repository).mkdir(parents=True, exist_ok=True)
        self.empty.mkdir(exist_ok=True)
        self.private.mkdir(mode=0o700, exist_ok=True)
        self.s3_conf = self.private / "s3.conf"
        self.deadline_ns: int | None = None

    def command(self, *words: str | Path) -> list[str]:
        """The whole command line; it holds no secret."""
        inside = ["sh", "-c", _INSIDE, "sh", self.spool, self.empty, self.private, self.config]
        return [str(word) for word in (*_alone(), *inside, self.path, *words)]

    def run(self, *words: str | Path) -> dict[str, int]:
        """Its counters. Raises Failed, OutOfTime: no process of it is left then."""
        left_s = self.LONGEST_S if self.deadline_ns is None else (self.deadline_ns - time.time_ns()) / 1e9
        if left_s <= 0:
            raise OutOfTime
        out, error = self.folder / "out", self.folder / "error"
        with open(out, "wb") as to, open(error, "wb") as complaints:
            process = subprocess.Popen(
                self.command(*words, *STATISTICS),
                stdin=subprocess.DEVNULL,
                stdout=to,
                stderr=complaints,
                env=environment(os.environ),
                pass_fds=(self.config,),
                cwd=self.folder,
                process_group=0,
                preexec_fn=processes.die_with_parent(),
            )
            try:
                status = process.wait(left_s)
            except subprocess.TimeoutExpired:
                raise OutOfTime from None
            finally:
                self._end(process)
        if status:
            said = _end_of(error) or _end_of(out)
            raise Failed(f"{NAME} {words[0]}: status {status}: {self.told(said)}")
        return counters(out.read_text(errors="replace"))

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Nothing of it runs any longer; its watchdog ends when it does."""
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def told(self, said: str) -> str:
        """On one line, without a secret."""
        for word in self.hidden:
            said = said.replace(word, "***")
        return " ".join(said.split())[-300:]


def _end_of(path: Path) -> str:
    return path.read_bytes()[-_SAID_BYTES:].decode(errors="replace")


def counters(text: str) -> dict[str, int]:
    """What it prints at its end, as `publish.n_chunks_added|12|Number of new chunks added`, by name."""
    found = (line.split("|", 2) for line in text.splitlines())
    return {w[0]: int(w[1]) for w in found if len(w) == 3 and w[1].lstrip("-").isdigit()}
