"""Days of a release published by cvmfs_swissknife to a real SeaweedFS, through a proxy that counts."""

import json
import os
import re
import signal
import threading
from urllib.parse import urlsplit

import projects
import psutil
import pyarrow.parquet as pq
import pytest
from counting_proxy import HttpProxy
from laboratory import configured, missing
from managed import until
from release_reader import restore

from storelab.analysis.tables import build
from storelab.core import integrity
from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import MeasurementFailed
from storelab.datasets.release import catalogs, names
from storelab.datasets.release.build import Release
from storelab.measure import check, plan_file, point
from storelab.stores import all_stores
from storelab.workloads import WORKLOADS
from storelab.workloads.distribution import proof, served, tool
from storelab.workloads.staging import buckets, stage, written

MISSING = missing(tool.binary)
needs_the_tool = pytest.mark.skipif(bool(MISSING), reason=f"no package: {MISSING}")
pytestmark = [pytest.mark.real, pytest.mark.heavy, needs_the_tool]
REPOSITORY = "sw.example.org"
RELEASE = {"repository": REPOSITORY, "factor": 0.0003, "days": 3, "nights": 2}
MARKER = b"/.cvmfscatalog"


def kind(target: str) -> str:
    """Return the part of a repository that a request is about."""
    last = target.partition("?")[0].rpartition("/")[2]
    if last.startswith(".cvmfs"):
        return last
    if "/data/" not in target:
        return "other"
    return {"C": "catalog", "P": "chunk", "X": "certificate"}.get(last[-1], "data")


@pytest.fixture
def proxy(seaweedfs):
    parts = urlsplit(seaweedfs.endpoints(1)[0].url)
    with HttpProxy(parts.hostname, parts.port, kind) as one:
        yield one


def campaign(url, tmp_path, seconds=60):
    """Return the configuration and the points of a campaign, whose project folder is `tmp_path`."""
    stores, axes = {"one": {"kind": "s3", "endpoint": url, "prefix": "tool"}}, {"days": 3, "engine": "cvmfs"}
    sweeps = {"own": {"workload": "publish", "duration": f"{seconds} s", "warm_up": "0 s", "axes": axes}}
    projects.write(tmp_path, "lab", stores, sweeps, release=RELEASE)
    return configured(tmp_path, stores, sweeps, release=RELEASE, state=str(tmp_path / ".storelab"))


def shown_by_the_generator(tmp_path) -> dict:
    """Return the entry at each path after the last day."""
    bucket, release = {}, Release(Settings.model_validate(RELEASE))
    for n in range(1, 4):
        day = release.day(n, tmp_path / "generated")
        bucket |= {item.key.partition("/")[2]: day.path(item).read_bytes() for item in day.objects()}
    return restore(day.facts["root_catalog"], bucket.__getitem__)


def held(proxy, when) -> None:
    """Hold all answers from the request on at which `when` is true."""

    def request_kind(target):
        if when():
            proxy.flowing.clear()
        return kind(target)

    proxy.kind = request_kind


def running() -> list[int]:
    found = psutil.process_iter(["name"])
    return [p.pid for p in found if (p.info["name"] or "").startswith(tool.NAME[:15])]


def all_ended() -> None:
    """Wait for the watchdog, which ends when it notices that the program has ended."""
    until(lambda: not running(), 10)


def test_days_by_the_tool_are_whole_and_counted(proxy, keys, seaweedfs, tmp_path):
    config, (planned,) = campaign(proxy.url, tmp_path)
    check.everything(config, [planned], WORKLOADS, all_stores(config))
    plan_file.write(config, [planned], WORKLOADS)
    proxy.reset()
    run = point.point(config, [planned], planned.key).to_json()
    checks = {c["name"]: c for c in run["checks"]}
    assert checks.keys() == {"days", "stratum 0 whole"} and all(c["ok"] for c in checks.values()), checks
    assert re.fullmatch(r"cvmfs_swissknife \d+\.\d+\.\d+.*", run["engine"]["version"])
    rows = pq.read_table(config.raw / planned.key / "days.0.parquet").to_pylist()
    assert [(r["day"], r["state"], r["prepare_ns"]) for r in rows] == [(n, "published", None) for n in (1, 2, 3)]

    # The tree is the generator's: the third night is where the first one was.
    store = all_stores(config)["one"]
    bucket, access = stage.buckets_of(config, store, 1)[0], store.access(0)
    prefix = f"put/{run['attempt']}/"
    fetch = proof.reader(access, bucket, prefix)
    fields = names.manifest_fields(fetch(f"{REPOSITORY}/{names.MANIFEST}"))
    assert fields["S"] == "3" and fields["N"] == REPOSITORY
    shown = restore(fields["C"], lambda key: fetch(f"{REPOSITORY}/{key}"), by_the_tool=True)
    wanted = shown_by_the_generator(tmp_path)
    assert {p: e for p, e in shown.items() if not p.endswith(MARKER)} == wanted and len(wanted) > 100
    roots = catalogs.reflog_roots(fetch(f"{REPOSITORY}/{names.REFLOG}"))
    assert len(roots) == 4 and fields["C"] in roots  # that of the empty repository, too

    # What the program counted is what went over the wire, and what is stored; storelab itself asked for the rest.
    listed = {k.partition(f"{prefix}{REPOSITORY}/")[2]: n for k, n in access.keys(bucket.name, bucket.prefix + prefix)}
    stored = {k: n for k, n in listed.items() if k.startswith("data/") and not k.endswith("X")}
    whole = sum(r["stored"] for r in rows) + 1  # the root catalog of the empty repository
    puts, heads = ({what: n for (m, what), n in proxy.kinds.items() if m == method} for method in ("PUT", "HEAD"))
    # Files of the same content that are under way at once are sent more than once: here the empty markers.
    assert puts["data"] + puts["catalog"] == whole and whole - 10 < len(stored) <= whole
    assert heads["data"] + heads["catalog"] == whole + sum(r["skipped"] for r in rows)
    assert abs(sum(stored.values()) - sum(r["bytes"] for r in rows)) < 20_000
    assert puts[".cvmfspublished"] == puts[".cvmfsreflog"] - 1 == 4  # with the empty one; a reflog is made before
    assert set(listed) - set(stored) - {k for k in listed if k.endswith("X")} == {
        ".cvmfspublished",
        ".cvmfsreflog",
        ".cvmfswhitelist",
    }

    # Nothing is left behind: no process, no policy, no key, nothing on tmpfs.
    all_ended()
    url = f"{served.url_of(store.endpoints(1)[0], bucket, prefix)}/{REPOSITORY}/{names.MANIFEST}"
    assert "403" in served.denied_reason(url, store.endpoints(1)[0])
    secret = seaweedfs.credentials().secret_key.encode()
    for path in config.campaign_dir.rglob("*"):
        assert not path.is_file() or secret not in path.read_bytes(), path
    integrity.write_sums(config.raw)
    build.build(config.campaign_dir)
    table = build.read(config.campaign_dir, "releases")
    assert table["publication_median_s"].isna().all() and (table["whole_median_s"] > 0).all() and len(table) == 3
    gone = buckets.remove(store, config.name, written.noted(config, store))  # all of it is known as storelab's
    assert not gone.stays and gone.objects == len(listed)


def test_run_after_a_killed_one_is_whole(proxy, keys, tmp_path):
    config, (planned,) = campaign(proxy.url, tmp_path)
    held(proxy, lambda: proxy.kinds["PUT", ".cvmfspublished"] == 2 and proxy.kinds["PUT", "data"] > 60)
    process = projects.begin(tmp_path, "measure", planned.key)
    try:
        # The second day: its data come, and its manifest is not there (the empty repository's and the first day's are).
        until(lambda: not proxy.flowing.is_set() or process.poll() is not None)
        assert process.poll() is None, process.communicate()[0]
        assert proxy.kinds["PUT", ".cvmfspublished"] == 2 and running()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        proxy.kind = kind
        proxy.flowing.set()
    all_ended()
    assert not (config.raw / planned.key / "run.json").exists()
    projects.run(tmp_path, "measure", planned.key)
    run = json.loads((config.raw / planned.key / "run.json").read_text())
    assert run["valid"] and all(c["ok"] for c in run["checks"]), run["checks"]
    store = all_stores(config)["one"]
    gone = buckets.remove(store, config.name, written.noted(config, store))  # the killed one's objects, too
    assert not gone.stays


def test_deadline_in_mid_day_leaves_no_process(proxy, keys, tmp_path):
    short, (planned,) = campaign(proxy.url, tmp_path, seconds=3)
    plan_file.write(short, [planned], WORKLOADS)
    timers = []

    def in_the_middle():
        if proxy.kinds["PUT", "data"] > 20 and not timers:
            timers.append(threading.Timer(5, proxy.flowing.set))
            timers[0].start()
            return True
        return False

    held(proxy, in_the_middle)
    with pytest.raises(MeasurementFailed, match=r"of 3 days done, .*set a longer `duration`"):
        point.point(short, [planned], planned.key)
    all_ended()
