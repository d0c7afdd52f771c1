"""Every managed store through the whole way, from configuration to record: put, get and ranges by fsspec, put and get by s5cmd on S3.

What each can do besides is in test_probe.py; how each starts and stops in the file of its own.
"""

import ports
import pytest
from laboratory import holds, needs_xrootd

from storelab.core import stores
from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores import make

pytestmark = pytest.mark.heavy
# SeaweedFS is in nearly every other test; the null server keeps nothing; XRootD needs a subnet, see below; test_mounted.py has what is mounted.
ELSEWHERE = ("seaweedfs", "nullserver", "xrootd")
STORES = [
    k for k in stores.KINDS if stores.load(k).managed and stores.load(k).protocol != "file" and k not in ELSEWHERE
]
BOTH = {"workers": 3, "clients": 2, "object_size": "20 kB"}
SLOW = {"duration": "4 s"}  # a busy machine, and HDFS with 20 files a second
SHORT = {"duration": "2 s"}
# Uploads that begin a new folder together race (docs/stores/rclone.md).
MAY_FAIL = {"rclone": {"InternalError"}}


def settled(kind, measure, tries=4):
    """What `measure` returns; again, a few times, where the store's own race failed some of it."""
    races = MAY_FAIL.get(kind, set())
    try:
        measured = measure()
        if tries == 1 or not races & {r["error"] for _, _, rows in measured for r in rows}:
            return measured
    except MeasurementFailed as error:
        if tries == 1 or not any(race in str(error) for race in races):
            raise
    return settled(kind, measure, tries - 1)


def measures(lab, settings, protocol, tmp_path):
    """Skips with the line that installs the store."""
    try:
        make("one", stores.load(settings["kind"]).Settings(**settings), tmp_path / "look").require()
    except UserError as error:
        pytest.skip(str(error))
    window = SLOW if settings["kind"] in ("ceph", "hdfs") else SHORT
    sweeps = {name: {"workload": name, "axes": BOTH | {"engine": "fsspec"}, **window} for name in ("put", "get")}
    sweeps["range"] = {"workload": "get_range", "axes": BOTH | {"object_size": "1 MB", "range_size": "5 kB"}, **window}
    holds(settled(settings["kind"], lambda: lab(settings, **sweeps)), protocol)
    if protocol == "s3":
        s5cmd = {name: {"workload": name, "axes": BOTH, **window} for name in ("put", "get")}
        for _, record, rows in settled(settings["kind"], lambda: lab(settings, **s5cmd)):
            failed = [r["error"] for r in rows if r["error"]]
            assert record["engine"]["name"] == "s5cmd" and len(rows) > 10
            assert len(failed) < 0.05 * len(rows) and set(failed) <= MAY_FAIL.get(settings["kind"], set())


@pytest.mark.parametrize("kind", STORES)
def test_store(lab, tmp_path, kind):
    measures(lab, {"kind": kind, "port": ports.block()}, stores.load(kind).protocol, tmp_path)


@needs_xrootd[0]
@needs_xrootd[1]
@pytest.mark.parametrize("protocol", ["root", "http"])
def test_xrootd(lab, tmp_path, protocol):
    measures(lab, {"kind": "xrootd", "protocol": protocol, "subnet": "10.213.92.0/30"}, protocol, tmp_path)


@pytest.mark.parametrize("redundancy", ["replica-2", "ec-2-1"])
def test_space_of_ceph(lab, tmp_path, redundancy):
    """Two copies take twice the bytes, two data shards and one of parity one and a half times."""
    settings = {"kind": "ceph", "port": ports.block(224)}
    try:
        make("one", stores.load("ceph").Settings(**settings), tmp_path / "look").require()
    except UserError as error:
        pytest.skip(str(error))
    axes = {"object_size": "2 MB", "workers": 4, "redundancy": redundancy, "backing": "disk"}
    ((_, record, _),) = lab(settings, space={"workload": "space", "axes": axes, **SLOW})
    observed = record["observed"]
    ratio = (observed["used_after_put_bytes"] - observed["used_before_bytes"]) / observed["stored_bytes"]
    assert record["store"]["deployment"]["redundancy"] == redundancy
    assert ratio == pytest.approx({"replica-2": 2, "ec-2-1": 1.5}[redundancy], rel=0.15)
