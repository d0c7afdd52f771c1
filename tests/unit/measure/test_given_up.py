"""A campaign that stops early: failures in a row, the estimate of time, and points of a store that is down."""

import json
import os
import shutil
import signal
import subprocess
from types import SimpleNamespace

import pytest
from paths import ROOT
from refusals import refusal
from small_plan import configured, folders

from storelab.core import integrity, plan, records
from storelab.core.errors import MeasurementFailed, UserError
from storelab.measure import attempts, plan_file, progress
from storelab.measure import point as measuring
from storelab.workloads import WORKLOADS


@pytest.fixture
def config(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / name).mkdir()
    monkeypatch.setenv(attempts.RUN, "1:1")
    monkeypatch.setattr(plan_file, "refuse_differences", lambda *_: None)
    axes = {"engine": ["fsspec"], "object_size": ["1 kB"]}
    return configured(
        stores={n: {"kind": "directory", "path": str(tmp_path / n)} for n in "ab"},
        stores_to_measure=["a", "b"],
        sweeps={"s": {"workload": "put", "duration": "1 s", "warm_up": "0 s", "axes": axes}},
        **{"repetitions": 6, "give_up_after": 3} | folders(tmp_path),
    )


@pytest.fixture
def points(config):
    return plan.make(config, WORKLOADS)


def failing(monkeypatch, reasons):
    """Let each point fail with the next reason (None: it is measured); return the list of those tried."""
    tried, left = [], iter(reasons)

    def measure(config, points, chosen, store, state, spare, why):
        tried.append(chosen.key)
        if isinstance(error := next(left), Exception):
            raise error
        return {}

    monkeypatch.setattr(measuring, "measure", measure)
    return tried


def run_all(config, points, store=None):
    for p in (p for p in points if store in (None, p.store)):
        try:
            measuring.point(config, points, p.key)
        except (MeasurementFailed, UserError):
            continue


def numbered(word="died"):
    return (MeasurementFailed(f"client {i} {word} after {i}.5 s in attempt {i:08x}") for i in range(1000))


def test_store_is_skipped_after_similar_failures(config, points, monkeypatch, capsys):
    tried, stopped = failing(monkeypatch, numbered()), []
    monkeypatch.setattr(attempts, "_stop", lambda: stopped.append(1))
    run_all(config, points, "a")
    assert len(tried) == 3 and not stopped, "the other store may work"
    printed = capsys.readouterr().err
    assert printed.count("give_up_after") == 1 and "died" not in printed, "the caller prints the reason"
    of_a = [p for p in points if p.store == "a"]
    reasons = [json.loads((config.raw / p.key / "failed.json").read_text())["reason"] for p in of_a]
    assert [r.startswith("not tried: ") and "client 2 died" in r for r in reasons] == [False] * 3 + [True] * 3
    run_all(config, points, "b")
    assert len(tried) == 6 and stopped == [1] and "give_up_after" in capsys.readouterr().err
    monkeypatch.setenv(attempts.RUN, "1:2")  # the next run
    run_all(config, points, "a")
    assert len(tried) == 9


def test_other_reasons_and_successes_reset_the_count(config, points, monkeypatch):
    two = [MeasurementFailed("one"), MeasurementFailed("one")]
    tried = failing(monkeypatch, [*two, MeasurementFailed("other"), None, *two])
    run_all(config, points, "a")
    assert len(tried) == 6


def test_single_point_outside_a_run_is_always_tried(config, points, monkeypatch, capsys):
    tried = failing(monkeypatch, numbered())
    monkeypatch.delenv(attempts.RUN)
    run_all(config, points)
    assert len(tried) == len(points) == 12 and "give_up_after" not in capsys.readouterr().err


def test_failure_joins_no_record_and_no_seal(config, points):
    attempts.skip(config, points[0], "no reason")
    assert (config.raw / points[0].key / records.FAILED).exists()
    folder = config.raw / points[1].key
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    attempts.skip(config, points[1], "no reason")
    assert [p.name for p in folder.iterdir()] == ["run.json"]
    (config.raw / "SEAL").write_text("{}")
    attempts.skip(config, points[2], "no reason")
    assert not (config.raw / points[2].key).exists()


def test_store_that_is_down_leaves_its_reason(config, points, monkeypatch):
    down = UserError("stores.a.endpoint", "http://x refuses the connection", "check address and port")
    failing(monkeypatch, [down] * 6)
    assert "refuses" in refusal(measuring.point, config, points, next(p.key for p in points if p.store == "a"))
    run_all(config, points, "a")
    assert not integrity.missing(config.raw, [p.key for p in points if p.store == "a"], failed_counts=True)


def test_estimate_counts_failed_points_as_tried(config, points, capsys, monkeypatch):
    def printed(chosen):
        progress.announce(progress.place(config, points, chosen), chosen)
        return capsys.readouterr().err

    first = printed(points[0])
    assert "[1/12]" in first and " 36 s " in first, "1 s of each, and 2 s around it"
    for p in points[:4]:
        records.fail(config.raw / p.key, p, "died")
    later = printed(points[4])
    assert "[5/12]" in later and " 24 s " in later
    monkeypatch.setenv(attempts.RUN, f"1:{2**62}")  # a later run tries them again
    assert printed(points[0]) == first


def test_only_a_snakemake_above_is_stopped(monkeypatch):
    stopped = []

    def parent(pid, *command):
        sent = lambda number: stopped.append((pid, number))  # noqa: E731
        return SimpleNamespace(pid=pid, cmdline=lambda: command, send_signal=sent)

    above = [parent(30, "sh"), parent(20, "python", "/bin/snakemake"), parent(10, "python", "/bin/snakemake")]
    monkeypatch.setattr(attempts.psutil, "Process", lambda: SimpleNamespace(parents=lambda: above))
    for run, expected in (("30", []), ("99", []), ("20", [(20, signal.SIGTERM)])):
        monkeypatch.setenv(attempts.RUN, f"{run}:1")
        attempts._stop()
        assert stopped == expected, run


def test_forward_script_acts_on_failures_only(tmp_path):
    for status, made in ((1, True), (0, False), (2, False)):
        shutil.rmtree(tmp_path / "x", ignore_errors=True)
        env = {**os.environ, "OTHERWISE": f"mkdir {tmp_path / 'x'}"}
        run = [ROOT / "envs" / "forward.sh", "bash", "-c", f"exit {status}"]
        assert subprocess.run(run, env=env, check=False).returncode == status
        assert (tmp_path / "x").exists() == made
