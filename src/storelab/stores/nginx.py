"""nginx with WebDAV for a folder: up to 16 front-ends, each a separate nginx (master and workers) for the same data.

nginx does less work per request than the other stores, and is one of the few servers that answer a multi-range GET. It
runs as the user who starts it and does not require credentials. Therefore use it on loopback. See docs/stores.md.
"""

import hashlib
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from storelab.core.config_types import Boolean
from storelab.core.errors import UserError
from storelab.install import debian
from storelab.stores.managed.base import Managed
from storelab.stores.managed.daemon import Daemon
from storelab.stores.managed.settings import DRIVE_SIZE, TLS, DriveSize, ListeningSettings

MODULES = [
    Path(p)
    for p in (
        "/usr/lib/nginx/modules",
        "/usr/lib64/nginx/modules",
        "/usr/local/nginx/modules",
        "/usr/local/libexec/nginx",
    )
]
DAV_EXT = "ngx_http_dav_ext_module.so"
FRONT_ENDS = 16
# Uploads are renamed from `incoming` to their final path, so both are on the same file system. A DELETE removes a
# folder with its content, except for the root folder. Header lines of 64k can contain about 3000 ranges of one GET.
# The long timeouts prevent nginx from closing a connection between operations.
CONFIGURATION = """daemon off;
pid "{run}/{name}.pid";
error_log stderr error;
worker_processes {processes};
worker_rlimit_nofile 8192;
{user}load_module "{module}";
events {{ worker_connections 4096; }}
http {{
    access_log off;
    log_not_found off;
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    keepalive_time 24h;
    keepalive_timeout 1h;
    client_header_timeout 1h;
    client_body_timeout 300s;
    send_timeout 300s;
    client_max_body_size 0;
    client_body_buffer_size 256k;
    large_client_header_buffers 8 64k;
    absolute_redirect off;
    client_body_temp_path "{data}/incoming/{name}";
    proxy_temp_path "{temp}/proxy";
    fastcgi_temp_path "{temp}/fastcgi";
    uwsgi_temp_path "{temp}/uwsgi";
    scgi_temp_path "{temp}/scgi";
    server {{
        listen {listen};
        root "{data}/objects";
{tls}        location / {{
            dav_methods PUT DELETE MKCOL COPY MOVE;
            dav_ext_methods PROPFIND OPTIONS;
            dav_access user:rw;
            create_full_put_path on;
            min_delete_depth 1;
            autoindex on;
        }}
    }}
}}
"""
HTTPS = """        ssl_certificate "{chain}";
        ssl_certificate_key "{key}";
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:tls:10m;
        ssl_session_timeout 1h;
"""


class Settings(ListeningSettings):
    """An nginx with WebDAV for a folder. It does less work per request than the other stores."""

    tls: Boolean = TLS
    drive_size: DriveSize = DRIVE_SIZE
    kind: Literal["nginx"]
    port: int = Field(
        24000, ge=1024, le=32000, description="First port of a block of 16 ports; each front-end uses one."
    )
    processes: int = Field(2, ge=1, description="Number of worker processes.")


class Nginx(Managed):
    """An nginx server with WebDAV on this machine."""

    Settings = Settings
    system = "nginx"
    version_flag, version_pattern = "-v", r"nginx/(\S+)"
    protocol = "http"
    front = "http-"
    most_front_ends = FRONT_ENDS
    port_block = FRONT_ENDS

    recipe = debian.Packages(
        ("nginx", "libnginx-mod-http-dav-ext"),
        "3 packages, 1 MB to download; 15 MB more on a bare Debian",
    ).parts

    def require(self) -> None:
        self.program()
        self._module()
        self.require_paths(r'["$\\\n]', self.folder, self.data)

    def _module(self) -> Path:
        for folder in MODULES:
            if (folder / DAV_EXT).exists():
                return folder / DAV_EXT
        raise UserError(self.place, f"the nginx module {DAV_EXT} is missing", "run `storelab install nginx`")

    def _text(self, name: str) -> str:
        s, port = self.settings, self._port(name)
        host = f"[{s.address}]" if ":" in s.address else s.address
        folder = self.folder / "tls"
        return CONFIGURATION.format(
            name=name,
            processes=s.processes,
            user="user root;\n"
            if os.geteuid() == 0
            else "",  # without this line, workers of a root master cannot enter root's private folders
            module=self._module(),
            listen=f"{host}:{port}" + (" ssl" if s.tls else ""),
            tls=HTTPS.format(chain=folder / "server.pem", key=folder / "server.key") if s.tls else "",
            run=self.folder / "run",
            data=self.data,
            temp=self.folder / "temp",
        )

    def _port(self, name: str) -> int:
        return self.settings.port + self._number(name) - 1

    def _configuration(self, name: str) -> Path:
        """Return the path of a front-end's configuration. Its name contains a hash of the content.

        Therefore the command line shows whether a running front-end was started with other settings.
        """
        return self.folder / "conf" / f"{name}-{hashlib.sha256(self._text(name).encode()).hexdigest()[:8]}.conf"

    def daemon(self, name: str) -> Daemon:
        """Return the definition of the front-end with this name (`http-1`, …)."""
        host, port = self.settings.address, self._port(name)
        argv = (str(self.program()), "-e", "stderr", "-p", f"{self.folder}/", "-c", str(self._configuration(name)))
        return Daemon(name, argv, host, (port,), "/", tls=self.settings.tls)

    def make_ready(self) -> None:
        for folder in (self.data / "objects", self.data / "incoming", self.folder / "temp", self.folder / "conf"):
            folder.mkdir(exist_ok=True, mode=0o700)
        running, wanted = self.daemons.running(), set()
        for name in (f"{self.front}{i}" for i in range(1, FRONT_ENDS + 1)):
            path = self._configuration(name)
            wanted.add(path)
            path.write_text(self._text(name))
            for rest in (self.data / "incoming" / name).glob("*") if name not in running else ():
                # This is a partial upload of a killed front-end. The folder is not removed, because an unrecorded
                # front-end could still use it.
                rest.unlink()
        for path in set((self.folder / "conf").iterdir()) - wanted:
            path.unlink()

    def deployment(self) -> dict[str, Any]:
        return super().deployment() | {"processes": self.settings.processes}
