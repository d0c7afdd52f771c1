"""Install and run the program of the engine `davix`.

davix-get starts a new process for each object, takes keys on the command line, and does not support vector reads.
Therefore storelab has its own program, which uses the davix library. Each worker has one process, which keeps its
session. davix_program.cpp describes the protocol between worker and program.
"""

import contextlib
import hashlib
import mmap
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.records import read_json, write_json
from storelab.engines.common.error_classes import network
from storelab.engines.common.wire import Counts
from storelab.host import processes
from storelab.install import Part, Progress, debian, tools_folder
from storelab.install.running import command_output
from storelab.stores.protocols import environment, tokens
from storelab.stores.protocols.endpoint import Credentials, Endpoint

SOURCE = Path(__file__).with_name("davix_program.cpp")
NAME = "storelab-davix"
LIBRARIES = debian.Packages(
    ("davix", "davix-dev", "g++", "pkg-config"), "davix with its library: 1 MB; g++ if it is missing"
)
MIN_MEMORY = 1 << 20  # minimum size in bytes of the memory file
# Error classes for the codes of davix (StatusCode in davixstatusrequest.hpp). Network failures are recognised by their
# messages.
CODES = {
    0x004: "SessionCreationError",
    0x005: "NameNotResolved",
    0x006: "ConnectionProblem",
    0x008: "Timeout",
    0x009: "Timeout",
    0x00E: "AuthenticationError",
    0x010: "CredentialNotFound",
    0x011: "PermissionRefused",
    0x012: "FileNotFound",
    0x014: "SystemError",
    0x017: "InvalidServerResponse",
    0x018: "SSLError",
    0x019: "CredentialNotReadable",
}
SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "BEARER_TOKEN")


def recipe(tools: Path) -> list[Part]:
    """Return the parts to install: Debian's packages, and the program."""
    build = Part(
        f"{NAME}, built from storelab's own source",
        "compiled by g++ in ten seconds; root is not needed",
        lambda: present(tools),
        lambda progress: build_it(tools, progress),
    )
    return [*LIBRARIES.parts(tools), build]


def _source() -> str:
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest()


def present(tools: Path) -> bool:
    """Return True if the program was built from the current source."""
    path = tools / "bin" / NAME
    with contextlib.suppress(UserError, OSError):
        return read_json(path.with_suffix(".json")) == {"source": _source(), "bytes": path.stat().st_size}
    return False


def build_it(tools: Path, progress: Progress) -> None:
    """Build the program.

    Raises UserError if the folder cannot be written, and MeasurementFailed if the compiler fails.
    """
    final = tools / "bin" / NAME
    half = final.with_name(f".{NAME}.{os.getpid()}")
    progress("compile with g++")
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        flags = command_output(["pkg-config", "--cflags", "--libs", "davix"], "pkg-config", 60).split()
        command_output(["g++", "-O2", "-std=c++17", "-pthread", str(SOURCE), "-o", str(half), *flags], "g++", 600)
        if (done := processes.run_command([half, "--version"], 60)).returncode:
            raise MeasurementFailed(f"install: {NAME} does not run here: {processes.words(done)}")
        half.replace(final)
        write_json(final.with_suffix(".json"), {"source": _source(), "bytes": final.stat().st_size})
    except OSError as error:
        hint = "set STORELAB_TOOLS to a writable folder"
        raise UserError("install", f"{error.filename or tools}: {error.strerror}", hint) from None
    finally:
        half.unlink(missing_ok=True)


def binary() -> Path:
    """Return the path of the program. Raises UserError if it is missing or was built from another source."""
    if not present(tools_folder()):
        problem = "davix or storelab's program for davix is missing or outdated"
        raise UserError("engine davix", problem, "run `storelab install davix`")
    return tools_folder() / "bin" / NAME


def version() -> str:
    """Return the versions of davix and of the HTTP library that it uses, for example `davix 0.8.4, …`."""
    return " ".join(processes.run_command([binary(), "--version"], 60).stdout.split())


def url_of(endpoint: Endpoint, path: str) -> str:
    """Return davix's URL for a path from `filesystems.path`."""
    return f"{endpoint.url.rstrip('/')}/{quote(path)}" if endpoint.protocol == "s3" else quote(path, safe="/:@[]")


class DavixError(OSError):
    """An error of davix.

    error_class: the class in records; status: the status of the last HTTP answer, if there was one.
    """

    def __init__(self, error_class: str, words: str, status: int = 0):
        self.kind = self.error_class = error_class
        if status >= 400:
            self.status = status
        super().__init__(words or error_class)


@dataclass
class Spent:
    """The counts of the program since it started.

    statuses: the number of answers to multi-range requests, by HTTP status.
    """

    requests: int = 0
    several: int = 0
    ranges: int = 0
    asked: int = 0
    handed: int = 0
    wire: int = 0
    open: int = 0
    opened: int = 0
    statuses: dict[int, int] = field(default_factory=dict)

    @property
    def counts(self) -> Counts:
        return Counts(self.requests, self.asked, self.handed, self.wire)


def spent_of(words: Sequence[str]) -> Spent:
    """Return the counts, parsed from nine words of an answer of the program."""
    pairs = [] if words[8] == "-" else [pair.split(":") for pair in words[8].split(",")]
    return Spent(*map(int, words[:8]), {int(a): int(b) for a, b in pairs})


class Program:
    """One process with one session of davix. Not thread-safe.

    The answer to a request is in `buffer` until the next request.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float, environ: Mapping[str, str] = os.environ):
        self.spent, self.most_open = Spent(), 0
        known = [*(environ.get(name) for name in SECRETS), tokens.bearer(endpoint.token, environ)]
        self.hidden = [value for value in known if value]
        keys = Credentials.found(environ)
        environment_of_client = environment.explicit(environ) | (keys.environ() if keys else {})
        if endpoint.ca_file:
            environment_of_client["SSL_CERT_FILE"] = endpoint.ca_file
        self.file = os.memfd_create("storelab-davix")
        self.buffer, self.capacity = memoryview(b""), 0
        self.process = subprocess.Popen(
            [str(binary()), str(self.file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(self.file,),
            env=environment_of_client,
            preexec_fn=processes.die_with_parent(),
        )
        try:
            self._begin(endpoint, timeout_s, environ)
        except BaseException:
            self.close()
            raise

    def _begin(self, endpoint: Endpoint, timeout_s: float, environ: Mapping[str, str]) -> None:
        """Send the settings of all requests. Raises UserError if keys are missing or a certificate cannot be read."""
        settings = [f"timeout {max(1, round(timeout_s))}"]
        if endpoint.protocol == "s3":
            settings.append(f"s3 {endpoint.region}")
        if endpoint.token and environ.get(endpoint.token):
            settings.append(f"token {endpoint.token}")
        if endpoint.url.startswith("https"):
            settings += [f"certificate {endpoint.certificate}"] if environ.get(endpoint.certificate or "") else []
            settings += [] if endpoint.verify else ["insecure"]
        for line in settings:
            try:
                self.ask(line)
            except DavixError as error:
                raise UserError("engine davix", str(error), "check the credentials of the store") from None

    def ensure_capacity(self, size: int) -> None:
        """Enlarge the memory file to at least `size` bytes."""
        if size <= self.capacity:
            return
        self.capacity = max(MIN_MEMORY, size)
        os.ftruncate(self.file, self.capacity)
        self.buffer = memoryview(mmap.mmap(self.file, self.capacity))
        self.ask(f"size {self.capacity}")

    def ask(self, line: str, more: str = "") -> int:
        """Send a request to the program, and return the number of bytes received. Raises DavixError."""
        try:
            self.process.stdin.write(f"{line}\n{more}".encode())
            self.process.stdin.flush()
            answer = self.process.stdout.readline().decode(errors="replace")
        except (OSError, ValueError):  # the process has ended, or was closed
            answer = ""
        if not answer.endswith("\n"):
            raise DavixError("Ended", f"the program of the engine davix ended with status {self.process.poll()}")
        first, *words = answer.split(maxsplit=12 if answer.startswith("no ") else 11)
        begin = 2 if first == "no" else 1
        self.spent = spent_of(words[begin : begin + 9])
        self.most_open = max(self.most_open, self.spent.open)
        if first == "ok":
            return int(words[0])
        message = " ".join(words[begin + 9 :]).strip()
        for secret in self.hidden:
            message = message.replace(secret, "***")
        code, status = int(words[0]), int(words[1])
        kind = network(message) or CODES.get(code, f"Davix{code}" if code else "WrongAnswer")
        raise DavixError(kind, message, status)

    def get(self, url: str, size: int) -> memoryview:
        """Read the whole object of `size` bytes, and return the bytes received."""
        self.ensure_capacity(size)
        return self.buffer[: self.ask(f"get {url}")]

    def read(self, url: str, offset: int, size: int) -> memoryview:
        """Read one range, and return the bytes received."""
        self.ensure_capacity(size)
        return self.buffer[: self.ask(f"read {offset} {size} {url}")]

    def vector(self, url: str, starts: Sequence[int], sizes: Sequence[int]) -> list[memoryview]:
        """Read all ranges by one vector read, and return them in their order."""
        if not starts:
            return []
        self.ensure_capacity(sum(sizes))
        lines = "".join(f"{start} {size}\n" for start, size in zip(starts, sizes, strict=True))
        self.ask(f"vector {len(starts)} {url}", lines)
        out, place = [], 0
        for size in sizes:
            out.append(self.buffer[place : place + size])
            place += size
        return out

    def close(self) -> None:
        processes.stop(self.process, 0.0)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        with contextlib.suppress(OSError):
            os.close(self.file)


def facts(spents: Sequence[Spent]) -> dict[str, Any]:
    """Return, for the record, how the programs used multi-range requests."""
    statuses: dict[str, int] = {}
    for spent in spents:
        for status, count in spent.statuses.items():
            statuses[str(status)] = statuses.get(str(status), 0) + count
    return {
        "requests": sum(s.requests for s in spents),
        "for_several_ranges": sum(s.several for s in spents),
        "ranges": sum(s.ranges for s in spents),
        "answers_to_several": statuses,
    }
