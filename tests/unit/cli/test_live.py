"""`storelab live`: choice of the campaign, and of the address."""

import socket
import subprocess
import sys

import pytest
from laboratory import in_process
from paths import ROOT

from storelab.analysis.report.live import serve
from storelab.cli import analysis as command


@pytest.fixture
def project(tmp_path):
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns" / "demo.yaml").write_text((ROOT / "campaigns" / "demo.yaml").read_text())
    (tmp_path / "config.yaml").write_text("campaign: demo\nstores: {seaweedfs: {kind: seaweedfs}}\n")
    return tmp_path


def test_taken_port_is_one_line(project, monkeypatch):
    monkeypatch.setattr(command.os, "nice", lambda by: 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = in_process(project, "live", "demo", "--port", str(port))
    assert code == 2 and not out and len(err.splitlines()) == 1 and f"--port: {port} is in use on 127.0.0.1" in err
    for wrong in ("198.51.100.7", "nonsense.invalid"):
        code, out, err = in_process(project, "live", "demo", "--address", wrong, "--port", "0")
        assert code == 2 and len(err.splitlines()) == 1 and "not an address of this" in err, err


def test_campaign_may_be_left_out(project, monkeypatch):
    shown = []
    monkeypatch.setattr(serve, "run", lambda folder, listening, _: shown.append((folder, listening.getsockname()[0])))
    monkeypatch.setattr("storelab.cli.analysis.os.nice", lambda by: 0)
    (project / "results" / "old" / "raw").mkdir(parents=True)
    for name in ([], ["demo"], ["old"]):
        assert in_process(project, "live", *name, "--port", "0")[0] == 0
    expected = [(f"results/{name}", "127.0.0.1") for name in ("demo", "demo", "old")]
    assert [(folder.as_posix(), *more) for folder, *more in shown] == expected
    code, _, err = in_process(project, "live", "dmo")
    assert code == 2 and "did you mean 'demo'?" in err and len(err.splitlines()) == 1


def test_address_is_printed_before_the_server_is_imported(project):
    code = "import sys; sys.modules['aiohttp'] = None; from storelab.cli import main; main()"
    command = [sys.executable, "-c", code, "live", "demo", "--port", "0"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60)
    assert "storelab: demo: http://127.0.0.1:" in done.stderr and "aiohttp: this Python package" in done.stderr
