"""Progress of a campaign during measurement: the state file, estimates, the display in the terminal."""

import os
import platform
import pty
import sys
from types import SimpleNamespace

import pytest
from collected import settings
from made_jobs import gang_job
from rich.console import Console
from small_plan import configured

from storelab.core import plan
from storelab.core.campaign import live
from storelab.core.errors import MeasurementFailed
from storelab.engines.common import guard
from storelab.host import console
from storelab.host.monitor import Used
from storelab.measure import attempts, display, jobs, progress
from storelab.workloads import WORKLOADS

S, MS = 10**9, 10**6
T0 = 1_760_000_000 * S


@pytest.fixture
def config(tmp_path):
    sweeps = {"up": {"workload": "put", "duration": "20 s", "axes": {"clients": [1, 2]}}}
    return configured(results=str(tmp_path), repetitions=2, sweeps=sweeps)


@pytest.fixture
def points(config):
    return plan.make(config, WORKLOADS)


def following(config, points, number=0):
    chosen = points[number]
    return progress.following(config, chosen, progress.place(config, points, chosen))


def test_state_follows_the_stages_of_a_point(config, points, monkeypatch):
    monkeypatch.setenv(attempts.RUN, f"{os.getpid()}:{T0}")
    with following(config, points) as now:
        first = live.read(config.campaign_dir)
        assert first["stage"] == "store" and first["point"]["key"] == points[0].key and first["outcome"] is None
        assert (first["number"], first["points"], first["left_s"]) == (1, 4, 4 * 22.0)
        assert first["pid"] == os.getpid() and live.lives(first) and live.lives(first["run"])
        assert first["run"]["begun_ns"] == T0 and first["start_ns"] is None
        for stage in ("data", "clients"):
            now.stage(stage)
            assert live.read(config.campaign_dir)["stage"] == stage
    last = live.read(config.campaign_dir)
    assert (last["stage"], last["outcome"], last["reason"]) == ("ended", "measured", None)


def test_state_has_how_a_point_ended(config, points):
    with pytest.raises(MeasurementFailed), following(config, points):
        raise MeasurementFailed("client 0: it broke")
    assert live.read(config.campaign_dir)["outcome"] == "failed"
    assert live.read(config.campaign_dir)["reason"] == "client 0: it broke"
    with pytest.raises(SystemExit), following(config, points):
        sys.exit(143)
    assert live.read(config.campaign_dir)["outcome"] == "interrupted"


def test_rates_and_cores_of_each_second(config, points, tmp_path, monkeypatch):
    """Two clients, one in two processes: 100 operations/s, 1 failure/s, 4 kB each; half a core and two."""
    at = [T0 - S]
    monkeypatch.setattr(progress.clock, "now_ns", lambda: at[0])
    work = tmp_path / "work"
    work.mkdir()
    with following(config, points, 1) as now:
        now.stage("clients", work)
        now.starts(T0)
        for second in range(1, 71):
            at[0] = T0 + second * S + 50 * MS
            for name, rate in (("0", 50), ("1.0", 25), ("1.1", 25)):
                teller = guard.ProgressWriter(work / f"progress.{name}")
                teller.note(at[0], rate * second, second * (name == "0"), 4000 * rate * second)
            used = Used(10 + 2.5 * second, 0.5 * second, 2.0 * second, 10**8, 10**9)
            now.second(T0 + second * S, used)
            seen = live.read(config.campaign_dir)
            assert seen["written_ns"] == at[0] and len(seen["seconds"]["at_s"]) == min(60, second)
    columns = seen["seconds"]
    assert columns["at_s"] == [pytest.approx(s + 0.05) for s in range(11, 71)] and set(columns) == set(live.SECONDS)
    assert columns["operations_per_s"] == [100.0] * 60 and columns["bytes_per_s"] == [4e5] * 60
    assert columns["errors_per_s"] == [1.0] * 60
    assert set(columns["client_cores"]) == {0.5} and set(columns["server_cores"]) == {2.0}
    assert set(columns["host_cores"]) == {2.5}
    assert seen["clients_told"] == 2 and seen["errors"] == 70 and seen["operations"] == 7000
    assert (seen["client_rss_bytes"], seen["server_rss_bytes"]) == (10**8, 10**9)


def test_missing_values_are_unknown(config, points):
    with following(config, points) as now:
        now.starts(T0)
        for second in (1, 2):
            now.second(T0 + second * S, Used(2.0 * second))
        seen = live.read(config.campaign_dir)
    assert seen["operations"] is None and seen["seconds"]["operations_per_s"] == [None, None]
    assert seen["seconds"]["client_cores"] == [None, None] and seen["seconds"]["host_cores"] == [None, 2.0]


def test_full_disk_ends_no_measurement(config, points, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with following(config, points) as now:
        monkeypatch.setattr(live.records, "write_atomic", full)
        now.stage("data")
        now.starts(T0)
        now.second(T0 + S, Used(1.0))
        now.second(T0 + S, None)  # and no mistake of ours ends the monitor
    assert live.read(config.campaign_dir)["stage"] == "store"


def test_progress_off_writes_nothing(config, points, monkeypatch):
    monkeypatch.setattr(jobs, "_job_of_clients", lambda *_: gang_job())
    assert jobs.job_of_point(config, points, points[0], None, {}, "a").reports_progress is True
    monkeypatch.setenv(live.OFF, "off")
    with following(config, points) as now:
        now.starts(T0)
        now.second(T0 + S, Used(1.0))
    assert live.read(config.campaign_dir) is None
    assert jobs.job_of_point(config, points, points[0], None, {}, "a").reports_progress is False


@pytest.fixture
def noted(monkeypatch):
    """Return a function that notes a point of a run: it took `seconds` more than its window, after `pause` seconds."""
    at = [T0]
    monkeypatch.setattr(progress.clock, "now_ns", lambda: at[0])

    def note(config, point, seconds, pause=0.0, run="7:1"):
        monkeypatch.setenv(attempts.RUN, run)
        at[0] += int(pause * S)
        begun = at[0]
        at[0] += point.fixed["duration_ns"] + int(seconds * S)
        progress.note_overhead(config, point, begun)
        return progress._typical_overhead(config)

    return note


def test_damaged_lines_change_no_estimate(tmp_path, noted):
    config = settings(tmp_path / "x", results=str(tmp_path))
    point = plan.make(config, WORKLOADS)[0]
    assert progress._typical_overhead(config) == 2.0
    for seconds in (1.0, 2.0, 3.0):
        noted(config, point, seconds)
    damaged = ('{"key": "a/b', "\xff\xfe", "null", "[1]", *(f'{{"overhead_s": {v}}}' for v in ("NaN", "1e300", '"x"')))
    for half in damaged:
        with progress._overheads(config).open("ab") as f:
            f.write(half.encode("latin1"))
        assert progress._typical_overhead(config) == 2.0, "of 1, 2 and 3 s in addition to windows of 4 s"
        assert noted(config, point, 2.0) == 2.0


def test_estimate_learns_from_points_of_this_run(config, points, noted):
    """A slow machine takes 60 s for a point and its process, earlier runs 1 s."""
    point = points[0]
    assert progress.place(config, points, point).left_s == 4 * 22.0
    for _ in range(20):
        noted(config, point, 1.0)
    assert progress.place(config, points, point).left_s == 4 * 21.0
    found = [noted(config, point, 20.0, pause=40.0, run="8:2") for _ in range(3)]
    assert found == [10.5, 20.0, 40.0], "the first point's pause is unknown; earlier runs count as one point"
    assert [noted(config, point, 5.0, run="8:2") for _ in range(15)][-1] == 5.0, "only the last points count"
    assert noted(config, point, 3.0, pause=500.0, run="9:3") == 2.0, "the pause between two runs does not count"


def drawn(width, **more):
    point = {"store": "seaweedfs", "workload": "put", "said": "clients=4 engine=s5cmd rep=001", "duration_s": 20.0}
    state = {
        **{"campaign": "demo", "number": 3, "points": 18, "left_s": 400.0, "begun_ns": T0, "start_ns": T0},
        **{"stage": "measuring", "cores": 2, "errors": 3, "point": point},
        "seconds": {name: [1.25] for name in live.SECONDS} | {"operations_per_s": [1234.5], "bytes_per_s": [5.1e6]},
    }
    with open(os.devnull, "w") as nowhere:
        screen = Console(width=width, record=True, force_terminal=True, file=nowhere)
        screen.print(display.View(state | more, T0 + 12 * S))
        return screen.export_text().splitlines()


def test_display_fits_the_terminal():
    values = ("12 s of 20 s", "2 of 18 done", "6 min 28 s", "1,234 operations/s", "5.1 MB/s", "3 failed")
    values += ("CPU clients 1.25", "store 1.25", "host 1.25 of 2 cores")
    for width in (20, 40, 71, 72, 100, 200):
        for stage in live.STAGES[:-1]:
            assert max(map(len, drawn(width, stage=stage))) <= width
        lines = drawn(width)
        if width >= 40:
            assert len(lines) <= 9 and [v for v in values if v not in "\n".join(lines)] == [], width


def test_display_shows_missing_rates():
    unknown = {"seconds": {name: [None] for name in live.SECONDS}}
    text = "\n".join(drawn(80, **unknown))
    assert "report their rates at the end" in text and "CPU" not in text and "12 s of 20 s" in text
    text = "\n".join(drawn(80, **unknown, start_ns=T0 + 11 * S))
    assert "rates" not in text and "1 s of 20 s" in text, "they may still run"
    text = "\n".join(drawn(80, seconds={name: [] for name in live.SECONDS}, stage="clients", start_ns=None))
    assert "starting the clients" in text and "rates" not in text


@pytest.fixture
def screen(monkeypatch):
    """Return a pseudo-terminal that Snakemake would name, and the text that is written to it."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(console.NAMED, f"{platform.node()}:{os.ttyname(theirs)}")

    def read():
        try:
            return os.read(ours, 1 << 16).decode()
        except BlockingIOError:
            return ""

    yield SimpleNamespace(read=read, number=theirs)
    os.close(ours)
    os.close(theirs)


def test_terminal_of_snakemake_is_found(screen, monkeypatch, capsys):
    found = console.terminal()
    assert found is not None and os.ttyname(found.fileno()) == os.ttyname(screen.number)
    found.close()
    for name, value in (("TERM", "dumb"), (console.NAMED, ""), (console.NAMED, "elsewhere:/dev/tty")):
        with monkeypatch.context() as other:
            other.setenv(name, value)
            assert console.terminal() is None
    with monkeypatch.context() as other:
        other.setenv(console.NAMED, f"{platform.node()}:{os.devnull}")
        assert console.terminal() is None, "no terminal"
    assert console.name_here(sys.stderr) == "", "of a log"


def test_display_gives_way_to_lines(screen, config, points, capsys, monkeypatch):
    monkeypatch.setattr(display, "EVERY_S", 3600.0)  # drawn by hand below
    monkeypatch.setattr(display, "AFTER_LINE_S", 0.0)
    with following(config, points) as now, progress.shown(config.campaign_dir):
        (give_way,) = console.giving_way
        one = give_way.__self__
        one.draw()
        first = screen.read()
        assert "0 of 4 done" in first and "\x1b[?25l" not in first, "the cursor stays"
        console.report("    a line")
        assert "\x1b[2K" in screen.read() and capsys.readouterr().err == "    a line\n"
        now.stage("data")
        one.draw()
        assert "staging the data" in screen.read()
    assert "\x1b[2K" in screen.read() and console.giving_way == []
    one.draw()
    assert screen.read() == "", "nothing after the end"


def test_nothing_is_drawn_without_a_terminal(config, points, monkeypatch, capsys):
    monkeypatch.delenv(console.NAMED, raising=False)
    with following(config, points), progress.shown(config.campaign_dir):
        assert console.giving_way == []
    assert capsys.readouterr().err == ""
