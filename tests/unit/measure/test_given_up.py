"""A campaign that is dead stops: points in a row that fail alike, the estimate, points whose store is down."""

import json
import os
import shutil
import subprocess

import pytest
from paths import ROOT

from storelab.core import plan, records
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.measure import given_up, plan_file
from storelab.measure import point as measuring
from storelab.measure.progress import lines
from storelab.workloads import WORKLOADS


@pytest.fixture
def config(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / name).mkdir()
    monkeypatch.setenv(given_up.RUN, "1:1")
    monkeypatch.setattr(plan_file, "refuse_differences", lambda *_: None)
    return Config(
        name="camp",
        campaign="camp",
        stores={n: {"kind": "directory", "path": str(tmp_path / n)} for n in "ab"},
        use_stores=["a", "b"],
        sweeps={
            "s": {
                "workload": "put",
                "duration": "1 s",
                "warm_up": "0 s",
                "axes": {"engine": ["fsspec"], "object_size": ["1 kB"]},
            }
        },
        repetitions=6,
        calibrate=False,
        give_up_after=3,
        results=str(tmp_path / "results"),
        state=str(tmp_path / "state"),
        scratch=str(tmp_path),
    )


@pytest.fixture
def points(config):
    return plan.make(config, WORKLOADS)


def failing(monkeypatch, reasons):
    """Each point fails with the next reason (None: it is measured); returns the list of those tried."""
    tried, left = [], iter(reasons)

    def measure(config, points, chosen, why, state, spare):
        tried.append(chosen.key)
        if isinstance(error := next(left), Exception):
            raise error
        return {}

    monkeypatch.setattr(measuring, "_measure", measure)
    return tried


def run_all(config, points, store=None):
    for p in (p for p in points if store in (None, p.store)):
        try:
            measuring.point(config, points, p.key)
        except (MeasurementFailed, UserError):
            continue


def numbered(word="died"):
    return (MeasurementFailed(f"client {i} {word} after {i}.5 s in attempt {i:08x}") for i in range(1000))


def test_it_gives_up_after_points_that_fail_alike_and_says_so_once(config, points, monkeypatch, capsys):
    tried = failing(monkeypatch, numbered())
    stopped = []
    monkeypatch.setattr(given_up, "_stop", lambda: stopped.append(1))
    run_all(config, points, "a")
    assert len(tried) == 3 and not stopped, "another store may be well"
    said = capsys.readouterr().err
    assert (
        said.count("3 points in a row failed alike") == 1 and "client 2 died" in said and "run the same command" in said
    )
    of_a = [p for p in points if p.store == "a"]
    reasons = [json.loads((config.raw / p.key / "failed.json").read_text())["reason"] for p in of_a]
    assert [r.startswith("not tried: points of a before it failed alike: client") for r in reasons] == [False] * 3 + [
        True
    ] * 3
    run_all(config, points, "b")
    assert len(tried) == 6 and stopped == [1] and "the campaign stops" in capsys.readouterr().err
    monkeypatch.setenv(given_up.RUN, "1:2")  # the next run
    run_all(config, points, "a")
    assert len(tried) == 9


def test_other_reasons_and_good_points_begin_anew(config, points, monkeypatch):
    two = [MeasurementFailed("one"), MeasurementFailed("one")]
    tried = failing(monkeypatch, [*two, MeasurementFailed("other"), None, *two])
    run_all(config, points, "a")
    assert len(tried) == 6


def test_a_single_point_by_hand_is_always_tried(config, points, monkeypatch, capsys):
    tried = failing(monkeypatch, numbered())
    monkeypatch.delenv(given_up.RUN)
    run_all(config, points)
    assert len(tried) == len(points) == 12 and "failed alike" not in capsys.readouterr().err


def test_nothing_is_left_in_a_sealed_campaign_nor_beside_a_record(config, points):
    given_up.leave(config, points[0], "no reason")
    assert (config.raw / points[0].key / records.FAILED).exists()
    (config.raw / points[1].key).mkdir(parents=True)
    (config.raw / points[1].key / "run.json").write_text("{}")
    given_up.leave(config, points[1], "no reason")
    assert not (config.raw / points[1].key / records.FAILED).exists()
    (config.raw / "SEAL").write_text("{}")
    given_up.leave(config, points[2], "no reason")
    assert not (config.raw / points[2].key).exists()


def test_a_store_that_is_down_leaves_its_reason(config, points, monkeypatch):
    down = UserError("stores.a.endpoint", "http://x refuses the connection", "check address and port")
    failing(monkeypatch, [down] * 6)
    with pytest.raises(UserError, match="refuses"):
        measuring.point(config, points, next(p.key for p in points if p.store == "a"))
    run_all(config, points, "a")
    assert not records.missing(config.raw, [p.key for p in points if p.store == "a"], failed_counts=True)


def test_a_record_is_never_joined_by_a_failure_that_was_not_tried(config, points):
    folder = config.raw / points[0].key
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    given_up.leave(config, points[0], "why")
    assert [p.name for p in folder.iterdir()] == ["run.json"]


def test_the_estimate_counts_what_failed_as_tried(config, points, capsys, monkeypatch):
    def said(chosen):
        lines.announce(lines.place(config, points, chosen), chosen)
        return capsys.readouterr().err

    assert "[1/12]" in said(points[0]) and "about 36 s still" in said(points[0])  # 1 s, and 2 s beside, of each
    for p in points[:4]:
        records.fail(config.raw / p.key, p, "died")
    assert "[5/12]" in said(points[4]) and "about 24 s still" in said(points[4])
    monkeypatch.setenv(given_up.RUN, f"1:{2**62}")  # a later run tries them again
    assert "[1/12]" in said(points[0]) and "about 36 s still" in said(points[0])


def test_only_a_snakemake_above_is_stopped(monkeypatch):
    monkeypatch.setenv(given_up.RUN, f"{os.getppid()}:1")
    if "snakemake" not in " ".join(__import__("psutil").Process(os.getppid()).cmdline()):
        given_up._stop()  # would end whoever runs the tests


def test_what_is_done_where_a_command_fails(tmp_path):
    for status, made in ((1, True), (0, False), (2, False)):
        shutil.rmtree(tmp_path / "x", ignore_errors=True)
        env = {**os.environ, "OTHERWISE": f"mkdir {tmp_path / 'x'}"}
        run = [ROOT / "envs" / "forward.sh", "bash", "-c", f"exit {status}"]
        assert subprocess.run(run, env=env, check=False).returncode == status
        assert (tmp_path / "x").exists() == made
