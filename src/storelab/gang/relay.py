"""Communication between a node's agent and the coordinator, through a shared folder or a port of the coordinator.

The relay server is a small HTTP server for the gang's folder. It accepts agents that have the gang's token. They write
files by name, either only once or replacing an old file. The server serves one gang on one port, over TLS with a new
certificate, which the agents pin. Agents get token and certificate in a file, never on a command line.
"""

import hmac
import json
import os
import secrets
import ssl
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from storelab.gang.nodes import Background
from storelab.gang.rendezvous import Folder

TOKEN_FILE = "STORELAB_GANG_TOKEN"  # environment variable with the path of the file with token and certificate
TIMEOUT_S = 30


class SharedFolder(Folder):
    """The gang's folder, for nodes that share it."""

    def put_file(self, path: Path) -> None:
        """Copy a file of the node into the folder, completely or not at all."""
        self.write(path.name, path.read_bytes())

    def fetch(self, manifest: Path | None, folder: Path) -> Path | None:
        """Return a path of the manifest that this node can read. The tables that it names are in the same folder."""
        return manifest


class RelayServer(Background, ThreadingHTTPServer):
    """A server of the gang's folder until `close()`. `host` is the name or address that nodes use.

    It listens on all addresses of this host, because a host often resolves its own name to 127.0.1.1 (Debian's
    /etc/hosts), while other hosts resolve it to another address.
    """

    def __init__(self, folder: Path, manifests: Iterable[Path], host: str, port: int = 0):
        import trustme

        self.place, self.token = Folder(folder), secrets.token_hex(16)
        self.manifest = {p.name: p for manifest in manifests for p in _with_side_cars(manifest)}
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
    """A handler of GET /f/NAME, PUT /f/NAME[?once], GET /list/KIND and GET /manifest/NAME."""

    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S
    server: RelayServer

    def _reply(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _name(self) -> str | None:
        """Return the name of the requested file. If the token or the name is wrong, send an error and return None."""
        if not hmac.compare_digest(self.headers.get("Authorization", ""), f"Bearer {self.server.token}"):
            self._reply(403)
            return None
        name = unquote(urlsplit(self.path).path.rpartition("/")[2])
        if not name or name.startswith(".") or "/" in name:
            self._reply(400)
            return None
        return name

    def do_GET(self) -> None:
        if (name := self._name()) is None:
            return
        kind = self.path.split("/")[1]
        try:
            if kind == "list":
                body = json.dumps(sorted(self.server.place.present(name))).encode()
            else:
                body = (self.server.place.path / name if kind == "f" else self.server.manifest[name]).read_bytes()
        except (FileNotFoundError, KeyError):
            self._reply(404)
        else:
            self._reply(200, body)

    def do_PUT(self) -> None:
        if (name := self._name()) is None:
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        once = urlsplit(self.path).query == "once"
        self._reply(200 if self.server.place.write(name, body, once) else 409)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because the records contain the relevant data."""


class RemoteFolder:
    """The gang's folder through the relay server. Its methods raise OSError if it cannot be reached."""

    def __init__(self, url: str, access: dict[str, str]):
        import urllib3

        self.url = url
        self.pool = urllib3.PoolManager(
            ssl_context=ssl.create_default_context(cadata=access["certificate"]),
            headers={"Authorization": f"Bearer {access['token']}"},
            retries=urllib3.Retry(
                1, allowed_methods=None
            ),  # retry once on a new connection, because the server may have closed the old one
            timeout=TIMEOUT_S,
        )

    def _ask(self, method: str, path: str, body: bytes | None = None, fine: int = 200) -> tuple[int, bytes]:
        """Send a request, and return status and body. `fine` is another status than 200 that is not an error."""
        import urllib3

        try:
            answer = self.pool.request(method, f"{self.url}/{path}", body=body)
        except urllib3.exceptions.HTTPError as error:
            raise OSError(str(getattr(error, "reason", error))) from None
        if answer.status not in (200, fine):
            raise OSError(f"the coordinator answered {answer.status} to {path}")
        return answer.status, answer.data

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


def uplink(place: str) -> SharedFolder | RemoteFolder:
    """Return the uplink for a folder, or for the address of a relay server.

    For a relay server, the environment variable TOKEN_FILE names the file with token and certificate.
    """
    if place.startswith("https://"):
        path = Path(os.environ[TOKEN_FILE])
        access = json.loads(path.read_text())
        path.unlink(missing_ok=True)  # the file is needed only once
        return RemoteFolder(place, access)
    return SharedFolder(Path(place))
