"""`storelab quick`: names from addresses, mistakes in terms of the command line, and reasons to stop."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from types import SimpleNamespace

import psutil
import pytest
from command_line import in_process
from honest_s3 import FIRST, Bucket, Object, honest_s3
from paths import ROOT
from small_plan import configured, folders

from storelab.analysis.pages import Page
from storelab.cli import quick as command
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import NAME
from storelab.measure import quick
from storelab.stores import all_stores


def test_store_name_comes_from_any_address():
    for url, name in (
        ("https://s3.example.org", "s3.example.org"),
        ("http://127.0.0.1:19109/", "127.0.0.1-19109"),
        ("http://[::1]:80", "1-80"),
        ("S3.Example.org", "endpoint"),
        ("https://a b/", "a-b"),
        ("http://x:99999", "endpoint"),
        ("", "endpoint"),
        ("https://[oops", "endpoint"),
    ):
        assert command.store_name(url) == name and NAME.match(name), url


def test_mistakes_name_options_of_command_line():
    name = "s3.example.org"
    hint = "set the store's `region`, the store's `profile` or the store's `ca_file`"
    expected = re.escape("quick: no answer; set --region, --profile or --ca-file")
    with pytest.raises(UserError, match=expected), command.spelled(name):
        raise UserError(f"stores.{name}.endpoint", "no answer", hint)
    with pytest.raises(MeasurementFailed, match=r"^quick: gone$"), command.spelled(name):
        raise MeasurementFailed(f"stores.{name}: gone")


def test_three_failures_in_a_row_end_it(monkeypatch, capsys):
    asked: list[str] = []
    bad = {"b", "d", "e"}

    def point(config, points, key):
        asked.append(key)
        if key in bad:
            raise MeasurementFailed(f"{key}: no answer")

    monkeypatch.setattr(quick.point, "point", point)
    points = [SimpleNamespace(key=k) for k in "abcdefg"]
    quick._all(None, points)
    assert asked == list("abcdefg")
    asked.clear()
    capsys.readouterr()
    bad |= {"c"}
    with pytest.raises(MeasurementFailed, match=r"3 points .* d: no answer"):
        quick._all(None, points)
    assert asked == list("abcd") and "d: no answer" not in capsys.readouterr().err, "the error has it"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return a folder with the shipped configuration; keys are set, and the temporary folder is `tmp`."""
    shutil.copy(ROOT / "config.yaml", tmp_path)
    (tmp_path / "campaigns").symlink_to(ROOT / "campaigns")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    return tmp_path


def test_stores_are_clean_before_checksums_are_written(monkeypatch):
    done: list[str] = []

    @contextmanager
    def nothing_left(config):
        yield
        done.append("removed")

    monkeypatch.setattr(quick, "all_stores", lambda config: {"a": None})
    monkeypatch.setattr(quick, "nothing_left", nothing_left)
    for place, name in (
        (quick.deployment, "connect"),
        (quick.check, "everything"),
        (quick.plan_file, "write"),
        (quick.point, "point"),
        (quick.collect, "write_sums"),
    ):
        monkeypatch.setattr(place, name, lambda *_, name=name: done.append(name))
    assert 0 <= quick.measure(SimpleNamespace(stores_to_measure=["a"]), [SimpleNamespace(key="p")]) < 10
    assert done == ["connect", "everything", "write", "point", "removed", "write_sums"]


def test_stores_of_quick_are_stopped_and_others_continue(monkeypatch, tmp_path):
    """Of the store of the user, only what was suspended continues. A store that was not used has no folder."""
    done: list[str] = []

    def store(name: str, managed: bool = True) -> SimpleNamespace:
        return SimpleNamespace(name=name, managed=managed, resume=lambda: done.append(f"resume {name}"))

    names = ("mine", "nullserver", "other", "unused")
    for name in (*names[:3], "far"):
        (tmp_path / name).mkdir()
    stores = {name: store(name) for name in names} | {"far": store("far", managed=False)}
    monkeypatch.setattr(quick, "_remove", lambda config: done.append("remove"))
    monkeypatch.setattr(quick, "everywhere", lambda config: stores)
    monkeypatch.setattr(quick.deployment, "release", lambda store: done.append(f"release {store.name}"))
    monkeypatch.setattr(quick.scratch, "clear", lambda folder: done.append(f"clear {folder}"))
    config = SimpleNamespace(stores_to_measure=["mine"], state=str(tmp_path), scratch="/scratch")
    with pytest.raises(MeasurementFailed), quick.nothing_left(config):
        raise MeasurementFailed("no answer")
    assert done == ["remove", "release mine", "release nullserver", "resume other", "clear /scratch"]


def test_failed_points_end_quick_with_exit_code_1(monkeypatch, here):
    for failed, expected in (
        ([], (0, "")),
        (["a"], (1, "storelab: quick: points failed: 1; the page has the reasons\n")),
    ):
        monkeypatch.setattr(command, "measured", lambda *_, failed=failed: (Page("title", "", []), failed))
        code, out, err = in_process(here, "quick", "http://127.0.0.1:1")
        assert (code, err) == expected and out.startswith("title")


def test_kept_run_has_records_without_work(monkeypatch, here):
    """It is kept if points failed, too; the folder of the run is removed."""

    def measured(settings, folder, *_):
        for name in ("raw", "tables", "work"):
            (folder / "results" / "quick-1" / name).mkdir(parents=True)
        return Page("title", "", []), ["a"]

    monkeypatch.setattr(command, "measured", measured)
    code, _, err = in_process(here, "quick", "http://127.0.0.1:1", "--keep", "it's kept", "--output", "page.txt")
    (line,) = (text for text in err.splitlines() if "compare" in text)
    assert code == 1 and shlex.split(line.split("`")[1]) == ["storelab", "compare", "it's kept", "OTHER"]
    assert {path.name for path in (here / "it's kept").iterdir()} == {"raw", "tables"}
    assert (here / "page.txt").read_text().startswith("title") and not list((here / "tmp").iterdir())


def test_busy_port_of_the_calibration_is_replaced(monkeypatch, here):
    """Only that of the near-null server, which is measured too. The next free port is used."""
    from storelab.cli import Settings
    from storelab.stores.managed import network

    monkeypatch.chdir(here)
    settings = Settings("config.yaml", (), ())
    (port,) = (s.port for n, s in settings.load_with({"campaign": "quick"}).stores.items() if n == "nullserver")
    busy = {port, port + 1}
    monkeypatch.setattr(network, "free", lambda address, number: number not in busy)
    assert command.near_null(settings) == {"nullserver": {"kind": "nullserver", "port": port + 2}}
    busy.clear()
    assert command.near_null(settings) == {}


def test_mistakes_are_reported_before_measuring(monkeypatch, here):
    monkeypatch.setattr(quick, "measure", lambda *_: pytest.fail("it measures"))
    (here / "old").mkdir()
    for arguments, words in (
        (["http://127.0.0.1:1", "--keep", "old"], "--keep: 'old' already exists"),
        (["http://127.0.0.1:1", "--keep", "no/new"], "--keep: 'no' is not a folder"),
        (["http://127.0.0.1:1", "--bucket", ""], "storelab: --bucket: '' is not a valid"),
        (["http://127.0.0.1:1/b"], "omit the path; to use an existing bucket, set --bucket\n"),
        (["https://127.0.0.1:1", "--ca-file", "gone"], "/gone' does not exist; set the path of a PEM file\n"),
        (["nginx"], "the store 'nginx' uses http, not S3"),
        (["minio", "--region", "x"], "--region: is not possible with the configured store 'minio'"),
        (["minio", "--ca-file", "x"], "--ca-file: is not possible with the configured store 'minio'; set stores."),
        (["minoi"], "did you mean 'minio'?"),
    ):
        code, out, err = in_process(here, "quick", *arguments)
        assert code == 2 and not out and err.count("\n") == 1 and words in err, err
    command._refuse_misspelt("http://minio", ["http-minio"])  # a URL is never a misspelt name


def test_without_go_programs_obstore_measures(monkeypatch):
    from storelab.cli import Settings
    from storelab.install import golang

    monkeypatch.chdir(ROOT)
    settings = Settings("config.yaml", (), ())
    monkeypatch.setattr(golang, "present", lambda *_: True)
    assert command.without_loadgen(settings) == {}
    monkeypatch.setattr(golang, "present", lambda *_: False)
    config = settings.load_with({"campaign": "quick", **command.without_loadgen(settings)})
    engines = {str(s.axes.get("engine")) for s in config.sweeps.values()}
    assert not config.calibrate and engines == {"None", "obstore", "['uproot-s3fs', 'planned']"}


def test_quick_measures_in_its_own_folder(monkeypatch, tmp_path):
    """With the configured state it would wait for its own lock, and stop the user's stores."""
    from storelab.cli import Settings

    monkeypatch.chdir(ROOT)
    asked = []
    monkeypatch.setattr(quick, "measure", lambda config, points: asked.append(config) or (_ for _ in ()).throw(OSError))
    settings = Settings("config.yaml", (), (f"state={tmp_path / 'x'}", f"results={tmp_path / 'y'}"))
    with pytest.raises(OSError):
        command.measured(settings, tmp_path / "own", "mine", {"kind": "s3", "endpoint": "http://127.0.0.1:1"})
    (config,) = asked
    assert config.state == str(tmp_path / "own/state") and config.results == str(tmp_path / "own/results")


def test_killed_quick_leaves_no_daemon_and_no_folder(tmp_path):
    """Both remain after kill -9 of the process; otherwise that process removes them.

    A child of the daemon in another session ends, too. The process that waits has no keys.
    """
    child = 'import subprocess, time; subprocess.Popen(["sleep", "98765"], start_new_session=True); time.sleep(100)'
    code = f"""
        import os, psutil, signal, sys
        from pathlib import Path
        from storelab.cli import quick
        from storelab.stores.managed.daemon import Daemon
        from storelab.stores.managed.daemons import Daemons
        folder = Path({str(tmp_path)!r}, sys.argv[1])
        with quick.watched(folder):
            (folder / "state" / "null").mkdir(parents=True)
            daemons = Daemons(folder / "state" / "null", "quick")
            (waiting,) = psutil.Process().children()
            assert "AWS_SECRET_ACCESS_KEY" not in waiting.environ() and "PATH" in waiting.environ()
            argv = (sys.executable, "-c", {child!r})
            daemons.start(Daemon("null", argv, "127.0.0.1", (1,), "/"))
            pid = daemons.running()["null"]
            while not (children := psutil.Process(pid).children()):
                pass
            print(pid, children[0].pid, flush=True)
            sys.argv[1] == "killed" and os.kill(os.getpid(), signal.SIGKILL)
        """
    for how in ("ended", "killed"):
        command = [sys.executable, "-c", textwrap.dedent(code), how]
        environ = os.environ | {"AWS_SECRET_ACCESS_KEY": "secret"}
        done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=100)
        processes = [psutil.Process(pid) for pid in map(int, done.stdout.split()) if psutil.pid_exists(pid)]
        if how == "ended":
            assert len(processes) == 2 and (tmp_path / how).exists(), done.stderr
            for process in processes:
                process.kill()
            continue
        deadline = time.monotonic() + 30
        while (tmp_path / how).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(done.stdout.split()) == 2 and not (tmp_path / how).exists(), done.stderr
        assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


def test_bucket_of_a_stopped_client_is_removed(monkeypatch, tmp_path, capsys):
    """The probe makes a hundred buckets; Ctrl-C may come between making one and marking it."""
    for name, value in FIRST.environ().items():
        monkeypatch.setenv(name, value)
    with honest_s3("any signature") as (url, server):
        config = configured(stores={"a": {"kind": "s3", "endpoint": url}}, **folders(tmp_path))
        store = all_stores(config)["a"]
        for number, objects in ((7, {}), (8, {"thesis": Object(b"years")})):
            server.buckets[store.bucket(config.name, number).name] = Bucket(FIRST.access_key, objects)
        quick._remove(config)
        left = [name for name in server.buckets if name.startswith("storelab-")]
    assert left == [store.bucket(config.name, 8).name] and "thesis" in capsys.readouterr().err
