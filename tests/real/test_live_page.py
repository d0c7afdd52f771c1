"""A campaign that is measured on SeaweedFS and killed, as seen by browser, terminal and metrics."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import urllib.request

import browser
import ports
import projects
import psutil
import pytest
from managed import until

from storelab.core.campaign import live

pytestmark = [pytest.mark.real, pytest.mark.heavy]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return the project folder of two points of 6 s and 60 s, staged; stop its store at the end."""
    folder = tmp_path_factory.mktemp("live")
    common = {"warm_up": "1 s", "objects": 20, "axes": {"object_size": "4 kB", "engine": "obstore"}}
    sweeps = {"get": common | {"duration": "6 s"}, "stat": common | {"duration": "60 s"}}
    sweeps = {name: sweep | {"workload": name} for name, sweep in sweeps.items()}
    projects.write(folder, "look", {"seaweedfs": {"kind": "seaweedfs", "port": ports.block()}}, sweeps)
    try:
        for words in (("up", "seaweedfs"), ("plan", "--write"), ("stage",)):
            projects.run(folder, *words)
        yield folder
    finally:
        projects.run(folder, "down", "--all")


@pytest.fixture(scope="module")
def keys(project) -> dict[str, str]:
    """Return the key of the point of each workload."""
    plan = json.loads((project / "results" / "look" / "raw" / "plan.json").read_text())
    return {p["workload"]: p["key"] for p in plan["points"]}


@pytest.fixture(scope="module")
def address(project):
    with projects.begin(project, "live", "look", "--port", "0") as server:
        try:
            yield re.search(r"http://\S+", server.stdout.readline())[0]
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(20) == 130


def state_at(address: str) -> dict:
    with urllib.request.urlopen(f"{address}live.json", timeout=10) as answer:
        return json.load(answer)


def test_terminal_shows_point_and_page_its_numbers(project, keys, address):
    """`storelab measure` on a pseudo-terminal; at the end of the point, the page shows the values of its record."""
    ours, theirs = pty.openpty()
    environ = dict(os.environ, TERM="xterm")
    command = projects.command("measure", keys["get"])
    with subprocess.Popen(
        command, cwd=project, stderr=theirs, stdout=theirs, env=environ, start_new_session=True
    ) as run:
        os.close(theirs)
        shown, seen = b"", []
        while run.poll() is None or select.select([ours], [], [], 0)[0]:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    shown += os.read(ours, 1 << 16)
                except OSError:  # the writer has ended
                    break
            seen.append(state_at(address))
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
    assert counts[-1] <= done and counts[-1] >= 0.3 * done, "the point was shown while it ran"
    (row,) = until(lambda: state_at(address)["recent"])
    assert (row["key"], row["state"]) == (keys["get"], "ok")
    assert row["operations_per_s"] == pytest.approx(done / 6, 0.01)


def test_page_reports_killed_measurement(project, keys, address):
    """kill -9 during a point: page, metrics and state report it; the next run continues."""
    with subprocess.Popen(projects.command("measure", keys["stat"]), cwd=project, stderr=subprocess.DEVNULL) as run:
        try:
            until(lambda: (state_at(address)["state"] or {}).get("operations"))
            children = psutil.Process(run.pid).children(recursive=True)
            looked = looked_on(address, run)
        finally:
            run.kill()
        run.wait(20)
    until(lambda: state_at(address)["mood"] == "killed")
    with urllib.request.urlopen(f"{address}metrics", timeout=10) as answer:
        assert 'storelab_mood{campaign="look",mood="killed"} 1.0' in answer.read().decode()
    state = live.read(project / "results" / "look")
    assert state["stage"] == "measuring" and state["pid"] == run.pid
    assert state_at(address)["counts"] == {"done": 1, "invalid": 0, "failed": 0, "to come": 1}
    assert not psutil.wait_procs(children, 10)[1], "clients end with the killed process"
    if looked is None:
        pytest.skip("chromium is not installed: envs/apt.sh chromium")
    first, second = looked
    assert first != second, "the page shows the new state"


def looked_on(address: str, run: subprocess.Popen) -> tuple[str, str] | None:
    """Return the operations on the page at two moments; check that it reports when the measurement is killed."""
    if browser.program() is None:
        return None
    with browser.page(network=True) as tab:
        tab.visit(address)
        tab.until("!!document.querySelector('.mood.running')")
        found = "document.querySelector('.tiles .small')?.textContent"
        first = tab.until(found)
        second = tab.until(f"({found}) !== {json.dumps(first)} && {found}")
        assert tab.errors == [] and {r.rpartition("/")[2] for r in tab.requests} <= {"", "events", "points.json"}
        tab.go("#points")
        assert tab.evaluate("document.querySelectorAll('main tbody tr').length") == 2
        tab.go("#overview")
        run.kill()
        tab.until("document.querySelector('.mood.killed')?.textContent.includes('Run the same command again')")
        assert tab.errors == []
        return first, second
