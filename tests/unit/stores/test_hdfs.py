"""HDFS: its configuration, its pinned jars, and the answers of WebHDFS and of the NameNode. No Java runs."""

import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
import requests
from programs import script
from refusals import check_refused, refusal

from storelab.core.errors import MeasurementFailed
from storelab.engines.common.error_classes import classify
from storelab.stores.hdfs import install
from storelab.stores.hdfs.store import HDFS, Settings, configuration
from storelab.stores.protocols import webhdfs


def store(tmp_path: Path, **settings) -> HDFS:
    return HDFS("h", Settings(kind="hdfs", port=21000, **settings), tmp_path)


def properties(text: str) -> dict[str, str]:
    return {p.findtext("name"): p.findtext("value") for p in ElementTree.fromstring(text)}


def test_configuration_is_xml_of_its_properties(tmp_path):
    odd = {"a": "<&>\"'", "b": 3}
    assert properties(configuration(odd)) == {"a": odd["a"], "b": "3"}
    files = HDFS("h+1", Settings(kind="hdfs", port=21000, redundancy="replica-3"), tmp_path)._files
    core, site = properties(files["core-site.xml"]), properties(files["hdfs-site.xml"])
    assert core["fs.defaultFS"] == "hdfs://127.0.0.1:21000" and core["hadoop.tmp.dir"] == f"{tmp_path}/h+1/tmp"
    assert site["dfs.replication"] == "3" and site["dfs.namenode.http-address"] == "127.0.0.1:21001"
    assert site["dfs.namenode.name.dir"] == f"file://{tmp_path}/h+1/data/namenode"
    assert not [v for v in (core | site).values() if "0.0.0.0" in v]


def test_daemons_have_separate_ports_and_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(install, "java", lambda: Path("/usr/bin/java"))
    s = store(tmp_path, servers=7)
    daemons = [s.daemon(n) for n in s.stages(["namenode-1"])[0]]
    assert [d.name for d in daemons] == ["namenode-1", *(f"datanode-{i}" for i in range(1, 8))]
    ports = [p for d in daemons for p in d.ports]
    assert len(set(ports)) == len(ports) == 23 and set(ports) <= set(range(21000, 21000 + HDFS.port_block))
    assert all(d.argv[1:] != e.argv[1:] for d in daemons for e in daemons if d is not e)
    other = store(tmp_path, servers=7, redundancy="none").daemon("datanode-1")
    assert other.argv != daemons[1].argv, "a daemon of other settings is not taken over"


def test_settings_that_cannot_be_are_refused(tmp_path):
    for servers, redundancy in ((1, "replica-2"), (2, "replica-3")):
        message = refusal(store(tmp_path, servers=servers, redundancy=redundancy).require)
        assert message.startswith("stores.h.servers: ") and f"DataNodes, but there are {servers};" in message
    check_refused("stores.h: ", "' '", store(tmp_path / "my data").up)


def test_missing_installation_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path / "tools"))
    assert "`storelab install hdfs`" in refusal(store(tmp_path).up)
    assert not (tmp_path / "h").exists()
    status = store(tmp_path).status()
    assert status.state == "down" and status.version == ""
    parts = HDFS.recipe(tmp_path / "tools")
    assert [p.present() for p in parts[1:]] == [False, False] and not (tmp_path / "tools").exists()


def test_pins_are_of_one_version_without_hosts():
    pom, sums = ((install.PINS / name).read_text() for name in ("pom.xml", "SHA256SUMS"))
    assert f"<hadoop.version>{install.HADOOP}</hadoop.version>" in pom
    jars = [line.split()[1] for line in sums.splitlines()]
    assert {f"hadoop-{n}-{install.HADOOP}.jar" for n in ("common", "hdfs", "hdfs-client")} <= set(jars)
    assert all(re.fullmatch(r"[0-9a-f]{64}  [\w.+-]+\.jar", line) for line in sums.splitlines())
    assert jars == sorted(jars)
    assert "repository" not in pom and re.findall(r"https?://[^\s\"<]*", pom) == ["http://maven.apache.org/POM/4.0.0"]


def test_jars_other_than_pinned_are_refused(tmp_path):
    (tmp_path / "a.jar").write_bytes(b"a")
    sums = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a.jar\n"
    install.verify(tmp_path, sums)
    for name, body in ("a.jar", b"b"), ("b.jar", b"a"):
        (tmp_path / name).write_bytes(body)
        with pytest.raises(MeasurementFailed, match=f"1 of 1 jars .*{name}"):
            install.verify(tmp_path, sums)
        (tmp_path / "a.jar").write_bytes(b"a")


def test_manifest_of_first_jar_names_all_others(tmp_path):
    sums = (install.PINS / "SHA256SUMS").read_text()
    install._name_all(tmp_path, sums)
    raw = zipfile.ZipFile(tmp_path / "hdfs.jar").read("META-INF/MANIFEST.MF")
    assert max(len(line) for line in raw.split(b"\r\n")) <= 70
    names = re.search(r"Class-Path: (.*)\r\n", raw.decode().replace("\r\n ", "")).group(1).split(" ")
    assert names == [line.split()[1] for line in sums.splitlines()]


def test_java_needs_a_usable_version(tmp_path, monkeypatch):
    monkeypatch.setattr(install, "JVMS", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    for version in ("11.0.2", "25.0.3", "21.0.1+12"):
        program = script(tmp_path / version / "bin" / "java", "")
        (tmp_path / version / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / version))
        assert install.java() == (program if version.startswith("21") else None)


def test_errors_of_webhdfs_keep_their_status():
    for status, exception, raised in (
        (404, "FileNotFoundException", FileNotFoundError),
        (403, "AccessControlException", PermissionError),
        (403, "SafeModeException", webhdfs.HdfsError),
        (502, None, webhdfs.HdfsError),
        (201, None, None),
    ):
        answer = requests.Response()
        body = f'{{"RemoteException": {{"exception": "{exception}", "message": "why\\nlong"}}}}'
        answer.status_code, answer._content = status, (body if exception else "<html>").encode()
        if raised is None:
            assert webhdfs.judged(answer).status_code == status
            continue
        with pytest.raises(raised, match=f"HTTP {status}") as caught:
            webhdfs.judged(answer)
        assert classify(caught.value) == (type(caught.value).__name__, status) and "long" not in str(caught.value)


def test_state_of_name_node(tmp_path, monkeypatch):
    """A block that is being written is pending for a moment; after a loss, pending copies are the recovery."""
    hdfs = store(tmp_path)
    assert hdfs.timeouts()["dfs.namenode.stale.datanode.interval"] == 3000

    def state(live=3, stale=0, dead=0, low=0, pending=0):
        counts = {"NumLiveDataNodes": live, "NumStaleDataNodes": stale, "NumDeadDataNodes": dead}
        counts |= {"LowRedundancyBlocks": low, "PendingReconstructionBlocks": pending}
        monkeypatch.setattr(hdfs, "_bean", lambda *_: counts)
        return hdfs.condition().state

    assert state() == state(pending=2) == state(pending=3) == "clean"
    assert state(stale=1) == state(live=2, dead=1, low=9) == "degraded"
    assert state(live=2, dead=1, low=7, pending=2) == state(live=2, dead=1, pending=1) == "recovering"
    assert state(live=2, dead=1) == "clean", "all copies are there again, on the remaining DataNodes"
    assert state(live=0, dead=3) == "down"
    monkeypatch.setattr(hdfs, "_bean", lambda *_: {})
    assert hdfs.condition().state == "down"
