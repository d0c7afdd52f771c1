"""The engine `cvmfs` without its program: trees of days, keys, command lines, what it counts, what is refused, what nobody may read."""

import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from paths import DATA
from release_reader import restore

from storelab.core.campaign.release import Release as Settings
from storelab.core.campaign.release import a_night
from storelab.core.engines import CATALOGUE
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.datasets.release import names
from storelab.datasets.release.build import Release
from storelab.datasets.release.trees import GONE, REPLACED, Trees
from storelab.engines.common.guard import LimitExceeded
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads import WORKLOADS
from storelab.workloads.distribution.stratum import Failed, OutOfTime
from storelab.workloads.distribution.tool import client, keys, program
from storelab.workloads.staging import needs

FILES = DATA / "cvmfs"
KEYS = Credentials("an-access-key-of-ours", "most/secret+of=ours")
REPOSITORY = "sw.example.org"
SMALL = {"factor": 0.0001, "bytes_a_day": "600 MB", "bytes_deviation": "200 MB", "tree_files": 300_000, "nights": 3}
MARKER = ".cvmfscatalog"


# Trees of days


def listing(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Path -> (kind, content or target) of all that lies in a folder, without marks of what goes."""
    out = {}
    for path in sorted(folder.rglob("*")):
        where = str(path.relative_to(folder))
        if path.is_symlink():
            out[where] = ("link", os.fsencode(path.readlink()))
        elif path.is_dir():
            out[where] = ("folder", b"")
        elif not path.name.startswith(GONE):
            out[where] = ("file", path.read_bytes())
    return out


def applied(before: dict, changed: Path) -> dict:
    """What a union file system would show: `before` with the changes of a day, by the rules of aufs."""
    out = dict(before)
    for path in sorted(changed.rglob(f"{GONE}*")):
        where = str(path.parent.relative_to(changed))
        under = "" if where == "." else f"{where}/"
        gone = under if path.name == REPLACED else f"{under}{path.name.removeprefix(GONE)}/"
        assert any(f"{p}/".startswith(gone) for p in out), f"{path.name} marks what is not there"
        out = {p: e for p, e in out.items() if not f"{p}/".startswith(gone)}
    return out | listing(changed)


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """(facts, what the repository shows) of five days, as the catalogs of the generator say it."""
    folder, bucket, out = tmp_path_factory.mktemp("release"), {}, []
    release = Release(Settings.model_validate(SMALL | {"days": 5}), 1)
    for n in range(1, 6):
        day = release.day(n, folder)
        bucket |= {item.key.partition("/")[2]: day.path(item).read_bytes() for item in day.objects()}
        shown = restore(day.facts["root_catalog"], bucket.__getitem__)
        out.append((day.facts, {os.fsdecode(path)[1:]: entry for path, entry in shown.items()}))
    return out


def nested(shown: dict, depth: int = 1) -> set[str]:
    return {p for p, (kind, _) in shown.items() if kind == "folder" and p.count("/") <= depth}


def test_the_trees_of_five_days_are_those_of_the_generator(generated, tmp_path):
    """Content, links, folders of all nights that are kept, what goes, and the facts of each day."""
    trees, shown = Trees(Settings.model_validate(SMALL | {"days": 5}), tmp_path), {}
    for n, (facts, wanted) in enumerate(generated, 1):
        told = trees.add(n)
        assert {name: told[name] for name in ("new_files", "raw_bytes", "files", "removed_files")} == {
            name: facts[name] for name in ("new_files", "raw_bytes", "files", "removed_files")
        }
        assert [p.name for p in trees.changed.iterdir()] == [facts["night"]]  # what changes, and nothing else
        shown = applied(shown, trees.changed)
        markers = {p for p in shown if p.endswith(f"/{MARKER}")}
        assert {p.rpartition("/")[0] for p in markers} == nested(wanted)
        assert {p: e for p, e in shown.items() if p not in markers} == wanted
        replaced = (trees.changed / facts["night"] / REPLACED).exists()
        assert replaced is (n > SMALL["nights"])  # the fourth night lies where the first lay
        trees.published()
        assert not list(trees.changed.iterdir())
    assert generated[-1][0]["removed_files"] > 0


def test_modes_and_times_are_those_of_the_release(tmp_path):
    trees = Trees(Settings.model_validate(SMALL), tmp_path)
    trees.add(1)
    trees.add(2)
    times = {int(p.lstat().st_mtime) for p in trees.changed.rglob("*") if not p.name.startswith(GONE)}
    assert times == {1_428_883_200 + 86_400, 1_428_883_200 + 2 * 86_400}
    modes = {p.suffix: stat.S_IMODE(p.stat().st_mode) for p in trees.changed.rglob("*") if p.is_file()}
    assert modes[".py"] == 0o755 and modes[".h"] == 0o644


def test_what_was_published_is_kept_without_its_content(tmp_path):
    trees = Trees(Settings.model_validate(SMALL), tmp_path)
    trees.add(1)
    before = {p: (k, len(c)) for p, (k, c) in listing(trees.changed).items()}
    trees.published()
    assert {p: (k, len(c)) for p, (k, c) in listing(trees.there).items()} == before
    files = [p for p in trees.there.rglob("*") if p.is_file() and not p.is_symlink()]
    assert sum(p.stat().st_size for p in files) > 20_000 and sum(p.stat().st_blocks for p in files) == 0


def test_days_that_failed_are_published_with_the_next(tmp_path):
    trees = Trees(Settings.model_validate(SMALL | {"nights": 2}), tmp_path)
    names_of = lambda: sorted(p.name for p in trees.changed.iterdir())  # noqa: E731
    trees.add(1)
    trees.published()
    trees.add(2)
    trees.add(3)  # in place of night 1
    assert names_of() == ["night-01", "night-02"] and (trees.changed / "night-01" / REPLACED).exists()
    trees.add(4)  # in place of night 2, which was never published
    assert names_of() == ["night-01", "night-02"] and not (trees.changed / "night-02" / REPLACED).exists()


@pytest.fixture
def versions(tmp_path):
    root = tmp_path / "toolkit"
    for number in ("1", "2", "3"):
        (root / number / "lib").mkdir(parents=True)
        (root / number / "lib" / "same.so").write_bytes(b"same" * 300)
        (root / number / "own.txt").write_text(f"version {number}")
        (root / number / ".wh.own.txt").write_text("odd")
        (root / number / "latest").symlink_to("own.txt")
    (root / "3" / "lib").chmod(0o500)
    return Settings.model_validate({"nights": 2, "tree": {"path": str(root), "versions": ["1", "2", "3"]}})


def test_a_real_tree_and_a_version_that_leaves(versions, tmp_path):
    trees, told = Trees(versions, tmp_path / "days"), []
    for n in (1, 2):
        told.append(trees.add(n))
        trees.published()
    assert [(t["new_files"], t["files"], t["skipped"]) for t in told] == [(2, 2, 1), (1, 2, 1)]
    assert told[0]["raw_bytes"] == 1200 + len("version 1") and told[1]["raw_bytes"] == len("version 2")
    trees.add(3)
    assert sorted(p.name for p in trees.changed.iterdir()) == [".wh.1", "3"]
    shown = listing(trees.changed / "3")
    assert shown["own.txt"] == ("file", b"version 3") and shown["latest"] == ("link", b"own.txt")
    assert not list((trees.changed / "3").glob(".wh.*"))
    trees.published()
    assert sorted(p.name for p in trees.there.iterdir()) == ["2", "3"]
    shutil.rmtree(trees.folder)


def test_the_room_that_it_takes_is_asked_for():
    own = {a.name: a.default for a in WORKLOADS["publish"].axes}
    told = Settings(factor=0.001).told()
    asked = [
        needs.scratch_bytes(Point("s", "publish", own | {"engine": e}, 1, "k", "s", 1, 1, {"release": told}))
        for e in ("wire", "cvmfs")
    ]
    assert asked[1] == 3 * a_night(told) > 4 * asked[0]
    assert a_night(told) == pytest.approx(400 * (46_000 / 0.45 + 4096), rel=0.01)


# Keys


def test_the_settings_of_the_store_and_who_is_refused():
    told = keys.settings(Endpoint("http://127.0.0.1:8333", region="eu-1"), Bucket("b"), KEYS, 7)
    assert told["CVMFS_S3_HOST"] == "127.0.0.1" and told["CVMFS_S3_PORT"] == "8333"
    assert told["CVMFS_S3_REGION"] == "eu-1" and told["CVMFS_S3_DNS_BUCKETS"] == "false"
    assert told["CVMFS_S3_MAX_NUMBER_OF_PARALLEL_CONNECTIONS"] == "7" and told["CVMFS_S3_BUCKET"] == "b"
    here = Endpoint("http://127.0.0.1:8333")
    for endpoint, given, said in (
        (here, None, "no keys"),
        (here, Credentials("a", "b", "session"), "session token"),
        (here, Credentials("a", "$(date)"), "CVMFS_S3_SECRET_KEY has signs"),
        (Endpoint("https://127.0.0.1:8333"), KEYS, "speaks HTTP"),
        (Endpoint("http://[::1]:8333"), KEYS, "speaks HTTP"),
    ):
        with pytest.raises(UserError, match=said) as refused:
            keys.settings(endpoint, Bucket("b"), given, 7)
        assert refused.value.mend and "$(date)" not in str(refused.value)


def test_the_settings_lie_in_no_folder_and_a_shell_reads_them(tmp_path):
    """As the program reads them: through a shell, by the name of a file descriptor that it inherits."""
    told = keys.settings(Endpoint("http://127.0.0.1:8333"), Bucket("b"), KEYS, 7)
    handle = keys.in_memory(told)
    try:
        assert stat.S_IMODE(os.fstat(handle).st_mode) == 0o600 and "memfd" in str(
            Path(f"/proc/self/fd/{handle}").readlink()
        )
        text = f'. /proc/self/fd/{handle}; for n in {" ".join(told)}; do eval "echo \\$$n"; done'
        for _ in range(2):  # more than once
            done = subprocess.run(["sh", "-c", text], pass_fds=(handle,), capture_output=True, text=True, check=True)
            assert done.stdout.split() == list(told.values())
    finally:
        os.close(handle)


def test_a_whitelist_names_the_certificate_and_is_signed_by_the_master_key(tmp_path):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

    made = keys.make(tmp_path, REPOSITORY, datetime(2026, 11, 26, 3, 4, 5, tzinfo=UTC))
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
    """A program in PATH that does nothing; the folder of its log."""
    here = tmp_path / "fake"
    here.mkdir()
    path = here / program.NAME
    path.write_text(FAKE.format(python=sys.executable, here=str(here), secret=KEYS.secret_key))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(here), prepend=os.pathsep)
    for name, value in KEYS.environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(program, "_alone", lambda: ())  # no namespace: a test may run where none can be made
    monkeypatch.setattr(program, "_INSIDE", 'cat "/proc/self/fd/$4" > "$3/s3.conf"; shift 4; exec "$@"')
    return here


def calls(here: Path) -> list[list]:
    return [json.loads(line) for line in (here / "log").read_text().splitlines()]


def run(tmp_path, days=3, limits=None, seconds=30, **axes):
    """(result, rows of days) of a client."""
    own = {a.name: a.default for a in WORKLOADS["publish"].axes} | {"engine": "cvmfs", "days": days} | axes
    fixed = {"release": Settings.model_validate(SMALL | {"repository": REPOSITORY}).told()}
    point = Point("s", "publish", own, 1, "k", "nightly", 1, 1, fixed)
    (tmp_path / "scratch").mkdir(exist_ok=True)
    extra = {"url": "http://127.0.0.1:9/b/put/att"}
    job = Job(
        point,
        0,
        Endpoint("http://127.0.0.1:9"),
        [Bucket("b")],
        tmp_path / "scratch",
        None,
        "att",
        limits or {},
        extra=extra,
    )
    one = client.ToolClient(job)
    try:
        one.prepare()
        one.run(time.time_ns(), time.time_ns() + seconds * 10**9)
        result = one.result()
    finally:
        one.close()
    assert not list((tmp_path / "scratch").iterdir()) and one.config == -1
    columns = result.tables["days"]
    return result, [dict(zip(columns, v, strict=True)) for v in zip(*columns.values(), strict=True)]


@pytest.mark.heavy
def test_what_is_asked_of_the_program(fake, tmp_path):
    result, rows = run(tmp_path)
    done = calls(fake)
    assert [words[0] for words, *_ in done] == ["create", "upload", "sign", *["sync", "sign"] * 3]
    syncs = [dict(itertools.pairwise(words)) for words, *_ in done if words[0] == "sync"]
    assert [s["-b"] for s in syncs] == [f"{n:040x}" for n in (1, 2, 3)] and [s["-v"] for s in syncs] == ["1", "2", "3"]
    assert {s["-w"] for s in syncs} == {f"http://127.0.0.1:9/b/put/att/{REPOSITORY}"}
    assert all(
        re.fullmatch(rf"S3,/[^,@]+/temporary,put/att/{REPOSITORY}@/[^,@]+/private/s3\.conf", s["-r"]) for s in syncs
    )
    assert {(s["-f"], s["-N"], s["-l"], s["-h"]) for s in syncs} == {("aufs", REPOSITORY, "4194304", "16777216")}
    assert [tree for words, _, _, tree in done if words[0] == "sync"] == [["night-01"], ["night-02"], ["night-03"]]
    assert [r["state"] for r in rows] == ["published"] * 3 and all(c.ok for c in result.checks)


def test_no_key_is_in_a_command_line_or_an_environment_or_a_result(fake, tmp_path):
    (fake / "fail").write_text("2")
    result, rows = run(tmp_path)
    for words, environ, config, _ in calls(fake):
        seen = json.dumps([words, environ])
        assert KEYS.secret_key not in seen and KEYS.access_key not in seen and "AWS_" not in seen
        assert f"CVMFS_S3_SECRET_KEY={KEYS.secret_key}" in config.replace("'", "")
    told = repr([result, rows])
    assert KEYS.secret_key not in told and KEYS.access_key not in told and "***" in rows[1]["reason"]


@pytest.mark.heavy
def test_a_day_says_what_the_program_counted_and_null_for_the_rest(fake, tmp_path):
    result, rows = run(tmp_path)
    assert [(r["stored"], r["bytes"], r["skipped"], r["gets"]) for r in rows] == [
        (12, 1050, 7, 6),  # with the request that made the repository
        (22, 2050, 7, 5),
        (32, 3050, 7, 5),
    ]
    assert [r["objects"] for r in rows] == [12 + 7 + 2, 22 + 7 + 2, 32 + 7 + 2]
    for name in ("prepare_ns", "heads", "puts", "retries", "failures"):
        assert [r[name] for r in rows] == [None] * 3, name
    assert rows[0]["files"] > 5 and rows[0]["raw_bytes"] > 10_000
    ops = {
        (o, n, b, s) for o, n, b, s in zip(*(result.ops[c] for c in ("op", "count", "bytes", "status")), strict=True)
    }
    assert ops == {
        ("PUT", 12, 1050, 0),
        ("GET", 6, 300, 0),
        ("PUT", 22, 2050, 0),
        ("GET", 5, 200, 0),
        ("PUT", 32, 3050, 0),
    }
    assert set(result.ops["object"]) == {None} and "start_ns" not in result.ops  # nobody timed one of them
    assert (
        result.engine["version"] == "cvmfs_swissknife 9.8.7" and result.engine["settings"]["day_includes_preparation"]
    )


def test_a_day_that_fails_is_owed(fake, tmp_path):
    (fake / "fail").write_text("2")
    result, rows = run(tmp_path)
    assert [r["state"] for r in rows] == ["published", "failed", "published"] and result.checks[0].ok
    assert "status -6" in rows[1]["reason"] and "Upload job failed" in rows[1]["reason"]
    assert [rows[1][name] for name in ("stored", "bytes", "gets", "skipped", "objects")] == [None] * 4 + [0]
    syncs = [(dict(itertools.pairwise(w)), tree) for w, _, _, tree in calls(fake) if w[0] == "sync"]
    assert syncs[2][0]["-b"] == syncs[1][0]["-b"] == f"{2:040x}" and syncs[2][1] == ["night-02", "night-03"]


@pytest.mark.heavy
def test_a_day_whose_manifest_was_not_put_is_not_the_base_of_the_next(fake, tmp_path):
    (fake / "fail_sign").touch()
    _, rows = run(tmp_path)
    assert [r["state"] for r in rows] == ["published", "failed", "published"] and "commit manifest" in rows[1]["reason"]
    syncs = [(dict(itertools.pairwise(w)), tree) for w, _, _, tree in calls(fake) if w[0] == "sync"]
    assert [s["-b"] for s, _ in syncs] == [f"{n:040x}" for n in (1, 2, 2)] and syncs[2][1] == ["night-02", "night-03"]


def test_the_deadline_ends_the_program_and_all_that_it_started(fake, tmp_path):
    (fake / "hang").touch()
    result, rows = run(tmp_path, seconds=5)
    assert (
        [r["state"] for r in rows] == ["cut"]
        and not result.checks[0].ok
        and "raise `duration`" in result.checks[0].detail
    )
    end = time.monotonic() + 5
    while running(fake) and time.monotonic() < end:  # a killed process takes a moment to go
        time.sleep(0.02)
    assert not running(fake)


def running(here: Path) -> list[str]:
    """Processes of the fake program."""
    out = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if os.fsencode(str(here / program.NAME)) in words:
            out.append(words.decode(errors="replace"))
    return out


def test_the_program_ends_with_a_client_that_is_killed(fake, tmp_path):
    (fake / "hang").touch()
    text = f"""
import sys; sys.path[:0] = {sys.path!r}
from pathlib import Path
from storelab.workloads.distribution.tool import program
program._alone, program._INSIDE = (lambda: ()), 'shift 4; exec "$@"'
folder = Path({str(tmp_path)!r}) / "own"; folder.mkdir()
program.Runner(Path({str(fake / program.NAME)!r}), folder, "r", 0).run("sync", "-r", "x@/dev/null")
"""
    parent = subprocess.Popen([sys.executable, "-c", text])
    try:
        end = time.monotonic() + 20
        while not (tmp_path / "own" / "out").exists() or not (tmp_path / "own" / "out").read_bytes():
            assert time.monotonic() < end and parent.poll() is None
            time.sleep(0.02)
        first = int(subprocess.run(["pgrep", "-P", str(parent.pid)], capture_output=True, text=True).stdout.split()[0])
    finally:
        parent.kill()
        parent.wait()
    end = time.monotonic() + 5
    while Path(f"/proc/{first}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{first}").exists()
    for path in Path("/proc").glob("[0-9]*/stat"):  # what the fake one forked has no watchdog's pipe
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[2] == str(first):
            os.kill(int(path.parent.name), signal.SIGKILL)


@pytest.mark.heavy
def test_a_bound_of_the_store_ends_the_run_behind_the_day_that_broke_it(fake, tmp_path):
    with pytest.raises(LimitExceeded, match="of the room in the store"):
        run(tmp_path, limits={"room_bytes": 2000})
    assert [words[0] for words, *_ in calls(fake)].count("sync") == 2  # the first day was within it


def test_a_run_that_is_late_already_starts_nothing(fake, tmp_path):
    runner = program.Runner(fake / program.NAME, tmp_path, REPOSITORY, 0)
    runner.deadline_ns = time.time_ns() - 1
    with pytest.raises(OutOfTime):
        runner.run("sync")
    assert not (fake / "log").exists()


def test_the_real_command_line_hides_folders_of_this_machine(tmp_path):
    command = program.Runner(Path("/x/cvmfs_swissknife"), tmp_path, REPOSITORY, 5).command("sync", "-b", "0")
    assert (
        command[0] == "unshare" and "--mount" in command and command[-4:] == ["/x/cvmfs_swissknife", "sync", "-b", "0"]
    )
    script = command[command.index("-c") + 1]
    assert 'mount --bind "$1" /var/spool' in script and "/etc/cvmfs" in script and "tmpfs /tmp" in script
    assert (tmp_path / "spool" / "cvmfs" / REPOSITORY).is_dir()


def test_what_the_real_program_printed_is_understood():
    """Recorded from 2.12.0."""
    told = program.counters((FILES / "sync.txt").read_text())
    assert told == json.loads((FILES / "sync.json").read_text())
    assert program.counters((FILES / "sign.txt").read_text())["download.n_requests"] == 1
    assert program.counters("") == {} and program.counters("a|b\nx|y|z\nc.d|-3|words | more\n") == {"c.d": -3}


def test_the_last_words_of_the_real_program_say_why(tmp_path):
    runner = program.Runner(Path("x"), tmp_path, REPOSITORY, 0, hidden=("hidden-one",))
    said = runner.told((FILES / "failed.txt").read_text() + " hidden-one")
    assert "hidden-one" not in said and said.endswith("***") and len(said) <= 300 and "\n" not in said


# What is refused


def test_it_says_how_to_mend_that_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"engine cvmfs: cvmfs_swissknife is not installed") as missing:
        program.binary()
    assert "own packages" in missing.value.mend
    broken = tmp_path / program.NAME
    broken.write_text("#!/bin/sh\necho no libcvmfs_crypto >&2; exit 127\n")
    broken.chmod(0o755)
    with pytest.raises(UserError, match=r"does not run here: .*libcvmfs_crypto"):
        program.binary()
    broken.write_text("#!/bin/sh\necho 2.12.0\n")
    monkeypatch.setattr(program, "_alone", lambda: ("false",))
    with pytest.raises(UserError, match="needs a mount namespace"):
        program.binary()


@pytest.mark.parametrize(
    ("axes", "release", "place"),
    [
        ({"pattern": "tuned"}, {}, "axes.pattern"),
        ({"expired": "2-3"}, {}, "axes.expired"),
        ({"scheme": "https"}, {}, "axes.scheme"),
        ({"workers": 17}, {}, "axes.workers"),
        ({"days": 999}, {}, "axes.days"),
        ({}, {"zlib_level": 1}, "release.zlib_level"),
    ],
)
def test_points_that_the_program_cannot_be_asked_for(axes, release, place):
    own = {a.name: a.default for a in WORKLOADS["publish"].axes} | {"engine": "cvmfs"}
    fixed = {"release": Settings.model_validate(release).told()}
    WORKLOADS["publish"].possible(Point("s", "publish", own, 1, "k", "x", 1, 1, {"release": Settings().told()}))
    with pytest.raises(UserError) as refused:
        WORKLOADS["publish"].possible(Point("s", "publish", own | axes, 1, "k", "x", 1, 1, fixed))
    assert place in refused.value.place and refused.value.mend


def test_it_is_an_engine_of_publish_alone_and_makes_only_what_a_repository_has():
    engine = CATALOGUE["cvmfs"]
    assert list(engine.uses) == ["publish"] and engine.addressings == ("path",) and engine.through_files
    own = {a.name: a.default for a in WORKLOADS["publish"].axes} | {"engine": "cvmfs"}
    release = Settings.model_validate({"repository": REPOSITORY}).told()
    (made,) = WORKLOADS["publish"].makes(Point("s", "publish", own, 1, "k", "x", 1, 1, {"release": release}), "att")
    below = f"put/att/{REPOSITORY}"
    written = [".cvmfspublished", ".cvmfswhitelist", ".cvmfsreflog", ".cvmfstrial", f"data/ab/{'c' * 38}X"]
    assert all(re.fullmatch(made.key, f"{below}/{name}") for name in written)
    others = ["stats/stats.db", "data/ab/c", "other"]
    assert not any(re.fullmatch(made.key, f"{below}/{name}") for name in others)


def test_a_manifest_names_its_certificate():
    fields = {"C": "a" * 40, "X": "b" * 40, "H": "c" * 40}
    assert names.beside(REPOSITORY, fields) == [
        f"{REPOSITORY}/data/bb/{'b' * 38}X",
        f"{REPOSITORY}/data/cc/{'c' * 38}H",
    ]
    assert names.beside(REPOSITORY, {"C": "a" * 40}) == []


def test_failed_and_late_are_those_of_every_publication():
    assert program.Failed is Failed and program.OutOfTime is OutOfTime
