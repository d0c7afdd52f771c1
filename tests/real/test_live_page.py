"""Looking on at a campaign that is measured on SeaweedFS: browser, terminal, metrics; the measurement is killed
under them.
"""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import browser
import ports
import psutil
import pytest
import yaml

from storelab.core.campaign import live

pytestmark = [pytest.mark.real, pytest.mark.heavy]
BIN = Path(sys.executable).parent
KEYS = ["seaweedfs/get/rep~001", "seaweedfs/get/rep~002"]
LIMIT_S = 60.0


def storelab(folder: Path, *arguments: str, check: bool = True) -> str:
    command = [str(BIN / "storelab"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A campaign of two points of 6 s and 60 s, staged; its store is stopped at the end."""
    folder = tmp_path_factory.mktemp("live")
    config = {
        "campaign": "look",
        "stores": {"seaweedfs": {"kind": "seaweedfs", "port": ports.block()}},
        "state": str(folder / "state"),
    }
    sweeps = {
        "one": {"workload": "get", "duration": "6 s", "warm_up": "1 s", "objects": 20, "repetitions": 1},
        "two": {"workload": "stat", "duration": "60 s", "warm_up": "1 s", "objects": 20, "repetitions": 1},
    }
    axes = {"object_size": "4 kB", "engine": "obstore"}
    body = {"name": "look", "use_stores": ["seaweedfs"], "calibrate": False, "repetitions": 1}
    body["sweeps"] = {name: sweep | {"axes": axes} for name, sweep in sweeps.items()}
    (folder / "campaigns").mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "campaigns" / "look.yaml").write_text(yaml.safe_dump(body))
    try:
        storelab(folder, "up", "seaweedfs")
        storelab(folder, "plan", "--write")
        storelab(folder, "stage")
        yield folder
    finally:
        storelab(folder, "down", "--all", check=False)


@pytest.fixture(scope="module")
def keys(project) -> dict[str, str]:
    """Workload -> key of its point."""
    plan = json.loads((project / "results" / "look" / "raw" / "plan.json").read_text())
    return {p["workload"]: p["key"] for p in plan["points"]}


@pytest.fixture(scope="module")
def address(project):
    command = [str(BIN / "storelab"), "live", "look", "--port", "0"]
    with subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True) as server:
        try:
            yield re.search(r"http://\S+", server.stderr.readline())[0]
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(20) == 130


def told(address: str) -> dict:
    with urllib.request.urlopen(f"{address}live.json", timeout=10) as answer:
        return json.load(answer)


def until(look, what: str):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.1)
    raise AssertionError(what)


def test_a_terminal_shows_the_point_and_the_page_its_numbers(project, keys, address):
    """`storelab measure` on a pseudo-terminal; what the page says at the end of the point is what its record says."""
    ours, theirs = pty.openpty()
    environ = dict(os.environ, TERM="xterm")
    command = [str(BIN / "storelab"), "measure", keys["get"]]
    with subprocess.Popen(
        command, cwd=project, stderr=theirs, stdout=theirs, env=environ, start_new_session=True
    ) as run:
        os.close(theirs)
        shown, seen = b"", []
        while run.poll() is None or select.select([ours], [], [], 0)[0]:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    shown += os.read(ours, 1 << 16)
                except OSError:  # nobody writes any more
                    break
            seen.append(told(address))
        assert run.wait(30) == 0
    os.close(ours)
    text = shown.decode()
    assert "[1/2] seaweedfs get" in text and "operations/s" in text and "CPU clients" in text and "0 of 2 done" in text
    during = [s["state"] for s in seen if s["mood"] == "running" and s["state"]["stage"] == "measuring"]
    counts = [s["operations"] for s in during if s["operations"] is not None]
    assert counts == sorted(counts) and counts[-1] > 100
    last = during[-1]["seconds"]
    assert len(last["at_s"]) >= 3 and any(rate > 10 for rate in last["operations_per_s"][1:])
    assert any(c > 0 for c in last["client_cores"][1:]) and any(c > 0 for c in last["server_cores"][1:])
    run_json = json.loads((project / "results" / "look" / "raw" / keys["get"] / "run.json").read_text())
    done = sum(c["operations"] for c in run_json["clients"])
    assert counts[-1] <= done and counts[-1] >= 0.3 * done, "it was told while it went on"
    (row,) = until(lambda: told(address)["recent"], "the record is not read")
    assert (
        row["key"] == keys["get"] and row["state"] == "ok" and row["operations_per_s"] == pytest.approx(done / 6, 0.01)
    )


def test_a_killed_measurement_is_told_by_a_page_that_still_answers(project, keys, address):
    """kill -9 in the middle of a point: page, metrics and state say so; the next run goes on."""
    with subprocess.Popen(
        [str(BIN / "storelab"), "measure", keys["stat"]], cwd=project, stderr=subprocess.DEVNULL
    ) as run:
        try:
            until(lambda: (told(address)["state"] or {}).get("operations"), "nobody told an operation")
            children = psutil.Process(run.pid).children(recursive=True)
            looked = looked_on(address, run)
        finally:
            run.kill()
        run.wait(20)
    assert until(lambda: told(address)["mood"] == "killed", "nobody told of the kill")
    with urllib.request.urlopen(f"{address}metrics", timeout=10) as answer:
        assert 'storelab_mood{campaign="look",mood="killed"} 1.0' in answer.read().decode()
    state = live.read(project / "results" / "look")
    assert state["stage"] == "measuring" and state["pid"] == run.pid
    assert told(address)["counts"] == {"done": 1, "invalid": 0, "failed": 0, "to come": 1}
    assert not psutil.wait_procs(children, 10)[1], "clients end with it"
    if looked is None:
        pytest.skip("chromium is not installed: envs/apt.sh chromium")
    first, second = looked
    assert first != second, "the page follows"


def looked_on(address: str, run: subprocess.Popen) -> tuple[str, str] | None:
    """What the page says of the operations, twice, in a browser; and that it says when the measurement is killed."""
    if browser.program() is None:
        return None
    with browser.page(network=True) as tab:
        tab.visit(address)
        tab.until("!!document.querySelector('.mood.running')")
        said = "document.querySelector('.tiles .small')?.textContent"
        first = tab.until(said)
        second = tab.until(f"({said}) !== {json.dumps(first)} && {said}")
        assert tab.errors == [] and {r.rpartition("/")[2] for r in tab.requests} <= {"", "events", "points.json"}
        tab.go("#points")
        assert tab.evaluate("document.querySelectorAll('main tbody tr').length") == 2
        tab.go("#overview")
        run.kill()
        tab.until("document.querySelector('.mood.killed')?.textContent.includes('Run the same command again')")
        assert tab.errors == []
        return first, second
