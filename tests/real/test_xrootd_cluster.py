"""XRootD with three data servers: clients are redirected, or served by a proxy, with TLS; a server is lost."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import managed
import pytest
import trustme
from laboratory import anything, bucket_for, needs_xrootd

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores.faults import Acts
from storelab.stores.protocols import filesystems
from storelab.stores.xrootd import asking
from storelab.stores.xrootd.store import Settings, XRootD
from storelab.workloads.staging import buckets

pytestmark = [pytest.mark.heavy, *needs_xrootd]
NET = f"10.{150 + os.getpid() % 40}.{os.getpid() // 40 % 250}"
# Writes, reads back, and reads two ranges through a door; in a separate process, for XRootD's client has threads.
CLIENT = """
import json, sys
from storelab.engines.fsspec import data_server_of_read
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.endpoint import Endpoint
end, folder, names = Endpoint(**json.loads(sys.argv[1])), sys.argv[2], sys.argv[3:]
fs, servers = filesystems.data(end, {}, 4), []
for name in names:
    with fs.open(f"/{folder}/{name}", "wb") as f:
        f.write(name.encode() * 1000)
    assert fs.cat_file(f"/{folder}/{name}", start=0, end=1000 * len(name)) == name.encode() * 1000
    servers.append(data_server_of_read(fs, f"/{folder}/{name}"))
assert fs.cat_ranges([f"/{folder}/{names[0]}"] * 2, [0, 7], [5, 17])[1] == (names[0].encode() * 1000)[7:17]
print(*servers)
"""


def new(state, index: int, **settings) -> XRootD:
    settings = {"servers": 3, "subnet": f"{NET}.{32 * index}/27"} | settings
    return XRootD("xr", Settings(kind="xrootd", **settings), state)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two redirectors, three data servers, TLS."""
    with managed.running(new(tmp_path_factory.mktemp("cluster"), 0, tls=True)) as store:
        store.up(front_ends=2)
        yield store


def ask(store: XRootD, front_end: int, folder: str, *names: str) -> list[str]:
    """Return the data server of each file that a client wrote and read through the redirector."""
    endpoint = json.dumps(asdict(store.endpoints(front_end + 1)[front_end]))
    command = [sys.executable, "-c", CLIENT, endpoint, folder, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout.split()


def test_clients_are_sent_to_all_servers(cluster):
    bucket, before = bucket_for(cluster, "sent"), cluster.request_counts()
    servers = ask(cluster, 0, bucket.name, "a", "b", "c")
    assert {s.rpartition(":")[0] for s in servers} == {cluster.address_of(f"s{i}") for i in (1, 2, 3)}  # round robin
    after = cluster.request_counts()
    opened = {n: after[n]["opens"] - before[n]["opens"] for n in cluster.servers()}
    assert sorted(opened.values()) == [2, 2, 3]  # written and read; two ranges of the first one
    assert after["redirector-2"]["opens"] == before["redirector-2"]["opens"]
    assert after["redirector-1"]["redirects"] - before["redirector-1"]["redirects"] >= 6
    # Each file is on the server that the client reports, and storelab's own way finds them all.
    for name, server in zip("abc", servers, strict=True):
        node = next(f"s{i}" for i in (1, 2, 3) if cluster.address_of(f"s{i}") == server.rpartition(":")[0])
        assert (cluster.objects(node) / bucket.name / name).read_bytes() == name.encode() * 1000
    access = cluster.access()
    mark = (".storelab", len(access.read(bucket.name, ".storelab")))
    assert sorted(access.keys(bucket.name, "")) == [mark, *((n, 1000) for n in "abc")]
    assert set(ask(cluster, 1, bucket.name, "a", "b", "c")) == set(servers)  # the other redirector finds them there
    assert buckets.remove(cluster, "sent", anything)[0] == 3 and bucket.name not in access.bucket_names()


def test_tls_servers_refuse_clear_text(cluster):
    for node in ("r1", "s1"):
        host, port = cluster.address_of(node), cluster.settings.port
        assert asking.served(host, port, cluster.ca_file())["pid"]
        with pytest.raises(MeasurementFailed, match="does not answer"):
            asking.served(host, port)  # without TLS
    assert all(p.stat().st_mode & 0o077 == 0 for p in cluster.folder.rglob("server.key"))


def test_other_authority_is_not_trusted(cluster, tmp_path):
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    with pytest.raises(MeasurementFailed, match="certificate verify failed"):
        asking.served(cluster.address_of("s1"), cluster.settings.port, str(tmp_path / "other.pem"))


def test_lost_server_is_reported_and_restarted(cluster):
    bucket = bucket_for(cluster, "lost")
    keys = [f"k{i}" for i in range(12)]
    for key in keys:
        cluster.access().write(bucket.name, key, key.encode())
    assert cluster.condition().state == "clean"
    acts = Acts(cluster)
    acts.ready({"act": "kill"}, "server-2")()
    managed.until(lambda: cluster.condition().state == "degraded")
    assert cluster.condition().detail == "redirector: 2 of 3 data servers"
    assert cluster.request_counts()["server-2"] is None
    lost = [p.name for p in (cluster.objects("s2") / bucket.name).iterdir()]
    with pytest.raises(UserError, match="cannot be reached"):  # not `None`: it is not gone
        cluster.access().read(bucket.name, lost[0])
    kept = next(k for k in keys if k not in lost)
    assert lost and cluster.access().read(bucket.name, kept) == kept.encode()
    acts.ready({"act": "restart"}, "server-2")()
    managed.until(lambda: cluster.condition().state == "clean")
    assert cluster.access().read(bucket.name, lost[0])


def test_servers_are_upgraded_during_use(cluster):
    """Two daemons of one host run the next version, and then the configured version again."""
    try:
        cluster.require_version("5.8", "u")
    except UserError as error:
        pytest.skip(str(error))
    bucket, bodies = managed.filled(cluster, "upgraded")
    acts, was = Acts(cluster), cluster.version()
    for actor in ("server-2", "cmsd-2"):
        assert f"{cluster.reported_version('5.8')} after {was}" in acts.ready({"act": "upgrade", "to": "5.8"}, actor)()
    pids = cluster.actors()
    own = {name: (Path(f"/proc/{pids[name]}/root/usr/bin/xrootd").stat().st_ino) for name in ("server-1", "server-2")}
    assert own["server-1"] == Path("/usr/bin/xrootd").stat().st_ino != own["server-2"]
    managed.until(lambda: cluster.condition().state == "clean")
    assert managed.intact(cluster, bucket, bodies) and cluster.version_of("server-2") != was
    assert len(set(ask(cluster, 0, bucket, *(f"n{i}" for i in range(9))))) == 3, "all three take new files"
    for _, undo in list(acts.take_all_back(restart=True)):
        undo()
    managed.until(lambda: cluster.condition().state == "clean")
    assert managed.intact(cluster, bucket, bodies) and cluster.version_of("server-2") == was


def test_proxy_joins_the_servers(tmp_path):
    with managed.running(new(tmp_path / "state", 1, gateway="proxy", servers=2)) as store:
        store.up()
        assert list(store.deployment()["daemons"]) == ["manager", "cmsd", "server", "redirector", "proxy"]
        bucket, before = bucket_for(store, "joined"), store.request_counts()
        servers = ask(store, 0, bucket.name, "a", "b")
        assert {s.rpartition(":")[0] for s in servers} == {store.address_of("p1")}  # no client is redirected
        after = store.request_counts()
        assert [after[n]["opens"] - before[n]["opens"] >= 2 for n in store.servers()] == [True, True]
        fs = filesystems.data(store._at("p1", "http"), {}, 4)
        listed = {name for name in "ab" if fs.cat_file(f"{store._url('p1', 'http')}/{bucket.name}/{name}")}
        assert listed == {"a", "b"}
        os.kill(store.actors()["server-1"], signal.SIGKILL)  # and `up` repairs it
        store.up()
        assert store.condition().state == "clean" and store.status().state == "up"


def test_killed_in_the_middle_of_up(tmp_path):
    """With a part of the nodes there, or a part of the daemons: `down` leaves nothing."""
    code = (
        "import os, sys; from pathlib import Path; from storelab.stores.xrootd.store import Settings as S\n"
        "from storelab.stores.xrootd.store import XRootD\n"
        "s = XRootD('xr', S(kind='xrootd', servers=2, subnet=sys.argv[2]), Path(sys.argv[1]))\n"
        "die = lambda *a, **k: os.kill(os.getpid(), 9)\n"
        "if sys.argv[3] == 'daemon': s.daemons.wait_healthy = die\n"
        "else:\n"
        "    real = s.namespace._attach\n"
        "    s.namespace._attach = lambda node: die() if node == 's2' else real(node)\n"
        "s.up()"
    )
    store = new(tmp_path, 2, servers=2)
    for where in ("node", "daemon"):
        command = [sys.executable, "-c", code, str(tmp_path), store.settings.subnet, where]
        assert subprocess.run(command, check=False).returncode == -9 and store.namespace.exists()
        store.down()
        assert managed.left_behind(store) == [] and not store.namespace.exists()
