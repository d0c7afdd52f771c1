"""`storelab quick` on a real endpoint: one page, nothing remains, and one line for every mistake."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import in_process
from common import BIN, ROOT, environ
from laboratory import needs_loadgen
from managed import until
from process_table import having

pytestmark = [pytest.mark.real, pytest.mark.heavy]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return a folder to start it in, with the shipped configuration and a separate folder of temporary files."""
    shutil.copy(ROOT / "config.yaml", tmp_path)
    (tmp_path / "campaigns").symlink_to(ROOT / "campaigns")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def ours(store) -> list[str]:
    return [name for name in store.access().bucket_names() if name.startswith("storelab-quick-")]


def nothing_left(store, folder: Path) -> None:
    until(lambda: ours(store) == [], 10)  # a busy SeaweedFS lists a deleted bucket for a moment
    assert list((folder / "tmp").iterdir()) == []
    assert {p.name for p in folder.iterdir()} <= {"config.yaml", "campaigns", "tmp", ".storelab"}
    assert {p.name for p in (folder / ".storelab").glob("*")} <= {"measuring.lock"}
    assert not having(str(folder))


@contextmanager
def taken(port: int):
    """Listen at the port, unless another process does."""
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError:
        yield
        return
    with listening:
        yield


@needs_loadgen
def test_one_page_from_an_endpoint_that_is_there(here, seaweedfs, keys):
    url = seaweedfs.endpoints()[0].url
    fast = ("--set", "scale=0.3", "--set", "repetitions=1")
    command, quiet = [*fast, "quick", url, "--output", "page.html"], {"capture_output": True, "text": True}
    with taken(25000):  # the near-null server's
        done = subprocess.run([str(BIN / "storelab"), *command], cwd=here, env=environ(), timeout=300, **quiet)
    assert done.returncode == 0, done.stderr[-3000:]
    page = done.stdout
    for words in ("Capabilities", "upload of 4 kB", "download of 16 MB", "50 % within", "1 % of entries, planned"):
        assert words in page, page
    assert "limited by" in page and "Failures" not in page and "SeaweedFS" in page
    assert re.search(r"^download of 4 kB +16 +[1-9]", page, flags=re.MULTILINE)
    written = (here / "page.html").read_text()
    assert written.startswith("<!doctype html>") and "upload of 4 kB" in written
    own = seaweedfs.credentials()
    for secret in (own.access_key, own.secret_key):
        assert secret not in page + done.stderr + written
    (here / "page.html").unlink()
    nothing_left(seaweedfs, here)


@pytest.mark.parametrize(("when", "later"), [("[1/", 0.1), (" probe ", 0.5)], ids=["staging", "probe"])
def test_ctrl_c_leaves_nothing(here, seaweedfs, keys, when, later):
    """It is interrupted while it stages the data of the first point, and while it probes."""
    url = seaweedfs.endpoints()[0].url
    command = [str(BIN / "storelab"), "--set", "calibrate=false", "quick", url]
    with (here / "said").open("w") as found:
        output = {"stdout": found, "stderr": found}
        started = subprocess.Popen(command, cwd=here, env=environ(), start_new_session=True, **output)
    until(lambda: when in (here / "said").read_text() or started.poll() is not None)
    time.sleep(later)
    os.killpg(started.pid, signal.SIGINT)
    assert started.wait(60) == 130
    text = (here / "said").read_text()
    assert when in text and "Traceback" not in text
    (here / "said").unlink()
    print(text)  # where something is left
    nothing_left(seaweedfs, here)


def refused(here: Path, *arguments: str) -> str:
    """Return the only line of the error message; check that the exit code is 2."""
    code, out, err = in_process(here, *arguments)
    assert (code, out) == (2, ""), out + err
    (line,) = err.splitlines()
    return line


def test_a_wrong_endpoint_is_one_line(here, keys, seaweedfs):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = free.getsockname()[1]
    urls = {
        "ftp://s3.example.org": "storelab: quick: 'ftp://s3.example.org' is not a URL of an S3 endpoint",
        "s3.example.org": "'s3.example.org' is not a URL of an S3 endpoint",
        f"http://127.0.0.1:{closed}": "storelab: quick: ",
        "http://no-such-host.invalid": "storelab: quick: ",
    }
    for url, words in urls.items():
        line = refused(here, "quick", url)
        assert words in line and "; " in line and "stores." not in line
    nothing_left(seaweedfs, here)


def test_missing_and_wrong_keys_and_profiles(here, keys, seaweedfs, monkeypatch):
    url = seaweedfs.endpoints()[0].url
    line = refused(here, "quick", url, "--profile", "nobody")
    assert line.startswith("storelab: --profile: the AWS profile 'nobody' does not exist")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x" * 40)
    assert "SignatureDoesNotMatch" in refused(here, "quick", url)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    line = refused(here, "quick", url)
    assert "no credentials found" in line and "--profile" in line
    nothing_left(seaweedfs, here)


def test_store_names_and_kept_folders_are_checked_first(here):
    (here / "old").mkdir()
    for words, arguments in (
        ("did you mean 'seaweedfs'?", ["seaweedf"]),
        ("'xrootd' uses root, not S3", ["xrootd"]),
        ("--region: is not possible with the configured store", ["minio", "--region", "x"]),
        ("--keep: 'old' already exists", ["seaweedfs", "--keep", "old"]),
        ("--keep: 'no' is not a folder", ["seaweedfs", "--keep", "no/new"]),
    ):
        assert words in refused(here, "quick", *arguments)


def test_kept_runs_of_a_configured_store_are_compared(here):
    """The managed store is started and stopped in the configured state folder."""
    fast = [
        f"--set={value}" for value in ("scale=0.3", "repetitions=1", "calibrate=false", "stores.seaweedfs.port=21400")
    ]
    for name in ("monday", "friday"):
        command = [str(BIN / "storelab"), *fast, "quick", "seaweedfs", "--keep", name]
        done = subprocess.run(command, cwd=here, env=environ(), timeout=400, capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.startswith("seaweedfs\n"), done.stderr[-3000:]
    code, out, err = in_process(here, "compare", "monday", "friday")
    assert code == 0 and "get" in out, out + err
    assert list((here / "tmp").iterdir()) == [] and not having(str(here))


def test_a_page_that_cannot_be_written_is_refused_first(here):
    for output, words in (("page.doc", "use .html or .txt"), ("no/page.html", "is not a folder")):
        assert words in refused(here, "quick", "http://127.0.0.1:1", "--output", output)
