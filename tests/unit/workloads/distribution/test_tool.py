"""The engine `cvmfs` without its program: keys, command lines, counters, refusals, and secrets."""

import hashlib
import itertools
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from paths import DATA
from programs import script
from refusals import check_refused, refusal
from repositories import REPOSITORY, point, ran

from storelab.core.campaign.release import Release as Settings
from storelab.core.campaign.release import a_night
from storelab.core.engines import CATALOGUE
from storelab.datasets.release import names
from storelab.engines.common.guard import LimitExceeded
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.distribution import tool
from storelab.workloads.distribution.stratum import OutOfTime
from storelab.workloads.staging import stage

FILES = DATA / "cvmfs"
KEYS = Credentials("an-access-key-of-ours", "most/secret+of=ours")
HERE = Endpoint("http://127.0.0.1:8333", region="eu-1")
SMALL = {"factor": 0.0001, "bytes_a_day": "600 MB", "bytes_deviation": "200 MB", "tree_files": 300_000, "nights": 3}


def test_scratch_room_is_three_nights():
    release = Settings(factor=0.001).as_dict()
    wire, tool = (stage.scratch_bytes(point("publish", release, engine=engine)) for engine in ("wire", "cvmfs"))
    assert tool == 3 * a_night(release) > 4 * wire
    assert a_night(release) == pytest.approx(400 * (46_000 / 0.45 + 4096), rel=0.01)


def test_settings_of_the_store_are_those_of_the_endpoint():
    found = tool.settings(HERE, Bucket("b"), KEYS, 7)
    wanted = {"HOST": "127.0.0.1", "PORT": "8333", "REGION": "eu-1", "DNS_BUCKETS": "false", "BUCKET": "b"}
    wanted["MAX_NUMBER_OF_PARALLEL_CONNECTIONS"] = "7"
    assert {f"CVMFS_S3_{name}": value for name, value in wanted.items()}.items() <= found.items()
    for endpoint, given, words in (
        (HERE, None, "no keys"),
        (HERE, Credentials("a", "b", "session"), "session token"),
        (HERE, Credentials("a", "$(date)"), "CVMFS_S3_SECRET_KEY"),
        (Endpoint("https://127.0.0.1:8333"), KEYS, "HTTP"),
        (Endpoint("http://[::1]:8333"), KEYS, "HTTP"),
    ):
        message = refusal(tool.settings, endpoint, Bucket("b"), given, 7)
        assert words in message and "; " in message and "$(date)" not in message


def test_settings_are_in_no_folder_and_a_shell_reads_them():
    """The program reads them through a shell, by the name of an inherited file descriptor."""
    settings = tool.settings(HERE, Bucket("b"), KEYS, 7)
    handle = tool.in_memory(settings)
    try:
        assert stat.S_IMODE(os.fstat(handle).st_mode) == 0o600
        assert "memfd" in str(Path(f"/proc/self/fd/{handle}").readlink())
        text = f'. /proc/self/fd/{handle}; for n in {" ".join(settings)}; do eval "echo \\$$n"; done'
        for _ in range(2):  # more than once
            done = subprocess.run(["sh", "-c", text], pass_fds=(handle,), capture_output=True, text=True, check=True)
            assert done.stdout.split() == list(settings.values())
    finally:
        os.close(handle)


def test_whitelist_is_signed_by_the_master_key(tmp_path):
    """It names the certificate of the repository's own key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

    made = tool.make_keys(tmp_path, REPOSITORY, datetime(2026, 11, 26, 3, 4, 5, tzinfo=UTC))
    text, mark, rest = made.whitelist.read_bytes().partition(b"--\n")
    lines = text.decode().split("\n")
    certificate = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    assert lines[:3] == ["20261126030405", "E20261226030405", f"N{REPOSITORY}"] and mark and lines[4:] == [""]
    assert bytes.fromhex(lines[3].replace(":", "")) == certificate.fingerprint(hashes.SHA1())
    digest, _, signature = rest.partition(b"\n")
    assert digest.decode() == hashlib.sha1(text).hexdigest()
    master = serialization.load_pem_public_key(made.public.read_bytes())
    assert master.recover_data_from_signature(signature, PKCS1v15(), None) == digest
    own = serialization.load_pem_private_key(made.key.read_bytes(), None)
    assert own.public_key() == certificate.public_key() != master
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}


# The program

FAKE = """#!{python} -S
import json, os, sys, time
here, words = {here!r}, sys.argv[1:]
if words == ["version"]:
    print("9.8.7"); sys.exit()
option = {{a: b for a, b in zip(words, words[1:]) if a[:1] == "-"}}
day = int(option.get("-v", 0))
config = open(option["-r"].partition("@")[2]).read()
tree = sorted(os.listdir(option["-s"])) if "-s" in option else []
with open(here + "/log", "a") as log:
    log.write(json.dumps([words, dict(os.environ), config, tree]) + "\\n")
if os.path.exists(here + "/hang") and words[0] == "sync":
    os.fork()
    print("waiting", flush=True)
    time.sleep(600)
if os.path.exists(here + "/fail") and words[0] == "sync" and day == int(open(here + "/fail").read()):
    print("Upload job failed: no access for {secret}", file=sys.stderr)
    os.abort()
if os.path.exists(here + "/fail_sign") and words[0] == "sign" and "S2" in open(option["-m"]).read():
    sys.exit("Failed to commit manifest")
if words[0] in ("create", "sync"):
    open(option["-o"], "w").write("C" + "%040x" % (day + 1) + "\\nB9\\nS%d\\n" % day)
print("Name|Value|Description")
if words[0] == "sync":
    print("publish.n_chunks_added|%d|Number of new chunks added" % (10 * day))
    print("publish.n_catalogs_added|2|x\\npublish.n_chunks_duplicated|7|x")
    print("publish.sz_uploaded_bytes|%d|x\\npublish.sz_uploaded_catalog_bytes|50|x" % (1000 * day))
if words[0] in ("sync", "sign"):
    print("download.n_requests|%d|x\\ndownload.sz_transferred_bytes|100|x" % (4 if words[0] == "sync" else 1))
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Return the folder of a program in PATH that only writes a log."""
    here = tmp_path / "fake"
    script(here / tool.NAME, FAKE.format(python=sys.executable, here=str(here), secret=KEYS.secret_key))
    monkeypatch.setenv("PATH", str(here), prepend=os.pathsep)
    for name, value in KEYS.environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tool, "_namespace_prefix", lambda: ())  # no namespace: a test may run where none can be made
    monkeypatch.setattr(tool, "_INSIDE", 'cat "/proc/self/fd/$4" > "$3/s3.conf"; shift 4; exec "$@"')
    return here


def calls(here: Path) -> list[list]:
    return [json.loads(line) for line in (here / "log").read_text().splitlines()]


def syncs(here: Path) -> list[tuple[dict[str, str], list[str]]]:
    """Return (options, tree) of each publication."""
    return [(dict(itertools.pairwise(words)), tree) for words, _, _, tree in calls(here) if words[0] == "sync"]


def run(tmp_path, limits=None):
    """Run a client for three days; return its result and the rows of its days."""
    release = Settings.model_validate(SMALL | {"repository": REPOSITORY}).as_dict()
    (scratch := tmp_path / "scratch").mkdir()
    places, extra = [Bucket("b")], {"url": "http://127.0.0.1:9/b/put/att"}
    task = point("publish", release, engine="cvmfs", days=3)
    job = Job(task, 0, Endpoint("http://127.0.0.1:9"), places, scratch, None, "att", limits or {}, extra=extra)
    one = tool.ToolClient(job)
    out = ran(one)
    assert not list(scratch.iterdir()) and one.config == -1
    return out


@pytest.mark.heavy
def test_program_runs_for_each_day(fake, tmp_path):
    result, rows = run(tmp_path)
    assert [words[0] for words, *_ in calls(fake)] == ["create", "upload", "sign", *["sync", "sign"] * 3]
    days = [options for options, _ in syncs(fake)]
    assert [s["-b"] for s in days] == [f"{n:040x}" for n in (1, 2, 3)] and [s["-v"] for s in days] == ["1", "2", "3"]
    assert {s["-w"] for s in days} == {f"http://127.0.0.1:9/b/put/att/{REPOSITORY}"}
    places = rf"S3,/[^,@]+/temporary,put/att/{REPOSITORY}@/[^,@]+/private/s3\.conf"
    assert all(re.fullmatch(places, s["-r"]) for s in days)
    assert {(s["-f"], s["-N"], s["-l"], s["-h"]) for s in days} == {("aufs", REPOSITORY, "4194304", "16777216")}
    assert [tree for _, tree in syncs(fake)] == [["night-01"], ["night-02"], ["night-03"]]
    assert [r["state"] for r in rows] == ["published"] * 3 and all(c.ok for c in result.checks)


def test_failed_day_is_published_later_and_keys_stay_secret(fake, tmp_path):
    (fake / "fail").write_text("2")
    result, rows = run(tmp_path)
    assert [r["state"] for r in rows] == ["published", "failed", "published"] and result.checks[0].ok
    assert "status -6" in rows[1]["reason"] and "Upload job failed" in rows[1]["reason"]
    assert [rows[1][name] for name in ("stored", "bytes", "gets", "skipped", "objects")] == [None] * 4 + [0]
    (_, _), (second, _), (third, tree) = syncs(fake)
    assert third["-b"] == second["-b"] == f"{2:040x}" and tree == ["night-02", "night-03"]
    for words, environ, config, _ in calls(fake):
        seen = json.dumps([words, environ])
        assert KEYS.secret_key not in seen and KEYS.access_key not in seen and "AWS_" not in seen
        assert f"CVMFS_S3_SECRET_KEY={KEYS.secret_key}" in config.replace("'", "")
    everything = repr([result, rows])
    assert KEYS.secret_key not in everything and KEYS.access_key not in everything and "***" in rows[1]["reason"]


@pytest.mark.heavy
def test_day_has_the_counters_of_the_program(fake, tmp_path):
    """Counters that the program does not print are null."""
    result, rows = run(tmp_path)
    wanted = {"stored": [12, 22, 32], "bytes": [1050, 2050, 3050], "skipped": [7, 7, 7]}
    wanted |= {"gets": [6, 5, 5], "objects": [21, 31, 41]}  # the first with the request that made the repository
    assert {name: [r[name] for r in rows] for name in wanted} == wanted
    for name in ("prepare_ns", "heads", "puts", "retries", "failures"):
        assert [r[name] for r in rows] == [None] * 3, name
    assert rows[0]["files"] > 5 and rows[0]["raw_bytes"] > 10_000
    assert set(zip(*(result.ops[name] for name in ("op", "count", "bytes", "status")), strict=True)) == {
        ("PUT", 12, 1050, 0),
        ("GET", 6, 300, 0),
        ("PUT", 22, 2050, 0),
        ("GET", 5, 200, 0),
        ("PUT", 32, 3050, 0),
    }
    assert set(result.ops["object"]) == {None} and "start_ns" not in result.ops, "none of them was timed"
    assert result.engine["version"] == "cvmfs_swissknife 9.8.7"
    assert result.engine["settings"]["day_includes_preparation"]


@pytest.mark.heavy
def test_day_without_manifest_is_not_the_base_of_the_next(fake, tmp_path):
    (fake / "fail_sign").touch()
    _, rows = run(tmp_path)
    assert [r["state"] for r in rows] == ["published", "failed", "published"] and "commit manifest" in rows[1]["reason"]
    days = syncs(fake)
    assert [s["-b"] for s, _ in days] == [f"{n:040x}" for n in (1, 2, 2)] and days[2][1] == ["night-02", "night-03"]


def running(here: Path) -> list[psutil.Process]:
    """Return the processes of the fake program; one that has ended has no command line."""
    return [p for p in psutil.process_iter(["cmdline"]) if str(here / tool.NAME) in (p.info["cmdline"] or ())]


class Hanging(subprocess.Popen):
    """A process whose deadline is reached as soon as it hangs."""

    def wait(self, timeout=None):
        if timeout is None or "sync" not in self.args:
            return super().wait(timeout)
        while self.poll() is None and (self.folder / "out").read_bytes().count(b"waiting") < 2:
            time.sleep(0.01)
        raise subprocess.TimeoutExpired(self.args, timeout)

    def __init__(self, *args, cwd, **more):
        self.folder = cwd
        super().__init__(*args, cwd=cwd, **more)


def test_deadline_ends_the_program_and_its_children(fake, tmp_path, monkeypatch):
    (fake / "hang").touch()
    monkeypatch.setattr(tool, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": Hanging}))
    result, rows = run(tmp_path)
    assert [r["state"] for r in rows] == ["cut"]
    assert not result.checks[0].ok and "`duration`" in result.checks[0].detail
    while running(fake):  # a killed process takes a moment to end
        time.sleep(0.01)


def test_program_ends_with_a_killed_client(fake, tmp_path):
    (fake / "hang").touch()
    text = f"""
import sys; sys.path[:0] = {sys.path!r}
from pathlib import Path
from storelab.workloads.distribution import tool
tool._alone, tool._INSIDE = (lambda: ()), 'shift 4; exec "$@"'
folder = Path({str(tmp_path)!r}) / "own"; folder.mkdir()
tool.Runner(Path({str(fake / tool.NAME)!r}), folder, "r", 0).run("sync", "-r", "x@/dev/null")
"""
    parent, out = subprocess.Popen([sys.executable, "-c", text]), tmp_path / "own" / "out"
    try:
        while parent.poll() is None and not (out.exists() and out.read_bytes()):
            time.sleep(0.02)
        (first,) = psutil.Process(parent.pid).children()
    finally:
        parent.kill()
        parent.wait()
    while first in running(fake):
        time.sleep(0.01)
    for process in running(fake):  # what the fake one forked has no pipe of a watchdog
        process.send_signal(signal.SIGKILL)


@pytest.mark.heavy
def test_bound_of_the_store_ends_the_run(fake, tmp_path):
    with pytest.raises(LimitExceeded, match="of the room in the store"):
        run(tmp_path, {"room_bytes": 2000})
    assert len(syncs(fake)) == 2, "the first day was within it"


def test_late_run_starts_nothing(fake, tmp_path):
    runner = tool.Runner(fake / tool.NAME, tmp_path, REPOSITORY, 0)
    runner.deadline_ns = time.time_ns() - 1
    with pytest.raises(OutOfTime):
        runner.run("sync")
    assert not (fake / "log").exists()


def test_command_line_hides_folders_of_this_machine(tmp_path):
    command = tool.Runner(Path("/x/cvmfs_swissknife"), tmp_path, REPOSITORY, 5).command("sync", "-b", "0")
    assert command[0] == "unshare" and "--mount" in command
    assert command[-4:] == ["/x/cvmfs_swissknife", "sync", "-b", "0"]
    script = command[command.index("-c") + 1]
    assert 'mount --bind "$1" /var/spool' in script and "/etc/cvmfs" in script and "tmpfs /tmp" in script
    assert (tmp_path / "spool" / "cvmfs" / REPOSITORY).is_dir()


def test_output_of_the_real_program_is_read(tmp_path):
    """It was recorded from 2.12.0."""
    assert tool.counters((FILES / "sync.txt").read_text()) == json.loads((FILES / "sync.json").read_text())
    assert tool.counters((FILES / "sign.txt").read_text())["download.n_requests"] == 1
    assert tool.counters("") == {} and tool.counters("a|b\nx|y|z\nc.d|-3|words | more\n") == {"c.d": -3}
    runner = tool.Runner(Path("x"), tmp_path, REPOSITORY, 0, hidden=("hidden-one",))
    message = runner.redacted((FILES / "failed.txt").read_text() + " hidden-one")
    assert "hidden-one" not in message and message.endswith("***") and len(message) <= 300 and "\n" not in message


def test_unusable_program_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    check_refused("engine cvmfs: cvmfs_swissknife is not installed", "; ", tool.binary)
    broken = script(tmp_path / tool.NAME, "#!/bin/sh\necho no libcvmfs_crypto >&2; exit 127\n")
    check_refused("engine cvmfs: ", "libcvmfs_crypto", tool.binary)
    broken.write_text("#!/bin/sh\necho 2.12.0\n")
    monkeypatch.setattr(tool, "_namespace_prefix", lambda: ("false",))
    check_refused("engine cvmfs: ", "needs a mount namespace", tool.binary)


def test_impossible_points_are_refused():
    WORKLOADS["publish"].validate(point("publish", Settings().as_dict(), engine="cvmfs"))
    for axes, release, place in (
        ({"pattern": "tuned"}, {}, "axes.pattern"),
        ({"expired": "2-3"}, {}, "axes.expired"),
        ({"scheme": "https"}, {}, "axes.scheme"),
        ({"workers": 17}, {}, "axes.workers"),
        ({"days": 999}, {}, "axes.days"),
        ({}, {"zlib_level": 1}, "release.zlib_level"),
    ):
        one = point("publish", Settings.model_validate(release).as_dict(), **{"engine": "cvmfs"} | axes)
        message = refusal(WORKLOADS["publish"].validate, one)
        assert place in message.partition(": ")[0] and "; " in message, message


def test_engine_makes_only_objects_of_a_repository():
    engine = CATALOGUE["cvmfs"]
    assert list(engine.uses) == ["publish"] and engine.addressings == ("path",) and engine.through_files
    release = Settings.model_validate({"repository": REPOSITORY}).as_dict()
    (made,) = WORKLOADS["publish"].expected_objects(point("publish", release, engine="cvmfs"), "att")
    written = [".cvmfspublished", ".cvmfswhitelist", ".cvmfsreflog", ".cvmfstrial", f"data/ab/{'c' * 38}X"]
    for name in (*written, "stats/stats.db", "data/ab/c", "other"):
        assert bool(re.fullmatch(made.key, f"put/att/{REPOSITORY}/{name}")) == (name in written), name


def test_manifest_names_its_certificate():
    fields = {"C": "a" * 40, "X": "b" * 40, "H": "c" * 40}
    objects = [f"{REPOSITORY}/data/bb/{'b' * 38}X", f"{REPOSITORY}/data/cc/{'c' * 38}H"]
    assert (
        names.further_objects(REPOSITORY, fields) == objects
        and names.further_objects(REPOSITORY, {"C": "a" * 40}) == []
    )
