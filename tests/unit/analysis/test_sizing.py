"""`storelab size`: the clients that fill a link, and the size of their records, for a campaign with known rates."""

import pandas as pd
import pytest
from click.testing import CliRunner
from make_examples import make

from campaigns import built
from storelab.analysis import sizing
from storelab.analysis.records.campaign import Campaign, load
from storelab.analysis.tables import build
from storelab.cli import cluster
from storelab.core.errors import UserError

SWEEPS = {"down": {"workload": "get", "duration": "4 s", "axes": {"object_size": "10 MB", "clients": [1, 2]}}}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """Return folders with tables: without a calibration, and with one."""
    calibrated = tmp_path_factory.mktemp("campaign")
    make(calibrated, repetitions=1, failed=(), calibrate=True, sweeps=SWEEPS)
    build.build(calibrated, ["calibration", "throughput"])
    return {False: built("example"), True: calibrated}


def one(folder, operation, size):
    found = {name: build.read(folder, name) for name in ("calibration", "throughput")}
    return sizing.one_client(load(folder), found, operation, "s5cmd", size)


def test_one_client_does_what_it_did_at_most(campaign):
    client = one(campaign[False], "get", 10_000_000)  # 20 of 10 MB/s at each of two front-ends
    assert client.bytes_per_s == pytest.approx(400e6, rel=0.01) and client.source == "its highest rate in example"


def test_or_what_it_reached_at_the_near_null_server(campaign):
    client = one(campaign[True], "get", 10_000_000)  # 1.2 times that before, a twentieth less after the campaign
    assert client.bytes_per_s == pytest.approx(480e6, rel=0.06) and client.source.startswith("its ceiling")


def test_unmeasured_parts_name_measured_ones(campaign):
    with pytest.raises(UserError, match=r"has no measurement of get of 5 B by s5cmd; use one of: .*get s5cmd 4000 B"):
        one(campaign[False], "get", 5)


def test_the_largest_size_that_was_measured_is_the_default(campaign):
    for folder in campaign.values():
        found = {name: build.read(folder, name) for name in ("calibration", "throughput")}
        measured = {p["axes"]["object_size"] for p in load(folder).plan["points"] if p["workload"] == "get"}
        assert sizing.largest(found, "get", "s5cmd") == max(measured) == 10_000_000
        assert sizing.largest(found, "get", "obstore") is None
    with pytest.raises(UserError, match=r"has no measurement of get by obstore; use one of: "):
        sizing.one_client(load(folder), found, "get", "obstore", None)


def test_largest_size_with_a_rate_is_used():
    rates = {"workload": "get", "engine": "s5cmd", "object_size_bytes": [4000, 10**6, 10**8, 10**9]}
    found = pd.DataFrame(rates | {"rate_median_per_s": [9.0, 5.0, 1.0, None]})
    ceilings = found.rename(columns={"workload": "operation", "rate_median_per_s": "rate_per_s"})
    ceilings = ceilings.assign(target="network", object_size_bytes=2 * ceilings["object_size_bytes"])
    others = ((ceilings.iloc[:0], 10**8), (ceilings.assign(target="null"), 10**8))
    for calibration, largest in ((ceilings, 2 * 10**8), *others):
        assert sizing.largest({"calibration": calibration, "throughput": found}, "get", "s5cmd") == largest


@pytest.mark.parametrize(
    ("link", "own", "most", "clients"), [(2.5e9, 125e6, 400e6, 20), (2.5e9, 1.25e9, 400e6, 7), (1e8, 1e8, 1e8, 1)]
)
def test_clients_for(link, own, most, clients):
    assert sizing.clients_for(link, own, most) == clients


def test_the_command(campaign):
    arguments = ["--link", "20 Gbit/s", "--client-link", "1 Gbit/s", "--campaign-dir", str(campaign[False])]
    found = CliRunner().invoke(cluster.size, arguments, catch_exceptions=False).output
    assert "one client (s5cmd, get of 10 MB)" in found and "20 clients fill 20 Gbit/s" in found
    assert all(f"{n:5d} clients, 100 points" in found for n in (20, 64, 512, 5000))


def test_bytes_of_records_per_operation_and_client(tmp_path):
    sizes = {"a": {"ops.0": 300}, "b": {"ops.0": 500, "ops.1": 200, "monitor.0": 40}}
    files = {key: {f"{name}.parquet": {"bytes": size} for name, size in own.items()} for key, own in sizes.items()}
    (tmp_path / "raw/a").mkdir(parents=True)
    (tmp_path / "raw/a/run.json").write_bytes(bytes(50))
    clients = {"a": [{"operations": 100}], "b": [{"operations": 300}, {"operations": 100}]}
    runs = {key: {"clients": clients[key], "files": files[key]} for key in sizes}
    campaign = Campaign(tmp_path, {}, runs, {})
    assert sizing.record_bytes(campaign) == (1000 / 500, 90 / 3)
    assert sizing.estimate(campaign, 10, 4, 60, 2.0) == {
        **{"operations a point": 1200, "records a point": 1200 * 2 + 10 * 30},
        **{"records of the campaign": 4 * 2700, "files of the campaign": 4 * 12},
    }
    with pytest.raises(UserError, match="no operation"):
        sizing.record_bytes(Campaign(tmp_path, {}, {"a": {"clients": [{"operations": 0}], "files": {}}}, {}))
