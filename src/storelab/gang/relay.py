"""Communication between a node's agent and the coordinator, through a shared folder, a port, or a pipe.

Without a shared folder, agents write files into the gang's folder by name, either only once or replacing an old file
(`GangFiles`). The relay server offers this over HTTP to agents that have the gang's token. It serves one gang on one
port, over TLS with a new certificate, which the agents pin. Agents get token and certificate in a file, never on a
command line. A pipe server offers the same on standard input and output of the command that started an agent (ssh).
Only the relay server needs more than the standard library: `trustme` and `urllib3`.
"""

import contextlib
import hmac
import json
import os
import secrets
import select
import ssl
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote, urlsplit

from storelab.core import clock
from storelab.gang.nodes import Background
from storelab.gang.rendezvous import Folder

TOKEN_FILE = "STORELAB_GANG_TOKEN"  # environment variable with the path of the file with token and certificate
TIMEOUT_S = 30
PIPE = "pipe:"  # address of a coordinator with which agents communicate on standard input and output
GREETING = b"storelab-agent "  # an agent's first line on a pipe begins with this; its pid follows
MAX_NOISE, MAX_LINE = 1000, 65536  # maximum number of lines before the greeting, from a login shell; bytes of a line


class SharedFolder(Folder):
    """The gang's folder, for nodes that share it."""

    def put_file(self, path: Path) -> None:
        """Copy a file of the node into the folder, completely or not at all."""
        self.write(path.name, path.read_bytes())

    def fetch(self, manifest: Path | None, folder: Path) -> Path | None:
        """Return a path of the manifest that this node can read. The tables that it names are in the same folder."""
        return manifest


class GangFiles:
    """The gang's folder and the manifests of its data sets, for agents that do not share them."""

    def __init__(self, folder: Path, manifests: Iterable[Path]):
        self.place = Folder(folder)
        self.manifest = {p.name: p for manifest in manifests for p in _with_side_cars(manifest)}

    def answer(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Return status and body of a request.

        Requests are GET f/NAME, PUT f/NAME[?once], GET list/KIND, GET manifest/NAME and GET time/now.
        """
        kind, _, rest = path.partition("/")
        name = unquote(urlsplit(rest).path)
        if not name or name.startswith(".") or "/" in name:
            return 400, b""
        if method == "PUT":
            return (200 if self.place.write(name, body, urlsplit(rest).query == "once") else 409), b""
        try:
            if kind == "time":
                return 200, str(clock.now_ns()).encode()
            if kind == "list":
                return 200, json.dumps(sorted(self.place.present(name))).encode()
            return 200, (self.place.path / name if kind == "f" else self.manifest[name]).read_bytes()
        except (FileNotFoundError, KeyError):
            return 404, b""


class RelayServer(Background, ThreadingHTTPServer):
    """A server of the gang's folder until `close()`. `host` is the name or address that nodes use.

    It listens on all addresses of this host, because a host often resolves its own name to 127.0.1.1 (Debian's
    /etc/hosts), while other hosts resolve it to another address.
    """

    def __init__(self, folder: Path, manifests: Iterable[Path], host: str, port: int = 0):
        import trustme

        self.files, self.token = GangFiles(folder, manifests), secrets.token_hex(16)
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(host).configure_cert(context)
        self.certificate = authority.cert_pem.bytes().decode()
        super().__init__(("", port), _Handler)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://{host}:{self.server_address[1]}"
        self.begin("office")

    def access(self) -> dict[str, str]:
        """Return token and certificate, which an agent needs in addition to the address. They are secret."""
        return {"token": self.token, "certificate": self.certificate}


def _with_side_cars(manifest: Path) -> list[Path]:
    """Return the paths of the manifest and of the tables of ROOT files that it names."""
    named = json.loads(manifest.read_text()).get("root") or {}
    return [manifest, *([manifest.parent / named["sidecar"]] if "sidecar" in named else [])]


class _Handler(BaseHTTPRequestHandler):
    """The handler of requests to `GangFiles`."""

    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S
    server: RelayServer

    def _reply(self, method: str, body: bytes = b"") -> None:
        """Answer the request. Without the right token, answer with status 404."""
        if hmac.compare_digest(self.headers.get("Authorization", ""), f"Bearer {self.server.token}"):
            status, body = self.server.files.answer(method, self.path.removeprefix("/"), body)
        else:
            status, body = 403, b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self._reply("GET")

    def do_PUT(self) -> None:
        self._reply("PUT", self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because the records contain the relevant data."""


class PipeServer:
    """A thread that answers one agent's requests, on the pipes of the command that started the agent, until they end.

    Lines before the greeting, which a login shell can print, are written to `noise`. After the greeting, `pid` is the
    pid of the agent.
    """

    def __init__(self, files: GangFiles, requests: IO[bytes], replies: IO[bytes], noise: Path):
        self.files, self.requests, self.replies, self.noise = files, requests, replies, noise
        self.pid: int | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True, name="pipe")
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the agent or its connection has ended
            if not self._greeted():
                return
            while words := self.requests.readline(MAX_LINE).split():
                method, path, size = words
                body = self.requests.read(int(size))
                if len(body) < int(size):
                    return
                status, answer = self._answer(method.decode(), path.decode(), body)
                self.replies.write(b"%d %d\n%b" % (status, len(answer), answer))
                self.replies.flush()

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        try:
            return self.files.answer(method, path, body)
        except OSError as error:  # an error of this host, for example a full disk
            return 500, str(error).encode()

    def _greeted(self) -> bool:
        with open(self.noise, "wb") as noise:
            for _ in range(MAX_NOISE):
                line = self.requests.readline(MAX_LINE)
                if line.startswith(GREETING):
                    self.pid = int(line.removeprefix(GREETING))
                    return True
                if not line:
                    break
                noise.write(line)
        return False

    def close(self) -> None:
        """End the connection, so that the agent ends. A write to an agent that hangs must not block the caller."""
        threading.Thread(target=self._close, daemon=True, name="closing").start()

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self.replies.close()

    def join(self, seconds: float) -> None:
        """Wait until the last request is answered."""
        self._thread.join(seconds)


class RemoteFolder(ABC):
    """Access to the gang's folder on another host. The methods raise OSError if the host cannot be reached."""

    @abstractmethod
    def _ask(self, method: str, path: str, body: bytes = b"", fine: int = 200) -> tuple[int, bytes]:
        """Send a request, and return status and body.

        The statuses 200 and `fine` are accepted; all others are errors.
        """

    def put(self, name: str, data: dict[str, Any]) -> None:
        self._ask("PUT", f"f/{quote(name)}", json.dumps(data).encode())

    def put_once(self, name: str, data: dict[str, Any]) -> bool:
        """Write the file if it does not exist. Return whether it has this content now.

        The content can be the same already, because the answer to an earlier request was lost.
        """
        body = json.dumps(data).encode()
        return self._ask("PUT", f"f/{quote(name)}?once", body, 409)[0] == 200 or self._get("f", name) == body

    def put_file(self, path: Path) -> None:
        self._ask("PUT", f"f/{quote(path.name)}", path.read_bytes())

    def _get(self, kind: str, name: str) -> bytes | None:
        status, body = self._ask("GET", f"{kind}/{quote(name)}", fine=404)
        return body if status == 200 else None

    def get(self, name: str) -> dict[str, Any] | None:
        body = self._get("f", name)
        return None if body is None else json.loads(body)

    def present(self, kind: str) -> set[int]:
        return set(json.loads(self._get("list", kind) or b"[]"))

    def fetch(self, manifest: Path | None, folder: Path) -> Path | None:
        """Return the path of a copy of the manifest in `folder`, with the tables that it names."""
        if manifest is None:
            return None
        name = manifest.name
        text = self._get("manifest", name)
        if text is None:
            raise OSError(f"the coordinator has no manifest {name}")
        (folder / name).write_bytes(text)
        if side_car := (json.loads(text).get("root") or {}).get("sidecar"):
            (folder / side_car).write_bytes(self._get("manifest", side_car) or b"")
        return folder / name


class HttpsFolder(RemoteFolder):
    """Access to the gang's folder through the relay server."""

    def __init__(self, url: str, access: dict[str, str]):
        import urllib3

        self.url = url
        self.pool = urllib3.PoolManager(
            ssl_context=ssl.create_default_context(cadata=access["certificate"]),
            headers={"Authorization": f"Bearer {access['token']}"},
            retries=urllib3.Retry(1, allowed_methods=None),  # on a new connection, if the old one was closed
            timeout=TIMEOUT_S,
        )

    def _ask(self, method: str, path: str, body: bytes = b"", fine: int = 200) -> tuple[int, bytes]:
        import urllib3

        try:
            answer = self.pool.request(method, f"{self.url}/{path}", body=body if method == "PUT" else None)
        except urllib3.exceptions.HTTPError as error:
            raise OSError(str(getattr(error, "reason", error))) from None
        if answer.status not in (200, fine):
            raise OSError(f"the coordinator answered {answer.status} to {path}")
        return answer.status, answer.data


class PipeFolder(RemoteFolder):
    """Access to the gang's folder through a pipe server. After the end of the connection, the pipes are not used again.

    If the exception of a signal handler interrupts a request, the next request first reads the rest of its answer.
    """

    def __init__(self, replies: int, requests: int):
        self.replies, self.requests = replies, requests
        self._unsent = b"%b%d\n" % (GREETING, os.getpid())
        self._received = b""
        self._owed = 0  # replies that have not been read yet
        self._ended = ""
        for pipe in (replies, requests):
            os.set_blocking(pipe, False)
        self._send()

    @classmethod
    def of_process(cls) -> "PipeFolder":
        """Return a folder on standard input and output, which other code and child processes then cannot use."""
        sys.stdout.flush()
        replies, requests = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        return cls(replies, requests)

    def _ask(self, method: str, path: str, body: bytes = b"", fine: int = 200) -> tuple[int, bytes]:
        if self._ended:
            raise OSError(self._ended)
        self._unsent, self._owed = self._unsent + f"{method} {path} {len(body)}\n".encode() + body, self._owed + 1
        try:
            self._send()
            while self._owed:
                status, answer = self._reply()
        except OSError as error:
            self._ended = str(error)
            raise
        if status not in (200, fine):
            reason = f" ({answer.decode()})" if answer else ""
            raise OSError(f"the coordinator answered {status} to {path}{reason}")
        return status, answer

    def _send(self) -> None:
        while self._unsent:
            self._wait(self.requests, select.POLLOUT)
            with contextlib.suppress(BlockingIOError):
                self._unsent = self._unsent[os.write(self.requests, self._unsent[: 1 << 20]) :]

    def _reply(self) -> tuple[int, bytes]:
        """Wait until the next reply has arrived completely, and return its status and body."""
        while True:
            head, end, rest = self._received.partition(b"\n")
            if end and len(rest) >= (size := int(head.split()[1])):
                self._owed, self._received = self._owed - 1, rest[size:]
                return int(head.split()[0]), rest[:size]
            self._wait(self.replies, select.POLLIN)
            with contextlib.suppress(BlockingIOError):
                if not (data := os.read(self.replies, 1 << 20)):
                    raise OSError("the connection to the coordinator has ended")
                self._received += data

    def _wait(self, pipe: int, event: int) -> None:
        """Wait until the pipe is ready or has ended. Raises OSError if the coordinator does not answer."""
        poll = select.poll()
        poll.register(pipe, event)
        if not poll.poll(1000 * TIMEOUT_S):
            raise OSError(f"the coordinator has not answered for {TIMEOUT_S} s")

    def server_time_ns(self) -> int:
        """Return the coordinator's time in Unix ns."""
        return int(self._ask("GET", "time/now")[1])


def uplink(place: str) -> SharedFolder | RemoteFolder:
    """Return the uplink for a folder, a pipe, or the address of a relay server.

    For a relay server, the environment variable TOKEN_FILE names the file with token and certificate.
    """
    if place == PIPE:
        return PipeFolder.of_process()
    if place.startswith("https://"):
        path = Path(os.environ[TOKEN_FILE])
        access = json.loads(path.read_text())
        path.unlink(missing_ok=True)  # the file is needed only once
        return HttpsFolder(place, access)
    return SharedFolder(Path(place))
