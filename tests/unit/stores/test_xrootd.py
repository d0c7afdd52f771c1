"""XRootD with several data servers: their addresses, configuration and answers, and one tree over all of them."""

import socket
import struct
import subprocess
import threading
from pathlib import Path

import pytest
from memory_access import MemoryAccess
from refusals import refusal

from storelab.core.errors import MeasurementFailed, UserError
from storelab.engines.fsspec import ServerReads
from storelab.install import tools_folder
from storelab.stores.base import difference
from storelab.stores.managed import base, network
from storelab.stores.managed.network import Lan
from storelab.stores.protocols.access import BucketExists, NoSuchBucket
from storelab.stores.xrootd import asking
from storelab.stores.xrootd import store as module
from storelab.stores.xrootd.store import JoinedAccess, Settings, XRootD


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """Nothing is started, so that the tests do not depend on an installed XRootD."""
    monkeypatch.setattr(XRootD, "find_program", lambda self, name, version=None: Path("/usr/bin", name))
    for asks in (module, network):
        monkeypatch.setattr(asks, "program", lambda name, kind, place: Path("/usr/bin", name))


def store(tmp_path, **settings) -> XRootD:
    return XRootD("xr", Settings(kind="xrootd", **settings), tmp_path)


def names(stages) -> list[set[str]]:
    return [set(stage) for stage in stages]


def test_daemons_start_in_stages(tmp_path):
    one = store(tmp_path)
    assert names(one.stages(["xrootd-1"])) == [{"xrootd-1"}] and one.data_actors() == [] and one.request_counts() == {}
    two = store(tmp_path, servers=2)
    assert names(two.stages(["redirector-1", "redirector-2"])) == [
        {"manager-1", "manager-2"},
        {"cmsd-1", "cmsd-2"},
        {"server-1", "server-2", "redirector-1", "redirector-2"},
    ]
    assert names(store(tmp_path, servers=2, gateway="proxy").stages(["proxy-1", "proxy-2"])) == [
        {"manager-1"},
        {"cmsd-1", "cmsd-2"},
        {"server-1", "server-2", "redirector-1"},
        {"proxy-1", "proxy-2"},
    ]
    assert two.data_actors() == ["server-1", "server-2"] and two.most("front_ends") == 4 and one.most("front_ends") == 1
    assert two.daemon("server-1").argv != two.daemon("server-2").argv, "their command lines differ"
    assert two.objects("s1") != two.objects("s2")


def test_nodes_have_separate_addresses_and_one_port(tmp_path):
    """Clients are redirected between them; received bytes are counted by the port (`engines/common/wire.py`)."""
    cluster = store(tmp_path, servers=16)
    addresses = [cluster.address_of(node) for node in cluster.all_nodes()]
    assert len({*addresses, cluster.namespace.ours}) == 25 and cluster.namespace.ours == "10.213.77.1"
    assert cluster.daemon("server-16").ports == cluster.daemon("redirector-1").ports == (10940,)
    assert cluster.node_of("cmsd-3") == cluster.node_of("server-3") == "s3"
    assert cluster.endpoint("redirector-2").url == f"root://{cluster.address_of('r2')}:10940/"
    assert store(tmp_path, servers=2, protocol="http").endpoint("redirector-1").url == "http://10.213.77.2:10940"
    assert store(tmp_path, protocol="http").endpoint("xrootd-1").url == "http://10.213.77.2:10941"


def test_subnets_are_large_enough_and_separate(tmp_path):
    cluster = store(tmp_path, servers=2)
    assert cluster.moved(cluster.settings, 2).subnet == "10.213.77.64/27"
    assert store(tmp_path).moved(Settings(kind="xrootd", subnet="10.1.2.0/30"), 3).subnet == "10.1.2.12/30"
    with pytest.raises(UserError, match=r"stores\.xr\.subnet: .* 2 addresses, but 11 "):
        _ = store(tmp_path, servers=2, subnet="10.213.77.0/30").namespace
    lan = Lan("sl-x", "10.9.8.0/28", "stores.x", [f"s{i}" for i in range(13)])
    assert lan.addresses["s12"] == "10.9.8.14"
    assert "10.9.8.0/27" in refusal(Lan, "sl-x", "10.9.8.0/28", "stores.x", [f"s{i}" for i in range(14)])


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def test_configuration_of_each_daemon(tmp_path):
    cluster = store(tmp_path, servers=3)
    cluster._requested = 2
    server, redirector = lines(cluster.text("s2")), lines(cluster.text("r2"))
    assert [line for line in server if line.startswith("all.manager")] == [
        "all.manager all 10.213.77.2:10941",
        "all.manager all 10.213.77.3:10941",
    ]
    assert "all.role server" in server and f"oss.localroot {cluster.root()}/objects" in server
    assert "all.role manager" in redirector and "all.manager 10.213.77.3:10941" in redirector
    assert not [line for line in redirector if line.startswith("oss.")]
    proxy = lines(store(tmp_path, servers=3, gateway="proxy").text("p1"))
    assert "pss.origin 10.213.77.2:10940" in proxy and "ofs.osslib libXrdPss.so" in proxy
    assert cluster.timeouts()["cms.delay lookup"] == 1 and store(tmp_path).timeouts() == {}


def test_tls_excludes_all_other_protocols(tmp_path):
    plain, secure = (store(tmp_path, servers=2, gateway="proxy", tls=tls) for tls in (False, True))
    for node in ("r1", "s1", "p1"):
        assert "xrootd.tls all" in lines(secure.text(node)), node
        assert "tls" not in plain.text(node).replace("https2http", ""), node
        assert secure._configuration(node) != plain._configuration(node), "one is not taken for the other"
    assert secure.endpoint("proxy-1").url.startswith("roots://") and secure.endpoint("proxy-1").ca_file
    assert plain.endpoint("proxy-1").ca_file is None


def test_jobs_run_on_nodes_of_the_data(tmp_path):
    cluster = store(tmp_path, servers=2, jobs_on_servers=True)
    nodes = [cluster.command_prefix(client)[1].rpartition("-")[2] for client in range(5)]
    assert nodes == ["s1", "s2", "s1", "s2", "s1"]
    assert store(tmp_path, servers=2).command_prefix(0) == () == store(tmp_path).command_prefix(1)
    assert refusal(store(tmp_path, jobs_on_servers=True).require).startswith("stores.xr.jobs_on_servers: ")


def test_client_counts_answers_of_its_own_host():
    answered = ServerReads()
    for server, size in (("127.0.0.1:1094", 5), ("192.0.2.1:1094", 7), ("127.0.0.1:1094", 6)):
        answered.add(server, size)
    assert answered.record() == [
        {"server": "127.0.0.1:1094", "operations": 2, "bytes": 11, "local": True},
        {"server": "192.0.2.1:1094", "operations": 1, "bytes": 7, "local": False},
    ]


# Statistics


STATISTICS = b"""<statistics tod="1" ver="v5.5.3" src="h:10940" tos="0" pgm="xrootd" ins="anon" pid="77" site="">
<stats id="info"><host>h</host></stats><stats id="link"><num>1</num><in>1000</in><out>5000000</out></stats>
<stats id="xrootd"><num>2</num><ops><open>7</open><rf>0</rf><rd>5</rd><pr>0</pr><rv>3</rv><rs>90</rs><wv>0</wv>
<ws>0</ws><wr>2</wr></ops><err>1</err><rdr>4</rdr><dly>6</dly></stats></statistics>\0"""


def test_statistics_of_a_server_are_parsed():
    assert asking.counts(STATISTICS) == {
        **{"opens": 7, "reads": 5, "vector_reads": 3, "writes": 2, "redirects": 4, "waits": 6, "errors": 1},
        **{"bytes_in": 1000, "bytes_out": 5_000_000, "pid": 77},
    }
    for wrong in (b"", b"<statistics/>", STATISTICS.replace(b'id="link"', b'id="other"')):
        with pytest.raises(MeasurementFailed, match="cannot be parsed"):
            asking.counts(wrong)


def answer(status: int, body: bytes) -> bytes:
    return struct.pack("!2sHi", b"\0\1", status, len(body)) + body


@pytest.fixture
def speaker():
    """Return a function that starts a server which sends these bytes after the login, and returns its port."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(said: bytes) -> None:
        with listening.accept()[0] as s:
            s.recv(20, socket.MSG_WAITALL)
            s.sendall(struct.pack("!HHi", 0, 0, 8) + bytes(8))
            s.recv(24, socket.MSG_WAITALL)
            s.sendall(answer(0, bytes(8)))
            s.recv(24, socket.MSG_WAITALL)
            s.sendall(answer(0, bytes(16)))
            s.recv(1000)
            s.sendall(said)

    def start(said: bytes) -> int:
        threading.Thread(target=serve, args=(said,), daemon=True).start()
        return listening.getsockname()[1]

    yield start
    listening.close()


def test_server_gets_requests_in_its_protocol(speaker):
    half = len(STATISTICS) // 2
    port = speaker(answer(4000, STATISTICS[:half]) + answer(0, STATISTICS[half:]))
    assert asking.served("127.0.0.1", port)["opens"] == 7


def test_redirector_lists_its_data_servers(speaker):
    two = ["10.213.77.10:10940", "10.213.77.11:10940"]
    for sent, known in (
        (b"Sw[::10.213.77.10]:10940 Sr10.213.77.11:10940\0", two),
        (b"sw[::10.213.77.10]:10940 Mw10.213.77.11:10940", []),  # does not answer just now; another redirector
        (b"\0", []),
    ):
        assert asking.servers_known("127.0.0.1", speaker(answer(0, sent))) == known


def test_server_without_answer_is_an_error(speaker):
    for sent in (b"", answer(4003, b"\0\0\x0b\xc3no\0"), b"\0\1"):
        with pytest.raises(MeasurementFailed, match="does not answer"):
            asking.served("127.0.0.1", speaker(sent), timeout=1.0)


def test_difference_of_statistics():
    before, after = {"opens": 5, "bytes_out": 100, "pid": 1}, {"opens": 7, "bytes_out": 400, "pid": 1}
    assert difference(before, after) == {"state": "whole", "opens": 2, "bytes_out": 300}
    assert difference(before, after | {"pid": 2}) == {"state": "restarted", "opens": 7, "bytes_out": 400}
    assert difference(None, after) == {"state": "restarted", "opens": 7, "bytes_out": 400}
    assert difference(before, None) == {"state": "silent"}


# One tree over all servers


class Way(MemoryAccess):
    """A data server in memory, which may be lost."""

    lost = False

    def _bucket(self, bucket):
        if self.lost:
            raise UserError("stores.x", "it cannot be reached")
        return super()._bucket(bucket)

    def holds(self, bucket, key=""):
        if self.lost:
            self._bucket(bucket)
        return key in self.files.get(bucket, {}) if key else bucket in self.files


@pytest.fixture
def joined():
    return JoinedAccess([Way(), Way(), Way()], "stores.x")


def test_several_servers_are_one_tree(joined):
    joined.make_bucket("b")
    bodies = {f"d{i}/k{i}": bytes([i]) * i for i in range(60)}
    for key, body in bodies.items():
        joined.write("b", key, body)
    assert {key: joined.read("b", key) for key in bodies} == bodies
    assert dict(joined.keys("b")) == {key: len(body) for key, body in bodies.items()}
    assert min(len(way.files["b"]) for way in joined.ways) > 10 and joined.prefixes("b", "") == sorted(
        f"d{i}/" for i in range(60)
    )
    joined.delete("b", ["d1/k1", "d2/k2"])
    assert joined.read("b", "d1/k1") is None and len(list(joined.keys("b"))) == 58
    joined.drop_bucket("b")
    assert joined.bucket_names() == [] and not any(way.files for way in joined.ways)
    with pytest.raises(NoSuchBucket):
        joined.read("b", "d3/k3")
    with pytest.raises(NoSuchBucket):
        list(joined.keys("b"))


def test_replaced_file_stays_on_its_server(joined):
    """A file that a redirector put on another server is not written a second time."""
    joined.make_bucket("b")
    for i, way in enumerate(joined.ways):
        way.files["b"][f"k{i}"] = b"old"
    for i in range(3):
        joined.write("b", f"k{i}", b"new")
    assert [way.files["b"] for way in joined.ways] == [{f"k{i}": b"new"} for i in range(3)]


def test_bucket_is_made_on_all_servers(joined):
    joined.ways[1].make_bucket("b")
    joined.make_bucket("b")  # it was there on one
    assert all("b" in way.files for way in joined.ways)
    with pytest.raises(BucketExists):
        joined.make_bucket("b")


def test_lost_server_hides_nothing(joined):
    joined.make_bucket("b")
    keys = [f"k{i}" for i in range(30)]
    for key in keys:
        joined.write("b", key, b"x")
    joined.ways[0].lost = True
    for key in keys:
        if key in joined.ways[0].files["b"]:
            with pytest.raises(UserError, match="cannot be reached"):  # not `None`: it may still be there
                joined.read("b", key)
        else:
            assert joined.read("b", key) == b"x"


def test_version_selects_the_programs(tmp_path, monkeypatch):
    """A running server of another version is replaced, because its command line differs."""
    host, new = store(tmp_path), store(tmp_path, version="5.8")
    assert host.enter_release() == () and new.enter_release()[-1].endswith("xrootd-5.8-trixie")
    ours, theirs = (one.daemon("xrootd-1") for one in (host, new))
    assert ours.argv[0] == theirs.argv[0] == "/usr/bin/xrootd" and ours.argv != theirs.argv
    assert " ".join(new.enter_release()) in " ".join(theirs.prefix)
    with monkeypatch.context() as patch:
        patch.setattr(XRootD, "find_program", lambda self, name, version=None: Path("/tools/usr/bin", name))
        assert new.daemon("xrootd-1").argv[0] == "/usr/bin/xrootd", "the server's user may not read the tools folder"
    assert "does not have XRootD 9" in refusal(new.release, "9"), "an upgrade names another version"
    message = refusal(lambda: store(tmp_path, version="4.12").release())
    assert message.startswith("stores.xr.version: storelab does not have XRootD 4.12; use one of: 5.8")


def test_program_of_a_version_is_asked_with_its_libraries(tmp_path, monkeypatch):
    asked = []

    def run(command, *_):
        asked.append(list(map(str, command)))
        return subprocess.CompletedProcess(command, 0, "", "v5.8.4\n")

    monkeypatch.setattr(base.processes, "run_command", run)
    one = store(tmp_path)
    (release,) = XRootD.releases.values()
    for program, prefix in ((Path("/usr/bin/xrootd"), ()), (release.folder(tools_folder()) / "bin/x", release.enter())):
        assert one.ask_version(program) == "5.8.4" and asked.pop() == [*prefix, str(program), "-v"]


def test_version_is_refused_where_it_cannot_run(tmp_path, monkeypatch):
    store(tmp_path).require_release()
    below = refusal(store(Path("/usr/share/lab"), version="5.8").require_release)
    assert below.startswith("stores.xr.version: /usr/share/lab/xr is below /usr")
    monkeypatch.setattr(XRootD, "enter_release", lambda self, version=None: ("sh", "-c", "echo no rights >&2; exit 1"))
    message = refusal(store(tmp_path, version="5.8").require_release)
    assert "cannot mount the programs of another version: no rights; run storelab as root" in message


def test_upgraded_daemon_runs_the_other_version(tmp_path):
    one = store(tmp_path)
    before = one.daemon("xrootd-1")
    one.versions["xrootd-1"] = "5.8"
    after = one.daemon("xrootd-1")
    assert after.argv == store(tmp_path, version="5.8").daemon("xrootd-1").argv != before.argv
    assert len(after.prefix) > len(before.prefix)
