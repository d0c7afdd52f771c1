"""The link of a store that runs, slowed and cut under load.

Every link is restored, by storelab itself or, after a kill, by the next run. XRootD has a separate link.
"""

import json
import os
import subprocess
from itertools import pairwise

import managed
import projects
import pytest
from laboratory import needs_xrootd

from storelab.core.records import read_json
from storelab.stores.managed import network
from storelab.stores.xrootd.store import Settings, XRootD

pytestmark = [pytest.mark.real, pytest.mark.heavy, *needs_xrootd]
S = 10**9
SIZE = 100_000
NAMESPACE = f"storelab-link{os.getpid() % 10_000}"
SETTINGS = {"kind": "xrootd", "protocol": "http"}
FAULTS = {
    "slowed": [
        {"at": "2 s", "act": "slow", "actor": "front.0", "rate": "1 MB/s"},
        {"at": "5 s", "act": "heal", "actor": "front.0"},
    ],
    "cut": [{"at": "2 s", "act": "cut", "actor": "front.0"}, {"at": "4 s", "act": "heal", "actor": "front.0"}],
    "both": [
        {"at": "1 s", "act": "slow", "actor": "front.0", "rate": "1 MB/s"},
        {"at": "1500 ms", "act": "cut", "actor": "front.0"},
    ],
}
ROLE = {"workload": "get", "objects": 20, "axes": {"engine": "fsspec", "object_size": "100 kB", "workers": 2}}


@pytest.fixture
def lab(tmp_path):
    """Return a project folder with a campaign of one point for each fault, and their store, which is stopped."""
    settings = SETTINGS | {"subnet": managed.subnet()}
    for fault in FAULTS:
        sweep = {"duration": "9 s", "warm_up": "100 ms", "axes": {"fault": fault}, "roles": {"reads": ROLE}}
        projects.write(tmp_path, fault, {"xr": settings}, {"s": sweep}, faults=FAULTS)
    store = XRootD("xr", Settings(**settings), tmp_path / ".storelab")
    yield tmp_path, store
    store.down()


def of(campaign, *arguments) -> tuple[str, ...]:
    """Return the words of a command for one of the campaigns."""
    return "--set", f"campaign={campaign}", *arguments


def slowed(link) -> bool:
    rows = json.loads(network._tc(link, "-j", "qdisc", "show", "dev", link["device"]) or "[]")
    return any(row.get("handle") == network.HANDLE for row in rows)


def down(link) -> bool:
    (row,) = json.loads(network._ip(link, "-j", "link", "show", "dev", link["device"]))
    return "UP" not in row["flags"]


def measured(lab, campaign):
    """Return (bytes in each second from the start, longest time without an operation in ns, record)."""
    folder, store = lab
    key = projects.run(folder, *of(campaign, "plan")).split()[-1]
    projects.run(folder, *of(campaign, "measure", key))
    raw = folder / "results" / campaign / "raw" / key
    record = read_json(raw / "run.json")
    ends = sorted(row["end_ns"] - record["start_ns"] for row in managed.rows_of(raw, "ops") if not row["error"])
    seconds = [SIZE * sum(i * S <= end < (i + 1) * S for end in ends) for i in range(9)]
    link = store.link("front.0", "")
    assert not slowed(link) and not down(link) and not (store.folder / "faults.json").exists()
    acts = [e for e in record["events"] if e["kind"] == "act"]
    assert [e["error"] for e in acts] == [None, None] and record["valid"], record["events"]
    return seconds, max(b - a for a, b in pairwise(ends)), record


def test_slowed_link(lab):
    seconds, _, record = measured(lab, "slowed")
    print(seconds)
    # What was in buffers when the token bucket came is in the third second.
    assert 0 < max(seconds[3:5]) < 1.3e6 < max(seconds[1], *seconds[6:]), "not faster than the link"
    assert record["fault"]["most_lost"] == [], "a slow server is not lost"


def test_cut_link(lab):
    seconds, pause, _ = measured(lab, "cut")
    print(seconds, pause)
    assert seconds[3] == 0 < min(seconds[1], sum(seconds[4:])), "connections survive it, because TCP sends again"
    assert pause > 1.9 * S


@pytest.mark.parametrize("how", ["measure", "up", "down"])
def test_next_run_repairs_after_killed_run(lab, how):
    folder, store = lab
    key = projects.run(folder, *of("both", "plan")).split()[-1]
    process = projects.begin(folder, *of("both", "measure", key))

    def harmed():
        assert process.poll() is None, process.communicate()[0]
        link = store.link("front.0", "") if (store.folder / "faults.json").exists() else None
        return link if link and down(link) and slowed(link) else None

    link = managed.until(harmed, 120)
    process.kill()
    process.wait()
    assert down(link) and slowed(link)
    output = projects.run(folder, *of("both", how, key if how == "measure" else "xr"))
    assert "xr: undid cut of xrootd-1, which was left behind" in output and "xr: undid slow of xrootd-1," in output, (
        output
    )
    assert not (store.folder / "faults.json").exists()
    if how == "down":
        assert not store.actors()
        return
    assert not down(link) and not slowed(link) and store.status().state == "up"
    record = folder / "results" / "both" / "raw" / key / "run.json"
    assert record.exists() == (how == "measure")


def test_shaped_link_stays_shaped():
    """Slow the link behind the token bucket of a testbed and take it back; routes come back with the link."""
    link = {"device": "far", "namespace": NAMESPACE}
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    try:
        for words in ("link add far type veth peer name near", "addr add 10.254.250.1/30 dev far", "link set near up"):
            network._ip(link, *words.split())
        network._ip(link, "link", "set", "far", "up")
        network._ip(link, "route", "add", "10.254.251.0/24", "via", "10.254.250.2")
        bucket = "rate 200mbit burst 64kb latency 50ms"
        network._tc(link, "qdisc", "add", "dev", "far", "root", "handle", "1:", "tbf", *bucket.split())
        shaped = network._tc(link, "qdisc", "show", "dev", "far")
        network.slow(link, {"rate_bytes_per_s": 1_000_000})
        assert slowed(link) and "200Mbit" in network._tc(link, "qdisc", "show", "dev", "far")
        network.quick(link)
        network.quick(link)
        assert network._tc(link, "qdisc", "show", "dev", "far") == shaped
        lost = network.routes(link)
        assert len(lost) == 1 and lost[0].startswith("10.254.251.0/24 via 10.254.250.2")
        network.cut(link)
        assert down(link)
        network.join(link, lost)
        assert not down(link) and network.routes(link) == lost
    finally:
        subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)
