"""davix against servers on this machine: its bytes and requests, compared with those of a counting proxy."""

import subprocess
from urllib.parse import urlsplit

import managed
import ports
import pytest
from counting_proxy import CountingProxy
from laboratory import missing, needs_xrootd
from staged_root import failed, prepared, read, staged_root
from store_clients import for_store

from storelab.engines import davix_program
from storelab.engines.davix_program import DavixError, Program, url_of
from storelab.stores.protocols.endpoint import Bucket
from storelab.stores.protocols.filesystems import path
from storelab.workloads.probe import byteranges

BUCKET = "storelab-davix"


MISSING = missing(davix_program.binary)
pytestmark = [pytest.mark.real, pytest.mark.heavy, pytest.mark.skipif(bool(MISSING), reason=MISSING or "-")]
SYSTEMS = {
    "seaweedfs": {"kind": "seaweedfs"},
    "nginx": {"kind": "nginx"},
    "xrdhttp": {"kind": "xrootd", "protocol": "http"},
}
ONE_REQUEST = ("nginx", "xrdhttp")  # these answer several ranges


@pytest.fixture(scope="module", params=["seaweedfs", "nginx", pytest.param("xrdhttp", marks=needs_xrootd)])
def system(request, tmp_path_factory):
    """Return (name, store, endpoint, folder, facts) of a store with the S file."""
    folder = tmp_path_factory.mktemp(request.param)
    one = managed.made("one", managed.settings_of(**SYSTEMS[request.param]), folder / "state")
    one.up()
    try:
        with pytest.MonkeyPatch.context() as patch, staged_root(one, BUCKET, folder) as (endpoint, where, facts):
            keys = one.credentials(0)
            for name, value in (keys.environ() if keys else {}).items():
                patch.setenv(name, value)
            yield request.param, one, endpoint, where, facts
    finally:
        one.down()


@pytest.fixture
def asked(system):
    """Return (program, URL of the file behind a counting proxy, proxy, bytes of the file)."""
    _, _, endpoint, folder, _ = system
    place, wanted = urlsplit(endpoint.url), url_of(endpoint, path(endpoint, Bucket(BUCKET, "part/"), "good"))
    with CountingProxy(place.hostname, place.port) as proxy:
        one = Program(endpoint, 20)
        yield one, wanted.replace(endpoint.url.rstrip("/"), proxy.url), proxy, (folder / "s.root").read_bytes()
        one.close()


def test_objects_and_ranges(asked):
    one, url, proxy, data = asked
    assert one.get(url, len(data)) == data
    assert one.read(url, 12_345, 678) == data[12_345 : 12_345 + 678]
    assert (one.spent.requests, one.spent.several) == (proxy.requests, 0)
    assert one.spent.wire == proxy.received, "wire bytes are those of the proxy, to the byte"
    assert one.spent.requests == 2, "one request for each"


def test_several_ranges_are_counted(system, asked):
    """Ranges further apart than davix merges take one request if the server supports several, else one each."""
    one, url, proxy, data = asked
    ranges = byteranges.spread(40, min(len(data), 2_400_000))
    starts, sizes = [a for a, _ in ranges], [b - a + 1 for a, b in ranges]
    for again in (1, 2):
        assert [bytes(p) for p in one.vector(url, starts, sizes)] == [data[a : b + 1] for a, b in ranges]
        assert one.spent.requests == proxy.requests == again * (1 if system[0] in ONE_REQUEST else 41)
        assert one.spent.several == again, "each time it sends the request again, after any earlier answer"
    assert one.spent.statuses == {206 if system[0] in ONE_REQUEST else 200: 2}


@pytest.mark.parametrize(
    ("workload", "axes"), [("read_entries", {"entry_fraction": 1.0}), ("read_volume", {"volume_fraction": 5.0})]
)
def test_reads_are_right_and_counted_to_the_byte(system, workload, axes):
    _, _, endpoint, folder, facts = system
    place = urlsplit(endpoint.url)
    with CountingProxy(place.hostname, place.port) as proxy, prepared(BUCKET, folder, facts) as client:
        one = client(proxy.url, workload, {"engine": "davix"} | axes, protocol=endpoint.protocol)
        result = read(one, 2)
        assert not failed(result), result.checks
        reads = result.reads
        assert sum(reads["requests"]) == proxy.requests
        broken_off = system[0] not in ONE_REQUEST  # of such an answer, the kernel received less than was sent
        wire = sum(reads["wire_bytes"])
        assert wire == proxy.received or (broken_off and sum(reads["needed_bytes"]) < wire < proxy.received)
        assert result.engine["davix"]["for_several_ranges"] >= 1
        assert all(a >= n for a, n in zip(reads["asked_bytes"], reads["needed_bytes"], strict=True))


def test_wrong_byte_is_found(system):
    _, _, endpoint, folder, facts = system
    with prepared(BUCKET, folder, facts) as client:
        wanted = {"engine": "davix", "volume_fraction": 100.0}
        result = read(client(endpoint.url, "read_volume", wanted, "bad", protocol=endpoint.protocol), 1)
        assert "crc32" in failed(result)


def test_missing_object_is_an_error_with_a_kind(asked):
    one, url, _, _ = asked
    with pytest.raises(DavixError) as caught:
        one.get(url + "-not-there", 10)
    assert caught.value.kind == "FileNotFound"


def test_davix_get_reads_the_same(system, tmp_path):
    """The tool itself reads the file; on SeaweedFS by a signed URL, because it takes keys on its command line."""
    name, store, endpoint, folder, _ = system
    url = url_of(endpoint, path(endpoint, Bucket(BUCKET, "part/"), "good"))
    if name == "seaweedfs":
        where = {"Bucket": BUCKET, "Key": "part/good"}
        url = for_store(store).generate_presigned_url("get_object", Params=where, ExpiresIn=60)
    subprocess.run(["davix-get", url, str(tmp_path / "it")], check=True, capture_output=True, timeout=60)
    assert (tmp_path / "it").read_bytes() == (folder / "s.root").read_bytes()


def test_transfers_are_records(lab):
    """In a campaign: whole objects and ranges, two clients with two workers each, with the checks of every engine."""
    common = {"engine": "davix", "clients": 2, "workers": 2, "object_size": "100 kB"}
    measured = lab(
        {"kind": "seaweedfs", "port": ports.block()},
        whole={"workload": "get", "axes": common},
        some={"workload": "get_range", "axes": common | {"range_size": "10 kB"}},
    )
    for point, record, rows in measured:
        size = point.axes.get("range_size") or point.axes["object_size"]
        assert all(c["ok"] for c in record["checks"]) and {r["error"] for r in rows} == {None}
        assert {r["bytes"] for r in rows} == {size} and {r["client"] for r in rows} == {0, 1}
        assert record["engine"]["name"] == "davix" and record["engine"]["version"].startswith("davix 0.")
        assert set(record["engine"]["requests_per_operation"].values()) == {1}
